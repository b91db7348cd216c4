//! libtorch from Rust: the `tch` crate for tensors, and one C++ shim for what tch lacks.
//!
//! What the shim adds: operators by name through the boxed dispatcher ([`Operator`]), calls whose arguments are
//! converted once ([`Prepared`]), a counting allocator ([`memory`]), generator state ([`Device`]), archives of
//! `torch.jit.trace`, and the recording of a training step. `cc/shim.h` lists every symbol that crosses the
//! border; each catches all exceptions, so errors arrive here as [`Error`].
//!
//! Not here: MLIR, plans, any decision. The frontend turns recordings into IR, the runtime executes steps; both
//! share this crate because torch should be behind one door.

mod device;
mod error;
mod ffi;
pub mod memory;
mod operator;
mod prepared;
mod value;

pub use device::{Device, set_threads, threads};
pub use error::{Error, Result};
pub use operator::Operator;
pub use prepared::{Prepared, Slots};
pub use value::Value;
// The runtime and the frontend use the same tensors.
pub use tch;
