//! The MLIR dialect rk: ops, stages, verifiers, and a Rust API for those who write passes over it.
//!
//! `td/` defines ops, attributes and types; `td/Dialect.td` states the stages and the laws S1 to S12, once. `cc/` is the
//! little that must be C++, and `cc/shim.h` lists every symbol that crosses the border. Everything else is here:
//!
//! | module | holds |
//! |---|---|
//! | [`ops`] | typed views: [`ops::AtenOp`], [`ops::NodeOp`], [`ops::RunOp`], [`ops::StepOp`], ... |
//! | [`create`] | functions that make ops |
//! | [`attrs`], [`types`] | stages, costs, ATen arguments; sizes, strides and bytes |
//! | [`diagnostic`], [`names`] | errors with notes, in the user's names |
//! | [`pass`] | passes with options, and an example of one |
//! | [`summary`], [`recorded`], [`blocks`] | what a step says of its plan and its blocks, and a module of its recording: by name and type |
//! | [`pointwise`] | pointwise operators as scalar functions; nodes as one loop over elements |
//! | [`transfers`] | what moves between device and host memory, and what each value is a copy of |
//! | `verify`, `verify_transfers`, `verify_lowered` | one function per law, over `schedule` and over addresses |
//! | `verify_ops`, `verify_attrs` | each op by itself; attributes on functions |
//! | `raw` | the handles, and all `unsafe`; read its rules before you keep one |
//!
//! **Absent here:** torch, plans, solvers. This crate knows what a legal schedule looks like, not which one is good.

#![deny(unsafe_code)]
#![warn(missing_docs)]

pub mod attrs;
pub mod blocks;
pub mod create;
pub mod diagnostic;
pub mod loans;
pub mod names;
pub mod ops;
mod panics;
pub mod pass;
pub mod pointwise;
#[allow(unsafe_code)]
mod raw;
pub mod recorded;
mod schedule;
mod step;
pub mod summary;
pub mod transfers;
mod typed;
pub mod types;
mod verify;
mod verify_attrs;
mod verify_lowered;
mod verify_ops;
mod verify_transfers;
mod view;

pub use attrs::{Arg, Cost, Stage};
pub use raw::{
    At, Attr, Block, Context, Ctx, DenseBytes, Eraser, Location, Module, NewOp, Op, Region, Type, Use, Value,
};
pub use raw::{insert_dialect, kernel_registry, lsp_server_main, opt_main};
pub use recorded::Recorded;
pub use summary::PlanSummary;
pub use types::Tensor;
pub use verify_transfers::check as check_transfers;
