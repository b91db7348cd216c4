//! The best plan with its memory less full, as a start.
//!
//! The local search looks at time only, and has no reason to free what nobody needs yet. An annealing
//! ([`crate::improve::annealing::memory_objective`]) makes memory less full at the price of a little time: what the search then runs less
//! again may be more than what that cost.

use std::ops::ControlFlow;

use crate::improve::annealing::Annealing;
use crate::improve::annealing::memory_objective::{Walk, Within};
use crate::improve::lns::Solution;
use crate::params::Params;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::strategy::Strategy;
use crate::state::flat_graph::FlatGraph;

/// Adds the best plan with its memory less full to the race. Walks freely and back to the best by turns.
pub(crate) struct Easing;

impl Strategy for Easing {
    fn name(&self) -> &'static str {
        "easing"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let Some(best) = board.population.best() else { return ControlFlow::Continue(()) };
        let round = board.round.index();
        let seed = task.request.seed.wrapping_add(u64::from(round));
        let walk = if round.is_multiple_of(2) { Walk::RestartToBest } else { Walk::Free };
        let eased = lower_excess(
            board.model,
            best,
            task.budget,
            (board.round.made, walk),
            (seed, &task.clock),
            &task.request.params,
        );
        if let Some(nodes) = eased {
            board.population.enter(&nodes, task.budget, seed);
        }
        ControlFlow::Continue(())
    }
}

/// The best sequence with its memory less full, at the price of a little time, which comes back with interest where the search can then
/// run less again. Takes a part of the time of the
/// iterations that were just made; `None` if that is too little to get anywhere.
fn lower_excess(
    model: &FlatGraph,
    best: &Solution,
    budget: i64,
    (iterations, walk): (u64, Walk),
    (seed, clock): (u64, &Clock),
    params: &Params,
) -> Option<Vec<u32>> {
    let easing = &params.easing;
    let nodes = model.len() as u64;
    let moves = easing.moves.saturating_mul(iterations).min(easing.most_moves_per_node * nodes);
    if moves < easing.least_moves_per_node * nodes {
        return None;
    }
    let room = |peak: i64| peak / 1000 * easing.full_per_mille;
    let spent = model.time.iter().sum::<u64>() / easing.spent_parts;
    let mut annealing = Annealing::new(model, &best.nodes, room(budget), seed, &params.annealing);
    let within = Within { most: best.cost + spent, spent, roof: budget };
    annealing.lower_memory(moves, walk, within, room, clock, easing);
    Some(annealing.best)
}

#[cfg(test)]
mod tests {
    use rk_plan::base_trace;

    use super::*;
    use crate::construct::greedy::{TRIES, greedy};
    use crate::improve::lns::Search;
    use crate::synthetic::{Family, graph};

    #[test]
    fn a_plan_gets_roomier_for_little_time() {
        let params = Params::default();
        let graph = graph(Family::Bottleneck, 150, 3);
        let model = FlatGraph::new(&graph);
        let budget = base_trace(&graph).peak.0 as i64 / 100 * 60;
        let clock = Clock::new(std::time::Duration::MAX);
        let base: Vec<u32> = (0..model.len() as u32).collect();
        let best = greedy(&model, &base, budget, 0, TRIES, &clock).expect("a plan");
        assert!(
            lower_excess(&model, &best, budget, (10, Walk::Free), (0, &clock), &params).is_none(),
            "too little time"
        );
        let full = |nodes: &[u32]| {
            Annealing::new(&model, nodes, budget / 1000 * params.easing.full_per_mille, 0, &params.annealing)
                .best_excess
        };
        for walk in [Walk::Free, Walk::RestartToBest] {
            let roomy = lower_excess(&model, &best, budget, (10_000, walk), (0, &clock), &params)
                .expect("time enough");
            let found = Search::new(&model, &roomy, budget, 0, &params.local_search).best.cost;
            assert!(crate::state::slotted_timeline::SlottedTimeline::new(&model, &roomy).peak() <= budget);
            assert!(found <= best.cost + model.time.iter().sum::<u64>() / params.easing.spent_parts);
            assert!(full(&roomy) < full(&best.nodes));
        }
    }
}
