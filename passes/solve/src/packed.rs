//! Plans whose *addresses* fit: law S7 speaks of the arena, and a packing can miss a budget that the logical peak meets.
//!
//! Solve and pack. If the arena is larger than the budget, solve again with a budget reduced by the overshoot, a few
//! times; the plan that was found first stays if no packed plan fits. Most of the time goes to the first attempt, which
//! usually suffices: on training graphs the packer reaches the logical peak.
//!
//! Source: planner.md of the project, section 11.

use rk_plan::Bytes;
use rk_plan::arena::{Arena, pack_with};

use crate::request::{Outcome, Request, Status};
use crate::solve;

/// Attempts with a reduced budget.
const ATTEMPTS: u32 = 3;
/// The share of the time limit of the first attempt.
const FIRST: f64 = 0.7;

/// A solved request with addresses.
#[derive(Clone, Debug)]
pub struct Packed {
    /// As [`solve`](crate::solve()) would return it; when a smaller budget had to be used, with the bound of the full one.
    pub outcome: Outcome,
    /// The layout of the plan, if there is one.
    pub arena: Option<Arena>,
    /// The arena is within the budget.
    pub fits: bool,
}

/// Plans a step so that its arena, with this alignment, is within the budget. `effort` is that of
/// [`pack_with`].
pub fn solve_packed(request: &Request, alignment: Bytes, effort: u64) -> Packed {
    let pack = |outcome: &Outcome| {
        let plan = outcome.plan.as_ref()?;
        Some(pack_with(request.graph, &plan.sequence, &plan.trace, alignment, effort))
    };
    let first = solve(&Request { time_limit: request.time_limit.mul_f64(FIRST), ..request.clone() });
    let arena = pack(&first);
    let overshoot = |arena: &Option<Arena>| {
        arena.as_ref().map_or(0, |arena| arena.size.0.saturating_sub(request.budget.0))
    };
    let mut missing = overshoot(&arena);
    if missing == 0 {
        return Packed { fits: arena.is_some(), outcome: first, arena };
    }
    let mut budget = request.budget.0;
    for attempt in 0..ATTEMPTS {
        budget = budget.saturating_sub(missing);
        tracing::info!(attempt, budget, missing, "the packing misses the budget");
        let time_limit = request.time_limit.mul_f64((1.0 - FIRST) / f64::from(ATTEMPTS));
        let again = solve(&Request { budget: Bytes(budget), time_limit, ..request.clone() });
        let packed = pack(&again);
        if packed.is_none() {
            break;
        }
        missing = overshoot(&packed);
        if missing == 0 {
            // The bound and its kind are those of the budget asked for.
            let status = if again.plan.as_ref().is_some_and(|plan| plan.trace.time <= first.lower_bound) {
                Status::Optimal
            } else {
                Status::Feasible
            };
            let outcome = Outcome { plan: again.plan, status, why_stopped: again.why_stopped, ..first };
            return Packed { outcome, arena: packed, fits: true };
        }
    }
    Packed { fits: false, outcome: first, arena }
}
