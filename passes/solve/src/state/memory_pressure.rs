//! How full memory is, step by step: what a layout needs is not a low peak but few steps near it.
//!
//! The *pressure* of a sequence is the sum over its runs of (live − [`SHARE`] · limit)², where that is positive, in units of
//! the last fifth of the limit. Orders of one peak differ in it by factors, and where it is low a layout has room.

use crate::layout::free_space::Item;
use crate::state::flat_graph::NONE;
use crate::state::slotted_timeline::SlottedTimeline;

/// Below this share of the limit memory counts as empty, in per mille.
const SHARE: i64 = 800;
/// What a step at the limit counts is the square of this.
pub(crate) const UNIT: i64 = 1 << 10;

/// Live bytes at each slot of a timeline, used or not.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pressure {
    live: Vec<i64>,
    from: i64,
    /// Units per byte: to multiply is much faster than to divide.
    scale: f64,
}

impl Pressure {
    /// Of items whose lives are those on the timeline.
    pub(crate) fn new(limit: i64, timeline: &SlottedTimeline, items: &[Item]) -> Self {
        let from = limit / 1000 * SHARE;
        let scale = UNIT as f64 / (limit - from).max(1) as f64;
        let mut pressure = Self { live: vec![0; timeline.last_slot() as usize + 2], from, scale };
        items.iter().for_each(|item| pressure.add(item.start, item.end + 1, item.size, 1));
        pressure
    }

    /// Adds a size from one slot until before another, or takes it away.
    fn add(&mut self, from: u32, to: u32, size: u64, sign: i64) {
        let size = sign * i64::try_from(size).unwrap_or(i64::MAX);
        let (from, to, size) = if from <= to { (from, to, size) } else { (to, from, -size) };
        if size != 0 {
            self.live[from as usize..to as usize].iter_mut().for_each(|live| *live += size);
        }
    }

    /// An item lives otherwise: before and now.
    pub(crate) fn change(&mut self, before: &Item, now: &Item) {
        self.add(before.start, now.start, before.size, -1);
        self.add(before.end + 1, now.end + 1, before.size, 1);
    }

    fn at(&self, slot: u32) -> i64 {
        let over = (self.live[slot as usize] - self.from).max(0) as f64 * self.scale;
        (over as i64).min(1 << 20).pow(2)
    }

    /// The part of it in a range of slots.
    pub(crate) fn between(&self, timeline: &SlottedTimeline, low: u32, high: u32) -> i64 {
        (low..=high).filter(|&slot| timeline.node_at(slot) != NONE).map(|slot| self.at(slot)).sum()
    }

    /// The same before the run at `to` was moved from `from`, where lives are still those of then.
    pub(crate) fn before_move(
        &self,
        timeline: &SlottedTimeline,
        (low, high): (u32, u32),
        from: u32,
        to: u32,
    ) -> i64 {
        self.between(timeline, low, high) + self.at(from) - self.at(to)
    }
}
