//! What a backward pass makes is kept: it is wanted soon or not at all, and its past is the whole pass, which would live as
//! long as it, and count as the neighbour of everything.
//!
//! Idea: a storage that is settled needs no past. What would pass the limit stays as it is, and what it was made from stays for its
//! sake, settled and not to be evicted, though nobody else wants it: many gradients that were stacked, beside the stack.
//! So such a call is remembered, and settled once that frees as much as it takes. And a large value whose operands are all in
//! memory for ever keeps its past as long as somebody else wants them: in need it gives up its memory, for one call to come.
//! So do the latest few large values, whatever they were made from.
//! Source: ours. Not here: which calls are a backward pass's (the world's business).

use crate::runtime::Runtime;
use crate::units::{Bytes, CallId, TensorId};
use crate::world::World;

/// How many calls are remembered that could not be settled.
const HEIRS: usize = 64;
/// How many of the latest values are kept with a past that may have to be computed itself. A temporary of a formula is used
/// once and lives as long as the formula, and nobody can tell.
const RECENT: usize = 2;
/// What is kept with its past takes at least this part of the budget, so that it is few.
const LARGE: u64 = 32;

impl<W: World> Runtime<W> {
    /// Settles the new storages of the call that was recorded last, if all that is settled keeps within this many bytes
    /// then; says whether. If not, the next calls of this look at it again.
    pub fn settle_outputs(&mut self, call: CallId, limit: Bytes) -> bool {
        self.heirs.retain(|&heir| heir != call.0);
        self.settle_heirs(limit);
        let mut settled = self.settle_made(call.0, limit);
        // What is new is wanted sooner than what is old.
        let spare = self.spare();
        while !settled
            && self.excess(call.0, limit) <= spare
            && let Some(old) = self.cheapest_kept()
        {
            self.unsettle(old);
            settled = self.settle_made(call.0, limit);
        }
        if !settled {
            self.heirs.push(call.0);
            if self.heirs.len() > HEIRS {
                self.heirs.remove(0);
            }
        }
        settled
    }

    /// Settles what calls made that could not be settled when they ran, as far as it is in memory and keeps within the limit.
    pub fn settle_heirs(&mut self, limit: Bytes) {
        // A past that is kept for nothing else is no gain.
        while let Some(place) = self.kept.iter().position(|&call| self.kept_for(call) > 0) {
            self.let_go_of(self.kept[place]);
        }
        let waiting = std::mem::take(&mut self.heirs);
        for heir in waiting {
            let there = self.tables.fresh_of(heir).all(|s| self.tables.resident[s as usize]);
            if !there || !self.settle_made(heir, limit) {
                self.heirs.push(heir);
            }
        }
    }

    fn settle_made(&mut self, call: u32, limit: Bytes) -> bool {
        if self.excess(call, limit) > 0 {
            return false;
        }
        let kept_for = self.kept_for(call);
        // Not what its views are views of.
        let made: Vec<u32> = self.tables.fresh_of(call).collect();
        for storage in made {
            self.pin_for_ever(self.tables.first_of(storage));
        }
        let large = self.is_large(call);
        if kept_for == 0 && large && !self.tables.args(call).is_empty() {
            self.kept.push(call);
            let mut chained = self.kept.iter().copied().filter(|&kept| !self.reads_settled(kept));
            if let (Some(oldest), RECENT) = (chained.next(), chained.count()) {
                self.let_go_of(oldest);
            }
        } else {
            self.cut_if_spent(call);
            self.collect();
        }
        true
    }

    /// By how much all that is settled would pass the limit, if what this call made were as well.
    fn excess(&self, call: u32, limit: Bytes) -> u64 {
        // Large ones must not keep small ones from being kept that are read from them.
        let most = if self.is_large(call) { limit.0 } else { limit.0.saturating_add(limit.0 / 6) };
        let all = self.settled + self.tables.calls[call as usize].total;
        all.saturating_sub(self.kept_for(call)).saturating_sub(most)
    }

    fn is_large(&self, call: u32) -> bool {
        self.tables.calls[call as usize].total.saturating_mul(LARGE) >= self.options.budget.0
    }

    /// Whether all that a call reads is in memory for ever.
    fn reads_settled(&self, call: u32) -> bool {
        let tables = &self.tables;
        tables.args(call).iter().all(|&a| tables.settled[tables.storage_of(a).index()])
    }

    fn let_go_of(&mut self, call: u32) {
        self.kept.retain(|&kept| kept != call);
        self.cut_if_spent(call);
        self.collect();
    }

    /// A settled storage is about to be written to, so that the call that made it does not make what is in it any more.
    pub fn lose_past(&mut self, tensor: TensorId) {
        let storage = self.tables.storage_of(tensor).0;
        let makes = |&call: &u32| self.tables.fresh_of(call).any(|made| made == storage);
        if let Some(maker) = self.kept.iter().copied().find(makes) {
            self.let_go_of(maker);
        }
    }

    /// Calls that are kept with their past and read this storage let go of it.
    pub(crate) fn let_go_of_past(&mut self, storage: u32) {
        let mut place = 0;
        while let Some(&call) = self.kept.get(place) {
            if self.tables.args(call).iter().any(|&a| self.tables.storage_of(a).0 == storage) {
                self.let_go_of(call);
                place = 0;
            } else {
                place += 1;
            }
        }
    }

    /// All calls that are kept with their past let go of it.
    pub(crate) fn let_go_of_all_past(&mut self) {
        while let Some(call) = self.kept.pop() {
            self.cut_if_spent(call);
            self.collect();
        }
    }

    /// Evicts what one call is kept for, the cheapest, if there is any that nobody else holds now; says whether.
    pub(crate) fn give_up_kept(&mut self) -> bool {
        let Some(call) = self.cheapest_kept() else { return false };
        self.unsettle(call);
        let made: Vec<u32> = self.tables.fresh_of(call).collect();
        made.into_iter().for_each(|storage| self.evict(storage));
        true
    }

    /// Bytes that [`Self::give_up_kept`] can free.
    pub(crate) fn spare(&self) -> u64 {
        let unused = self.kept.iter().filter(|&&call| self.is_unused(call));
        unused.map(|&call| self.tables.calls[call as usize].total).sum()
    }

    /// The call that is kept with its past whose values score least, if nobody holds them now.
    fn cheapest_kept(&self) -> Option<u32> {
        let tables = &self.tables;
        // As DTR's score, where nothing else has to be computed for it first.
        let clock = self.counters.clock.0;
        let score = |call: u32| {
            let used = tables.fresh_of(call).map(|s| tables.stamp[s as usize]).max().unwrap_or(clock);
            let (call, stale) = (&tables.calls[call as usize], clock - used);
            call.cost.max(1) as f64 / (call.total as f64 * stale as f64)
        };
        let order = |&a: &u32, &b: &u32| {
            let chained = (!self.reads_settled(a)).cmp(&!self.reads_settled(b));
            chained.then(score(a).total_cmp(&score(b)))
        };
        self.kept.iter().copied().filter(|&call| self.is_unused(call)).min_by(order)
    }

    /// Whether nobody holds what a call made that is kept with its past.
    fn is_unused(&self, call: u32) -> bool {
        let tables = &self.tables;
        tables.fresh_of(call).all(|s| {
            // A view of what is settled has let go of its past already.
            let lasts = |t: u32| !tables.args(tables.tensors[t as usize].call).is_empty();
            tables.settled[s as usize] && tables.locks[s as usize] == 1 && tables.tensors_of(s).all(lasts)
        })
    }

    /// What a call made may be evicted as any other value.
    fn unsettle(&mut self, call: u32) {
        self.kept.retain(|&kept| kept != call);
        let made: Vec<u32> = self.tables.fresh_of(call).collect();
        for storage in made {
            let s = storage as usize;
            self.settled -= self.tables.size[s];
            (self.tables.settled[s], self.tables.pinned[s]) = (false, false);
            let args = self.tables.args(call).to_vec();
            self.tables.add_edges_to(storage, &args);
            self.unlock(storage);
        }
        self.heirs.push(call);
    }

    /// Bytes that are settled and kept only because this call reads them.
    fn kept_for(&self, call: u32) -> u64 {
        let tables = &self.tables;
        let mut read: Vec<u32> = tables.args(call).iter().map(|&a| tables.storage_of(a).0).collect();
        read.sort_unstable();
        let only = |run: &&[u32]| {
            let storage = run[0];
            let reads: u32 = tables.tensors_of(storage).map(|t| tables.reads[t as usize]).sum();
            let wanted = tables.tensors_of(storage).any(|t| tables.refs[t as usize] > 0);
            tables.settled[storage as usize] && !wanted && reads as usize == run.len()
        };
        read.chunk_by(|a, b| a == b).filter(only).map(|run| tables.size[run[0] as usize]).sum()
    }
}
