//! Equal blocks of a step: which compute the same, and which cost the same.
//!
//! Deep networks repeat themselves. The forward pass is cut into blocks ([`chain`]), backward nodes are tied to them
//! ([`ties`]), every block becomes terms over anonymized arguments ([`lower`], [`term`]), and one e-graph for all of them is
//! saturated ([`saturate`]) with rules that change no bit ([`rules`], [`views`]). Blocks whose results are equal e-class by
//! e-class are one class ([`blocks`]). A second e-graph with blunter terms and other rules knows which blocks and nodes cost
//! the same; nothing that shares code reads it.
//!
//! *Soundness.* The same operator with the same constants, dtypes, strides and flags on equal operands gives equal
//! results: that is congruence, and all that the e-graph knows apart from the rules. Random operators are threaded through the
//! state of the generator, so two draws are never one value, and blocks are equal only if they draw the same numbers in
//! the same order. What a block does to buffers leaves it like any result.
//!
//! *Comparison.* rk-GB renames variables and compares texts (`Block::spelling` here); that finds syntactic twins only.
//!
//! `--rk-anonymize` gives equal blocks one symbol, and `--rk-annotate-cost` gives nodes of one class one time. Measuring, the solver `classes` and
//! kernels recognise what is equal by keys of their own, which are cheaper and see less.
//!
//! **Absent here:** MLIR, torch, files. The pass `--rk-anonymize` reads the IR into a [`Step`] and writes the classes back.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

pub mod blocks;
pub mod chain;
pub mod lower;
mod names;
pub mod report;
pub mod rules;
pub mod saturate;
pub mod step;
mod tandem;
pub mod term;
pub mod ties;
pub mod views;

pub use blocks::{Block, Blocks, ClassId, Group, compare, find};
pub use lower::{Relation, Scope};
pub use step::{Arg, Call, Malformed, Node, Operator, Role, Source, Step, StepBuilder, Ty};
