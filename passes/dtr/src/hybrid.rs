//! The runtime with recurring segments: what is weighed in groups, and computed again in one run.
//!
//! Not here: segments, their plans (see `segments`); scores (see `search`).

use crate::runtime::Runtime;
use crate::segments::{Group, SegmentCounters};
use crate::units::{CallId, TensorId};
use crate::world::{Stop, World};
use std::collections::HashMap;

impl<W: World> Runtime<W> {
    /// The operator of a call that was linked last, with its constants, by any number that is equal for equal ones.
    /// Segments that recur are found by it; without [`crate::Online::segments`] nothing happens.
    pub fn observe(&mut self, call: CallId, operator: u64) {
        let Some(segments) = &mut self.segments else { return };
        for storage in segments.observe(&self.tables, call, operator) {
            if self.tables.external[storage as usize] > 0 {
                self.pool.remove(storage);
            }
        }
    }

    /// What was recognised, if anything was looked for.
    pub fn segments(&self) -> Option<SegmentCounters> {
        self.segments.as_ref().map(|segments| segments.counters)
    }

    /// Evicts what scores least: a storage, or the values of a step of an instance's plan. Says whether there was
    /// anything.
    pub(crate) fn evict_one(&mut self) -> bool {
        let clock = self.counters.clock.0;
        let alone = self.search.victim(&self.tables, &self.pool, clock);
        let Some(segments) = &mut self.segments else {
            alone.inspect(|&(storage, _)| self.evict(storage));
            return alone.is_some();
        };
        let mut best = alone.map_or(f64::INFINITY, |(_, score)| score);
        let (mut group, mut victims) = (Group::default(), Group::default());
        for id in 0..segments.instances() {
            let mut awake = false;
            for step in segments.steps(&self.tables, id) {
                if !segments.fill(&self.tables, id, step, &mut group) {
                    continue;
                }
                awake = true;
                let own = segments.storages(id);
                let scored = self.search.group_score(&self.tables, &group, own, clock, best);
                let Some((score, is_alone)) = scored else { break };
                if score < best || (alone.is_none() && victims.storages.is_empty()) {
                    best = score;
                    std::mem::swap(&mut group, &mut victims);
                }
                // The steps behind it take more time per byte.
                if is_alone {
                    break;
                }
            }
            if !awake {
                segments.fell_asleep(id);
            }
        }
        segments.counters.group_evictions += u64::from(victims.storages.len() > 1);
        if let (true, Some((storage, _))) = (victims.storages.is_empty(), alone) {
            victims.storages.push(storage);
        }
        for &storage in &victims.storages {
            self.evict(storage);
        }
        !victims.storages.is_empty()
    }

    /// Whether a storage that can be evicted now is weighed with its segment, so that it does not go to the pool.
    pub(crate) fn is_grouped(&mut self, storage: u32) -> bool {
        let Some(segments) = &mut self.segments else { return false };
        let grouped = segments.is_grouped(&self.tables, storage);
        if grouped {
            segments.woke(storage);
        }
        grouped
    }

    /// Before a call runs for the first time: computes the segments again that its operands lie in.
    pub(crate) fn replay_for(&mut self, args: &[TensorId]) -> Result<(), Stop<W::Error>> {
        if self.segments.is_none() || args.iter().all(|&a| self.has_value(a)) {
            return Ok(());
        }
        // What the call reads and is there already should stay.
        let there: Vec<u32> =
            args.iter().filter(|&&a| self.has_value(a)).map(|&a| self.tables.storage_of(a).0).collect();
        there.iter().for_each(|&storage| self.lock(storage));
        let mut result = Ok(());
        for &arg in args {
            if result.is_ok() && !self.has_value(arg) {
                result = self.replay(self.tables.storage_of(arg).0);
            }
        }
        there.iter().for_each(|&storage| self.unlock(storage));
        match result {
            // Too much at once: value by value is the last resort.
            Err(Stop::OutOfMemory { .. }) => Ok(()),
            other => other,
        }
    }

    fn replay(&mut self, storage: u32) -> Result<(), Stop<W::Error>> {
        let Some(segments) = &mut self.segments else { return Ok(()) };
        let order = segments.replay_of(&self.tables, storage);
        if order.len() < 2 {
            return Ok(());
        }
        segments.counters.replays += 1;
        let last_reads = self.last_reads(&order);
        for (at, &made) in order.iter().enumerate() {
            let tensor = self.tables.first_tensor[made as usize];
            if !self.tables.tensors[tensor as usize].defined {
                self.materialize(tensor, true)?;
            }
            self.touch(made);
            // What nobody holds and nothing later in the run reads was needed on the way only.
            for (&done, _) in order.iter().zip(&last_reads).filter(|&(_, &last)| last == at) {
                let d = done as usize;
                if self.tables.resident[d] && self.tables.locks[d] == 0 && self.tables.external[d] <= 0 {
                    self.evict(done);
                }
            }
        }
        let alone = self.segments.as_mut().map_or(Vec::new(), |segments| segments.came_back(storage));
        for storage in alone {
            // Unlocking is how what can be evicted gets to the pool.
            if self.tables.resident[storage as usize] && self.tables.locks[storage as usize] == 0 {
                self.lock(storage);
                self.unlock(storage);
            }
        }
        Ok(())
    }

    /// For each storage the place in the order of the last one that is made from it, or its own place.
    fn last_reads(&self, order: &[u32]) -> Vec<usize> {
        let places: HashMap<u32, usize> = order.iter().enumerate().map(|(at, &made)| (made, at)).collect();
        let mut last: Vec<usize> = (0..order.len()).collect();
        for (at, &made) in order.iter().enumerate() {
            let maker = self.tables.tensors[self.tables.first_tensor[made as usize] as usize].call;
            for &arg in self.tables.args(maker) {
                if let Some(&read) = places.get(&self.tables.storage_of(arg).0) {
                    last[read] = at;
                }
            }
        }
        last
    }
}
