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
//! | [`validate`] | every index and the laws S1–S5 as far as a file can show them |
//! | [`origin`] | which node first made a value; the schedule without rematerialization |
//! | [`layout`] | addresses of a lowered step, and their check (S7) |
//! | [`mod@spread`] | the step before the rewrite at addresses that nothing shares |
//! | [`sequence`] | what a lowered step queues: launches, streams, addresses, waits |
//! | [`queue`] | whatever has streams, and an emulation of it |
//! | [`mod@pieces`] | which launches a graph holds, and which are queued each time |
//! | [`mod@account`] | live bytes per instruction, by the rules of `docs/ir.md` |
//! | [`mod@explain`] | the program as text, one line per instruction |
//!
//! Not here: torch (see `rk-runtime`), MLIR (see `rk-codegen`), decisions of any kind.

pub mod account;
pub mod error;
pub mod explain;
pub mod file;
pub mod kernel;
pub mod layout;
pub mod model;
pub mod origin;
pub mod pieces;
pub mod queue;
pub mod sequence;
pub mod spread;
pub mod validate;
pub mod value;

pub use account::{Account, account};
pub use error::StepError;
pub use explain::explain;
pub use file::{FORMAT, VERSION, read, write};
pub use kernel::Nearness;
pub use layout::{Launch, Layout, Place, Space};
pub use model::{
    Arg, Call, Constant, Data, GENERATOR_BYTES, Instr, Local, Node, NodeId, NodeOutput, Output, OutputRole,
    Plan, Program, Role, Run, Slot, Source, Step, TensorSpec,
};
pub use origin::{Origin, original, origins};
pub use queue::Queue;
pub use rk_vocabulary::ElementType;
pub use sequence::Sequence;
pub use spread::spread;
pub use value::ArgValue;
