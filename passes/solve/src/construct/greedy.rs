//! First plans in milliseconds: gap eviction from an order, then clean-up.
//!
//! From the order given, once without randomness, then with growing randomness if that fails. Source: docs/design/planner.md,
//! 4.3 (step 6) and 4.4.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::construct::gap_eviction::{EvictionParams, Repair};
use crate::construct::prune_redundant::{prune, recomputed};
use crate::improve::lns::Solution;
use crate::portfolio::clock::Clock;
use crate::state::flat_graph::FlatGraph;
use crate::state::slotted_timeline::SlottedTimeline;

/// Attempts with growing randomness when the first one fails, where a plan is worth some.
pub(crate) const TRIES: u32 = 6;

/// A sequence within the budget, from the legal one in `start`; at most `tries` attempts.
pub(crate) fn greedy(
    model: &FlatGraph,
    start: &[u32],
    budget: i64,
    seed: u64,
    tries: u32,
    clock: &Clock,
) -> Option<Solution> {
    let mut attempts = Attempts::new(model, start, budget, seed);
    (0..tries).find_map(|_| attempts.next(clock))
}

/// The attempts one by one.
pub(crate) struct Attempts<'m> {
    timeline: SlottedTimeline<'m>,
    repair: Repair,
    budget: i64,
    random: ChaCha8Rng,
    made: u32,
}

impl<'m> Attempts<'m> {
    /// From the legal sequence in `start`.
    pub(crate) fn new(model: &'m FlatGraph, start: &[u32], budget: i64, seed: u64) -> Self {
        Self {
            timeline: SlottedTimeline::new(model, start),
            repair: Repair::new(model.len(), budget),
            budget,
            random: ChaCha8Rng::seed_from_u64(seed),
            made: 0,
        }
    }

    /// The next one; none if it gets stuck or the clock has expired.
    pub(crate) fn next(&mut self, clock: &Clock) -> Option<Solution> {
        let attempt = self.made;
        if attempt > 0 {
            if clock.expired() {
                return None;
            }
            self.timeline.rollback();
        }
        self.made += 1;
        let params = EvictionParams::new(0.15 * f64::from(attempt), u64::MAX);
        if !self.repair.repair(&mut self.timeline, &params, &mut self.random, clock) {
            return None;
        }
        let milliseconds = clock.elapsed().as_millis() as u64;
        tracing::debug!(
            attempt,
            milliseconds,
            cost = self.timeline.cost(),
            runs = self.timeline.len(),
            "repaired"
        );
        Some(cleaned(&mut self.timeline, self.budget, &mut self.random, clock))
    }
}

/// What is left of a timeline within the budget when no run can be spared.
pub(crate) fn cleaned(
    timeline: &mut SlottedTimeline,
    budget: i64,
    random: &mut ChaCha8Rng,
    clock: &Clock,
) -> Solution {
    let mut nodes = recomputed(timeline);
    while prune(timeline, budget, &mut nodes, random) && !clock.expired() {
        nodes = recomputed(timeline);
    }
    let milliseconds = clock.elapsed().as_millis() as u64;
    tracing::debug!(milliseconds, cost = timeline.cost(), runs = timeline.len(), "cleaned");
    Solution { nodes: timeline.sequence(), cost: timeline.cost() }
}
