//! Closing the gap by proof: a chain of cuts below the plan at hand, for graphs where CBC has a chance.
//!
//! What it plays out is a start for the local search, and often already the optimum.

use rk_plan::Time;

use crate::bounds::{CHAINED, order_free_below, raise_by_chain};
use crate::solver::Solver;
use crate::task::Task;

/// The share of the time left that a proof may take; less where the plan is far above the bound: there the time
/// is worth more in the search.
const SHARE: f64 = 0.4;
const FAR_SHARE: f64 = 0.08;

/// Raises the bound of a task; offers what the chain plays out, and returns those sequences that are over budget.
pub(crate) fn prove(task: &mut Task, far: bool) -> Vec<Vec<u32>> {
    let graph = task.request.graph;
    let Some(known) = task.best_cost().filter(|_| !task.is_settled() && graph.len() <= CHAINED) else {
        return Vec::new();
    };
    let (known, clock) = (Time(known), task.clock.part(if far { FAR_SHARE } else { SHARE }));
    let mut bound = order_free_below(graph, task.request.budget, Some(known), clock.left());
    raise_by_chain(graph, task.request.budget, known, &mut bound, task.programs(clock.left()));
    if bound.is_infeasible() {
        return Vec::new();
    }
    task.raise_bound(bound.time);
    let sequences: Vec<Vec<u32>> = bound.sequences.iter().map(crate::model::from_sequence).collect();
    sequences.iter().for_each(|nodes| task.offer(nodes, Solver::Cut));
    sequences
}
