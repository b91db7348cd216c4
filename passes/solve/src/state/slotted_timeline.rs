//! A sequence of runs that can be changed in place: the incremental judge of the local search.
//!
//! Runs lie in *slots* of a long array with free slots between them, so that a position is a number that compares in
//! O(1) and rarely changes. Each instance of a value holds an interval of slots; a [`MaxTree`] sums the intervals.
//! Inserting, deleting or moving one run touches only the instances that it reads and makes: O(degree · log n) instead of
//! a replay. Free slots carry at most the memory of the next run, so the maximum over slots is the peak.
//!
//! Changes are logged; [`SlottedTimeline::rollback`] takes back everything since the last [`SlottedTimeline::commit`].
//!
//! Never believed: plans leave this crate only after `rk_plan::judge` has replayed them. Property tests compare both.

use crate::state::flat_graph::{FlatGraph, NONE};
use crate::state::segment_tree::MaxTree;

mod alive;
mod look;

use alive::Alive;

/// Slots per run after spreading, at least; up to twice as many. More slots, fewer shifts to make room, but a larger tree.
const SPREAD: usize = 3;
/// How far to look for a free slot before spreading everything anew, at least.
const REACH: u32 = 48;
/// How far at most: in long sequences spreading takes as long as thousands of shifts.
const FAR: u32 = 512;

#[derive(Clone, Copy)]
enum Change {
    Insert(u32, u32),
    Delete(u32, u32),
    Move(u32, u32, u32),
}

pub(crate) struct SlottedTimeline<'m> {
    pub(crate) model: &'m FlatGraph,
    tree: MaxTree,
    /// The node in each slot, or `NONE`.
    node_at: Vec<u32>,
    /// Per node, its slots in increasing order.
    runs: Vec<Vec<u32>>,
    /// Per value, the last slot of the instance of each run.
    ends: Vec<Vec<u32>>,
    /// Where the values are alive that can be made again.
    alive: Alive,
    cost: u64,
    len: usize,
    log: Vec<Change>,
    /// The sequence at the last commit, if slots were spread anew since then.
    before_spread: Option<Vec<u32>>,
    affected: Vec<(u32, u32)>,
}

impl<'m> SlottedTimeline<'m> {
    /// A timeline of a legal sequence.
    pub(crate) fn new(model: &'m FlatGraph, sequence: &[u32]) -> Self {
        let mut timeline = Self {
            model,
            tree: MaxTree::new(1),
            node_at: Vec::new(),
            runs: vec![Vec::new(); model.len()],
            ends: vec![Vec::new(); model.values()],
            alive: Alive::new(model),
            cost: 0,
            len: 0,
            log: Vec::new(),
            before_spread: None,
            affected: Vec::new(),
        };
        timeline.spread(sequence);
        timeline
    }

    /// Starts over with another legal sequence.
    pub(crate) fn reset(&mut self, sequence: &[u32]) {
        self.log.clear();
        self.before_spread = None;
        self.spread(sequence);
    }

    fn spread(&mut self, sequence: &[u32]) {
        self.tree = MaxTree::new(sequence.len() * SPREAD + 64);
        let slots = self.tree.slots();
        self.node_at = vec![NONE; slots + 2];
        self.runs.iter_mut().for_each(Vec::clear);
        self.ends.iter_mut().for_each(Vec::clear);
        self.len = sequence.len();
        self.cost = 0;
        for (index, &node) in sequence.iter().enumerate() {
            let slot = ((index + 1) * (slots - 8) / sequence.len()) as u32;
            self.node_at[slot as usize] = node;
            self.runs[node as usize].push(slot);
            self.cost += self.model.time[node as usize];
            self.tree.add(slot, slot, self.model.workspace[node as usize]);
        }
        for value in 0..self.model.values() as u32 {
            for run in 0..self.runs[self.model.producer[value as usize] as usize].len() {
                let end = self.end_of(value, run);
                self.ends[value as usize].push(end);
                let start = self.runs[self.model.producer[value as usize] as usize][run];
                self.tree.add(start, end, self.model.bytes[value as usize]);
            }
            self.note(value);
        }
        for node in 0..self.model.len() as u32 {
            self.count_state(node, 1);
        }
    }

    // ---- changing ----

    /// Adds a run of `node` in a free slot. Its operands must have run before.
    pub(crate) fn insert(&mut self, node: u32, slot: u32) {
        self.log.push(Change::Insert(node, slot));
        self.do_insert(node, slot);
    }

    /// Takes a run away. Legal unless it is the first and its outputs are read before the second.
    pub(crate) fn delete(&mut self, node: u32, slot: u32) {
        self.log.push(Change::Delete(node, slot));
        self.do_delete(node, slot);
    }

    /// Moves a run to a free slot, not across other runs of the same node, its operands' first runs or, if it is the
    /// first, its uses.
    pub(crate) fn shift(&mut self, node: u32, from: u32, to: u32) {
        self.log.push(Change::Move(node, from, to));
        self.do_move(node, from, to);
    }

    /// Deletes a run and then whatever nobody reads any more.
    pub(crate) fn delete_with_dead(&mut self, node: u32, slot: u32) {
        self.delete(node, slot);
        self.delete_dead_operands(node, slot);
    }

    /// Deletes the runs that fed a run of `node` at `slot` (which is gone) and feed nothing else.
    fn delete_dead_operands(&mut self, node: u32, slot: u32) {
        let model = self.model;
        for &value in model.reads.row(node) {
            let producer = model.producer[value as usize];
            let Some(run) = self.newest(producer, slot) else { continue };
            if self.is_dead(producer, run) {
                let slot = self.runs[producer as usize][run];
                self.delete_with_dead(producer, slot);
            }
        }
    }

    /// Deletes the run of `node` before `slot` if nobody reads it any more.
    pub(crate) fn delete_if_superseded(&mut self, node: u32, slot: u32) {
        if let Some(run) = self.newest(node, slot).filter(|&run| self.is_dead(node, run)) {
            let slot = self.runs[node as usize][run];
            self.delete_with_dead(node, slot);
        }
    }

    fn reach(&self) -> u32 {
        (self.last_slot() / 64).clamp(REACH, FAR)
    }

    /// Makes sure that `count` calls of [`SlottedTimeline::room_before`] at `before` will find free slots. Returns true if it had to
    /// spread all slots anew: then every slot that the caller remembers is wrong, and so is every mark.
    pub(crate) fn reserve(&mut self, before: u32, count: usize) -> bool {
        // Two of three slots are free after spreading: then this is far enough for any number of runs.
        let reach = self.reach().max(count as u32 * 3 / 2);
        let lowest = before.saturating_sub(reach).max(1) as usize;
        let free = self.node_at[lowest..before as usize].iter().filter(|&&node| node == NONE).count();
        if free >= count {
            return false;
        }
        let sequence = self.sequence();
        if self.before_spread.is_none() {
            self.rollback_to(0);
            self.before_spread = Some(self.sequence());
        }
        self.log.clear();
        self.spread(&sequence);
        true
    }

    /// Frees the slot before `before`, which is used or one behind the last, shifting runs to the left. To be reserved.
    pub(crate) fn room_before(&mut self, before: u32) -> u32 {
        let free = (1..before).rev().find(|&slot| self.node_at[slot as usize] == NONE);
        let free = free.expect("slots are reserved before they are used");
        for slot in free + 1..before {
            self.shift(self.node_at[slot as usize], slot, slot - 1);
        }
        before - 1
    }

    /// Keeps all changes.
    pub(crate) fn commit(&mut self) {
        self.log.clear();
        self.before_spread = None;
    }

    /// How many changes there are to keep or take back: a mark for [`SlottedTimeline::rollback_to`].
    pub(crate) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back the changes after a mark. The timeline must not have been spread since the mark.
    pub(crate) fn rollback_to(&mut self, mark: usize) {
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Change::Insert(node, slot)) => self.do_delete(node, slot),
                Some(Change::Delete(node, slot)) => self.do_insert(node, slot),
                Some(Change::Move(node, from, to)) => self.do_move(node, to, from),
                None => {}
            }
        }
    }

    /// Takes back all changes since the last commit.
    pub(crate) fn rollback(&mut self) {
        match self.before_spread.take() {
            Some(sequence) => self.reset(&sequence),
            None => self.rollback_to(0),
        }
    }

    /// The instances whose lives the last move may have changed: value and run.
    pub(crate) fn affected(&self) -> &[(u32, u32)] {
        &self.affected
    }

    /// Keeps `alive` up to date when runs or ends of a value have changed.
    fn note(&mut self, value: u32) {
        let first = self.runs[self.model.producer[value as usize] as usize].first();
        let last = self.ends[value as usize].last();
        self.alive.set(value, first.copied().unwrap_or(NONE), last.copied().unwrap_or(0));
    }

    /// An instance from `slot` to `end` comes (sign -1) or goes (1); the older one, if it changes, ends at the first of two slots
    /// with it and at the second without. Where one takes over from the other nothing changes.
    fn hand_over(&mut self, value: u32, slot: u32, end: u32, older: Option<(u32, u32)>, sign: i64) {
        let bytes = sign * self.model.bytes[value as usize];
        match older {
            Some((with, without)) if without == end => self.tree.add(with + 1, slot - 1, bytes),
            Some((with, without)) => {
                self.tree.add(with + 1, without, bytes);
                self.tree.add(slot, end, -bytes);
            }
            None => self.tree.add(slot, end, -bytes),
        }
    }

    fn count_state(&mut self, node: u32, sign: i64) {
        let state = self.model.state[node as usize];
        if let (true, [first, .., last]) = (state > 0, self.runs[node as usize].as_slice()) {
            self.tree.add(*first, *last, sign * state);
        }
    }

    fn do_insert(&mut self, node: u32, slot: u32) {
        let model = self.model;
        debug_assert_eq!(self.node_at[slot as usize], NONE);
        self.count_state(node, -1);
        let run = self.runs[node as usize].partition_point(|&other| other < slot);
        self.node_at[slot as usize] = node;
        self.runs[node as usize].insert(run, slot);
        // Outputs: the older instance ends before this slot, the new one takes over what it had behind.
        for &value in model.writes.row(node) {
            let end = self.end_of(value, run);
            self.ends[value as usize].insert(run, end);
            let older = run.checked_sub(1).map(|older| (older, self.ends[value as usize][older]));
            let older = older.filter(|&(_, old)| old >= slot).map(|(older, old)| {
                let new = self.end_of(value, older);
                self.ends[value as usize][older] = new;
                (new, old)
            });
            self.hand_over(value, slot, end, older, -1);
            self.note(value);
        }
        self.affected.clear();
        for &value in model.reads.row(node) {
            if let Some(read) = self.newest(model.producer[value as usize], slot) {
                self.affected.push((value, read as u32));
            }
        }
        self.touch();
        self.tree.add(slot, slot, model.workspace[node as usize]);
        self.count_state(node, 1);
        self.cost += model.time[node as usize];
        self.len += 1;
    }

    /// Brings the ends of the instances in `affected` up to date, changing the tree by the difference only.
    fn touch(&mut self) {
        for index in 0..self.affected.len() {
            let (value, run) = self.affected[index];
            self.end_at(value, run as usize, self.end_of(value, run as usize));
        }
    }

    /// An instance ends at `new` from now on.
    fn end_at(&mut self, value: u32, run: usize, new: u32) {
        let (old, bytes) = (self.ends[value as usize][run], self.model.bytes[value as usize]);
        match old.cmp(&new) {
            std::cmp::Ordering::Less => self.tree.add(old + 1, new, bytes),
            std::cmp::Ordering::Greater => self.tree.add(new + 1, old, -bytes),
            std::cmp::Ordering::Equal => {}
        }
        self.ends[value as usize][run] = new;
        self.note(value);
    }

    fn do_delete(&mut self, node: u32, slot: u32) {
        let model = self.model;
        let Some(run) = self.runs[node as usize].iter().position(|&other| other == slot) else { return };
        self.count_state(node, -1);
        self.affected.clear();
        self.runs[node as usize].remove(run);
        self.node_at[slot as usize] = NONE;
        for &value in model.writes.row(node) {
            let end = self.ends[value as usize].remove(run);
            let older = run.checked_sub(1).map(|older| {
                let (with, without) = (self.ends[value as usize][older], self.end_of(value, older));
                self.ends[value as usize][older] = without;
                self.affected.push((value, older as u32));
                (with, without)
            });
            self.hand_over(value, slot, end, older, 1);
            self.note(value);
        }
        for &value in model.reads.row(node) {
            if let Some(read) = self.newest(model.producer[value as usize], slot) {
                self.affected.push((value, read as u32));
            }
        }
        self.touch();
        self.tree.add(slot, slot, -model.workspace[node as usize]);
        self.count_state(node, 1);
        self.cost -= model.time[node as usize];
        self.len -= 1;
    }

    fn do_move(&mut self, node: u32, from: u32, to: u32) {
        let model = self.model;
        let Some(run) = self.runs[node as usize].iter().position(|&other| other == from) else { return };
        if from.abs_diff(to) == 1 {
            self.slide(node, run, from, to);
            return;
        }
        self.count_state(node, -1);
        self.affected.clear();
        for &value in model.writes.row(node) {
            self.begin(value, run, from, to);
            self.affected.push((value, run as u32));
            if run > 0 {
                self.affected.push((value, run as u32 - 1));
            }
        }
        for &value in model.reads.row(node) {
            let producer = model.producer[value as usize];
            let (old, new) = (self.newest(producer, from), self.newest(producer, to));
            self.affected.extend(old.map(|read| (value, read as u32)));
            if old != new {
                self.affected.extend(new.map(|read| (value, read as u32)));
            }
        }
        self.place(node, run, from, to);
    }

    /// A move to the next slot: nothing else runs in between, so what is read stays the same, and only lives that begin or end
    /// here change. Most moves are of this kind, to make room.
    fn slide(&mut self, node: u32, run: usize, from: u32, to: u32) {
        let model = self.model;
        self.count_state(node, -1);
        self.affected.clear();
        for &value in model.writes.row(node) {
            self.begin(value, run, from, to);
            self.affected.push((value, run as u32));
        }
        for &value in model.reads.row(node) {
            let read = self.newest(model.producer[value as usize], from);
            if let Some(read) = read.filter(|&read| self.ends[value as usize][read] <= from) {
                self.affected.push((value, read as u32));
            }
        }
        self.place(node, run, from, to);
    }

    /// The rest of a move: the run goes to its slot, and what may have changed follows.
    fn place(&mut self, node: u32, run: usize, from: u32, to: u32) {
        let workspace = self.model.workspace[node as usize];
        self.node_at[from as usize] = NONE;
        self.node_at[to as usize] = node;
        self.runs[node as usize][run] = to;
        self.touch();
        self.tree.add(from, from, -workspace);
        self.tree.add(to, to, workspace);
        self.count_state(node, 1);
    }

    /// An instance begins at `to` instead of `from`, and lives until then at least.
    fn begin(&mut self, value: u32, run: usize, from: u32, to: u32) {
        let (bytes, end) = (self.model.bytes[value as usize], self.ends[value as usize][run]);
        if to < from {
            self.tree.add(to, from - 1, bytes);
            return;
        }
        self.tree.add(from, end.min(to - 1), -bytes);
        if end < to {
            self.tree.add(to, to, bytes);
            self.ends[value as usize][run] = to;
        }
    }
}
