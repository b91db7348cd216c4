//! Extra time against budget: other budgets of the same graph, planned, with the bound that is proven for each.

use std::time::Duration;

use rk_plan::{Bytes, Sequence, Time, base_trace};
use rk_solve::{Request, Solver, pareto, solve};

/// One budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// What was allowed.
    pub budget: Bytes,
    /// The time of the plan that was found.
    pub time: Option<Time>,
    /// No plan takes less.
    pub bound: Time,
}

/// What other budgets would cost.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Curve {
    /// From the smallest budget to the peak without recomputation.
    pub points: Vec<Point>,
    /// The smallest budget with a plan, as far as one was found.
    pub smallest: Option<Bytes>,
    /// Below it nothing can be planned: proven.
    pub impossible_below: Bytes,
}

/// Plans a graph at `count` budgets from the smallest one to the peak without recomputation, and at the budget of the request. Each has the
/// time limit of the request, and `known` is where those that allow it begin.
pub fn curve(request: &Request, known: &Sequence, count: usize) -> Curve {
    if count == 0 {
        return Curve::default();
    }
    let graph = request.graph;
    let starts = vec![(Solver::Auto, known.clone())];
    let request = Request { addresses: None, spare: None, starts, ..request.clone() };
    let least = solve(&Request { budget: Bytes(1), ..request.clone() });
    let most = base_trace(graph).peak;
    let smallest = least.smallest_found.unwrap_or(most).min(most);
    let width = most.0 - smallest.0;
    let steps = count.max(2) as u64 - 1;
    let place = |step: u64| (u128::from(width) * u128::from(step) / u128::from(steps)) as u64;
    let mut budgets: Vec<Bytes> = (0..=steps).map(|step| Bytes(smallest.0 + place(step))).collect();
    budgets.push(request.budget.clamp(smallest, most));
    budgets.sort_unstable();
    budgets.dedup();
    let time_limit = request.time_limit.saturating_mul(u32::try_from(budgets.len()).unwrap_or(u32::MAX));
    let outcomes =
        pareto(&Request { time_limit: time_limit.max(Duration::from_millis(1)), ..request }, &budgets);
    let points = budgets.iter().zip(&outcomes).map(|(&budget, outcome)| Point {
        budget,
        time: outcome.plan.as_ref().map(|plan| plan.trace.time),
        bound: outcome.lower_bound,
    });
    Curve {
        points: points.collect(),
        smallest: least.smallest_found,
        impossible_below: least.proven_infeasible_below,
    }
}
