//! What a backward pass makes is kept: it is wanted soon or not at all, and its past is the whole pass, which would live as
//! long as it, and count as the neighbour of everything.
//!
//! Idea: a storage that is settled needs no past. What would pass the limit stays as it is, and what it was made from stays for its
//! sake, settled and not to be evicted, though nobody else wants it: many gradients that were stacked, beside the stack.
//! So such a call is remembered, and settled once that frees as much as it takes. And a large value whose operands are all in
//! memory for ever keeps its past as long as somebody else wants them: in need it gives up its memory, for one call to come.
//! Source: ours. Not here: which calls are a backward pass's (the world's business).

use crate::runtime::Runtime;
use crate::units::{Bytes, CallId};
use crate::world::World;

/// How many calls are remembered that could not be settled.
const HEIRS: usize = 64;
/// What is kept with its past takes at least this part of the budget, so that it is few.
const LARGE: u64 = 32;

impl<W: World> Runtime<W> {
    /// Settles the new storages of the call that was recorded last, if all that is settled keeps within this many bytes
    /// then; says whether. If not, the next calls of this look at it again.
    pub fn settle_outputs(&mut self, call: CallId, limit: Bytes) -> bool {
        let waiting = std::mem::take(&mut self.heirs);
        for heir in waiting.into_iter().filter(|&heir| heir != call.0) {
            let there = self.tables.fresh_of(heir).all(|s| self.tables.resident[s as usize]);
            if !there || !self.settle_made(heir, limit) {
                self.heirs.push(heir);
            }
        }
        let settled = self.settle_made(call.0, limit);
        if !settled {
            self.heirs.push(call.0);
            if self.heirs.len() > HEIRS {
                self.heirs.remove(0);
            }
        }
        settled
    }

    fn settle_made(&mut self, call: u32, limit: Bytes) -> bool {
        let total = self.tables.calls[call as usize].total;
        let kept_for = self.kept_for(call);
        if (self.settled + total).saturating_sub(kept_for) > limit.0 {
            return false;
        }
        // Not what its views are views of.
        let made: Vec<u32> = self.tables.fresh_of(call).collect();
        for storage in made {
            self.pin_for_ever(self.tables.first_of(storage));
        }
        let tables = &self.tables;
        let args = tables.args(call);
        let known = args.iter().all(|&a| tables.settled[tables.storage_of(a).index()]);
        if known && kept_for == 0 && !args.is_empty() && total.saturating_mul(LARGE) >= self.options.budget.0
        {
            self.kept.push(call);
        } else {
            self.cut_if_spent(call);
            self.collect();
        }
        true
    }

    /// Calls that are kept with their past and read this storage let go of it.
    pub(crate) fn let_go_of_past(&mut self, storage: u32) {
        let mut place = 0;
        while let Some(&call) = self.kept.get(place) {
            if self.tables.args(call).iter().any(|&a| self.tables.storage_of(a).0 == storage) {
                self.kept.remove(place);
                self.cut_if_spent(call);
                self.collect();
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
        let tables = &self.tables;
        let free = |&call: &u32| {
            let mut made = tables.fresh_of(call);
            made.all(|s| {
                // A view of what is settled has let go of its past already.
                let lasts = |t: u32| !tables.args(tables.tensors[t as usize].call).is_empty();
                tables.settled[s as usize] && tables.locks[s as usize] == 1 && tables.tensors_of(s).all(lasts)
            })
        };
        // The least time per byte.
        let rate =
            |call: u32| tables.calls[call as usize].cost as f64 / tables.calls[call as usize].total as f64;
        let cheapest = self.kept.iter().copied().filter(free).min_by(|&a, &b| rate(a).total_cmp(&rate(b)));
        let Some(call) = cheapest else { return false };
        self.kept.retain(|&kept| kept != call);
        let made: Vec<u32> = self.tables.fresh_of(call).collect();
        for storage in made {
            let s = storage as usize;
            self.settled -= self.tables.size[s];
            (self.tables.settled[s], self.tables.pinned[s]) = (false, false);
            self.unlock(storage);
            self.evict(storage);
        }
        self.heirs.push(call);
        true
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
