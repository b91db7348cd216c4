//! What a caller asks and what it gets.

use std::time::Duration;

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, Trace};

use crate::solver::Solver;

/// One planning problem.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The step.
    pub graph: &'a Graph,
    /// The bytes that the peak may reach.
    pub budget: Bytes,
    /// Who shall solve it.
    pub solver: Solver,
    /// The wall clock time after which the best plan so far is returned.
    pub time_limit: Duration,
    /// The same seed gives the same plan, if the time suffices both times.
    pub seed: u64,
    /// How many threads may compute. One is enough for everything; more run independent parts side by side.
    pub threads: usize,
}

impl<'a> Request<'a> {
    /// The usual request: `auto`, 10 s, seed 0, one thread.
    pub fn new(graph: &'a Graph, budget: Bytes) -> Self {
        Self { graph, budget, solver: Solver::Auto, time_limit: Duration::from_secs(10), seed: 0, threads: 1 }
    }
}

/// How good the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The plan's time equals a proven lower bound for every order.
    Optimal,
    /// A plan, with a gap.
    Feasible,
    /// No plan exists: proven.
    Infeasible,
    /// No plan was found, and no proof that there is none.
    Unknown,
}

/// For which schedules a lower bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// For every legal schedule.
    OrderFree,
    /// For schedules that keep the given order of first runs and run no backward node twice.
    FixedOrder,
    /// For every legal schedule, and the plan reaches it.
    Optimal,
}

/// Why the search ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The plan meets the bound, or infeasibility is proven.
    Proved,
    /// The time limit came first.
    TimeLimit,
    /// The solver has done all that it does.
    Exhausted,
}

/// A legal sequence within the budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The runs in order.
    pub sequence: Sequence,
    /// What the judge said about it.
    pub trace: Trace,
    /// Which part of the portfolio found it.
    pub solver: Solver,
}

/// The answer to a [`Request`].
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How good it is.
    pub status: Status,
    /// The best plan found.
    pub plan: Option<Plan>,
    /// No schedule of the class `bound_kind` within the budget takes less. Never below the time without recomputation.
    pub lower_bound: Time,
    /// The class of schedules that the bound speaks of.
    pub bound_kind: BoundKind,
    /// No budget below this one can be met.
    pub proven_infeasible_below: Bytes,
    /// The smallest peak of any legal sequence seen, where the search for it has run; at most the base peak.
    pub smallest_found: Option<Bytes>,
    /// The node whose run shows `proven_infeasible_below`.
    pub peak_holder: NodeId,
    /// Why the search ended.
    pub why_stopped: Stop,
    /// Every better plan and every better bound, in the order in which they were found.
    pub progress: Vec<Progress>,
}

/// Something got better during a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Since the start.
    pub at: Duration,
    /// The time of the best plan then.
    pub plan: Option<Time>,
    /// The bound then, for every order.
    pub bound: Time,
}
