//! Who carries out what the runtime decides, what the runtime obeys, and why it stops.
//!
//! Idea: the runtime keeps books and decides, and everything that touches values goes through [`World`]. The
//! simulator's world is `()`, which does nothing and believes the costs it is told; a planner's world writes the runs
//! and drops down; an online world launches kernels and returns measured times.
//! Not here: the decisions (see `runtime`, `search`).

use crate::heuristic::{Heuristic, Policy};
use crate::units::{Bytes, CallId, Nanos, StorageId, TensorId};
use std::convert::Infallible;
use std::fmt;

/// One run of a call, as the world is told of it.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// The call.
    pub call: CallId,
    /// What it reads, with repetitions. All of it has values.
    pub args: &'a [TensorId],
    /// The first of its outputs; the others follow.
    pub first_output: TensorId,
    /// How many outputs there are. Those that have a value already are computed twice: the second copy is dropped.
    pub outputs: usize,
    /// Those that came later, see [`crate::Runtime::extend`].
    pub joined: &'a [TensorId],
    /// Whether this is a recomputation.
    pub again: bool,
    /// The time known for the call.
    pub expected: Nanos,
}

/// Who carries out what the runtime decides.
pub trait World {
    /// Why a call could not run.
    type Error;

    /// Runs a call and returns how long it took.
    ///
    /// # Errors
    /// Handed on by whatever entry of the runtime needed the run.
    fn run(&mut self, run: &Run<'_>) -> Result<Nanos, Self::Error>;

    /// Frees a storage with all its views.
    fn evict(&mut self, storage: StorageId, tensors: impl Iterator<Item = TensorId>);

    /// Nobody will ask for the call again, nor for its outputs: their ids may be given to others. Called by runtimes that
    /// forget (see [`Online::forget`]), after the values are gone.
    fn forget(&mut self, call: CallId, outputs: impl Iterator<Item = TensorId>) {
        let _ = (call, outputs);
    }
}

/// The world of the simulator: every call takes the time it is expected to take.
impl World for () {
    type Error = Infallible;

    fn run(&mut self, run: &Run<'_>) -> Result<Nanos, Infallible> {
        Ok(run.expected)
    }

    fn evict(&mut self, _: StorageId, _: impl Iterator<Item = TensorId>) {}
}

/// How a search goes through the pool. The victim and the number of evaluations are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Scan {
    /// Exact scores only where a lower bound does not settle the matter.
    #[default]
    Pruned,
    /// An exact score for every storage; counts accesses as the reference does.
    Full,
}

/// What a runtime obeys.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Which storage goes first.
    pub heuristic: Heuristic,
    /// What happens when the last reference is dropped.
    pub policy: Policy,
    /// What the storages in memory may add up to.
    pub budget: Bytes,
    /// More recomputation than this counts as thrashing.
    pub remat_limit: Nanos,
    /// How the pool is searched.
    pub scan: Scan,
    /// Used by random heuristics only.
    pub seed: u64,
    /// Where an online runtime differs from the simulator.
    pub online: Online,
}

/// The switches between the simulator (all off, the default) and an online runtime.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Online {
    /// Calls that nobody can need again are forgotten, and their ids given to others: a run of any length needs the
    /// tables of what lives at a time. The simulator remembers them, and they count in its scores.
    pub forget: bool,
    /// When everything in memory is locked or pinned, a call may pass the budget by its own outputs, or by as much as the
    /// largest storage takes that is locked for it: by the outputs of one call. Without this it is out of memory.
    pub overshoot: bool,
    /// The time of a call is the shortest ever measured, not that of its first run.
    pub learn: bool,
    /// Recurring segments are planned once and weighed as a whole; see [`crate::Runtime::observe`] and
    /// [`Heuristic::weighs_segments`].
    pub segments: bool,
}

impl Online {
    /// All switches on but segments.
    pub const ON: Self = Self { forget: true, overshoot: true, learn: true, segments: false };
}

/// A storage that cannot be evicted at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Locked {
    /// Which.
    pub storage: StorageId,
    /// The first of its tensors.
    pub tensor: TensorId,
    /// Its size.
    pub bytes: Bytes,
    /// For good, or by a call that waits for its other arguments.
    pub pinned: bool,
}

/// How many of the locked storages an error names.
const NAMED: usize = 8;

/// What stands in the way of a call: everything in memory, since all that is not locked was evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LockedSet {
    /// The largest, largest first.
    pub largest: Vec<Locked>,
    /// How many there are.
    pub count: usize,
    /// How many of them are pinned.
    pub pinned: usize,
    /// Bytes of those that are pinned.
    pub pinned_bytes: Bytes,
}

impl LockedSet {
    pub(crate) fn new(locked: impl Iterator<Item = Locked>) -> Self {
        let mut set = Self { largest: locked.collect(), ..Self::default() };
        set.count = set.largest.len();
        for pinned in set.largest.iter().filter(|l| l.pinned) {
            set.pinned += 1;
            set.pinned_bytes.0 += pinned.bytes.0;
        }
        set.largest.sort_by_key(|l| (std::cmp::Reverse(l.bytes), l.storage));
        set.largest.truncate(NAMED);
        set
    }
}

impl fmt::Display for LockedSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} storages, {} of them pinned ({})", self.count, self.pinned, self.pinned_bytes)?;
        for (place, Locked { storage, bytes, pinned, .. }) in self.largest.iter().enumerate() {
            let (start, how) =
                (if place == 0 { "; the largest: " } else { ", " }, if *pinned { " pinned" } else { "" });
            write!(f, "{start}#{} of {bytes}{how}", storage.index())?;
        }
        Ok(())
    }
}

/// Why a runtime stopped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop<E = Infallible> {
    /// A call needs more than the budget leaves, and nothing can be evicted.
    #[error("out of memory: {wanted} wanted with {in_use} in use and a budget of {budget}; locked: {locked}")]
    OutOfMemory {
        /// The outputs of the call.
        wanted: Bytes,
        /// What is in memory.
        in_use: Bytes,
        /// What may be in memory.
        budget: Bytes,
        /// What is in memory, by storage.
        locked: Box<LockedSet>,
    },
    /// Recomputation passed its limit.
    #[error("thrashing: {spent} of recomputation, more than {limit}")]
    Thrashed {
        /// Time spent on recomputation so far.
        spent: Nanos,
        /// The limit.
        limit: Nanos,
    },
    /// The world could not run a call.
    #[error("{0}")]
    World(E),
}

/// The state of the books.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Starts at 1 ns and advances by what the calls take.
    pub clock: Nanos,
    /// Time of first runs.
    pub model: Nanos,
    /// Time of recomputation.
    pub remat: Nanos,
    /// What is in memory now.
    pub memory: Bytes,
    /// The most that was, counting both copies of what one call computes twice.
    pub max_memory: Bytes,
    /// Scores computed, or skipped by a bound where a full scan would compute them.
    pub evals: u64,
    /// Evictions.
    pub evictions: u64,
    /// Recomputations.
    pub reruns: u64,
}
