//! Plans one cell in this process: only there the times of the plans in between are known.

use std::time::Duration;

use rk_plan::{Bytes, Graph, base_trace};
use rk_solve::{BoundKind, Request, Solver, Status, Timekeeping};

use super::rows::{Cell, Row};

/// Methods without a greedy part. Where they find nothing, a last attempt that all solvers share may find something greedily: that is no
/// plan of theirs.
const ALONE: [Solver; 6] =
    [Solver::Rockmate, Solver::Rotor, Solver::Dtr, Solver::Checkmate, Solver::Ilp, Solver::States];

pub fn row(cell: &Cell, graph: &Graph, limit: Duration, seed: u64) -> Row {
    let base = base_trace(graph);
    let budget = u128::from(base.peak.0) * u128::from(cell.budget) / 100;
    let mut request = Request {
        solver: cell.method,
        time_limit: limit,
        timekeeping: Timekeeping::Work,
        seed,
        ..Request::new(graph, Bytes(u64::try_from(budget).unwrap_or(u64::MAX)))
    };
    request.save_budgets = cell.save.unwrap_or(request.save_budgets);
    let outcome = rk_solve::solve(&request);
    let over = |ticks: u64| 100.0 * (ticks as f64 / base.time.0.max(1) as f64 - 1.0);
    let better = outcome.progress.iter().zip(&outcome.spent);
    let mut plans: Vec<(f64, f64)> =
        better.filter_map(|(found, at)| Some((at.as_secs_f64(), over(found.plan?.0)))).collect();
    // A better bound is progress, too.
    plans.dedup_by_key(|plan| plan.1);
    let plan =
        outcome.plan.as_ref().filter(|plan| plan.solver != Solver::Greedy || !ALONE.contains(&cell.method));
    if plan.is_none() {
        plans.clear();
    }
    Row {
        cell: cell.clone(),
        nodes: graph.len(),
        status: match outcome.status {
            _ if plan.is_none() && outcome.plan.is_some() => "none",
            Status::Optimal => "optimal",
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
            Status::Unknown => "none",
        }
        .into(),
        peak: plan.map(|plan| 100.0 * plan.trace.peak.0 as f64 / base.peak.0.max(1) as f64),
        overhead: plan.map(|plan| over(plan.trace.time.0)),
        bound: if outcome.bound_kind == BoundKind::FixedOrder { 0.0 } else { over(outcome.lower_bound.0) },
        seconds: outcome.spent.last().map_or(0.0, Duration::as_secs_f64),
        plans,
    }
}
