//! Competitors that the moves of the local search cannot reach: annealed from the best plan and from fresh orders, twice as long from round to
//! round.
//!
//! In small graphs, and where another order may pay.

use std::ops::ControlFlow;

use crate::construct::greedy::{TRIES, greedy};
use crate::construct::list_scheduling::list_schedules;
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::params;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::gap_is_large;
use crate::state::flat_graph::FlatGraph;

/// The seeds of one round and of the next are so far apart.
const SEEDS: u64 = 1000;

/// Adds annealed plans to the race, while the gap is large.
pub(crate) struct Rivals;

impl Strategy for Rivals {
    fn name(&self) -> &'static str {
        "rivals"
    }

    fn is_due(&self, task: &Incumbent, board: &Blackboard) -> bool {
        board.rivalry.is_some() && gap_is_large(task)
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let (Some(moves), Some(best)) = (board.rivalry, board.population.best()) else {
            return ControlFlow::Continue(());
        };
        let round = board.round.index();
        let seed = task.request.seed.wrapping_add(SEEDS * u64::from(round + 1));
        let params = &task.request.params.annealing;
        let starts =
            annealed_starts(board.model, best, task.budget, seed, (moves, round), &task.clock, params);
        for (best, seed) in starts {
            task.offer(&best.nodes, Solver::Local);
            board.population.enter(&best.nodes, task.budget, seed);
        }
        ControlFlow::Continue(())
    }
}

/// Plans with the seeds that found them. The moves double from round to round.
fn annealed_starts(
    model: &FlatGraph,
    best: &Solution,
    budget: i64,
    seed: u64,
    (moves, round): (u64, u32),
    clock: &Clock,
    params: &params::Annealing,
) -> Vec<(Solution, u64)> {
    let moves = moves << round.min(16);
    let mut starts = vec![best.nodes.clone()];
    let mut orders = list_schedules(model, 12, seed, clock);
    starts.extend(orders.drain(5.min(orders.len())..).take(3));
    let mut found = Vec::new();
    for (index, (start, seed)) in starts.iter().zip(seed..).enumerate() {
        let mut annealing = Annealing::new(model, start, budget, seed, params);
        let fresh = start.len() == model.len();
        let heat = if fresh { params.heats()[(index + round as usize) % 2] } else { params.reheat };
        if fresh {
            annealing.run(moves / 4, false, heat, clock);
        }
        annealing.run(moves, true, heat, clock);
        let plan = greedy(model, &annealing.best, budget, seed, TRIES, clock);
        found.extend(plan.map(|best| (best, seed)));
    }
    found
}
