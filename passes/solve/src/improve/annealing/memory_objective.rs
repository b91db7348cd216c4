//! The other way round: as little excess as can be for a cost.
//!
//! The budget of the timeline is only a part of what there is, so that nearly every step exceeds it, and the excess tells how full memory is
//! over the whole of a sequence. The peak stays below a roof: what would exceed it is refused. Where a lower peak leaves less room, what
//! counts as full falls with it. The weight of the excess rises while more than half of the visited sequences cost little enough, and
//! falls while fewer do.

use super::{Annealing, BLOCK, BLOCK_WORK};
use crate::params::Easing;
use crate::portfolio::clock::Clock;
use crate::state::dense_timeline::DenseTimeline;

/// Its temperature at the end, as a share of that at first.
const FROZEN: f64 = 0.03;
/// The least weight of the excess.
const LIGHT: f64 = 1e-5;

/// What sequences have to keep to.
#[derive(Clone, Copy)]
pub(crate) struct Within {
    /// The most that they cost, and how much of that is there to be spent for less excess.
    pub(crate) most: u64,
    pub(crate) spent: u64,
    /// The greatest peak.
    pub(crate) roof: i64,
}

/// How far a walk may go from what costs little enough. Neither is best for all plans and costs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Walk {
    /// As far as it gets.
    Free,
    /// Where nothing costs little enough for a while, it goes back to the best sequence.
    RestartToBest,
}

impl Annealing<'_> {
    /// Lowers the excess of the best sequence; `room` is how much there is for a peak. Ends early with the clock.
    pub(crate) fn lower_memory(
        &mut self,
        moves: u64,
        walk: Walk,
        Within { most, spent, roof }: Within,
        room: impl Fn(i64) -> i64,
        clock: &Clock,
        params: &Easing,
    ) {
        let (heavy, factor) = (self.params.most_weight, self.params.weight_step);
        self.timeline.reset(&self.best);
        let usual = room(self.timeline.peak());
        let spent = spent.max(1) as f64 / self.base.max(1) as f64;
        let excess = self.best_excess.max(1) as f64 / self.budget;
        let first = (spent / (params.worth * excess)).clamp(LIGHT, heavy);
        self.weight = first;
        let nodes = self.timeline.model.len().max(1) as f64;
        let (hot, cold) = match walk {
            Walk::Free => (params.free_heat / nodes, self.params.cold / nodes),
            Walk::RestartToBest => (params.returning_heat * spent, params.returning_heat * spent * FROZEN),
        };
        let (mut cheap, mut temperature) = (0, hot);
        for step in 0..moves {
            if step % BLOCK == 0 {
                if clock.expired_after(BLOCK_WORK) {
                    return;
                }
                if step > 0 {
                    if cheap == 0 && walk == Walk::RestartToBest {
                        self.timeline.reset(&self.best);
                    }
                    self.weight *= if 2 * cheap > BLOCK { factor } else { 1.0 / factor };
                    self.weight = self.weight.clamp(LIGHT, heavy);
                }
                temperature = hot * (cold / hot).powf(step as f64 / moves as f64);
                if walk == Walk::RestartToBest {
                    // Where cost is of no account, it is the excess that cools down.
                    temperature *= (self.weight / first).max(1.0);
                }
                cheap = 0;
            }
            cheap += u64::from(self.timeline.cost() <= most);
            let Some(next) = self.proposed(true, temperature) else { continue };
            let peak = |timeline: &DenseTimeline| {
                if next.from.is_some() { timeline.trial_peak() } else { timeline.peak() }
            };
            if next.refused || peak(&self.timeline) > roof {
                self.undo();
                continue;
            }
            self.accept(&next);
            if next.cost > most || next.excess >= self.best_excess {
                continue;
            }
            let excess = excess_below(&self.timeline, (usual - room(self.timeline.peak())).max(0));
            if excess < self.best_excess {
                (self.best_cost, self.best_excess) = (next.cost, excess);
                self.best = self.timeline.sequence();
            }
        }
    }
}

/// What the excess is over a budget that is smaller by so many bytes.
fn excess_below(timeline: &DenseTimeline, bytes: i64) -> i128 {
    (0..timeline.len()).map(|place| i128::from((timeline.over(place) + bytes).max(0))).sum()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rk_plan::{Bytes, base_trace, judge};

    use super::*;
    use crate::params::Params;
    use crate::state::flat_graph::{FlatGraph, from_sequence, to_sequence};
    use crate::synthetic::{Family, graph};
    use crate::{Request, Solver, solve};

    /// What a plan runs once more can only be taken away where memory has room, and below the roof there is none.
    #[test]
    fn a_walk_that_costs_too_much_goes_back_to_the_best_sequence() {
        let clock = Clock::new(Duration::MAX);
        let params = Params::default();
        let (mut before, mut after) = (0, 0);
        for seed in 0..6 {
            let graph = graph(Family::Layered, 250, seed);
            let model = FlatGraph::new(&graph);
            let given: Vec<u32> = (0..model.len() as u32).collect();
            let roof = base_trace(&graph).peak.0 as i64 / 100 * 70;
            let mut plan = Annealing::new(&model, &given, roof, seed, &params.annealing);
            plan.run(20_000, false, 1.0, &clock);
            plan.run(80_000, true, 1.0, &clock);
            let spent = graph.total_time().0 / 100;
            let mut annealing = Annealing::new(&model, &plan.best, roof / 10 * 9, seed, &params.annealing);
            before += annealing.best_excess;
            let within = Within { most: plan.best_cost + spent, spent, roof };
            annealing.lower_memory(60_000, Walk::RestartToBest, within, |peak| peak, &clock, &params.easing);
            after += annealing.best_excess;
        }
        // Walks that do not go back leave a seventh of it.
        assert!(after * 10 < before, "{before} {after}");
    }

    #[test]
    fn the_excess_falls_within_cost_and_peak() {
        let params = Params::default();
        let mut eased = 0;
        for (seed, walk) in (0..6).flat_map(|seed| [(seed, Walk::Free), (seed, Walk::RestartToBest)]) {
            let graph = graph(Family::Layered, 80, seed);
            let budget = Bytes(base_trace(&graph).peak.0 / 3 * 2);
            let request = Request { solver: Solver::Greedy, ..Request::new(&graph, budget) };
            let Some(plan) = solve(&request).plan else { continue };
            let model = FlatGraph::new(&graph);
            let start = from_sequence(&plan.sequence);
            let mut annealing =
                Annealing::new(&model, &start, budget.0 as i64 / 10 * 9, seed, &params.annealing);
            let before = annealing.best_excess;
            let spent = graph.total_time().0 / 100;
            let cost = plan.trace.time.0 + spent;
            let within = Within { most: cost, spent, roof: budget.0 as i64 };
            annealing.lower_memory(
                20_000,
                walk,
                within,
                |peak| peak,
                &Clock::new(Duration::MAX),
                &params.easing,
            );
            let trace = judge(&graph, &to_sequence(&annealing.best)).expect("legal");
            assert!(trace.time.0 <= cost && trace.time.0 == annealing.best_cost, "seed {seed}");
            assert!(trace.peak <= budget, "seed {seed}: {} of {}", trace.peak.0, budget.0);
            assert!(annealing.best_excess <= before);
            eased += usize::from(annealing.best_excess < before / 4 * 3);
        }
        assert!(eased >= 6, "{eased}");
    }
}
