//! The entries of an online world: calls that have run before they are linked, values held for a moment, and
//! forgetting, so that a run of any length needs the tables of what lives at a time.
//!
//! ```text
//! hold(args)         arguments get their values and stay
//! make_room(bytes)   what the outputs will need, as far as it is known
//! ...                the world runs the operator and learns time, sizes and aliases
//! record(...)        the call is linked, its outputs have values
//! let_go(args)       arguments may be evicted again
//! trim()             what the outputs needed beyond the estimate is made good
//! ```
//!
//! Idea: an operator's outputs are known only when it has run, so its first run is not the runtime's business; all
//! later ones are ([`World::run`]). What nobody can ask for again is forgotten at once, by counting references: see
//! `forget`. A tensor that is *settled* stays in memory for ever and needs no past: parameters are born settled, and
//! what outlives a training step is settled at its end, because otherwise the past of every step would be kept.
//! Not here: who decides when a step ends, and what happens to values that are overwritten (the world's business).

use crate::runtime::Runtime;
use crate::tables::Output;
use crate::units::{Bytes, CallId, Nanos, TensorId};
use crate::world::{Counters, Options, Stop, World};

impl<W: World> Runtime<W> {
    /// Gives tensors their values, and keeps both, values and tensors, until [`Self::let_go`]. All or none.
    ///
    /// # Errors
    /// [`Stop`], if some value cannot be computed; nothing is held then.
    pub fn hold(&mut self, tensors: &[TensorId]) -> Result<(), Stop<W::Error>> {
        for &tensor in tensors {
            self.touch(self.tables.storage_of(tensor).0);
        }
        self.replay_for(tensors)?;
        // Those with a value first, so that making the others cannot evict them.
        let late: Vec<usize> = (0..tensors.len()).filter(|&p| !self.has_value(tensors[p])).collect();
        for place in (0..tensors.len()).filter(|place| !late.contains(place)) {
            self.keep(tensors[place]);
        }
        for (done, &place) in late.iter().enumerate() {
            let made = if self.has_value(tensors[place]) {
                Ok(())
            } else {
                self.materialize(tensors[place].0, true)
            };
            if let Err(stop) = made {
                let kept = (0..tensors.len()).filter(|place| !late[done..].contains(place));
                kept.for_each(|place| self.let_go(&[tensors[place]]));
                return Err(stop);
            }
            self.keep(tensors[place]);
        }
        Ok(())
    }

    fn keep(&mut self, tensor: TensorId) {
        self.lock(self.tables.storage_of(tensor).0);
        self.tables.refs[tensor.index()] += 1;
    }

    /// Ends [`Self::hold`].
    pub fn let_go(&mut self, tensors: &[TensorId]) {
        for &tensor in tensors {
            self.unlock(self.tables.storage_of(tensor).0);
            self.drop_reference(tensor);
        }
    }

    /// Evicts until the outputs of a call fit whose operands are held, and which takes exactly this. See
    /// [`crate::Online::overshoot`] for what may pass the budget.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`].
    pub fn make_room_for(&mut self, outputs: Bytes) -> Result<(), Stop<W::Error>> {
        self.make_room_beyond(outputs, outputs, true)
    }

    /// Links a call that has not run: its outputs get their values when somebody needs them. Kept values of a backward
    /// pass (see [`Self::settle_outputs`]) stay as long as it has not.
    ///
    /// # Panics
    /// As [`Self::link`].
    pub fn defer(&mut self, args: &[TensorId], outputs: &[Output]) -> CallId {
        let call = self.link(Nanos(0), args, outputs);
        self.cut_if_spent(call.0);
        self.heirs.push(call.0);
        call
    }

    /// Links a call that has just run, once, with the arguments that are held. Its outputs have values from now on and
    /// one reference each; they may be evicted, so the world stores the values before the next entry. Memory may
    /// pass the budget here; [`Self::trim`] makes that good.
    ///
    /// # Panics
    /// As [`Self::link`].
    pub fn record(&mut self, took: Nanos, args: &[TensorId], outputs: &[Output]) -> CallId {
        let call = self.link(took, args, outputs);
        let total = self.tables.calls[call.index()].total;
        let outputs = self.tables.calls[call.index()].outputs.clone();
        self.account(took, total, false);
        self.define_outputs(call.0, outputs.own.start);
        for output in outputs {
            self.touch(self.tables.tensors[output as usize].storage);
        }
        self.search.computed();
        self.cut_if_spent(call.0);
        self.collect();
        call
    }

    /// The call that was recorded last overwrote these arguments: its first outputs replace them. Their storages are
    /// evicted now, though the program may hold references, and again whenever the call has run again and nobody else
    /// wants them: otherwise every version of a buffer that is overwritten many times would come back to stay.
    pub fn overwrites(&mut self, call: CallId, args: &[TensorId]) {
        for &arg in args {
            self.discard(arg);
        }
        if !args.is_empty() {
            self.overwritten.insert(call.0, args.to_vec());
        }
    }

    /// A call that overwrites has run again.
    pub(crate) fn discard_overwritten(&mut self, call: u32) {
        let Some(args) = self.overwritten.remove(&call) else { return };
        for &arg in &args {
            if self.tables.external[self.tables.storage_of(arg).index()] == 0 {
                self.discard(arg);
            }
        }
        self.overwritten.insert(call, args);
    }

    /// A tensor in memory for ever that was made by nobody, in a storage of its own of this size: a parameter, an input.
    /// It is held; see [`Self::let_go`]. The program has no reference to it, so unless a call reads it or
    /// [`Self::get`] takes one, letting go forgets it.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`], if it does not fit beside what is pinned.
    pub fn constant(&mut self, size: Bytes) -> Result<TensorId, Stop<W::Error>> {
        self.make_room(size)?;
        let call = self.record(Nanos(0), &[], &[Output::Fresh(size)]);
        let tensor = self.first_output(call);
        self.keep(tensor);
        self.pin_for_ever(tensor);
        self.release(tensor)?;
        Ok(tensor)
    }

    /// Gives a tensor its value and keeps its storage for ever; what it was made from is nobody's business any more.
    ///
    /// # Errors
    /// [`Stop`], if it has to be computed and cannot be.
    pub fn settle(&mut self, tensor: TensorId) -> Result<(), Stop<W::Error>> {
        if !self.has_value(tensor) {
            self.materialize(tensor.0, true)?;
        }
        self.pin_for_ever(tensor);
        let storage = self.tables.storage_of(tensor).0;
        let tensors: Vec<u32> = self.tables.tensors_of(storage).collect();
        for tensor in tensors {
            self.cut_if_spent(self.tables.tensors[tensor as usize].call);
        }
        self.collect();
        Ok(())
    }

    pub(crate) fn pin_for_ever(&mut self, tensor: TensorId) {
        let storage = self.tables.storage_of(tensor).0;
        if !self.tables.pinned[storage as usize] {
            self.lock(storage);
            self.tables.pinned[storage as usize] = true;
        }
        if !std::mem::replace(&mut self.tables.settled[storage as usize], true) {
            self.settled += self.tables.size[storage as usize];
        }
        self.tables.cut_above(storage);
    }

    /// Ends [`Self::pin`]: the storage may be evicted again, unless it is settled.
    pub fn unpin(&mut self, tensor: TensorId) {
        let storage = self.tables.storage_of(tensor).0;
        if self.tables.pinned[storage as usize] && !self.tables.settled[storage as usize] {
            self.tables.pinned[storage as usize] = false;
            self.unlock(storage);
        }
    }

    /// Evicts a storage now, whatever its score and whoever holds references. Nothing happens if it is locked, pinned or not
    /// in memory.
    pub fn discard(&mut self, tensor: TensorId) {
        let storage = self.tables.storage_of(tensor).0;
        if self.tables.resident[storage as usize] && self.tables.locks[storage as usize] == 0 {
            self.evict(storage);
        }
    }

    /// The size of a pinned storage becomes known, or is taken into account, only now.
    pub fn resize(&mut self, tensor: TensorId, size: Bytes) {
        let storage = self.tables.storage_of(tensor).index();
        debug_assert!(self.tables.pinned[storage], "a storage in the pool has a size for good");
        self.counters.memory.0 = self.counters.memory.0 + size.0 - self.tables.size[storage];
        self.counters.max_memory = self.counters.max_memory.max(self.counters.memory);
        if self.tables.settled[storage] {
            self.settled = self.settled + size.0 - self.tables.size[storage];
        }
        self.tables.size[storage] = size.0;
    }

    /// Evicts until the budget is met.
    ///
    /// # Errors
    /// [`Stop::OutOfMemory`], if what is locked or pinned passes it.
    pub fn trim(&mut self) -> Result<(), Stop<W::Error>> {
        self.make_room(Bytes(0))
    }

    /// Which of these tensors are not settled, one for each storage, with the size of all those storages: what settling them
    /// would keep.
    pub fn unsettled(&mut self, among: &[TensorId]) -> (Vec<TensorId>, Bytes) {
        self.let_go_of_all_past();
        let tables = &self.tables;
        let mut storages: Vec<(u32, TensorId)> =
            among.iter().map(|&tensor| (tables.storage_of(tensor).0, tensor)).collect();
        storages.retain(|&(storage, _)| !tables.settled[storage as usize]);
        storages.sort_unstable_by_key(|&(storage, _)| storage);
        storages.dedup_by_key(|&mut (storage, _)| storage);
        let bytes = storages.iter().map(|&(storage, _)| tables.size[storage as usize]).sum();
        (storages.into_iter().map(|(_, tensor)| tensor).collect(), Bytes(bytes))
    }

    /// Bytes of what is settled, which no eviction will free.
    pub fn settled_bytes(&self) -> Bytes {
        Bytes(self.settled)
    }

    /// Whether a tensor has its value. A view may lack it while its storage is in memory.
    pub fn has_value(&self, tensor: TensorId) -> bool {
        self.tables.tensors[tensor.index()].defined
    }

    /// Whether a tensor's storage is in memory for ever.
    pub fn is_settled(&self, tensor: TensorId) -> bool {
        self.tables.settled[self.tables.storage_of(tensor).index()]
    }

    /// Whether calls that may run again read the tensor's storage, as it is now or through views.
    pub fn is_read(&mut self, tensor: TensorId) -> bool {
        let storage = self.tables.storage_of(tensor).0;
        self.let_go_of_past(storage);
        self.tables.tensors_of(storage).any(|t| self.tables.reads[t as usize] > 0)
    }

    /// The tensors in this one's storage to which the program holds references, this one included.
    pub fn sharers(&self, tensor: TensorId) -> Vec<TensorId> {
        let storage = self.tables.storage_of(tensor).0;
        let held = self.tables.tensors_of(storage).filter(|&t| self.tables.refs[t as usize] > 0);
        held.map(TensorId).collect()
    }

    /// The first output of a call; the others follow.
    pub fn first_output(&self, call: CallId) -> TensorId {
        TensorId(self.tables.calls[call.index()].outputs.own.start)
    }

    /// The call that made a tensor.
    pub fn call_of(&self, tensor: TensorId) -> CallId {
        CallId(self.tables.tensors[tensor.index()].call)
    }

    /// The size of the tensor's storage.
    pub fn bytes(&self, tensor: TensorId) -> Bytes {
        Bytes(self.tables.size[self.tables.storage_of(tensor).index()])
    }

    /// The world, to store what it knows of calls and values.
    pub fn world_mut(&mut self) -> &mut W {
        &mut self.world
    }

    /// What the runtime obeys.
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// Obeys another budget from the next call on.
    pub fn set_budget(&mut self, budget: Bytes) {
        self.options.budget = budget;
    }

    /// Starts the statistics anew. Clock and memory go on; the maximum restarts from what is in memory now.
    pub fn reset_counters(&mut self) {
        let Counters { clock, memory, .. } = self.counters;
        self.counters = Counters { clock, memory, max_memory: memory, ..Counters::default() };
        self.search.evals = 0;
    }

    /// Tensors, calls and storages that are not forgotten.
    pub fn in_use(&self) -> [usize; 3] {
        self.tables.in_use()
    }

    /// A call took less than ever before.
    pub(crate) fn learn(&mut self, call: u32, took: Nanos) {
        let known = self.tables.calls[call as usize].cost;
        if known <= took.0 && known > 0 {
            return;
        }
        // Of a deferred call nothing was known.
        let less = known.saturating_sub(took.0);
        let more = took.0.saturating_sub(known);
        self.tables.calls[call as usize].cost = took.0;
        let outputs = self.tables.calls[call as usize].outputs.clone();
        for (place, output) in outputs.iter().enumerate() {
            let storage = self.tables.tensors[output as usize].storage;
            // A call counts once in each storage, however many views it made of it.
            if outputs.iter().take(place).all(|o| self.tables.tensors[o as usize].storage != storage) {
                let compute = &mut self.tables.compute[storage as usize];
                *compute = (*compute + more).saturating_sub(less);
                let floor = self.search.floor(&self.tables, storage);
                if let Some(entry) = self.pool.entry_mut(storage) {
                    entry.floor = floor;
                }
            }
        }
    }

    /// One reference less, by the program or by a hold.
    pub(crate) fn drop_reference(&mut self, tensor: TensorId) {
        let refs = self.tables.refs[tensor.index()].saturating_sub(1);
        self.tables.refs[tensor.index()] = refs;
        if self.options.online.forget && self.tables.is_dead(tensor.0) {
            self.dead.push(tensor.0);
            self.collect();
        } else if refs == 0 && !self.kept.is_empty() {
            self.let_go_of_past(self.tables.storage_of(tensor).0);
        }
    }

    pub(crate) fn cut_if_spent(&mut self, call: u32) {
        if self.options.online.forget && self.tables.is_spent(call) {
            self.tables.cut(call, &mut self.dead);
        }
    }

    /// Forgets what is dead, and what dies by that.
    pub(crate) fn collect(&mut self) {
        while let Some(tensor) = self.dead.pop() {
            let call = self.tables.tensors[tensor as usize].call;
            if self.tables.is_call_dead(call) {
                self.bury(call);
            } else {
                self.cut_if_spent(call);
                self.free_settled(self.tables.tensors[tensor as usize].storage);
            }
        }
    }

    /// A settled storage that nobody wants is not kept for the sake of other outputs of its call.
    fn free_settled(&mut self, storage: u32) {
        let s = storage as usize;
        if self.tables.settled[s] && self.tables.tensors_of(storage).all(|t| self.tables.is_dead(t)) {
            self.settled -= self.tables.size[s];
            (self.tables.settled[s], self.tables.pinned[s]) = (false, false);
            self.unlock(storage);
            self.evict(storage);
        }
    }

    fn bury(&mut self, call: u32) {
        self.tables.cut(call, &mut self.dead);
        let outputs = self.tables.calls[call as usize].outputs.clone();
        // Its own outputs may wait in the list, too.
        self.dead.retain(|&t| outputs.place(t).is_none());
        for output in outputs.iter() {
            let storage = self.tables.tensors[output as usize].storage;
            let s = storage as usize;
            let last = self.tables.first_tensor[s] == output && self.tables.last_tensor[s] == output;
            if last && self.tables.resident[s] {
                (self.tables.pinned[s], self.tables.locks[s]) = (false, 0);
                self.evict(storage);
            }
            self.tables.unlist(output);
            if last {
                if let Some(segments) = &mut self.segments {
                    segments.forgotten(storage);
                }
                if self.tables.settled[s] {
                    self.settled -= self.tables.size[s];
                }
                self.search.forgotten(&self.tables, storage);
                self.tables.free_storage(storage);
            }
        }
        self.overwritten.remove(&call);
        self.heirs.retain(|&heir| heir != call);
        self.kept.retain(|&kept| kept != call);
        if let Some(segments) = &mut self.segments {
            segments.forgotten_call(call);
        }
        self.world.forget(CallId(call), outputs.into_iter().map(TensorId));
        self.tables.free_call(call);
    }
}
