//! Ruin and recreate on the sequence, with shift moves: the local search.
//!
//! State: a timeline within the budget. One iteration:
//!
//! - *ruin*: take recomputations away (a window of positions, a window of node ids, or a few at random) and what only
//!   they read; sometimes *shift* a few runs later (to just before their first use, or anywhere behind if nobody reads what they make
//!   and it takes more memory than what it is made of) or earlier (after their operands)
//! - *recreate*: repair with a random preference and a cost limit, then delete-clean
//! - *accept* if the cost is at most the current one plus a share of the recompute cost that shrinks within each cycle;
//!   else take everything back
//!
//! Cycles grow; each starts from the best plan. Everything is counted in iterations; the clock only stops. Moves are
//! O(degree · log n) each, see [`crate::state::slotted_timeline`].
//!
//! Source: docs/design/planner.md, 4.5 and 4.6; the large-neighbourhood idea is Shaw's (1998), the acceptance Schrimpf's (2000).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::construct::gap_eviction::{EvictionParams, Repair};
use crate::construct::prune_redundant::{prune, recomputed};
use crate::params::LocalSearch;
use crate::portfolio::clock::Clock;
use crate::portfolio::request::Plan;
use crate::state::flat_graph::{FlatGraph, NONE, from_sequence};
use crate::state::slotted_timeline::SlottedTimeline;

/// The best sequence that a search has seen.
#[derive(Clone)]
pub(crate) struct Solution {
    pub(crate) nodes: Vec<u32>,
    pub(crate) cost: u64,
}

impl From<&Plan> for Solution {
    fn from(plan: &Plan) -> Self {
        Self { nodes: from_sequence(&plan.sequence), cost: plan.trace.time.0 }
    }
}

/// A search that can be continued.
pub(crate) struct Search<'m> {
    params: &'m LocalSearch,
    timeline: SlottedTimeline<'m>,
    repair: Repair,
    budget: i64,
    base_cost: u64,
    pub(crate) best: Solution,
    /// The timeline is the best sequence, which is not yet in `best`: writing it down takes as long as several moves.
    unsaved: bool,
    random: ChaCha8Rng,
    cycle: u32,
    step: u64,
    pub(crate) iterations: u64,
}

/// A size between that for small graphs and that for large ones. What a ruin takes away is put back one eviction at a time, so small
/// ruins are worth more in large graphs.
fn size(if_large: u64, if_small: u64, large: u64, nodes: usize) -> f64 {
    (if_large * large / nodes.max(1) as u64).min(if_small).max(if_large) as f64
}

impl<'m> Search<'m> {
    /// Starts from a legal sequence within the budget.
    pub(crate) fn new(
        model: &'m FlatGraph,
        start: &[u32],
        budget: i64,
        seed: u64,
        params: &'m LocalSearch,
    ) -> Self {
        let timeline = SlottedTimeline::new(model, start);
        let best = Solution { nodes: start.to_vec(), cost: timeline.cost() };
        let base_cost = model.time.iter().sum();
        let random = ChaCha8Rng::seed_from_u64(seed);
        let repair = Repair::new(model.len(), budget);
        Self {
            params,
            timeline,
            repair,
            budget,
            base_cost,
            best,
            unsaved: false,
            random,
            cycle: 0,
            step: 0,
            iterations: 0,
        }
    }

    /// Runs until `iterations` more are done, the cost reaches `goal`, or the clock ends. True if the goal is reached.
    pub(crate) fn run(&mut self, iterations: u64, goal: u64, clock: &Clock) -> bool {
        let mut nodes = recomputed(&self.timeline);
        prune(&mut self.timeline, self.budget, &mut nodes, &mut self.random);
        self.keep();
        for _ in 0..iterations {
            if self.best.cost <= goal || clock.expired() {
                break;
            }
            self.iterate(clock);
        }
        self.save();
        self.best.cost <= goal
    }

    fn keep(&mut self) {
        self.timeline.commit();
        if self.timeline.cost() < self.best.cost {
            self.best.cost = self.timeline.cost();
            self.unsaved = true;
        }
    }

    fn save(&mut self) {
        if std::mem::take(&mut self.unsaved) {
            self.best.nodes = self.timeline.sequence();
        }
    }

    fn iterate(&mut self, clock: &Clock) {
        self.iterations += 1;
        self.step += 1;
        let length = self.params.first_cycle << self.cycle.min(20);
        if self.step > length {
            (self.step, self.cycle) = (0, self.cycle + 1);
            self.save();
            let best = std::mem::take(&mut self.best.nodes);
            self.timeline.reset(&best);
            self.best.nodes = best;
        }
        let current = self.timeline.cost();
        let shifted = self.random.random_bool(self.params.shifting);
        if shifted {
            for _ in 0..self.random.random_range(1..=4) {
                self.shift();
            }
        }
        let mut touched = self.ruin();
        let recompute = (current - self.base_cost) as f64;
        let ruined = current.saturating_sub(self.timeline.cost()) as f64;
        let remaining = 1.0 - self.step as f64 / (length + 1) as f64;
        let tolerance = (self.params.tolerance * recompute).min(self.params.ruined_tolerance * ruined);
        let slack = (self.random.random::<f64>() * tolerance * remaining * remaining) as u64;
        let sigma = self.random.random_range(0.05..0.65);
        // While it is repaired a sequence may cost a little more than it does when it has been cleaned.
        let detour = (self.params.detour * recompute).min(self.params.ruined_detour * ruined) as u64;
        let (forward, hold) =
            (self.random.random_bool(self.params.forward), self.random.random_bool(self.params.hold));
        let eviction =
            EvictionParams { forward, hold, ..EvictionParams::new(sigma, current + detour + slack) };
        let fits = self.repair.repair(&mut self.timeline, &eviction, &mut self.random, clock);
        if fits {
            touched.extend_from_slice(&self.repair.inserted);
            if self.random.random_bool(0.1) {
                touched = recomputed(&self.timeline);
            }
            prune(&mut self.timeline, self.budget, &mut touched, &mut self.random);
        }
        let leaves = self.unsaved && self.timeline.cost() > self.best.cost;
        if fits && self.timeline.cost() <= current + slack && !leaves {
            self.keep();
            return;
        }
        self.timeline.rollback();
        if fits && leaves {
            // The way down from here is open the next time.
            self.save();
        }
    }

    /// Deletes some recomputations; returns their nodes.
    fn ruin(&mut self) -> Vec<u32> {
        let all = recomputed(&self.timeline);
        if all.is_empty() {
            return Vec::new();
        }
        let (params, nodes) = (self.params, self.timeline.model.len());
        let window = size(params.window_if_large, params.window_if_small, params.large_graph, nodes);
        let picked = size(params.picked_if_large, params.picked_if_small, params.large_graph, nodes);
        let random = &mut self.random;
        let mut chosen: Vec<u32> = Vec::new();
        let small = random.random::<f64>();
        match random.random_range(0..20) {
            0..9 => {
                let share = 0.02 + 0.25 * small * small * small;
                let last = self.timeline.last_slot();
                let share = share.min(window / all.len() as f64);
                let width = ((share * f64::from(last)) as u32).max(1);
                let from = random.random_range(1..=last);
                let rate = random.random_range(0.3..1.0);
                for slot in from..=from.saturating_add(width).min(last) {
                    let node = self.timeline.node_at(slot);
                    if node != NONE && self.timeline.runs(node)[0] != slot && random.random_bool(rate) {
                        chosen.push(node);
                    }
                }
            }
            9..18 => {
                let count = 1 + (small * small * picked) as usize;
                chosen.extend((0..count).map(|_| all[random.random_range(0..all.len())]));
            }
            _ => {
                let share = (0.01 + 0.15 * small * small).min(window / all.len() as f64);
                let width = (share * nodes as f64) as usize + 1;
                let from = random.random_range(0..nodes);
                chosen.extend(all.iter().filter(|&&node| (from..from + width).contains(&(node as usize))));
            }
        }
        for &node in &chosen {
            let runs = self.timeline.runs(node);
            if runs.len() > 1 {
                let slot = runs[self.random.random_range(1..runs.len())];
                self.timeline.delete_with_dead(node, slot);
            }
        }
        chosen
    }

    /// Moves one run later or earlier, keeping the order of its operands and uses.
    fn shift(&mut self) {
        let last = self.timeline.last_slot();
        let mut slot = self.random.random_range(1..=last);
        slot = if self.timeline.node_at(slot) == NONE { self.timeline.previous_used(slot) } else { slot };
        if slot == 0 {
            return;
        }
        let sink = self.random.random_bool(self.params.sinking);
        let node = self.timeline.node_at(slot);
        let place = self.random.random::<u32>();
        shift(&mut self.timeline, node, slot, sink, place);
    }
}

/// A slot behind a run that nobody reads, nearer ones likelier, before the next run of its node; where what it makes and is kept to the end
/// is more than what it would keep alive till then.
fn later(timeline: &SlottedTimeline, node: u32, run: usize, place: u32) -> u32 {
    let (model, runs) = (timeline.model, timeline.runs(node));
    let limit = runs.get(run + 1).copied().unwrap_or(timeline.last_slot());
    let far = (limit - runs[run]) >> (place & 7);
    if far == 0 {
        return NONE;
    }
    let target = runs[run] + 1 + (place >> 3) % far;
    let made = model.writes.row(node).iter().filter(|&&value| model.pinned[value as usize]);
    let made: i64 = made.map(|&value| model.bytes[value as usize]).sum();
    let kept = model.reads.row(node).iter().filter(|&&value| {
        let read = timeline.newest(model.producer[value as usize], runs[run]);
        read.is_some_and(|read| timeline.end(value, read) < target)
    });
    let kept: i64 = kept.map(|&value| model.bytes[value as usize]).sum();
    if made > kept { target } else { NONE }
}

/// Sinks the run of `node` at `slot` to just before its first use, or hoists it to a place chosen by `place` between its
/// operands and where it is.
pub(crate) fn shift(timeline: &mut SlottedTimeline, node: u32, slot: u32, sink: bool, place: u32) {
    let model = timeline.model;
    let Some(run) = timeline.runs(node).iter().position(|&other| other == slot) else { return };
    let target = if sink {
        let uses = model.writes.row(node).iter().map(|&value| timeline.first_use(value, run));
        match uses.min().unwrap_or(NONE) {
            NONE => later(timeline, node, run, place),
            first => first,
        }
    } else {
        let operands = model.reads.row(node).iter().filter_map(|&value| {
            let producer = model.producer[value as usize];
            timeline.newest(producer, slot).map(|newest| timeline.runs(producer)[newest])
        });
        let earlier = run.checked_sub(1).map(|earlier| timeline.runs(node)[earlier]);
        let lowest = operands.chain(earlier).max().unwrap_or(0) + 1;
        if lowest >= slot {
            return;
        }
        lowest + place % (slot - lowest)
    };
    if target == NONE || (sink && timeline.node_at(target) != NONE && timeline.previous_used(target) == slot)
    {
        return;
    }
    // A sink never passes the node's next run: that run would have to come before the first use of this instance.
    if timeline.reserve(target, 1) {
        return;
    }
    if timeline.node_at(target) == NONE {
        timeline.shift(node, slot, target);
        return;
    }
    let free = timeline.room_before(target);
    // Making room may have moved the run itself.
    let slot = timeline.runs(node)[run];
    timeline.shift(node, slot, free);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody reads `w` and `v`, which are there to the end.
    #[test]
    fn runs_that_nobody_reads_sink_where_they_free_more_than_they_hold() {
        let text = "x 5 1; y(x) 2 1; w(x, y) 4 1 pin; v(x) 6 1 pin; z(y) 1 1; a(z) 1 1; b(a) 1 1";
        let graph = rk_plan::text::read(text).unwrap();
        let model = FlatGraph::new(&graph);
        let given: Vec<u32> = (0..model.len() as u32).collect();
        let after = |node: u32| {
            let places = (0..64).map(|place| {
                let mut timeline = SlottedTimeline::new(&model, &given);
                let slot = timeline.runs(node)[0];
                shift(&mut timeline, node, slot, true, place << 3);
                timeline.sequence()
            });
            places.filter(|sequence| *sequence != given).collect::<Vec<_>>()
        };
        // Behind `z` two values of 7 bytes in all would live longer for `w`, and 5 for `v`.
        let behind = |sequence: &Vec<u32>, node, other| {
            let place = |node| sequence.iter().position(|&run| run == node);
            place(node) > place(other)
        };
        assert!(after(2).iter().all(|sequence| !behind(sequence, 2, 4)));
        let sunk = after(3);
        assert!(sunk.iter().any(|sequence| behind(sequence, 3, 6)));
        for sequence in after(2).iter().chain(&sunk) {
            assert!(
                rk_plan::judge(&graph, &crate::state::flat_graph::to_sequence(sequence)).is_ok(),
                "{sequence:?}"
            );
        }
    }
}
