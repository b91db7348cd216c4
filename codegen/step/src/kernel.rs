//! Generated kernels in a step file: machine code, and how a node is launched with it.
//!
//! The code is what `rk-kernels` makes: for the CPU one shared object, in hexadecimal, for a GPU the text of one PTX module per
//! kernel, which its driver compiles. A node with a kernel still has its ATen calls, and `rk-run --kernels off` uses them (on the
//! CPU both compute the same bits, unless the kernel says how near it is). Its planned workspace is that of the kernel, which has no
//! intermediates.
//!
//! Not here: loading and calling (see `rk-runtime`).

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::model::{Node, Run, Slot, Step, TensorSpec};

/// The code of all kernels of a step: a shared object or PTX.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Library {
    /// The least processor that can run it, as LLVM and gcc name it (`x86-64-v3`), or CUDA (`sm_90`).
    pub level: String,
    /// A shared object, in hexadecimal; for the CPU.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub elf: String,
    /// Modules with one entry each; for CUDA.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ptx: Vec<Ptx>,
}

/// One kernel for a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ptx {
    /// Its entry.
    pub symbol: String,
    /// The module.
    pub text: String,
}

impl Library {
    /// The bytes of the shared object; what is no hexadecimal digit counts as 0 (`validate` refuses it).
    pub fn bytes(&self) -> Vec<u8> {
        let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
        self.elf.as_bytes().chunks_exact(2).map(|d| digit(d[0]) << 4 | digit(d[1])).collect()
    }
}

/// How a node runs as one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kernel {
    /// Makes all outputs afresh.
    pub aside: Launch,
    /// Writes output 0 to the storage of the input that the node overwrites; for nodes that overwrite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_place: Option<Launch>,
    /// The layouts that the code was made for.
    pub inputs: Vec<TensorSpec>,
    /// Of the outputs.
    pub outputs: Vec<TensorSpec>,
    /// Rows of the outermost dimension, which may be divided among threads.
    pub rows: u64,
    /// Elements of one row.
    pub row_elements: u64,
    /// How near its results are to those of the calls on the CPU; absent: the same bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearness: Option<Nearness>,
}

/// The stated distance of a kernel from its calls, of which the documentation of `rk_dialect::pointwise` has the bounds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nearness {
    /// The largest of a function of one element, in units in the last place.
    pub ulps: u32,
    /// Numbers in its longest sum, whose order is not that of the calls; 0 without one.
    pub terms: u64,
}

impl Kernel {
    /// The function that a run calls which does or does not overwrite.
    pub fn launch(&self, overwrite: bool) -> &Launch {
        self.in_place.as_ref().filter(|_| overwrite).unwrap_or(&self.aside)
    }
}

/// One function of the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// On the CPU `void symbol(void *const *buffers, int64_t begin, int64_t end)`; on CUDA every buffer is one parameter.
    pub symbol: String,
    /// Whose addresses it takes, in order.
    pub buffers: Vec<Buffer>,
    /// How many threads; on CUDA only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub geometry: Option<Geometry>,
}

/// The threads of a launch on a GPU, in x, y and z.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
}

/// A tensor of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Buffer {
    /// An input.
    Input(u32),
    /// An output.
    Output(u32),
}

impl Buffer {
    /// The slot that this is in a run. The indices of a valid step exist.
    pub fn slot(self, run: &Run) -> Slot {
        match self {
            Self::Input(index) => run.inputs[index as usize],
            Self::Output(index) => run.outputs[index as usize],
        }
    }
}

impl Step {
    /// How near the kernels of this step are to their calls, at worst; `None`: all of them make the same bits.
    pub fn nearness(&self) -> Option<Nearness> {
        let stated = self.nodes.iter().filter_map(|node| node.kernel.as_ref()?.nearness);
        stated.reduce(|a, b| Nearness { ulps: a.ulps.max(b.ulps), terms: a.terms.max(b.terms) })
    }

    /// The same step without generated kernels: every node runs its ATen calls. Addresses go, too: they were planned for the
    /// kernels, which have no intermediates.
    pub fn without_kernels(&self) -> Step {
        let mut step = self.clone();
        if step.library.take().is_some() {
            step.layout = None;
        }
        step.nodes.iter_mut().for_each(|node| node.kernel = None);
        step
    }
}

/// Checks the library and the kernel of every node.
pub(crate) fn validate(step: &Step) -> Result<(), Invalid> {
    let at = |place: &str, message: String| Err(Invalid { place: place.to_owned(), message });
    if let Some(library) = &step.library {
        let digits =
            library.elf.len().is_multiple_of(2) && library.elf.bytes().all(|b| b.is_ascii_hexdigit());
        match (step.device.starts_with("cuda"), library.ptx.is_empty()) {
            (false, true) if digits && library.elf.starts_with("7f454c46") => {}
            (false, true) => return at("library", "is no shared object in hexadecimal".into()),
            (true, false) if library.elf.is_empty() && library.level.starts_with("sm_") => {}
            _ => return at("library", format!("is not for {}", step.device)),
        }
    }
    for (index, node) in step.nodes.iter().enumerate() {
        let Some(kernel) = &node.kernel else { continue };
        let place = format!("nodes[{index}] {:?}: kernel", node.name);
        if let Err(message) = kernel_of(step, node, kernel) {
            return at(&place, message);
        }
    }
    Ok(())
}

fn kernel_of(step: &Step, node: &Node, kernel: &Kernel) -> Result<(), String> {
    let Some(library) = &step.library else { return Err("the step has no library".into()) };
    if kernel.inputs.len() != node.inputs as usize || kernel.outputs.len() != node.outputs.len() {
        return Err("has other inputs or outputs than the node".into());
    }
    let rows = kernel.rows.checked_mul(kernel.row_elements).filter(|&elements| elements <= i64::MAX as u64);
    if rows.is_none() {
        return Err("has too many rows".into());
    }
    if node.random || node.once || kernel.in_place.is_some() != node.overwrites.is_some() {
        return Err("does not fit what the node overwrites or draws".into());
    }
    let cuda = step.device.starts_with("cuda");
    for launch in std::iter::once(&kernel.aside).chain(&kernel.in_place) {
        if launch.symbol.is_empty() || launch.symbol.contains('\0') {
            return Err("has no symbol".into());
        }
        let threads = |of: &Geometry| {
            let block = of.block.iter().map(|&n| u64::from(n)).product::<u64>();
            of.grid.iter().all(|&n| n > 0) && (1..=1024).contains(&block)
        };
        if launch.geometry.is_some() != cuda || !launch.geometry.as_ref().is_none_or(threads) {
            return Err(format!("launches {:?} with threads that {} has not", launch.symbol, step.device));
        }
        if cuda && !library.ptx.iter().any(|one| one.symbol == launch.symbol) {
            return Err(format!("launches {:?}, which is not in the library", launch.symbol));
        }
        for buffer in &launch.buffers {
            let known = match buffer {
                Buffer::Input(index) => (*index as usize) < kernel.inputs.len(),
                Buffer::Output(index) => (*index as usize) < kernel.outputs.len(),
            };
            if !known {
                return Err(format!("launches {:?} with {buffer:?}, which the node has not", launch.symbol));
            }
        }
    }
    Ok(())
}
