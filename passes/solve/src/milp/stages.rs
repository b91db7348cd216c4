//! The exact stage MILP in the given order: an oracle for graphs up to about 160 nodes.
//!
//! The program of [`crate::bound::fixed_order`] (K1 to K6) with a cut in front of every position over the budget, K5 at every position, and
//! whole variables. Memory during the recomputations of one stage is relaxed; so its optimum is a lower bound for
//! schedules in the given order that run no backward node twice, and its solution is played out and repaired. If what is
//! played out fits as it is, it is optimal in its class.
//!
//! Source: docs/design/planner.md, section 5.1.

use rk_plan::{NodeId, Time};

use crate::bound::fixed_order::{Program, positions, split};
use crate::bound::multi_cut::play;
use crate::construct::greedy::greedy;
use crate::milp::End;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;

/// Positions with a cut, at most; larger programs do not end in useful time.
const MOST_CUTS: usize = 250;
/// Randomised repairs of the sequence played out.
const TRIES: u32 = 6;

/// Plans by the stage MILP, and bounds the class.
pub(crate) fn stage_ilp(task: &mut Incumbent) {
    let graph = task.request.graph;
    let mut positions = positions(graph, task.request.budget);
    // The forward part may be over the budget too, where this program has no cut; the first one stands for it.
    positions.insert(0, split(graph));
    positions.dedup();
    positions.retain(|&position| position < graph.len());
    if positions.len() > MOST_CUTS {
        tracing::warn!(cuts = positions.len(), most = MOST_CUTS, "too large for the stage MILP");
        return;
    }
    let Some(program) = Program::new(graph, task.request.budget, &positions, usize::MAX) else { return };
    let answer = program.milp.solve(task.programs(task.clock.part(0.9).left()));
    tracing::info!(end = ?answer.end, size = ?program.milp.size(), "stage MILP");
    task.exhausted = answer.end == End::Optimal;
    if matches!(answer.end, End::Optimal | End::Stopped) {
        task.raise_fixed_order(graph.total_time() + Time(answer.bound));
    }
    if answer.point.is_none() {
        return;
    }
    let (cuts, absent) = program.absent(&answer);
    let order: Vec<NodeId> = graph.node_ids().collect();
    let nodes = crate::state::flat_graph::from_sequence(&play(graph, &order, &cuts, &absent));
    task.offer(&nodes, Solver::Ilp);
    if let Some(best) = greedy(&task.model, &nodes, task.budget, task.request.seed, TRIES, &task.clock) {
        task.offer(&best.nodes, Solver::Ilp);
    }
}
