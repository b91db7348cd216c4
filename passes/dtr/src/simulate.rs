//! The simulator: a program, a heuristic and a budget give a status and four numbers, always the same.
//!
//! Idea: it only walks the steps; the runtime does the rest in the world that does nothing. `replay` takes any
//! world, so a planner records the runs and evictions of a simulated budget through the same door.
//! Source: docs/design/dtr.md, section 8 (baseline, statuses). Not here: files and formats (see `log`).

use crate::heuristic::{Heuristic, Policy};
use crate::program::{Program, Step};
use crate::runtime::Runtime;
use crate::segments::SegmentCounters;
use crate::units::{Bytes, Nanos};
use crate::world::{Counters, Online, Options, Scan, Stop, World};
use std::fmt;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// All steps were made.
    Ok,
    /// A call did not fit and nothing could be evicted.
    OutOfMemory,
    /// Recomputation took longer than the whole baseline.
    Thrashed,
}

impl Status {
    /// The name as the command line spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OutOfMemory => "oom",
            Self::Thrashed => "thrashed",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How a run ended and what stood in the books then; after a failure, at the moment of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How it ended.
    pub status: Status,
    /// The books.
    pub counters: Counters,
    /// Metadata accesses by the reference's count; complete after a full scan only.
    pub accesses: u64,
    /// What was recognised, if segments were looked for.
    pub segments: Option<SegmentCounters>,
}

/// What ratios refer to: the program without any limit, every value freed for ever when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// The most that is in memory.
    pub peak: Bytes,
    /// The sum of all costs.
    pub compute: Nanos,
}

impl Baseline {
    /// Runs the program under banishing with no limit.
    pub fn of(program: &Program) -> Self {
        let options = Options {
            heuristic: Heuristic::LRU,
            policy: Policy::Banish,
            budget: Bytes::UNLIMITED,
            remat_limit: Nanos::UNLIMITED,
            scan: Scan::Pruned,
            seed: 0,
            online: Online::default(),
        };
        let counters = simulate(program, &options).counters;
        Self { peak: counters.max_memory, compute: counters.model }
    }

    /// The budget at this ratio of the peak. One rounding when the peak becomes a float, one in the product.
    pub fn budget(&self, ratio: f64) -> Bytes {
        Bytes((self.peak.0 as f64 * ratio).floor() as u64)
    }

    /// Time over the baseline's time; `None` if the baseline takes no time.
    pub fn overhead(&self, clock: Nanos) -> Option<f64> {
        (self.compute.0 != 0).then(|| clock.0 as f64 / self.compute.0 as f64)
    }

    /// Options as the experiments use them: recomputation may take as long as the baseline.
    pub fn options(&self, heuristic: Heuristic, policy: Policy, ratio: f64) -> Options {
        let budget = self.budget(ratio);
        Options {
            heuristic,
            policy,
            budget,
            remat_limit: self.compute,
            scan: Scan::Pruned,
            seed: 0,
            online: Online::default(),
        }
    }
}

/// Runs the program to its end or to its failure.
///
/// # Panics
/// If the policy does not support the heuristic: ask [`Policy::supports`] first.
pub fn simulate(program: &Program, options: &Options) -> Outcome {
    let mut runtime = Runtime::new(*options, ());
    let status = match replay(program, &mut runtime) {
        Ok(()) => Status::Ok,
        Err(Stop::OutOfMemory { .. }) => Status::OutOfMemory,
        Err(Stop::Thrashed { .. }) => Status::Thrashed,
        Err(Stop::World(never)) => match never {},
    };
    Outcome {
        status,
        counters: runtime.counters(),
        accesses: runtime.accesses(),
        segments: runtime.segments(),
    }
}

/// Walks the steps of a program through a fresh runtime.
///
/// # Errors
/// [`Stop`], as the runtime says.
pub fn replay<W: World>(program: &Program, runtime: &mut Runtime<W>) -> Result<(), Stop<W::Error>> {
    for &step in program.steps() {
        match step {
            Step::Compute(id) => {
                let call = program.call(id);
                let linked = runtime.link(call.cost, call.args, call.outputs);
                runtime.compute(linked)?;
                if !(call.args.is_empty() && call.cost == Nanos(0)) {
                    runtime.observe(linked, u64::from(call.operator));
                }
            }
            Step::Get(tensor) => runtime.get(tensor),
            Step::Pin(tensor) => runtime.pin(tensor)?,
            Step::Release(tensor) => runtime.release(tensor)?,
        }
    }
    Ok(())
}
