//! Code for the nodes that `--rk-fuse` marked: one library per step, one function per distinct kernel. For the CPU that is machine
//! code, for CUDA PTX with the threads of each launch.
//!
//! Nodes of equal blocks compute the same, so a step of many layers has few kernels: the text of a kernel without its name decides
//! whether it is there already.

use std::collections::HashMap;
use std::path::PathBuf;

use rk_dialect::Op;
use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{self, NodeOp};
use rk_dialect::pointwise::Elementwise;
use rk_kernels::cpu::{self, Request};
use rk_kernels::cuda::{self, Chip};
use rk_kernels::{Buffer, KernelError, Signature};
use rk_step::Step;
use rk_step::kernel::{self, Geometry, Kernel, Launch, Library, Nearness};

use crate::body;

/// Generates kernels for the marked nodes of a step and adds them to it.
///
/// # Errors
/// A marked node that is not pointwise, or one in a step for CUDA that is not lowered; what MLIR, LLVM or the linker refuse, at the step.
pub fn add<'c>(step: &mut Step, module: Op<'c>) -> Result<(), Diagnostic<'c>> {
    let nodes = ops::nodes_by_symbol(module);
    let mut marked: Vec<(usize, NodeOp<'c>, Elementwise)> = Vec::new();
    for (index, made) in step.nodes.iter().enumerate() {
        let Some((_, node)) = nodes.get(made.name.as_str()) else { continue };
        if !node.has_kernel() {
            continue;
        }
        if step.device != "cpu" && step.layout.is_none() {
            // The launch sequence of a lowered step is what queues kernels on a stream.
            let message = format!(
                "'@{}' is fused, and only a lowered step has kernels for {}; run --rk-lower",
                node.symbol(),
                step.device
            );
            return Err(Diagnostic::error(node.op().location(), message));
        }
        let elementwise = Elementwise::of(*node).map_err(|reason| {
            let message = format!(
                "'@{}' is marked rk.kernel, but no kernel can be made of it: {reason}",
                node.symbol()
            );
            Diagnostic::error(node.op().location(), message)
        })?;
        // Nothing to launch: the calls make the tensors without elements.
        if elementwise.elements() > 0 || step.device == "cpu" {
            marked.push((index, *node, elementwise));
        }
    }
    let chip = step.layout.as_ref().map(|layout| chip(layout.chip.as_deref()));
    let mut library = Code { target: chip.filter(|_| step.device != "cpu"), ..Code::default() };
    for (index, node, elementwise) in &marked {
        let tensors = |types: Vec<rk_dialect::Type<'c>>| {
            types.into_iter().map(|ty| body::spec(ty, node.op().location())).collect::<Result<Vec<_>, _>>()
        };
        let refused = |error: KernelError| Diagnostic::error(node.op().location(), error.to_string());
        let aside = library.launch(elementwise, None).map_err(refused)?;
        let in_place = node.overwrites().map(|input| library.launch(elementwise, Some(input)));
        let signature = Signature::of(elementwise, None);
        step.nodes[*index].kernel = Some(Kernel {
            aside,
            in_place: in_place.transpose().map_err(refused)?,
            inputs: tensors(node.inputs())?,
            outputs: tensors(node.outputs())?,
            rows: signature.rows.unsigned_abs(),
            row_elements: signature.row_elements.unsigned_abs(),
            nearness: (!elementwise.is_exact())
                .then(|| Nearness { ulps: elementwise.ulps(), terms: elementwise.terms() }),
        });
    }
    if !marked.is_empty() {
        let made = library.finish();
        step.library = Some(made.map_err(|error| Diagnostic::error(module.location(), error.to_string()))?);
    }
    Ok(())
}

/// For which of the GPUs that code can be made for, given the one that the step was lowered for.
fn chip(name: Option<&str>) -> Chip {
    let number = name.and_then(|name| name.strip_prefix("sm_")?.parse::<u32>().ok());
    if number.is_some_and(|number| number < 90) { Chip::Sm80 } else { Chip::Sm90 }
}

/// libdevice, for kernels with exp and the like: `RK_LIBDEVICE`, or that of the triton wheel beside torch.
fn libdevice() -> Option<PathBuf> {
    let named = std::env::var_os("RK_LIBDEVICE").map(PathBuf::from);
    let beside = || {
        let torch = PathBuf::from(std::env::var_os("LIBTORCH")?).canonicalize().ok()?;
        Some(torch.parent()?.join("triton/backends/nvidia/lib/libdevice.10.bc"))
    };
    named.or_else(beside).filter(|path| path.exists())
}

/// The library to be made.
#[derive(Default)]
struct Code<'a> {
    /// `None`: the CPU.
    target: Option<Chip>,
    requests: Vec<Request<'a>>,
    ptx: Vec<kernel::Ptx>,
    /// Launches by the text of their kernels without a name.
    known: HashMap<String, Launch>,
}

impl<'a> Code<'a> {
    /// A launch of this kernel, which is made unless it is there already.
    fn launch(&mut self, body: &'a Elementwise, overwrites: Option<usize>) -> Result<Launch, KernelError> {
        let nameless = match self.target {
            None => cpu::function(&Request { symbol: "k".into(), body, overwrites }),
            Some(_) => cuda::function(body, overwrites, "k")?,
        };
        if let Some(known) = self.known.get(&nameless) {
            return Ok(known.clone());
        }
        let symbol = format!("rk_kernel_{}", self.known.len());
        let buffers = Signature::of(body, overwrites).buffers;
        let buffer = |buffer: Buffer| match buffer {
            Buffer::Input(index) => kernel::Buffer::Input(index as u32),
            Buffer::Output(index) => kernel::Buffer::Output(index as u32),
        };
        let launch = match self.target {
            None => {
                self.requests.push(Request { symbol: symbol.clone(), body, overwrites });
                Launch { symbol, buffers: buffers.into_iter().map(buffer).collect(), geometry: None }
            }
            Some(chip) => {
                let library = cuda::calls_libdevice(body).then(libdevice).flatten();
                let made = cuda::ptx(body, overwrites, &symbol, chip, library.as_deref())?;
                let three =
                    |numbers: [i64; 3]| numbers.map(|number| u32::try_from(number).unwrap_or(u32::MAX));
                self.ptx.push(kernel::Ptx { symbol: made.entry.clone(), text: made.text });
                Launch {
                    symbol: made.entry,
                    buffers: made.parameters.into_iter().map(|index| buffer(buffers[index])).collect(),
                    geometry: Some(Geometry { grid: three(made.grid), block: three(made.block) }),
                }
            }
        };
        self.known.insert(nameless, launch.clone());
        Ok(launch)
    }

    fn finish(self) -> Result<Library, KernelError> {
        let Some(chip) = self.target else {
            let elf = hex::encode(cpu::library(&self.requests)?);
            return Ok(Library { level: cpu::LEVEL.to_owned(), elf, ptx: vec![] });
        };
        Ok(Library { level: chip.name().to_owned(), elf: String::new(), ptx: self.ptx })
    }
}
