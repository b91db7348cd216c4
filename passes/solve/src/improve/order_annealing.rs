//! Another order to build starts on: one in which memory is less full than in the given one.
//!
//! The given order makes a weight gradient as soon as it can, and where that is kept to the end it is in the way from then on. Made later
//! it holds its operands instead, which may be less. So an annealing without recomputation ([`crate::improve::annealing`]) reorders the nodes until
//! less is above the budget. What suits a step that holds everything need not suit one that runs again what it let go, so the order is
//! used only while greedy evictions from it, and what a cut holds, played out in it, cost less than in the given one.

use std::ops::ControlFlow;

use crate::construct::greedy::greedy;
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;

/// The least moves of the annealing.
const MOVES: u64 = 10_000;
/// Moves of the annealing, times nodes.
const MOVES_PER_NODE: u64 = 20;
/// Attempts at a plan.
const TRIES: u32 = 2;

/// Adds a plan from such an order to the race. If it is better than what is known, the order stays on the blackboard.
pub(crate) struct OrderAnnealing;

impl Strategy for OrderAnnealing {
    fn name(&self) -> &'static str {
        "order-annealing"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        if let Some((best, order)) = anneal_order(task) {
            board.other_order = order;
            board.enter_starts(task, [&best]);
        }
        ControlFlow::Continue(())
    }
}

/// A plan from such an order, and the order if the plan is better than what is known.
fn anneal_order(task: &mut Incumbent) -> Option<(Solution, Option<Vec<u32>>)> {
    let (seed, budget, clock) = (task.request.seed, task.budget, task.clock);
    let (model, params) = (&*task.model, &task.request.params);
    let given: Vec<u32> = (0..model.len() as u32).collect();
    let mut annealing = Annealing::new(model, &given, budget, seed, &params.annealing);
    annealing.run((MOVES_PER_NODE * model.len() as u64).max(MOVES), false, 1.0, &clock);
    let order = annealing.best;
    let found = greedy(model, &order, budget, seed, TRIES, &clock);
    let best = found?;
    let known = task.best_cost().filter(|_| task.has_plan());
    let order = known.is_none_or(|known| best.cost < known).then_some(order);
    task.offer(&best.nodes, Solver::Local);
    Some((best, order))
}

#[cfg(test)]
mod tests {
    use rk_plan::{Bytes, base_trace};

    use super::*;
    use crate::Request;
    use crate::portfolio::first_attempt::first_attempt;
    use crate::synthetic::{Family, graph};

    /// In graphs of odd seeds weight gradients have a size and are kept to the end.
    #[test]
    fn weight_gradients_that_wait_leave_room() {
        let (mut kept, mut dropped) = (0, 0);
        for seed in 1..7 {
            let graph = graph(Family::Bottleneck, 200, seed);
            let budget = Bytes(base_trace(&graph).peak.0 / 100 * 45);
            let request = Request::new(&graph, budget);
            let mut task = Incumbent::new(&request);
            first_attempt(&mut task);
            let given = task.best_cost().filter(|_| task.has_plan());
            let Some((best, order)) = anneal_order(&mut task) else { continue };
            let better = given.is_none_or(|given| best.cost < given);
            assert_eq!(order.is_some(), better, "seed {seed}");
            assert!(task.best_cost().is_some_and(|cost| cost <= best.cost));
            if let Some(order) = &order {
                let mut sorted = order.clone();
                sorted.sort_unstable();
                assert!(sorted.into_iter().eq(0..graph.len() as u32));
                let given: Vec<u32> = (0..graph.len() as u32).collect();
                let excess = |order: &[u32]| {
                    Annealing::new(&task.model, order, task.budget, 0, &request.params.annealing).best_excess
                };
                assert!(excess(order) < excess(&given), "seed {seed}");
            }
            (kept, dropped) = (kept + u32::from(better), dropped + u32::from(!better));
        }
        assert!(kept > 0, "{kept} kept, {dropped} dropped");
    }
}
