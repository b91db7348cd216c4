//! What is known of every storage, tensor and call: the dynamic graph, as tables indexed by ids.
//!
//! Idea: one vector per property that a hot loop reads alone (residency, time, adjacency), so that a walk over
//! evicted neighbours touches few cache lines. Edges are kept between storages, without repetitions within one call;
//! how many tensor edges they stand for is only counted, for the access statistics.
//! Source: docs/design/dtr.md, section 4 (state). Not here: who is evicted, locked or run (see `runtime`), and how what is dead
//! leaves the tables (`tables/forget.rs`); where that never happens, ids only grow.

mod forget;

use self::forget::Free;
use crate::units::{Bytes, CallId, Nanos, StorageId, TensorId};
use std::iter::Chain;
use std::ops::Range;
use std::vec;

/// What a call that will be linked next brings, as far as regions are concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct News {
    /// Some argument has no value.
    pub recomputes: bool,
    /// Some output is a view in a storage that is not in memory, whose time grows by it.
    pub views_evicted: bool,
    /// Some output is a view in a storage to which another argument's storage will be joined by an edge.
    pub joins_storages: bool,
}

/// Where a result of a call lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// In a storage of its own, of this size.
    Fresh(Bytes),
    /// In the storage of the call's argument at this position.
    View(u32),
}

/// A storage whose value was never written has this stamp; the clock starts at 1.
pub(crate) const NEVER: u64 = 0;

/// Ends a list of tensors.
pub(crate) const NIL: u32 = u32::MAX;

/// The outputs of a call: consecutive tensors, then those of calls that became part of it (see `extend`).
#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    pub own: Range<u32>,
    pub joined: Vec<u32>,
}

impl Outputs {
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.own.clone().chain(self.joined.iter().copied())
    }

    pub fn len(&self) -> usize {
        self.own.len() + self.joined.len()
    }

    /// Where a tensor stands among them.
    pub fn place(&self, tensor: u32) -> Option<usize> {
        self.iter().position(|o| o == tensor)
    }
}

impl IntoIterator for Outputs {
    type Item = u32;
    type IntoIter = Chain<Range<u32>, vec::IntoIter<u32>>;

    fn into_iter(self) -> Self::IntoIter {
        self.own.chain(self.joined)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub cost: u64,
    pub args: Range<u32>,
    pub outputs: Outputs,
    /// Sizes of all outputs together; a view counts 0.
    pub total: u64,
    /// When it was linked, and when it was linked or extended last, counted in calls.
    pub born: u64,
    pub changed: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Tensor {
    pub storage: u32,
    pub call: u32,
    /// Whether its value exists. A view may be undefined while its storage is resident.
    pub defined: bool,
    /// What it adds to memory when it is computed: its storage's size, or 0 for a view.
    pub size: u64,
    pub next: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Tables {
    /// Whether edges to settled storages are kept.
    edges_to_settled: bool,
    /// What the forgotten have left.
    pub free: Free,
    pub calls: Vec<Call>,
    /// How many calls were linked or extended.
    pub linked: u64,
    pub tensors: Vec<Tensor>,
    pub args: Vec<TensorId>,
    /// Per tensor: references held by the program, and by those who hold it for a moment.
    pub refs: Vec<u32>,
    /// Per tensor: places among the arguments of calls that may run again.
    pub reads: Vec<u32>,
    /// Per storage: bytes.
    pub size: Vec<u64>,
    /// Per storage: nanoseconds of the distinct calls among its tensors.
    pub compute: Vec<u64>,
    /// Per storage: time of the last access.
    pub stamp: Vec<u64>,
    /// Per storage: whether it is in memory.
    pub resident: Vec<bool>,
    /// Per storage: whether it stays in memory.
    pub pinned: Vec<bool>,
    /// Per storage: whether it is pinned for ever, so that nobody will ask what it was made from.
    pub settled: Vec<bool>,
    /// Per storage: whether it was freed for ever and its edges are cut.
    pub banished: Vec<bool>,
    /// Per storage: locks held by running calls and by pins. Signed, because banishing resets it.
    pub locks: Vec<i64>,
    /// Per storage: references held by the program. Signed, because a program may release more than it took.
    pub external: Vec<i64>,
    /// Per storage: the storages its tensors were computed from, without itself.
    pub above: Vec<Vec<u32>>,
    /// Per storage: the storages computed from its tensors, without itself.
    pub below: Vec<Vec<u32>>,
    /// Per storage: tensor edges upwards and downwards, with repetitions, its own views included.
    pub edges_above: Vec<u64>,
    pub edges_below: Vec<u64>,
    pub first_tensor: Vec<u32>,
    pub last_tensor: Vec<u32>,
}

/// Writes a row of a table: the next one, or one that was free.
fn put<T>(table: &mut Vec<T>, row: u32, value: T) {
    let row = row as usize;
    if row == table.len() { table.push(value) } else { table[row] = value }
}

impl Tables {
    /// Empty tables.
    pub fn new(edges_to_settled: bool) -> Self {
        Self { edges_to_settled, ..Self::default() }
    }

    /// What linking this call would change beside adding storages at the lower end of the graph.
    pub fn news(&self, args: &[TensorId], outputs: &[Output]) -> News {
        let storage = |t: TensorId| self.tensors[t.index()].storage;
        let mut news = News { recomputes: false, views_evicted: false, joins_storages: false };
        news.recomputes = args.iter().any(|a| !self.tensors[a.index()].defined);
        for output in outputs {
            let Output::View(arg) = *output else { continue };
            let base = storage(args[arg as usize]);
            news.views_evicted |= !self.resident[base as usize];
            news.joins_storages |= args.iter().any(|&a| storage(a) != base);
        }
        news
    }

    /// Appends a call with its output tensors and their storages. Nothing runs yet: fresh storages are not resident.
    ///
    /// # Panics
    /// If an argument does not exist or a view names no argument: the caller has checked its program.
    pub fn link(&mut self, cost: Nanos, args: &[TensorId], outputs: &[Output]) -> CallId {
        let call = self.free.calls.pop().unwrap_or(self.calls.len() as u32);
        let args_at = self.place_args(args);
        let first_output = self.free.tensors.take(outputs.len()).unwrap_or(self.tensors.len() as u32);
        let mut total = 0;
        for (place, output) in outputs.iter().enumerate() {
            let storage = match *output {
                Output::Fresh(size) => {
                    total += size.0;
                    self.add_storage(size.0, cost.0)
                }
                Output::View(arg) => {
                    let base = self.tensors[args[arg as usize].index()].storage;
                    self.add_view_cost(base, call, cost.0);
                    base
                }
            };
            let size = if let Output::Fresh(size) = output { size.0 } else { 0 };
            self.add_tensor(first_output + place as u32, storage, call, size);
        }
        let own = first_output..first_output + outputs.len() as u32;
        let outputs = Outputs { own, joined: Vec::new() };
        self.linked += 1;
        let (born, changed) = (self.linked, self.linked);
        put(&mut self.calls, call, Call { cost: cost.0, args: args_at, outputs, total, born, changed });
        self.add_edges(call);
        CallId(call)
    }

    pub fn place_args(&mut self, args: &[TensorId]) -> Range<u32> {
        for arg in args {
            self.reads[arg.index()] += 1;
        }
        let start = match self.free.args.take(args.len()) {
            Some(start) => {
                self.args[start as usize..start as usize + args.len()].copy_from_slice(args);
                start
            }
            None => {
                self.args.extend_from_slice(args);
                (self.args.len() - args.len()) as u32
            }
        };
        start..start + args.len() as u32
    }

    fn add_storage(&mut self, size: u64, compute: u64) -> u32 {
        let storage = self.free.storages.pop().unwrap_or(self.size.len() as u32);
        put(&mut self.size, storage, size);
        put(&mut self.compute, storage, compute);
        put(&mut self.stamp, storage, NEVER);
        put(&mut self.resident, storage, false);
        put(&mut self.pinned, storage, false);
        put(&mut self.settled, storage, false);
        put(&mut self.banished, storage, false);
        put(&mut self.locks, storage, 0);
        put(&mut self.external, storage, 0);
        put(&mut self.above, storage, Vec::new());
        put(&mut self.below, storage, Vec::new());
        put(&mut self.edges_above, storage, 0);
        put(&mut self.edges_below, storage, 0);
        put(&mut self.first_tensor, storage, NIL);
        put(&mut self.last_tensor, storage, NIL);
        storage
    }

    /// A call that makes two views of one storage counts once.
    fn add_view_cost(&mut self, storage: u32, call: u32, cost: u64) {
        let last = self.last_tensor[storage as usize];
        if last == NIL || self.tensors[last as usize].call != call {
            self.compute[storage as usize] += cost;
        }
    }

    fn add_tensor(&mut self, tensor: u32, storage: u32, call: u32, size: u64) {
        put(&mut self.tensors, tensor, Tensor { storage, call, defined: false, size, next: NIL });
        put(&mut self.refs, tensor, 1);
        put(&mut self.reads, tensor, 0);
        let s = storage as usize;
        match self.last_tensor[s] {
            NIL => self.first_tensor[s] = tensor,
            last => self.tensors[last as usize].next = tensor,
        }
        self.last_tensor[s] = tensor;
        self.external[s] += 1;
    }

    fn add_edges(&mut self, call: u32) {
        let Call { args, outputs, .. } = self.calls[call as usize].clone();
        for o in outputs.iter() {
            let below = self.tensors[o as usize].storage;
            self.edges_above[below as usize] += args.len() as u64;
            for a in args.clone() {
                let above = self.tensors[self.args[a as usize].index()].storage;
                // One call adds its edges in one go, so a repetition shows at the end of the short list or not at
                // all; a repetition that slips through costs time, never a result.
                let wanted = self.edges_to_settled || !self.settled[above as usize];
                if above != below && wanted && self.below[above as usize].last() != Some(&below) {
                    self.below[above as usize].push(below);
                    self.above[below as usize].push(above);
                }
            }
        }
        for a in args {
            let above = self.tensors[self.args[a as usize].index()].storage;
            self.edges_below[above as usize] += outputs.len() as u64;
        }
    }

    /// The arguments of a call, as tensors, with repetitions.
    pub fn args(&self, call: u32) -> &[TensorId] {
        let Range { start, end } = self.calls[call as usize].args;
        &self.args[start as usize..end as usize]
    }

    /// How many storages exist.
    pub fn storages(&self) -> usize {
        self.size.len()
    }

    /// The storage of a tensor.
    pub fn storage_of(&self, tensor: TensorId) -> StorageId {
        StorageId(self.tensors[tensor.index()].storage)
    }

    /// The tensors of a storage in creation order.
    pub fn tensors_of(&self, storage: u32) -> impl Iterator<Item = u32> + '_ {
        let mut next = self.first_tensor[storage as usize];
        std::iter::from_fn(move || {
            let tensor = (next != NIL).then_some(next)?;
            next = self.tensors[tensor as usize].next;
            Some(tensor)
        })
    }

    /// Marks all tensors of a storage as having no value.
    pub fn undefine(&mut self, storage: u32) {
        let mut next = self.first_tensor[storage as usize];
        while next != NIL {
            let tensor = &mut self.tensors[next as usize];
            tensor.defined = false;
            next = tensor.next;
        }
    }

    /// Evicted (or not yet run) neighbours of a storage on both sides, possibly with repetitions.
    pub fn evicted_neighbors(&self, storage: u32) -> impl Iterator<Item = u32> + '_ {
        let s = storage as usize;
        self.above[s].iter().chain(&self.below[s]).copied().filter(|&n| !self.resident[n as usize])
    }
}
