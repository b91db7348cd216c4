//! Machine code for the nodes that `--rk-fuse` marked: one library per step, one function per distinct kernel.
//!
//! Nodes of equal blocks compute the same, so a step of many layers has few kernels: the text of a kernel without its name decides
//! whether it is there already.

use std::collections::HashMap;

use rk_dialect::Op;
use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{self, NodeOp};
use rk_dialect::pointwise::Elementwise;
use rk_kernels::cpu::{self, Request};
use rk_kernels::{Buffer, Signature};
use rk_step::Step;
use rk_step::kernel::{self, Kernel, Launch, Library};

use crate::body;

/// Generates kernels for the marked nodes of a step and adds them to it.
///
/// # Errors
/// A marked node in a step for CUDA, whose executor is to come, or one that is not pointwise; what MLIR, LLVM or the linker refuse, at the step.
pub fn add<'c>(step: &mut Step, module: Op<'c>) -> Result<(), Diagnostic<'c>> {
    let nodes = ops::nodes_by_symbol(module);
    let mut marked: Vec<(usize, NodeOp<'c>, Elementwise)> = Vec::new();
    for (index, made) in step.nodes.iter().enumerate() {
        let Some((_, node)) = nodes.get(made.name.as_str()) else { continue };
        if node.op().get("rk.kernel").is_none() {
            continue;
        }
        if step.device != "cpu" {
            // Its plan counts on a kernel without intermediates, so the calls would exceed it.
            let message = format!(
                "'@{}' is fused, but a step for {} has no generated kernels yet",
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
        marked.push((index, *node, elementwise));
    }
    let mut library = Requests::default();
    for (index, node, elementwise) in &marked {
        let tensors = |types: Vec<rk_dialect::Type<'c>>| {
            types.into_iter().map(|ty| body::spec(ty, node.op().location())).collect::<Result<Vec<_>, _>>()
        };
        let signature = Signature::of(elementwise, None);
        step.nodes[*index].kernel = Some(Kernel {
            aside: library.launch(elementwise, None),
            in_place: node.overwrites().map(|input| library.launch(elementwise, Some(input))),
            inputs: tensors(node.inputs())?,
            outputs: tensors(node.outputs())?,
            rows: signature.rows.unsigned_abs(),
            row_elements: signature.row_elements.unsigned_abs(),
        });
    }
    if !library.requests.is_empty() {
        let made = cpu::library(&library.requests)
            .map_err(|error| Diagnostic::error(module.location(), error.to_string()))?;
        let elf = made.iter().map(|byte| format!("{byte:02x}")).collect();
        step.library = Some(Library { level: cpu::LEVEL.to_owned(), elf });
    }
    Ok(())
}

/// The functions of the library to be made.
#[derive(Default)]
struct Requests<'a> {
    requests: Vec<Request<'a>>,
    symbols: HashMap<String, String>,
}

impl<'a> Requests<'a> {
    /// A launch of this kernel, which is requested unless it is already.
    fn launch(&mut self, body: &'a Elementwise, overwrites: Option<usize>) -> Launch {
        let nameless = cpu::function(&Request { symbol: "k".into(), body, overwrites });
        let next = format!("rk_kernel_{}", self.symbols.len());
        let symbol = self.symbols.entry(nameless).or_insert_with(|| {
            self.requests.push(Request { symbol: next.clone(), body, overwrites });
            next
        });
        let buffers = Signature::of(body, overwrites).buffers.into_iter().map(|buffer| match buffer {
            Buffer::Input(index) => kernel::Buffer::Input(index as u32),
            Buffer::Output(index) => kernel::Buffer::Output(index as u32),
        });
        Launch { symbol: symbol.clone(), buffers: buffers.collect() }
    }
}
