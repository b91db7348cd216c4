//! Graphs, schedules, and the judge that alone says whether a schedule is legal and what it costs.
//!
//! A plan is a value: solvers (`rk-solve`) propose a [`Sequence`] of runs, [`judge`](fn@judge) decides, the rewriter obeys. One
//! graph, a residual block that keeps `norm` (4 KiB) for `add` or runs it a second time:
//!
//! ```
//! use rk_plan::{Bytes, GraphBuilder, NodeId, NodeSpec, OutputSpec, Schedule, Sequence, Time, judge, judge_schedule};
//!
//! let mut builder = GraphBuilder::new("block");
//! let mut made = Vec::new();
//! for (name, kib, reads) in [("norm", 4, vec![]), ("up", 8, vec![0]), ("down", 4, vec![1]), ("add", 4, vec![0, 2])] {
//!     let node = builder.add(NodeSpec {
//!         name: name.into(),
//!         time: Time(1),
//!         reads: reads.into_iter().map(|read: usize| made[read]).collect(),
//!         outputs: vec![OutputSpec { name: name.into(), bytes: Bytes(kib << 10), pinned: false }],
//!         ..NodeSpec::default()
//!     })?;
//!     made.extend(builder.output(node, 0));
//! }
//! let graph = builder.finish()?;
//!
//! let kept = judge(&graph, &Sequence::base(&graph))?;
//! assert_eq!((kept.peak, kept.time), (Bytes(16 << 10), Time(4)));
//!
//! let twice = Sequence([0, 1, 2, 0, 3].map(NodeId).into());
//! let trace = judge(&graph, &twice)?;
//! assert_eq!((trace.peak, trace.time), (Bytes(12 << 10), Time(5)));
//!
//! let schedule = Schedule::from_sequence(&graph, &twice)?; // the same with every drop written out
//! assert_eq!(judge_schedule(&graph, &schedule, Some(Bytes(12 << 10)))?, trace);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! **Invariants:** no MLIR, no torch, no solver, no file, no clock, no floating point, no unseeded randomness. Nothing
//! here can fail for reasons outside its arguments.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod arena;
pub mod base;
mod drops;
pub mod graph;
pub mod halves;
pub mod json;
pub mod judge;
pub mod schedule;
pub mod text;
pub mod transfer;
pub mod units;

pub use base::{base_trace, working_set};
pub use graph::{Graph, GraphBuilder, GraphError, Kind, Node, NodeSpec, OutputSpec, Value};
pub use halves::Halves;
pub use judge::{Fate, Illegal, Instance, Trace, judge, judge_schedule, may_overwrite};
pub use schedule::{Schedule, Sequence, Step};
pub use transfer::{Direction, Engine, Host, Transfer, TransferTrace, Unlawful, judge_transfers};
pub use units::{Budget, BudgetError, Bytes, NodeId, Time, ValueId, readable};
