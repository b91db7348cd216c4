//! What is kept when a training step ends, so that the past of every step is not kept for ever.
//!
//! Idea: a value that outlives a step has a past, the calls that it would be computed from again, and what only that past holds
//! would live as long as it: the step's inputs, and the past of the step before. Settling the value frees its past, and takes
//! its bytes from the budget for good. So what is small is settled: losses, hidden states. What is large stays as it is, evictable, as
//! the activations of a loss that somebody keeps with its graph; for them only the past of *earlier* steps is let go of, by settling
//! either the value (an optimizer's state, written in every step) or what it reads of earlier steps (a state that was handed
//! on), whichever takes less.
//! Before a weight is overwritten, all that outlives is settled, if it takes no more than the weights: the loss and gradients. A
//! copy of the weight does it as well.
//! Source: ours. Not here: when a step ends (the world's business).

use crate::runtime::Runtime;
use crate::tables::Tables;
use crate::units::Bytes;
use crate::world::{Stop, World};
use std::collections::HashSet;

/// All that is settled takes at most this part of the budget after small values were.
const SMALL: u64 = 16;

/// What would be computed again for a value, and is held by nobody else.
#[derive(Debug, Default)]
struct Past {
    /// Whether there is any.
    exists: bool,
    /// Its storages that earlier steps made and this one reads.
    older: Vec<u32>,
}

impl Past {
    /// Of a storage; `last` is when the step before ended.
    fn of(tables: &Tables, storage: u32, last: u64) -> Self {
        let (mut past, mut waiting) = (Self::default(), vec![storage]);
        // Only looked up.
        let mut seen = HashSet::from([storage]);
        while let Some(at) = waiting.pop() {
            if at != storage && tables.is_older(at, last) {
                past.older.push(at);
                continue;
            }
            for tensor in tables.tensors_of(at) {
                for &arg in tables.args(tables.tensors[tensor as usize].call) {
                    let above = tables.storage_of(arg).0;
                    let other = tables.settled[above as usize] || tables.external[above as usize] > 0;
                    if !other && seen.insert(above) {
                        past.exists = true;
                        waiting.push(above);
                    }
                }
            }
        }
        past
    }
}

impl Tables {
    /// Whether no call has made anything in this storage since.
    fn is_older(&self, storage: u32, last: u64) -> bool {
        self.tensors_of(storage).all(|t| self.calls[self.tensors[t as usize].call as usize].changed <= last)
    }
}

impl<W: World> Runtime<W> {
    /// A training step has ended. What cannot be computed any more is left as it is: whoever asks for it will be told.
    pub fn end_step(&mut self) {
        self.let_go_of_all_past();
        let last = std::mem::replace(&mut self.ended, self.tables.linked);
        let whole = self.options.budget.min(self.counters.max_memory.max(Bytes(1)));
        let lasting: Vec<u32> = {
            let tables = &self.tables;
            let made = |s: u32| tables.external[s as usize] > 0 && !tables.is_older(s, last);
            let outlives = |&s: &u32| made(s) && !tables.settled[s as usize];
            let mut found: Vec<u32> = (0..tables.storages() as u32).filter(outlives).collect();
            found.sort_by_key(|&s| (tables.size[s as usize], s));
            found
        };
        for storage in lasting {
            let past = Past::of(&self.tables, storage, last);
            if !past.exists {
                continue;
            }
            let size = self.tables.size[storage as usize];
            if self.settled + size <= whole.0 / SMALL {
                self.settle_storages(&[storage]);
                continue;
            }
            let older: u64 = past.older.iter().map(|&s| self.tables.size[s as usize]).sum();
            if past.older.is_empty() || self.settled + size.min(older) > whole.0 / 4 * 3 {
                continue;
            }
            let cheaper = if size <= older { vec![storage] } else { past.older };
            self.settle_storages(&cheaper);
        }
    }

    /// Settles everything to which the program holds references, if that takes no more than `most`, and all that is settled no
    /// more than this share of the budget; says whether.
    ///
    /// # Errors
    /// [`Stop`], if something has to be computed and cannot be.
    pub fn settle_all(&mut self, most: Bytes, share: f64) -> Result<bool, Stop<W::Error>> {
        let (tensors, bytes) = self.unsettled();
        let (budget, all) = (self.options.budget, self.settled + bytes.0);
        let passes = budget != Bytes::UNLIMITED && all as f64 > share * budget.0 as f64;
        if passes || bytes > most {
            return Ok(false);
        }
        for tensor in tensors {
            self.settle(tensor)?;
        }
        Ok(true)
    }

    fn settle_storages(&mut self, storages: &[u32]) {
        for &storage in storages {
            if self.settle(self.tables.first_of(storage)).is_err() {
                return;
            }
        }
    }
}
