//! The runtime: computes calls within a budget, evicts when memory is full, computes again what was evicted.
//!
//! Idea: one machine for all uses. It keeps the books (memory, clock, locks, references) and decides; a [`World`]
//! carries out. Recomputation is recursive in nature and hundreds of levels deep in practice, so it runs on an
//! explicit stack. What is locked on the way is written down, so that a run that fails leaves no lock behind.
//! Source: DTR, figures 2 and 7 to 12; docs/design/dtr.md, section 5. Not here: scores (see `search`), logs (see `log`), calls that
//! ran before they are linked and the forgetting of what is dead (see `online`).

use crate::banish::Banishing;
use crate::heuristic::Policy;
use crate::pool::Pool;
use crate::search::Search;
use crate::segments::Segments;
use crate::tables::{Output, Tables};
use crate::units::{Bytes, CallId, Nanos, StorageId, TensorId};
use crate::world::{Counters, Options, Run, Scan, Stop, World};
use std::collections::HashMap;

/// Stands for a lock that was taken back ([`crate::waiting`]).
pub(crate) const TAKEN: u32 = u32::MAX;

/// Recomputing this often is thrashing, too: calls that cost nothing would never reach a limit in time, and
/// could keep a run of a few hundred lines busy for ever. The recorded logs stay below 2^16.
const RERUN_LIMIT: u64 = 1 << 26;

/// A tensor on its way to a value.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) target: u32,
    again: bool,
    /// Its parents without value lie in `missing[next..]`, up to the next frame's.
    next: usize,
    first: usize,
    /// The locks that it holds lie in `held[first_lock..]`.
    pub(crate) first_lock: usize,
    /// How often locks of it were taken back (see `waiting`).
    pub(crate) given_way: u8,
}

/// DTR on a graph that is linked while it runs.
#[derive(Debug)]
pub struct Runtime<W> {
    pub(crate) options: Options,
    pub(crate) world: W,
    pub(crate) tables: Tables,
    pub(crate) pool: Pool,
    pub(crate) search: Search,
    banishing: Option<Banishing>,
    /// Recurring segments, if they are looked for.
    pub(crate) segments: Option<Segments>,
    pub(crate) counters: Counters,
    pub(crate) frames: Vec<Frame>,
    pub(crate) missing: Vec<u32>,
    /// Storages that open frames have locked, in order.
    pub(crate) held: Vec<u32>,
    /// Scratch of one run: storages that it made resident, tensors that it defined.
    arrived: Vec<u32>,
    defined: Vec<u32>,
    /// By call: arguments that it overwrote. Only looked up.
    pub(crate) overwritten: HashMap<u32, Vec<TensorId>>,
    /// Calls that are to be settled when there is room.
    pub(crate) heirs: Vec<u32>,
    /// Settled calls that have not let go of their past.
    pub(crate) kept: Vec<u32>,
    /// Scratch of forgetting.
    pub(crate) dead: Vec<u32>,
    /// Bytes of settled storages.
    pub(crate) settled: u64,
}

impl<W: World> Runtime<W> {
    /// A runtime with nothing in memory.
    ///
    /// # Panics
    /// If the policy does not support the heuristic: ask [`Policy::supports`] first. If segments are wanted with another
    /// policy than the eager one, or a heuristic that does not weigh them: see [`crate::Heuristic::weighs_segments`].
    pub fn new(options: Options, world: W) -> Self {
        let Options { heuristic, policy, online, .. } = options;
        let can_group = policy == Policy::Eager && heuristic.weighs_segments();
        assert!(can_group || !online.segments, "{policy} and {heuristic} know no segments");
        assert!(policy.supports(heuristic), "{policy} does not support {heuristic}");
        Self {
            options,
            world,
            // What is pinned stays in memory, unless it is banished, so that no search ever asks for edges to it.
            tables: Tables::new(options.scan == Scan::Full || policy == Policy::Banish),
            pool: Pool::default(),
            search: Search::new(&options),
            banishing: (policy == Policy::Banish).then(Banishing::default),
            segments: online.segments.then(Segments::default),
            counters: Counters { clock: Nanos(1), ..Counters::default() },
            frames: Vec::new(),
            missing: Vec::new(),
            held: Vec::new(),
            arrived: Vec::new(),
            defined: Vec::new(),
            overwritten: HashMap::new(),
            heirs: Vec::new(),
            kept: Vec::new(),
            dead: Vec::new(),
            settled: 0,
        }
    }

    /// The books.
    pub fn counters(&self) -> Counters {
        Counters { evals: self.search.evals, ..self.counters }
    }

    /// Metadata accesses by the reference's count; only a full scan counts all of them.
    pub fn accesses(&self) -> u64 {
        self.search.accesses()
    }

    /// The world, with what it has recorded.
    pub fn world(&self) -> &W {
        &self.world
    }

    /// The storage of a tensor.
    pub fn storage_of(&self, tensor: TensorId) -> StorageId {
        self.tables.storage_of(tensor)
    }

    /// Appends a call: its outputs exist from now on, each with one reference, and have no value yet.
    ///
    /// # Panics
    /// If an argument does not exist, a view names no argument, or there is no output.
    pub fn link(&mut self, cost: Nanos, args: &[TensorId], outputs: &[Output]) -> CallId {
        assert!(!outputs.is_empty(), "a call needs an output");
        self.search.before_link(&self.tables, args, outputs);
        let call = self.tables.link(cost, args, outputs);
        self.search.linked(&self.tables, call.0);
        if let Some(banishing) = &mut self.banishing {
            banishing.linked(&self.tables, call.0);
        }
        for output in self.tables.calls[call.index()].outputs.clone() {
            let storage = self.tables.tensors[output as usize].storage;
            let floor = self.search.floor(&self.tables, storage);
            if let Some(entry) = self.pool.entry_mut(storage) {
                entry.floor = floor;
            }
        }
        call
    }

    /// Runs a linked call for the first time, after whatever must be computed again for it.
    ///
    /// # Errors
    /// [`Stop`], after which the runtime must not be used any more; its counters are those of the moment.
    pub fn compute(&mut self, call: CallId) -> Result<(), Stop<W::Error>> {
        let outputs = self.tables.calls[call.index()].outputs.clone();
        if self.segments.is_some() {
            let args = self.tables.args(call.0).to_vec();
            self.replay_for(&args)?;
        }
        self.materialize(outputs.own.start, false)?;
        for output in outputs {
            self.touch(self.tables.tensors[output as usize].storage);
        }
        self.search.computed();
        Ok(())
    }

    /// The program takes one more reference.
    pub fn get(&mut self, tensor: TensorId) {
        let storage = self.tables.storage_of(tensor);
        self.tables.external[storage.index()] += 1;
        self.tables.refs[tensor.index()] += 1;
    }

    /// The program drops a reference; what happens at the last one is the policy's business.
    ///
    /// # Errors
    /// [`Stop`], if banishing pins a child that has to be computed first.
    pub fn release(&mut self, tensor: TensorId) -> Result<(), Stop<W::Error>> {
        if self.options.policy == Policy::Ignore {
            return Ok(());
        }
        let storage = self.tables.storage_of(tensor).0;
        self.tables.external[storage as usize] -= 1;
        if self.tables.external[storage as usize] == 0 {
            if let Some(segments) = &mut self.segments {
                segments.released(storage);
            }
            if self.banishing.is_some() {
                return self.try_banish(storage);
            }
            // What is locked is pinned, or in use by an online world.
            if self.tables.resident[storage as usize] && self.tables.locks[storage as usize] == 0 {
                self.evict(storage);
            }
        }
        self.drop_reference(tensor);
        Ok(())
    }

    /// Computes the tensor again if it has no value, and keeps its storage for ever.
    ///
    /// # Errors
    /// [`Stop`], if it has to be computed and cannot be.
    pub fn pin(&mut self, tensor: TensorId) -> Result<(), Stop<W::Error>> {
        if !self.tables.tensors[tensor.index()].defined {
            self.materialize(tensor.0, true)?;
        }
        let storage = self.tables.storage_of(tensor).0;
        if !self.tables.pinned[storage as usize] {
            self.lock(storage);
            self.tables.pinned[storage as usize] = true;
            // A simulated pin is for ever.
            self.tables.settled[storage as usize] = !self.options.online.forget;
        }
        Ok(())
    }

    /// Gives a tensor its value, and first its parents, theirs, and so on. If that fails, no lock is left behind.
    pub(crate) fn materialize(&mut self, target: u32, again: bool) -> Result<(), Stop<W::Error>> {
        let (frames, missing, held) = (self.frames.len(), self.missing.len(), self.held.len());
        let result = self.descend(target, again);
        if result.is_err() {
            self.frames.truncate(frames);
            self.missing.truncate(missing);
            // Banishing resets locks; after an error nothing can be said of them.
            for storage in self.held.split_off(held) {
                if self.banishing.is_none() && storage != TAKEN {
                    self.unlock(storage);
                }
            }
        }
        result
    }

    fn descend(&mut self, target: u32, again: bool) -> Result<(), Stop<W::Error>> {
        let outer = self.frames.len();
        self.enter(target, again);
        while let Some(frame) = self.frames[outer..].last_mut() {
            let Some(&parent) = self.missing.get(frame.next) else {
                let Frame { target, again, .. } = *frame;
                if self.lacks_what_was_taken() {
                    continue;
                }
                self.run(target, again)?;
                continue;
            };
            let (parent_defined, storage) = {
                let tensor = &self.tables.tensors[parent as usize];
                (tensor.defined, tensor.storage)
            };
            if parent_defined {
                frame.next += 1;
                self.lock(storage);
                self.held.push(storage);
            } else {
                self.enter(parent, true);
            }
        }
        Ok(())
    }

    /// Opens a frame: parents are stamped with the time before the call; those with a value are locked at once, so
    /// that making the others cannot evict them.
    fn enter(&mut self, target: u32, again: bool) {
        let call = self.tables.tensors[target as usize].call;
        let (first, first_lock) = (self.missing.len(), self.held.len());
        let args = self.tables.calls[call as usize].args.clone();
        for place in args.clone() {
            let storage = self.tables.tensors[self.tables.args[place as usize].index()].storage;
            if self.banishing.is_none() || self.tables.external[storage as usize] > 0 {
                self.touch(storage);
            }
        }
        for place in args {
            let parent = self.tables.args[place as usize];
            let tensor = &self.tables.tensors[parent.index()];
            if tensor.defined {
                let storage = tensor.storage;
                self.lock(storage);
                self.held.push(storage);
            } else {
                self.missing.push(parent.0);
            }
        }
        self.frames.push(Frame { target, again, next: first, first, first_lock, given_way: 0 });
    }

    /// Runs the call of `target`, the last frame's, whose parents are all in memory and locked, and closes the frame.
    fn run(&mut self, target: u32, again: bool) -> Result<(), Stop<W::Error>> {
        let call = self.tables.tensors[target as usize].call;
        let total = self.tables.calls[call as usize].total;
        self.make_room_beyond(Bytes(total), Bytes(self.largest_part(call)), true)?;
        let outputs = self.tables.calls[call as usize].outputs.clone();
        let joined: Vec<TensorId> = outputs.joined.iter().copied().map(TensorId).collect();
        let took = self.world.run(&Run {
            call: CallId(call),
            args: self.tables.args(call),
            first_output: TensorId(outputs.own.start),
            outputs: outputs.own.len(),
            joined: &joined,
            again,
            expected: Nanos(self.tables.calls[call as usize].cost),
        });
        let took = took.map_err(Stop::World)?;
        self.account(took, total, again);
        self.define_outputs(call, target);
        if let Some(Frame { first, first_lock, .. }) = self.frames.pop() {
            self.missing.truncate(first);
            self.held.truncate(first_lock);
        }
        self.unlock_parents(call, target)?;
        if !self.overwritten.is_empty() {
            self.discard_overwritten(call);
        }
        if again && self.options.online.learn {
            self.learn(call, took);
        }
        let Counters { remat, reruns, .. } = self.counters;
        if remat > self.options.remat_limit || reruns > RERUN_LIMIT {
            return Err(Stop::Thrashed { spent: remat, limit: self.options.remat_limit });
        }
        Ok(())
    }

    /// Puts a run into the books.
    pub(crate) fn account(&mut self, took: Nanos, total: u64, again: bool) {
        let counters = &mut self.counters;
        counters.clock.0 += took.0;
        counters.memory.0 += total;
        counters.max_memory = counters.max_memory.max(counters.memory);
        if again {
            counters.remat.0 += took.0;
            counters.reruns += 1;
        } else {
            counters.model.0 += took.0;
        }
    }

    /// Gives the outputs without value theirs, frees the second copy of the others, and tells pool and search.
    pub(crate) fn define_outputs(&mut self, call: u32, target: u32) {
        self.arrived.clear();
        self.defined.clear();
        let outputs = self.tables.calls[call as usize].outputs.clone();
        // Siblings first, in the order of the outputs; the one that was asked for last.
        for output in outputs.into_iter().filter(|&o| o != target).chain([target]) {
            let tensor = &mut self.tables.tensors[output as usize];
            if tensor.defined {
                self.counters.memory.0 -= tensor.size;
                continue;
            }
            tensor.defined = true;
            let storage = tensor.storage;
            self.defined.push(output);
            if !self.tables.resident[storage as usize] {
                self.tables.resident[storage as usize] = true;
                self.arrived.push(storage);
            }
        }
        for place in 0..self.arrived.len() {
            let storage = self.arrived[place];
            if self.tables.locks[storage as usize] == 0 && !self.is_grouped(storage) {
                let s = storage as usize;
                let floor = self.search.floor(&self.tables, storage);
                self.pool.push(storage, self.tables.size[s], self.tables.stamp[s], floor);
            }
        }
        self.search.returned(&self.tables, &self.arrived);
    }

    fn unlock_parents(&mut self, call: u32, target: u32) -> Result<(), Stop<W::Error>> {
        if self.banishing.is_some() {
            return self.unlock_and_banish(target);
        }
        for place in 0..self.tables.args(call).len() {
            let parent = self.tables.args(call)[place];
            self.unlock(self.tables.tensors[parent.index()].storage);
        }
        Ok(())
    }

    /// The reference walks the list of parents by position while banishing shortens it: the parent after a banished
    /// one is skipped, keeps its lock for ever, and waits for ever.
    fn unlock_and_banish(&mut self, target: u32) -> Result<(), Stop<W::Error>> {
        let defined = std::mem::take(&mut self.defined);
        let mut place = 0;
        while let Some(banishing) = &mut self.banishing {
            let Some(parent) = banishing.parent(target, place) else { break };
            defined.iter().for_each(|&tensor| banishing.computed(&self.tables, parent, tensor));
            let storage = self.tables.tensors[parent as usize].storage;
            self.unlock(storage);
            self.try_banish(storage)?;
            place += 1;
        }
        self.defined = defined;
        Ok(())
    }

    /// Frees a storage for ever if nobody can need it again.
    fn try_banish(&mut self, storage: u32) -> Result<(), Stop<W::Error>> {
        let s = storage as usize;
        let Some(banishing) = &mut self.banishing else { return Ok(()) };
        if self.tables.external[s] > 0 || self.tables.banished[s] || !banishing.is_idle(storage) {
            return Ok(());
        }
        if self.tables.resident[s] {
            self.tables.locks[s] = 0;
            self.evict(storage);
        }
        self.tables.banished[s] = true;
        let Some(banishing) = &mut self.banishing else { return Ok(()) };
        for child in banishing.cut(&self.tables, storage) {
            self.pin(TensorId(child))?;
        }
        Ok(())
    }

    pub(crate) fn evict(&mut self, storage: u32) {
        let s = storage as usize;
        self.world.evict(StorageId(storage), self.tables.tensors_of(storage).map(TensorId));
        self.tables.resident[s] = false;
        self.tables.undefine(storage);
        self.counters.memory.0 -= self.tables.size[s];
        self.counters.evictions += 1;
        self.pool.remove(storage);
        self.search.evicted(&self.tables, storage);
        if let Some(banishing) = &mut self.banishing {
            banishing.evicted(&self.tables, storage);
        }
    }

    /// The storage is accessed now.
    pub(crate) fn touch(&mut self, storage: u32) {
        let now = self.counters.clock.0;
        self.tables.stamp[storage as usize] = now;
        if let Some(entry) = self.pool.entry_mut(storage) {
            entry.stamp = now;
        }
    }

    pub(crate) fn lock(&mut self, storage: u32) {
        let locks = &mut self.tables.locks[storage as usize];
        if *locks == 0 {
            self.pool.remove(storage);
        }
        *locks += 1;
    }

    pub(crate) fn unlock(&mut self, storage: u32) {
        let s = storage as usize;
        self.tables.locks[s] -= 1;
        if self.tables.locks[s] == 0 && self.tables.resident[s] && !self.is_grouped(storage) {
            self.pool.push(
                storage,
                self.tables.size[s],
                self.tables.stamp[s],
                self.search.floor(&self.tables, storage),
            );
        }
    }
}
