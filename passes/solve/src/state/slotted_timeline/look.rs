//! What can be asked of a timeline.

use super::SlottedTimeline;
use crate::state::flat_graph::NONE;
use crate::state::segment_tree::MaxTree;

impl SlottedTimeline<'_> {
    /// The runs in order.
    pub(crate) fn sequence(&self) -> Vec<u32> {
        self.node_at.iter().copied().filter(|&node| node != NONE).collect()
    }

    /// Ticks of all runs.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    /// The number of runs.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn peak(&self) -> i64 {
        self.tree.most()
    }

    pub(crate) fn tree(&self) -> &MaxTree {
        &self.tree
    }

    /// The slots of a node's runs, in order.
    pub(crate) fn runs(&self, node: u32) -> &[u32] {
        &self.runs[node as usize]
    }

    pub(crate) fn node_at(&self, slot: u32) -> u32 {
        self.node_at[slot as usize]
    }

    /// The slots of the array, used or not: 1 to this.
    pub(crate) fn last_slot(&self) -> u32 {
        self.tree.slots() as u32
    }

    /// The last slot at which an instance is alive.
    pub(crate) fn end(&self, value: u32, run: usize) -> u32 {
        self.ends[value as usize][run]
    }

    /// The index of the newest run of a node before a slot.
    pub(crate) fn newest(&self, node: u32, slot: u32) -> Option<usize> {
        self.runs[node as usize].iter().rposition(|&run| run < slot)
    }

    /// The values that may be alive at a slot since before, have a size and can be made again, in order.
    pub(crate) fn evictable(&self, slot: u32) -> impl Iterator<Item = u32> {
        self.alive.at(slot)
    }

    /// The last used slot before a slot (0 if there is none).
    pub(crate) fn previous_used(&self, slot: u32) -> u32 {
        let mut slot = slot - 1;
        while slot > 0 && self.node_at[slot as usize] == NONE {
            slot -= 1;
        }
        slot
    }

    /// The first use of an instance, or `NONE`.
    pub(crate) fn first_use(&self, value: u32, run: usize) -> u32 {
        let runs = &self.runs[self.model.producer[value as usize] as usize];
        let (from, to) = (runs[run], runs.get(run + 1).copied().unwrap_or(NONE));
        let mut first = NONE;
        for &reader in self.model.readers.row(value) {
            if let Some(&slot) = self.runs[reader as usize].iter().find(|&&slot| slot > from) {
                first = first.min(slot);
            }
        }
        if first < to { first } else { NONE }
    }

    /// The slots between which a run may move with nothing but its operands' and its own lives changed: behind the first runs of its operands, and
    /// before its first use. If its node ran before, others may come to read the earlier run, or this one: then behind the first use of that
    /// one and before its own last.
    pub(crate) fn window(&self, node: u32, run: usize) -> (u32, u32) {
        let runs = self.runs(node);
        let first = |run| {
            let uses = self.model.writes.row(node).iter().map(|&value| self.first_use(value, run));
            uses.min().unwrap_or(NONE)
        };
        let operands = self.model.reads.row(node).iter();
        let behind =
            operands.map(|&value| self.runs(self.model.producer[value as usize])[0]).max().unwrap_or(0);
        let after = runs.get(run + 1).copied().unwrap_or(self.last_slot() + 1);
        let Some(before) = run.checked_sub(1) else { return (behind, first(run).min(after)) };
        let used = match first(before) {
            NONE => runs[before],
            used => used,
        };
        let last = self.model.writes.row(node).iter().map(|&value| self.end(value, run)).max();
        (behind.max(used), last.filter(|&last| last > runs[run]).unwrap_or(after).min(after))
    }

    /// The last touch before `slot` and the first use after it, of the instance that spans it; `None` if it is touched
    /// at `slot`. A pinned newest instance is used at the end (`last_slot() + 1`).
    pub(crate) fn gap_around(&self, value: u32, run: usize, slot: u32) -> Option<(u32, u32)> {
        let runs = &self.runs[self.model.producer[value as usize] as usize];
        let (from, to) = (runs[run], runs.get(run + 1).copied().unwrap_or(NONE));
        let (mut before, mut after) = (from, NONE);
        for &reader in self.model.readers.row(value) {
            for &use_slot in
                self.runs[reader as usize].iter().filter(|&&use_slot| use_slot > from && use_slot < to)
            {
                if use_slot < slot {
                    before = before.max(use_slot);
                } else if use_slot > slot {
                    after = after.min(use_slot);
                } else {
                    return None;
                }
            }
        }
        if after == NONE && self.model.pinned[value as usize] && to == NONE {
            after = self.last_slot() + 1;
        }
        (after != NONE && from != slot).then_some((before, after))
    }

    /// Nobody reads what this run makes, and the node runs at another time too.
    pub(crate) fn is_dead(&self, node: u32, run: usize) -> bool {
        let runs = &self.runs[node as usize];
        let last = run + 1 == runs.len();
        runs.len() > 1
            && self.model.writes.row(node).iter().all(|&value| {
                !(last && self.model.pinned[value as usize])
                    // An end behind the start is a use; an equal one may be a use by an overwriting neighbour.
                    && self.ends[value as usize][run] == runs[run]
                    && (!self.model.overwritable[value as usize] || self.first_use(value, run) == NONE)
            })
    }

    /// The last slot of an instance by the rules of the judge.
    pub(super) fn end_of(&self, value: u32, run: usize) -> u32 {
        let runs = &self.runs[self.model.producer[value as usize] as usize];
        let (from, to) = (runs[run], runs.get(run + 1).copied().unwrap_or(NONE));
        if to == NONE && self.model.pinned[value as usize] {
            return self.last_slot();
        }
        let mut last = from;
        for &reader in self.model.readers.row(value) {
            if let Some(&slot) = self.runs[reader as usize].iter().rev().find(|&&slot| slot < to) {
                last = last.max(slot);
            }
        }
        let overwritten = self.model.overwritable[value as usize]
            && last > from
            && self.model.over[self.node_at[last as usize] as usize] == value;
        if overwritten { last - 1 } else { last }
    }
}
