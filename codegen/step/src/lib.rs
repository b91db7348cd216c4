//! The step file: what `rk-translate --to step` writes and `rk-run` reads.
//!
//! A step file is one training step as data: the arguments and constants it reads, the nodes (each a short list of
//! ATen calls), and the program (runs, second runs and drops in execution order). It holds no MLIR and needs no
//! MLIR to be read, so it travels to machines where only torch is installed.
//!
//! | module | what it holds |
//! |---|---|
//! | [`model`] | the types of the file, plain data |
//! | [`value`] | arguments of an ATen call, floats kept exactly |
//! | [`kernel`] | generated kernels: machine code and launches |
//! | [`mod@file`] | reading and writing, version and checksum, one clear line for a bad file |
//! | [`validate`] | whether a file makes sense: the form of all its parts, then the judge of `rk-plan` on its program |
//! | [`judged`] | a program before the judge, and what that says in the words of the file |
//! | [`origin`] | which node first made a value |
//! | [`mod@original`] | the schedule without rematerialization |
//! | [`layout`] | addresses of a lowered step, and their check (S7) |
//! | [`mod@disjoint_layout`] | the step before the rewrite at addresses that nothing shares |
//! | [`launch_schedule`] | what a lowered step queues: launches, streams, addresses, waits |
//! | [`queue`] | whatever has streams, and an emulation of it |
//! | [`mod@graph_segments`] | which launches a graph holds, and which are queued each time |
//! | [`mod@memory_account`] | live bytes per instruction, by the rules of `docs/ir.md` |
//! | [`mod@explain`] | the program as text, one line per instruction |
//!
//! Not here: torch (see `rk-runtime`), MLIR (see `rk-codegen`), decisions of any kind.

pub mod disjoint_layout;
pub mod error;
pub mod explain;
pub mod file;
pub mod graph_segments;
pub mod judged;
pub mod kernel;
pub mod launch_schedule;
pub mod layout;
pub mod memory_account;
pub mod model;
mod node_form;
pub mod origin;
pub mod original;
mod plan_graph;
mod program_form;
pub mod queue;
pub mod validate;
pub mod value;

pub use disjoint_layout::disjoint_layout;
pub use error::StepError;
pub use explain::explain;
pub use file::{FORMAT, VERSION, read, write};
pub use kernel::Nearness;
pub use launch_schedule::LaunchSchedule;
pub use layout::{Launch, Layout, Place, Space};
pub use memory_account::{MemoryAccount, memory_account};
pub use model::{
    Arg, Call, Constant, Data, GENERATOR_BYTES, Instr, Local, Node, NodeId, NodeOutput, Output, OutputRole,
    Plan, Program, Role, Run, Slot, Source, Step, TensorSpec,
};
pub use origin::{Origin, origins};
pub use original::original;
pub use queue::Queue;
pub use rk_vocabulary::ElementType;
pub use value::ArgValue;
