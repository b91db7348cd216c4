//! Traces of PyTorch to rk's IR: a `torch.jit.trace` archive in, the text of stage `raw` out.
//!
//! The archive holds the forward only. [`import`] runs the step once, forward, loss and backward, under the
//! recorder of rk-torch, and prints what was recorded: every ATen operator in execution order, with types,
//! aliases, writes, module paths and costs (`docs/ir.md`, stage raw).
//!
//! Not here: MLIR. The text is printed, not built, so that the importer also runs where no LLVM is installed;
//! the dialect's parser checks it. Nothing is simplified either: what ran is what is printed.

mod import;
mod literal;
mod print;
mod roofline;
mod spelling;

pub use import::{ImportOptions, Imported, InputSource, import};
pub use rk_torch::{Device, Error, ErrorKind, InputSpec, LossSpec, Result, Timing};
