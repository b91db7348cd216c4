//! Generated kernels in a step file: machine code, and how a node is launched with it.
//!
//! The code is what `rk-kernels` makes: for the CPU one shared object, in hexadecimal, for a GPU the text of one PTX module per
//! kernel, which its driver compiles. A node with a kernel still has its ATen calls, and `rk-run --kernels off` uses them (on the
//! CPU both compute the same bits, unless the kernel says how near it is). Its planned workspace is that of the kernel, which has no
//! intermediates.
//!
//! Not here: what makes them fit their nodes ([`crate::kernel`]), loading and calling (see `rk-runtime`).

use serde::{Deserialize, Serialize};

use super::{Run, Slot, TensorSpec};

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
