//! Recurring segments of a dynamic run, and plans for their insides.
//!
//! Idea: DTR weighs storages one by one, and computes again one by one. Where the stream of calls repeats itself (a cell of a
//! recurrent network, a node of a tree, a layer; forward and backward), that is not needed: a segment that recurs
//! is planned once (`options`), and each of its instances then offers the search one candidate, the next step of its
//! plan, instead of all its storages. When a value of an instance is needed again, what of it was dropped is computed
//! again in one run in order, and what only that run needed is dropped on the way. The online policy is left to weigh
//! instances against each other and against calls that no segment covers.
//! Source: options of blocks as in Rockmate (Zhao et al. 2023), on a stream instead of a graph; the score is DTR's, of a
//! group. Not here: how segments are found (`recognizer`).

mod cut;
mod options;
mod recognizer;
#[cfg(test)]
mod tests;

use crate::tables::{Output, Tables};
use crate::units::CallId;
use options::{Block, BlockCall, Step};
use recognizer::{Found, Operand, Recognizer, Source};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::ops::Range;

/// In no segment.
const NONE: u32 = u32::MAX;
/// A call that is not in the stream.
const NOWHERE: u64 = u64::MAX;
/// Plans, after which the oldest are made again when they are wanted.
const PLANS: usize = 4096;

/// What was recognised and what was done with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentCounters {
    /// Calls that were looked at.
    pub calls: u64,
    /// Those of them that lie in instances.
    pub covered: u64,
    /// Instances of recurring segments.
    pub instances: u64,
    /// Their classes.
    pub classes: u64,
    /// Plans: one for a class and for what of it is held.
    pub plans: u64,
    /// Evictions of a whole step of a plan.
    pub group_evictions: u64,
    /// Instances computed again in one run.
    pub replays: u64,
}

#[derive(Debug)]
struct Instance {
    class: u32,
    /// By place in the class; `NONE` if forgotten.
    storages: Vec<u32>,
    left: usize,
    /// Its plan, unless what is held has changed.
    plan: Option<u32>,
    /// Nothing of it can be evicted.
    asleep: bool,
    /// How often it came back in one run.
    replays: u32,
}

/// The next thing that an instance could give up.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub storages: Vec<u32>,
    pub bytes: u64,
    pub cost: u64,
    pub stamp: u64,
}

/// What is kept of a call until its segment is complete: by then it may be forgotten, and its ids given to others.
#[derive(Debug)]
struct Recent {
    cost: u64,
    /// Storages that it made, with their sizes.
    fresh: Vec<(u32, u64)>,
    /// Storages that it read, and those that its results lie in.
    reads: Vec<u32>,
    makes: Vec<u32>,
}

/// An instance that came back so often is weighed value by value.
const REPLAYS: u32 = 2;

#[derive(Debug, Default)]
pub(crate) struct Segments {
    recognizer: Recognizer,
    /// Per call its place in the stream.
    place: Vec<u64>,
    /// The calls of the stream that may still become part of a segment, from this place on.
    recent: VecDeque<Recent>,
    first: u64,
    next: u64,
    /// Per storage the place of the call that made it.
    made_at: Vec<u64>,
    /// Per storage its instance.
    owner: Vec<u32>,
    instances: Vec<Option<Instance>>,
    free: Vec<u32>,
    blocks: HashMap<u32, Block>,
    plans: Vec<Vec<Step>>,
    by_held: HashMap<(u32, Vec<bool>), u32>,
    pub counters: SegmentCounters,
}

fn set<T: Clone>(table: &mut Vec<T>, index: usize, empty: T, value: T) {
    if index >= table.len() {
        table.resize(index + 1, empty);
    }
    table[index] = value;
}

fn set_with(table: &mut Vec<Option<Instance>>, index: usize, value: Option<Instance>) {
    if index >= table.len() {
        table.resize_with(index + 1, || None);
    }
    table[index] = value;
}

impl Segments {
    /// Takes note of a call that was linked. Returns the storages that now belong to an instance.
    pub fn observe(&mut self, tables: &Tables, call: CallId, operator: u64) -> Vec<u32> {
        let operand = |&tensor: &crate::units::TensorId| {
            let maker = tables.tensors[tensor.index()].call;
            let bytes = tables.size[tables.storage_of(tensor).index()];
            let source = match self.place.get(maker as usize) {
                Some(&place) if place != NOWHERE => Source::Call(
                    place,
                    tables.calls[maker as usize].outputs.place(tensor.0).unwrap_or(0) as u32,
                ),
                _ => Source::Outside(tensor.0),
            };
            Operand { source, bytes }
        };
        let operands: Vec<Operand> = tables.args(call.0).iter().map(operand).collect();
        let outputs: Vec<Output> = outputs_of(tables, call.0);
        set(&mut self.place, call.index(), NOWHERE, self.next);
        self.next += 1;
        let recent = recent_of(tables, call.0);
        for &(storage, _) in &recent.fresh {
            set(&mut self.made_at, storage as usize, NOWHERE, self.next - 1);
        }
        self.recent.push_back(recent);
        self.counters.calls += 1;
        let mut grouped = Vec::new();
        for found in self.recognizer.push(operator, operands, &outputs) {
            self.add_instance(&found, &mut grouped);
        }
        self.counters.classes = u64::from(self.recognizer.classes());
        while self.first < self.recognizer.open() {
            self.recent.pop_front();
            self.first += 1;
        }
        grouped
    }

    fn add_instance(&mut self, found: &Found, grouped: &mut Vec<u32>) {
        let id = self.free.pop().unwrap_or(self.instances.len() as u32);
        let from = (found.start - self.first) as usize;
        let (mut block, mut storages, mut left) = (Block::default(), Vec::new(), 0);
        // An id may stand for one storage after the other.
        let mut local: HashMap<u32, u32> = HashMap::new();
        for (recent, place) in self.recent.range(from..from + found.calls).zip(found.start..) {
            let reads = places(&local, &recent.reads);
            for &(storage, bytes) in &recent.fresh {
                let known = self.made_at[storage as usize] == place;
                local.insert(storage, storages.len() as u32);
                block.sizes.push(bytes);
                storages.push(if known { storage } else { NONE });
                if known {
                    set(&mut self.owner, storage as usize, NONE, id);
                    grouped.push(storage);
                    left += 1;
                }
            }
            block.calls.push(BlockCall { cost: recent.cost, reads, makes: places(&local, &recent.makes) });
        }
        self.counters.instances += 1;
        self.counters.covered += found.calls as u64;
        match self.blocks.entry(found.class) {
            Entry::Occupied(mut known) => {
                for (known, new) in known.get_mut().calls.iter_mut().zip(&block.calls) {
                    known.cost = known.cost.min(new.cost);
                }
            }
            Entry::Vacant(new) => {
                new.insert(block);
            }
        }
        let instance = (left > 0).then_some(Instance {
            class: found.class,
            storages,
            left,
            plan: None,
            asleep: false,
            replays: 0,
        });
        if instance.is_none() {
            self.free.push(id);
        }
        set_with(&mut self.instances, id as usize, instance);
    }

    /// Whether a storage is weighed with its instance instead of alone.
    pub fn is_grouped(&self, tables: &Tables, storage: u32) -> bool {
        tables.external[storage as usize] > 0 && self.owner_of(storage) != NONE
    }

    fn owner_of(&self, storage: u32) -> u32 {
        self.owner.get(storage as usize).copied().unwrap_or(NONE)
    }

    /// The storages of an instance.
    pub fn storages(&self, id: usize) -> &[u32] {
        self.instances[id].as_ref().map_or(&[], |instance| &instance.storages)
    }

    /// The program holds a storage no more.
    pub fn released(&mut self, storage: u32) {
        let owner = self.owner_of(storage) as usize;
        if let Some(Some(instance)) = self.instances.get_mut(owner) {
            instance.plan = None;
        }
    }

    /// A storage was forgotten.
    pub fn forgotten(&mut self, storage: u32) {
        set(&mut self.made_at, storage as usize, NOWHERE, NOWHERE);
        let owner = self.owner_of(storage);
        if owner == NONE {
            return;
        }
        self.owner[storage as usize] = NONE;
        if let Some(Some(instance)) = self.instances.get_mut(owner as usize) {
            instance.plan = None;
            instance.left -= 1;
            for own in &mut instance.storages {
                if *own == storage {
                    *own = NONE;
                }
            }
            if instance.left == 0 {
                self.instances[owner as usize] = None;
                self.free.push(owner);
            }
        }
    }

    /// Calls became part of another, whose outputs, arguments and time have changed.
    pub fn extended(&mut self, tables: &Tables, call: u32, joined: &[CallId]) {
        for &joined in joined {
            if let Some(recent) = self.recent_mut(joined.0) {
                recent.cost = 0;
            }
            self.forgotten_call(joined.0);
        }
        let Recent { cost, reads, makes, .. } = recent_of(tables, call);
        if let Some(recent) = self.recent_mut(call) {
            (recent.cost, recent.reads, recent.makes) = (cost, reads, makes);
        }
    }

    fn recent_mut(&mut self, call: u32) -> Option<&mut Recent> {
        let place = self.place.get(call as usize)?.checked_sub(self.first)?;
        self.recent.get_mut(usize::try_from(place).ok()?)
    }

    /// A call was forgotten.
    pub fn forgotten_call(&mut self, call: u32) {
        if let Some(place) = self.place.get_mut(call as usize) {
            *place = NOWHERE;
        }
    }

    /// How many instances there may be.
    pub fn instances(&self) -> usize {
        self.instances.len()
    }

    /// The steps of an instance's plan; none if it has nothing to give up at the moment.
    pub fn steps(&mut self, tables: &Tables, id: usize) -> Range<usize> {
        match &self.instances[id] {
            Some(Instance { asleep: false, .. }) => (),
            _ => return 0..0,
        }
        self.plan_of(tables, id).map_or(0..0, |plan| 0..self.plans[plan as usize].len())
    }

    /// A grouped storage can be evicted now.
    pub fn woke(&mut self, storage: u32) {
        let owner = self.owner_of(storage) as usize;
        if let Some(Some(instance)) = self.instances.get_mut(owner) {
            instance.asleep = false;
        }
    }

    /// An instance has nothing to give up, until [`Self::woke`].
    pub fn fell_asleep(&mut self, id: usize) {
        if let Some(instance) = &mut self.instances[id] {
            instance.asleep = true;
        }
    }

    /// The instance of a storage came back in one run. If that was too often, what was planned together for memory that was less
    /// scarce comes and goes together for nothing: its storages are returned, which are weighed one by one from now on.
    pub fn came_back(&mut self, storage: u32) -> Vec<u32> {
        let owner = self.owner_of(storage) as usize;
        let Some(Some(instance)) = self.instances.get_mut(owner) else { return Vec::new() };
        instance.replays += 1;
        if instance.replays < REPLAYS {
            return Vec::new();
        }
        let storages: Vec<u32> = instance.storages.iter().copied().filter(|&s| s != NONE).collect();
        storages.iter().for_each(|&s| self.owner[s as usize] = NONE);
        self.instances[owner] = None;
        self.free.push(owner as u32);
        storages
    }

    /// What an instance would give up by a step of its plan; says whether that is anything.
    pub fn fill(&self, tables: &Tables, id: usize, step: usize, group: &mut Group) -> bool {
        group.storages.clear();
        (group.bytes, group.stamp) = (0, 0);
        let Some(Instance { plan: Some(plan), storages, .. }) = &self.instances[id] else { return false };
        let step = &self.plans[*plan as usize][step];
        for &local in &step.storages {
            let storage = storages[local as usize];
            let s = storage as usize;
            if storage != NONE && tables.resident[s] && tables.locks[s] == 0 {
                group.storages.push(storage);
                group.bytes += tables.size[s];
                group.stamp = group.stamp.max(tables.stamp[s]);
            }
        }
        // What is left of a step takes its share of the time.
        group.cost = (u128::from(step.cost) * u128::from(group.bytes) / u128::from(step.bytes)) as u64;
        group.bytes > 0
    }

    fn plan_of(&mut self, tables: &Tables, id: usize) -> Option<u32> {
        let instance = self.instances.get(id)?.as_ref()?;
        if instance.plan.is_some() {
            return instance.plan;
        }
        let held = |&s: &u32| s != NONE && tables.external[s as usize] > 0 && !tables.pinned[s as usize];
        let held: Vec<bool> = instance.storages.iter().map(held).collect();
        let class = instance.class;
        if self.by_held.len() > PLANS {
            self.by_held.clear();
            self.plans.clear();
            self.instances.iter_mut().flatten().for_each(|instance| instance.plan = None);
        }
        let key = (class, held);
        let plan = match self.by_held.get(&key) {
            Some(&plan) => plan,
            None => {
                self.plans.push(self.blocks.get(&class)?.options(&key.1));
                self.counters.plans += 1;
                let plan = self.plans.len() as u32 - 1;
                self.by_held.insert(key, plan);
                plan
            }
        };
        self.instances[id].as_mut()?.plan = Some(plan);
        Some(plan)
    }

    /// What to compute again, in order, to bring back all that the program holds of the instance of a storage, and how often
    /// each result is read by what comes after it. Empty if it is in none.
    pub fn replay_of(&self, tables: &Tables, storage: u32) -> Vec<u32> {
        let owner = self.owner_of(storage);
        let Some(Some(instance)) = self.instances.get(owner as usize) else { return Vec::new() };
        let mut wanted: Vec<u32> = Vec::new();
        for &own in instance.storages.iter().rev().filter(|&&s| s != NONE) {
            let s = own as usize;
            if tables.resident[s] || !(tables.external[s] > 0 || own == storage || wanted.contains(&own)) {
                continue;
            }
            if !wanted.contains(&own) {
                wanted.push(own);
            }
            for arg in tables.args(tables.tensors[tables.first_tensor[s] as usize].call) {
                let read = tables.storage_of(*arg).0;
                if self.owner_of(read) == owner && !tables.resident[read as usize] && !wanted.contains(&read)
                {
                    wanted.push(read);
                }
            }
        }
        instance.storages.iter().copied().filter(|s| wanted.contains(s)).collect()
    }
}

fn outputs_of(tables: &Tables, call: u32) -> Vec<Output> {
    let storage = |t: u32| tables.tensors[t as usize].storage;
    let args = tables.args(call);
    let output = |o: u32| {
        let base = args.iter().position(|a| storage(a.0) == storage(o));
        match base {
            Some(place) => Output::View(place as u32),
            None => Output::Fresh(crate::units::Bytes(tables.tensors[o as usize].size)),
        }
    };
    tables.calls[call as usize].outputs.iter().map(output).collect()
}

fn recent_of(tables: &Tables, call: u32) -> Recent {
    let storage = |tensor: u32| tables.tensors[tensor as usize].storage;
    Recent {
        cost: tables.calls[call as usize].cost,
        fresh: tables.fresh_of(call).map(|s| (s, tables.size[s as usize])).collect(),
        reads: tables.args(call).iter().map(|a| storage(a.0)).collect(),
        makes: tables.calls[call as usize].outputs.iter().map(storage).collect(),
    }
}

/// Where storages stand in a segment; those from outside are left out.
fn places(local: &HashMap<u32, u32>, storages: &[u32]) -> Vec<u32> {
    let mut found: Vec<u32> = storages.iter().filter_map(|s| local.get(s).copied()).collect();
    found.sort_unstable();
    found.dedup();
    found
}
