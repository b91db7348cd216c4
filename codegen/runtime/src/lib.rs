//! Executes a step through libtorch, on the machine where it will train: no MLIR, no planner.
//!
//! | module | what it does |
//! |---|---|
//! | [`machine`] | runs the program and measures its peak |
//! | `prepare` | turns the program into prepared calls, once |
//! | [`tensors`] | makes arguments and constants from their description |
//! | [`compare`] | compares tensors bit by bit (S8) |
//!
//! Not here: decisions about what to keep or run again.

pub mod compare;
mod error;
pub mod machine;
mod prepare;
pub mod tensors;

pub use error::RuntimeError;
pub use machine::{Excess, Machine, Measured};
