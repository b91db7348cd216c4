//! Plans whose *addresses* fit: law S7 speaks of the arena, and a packing can miss a budget that the logical peak meets.
//!
//! 1. Solve for the logical peak, and pack the plan. If its arena is within the budget, that is the answer.
//! 2. Pack the plan once more with [`PATIENCE`] times the effort, then in other orders of its runs ([`crate::compact`]), then the
//!    other plans that the search met, fastest first.
//! 3. If none fits, repair greedily for somewhat smaller peaks, so that there is a plan at all: from the given order, because what
//!    is repaired from a tight plan is as hard to pack as that.
//! 4. Solve again for smaller peaks, from what is there, the fastest repaired: less by the overshoot, then half-way between what did and what did not help.
//!
//! Bounds are those of the logical peak, which no arena beats. How the time is shared depends on the given order: where that
//! packs without loss, as steps of training do, nearly all of it goes to the first attempt.
//!
//! Source: planner.md of the project, section 11. Not here: a search over plans and addresses together.

use std::time::Duration;

use rk_plan::arena::{Arena, pack_with};
use rk_plan::{Bytes, Graph, Sequence, judge};

use crate::clock::Clock;
use crate::compact::{Layout, compact};
use crate::request::{Addresses, Outcome, Plan, Request, Status};
use crate::solve_logical;

/// Attempts with a smaller peak.
const ATTEMPTS: u32 = 5;
/// The share of the time of the first attempt, where the given order packs without loss and where it does not.
const FIRST: (f64, f64) = (0.85, 0.45);
/// Larger graphs are taken to pack well without a look.
const PROBED: usize = 3000;
/// The effort of a second packing of the same plan, in efforts of the first.
const PATIENCE: u64 = 8;
/// The share of the time left in which a plan is packed in other orders of its runs.
const COMPACTING: f64 = 0.2;
/// Arenas larger than the budget by more than one in so many are not packed in other orders.
const HOPELESS: u64 = 5;
/// Budgets of quick attempts, in per mille, and the share of the time of each.
const RESERVES: [u64; 3] = [980, 940, 880];
const RESERVE_TIME: f64 = 0.02;
/// Budgets closer than one in so many are not told apart.
const FINE: u64 = 400;

/// What packing one plan of so many nodes takes, about; nothing to speak of below a thousand. Who packs after solving leaves
/// this much of a time limit.
pub fn packing_time(nodes: usize) -> Duration {
    /// Per 2^20 pairs of nodes.
    const PER_PAIRS: Duration = Duration::from_millis(3);
    PER_PAIRS.saturating_mul(u32::try_from(nodes.saturating_pow(2) >> 20).unwrap_or(u32::MAX))
}

/// Whether the given order packs without loss, as steps of training do. Then plans do too, nearly always.
pub fn packs_easily(graph: &Graph, Addresses { alignment, effort }: Addresses) -> bool {
    let base = Plan::judged(graph, Sequence::base(graph), crate::Solver::KeepAll);
    let arena = base
        .filter(|_| graph.len() <= PROBED)
        .map(|plan| pack_with(graph, &plan.sequence, &plan.trace, alignment, effort));
    arena.is_none_or(|arena| arena.size == arena.lower_bound)
}

/// Packs a plan that was made for its logical peak. Where its arena is more than a hundredth larger than that, looks at other
/// plans of the same time, and, for at most `limit`, at other orders of the runs.
pub fn with_addresses(request: &Request, outcome: Outcome, addresses: Addresses, limit: Duration) -> Outcome {
    let Addresses { alignment, effort } = addresses;
    let clock = Clock::new(limit);
    let near = |arena: &Arena| arena.size.0 <= arena.lower_bound.0.saturating_add(arena.lower_bound.0 / 100);
    let mut best: Option<Plan> = None;
    for plan in outcome.plan.iter().chain(&outcome.others) {
        let Some(lowest) = &best else {
            let arena = pack_with(request.graph, &plan.sequence, &plan.trace, alignment, effort);
            best = Some(Plan { arena: Some(arena), ..plan.clone() });
            continue;
        };
        let Some(reached) = lowest.arena.as_ref().filter(|arena| !near(arena) && !clock.expired()) else {
            break;
        };
        if plan.trace.time == lowest.trace.time {
            let arena = pack_with(request.graph, &plan.sequence, &plan.trace, alignment, effort);
            if arena.size < reached.size || near(&arena) {
                best = Some(Plan { arena: Some(arena), ..plan.clone() });
            }
        }
    }
    let near = |peak: Bytes| Bytes(peak.0.saturating_add(peak.0 / 100));
    let compacted = |plan: Plan| {
        let floor = plan.trace.peak;
        compact(request, plan, addresses, Layout::Any, floor, near, &clock)
    };
    Outcome { plan: best.map(compacted), ..outcome }
}

/// Plans a step so that its arena is within the budget.
pub(crate) fn solve(request: &Request, addresses: Addresses) -> Outcome {
    let mut packer = Packer {
        request,
        addresses,
        clock: Clock::new(request.time_limit),
        smallest: Bytes(u64::MAX),
        reached: Bytes(0),
    };
    let nodes = request.graph.len();
    let easy = packs_easily(request.graph, addresses);
    let left = packer.clock.left();
    let share = (left - packing_time(nodes).min(left / 2)).mul_f64(if easy { FIRST.0 } else { FIRST.1 });
    let logical = Request { addresses: None, ..request.clone() };
    let mut first = solve_logical(&Request { time_limit: share, ..logical.clone() });
    let found =
        first.smallest.clone().and_then(|runs| Plan::judged(request.graph, runs, crate::Solver::Greedy));
    let Some(logical_best) = first.plan.clone() else {
        found.iter().for_each(|plan| drop(packer.pack(plan, 1)));
        return Outcome { smallest_found: Some(packer.smallest), ..first };
    };
    let fastest = logical_best.trace.time;
    let wanted = (logical_best.solver, logical_best.sequence.clone());
    let starts =
        request.starts.iter().filter_map(|(solver, runs)| Plan::judged(request.graph, runs.clone(), *solver));
    let mut starts: Vec<Plan> = starts.collect();
    starts.sort_by_key(|plan| plan.trace.time);
    let mut best = packer.take(&mut first);
    best = faster(best, packer.first_that_fits(starts, false));
    // Logical budgets that did not help because too little or too much is left.
    let (mut low, mut high) = (None::<u64>, request.budget.0.min(logical_best.trace.peak.0));
    for per_mille in RESERVES {
        if best.is_some() {
            break;
        }
        // Milliseconds, and spent even if the time is over: a poor plan is better than none.
        let budget = high / 1000 * per_mille;
        let time_limit = request.time_limit.mul_f64(RESERVE_TIME);
        let quick =
            Request { budget: Bytes(budget), solver: crate::Solver::Greedy, time_limit, ..logical.clone() };
        best = solve_logical(&quick).plan.and_then(|plan| packer.first_that_fits(vec![plan], false));
        low = best.as_ref().map(|_| budget);
    }
    for attempt in 0..ATTEMPTS {
        let overshoot = packer.reached.0.saturating_sub(request.budget.0).max(request.budget.0 / FINE);
        // Not below what is known to be too little: half-way there instead.
        let least = first.proven_infeasible_below.0.min(high);
        let down = high.saturating_sub(overshoot.min((high - least) / 2));
        let budget = low.map_or(down, |low| low + (high - low) / 2);
        let close = low.is_some_and(|low| high - low <= request.budget.0 / FINE);
        let settled = best.as_ref().is_some_and(|plan| plan.trace.time <= fastest);
        if settled || close || packer.clock.expired() || budget == high {
            break;
        }
        tracing::info!(attempt, budget, "the arena misses the budget");
        let mut outcome = solve_logical(&Request {
            budget: Bytes(budget),
            time_limit: packer.clock.left() / (ATTEMPTS - attempt),
            starts: (best.iter().map(|plan| (plan.solver, plan.sequence.clone())))
                .chain(std::iter::once(wanted.clone()))
                .collect(),
            ..logical.clone()
        });
        let planned = outcome.plan.is_some();
        let fits = packer.take(&mut outcome);
        if fits.is_some() || !planned {
            low = Some(budget);
        } else {
            high = budget;
        }
        best = faster(best, fits);
    }
    let status = match &best {
        Some(plan) if plan.trace.time <= first.lower_bound && first.status == Status::Optimal => {
            Status::Optimal
        }
        Some(_) => Status::Feasible,
        None => Status::Unknown,
    };
    first.unsettle(status);
    Outcome { plan: best, smallest_found: Some(packer.smallest), ..first }
}

fn faster(one: Option<Plan>, other: Option<Plan>) -> Option<Plan> {
    one.into_iter().chain(other).min_by_key(|plan| plan.trace.time)
}

struct Packer<'a> {
    request: &'a Request<'a>,
    addresses: Addresses,
    clock: Clock,
    /// The least arena of all plans packed.
    smallest: Bytes,
    /// The arena of the fastest plan of the last attempt.
    reached: Bytes,
}

impl Packer<'_> {
    fn pack(&mut self, plan: &Plan, patience: u64) -> Arena {
        let Addresses { alignment, effort } = self.addresses;
        let effort = effort.saturating_mul(patience);
        let arena = pack_with(self.request.graph, &plan.sequence, &plan.trace, alignment, effort);
        self.smallest = self.smallest.min(arena.size);
        arena
    }

    /// The fastest plan of an outcome whose arena fits.
    fn take(&mut self, outcome: &mut Outcome) -> Option<Plan> {
        let mut plans: Vec<Plan> = outcome.plan.take().into_iter().collect();
        plans.append(&mut outcome.others);
        self.first_that_fits(plans, true)
    }

    /// The first of several plans whose arena fits, with its arena. The very first may be packed twice.
    fn first_that_fits(&mut self, plans: Vec<Plan>, twice: bool) -> Option<Plan> {
        let budget = self.request.budget;
        for (index, plan) in plans.into_iter().enumerate() {
            // The first is always looked at, so that a late plan is not lost.
            if index > 0 && self.clock.expired() {
                break;
            }
            let mut arena = self.pack(&plan, 1);
            let again = twice && index == 0 && !self.clock.expired();
            if arena.size > budget && again && arena.lower_bound <= budget {
                arena = self.pack(&plan, PATIENCE);
            }
            let close = arena.size.0.saturating_sub(budget.0) <= budget.0 / HOPELESS;
            let mut plan = Plan { arena: Some(arena), ..plan };
            if again && close {
                let (request, clock) = (self.request, self.clock.part(COMPACTING));
                plan =
                    compact(request, plan, self.addresses, Layout::Repeatable, Bytes(0), |_| budget, &clock);
            }
            let size = plan.arena.as_ref().map_or(Bytes(u64::MAX), |arena| arena.size);
            self.smallest = self.smallest.min(size);
            if index == 0 && twice {
                self.reached = size;
            }
            if size <= budget {
                return Some(plan);
            }
        }
        None
    }
}

impl Plan {
    fn judged(graph: &Graph, sequence: Sequence, solver: crate::Solver) -> Option<Self> {
        let trace = judge(graph, &sequence).ok()?;
        Some(Self { sequence, trace, solver, arena: None })
    }
}

/// The plan with its arena, packed as [`solve`] would have, if it fits.
pub(crate) fn packed_again(request: &Request, plan: Plan) -> Option<Plan> {
    let addresses = request.addresses?;
    let mut packer = Packer {
        request,
        addresses,
        clock: Clock::new(request.time_limit),
        smallest: Bytes(u64::MAX),
        reached: Bytes(0),
    };
    packer.first_that_fits(vec![plan], true)
}

/// The arena of a judged sequence, as packed for a request with addresses.
pub(crate) fn arena_of(request: &Request, runs: &Sequence, trace: &rk_plan::Trace) -> Bytes {
    request.addresses.map_or(trace.peak, |Addresses { alignment, effort }| {
        pack_with(request.graph, runs, trace, alignment, effort).size
    })
}
