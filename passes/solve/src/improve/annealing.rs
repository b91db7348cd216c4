//! Simulated annealing over sequences: order and recomputation in one state.
//!
//! State: a [`DenseTimeline`], which may be over the budget. Energy: `cost / base + weight · excess / budget`, the excess summed over the steps.
//! A sum has a slope wherever some step is too full; the peak alone, which served here before, changes only when its own step does. The moves are those of
//! [`moves`].
//!
//! Metropolis acceptance with a geometric temperature. The weight is no constant: it rises while too few of the visited sequences fit
//! and falls while more do, so the walk stays at the edge of what fits, whatever a byte is worth. Without recomputation only the first two kinds
//! are used, and only the excess counts. All by counts of moves; the clock only stops.
//!
//! Source: FastSA (Imanishi et al., NeurIPS 2023) for annealing over order and recomputation in one state; sum, weight and moves are ours.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::params;
use crate::portfolio::clock::Clock;
use crate::state::dense_timeline::DenseTimeline;
use crate::state::flat_graph::FlatGraph;

pub(crate) mod memory_objective;
mod moves;

/// An annealing that can be continued.
pub(crate) struct Annealing<'m> {
    params: &'m params::Annealing,
    timeline: DenseTimeline<'m>,
    base: u64,
    budget: f64,
    weight: f64,
    random: ChaCha8Rng,
    /// The best sequence so far: of least cost among those that fit, else of least energy.
    pub(crate) best: Vec<u32>,
    pub(crate) best_excess: i128,
    pub(crate) best_cost: u64,
    /// The timeline is the best sequence, which is not yet in `best`: writing it down takes as long as several moves.
    unsaved: bool,
    /// Runs put in and taken out by the move being made.
    journal: Vec<Change>,
    /// Runs that the move being made may still put in.
    left: u32,
    /// Nodes tied to those that are dragged along have the current mark.
    marks: Vec<u64>,
    mark: u64,
    group: Vec<u32>,
}

/// What a move leads to.
struct Proposal {
    /// Where a reordering begins, if it is one.
    from: Option<usize>,
    cost: u64,
    excess: i128,
    refused: bool,
}

enum Change {
    /// Where.
    Inserted(usize),
    /// What, and where it was.
    Removed(u32, usize),
}

/// Moves between looks at the clock, the temperature and the weight.
const BLOCK: u64 = 256;
/// What they count as, where work is counted: a microsecond each, about.
const BLOCK_WORK: Duration = Duration::from_micros(BLOCK);

impl<'m> Annealing<'m> {
    /// Starts from a legal sequence.
    pub(crate) fn new(
        model: &'m FlatGraph,
        start: &[u32],
        budget: i64,
        seed: u64,
        params: &'m params::Annealing,
    ) -> Self {
        let timeline = DenseTimeline::new(model, start, budget);
        Self {
            base: model.time.iter().sum(),
            budget: budget.max(1) as f64,
            params,
            weight: params.weight,
            random: ChaCha8Rng::seed_from_u64(seed),
            best: start.to_vec(),
            best_excess: timeline.excess(),
            best_cost: timeline.cost(),
            unsaved: false,
            journal: Vec::new(),
            left: 0,
            marks: vec![0; model.len()],
            mark: 0,
            group: Vec::new(),
            timeline,
        }
    }

    /// Makes `moves` moves from the best sequence so far, at `heat` times the usual temperature at first. Ends early with the clock, or
    /// when nothing is left to gain.
    pub(crate) fn run(&mut self, moves: u64, recompute: bool, heat: f64, clock: &Clock) {
        self.timeline.reset(&self.best);
        self.walk(moves, recompute, heat, clock);
        self.save();
    }

    fn save(&mut self) {
        if std::mem::take(&mut self.unsaved) {
            self.best = self.timeline.sequence();
        }
    }

    fn energy(&self, cost: u64, excess: i128, weight: f64) -> f64 {
        cost as f64 / self.base.max(1) as f64 + weight * excess as f64 / self.budget
    }

    fn walk(&mut self, moves: u64, recompute: bool, heat: f64, clock: &Clock) {
        let nodes = self.timeline.model.len().max(1) as f64;
        let (hot, cold) = (self.params.hot * heat / nodes, self.params.cold / nodes);
        let params::Annealing { fitting: wanted, weight_step: factor, most_weight: most, .. } = *self.params;
        let (mut fitting, mut temperature) = (0, hot);
        for step in 0..moves {
            if step % BLOCK == 0 {
                if (self.best_excess == 0 && self.best_cost <= self.base) || clock.expired_after(BLOCK_WORK) {
                    return;
                }
                temperature = hot * (cold / hot).powf(step as f64 / moves as f64);
                if recompute && step > 0 {
                    let few = (fitting as f64) < wanted * BLOCK as f64;
                    self.weight *= if few { factor } else { 1.0 / factor };
                    self.weight = self.weight.clamp(1.0 / most / most, most);
                }
                fitting = 0;
            }
            let fit = self.timeline.excess() == 0;
            let Some(next) = self.proposed(recompute, temperature) else { continue };
            let better = !next.refused && self.is_better(next.cost, next.excess);
            if next.refused || (self.unsaved && !better) {
                self.undo();
                if !next.refused {
                    // The way from here is open the next time.
                    self.save();
                }
                fitting += u64::from(fit);
                continue;
            }
            self.accept(&next);
            fitting += u64::from(next.excess == 0);
            if better {
                (self.best_cost, self.best_excess, self.unsaved) = (next.cost, next.excess, true);
            }
        }
    }

    /// A random move, and whether it is taken at a temperature; `None` if there is none. A reordering is not made yet.
    fn proposed(&mut self, recompute: bool, temperature: f64) -> Option<Proposal> {
        let (cost, excess) = (self.timeline.cost(), self.timeline.excess());
        let from = self.propose(recompute);
        if from.is_none() && self.journal.is_empty() {
            return None;
        }
        let then = from.map_or(self.timeline.excess(), |from| self.timeline.tried(from));
        let now = self.timeline.cost();
        let rise = self.energy(now, then, self.weight) - self.energy(cost, excess, self.weight);
        let refused = rise > 0.0 && self.random.random::<f64>() >= (-rise / temperature).exp();
        Some(Proposal { from, cost: now, excess: then, refused })
    }

    fn accept(&mut self, next: &Proposal) {
        self.journal.clear();
        if let Some(from) = next.from {
            self.timeline.accept(from, next.excess);
        }
    }

    fn is_better(&self, cost: u64, excess: i128) -> bool {
        if excess == 0 || self.best_excess == 0 {
            return excess == 0 && (self.best_excess > 0 || cost < self.best_cost);
        }
        self.energy(cost, excess, self.params.weight)
            < self.energy(self.best_cost, self.best_excess, self.params.weight)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use rk_plan::{Graph, Trace, base_trace, judge};

    use super::*;
    use crate::construct::greedy::greedy;
    use crate::construct::list_scheduling::list_schedules;
    use crate::state::flat_graph::to_sequence;
    use crate::state::slotted_timeline_tests::random_graph;
    use crate::synthetic::{Family, graph};

    fn clock() -> Clock {
        Clock::new(Duration::MAX)
    }

    /// What the judge says of the best sequence, which must be what the annealing says.
    fn judged(graph: &Graph, annealing: &Annealing, budget: i64) -> Trace {
        let trace = judge(graph, &to_sequence(&annealing.best))
            .unwrap_or_else(|illegal| panic!("{}", illegal.describe(graph)));
        let over = trace.memory.iter().map(|memory| i128::from((memory.0 as i64 - budget).max(0)));
        assert_eq!((annealing.best_excess, annealing.best_cost), (over.sum(), trace.time.0));
        trace
    }

    proptest! {
        #[test]
        fn the_best_sequence_is_legal_and_is_what_it_seems(seed in any::<u64>(), nodes in 1usize..25, budget in 1i64..12) {
            let graph = random_graph(nodes, 0.0, &mut ChaCha8Rng::seed_from_u64(seed));
            let model = FlatGraph::new(&graph);
            let base: Vec<u32> = (0..nodes as u32).collect();
            let params = params::Annealing::default();
            let mut annealing = Annealing::new(&model, &base, budget, seed, &params);
            for recompute in [true, false, true] {
                annealing.run(300, recompute, 4.0, &clock());
                judged(&graph, &annealing, budget);
            }
        }
    }

    #[test]
    fn costs_less_than_eviction_from_many_orders() {
        for seed in [0, 2] {
            let graph = graph(Family::Layered, 100, seed);
            let model = FlatGraph::new(&graph);
            let base: Vec<u32> = (0..model.len() as u32).collect();
            let budget = base_trace(&graph).peak.0 as i64 / 100 * 40;
            let orders = list_schedules(&model, 40, 0, &clock());
            let evicted = orders.iter().filter_map(|order| greedy(&model, order, budget, 0, 3, &clock()));
            let evicted = evicted.map(|best| best.cost).min();
            let params = params::Annealing::default();
            let mut annealing = Annealing::new(&model, &base, budget, 0, &params);
            annealing.run(5_000, false, 1.0, &clock());
            annealing.run(20_000, true, 1.0, &clock());
            let trace = judged(&graph, &annealing, budget);
            let more = |cost: u64| cost - annealing.base;
            assert!(trace.peak.0 as i64 <= budget);
            let (annealed, evicted) = (more(trace.time.0), evicted.map(more));
            assert!(evicted.is_none_or(|evicted| 4 * annealed < 3 * evicted), "{annealed} {evicted:?}");
        }
    }
}
