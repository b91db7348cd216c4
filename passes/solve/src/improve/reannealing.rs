//! The best plan of a search, annealed anew.
//!
//! The local search keeps to the budget, and what it puts back is what it finds missing, one eviction at a time. An annealing
//! ([`crate::improve::annealing`]) goes where too much is held for a while, and changes the order and what runs again at once, in far smaller steps.
//! It needs a plan that is good already, and begins so cool that most of that stays; how cool is best differs from plan to plan, so
//! temperatures take turns. What comes out is repaired and goes on as a search.
//!
//! Where that finds nothing it is tried less often.

use std::ops::ControlFlow;

use crate::construct::greedy::{TRIES, greedy};
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::params::{Params, Reannealing};
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;
use crate::state::flat_graph::FlatGraph;

/// When the next annealing is due, and how hot it is.
pub(crate) struct Cooling {
    turn: usize,
    next: u32,
    misses: u32,
}

impl Cooling {
    pub(crate) fn new() -> Self {
        Self { turn: 0, next: 0, misses: 0 }
    }

    /// A plan that takes less than `best`. `None` if none is found, if it is not due in this round, or if the iterations of the round
    /// are too few to get anywhere in a part of their time.
    pub(crate) fn better(
        &mut self,
        model: &FlatGraph,
        best: &Solution,
        budget: i64,
        (round, iterations): (u32, u64),
        (seed, clock): (u64, &Clock),
        params: &Params,
    ) -> Option<Solution> {
        let Reannealing { moves, least_moves_per_node, most_moves_per_node, .. } = params.reannealing;
        let heats =
            [params.reannealing.first_heat, params.reannealing.second_heat, params.reannealing.third_heat];
        let nodes = model.len() as u64;
        let moves = moves.saturating_mul(iterations).min(most_moves_per_node * nodes);
        if round < self.next || moves < least_moves_per_node * nodes {
            return None;
        }
        let heat = heats[self.turn % heats.len()];
        let seed = seed.wrapping_add(self.turn as u64);
        self.turn += 1;
        let mut annealing = Annealing::new(model, &best.nodes, budget, seed, &params.annealing);
        annealing.run(moves, true, heat, clock);
        let found = greedy(model, &annealing.best, budget, seed, TRIES, clock);
        let better = found.filter(|found| found.cost < best.cost);
        self.misses = if better.is_some() { 0 } else { self.misses + 1 };
        self.next = round + 1 + self.misses / 2;
        better
    }
}

impl Strategy for Cooling {
    fn name(&self) -> &'static str {
        "re-annealing"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let Some(best) = board.population.best() else { return ControlFlow::Continue(()) };
        let round = (board.round.index(), board.round.made);
        let found = self.better(
            board.model,
            best,
            task.budget,
            round,
            (task.request.seed, &task.clock),
            &task.request.params,
        );
        if let Some(best) = found {
            task.offer(&best.nodes, Solver::Local);
            board.enter(task, &best.nodes);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rk_plan::base_trace;

    use super::*;
    use crate::improve::lns::Search;
    use crate::state::slotted_timeline::SlottedTimeline;
    use crate::synthetic::{Family, graph};

    #[test]
    fn a_plan_at_rest_gets_better() {
        let (clock, params) = (Clock::new(Duration::MAX), Params::default());
        let mut better = 0;
        for seed in 0..6 {
            let graph = graph(Family::Bottleneck, 100, seed);
            let model = FlatGraph::new(&graph);
            let budget = base_trace(&graph).peak.0 as i64 / 100 * 50;
            let base: Vec<u32> = (0..model.len() as u32).collect();
            let Some(start) = greedy(&model, &base, budget, 0, TRIES, &clock) else { continue };
            let mut search = Search::new(&model, &start.nodes, budget, 0, &params.local_search);
            search.run(2000, 0, &clock);
            let mut best = search.best;
            let mut cooling = Cooling::new();
            assert!(
                cooling.better(&model, &best, budget, (0, 0), (0, &clock), &params).is_none()
                    && cooling.turn == 0
            );
            for round in 0..12 {
                let Some(found) = cooling.better(&model, &best, budget, (round, 1500), (0, &clock), &params)
                else {
                    continue;
                };
                let timeline = SlottedTimeline::new(&model, &found.nodes);
                assert!(timeline.peak() <= budget && timeline.cost() == found.cost && found.cost < best.cost);
                best = found;
                better += 1;
            }
        }
        assert!(better > 2, "{better}");
    }

    /// Nothing takes less time than to run every node once.
    #[test]
    fn it_is_tried_less_often_where_it_finds_nothing() {
        let graph = graph(Family::Bottleneck, 60, 0);
        let model = FlatGraph::new(&graph);
        let nodes: Vec<u32> = (0..model.len() as u32).collect();
        let best = Solution { cost: model.time.iter().sum(), nodes };
        let budget = base_trace(&graph).peak.0 as i64;
        let mut cooling = Cooling::new();
        let (clock, params) = (Clock::new(Duration::MAX), Params::default());
        let tried = (0..12).filter(|&round| {
            let before = cooling.turn;
            assert!(cooling.better(&model, &best, budget, (round, 1500), (0, &clock), &params).is_none());
            cooling.turn > before
        });
        assert_eq!(tried.collect::<Vec<u32>>(), [0, 1, 3, 5, 8, 11]);
    }
}
