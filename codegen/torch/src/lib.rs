//! libtorch from Rust: the `tch` crate for tensors, and one C++ shim for what tch lacks.
//!
//! What the shim adds: operators by name through the boxed dispatcher ([`Operator`]), calls whose arguments are
//! converted once ([`Prepared`]), a counting allocator ([`memory`]) that can place what it is asked for ([`Arena`]), generator state ([`Device`]), archives of
//! `torch.jit.trace` ([`Archive`]), their training step as eager runs it and its recording ([`EagerStep`]).
//! `cc/shim.h` lists every symbol that crosses the border; each catches all exceptions, so errors arrive here
//! as [`Error`].
//!
//! Not here: MLIR, plans, any decision. The frontend turns recordings into IR, the runtime executes steps; both
//! share this crate because torch should be behind one door.

mod archive;
mod arena;
mod bytes;
mod device;
mod element;
mod error;
mod ffi;
mod inputs;
mod launch;
pub mod memory;
mod operator;
mod prepared;
mod recording;
mod settings;
mod step;
mod streams;
mod value;
mod watch;

pub use archive::{Archive, Attribute, load_tensors};
pub use arena::{Arena, Counts, Place, Running};
pub use device::{Device, Parked, set_threads, threads};
pub use element::{element_of, element_of_code, kind};
pub use error::{Error, ErrorKind, Result};
pub use ffi::KernelFn;
pub use inputs::{InputSpec, on_device};
pub use launch::{Buffers, Launch};
pub use operator::Operator;
pub use prepared::{Prepared, Slots};
pub use recording::{
    Argument, ArgumentRole, Constant, RecordedOp, Recording, ResultRole, StepArgument, StepResult,
    TensorType, ValueNumber,
};
pub use rk_vocabulary::ElementType;
pub use settings::Settings;
pub use step::{EagerStep, LossSpec, StepResults, Timing};
pub use streams::Streams;
pub use value::Value;
pub use watch::Watch;

/// The version of libtorch whose headers this crate was compiled with, e.g. `2.11.0`.
pub fn torch_version() -> String {
    // SAFETY: a static string.
    unsafe { std::ffi::CStr::from_ptr(ffi::rk_torch_version()) }.to_string_lossy().into_owned()
}

// The runtime and the frontend use the same tensors.
pub use tch;
