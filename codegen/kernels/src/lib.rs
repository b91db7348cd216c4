//! Generated kernels: a pointwise node, with a sum at its end or none, becomes one loop nest, as machine code for the CPU or as PTX.
//!
//! What a node computes is read by [`rk_dialect::pointwise`], whose documentation has the numerics. Here it is written as
//! `linalg.generic` over strided memrefs and lowered by MLIR's own passes:
//!
//! | module | what it makes |
//! |---|---|
//! | `scalar` | the body of the `linalg.generic`: arith and math on one element |
//! | `elementary` | exp and tanh in f32 as arithmetic |
//! | [`emit`] | the operands, indexing maps and the function around it |
//! | `reduce` | the loops of a kernel that ends in a sum, instead of `linalg.generic` |
//! | `rows` | the loops of a kernel that goes over each row several times |
//! | [`cpu`] | linalg, loops, LLVM, an object file, a shared object that needs no MLIR to be loaded |
//! | [`cuda`] | linalg, parallel loops, gpu, NVVM, PTX |
//! | `mlir`, `llvm` | contexts and pipelines; the few functions of LLVM's C API |
//!
//! # The interface of a kernel
//! On the CPU: `void kernel(void *const *buffers, int64_t begin, int64_t end)` runs rows `begin..end` of the outermost
//! dimension, so that a caller may divide the rows among threads. `buffers` are the addresses of the storages that
//! [`Signature::buffers`] lists, in that order. On CUDA every buffer is one parameter, and [`cuda::Ptx`] has the grid.
//!
//! **Absent here:** decisions (a node is marked by `--rk-fuse`), execution (`rk-runtime`), torch.

#![warn(missing_docs)]

pub mod cpu;
pub mod cuda;
mod elementary;
pub mod emit;
mod llvm;
mod mlir;
mod reduce;
mod rows;
mod scalar;

pub use emit::{Buffer, Signature};

/// Why a kernel could not be made.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A pass of MLIR refused what was generated: a bug in rk.
    #[error("MLIR refuses the generated kernel, a bug in rk: {0}")]
    Mlir(String),
    /// LLVM has no such target, or cannot emit code for it.
    #[error("LLVM: {0}")]
    Llvm(String),
    /// The system linker failed or is missing.
    #[error("cannot link the kernels: {0}")]
    Link(String),
    /// The kernel does not fit what a launch can express.
    #[error("{0}")]
    Unsupported(String),
}
