//! Starts from plans of a budget near by, which the request brings along.

use std::ops::ControlFlow;

use crate::construct::greedy::{TRIES, greedy};
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::is_small;
use crate::state::flat_graph::from_sequence;

/// Adds the best plan, and where another order may pay, those of the request, annealed.
pub(crate) struct Neighbours;

impl Strategy for Neighbours {
    fn name(&self) -> &'static str {
        "neighbours"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let seed = task.request.seed;
        let best = task.plan.as_ref().map(Solution::from);
        board.enter_starts(task, &best);
        if !is_small(task) && !board.order_matters(task) {
            return ControlFlow::Continue(());
        }
        let moves = board.moves(task);
        for ((_, start), seed) in task.request.starts.iter().zip(seed..) {
            let params = &task.request.params.annealing;
            let mut annealing = Annealing::new(board.model, &from_sequence(start), task.budget, seed, params);
            annealing.run(moves, true, params.reheat, &task.clock);
            let found = greedy(board.model, &annealing.best, task.budget, seed, TRIES, &task.clock);
            if let Some(best) = found {
                task.offer(&best.nodes, Solver::Local);
                board.enter_starts(task, [&best]);
            }
        }
        ControlFlow::Continue(())
    }
}
