//! A sequence of runs that can be changed in place: the incremental judge of the local search.
//!
//! Runs lie in *slots* of a long array with free slots between them, so that a position is a number that compares in
//! O(1) and rarely changes. Each instance of a value holds an interval of slots; a [`MaxTree`] sums the intervals.
//! Inserting, deleting or moving one run touches only the instances that it reads and makes: O(degree · log n) instead of
//! a replay. Free slots carry at most the memory of the next run, so the maximum over slots is the peak.
//!
//! Changes are logged; [`Tape::rollback`] takes back everything since the last [`Tape::commit`].
//!
//! Never believed: plans leave this crate only after `rk_plan::judge` has replayed them. Property tests compare both.

use crate::maxtree::MaxTree;
use crate::model::{Model, NONE};

/// Slots per run after spreading. More slots, fewer shifts to make room, but a deeper tree.
const SPREAD: usize = 6;
/// How far to look for a free slot before spreading everything anew, at least; in long tapes, where that takes as long as
/// thousands of shifts, farther.
const REACH: u32 = 48;
const FAR: u32 = 512;

#[derive(Clone, Copy)]
enum Change {
    Insert(u32, u32),
    Delete(u32, u32),
    Move(u32, u32, u32),
}

pub(crate) struct Tape<'m> {
    pub(crate) model: &'m Model,
    tree: MaxTree,
    /// The node in each slot, or `NONE`.
    node_at: Vec<u32>,
    /// Per node, its slots in increasing order.
    runs: Vec<Vec<u32>>,
    /// Per value, the last slot of the instance of each run.
    ends: Vec<Vec<u32>>,
    cost: u64,
    len: usize,
    log: Vec<Change>,
    /// The sequence at the last commit, if slots were spread anew since then.
    before_spread: Option<Vec<u32>>,
    affected: Vec<(u32, u32)>,
}

impl<'m> Tape<'m> {
    /// A tape of a legal sequence.
    pub(crate) fn new(model: &'m Model, sequence: &[u32]) -> Self {
        let mut tape = Self {
            model,
            tree: MaxTree::new(1),
            node_at: Vec::new(),
            runs: vec![Vec::new(); model.len()],
            ends: vec![Vec::new(); model.values()],
            cost: 0,
            len: 0,
            log: Vec::new(),
            before_spread: None,
            affected: Vec::new(),
        };
        tape.spread(sequence);
        tape
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
        }
        for node in 0..self.model.len() as u32 {
            self.count_state(node, 1);
        }
    }

    // ---- looking ----

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

    /// The slots between which a run may move: behind its operands, before its first use.
    pub(crate) fn window(&self, node: u32, run: usize) -> (u32, u32) {
        let runs = self.runs(node);
        let operands = self.model.reads.row(node).iter().filter_map(|&value| {
            let producer = self.model.producer[value as usize];
            self.newest(producer, runs[run]).map(|newest| self.runs(producer)[newest])
        });
        let before = run.checked_sub(1).map(|before| runs[before]);
        let uses = self.model.writes.row(node).iter().map(|&value| self.first_use(value, run));
        let after = runs.get(run + 1).copied().unwrap_or(self.last_slot() + 1);
        (operands.chain(before).max().unwrap_or(0), uses.min().unwrap_or(NONE).min(after))
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
    fn end_of(&self, value: u32, run: usize) -> u32 {
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

    /// Makes sure that `count` calls of [`Tape::room_before`] at `before` will find free slots. Returns true if it had to
    /// spread all slots anew: then every slot that the caller remembers is wrong, and so is every mark.
    pub(crate) fn reserve(&mut self, before: u32, count: usize) -> bool {
        let lowest = before.saturating_sub(self.reach()).max(1) as usize;
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
        let lowest = before.saturating_sub(self.reach()).max(1);
        let free = (lowest..before).rev().find(|&slot| self.node_at[slot as usize] == NONE);
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

    /// How many changes there are to keep or take back: a mark for [`Tape::rollback_to`].
    pub(crate) fn mark(&self) -> usize {
        self.log.len()
    }

    /// Takes back the changes after a mark. The tape must not have been spread since the mark.
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

    /// Subtracts the intervals of the instances listed in `affected`.
    fn lift(&mut self) {
        for index in 0..self.affected.len() {
            let (value, run) = self.affected[index];
            self.span(value, run as usize, -1);
        }
    }

    /// The instances whose lives the last move may have changed: value and run.
    pub(crate) fn affected(&self) -> &[(u32, u32)] {
        &self.affected
    }

    /// Recomputes and adds the intervals of the instances listed in `affected`.
    fn lower(&mut self) {
        for index in 0..self.affected.len() {
            let (value, run) = self.affected[index];
            self.ends[value as usize][run as usize] = self.end_of(value, run as usize);
            self.span(value, run as usize, 1);
        }
    }

    fn span(&mut self, value: u32, run: usize, sign: i64) {
        let start = self.runs[self.model.producer[value as usize] as usize][run];
        self.tree.add(start, self.ends[value as usize][run], sign * self.model.bytes[value as usize]);
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
        // Outputs: the older instance ends before this slot, the new one takes over what it had behind.
        for &value in model.writes.row(node) {
            let older = run.checked_sub(1).map(|older| (older, self.ends[value as usize][older]));
            if let Some((older, end)) = older
                && end >= slot
            {
                self.span(value, older, -1);
            }
        }
        self.runs[node as usize].insert(run, slot);
        for &value in model.writes.row(node) {
            let older = run.checked_sub(1).map(|older| (older, self.ends[value as usize][older]));
            self.ends[value as usize].insert(run, slot);
            if let Some((older, end)) = older
                && end >= slot
            {
                self.ends[value as usize][older] = self.end_of(value, older);
                self.span(value, older, 1);
            }
            self.ends[value as usize][run] = self.end_of(value, run);
            self.span(value, run, 1);
        }
        self.affected.clear();
        for &value in model.reads.row(node) {
            if let Some(read) = self.newest(model.producer[value as usize], slot) {
                self.affected.push((value, read as u32));
            }
        }
        self.touch_operands();
        self.tree.add(slot, slot, model.workspace[node as usize]);
        self.count_state(node, 1);
        self.cost += model.time[node as usize];
        self.len += 1;
    }

    /// Brings the ends of the instances in `affected` up to date, changing the tree by the difference only.
    fn touch_operands(&mut self) {
        for index in 0..self.affected.len() {
            let (value, run) = self.affected[index];
            let (old, new) = (self.ends[value as usize][run as usize], self.end_of(value, run as usize));
            let bytes = self.model.bytes[value as usize];
            match old.cmp(&new) {
                std::cmp::Ordering::Less => self.tree.add(old + 1, new, bytes),
                std::cmp::Ordering::Greater => self.tree.add(new + 1, old, -bytes),
                std::cmp::Ordering::Equal => {}
            }
            self.ends[value as usize][run as usize] = new;
        }
    }

    fn do_delete(&mut self, node: u32, slot: u32) {
        let model = self.model;
        let Some(run) = self.runs[node as usize].iter().position(|&other| other == slot) else { return };
        self.count_state(node, -1);
        self.affected.clear();
        for &value in model.writes.row(node) {
            self.span(value, run, -1);
        }
        self.runs[node as usize].remove(run);
        self.node_at[slot as usize] = NONE;
        for &value in model.writes.row(node) {
            self.ends[value as usize].remove(run);
            if run > 0 {
                self.affected.push((value, run as u32 - 1));
            }
        }
        for &value in model.reads.row(node) {
            if let Some(read) = self.newest(model.producer[value as usize], slot) {
                self.affected.push((value, read as u32));
            }
        }
        self.touch_operands();
        self.tree.add(slot, slot, -model.workspace[node as usize]);
        self.count_state(node, 1);
        self.cost -= model.time[node as usize];
        self.len -= 1;
    }

    fn do_move(&mut self, node: u32, from: u32, to: u32) {
        let model = self.model;
        let Some(run) = self.runs[node as usize].iter().position(|&other| other == from) else { return };
        self.count_state(node, -1);
        self.affected.clear();
        for &value in model.writes.row(node) {
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
        self.lift();
        self.node_at[from as usize] = NONE;
        self.node_at[to as usize] = node;
        self.runs[node as usize][run] = to;
        self.lower();
        self.tree.add(from, from, -model.workspace[node as usize]);
        self.tree.add(to, to, model.workspace[node as usize]);
        self.count_state(node, 1);
    }
}
