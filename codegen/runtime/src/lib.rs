//! Executes a step through libtorch, on the machine where it will train: no MLIR, no planner.
//!
//! | module | what it does |
//! |---|---|
//! | [`executor`] | runs the program and measures its peak |
//! | `execution` | one execution: segments in some order, with what they take |
//! | `cuda` | the GPU side: kernels, events, graphs |
//! | `on_gpu` | an execution whose launches are queued on streams |
//! | `prepare` | turns the program into prepared calls, once |
//! | [`split_step`] | a step in somebody else's program, who interrupts it for the loss |
//! | [`arguments`] | whether tensors are what a step was made for |
//! | `placed` | turns the addresses of a lowered step into launches of an arena |
//! | `streams` | the streams of a lowered step, emulated in any order that their events allow |
//! | [`tensors`] | makes arguments and constants from their description |
//! | [`eager`] | runs the step before the rewrite: the archive, with autograd |
//! | [`stepper`] | one interface for both |
//! | [`mod@compare`] | compares tensors bit by bit (S8) |
//! | [`check`] | trains both side by side and compares |
//! | [`measured`] | what a step took, and what its peak means |
//! | [`rounds`], [`timing`] | seconds per step, nanoseconds per node |
//! | [`archive`] | finds the archive of a step |
//! | [`session`] | all of it, as `rk-run` needs it |
//!
//! Not here: decisions about what to keep or run again.

mod action;
pub mod archive;
pub mod arguments;
pub mod check;
pub mod compare;
mod cuda;
pub mod eager;
mod error;
mod execution;
pub mod executor;
mod kernels;
pub mod measured;
mod on_gpu;
mod placed;
mod prepare;
pub mod rounds;
pub mod session;
pub mod split_step;
pub mod stepper;
mod streams;
pub mod tensors;
pub mod timing;

pub use error::RuntimeError;
pub use executor::Executor;
pub use measured::{Excess, Measured, Queueing};
pub use session::{Check, Options, Report};
pub use split_step::SplitStep;
