//! What a caller asks and what it gets.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use rk_plan::arena::{self, Arena};
use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, Trace};

use crate::chain_dp::save_budgets::SaveBudgets;
use crate::milp::MilpSolver;
use crate::params::Params;
use crate::portfolio::clock::counted;
use crate::portfolio::solver::Solver;

/// One planning problem.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The step.
    pub graph: &'a Graph,
    /// The bytes that the arena may have, or, without `addresses`, that the logical peak may reach.
    pub budget: Bytes,
    /// Who shall solve it.
    pub solver: Solver,
    /// The time after which the best plan so far is returned.
    pub time_limit: Duration,
    /// What that limit counts.
    pub timekeeping: Timekeeping,
    /// Time that the caller keeps behind the limit to pack what is found. A search that has found nothing by then goes on in it, and so does
    /// one whose plan packs in a part of it.
    pub spare: Option<Spare>,
    /// The same seed gives the same plan, if the time suffices both times or is counted in work.
    pub seed: u64,
    /// How many threads may compute. One is enough for everything; more run independent parts side by side.
    pub threads: usize,
    /// Who solves mixed integer programs.
    pub milp: MilpSolver,
    /// The options of a block, for the solvers `rockmate` and `classes`.
    pub save_budgets: SaveBudgets,
    /// Strategies of portfolios that do not run: to find out what each is worth.
    pub without: StrategyNames,
    /// The numbers that tune the search.
    pub params: Arc<Params>,
    /// How plans are packed into an arena, which then has to fit in the budget.
    pub addresses: Option<Addresses>,
    /// Sequences to begin with, from neighbouring budgets or earlier sessions, and who found them. They are judged like
    /// any other, and repaired when they need more than the budget.
    pub starts: Vec<(Solver, Sequence)>,
}

/// Names of strategies, see [`crate::strategies`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StrategyNames(pub(crate) Vec<&'static str>);

impl StrategyNames {
    pub(crate) fn contains(&self, name: &str) -> bool {
        self.0.contains(&name)
    }
}

/// What a time limit counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timekeeping {
    /// The system's clock.
    #[default]
    Wall,
    /// Looks of the search at its clock, each of which counts as 20 us: the same plan on every machine and under any load. How long
    /// a second of it takes depends on the graph; more threads than one are not used. Integer programs are stopped by
    /// the processor time of CBC, the only thing here that a machine's speed can change.
    Work,
}

impl Timekeeping {
    /// Does a job with time kept so.
    pub(crate) fn keep<T>(self, job: impl FnOnce() -> T) -> T {
        match self {
            Self::Wall => job(),
            Self::Work => counted::time(LOOK, job),
        }
    }
}

/// What a look at the clock counts as: about what lies between two of them on a desktop.
const LOOK: Duration = Duration::from_micros(20);

impl fmt::Display for Timekeeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Wall => "wall",
            Self::Work => "work",
        })
    }
}

/// The text names no way to keep time.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown timekeeping {0:?}; there are wall and work")]
pub struct UnknownTimekeeping(String);

impl FromStr for Timekeeping {
    type Err = UnknownTimekeeping;

    fn from_str(text: &str) -> Result<Self, UnknownTimekeeping> {
        match text {
            "wall" => Ok(Self::Wall),
            "work" => Ok(Self::Work),
            _ => Err(UnknownTimekeeping(text.into())),
        }
    }
}

/// How plans are packed, see [`rk_plan::arena::pack_with`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Every buffer starts at a multiple of it.
    pub alignment: Bytes,
    /// Comparisons per packing.
    pub effort: u64,
}

impl Addresses {
    /// An effort that takes about half a percent of a time limit. It depends on nothing else, so that the same request gets
    /// the same addresses.
    pub fn within(alignment: Bytes, limit: Duration) -> Self {
        /// Comparisons in five milliseconds, about. Less than three times that packs poorly, and is not felt.
        const PER_SECOND: f64 = 1e6;
        let effort = (limit.as_secs_f64() * PER_SECOND) as u64;
        Self { alignment, effort: effort.clamp(3_000_000, arena::EFFORT) }
    }

    /// The plan with the arena of its runs as they are.
    pub(crate) fn pack(self, graph: &Graph, plan: Plan) -> Plan {
        let arena = arena::pack_with(graph, &plan.sequence, &plan.trace, self.alignment, self.effort);
        Plan { arena: Some(arena), ..plan }
    }
}

/// Time behind the limit of a search, for addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// How much there is; if none, who asks packs himself.
    pub time: Duration,
    /// How much the search leaves besides, if its plans turn out not to pack as they are.
    pub more: Duration,
    /// How plans are packed.
    pub addresses: Addresses,
}

impl<'a> Request<'a> {
    /// The usual request: `auto`, 10 s, seed 0, one thread, the logical peak.
    pub fn new(graph: &'a Graph, budget: Bytes) -> Self {
        Self {
            graph,
            budget,
            solver: Solver::Auto,
            time_limit: Duration::from_secs(10),
            timekeeping: Timekeeping::default(),
            spare: None,
            seed: 0,
            threads: 1,
            milp: MilpSolver::default(),
            save_budgets: SaveBudgets::default(),
            without: StrategyNames::default(),
            params: Arc::default(),
            addresses: None,
            starts: Vec::new(),
        }
    }
}

/// How good the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The plan's time equals a proven lower bound for every order, up to one part in ten million of the time of all nodes once (and not
    /// even that where it is less than a tick).
    Optimal,
    /// A plan, with a gap.
    Feasible,
    /// No plan exists: proven.
    Infeasible,
    /// No plan was found, and no proof that there is none.
    Unknown,
}

/// What lies between plan and bound is nothing if it is at most one part in this many of the base time: external solvers stop a little
/// below what they prove, and no time is measured to seven digits.
const NEGLIGIBLE: u64 = 10_000_000;

/// The time of a plan that is not worth improving.
pub(crate) fn enough(bound: Time, base: Time) -> Time {
    Time(bound.0.saturating_add(base.0 / NEGLIGIBLE))
}

/// The least bound that proves a plan, in the same sense.
pub(crate) fn enough_of_a_bound(plan: Time, base: Time) -> Time {
    Time(plan.0.saturating_sub(base.0 / NEGLIGIBLE))
}

/// For which schedules a lower bound holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BoundKind {
    /// For every legal schedule.
    OrderFree,
    /// For schedules that keep the given order of first runs and run no backward node twice.
    FixedOrder,
    /// For every legal schedule, and the plan reaches it ([`Status::Optimal`]).
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
    /// Where its buffers lie, if the request asked for addresses.
    pub arena: Option<Arena>,
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
    /// Where it says more than `lower_bound`: no schedule that keeps the given order of first runs and runs no backward node
    /// twice takes less. Others may; nothing else here rests on it. Not looked for by every solver, nor remembered.
    pub in_given_order: Option<Time>,
    /// No budget below this one can be met.
    pub proven_infeasible_below: Bytes,
    /// The smallest budget known to be feasible: the least peak of any legal sequence seen, at most the base peak; with
    /// addresses, the least arena.
    pub smallest_found: Option<Bytes>,
    /// The sequence with the least peak.
    pub smallest: Option<Sequence>,
    /// With addresses, the plan whose arena has the bytes of `smallest_found`; not remembered.
    pub smallest_placed: Option<Plan>,
    /// The node whose run shows `proven_infeasible_below`.
    pub peak_holder: NodeId,
    /// Why the search ended.
    pub why_stopped: Stop,
    /// Every better plan and every better bound, in the order in which they were found.
    pub progress: Vec<Progress>,
    /// What each of them took, and at last the whole: by the system's clock, or processor time where the limit counts work. Not remembered.
    pub spent: Vec<Duration>,
    /// Other plans within the budget, fastest first: without addresses, what could be packed instead.
    pub(crate) others: Vec<Plan>,
    /// A plan that was packed before the search went on.
    pub(crate) early: Option<Plan>,
}

impl Outcome {
    /// Takes over what another answer to the same question proves, if it is more.
    pub(crate) fn learn(&mut self, other: &Self) {
        if other.bound_kind != BoundKind::FixedOrder && other.lower_bound >= self.lower_bound {
            (self.lower_bound, self.bound_kind, self.status) =
                (other.lower_bound, other.bound_kind, other.status);
        }
        self.in_given_order =
            self.in_given_order.max(other.in_given_order).filter(|&time| time > self.lower_bound);
        self.why_stopped = other.why_stopped;
        self.proven_infeasible_below = self.proven_infeasible_below.max(other.proven_infeasible_below);
    }

    /// The plan that `status` speaks of is another one than the solver's.
    pub(crate) fn unsettle(&mut self, status: Status) {
        if self.status == Status::Optimal && status != Status::Optimal {
            (self.bound_kind, self.why_stopped) = (BoundKind::OrderFree, Stop::Exhausted);
        }
        self.status = status;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_little_to_be_measured_is_nothing_and_whole_ticks_are_not() {
        let (seconds, ticks) = (Time(2_500_000_000), Time(9_999_999));
        assert_eq!(enough(seconds, seconds), Time(2_500_000_250));
        assert_eq!(enough(ticks, ticks), ticks);
        assert_eq!(enough(Time(u64::MAX), seconds), Time(u64::MAX));
    }
}
