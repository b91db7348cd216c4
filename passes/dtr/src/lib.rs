//! Dynamic Tensor Rematerialization: the core that a simulator, a planner and an online runtime share.
//!
//! DTR treats activations as a cache. Nothing is known of the future: when memory is full, the storage with the
//! smallest score is evicted, and when it is needed again, the call that made it runs again. [`Runtime`] is that
//! machine; a [`World`] carries out what it decides. [`simulate`] replays a [`Program`] (from a log, see
//! [`LogReader`], or built call by call, see [`Builder`]) and reproduces DTR's own simulator to the last digit.
//!
//! ```
//! use rk_dtr::{Baseline, Builder, Bytes, Heuristic, Nanos, Output, Policy, Status, Step, simulate};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut builder = Builder::new();
//! let mut tensor = builder.call(Nanos(1), &[], &[Output::Fresh(Bytes(4))])?;
//! for _ in 0..9 {
//!     tensor = builder.call(Nanos(1), &[tensor], &[Output::Fresh(Bytes(4))])?;
//! }
//! builder.step(Step::Pin(tensor))?;
//! let program = builder.finish();
//! let baseline = Baseline::of(&program);
//! let outcome = simulate(&program, &baseline.options(Heuristic::DTR_EQ, Policy::Eager, 0.5));
//! assert_eq!((outcome.status, outcome.counters.max_memory), (Status::Ok, Bytes(20)));
//! # Ok(())
//! # }
//! ```
//!
//! Source: Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021. Not here: files, clocks, torch, MLIR.
//! Everything is deterministic: random choices are seeded, and no result depends on the order of a hash map.

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod banish;
mod blocks;
mod components;
mod extend;
mod heuristic;
mod hybrid;
mod keep;
mod line;
mod log;
mod online;
mod pool;
mod program;
mod quotient;
mod record;
mod regions;
mod room;
mod runtime;
mod search;
mod segments;
mod simulate;
mod tables;
mod units;
mod waiting;
mod walks;
mod world;

pub use heuristic::{Heuristic, Numerator, Policy, UnknownHeuristic};
pub use line::Reason;
pub use log::{LogError, LogReader};
pub use program::{Builder, Call, Program, Step, TooLarge};
pub use record::LogWriter;
pub use runtime::Runtime;
pub use segments::SegmentCounters;
pub use simulate::{Baseline, Outcome, Status, replay, simulate};
pub use tables::Output;
pub use units::{Bytes, CallId, Nanos, StorageId, TensorId};
pub use world::{Counters, Locked, LockedSet, Online, Options, Run, Scan, Stop, World};
