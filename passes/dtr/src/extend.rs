//! Calls that grow: what is written into a result in place becomes part of the call that made it.
//!
//! ```text
//! gates = matmul(h, w)            one call: matmul, add_, sigmoid_, clone, mul_
//! gates[0].add_(x).sigmoid_()     which makes two storages, gates and saved
//! saved = gates[2].clone()
//! gates[2].mul_(gates[0])
//! ```
//!
//! Idea: a write makes a new version of a buffer, and a version of its own for every write would mean a chain of buffers of
//! full size, each computed from the one before. As long as nothing that may run again has read the old version, nobody can
//! tell whether the write belongs to the call before it: so it does, and computing again runs both, in one
//! buffer. A call that has read only the old version, such as the copy that autograd keeps of what a product overwrites,
//! becomes part of the call, too, and its result another output. What is read by others is a version of its own (see
//! [`Runtime::overwrites`]).
//! Not here: how such a call runs (the world's business).

use crate::runtime::Runtime;
use crate::tables::Tables;
use crate::units::{CallId, Nanos, StorageId, TensorId};
use crate::world::World;

/// Storages that are looked at to see whether an argument depends on the call; beyond that it is taken to.
const LOOKED_AT: usize = 512;
/// A call that reads more than this does not grow.
const MOST_ARGS: usize = 64;

impl<W: World> Runtime<W> {
    /// Whether [`Self::extend`] may make a write to this tensor, which also reads `args`, part of the call that made the
    /// tensor's storage. If so, the calls that become part of it beside, in order. Arguments in the
    /// same storage do not matter.
    pub fn extendable(&mut self, tensor: TensorId, args: &[TensorId]) -> Option<Vec<CallId>> {
        let storage = self.tables.storage_of(tensor).0;
        // What is kept with its past reads the storage without an edge.
        self.let_go_of_past(storage);
        let tables = &self.tables;
        let call = tables.maker(storage);
        if tables.settled[storage as usize] || self.search.follows_edges() {
            return None;
        }
        let joined = tables.readers(storage)?;
        let mut made: Vec<u32> = tables.fresh_of(call).collect();
        made.extend(joined.iter().flat_map(|&reader| tables.fresh_of(reader)));
        // The time of an evicted storage is in the books of its component.
        if !made.iter().all(|&s| tables.resident[s as usize]) {
            return None;
        }
        let args = args.iter().map(|&a| tables.storage_of(a).0).filter(|&s| s != storage);
        let fits = tables.fits_at_once(call, args.clone(), &made);
        (fits && !tables.depend_on(args, &made, tables.calls[call as usize].born))
            .then(|| joined.into_iter().map(CallId).collect())
    }

    /// A write to this tensor, which took so long and has also read `args`, is part of the call that made the tensor's
    /// storage from now on, after the calls `joined`. All is as [`Self::extendable`] found it, and the arguments are held.
    pub fn extend(&mut self, tensor: TensorId, joined: &[CallId], took: Nanos, args: &[TensorId]) -> CallId {
        let storage = self.tables.storage_of(tensor).0;
        let call = self.tables.maker(storage);
        self.account(took, 0, false);
        self.search.computed();
        let args: Vec<TensorId> =
            args.iter().copied().filter(|&a| self.tables.storage_of(a).0 != storage).collect();
        for &reader in joined {
            self.tables.join(call, storage, reader.0, &mut self.dead);
            self.world.forget(reader, std::iter::empty());
        }
        self.tables.extend(call, took.0, &args);
        let made: Vec<u32> = self.tables.fresh_of(call).collect();
        for made in made {
            let floor = self.search.floor(&self.tables, made);
            if let Some(entry) = self.pool.entry_mut(made) {
                entry.floor = floor;
            }
        }
        if let Some(segments) = &mut self.segments {
            segments.extended(&self.tables, call, joined);
        }
        self.touch(storage);
        self.collect();
        CallId(call)
    }

    /// The call that made a storage, and which of its outputs the storage is.
    pub fn maker_of(&self, storage: StorageId) -> (CallId, usize) {
        let call = self.tables.maker(storage.0);
        let first = self.tables.first_tensor[storage.index()];
        (CallId(call), self.tables.calls[call as usize].outputs.place(first).unwrap_or(0))
    }

    /// What a call reads, with repetitions.
    pub fn args_of(&self, call: CallId) -> &[TensorId] {
        self.tables.args(call.0)
    }

    /// What a run of a call may take beyond the budget: the outputs of the one of its parts that has the largest.
    pub(crate) fn largest_part(&self, call: u32) -> u64 {
        let call = &self.tables.calls[call as usize];
        let sizes = call.outputs.joined.iter().map(|&o| self.tables.tensors[o as usize].size);
        (call.total - sizes.clone().sum::<u64>()).max(sizes.max().unwrap_or(0))
    }
}

impl Tables {
    /// The call that made a storage.
    fn maker(&self, storage: u32) -> u32 {
        self.tensors[self.first_tensor[storage as usize] as usize].call
    }

    /// The first of a storage's tensors.
    pub fn first_of(&self, storage: u32) -> TensorId {
        TensorId(self.first_tensor[storage as usize])
    }

    /// The storages that a call made.
    pub fn fresh_of(&self, call: u32) -> impl Iterator<Item = u32> + '_ {
        self.calls[call as usize].outputs.iter().filter_map(|output| {
            let storage = self.tensors[output as usize].storage;
            (self.first_tensor[storage as usize] == output).then_some(storage)
        })
    }

    /// The calls that may run again and have read a storage, if each of them has read nothing else and made nothing but a
    /// storage of its own.
    fn readers(&self, storage: u32) -> Option<Vec<u32>> {
        let inside = |call: u32| self.args(call).iter().all(|&a| self.storage_of(a).0 == storage);
        let views = self.tensors_of(storage).skip(1).map(|t| self.tensors[t as usize].call);
        let own = self.maker(storage);
        let mut readers = Vec::new();
        for &below in &self.below[storage as usize] {
            let call = self.maker(below);
            let alone = self.tensors_of(below).skip(1).all(|view| {
                let args = self.args(self.tensors[view as usize].call);
                args.iter().all(|&a| self.storage_of(a).0 == below)
            });
            if call == own || !alone || self.calls[call as usize].outputs.len() > 1 || !inside(call) {
                return None;
            }
            if !readers.contains(&call) {
                readers.push(call);
            }
        }
        readers.sort_unstable_by_key(|&reader| self.calls[reader as usize].born);
        views.into_iter().all(|call| call == own || inside(call)).then_some(readers)
    }

    /// Whether a call that makes `made` and reads `more` beside its arguments needs no more memory at once than a version of its own
    /// would: the old buffer, the new one, and the largest argument.
    fn fits_at_once(&self, call: u32, more: impl Iterator<Item = u32>, made: &[u32]) -> bool {
        let mut read: Vec<u32> = self.args(call).iter().map(|&a| self.storage_of(a).0).chain(more).collect();
        read.sort_unstable();
        read.dedup();
        let count = read.len();
        let bytes = |&s: &u32| self.size[s as usize];
        let unsettled = read.iter().filter(|&&s| !self.settled[s as usize]).map(bytes);
        let beside = unsettled.clone().sum::<u64>() - unsettled.max().unwrap_or(0);
        count <= MOST_ARGS && beside <= made.iter().map(bytes).sum()
    }

    /// Whether any of `storages` is one of `made` or computed from one, none of which is older than `born`.
    fn depend_on(&self, storages: impl Iterator<Item = u32>, made: &[u32], born: u64) -> bool {
        let mut seen: Vec<u32> = storages.filter(|&s| !self.settled[s as usize]).collect();
        let mut at = 0;
        while let Some(&storage) = seen.get(at) {
            at += 1;
            if made.contains(&storage) || seen.len() > LOOKED_AT {
                return true;
            }
            let changed = |t: u32| self.calls[self.tensors[t as usize].call as usize].changed;
            if self.tensors_of(storage).all(|t| changed(t) < born) {
                continue;
            }
            for &above in &self.above[storage as usize] {
                if !self.settled[above as usize] && !seen.contains(&above) {
                    seen.push(above);
                }
            }
        }
        false
    }

    /// Makes a call that reads nothing but `storage`, an output of `call`, part of that call.
    fn join(&mut self, call: u32, storage: u32, reader: u32, dead: &mut Vec<u32>) {
        self.cut(reader, dead);
        let cost = self.calls[reader as usize].cost;
        self.add_cost(call, cost);
        let whole = self.calls[call as usize].cost;
        self.calls[reader as usize].total = 0;
        for output in std::mem::take(&mut self.calls[reader as usize].outputs) {
            let (own, size) = {
                let tensor = &mut self.tensors[output as usize];
                tensor.call = call;
                (tensor.storage, tensor.size)
            };
            let s = own as usize;
            self.compute[s] = self.compute[s] + whole - cost;
            self.below[storage as usize].retain(|&b| b != own);
            self.above[s].retain(|&a| a != storage);
            let joins = &mut self.calls[call as usize];
            joins.total += size;
            joins.outputs.joined.push(output);
            let args = self.args(call).to_vec();
            self.add_edges_to(own, &args);
        }
        self.free.calls.push(reader);
    }

    /// A call reads more, and takes longer.
    fn extend(&mut self, call: u32, cost: u64, args: &[TensorId]) {
        self.add_cost(call, cost);
        let made: Vec<u32> = self.fresh_of(call).collect();
        made.into_iter().for_each(|own| self.add_edges_to(own, args));
        let all = [self.args(call), args].concat();
        let placed = self.place_args(&all);
        let old = std::mem::replace(&mut self.calls[call as usize].args, placed);
        for place in old.clone() {
            self.reads[self.args[place as usize].index()] -= 1;
        }
        self.free_args(old);
        self.linked += 1;
        self.calls[call as usize].changed = self.linked;
    }

    fn add_cost(&mut self, call: u32, cost: u64) {
        self.calls[call as usize].cost += cost;
        let made: Vec<u32> = self.fresh_of(call).collect();
        made.into_iter().for_each(|s| self.compute[s as usize] += cost);
    }

    pub fn add_edges_to(&mut self, below: u32, args: &[TensorId]) {
        for &arg in args {
            let above = self.storage_of(arg).0;
            let known = self.above[below as usize].contains(&above);
            if above != below && !known && !self.settled[above as usize] {
                self.below[above as usize].push(below);
                self.above[below as usize].push(above);
            }
        }
    }
}
