//! Room for the outputs of a call: who is evicted, what may pass the budget, and what stands in the way.
//!
//! Not here: which storage goes first (see `search`).

use crate::runtime::Runtime;
use crate::units::{Bytes, StorageId, TensorId};
use crate::world::{Locked, LockedSet, Options, Stop, World};

impl<W: World> Runtime<W> {
    /// Evicts until this much more fits: the outputs of a call, whether or not some of them are in memory already.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`], if nothing is left to evict; see [`crate::Online::overshoot`].
    pub fn make_room(&mut self, wanted: Bytes) -> Result<(), Stop<W::Error>> {
        self.make_room_beyond(wanted, wanted, false)
    }

    /// The same, where only `beyond` of what is wanted may pass the budget. If what is wanted is `exact`, the largest storage
    /// that waits for the call may do so in place of that: it is the output of one call as well, and as long as it is locked
    /// nothing else passes the budget by more.
    pub(crate) fn make_room_beyond(
        &mut self,
        wanted: Bytes,
        beyond: Bytes,
        exact: bool,
    ) -> Result<(), Stop<W::Error>> {
        let Options { budget, online, .. } = self.options;
        while self.counters.memory.0 + wanted.0 > budget.0 {
            if self.evict_one() {
                continue;
            }
            let in_use = self.counters.memory;
            let above = (in_use.0 + wanted.0).saturating_sub(budget.0);
            if online.overshoot {
                if above <= beyond.0 {
                    return Ok(());
                }
                // Nothing is given up in vain.
                if above - beyond.0 <= self.spare() && self.give_up_kept() {
                    continue;
                }
                if exact && above <= self.largest_waiting() {
                    return Ok(());
                }
                if (exact && self.give_up_kept()) || self.take_from_waiting() {
                    continue;
                }
            }
            let locked = Box::new(self.locked());
            return Err(Stop::OutOfMemory { wanted, in_use, budget, locked });
        }
        Ok(())
    }

    /// Bytes of the largest storage that is locked for calls only, not for good.
    fn largest_waiting(&self) -> u64 {
        let tables = &self.tables;
        let waits = |&s: &usize| tables.resident[s] && tables.locks[s] > 0 && !tables.pinned[s];
        (0..tables.storages()).filter(waits).map(|s| tables.size[s]).max().unwrap_or(0)
    }

    /// What is in memory and cannot be evicted now.
    pub fn locked(&self) -> LockedSet {
        let tables = &self.tables;
        let locked = (0..tables.storages()).filter(|&s| tables.resident[s] && tables.locks[s] > 0);
        LockedSet::new(locked.map(|s| Locked {
            storage: StorageId(s as u32),
            tensor: TensorId(tables.first_tensor[s]),
            bytes: Bytes(tables.size[s]),
            pinned: tables.pinned[s],
        }))
    }
}
