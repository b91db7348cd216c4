//! Several budgets at once: the curve of time against budget.
//!
//! Budgets are solved from the smallest to the largest, each starting from the plan before it, which fits as well. At the
//! end the curve is made monotone: no larger budget has a slower plan, and no smaller one a lower bound.
//!
//! Source: docs/design/planner.md, 12.2.

use rk_plan::Bytes;

use crate::portfolio::clock::Clock;
use crate::portfolio::request::{BoundKind, Outcome, Plan, Request, Status, enough};
use crate::solve;

/// Solves the graph of a request at each budget, in the order given. The time limit is for all of them together; the
/// budget of the request is not used.
pub fn pareto(request: &Request, budgets: &[Bytes]) -> Vec<Outcome> {
    request.timekeeping.keep(|| curve(request, budgets))
}

fn curve(request: &Request, budgets: &[Bytes]) -> Vec<Outcome> {
    let mut order: Vec<usize> = (0..budgets.len()).collect();
    order.sort_by_key(|&index| (budgets[index], index));
    let mut outcomes: Vec<Option<Outcome>> = vec![None; budgets.len()];
    let mut before: Option<Plan> = None;
    let clock = Clock::new(request.time_limit);
    for (done, &index) in order.iter().enumerate() {
        // What earlier points did not use is shared by the rest.
        let share = clock.left() / u32::try_from(order.len() - done).unwrap_or(u32::MAX);
        let start = before.as_ref().map(|plan| (plan.solver, plan.sequence.clone()));
        let starts = start.into_iter().chain(request.starts.iter().cloned()).collect();
        let point =
            Request { budget: budgets[index], time_limit: share, spare: None, starts, ..request.clone() };
        let mut outcome = solve(&point);
        // A start is a sequence: its layout need not be found again.
        let slower =
            |plan: &Plan| outcome.plan.as_ref().is_none_or(|found| plan.trace.time < found.trace.time);
        if let Some(plan) = before.filter(slower) {
            let bytes = plan.arena.as_ref().map_or(plan.trace.peak, |arena| arena.size);
            outcome.smallest_found = outcome.smallest_found.into_iter().chain([bytes]).min();
            outcome.unsettle(Status::Feasible);
            outcome.plan = Some(plan);
        }
        before = outcome.plan.clone();
        tracing::info!(point = done + 1, of = budgets.len(), budget = budgets[index].0, "curve");
        outcomes[index] = Some(outcome);
    }
    // A bound for a larger budget holds for every smaller one.
    let mut above: Option<rk_plan::Time> = None;
    for &index in order.iter().rev() {
        if let Some(outcome) = &mut outcomes[index] {
            if outcome.bound_kind != BoundKind::FixedOrder {
                outcome.lower_bound =
                    above.map_or(outcome.lower_bound, |above| above.max(outcome.lower_bound));
                above = Some(outcome.lower_bound);
                outcome.in_given_order = outcome.in_given_order.filter(|&time| time > outcome.lower_bound);
            }
            let enough = enough(outcome.lower_bound, request.graph.total_time());
            let reached = outcome.plan.as_ref().is_some_and(|plan| plan.trace.time <= enough);
            // In the given order alone, nothing is proven of the others.
            if reached && outcome.bound_kind != BoundKind::FixedOrder {
                (outcome.status, outcome.bound_kind) = (Status::Optimal, BoundKind::Optimal);
            }
        }
    }
    outcomes.into_iter().flatten().collect()
}
