//! Runs move: one at a time, between its operands and its uses.

use rand::Rng;
use rk_plan::Sequence;

use super::EjectionChain;
use crate::layout::free_space::Item;
use crate::portfolio::clock::Clock;
use crate::state::flat_graph::{NONE, to_sequence};
use crate::state::memory_pressure::UNIT;

/// The first temperature of annealing, in units of a step at the limit.
const HOT: f64 = 0.05;
/// The last temperature of annealing, in those units.
const COLD: f64 = 0.00005;
/// The temperature of moves while buffers are placed, in those units.
pub(super) const WARM: f64 = 0.01;
/// Slots tried for a free one.
const LOOKS: usize = 4;

impl EjectionChain<'_> {
    /// Anneals the order so that few steps are near the limit, with no regard to addresses: they are invalid afterwards. Returns
    /// the runs.
    pub(crate) fn calm(&mut self, moves: u64, clock: &Clock) -> Sequence {
        self.calming = true;
        let all = |chain: &Self| chain.pressure.between(&chain.timeline, 1, chain.timeline.last_slot());
        let (mut now, mut best) = (all(self), (all(self), self.timeline.sequence()));
        for step in 0..moves {
            if step % 64 == 63 && clock.expired() {
                break;
            }
            self.temperature = HOT * (COLD / HOT).powf(step as f64 / moves as f64);
            now += self.wander();
            if now < best.0 {
                best = (now, self.timeline.sequence());
            }
        }
        (self.calming, self.temperature) = (false, WARM);
        to_sequence(&best.1)
    }

    /// Moves a random run anywhere; returns by how much the pressure has grown.
    pub(super) fn wander(&mut self) -> i64 {
        let mut slot = self.random.random_range(1..=self.timeline.last_slot());
        if self.timeline.node_at(slot) == NONE {
            slot = self.timeline.previous_used(slot);
        }
        if slot == 0 {
            return 0;
        }
        let node = self.timeline.node_at(slot);
        let run = self.timeline.runs(node).partition_point(|&other| other < slot);
        let (low, high) = self.timeline.window(node, run);
        self.between(node, run, low, high.min(self.timeline.last_slot() + 1))
    }

    /// Moves a run to a free slot between two; returns by how much the pressure has grown.
    fn between(&mut self, node: u32, run: usize, low: u32, high: u32) -> i64 {
        if high <= low + 1 {
            return 0;
        }
        for _ in 0..LOOKS {
            let target = self.random.random_range(low + 1..high);
            if self.timeline.node_at(target) == NONE {
                return self.shift(node, run, target);
            }
        }
        0
    }

    /// Moves a run to a free slot, unless placed items would meet or memory gets too full. Returns by how much the pressure has
    /// grown.
    fn shift(&mut self, node: u32, run: usize, target: u32) -> i64 {
        let model = self.timeline.model;
        let from = self.timeline.runs(node)[run];
        let handed = |value: u32| {
            model.overwritable[value as usize] || model.over[model.producer[value as usize] as usize] != NONE
        };
        let reads = model.reads.row(node);
        if model.over[node as usize] != NONE
            || reads.iter().chain(model.writes.row(node)).any(|&value| handed(value))
        {
            return 0;
        }
        let before = self.timeline.peak();
        self.timeline.shift(node, from, target);
        let peak = self.timeline.peak();
        if peak > self.most || peak < self.least.min(before) {
            self.timeline.rollback_to(0);
            return 0;
        }
        self.note_changes(node, run, from, target);
        let mut range = (from.min(target), from.max(target));
        for (_, before, now) in &self.changed {
            for (was, is) in [(before.start, now.start), (before.end, now.end)] {
                if was != is {
                    range = (range.0.min(was).min(is), range.1.max(was).max(is));
                }
            }
        }
        let was = self.pressure.before_move(&self.timeline, range, from, target);
        for (item, before, now) in &self.changed {
            self.pressure.change(before, now);
            self.space.change(*item, now);
        }
        let more = self.pressure.between(&self.timeline, range.0, range.1) - was;
        let chance = (-(more as f64) / (self.temperature * (UNIT * UNIT) as f64)).exp();
        let longer = |before: &Item, now: &Item| now.start < before.start || now.end > before.end;
        if (more <= 0 || self.random.random::<f64>() < chance)
            && (self.calming
                || !self
                    .changed
                    .iter()
                    .any(|(item, before, now)| longer(before, now) && self.space.meets(*item)))
        {
            self.timeline.commit();
            return more;
        }
        for (item, before, now) in self.changed.iter().rev() {
            self.pressure.change(now, before);
            self.space.change(*item, before);
        }
        self.timeline.rollback_to(0);
        0
    }

    /// What the move of a run has changed: items that have a size, before and now.
    fn note_changes(&mut self, node: u32, run: usize, from: u32, target: u32) {
        self.changed.clear();
        for &(value, run) in self.timeline.affected() {
            let item = self.of_value[value as usize] + run;
            let before = self.space.items[item as usize];
            let start = self.timeline.runs(self.timeline.model.producer[value as usize])[run as usize];
            let now = Item { start, end: self.timeline.end(value, run as usize), ..before };
            let known = self.changed.iter().any(|(other, ..)| *other == item);
            if before.size > 0 && !known && (before.start, before.end) != (now.start, now.end) {
                self.changed.push((item, before, now));
            }
        }
        let workspace = self.of_workspace[node as usize] + run as u32;
        let before = self.space.items[workspace as usize];
        if before.size > 0 {
            debug_assert_eq!(before.start, from);
            self.changed.push((workspace, before, Item { start: target, end: target, ..before }));
        }
        let (state, runs) = (self.of_state[node as usize], self.timeline.runs(node));
        let before = self.space.items[state as usize];
        if before.size > 0 {
            self.changed.push((state, before, Item { start: runs[0], end: runs[runs.len() - 1], ..before }));
        }
    }
}
