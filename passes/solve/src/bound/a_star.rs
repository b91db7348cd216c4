//! Best-first search over states, for graphs of up to 128 nodes: the optimum, or a bound for every order.
//!
//! A *state* is what ran at least once (`done`) and what may be in memory (`live`): one bit each per node and value. An edge is one run.
//! Whatever fits stays live, and is evicted only when a run needs the room, in every way in which nothing is evicted in vain; a sequence
//! that drops earlier passes through states with less, so none is lost. The search goes by `f = paid + due`: the time of second runs so
//! far, and of those that must still come: what makes a value that is needed and gone, and, for each of a few nodes that did not run yet, what
//! the cut problem there says ([`crate::bound::cut`]) if the former cost nothing more. `due` never overestimates, and `f` is never less than
//! before: the best complete state that is left when the queue is empty is an optimum, and before, the `f` of what is taken is a bound.
//!
//! - **E1** operands are live, and a node that ran before runs again only if that still fits under the best plan known
//! - **E2** live bytes with the outputs, workspace and generator state fit in the budget; the buffer that a node overwrites counts once
//! - **E3** values that no run under the best plan can read are forgotten
//! - **E4** a first run that frees as much as it makes, or makes nothing, and fits at once, is made without a choice: later is not better
//! - **E5** a first run that nobody reads at once waits for its first reader, if what it reads must be live until then: earlier is not better
//! - **E6** of two states with the same `done`, one whose `live` is part of the other's and that has paid no less goes
//!
//! Source: A* after Hart, Nilsson and Raphael, 1968. Where the cuts are far below the optimum, at tight budgets, it is out of reach.

mod heuristic;

use std::cell::Cell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use rk_plan::{Bytes, Graph};

use crate::portfolio::clock::Clock;
use crate::state::flat_graph::{FlatGraph, NONE};

use heuristic::{CutHeuristic, cut_heuristics};

/// A set of nodes, or of values.
type Bits = u128;
/// The most nodes, and the most values and generator states together.
pub(crate) const MOST_NODES: usize = Bits::BITS as usize;
/// States that are kept, at most: some 150 MiB.
const STATES: usize = 1_000_000;

/// Ways to make room for one run that are looked at, complete or not.
const WAYS: u32 = 20_000;

fn bit(index: u32) -> Bits {
    1 << index
}

/// The members of a set, in increasing order.
fn members(mut set: Bits) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let first = set.trailing_zeros();
        set &= set.wrapping_sub(1);
        (first < Bits::BITS).then_some(first)
    })
}

struct State {
    done: Bits,
    live: Bits,
    paid: u64,
    /// What was paid, and what is due for values that are gone.
    sure: u64,
    f: u64,
    before: u32,
    ran: u8,
    /// The reader that comes next, if nothing else may (E5).
    next: Option<u32>,
    /// Another state has at least as much.
    beaten: bool,
}

/// For each node, itself and all that need it.
fn after(model: &FlatGraph, readers: &[Bits]) -> Vec<Bits> {
    let mut after = vec![0; model.len()];
    for node in (0..model.len()).rev() {
        let values = model.writes.row(node as u32).iter();
        let direct = values.fold(0, |set, &value| set | readers[value as usize]);
        after[node] = members(direct).fold(bit(node as u32), |set, reader| set | after[reader as usize]);
    }
    after
}

/// How far a search came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No plan has less overhead than the limit.
    Proved,
    /// Stopped; no plan below the limit has less than this overhead.
    Bound(u64),
}

/// An edge.
#[derive(Clone, Copy)]
struct Run {
    node: u32,
    /// With this run.
    paid: u64,
    /// The reader for whose sake it runs.
    next: Option<u32>,
}

/// The search; it can go on where it stopped.
pub(crate) struct States {
    reads: Vec<Bits>,
    writes: Vec<Bits>,
    time: Vec<u64>,
    workspace: Vec<i64>,
    /// What a node may overwrite.
    over: Vec<Bits>,
    /// The generator state of a node, in the numbering of values.
    generator: Vec<Bits>,
    once: Bits,
    pinned: Bits,
    bytes: Vec<i64>,
    /// The node that makes a value, and those that read it.
    producer: Vec<u32>,
    readers: Vec<Bits>,
    /// A node and all that need it, directly or not.
    after: Vec<Bits>,
    /// Nodes whose workspace and unread outputs need no more room than what any of their readers adds.
    light: Bits,
    heuristics: Vec<CutHeuristic>,
    all: Bits,
    budget: i64,
    states: Vec<State>,
    by_done: BTreeMap<(Bits, Option<u32>), Vec<u32>>,
    queue: BinaryHeap<(Reverse<u64>, u32, Reverse<u32>)>,
    /// The least overhead that is of no interest, and the state of a plan that has it.
    limit: u64,
    best: Option<u32>,
    /// Looks at what is due: the measure of work.
    looks: Cell<u64>,
    clock: Clock,
    /// There were more ways to make room than can be tried, or than there was time for, in a state with that `f`.
    stuck: Option<u64>,
}

impl States {
    /// Nothing if the graph is too large.
    pub(crate) fn new(graph: &Graph, model: &FlatGraph, budget: Bytes) -> Option<Self> {
        let (nodes, values) = (model.len(), model.values());
        let generators: Vec<u32> = (0..nodes as u32).filter(|&node| model.state[node as usize] > 0).collect();
        if nodes == 0 || nodes > MOST_NODES || values + generators.len() > MOST_NODES {
            return None;
        }
        let set = |row: &[u32]| row.iter().fold(0, |set, &value| set | bit(value));
        let each = |row: &dyn Fn(u32) -> Bits| (0..nodes as u32).map(row).collect::<Vec<Bits>>();
        let mut generator = vec![0; nodes];
        let mut bytes = model.bytes.clone();
        for &node in &generators {
            generator[node as usize] = bit(bytes.len() as u32);
            bytes.push(model.state[node as usize]);
        }
        let over = |node: u32| match model.over[node as usize] {
            NONE => 0,
            value => bit(value),
        };
        let heuristics = cut_heuristics(graph, budget);
        let budget = i64::try_from(budget.0).unwrap_or(i64::MAX);
        let first =
            State { done: 0, live: 0, paid: 0, sure: 0, f: 0, before: 0, ran: 0, next: None, beaten: false };
        let readers: Vec<Bits> = (0..values as u32).map(|value| set(model.readers.row(value))).collect();
        let after = after(model, &readers);
        let adds = |node: u32| {
            let taken = over(node).trailing_zeros() as usize;
            model.workspace[node as usize] + model.output_bytes(node) - bytes.get(taken).unwrap_or(&0)
        };
        let is_light = |&node: &u32| {
            let made = || model.writes.row(node).iter().map(|&value| value as usize);
            let unread = made().filter(|&value| readers[value] == 0 && !model.pinned[value]);
            let alone = model.workspace[node as usize] + unread.map(|value| bytes[value]).sum::<i64>();
            let readers = made().fold(0, |set, value| set | readers[value]);
            members(readers).all(|reader| alone <= adds(reader))
        };
        let light = (0..nodes as u32).filter(is_light).fold(0, |set, node| set | bit(node));
        Some(Self {
            producer: model.producer.clone(),
            readers,
            after,
            light,
            reads: each(&|node| set(model.reads.row(node))),
            writes: each(&|node| set(model.writes.row(node))),
            time: model.time.clone(),
            workspace: model.workspace.clone(),
            over: each(&over),
            generator,
            once: (0..nodes as u32).filter(|&node| model.once[node as usize]).fold(0, |set, n| set | bit(n)),
            pinned: (0..values as u32)
                .filter(|&value| model.pinned[value as usize])
                .fold(0, |set, value| set | bit(value)),
            bytes,
            heuristics,
            all: if nodes == MOST_NODES { Bits::MAX } else { bit(nodes as u32) - 1 },
            budget,
            states: vec![first],
            by_done: BTreeMap::new(),
            queue: BinaryHeap::from([(Reverse(0), 0, Reverse(0))]),
            limit: u64::MAX,
            best: None,
            looks: Cell::new(0),
            clock: Clock::new(Duration::ZERO),
            stuck: None,
        })
    }

    /// Searches for plans with less overhead than `limit` (and than any found before) until so many looks were made, or the clock stops.
    pub(crate) fn run(&mut self, limit: u64, looks: u64, clock: &Clock) -> Found {
        (self.limit, self.clock) = (self.limit.min(limit), *clock);
        let end = self.looks.get().saturating_add(looks);
        while let Some(&(Reverse(f), _, Reverse(index))) = self.queue.peek().filter(|_| self.stuck.is_none())
        {
            if f >= self.limit {
                self.queue.clear();
                break;
            }
            if self.looks.get() >= end || self.states.len() >= STATES || clock.expired() {
                return Found::Bound(f);
            }
            self.queue.pop();
            if !self.states[index as usize].beaten {
                self.expand(index);
            }
        }
        if self.stuck.is_some() { Found::Bound(self.bound()) } else { Found::Proved }
    }

    /// The plan found, if one had less overhead than the limits given.
    pub(crate) fn plan(&self) -> Option<Vec<u32>> {
        let mut nodes = Vec::new();
        let mut at = self.best?;
        while at != 0 {
            nodes.push(u32::from(self.states[at as usize].ran));
            at = self.states[at as usize].before;
        }
        nodes.reverse();
        Some(nodes)
    }

    /// No plan below the limit has less overhead than this.
    pub(crate) fn bound(&self) -> u64 {
        let next = self.queue.peek().map_or(self.limit, |&(Reverse(f), ..)| f);
        self.stuck.map_or(next, |f| f.min(next)).min(self.limit)
    }

    /// States that were reached, and looks at what is due.
    pub(crate) fn work(&self) -> (usize, u64) {
        (self.states.len(), self.looks.get())
    }

    /// Bytes of a set.
    fn size(&self, set: Bits) -> i64 {
        members(set).map(|value| self.bytes[value as usize]).sum()
    }

    /// The nodes that must run again, because what they make is needed and gone; none can if that is impossible.
    fn due(&self, done: Bits, live: Bits) -> Option<(u64, Bits)> {
        self.looks.set(self.looks.get() + 1);
        let mut needed = self.pinned;
        for node in members(self.all & !done) {
            needed |= self.reads[node as usize];
        }
        needed &= !live;
        let (mut time, mut again) = (0u64, 0);
        for node in (0..self.reads.len()).rev() {
            let here = bit(node as u32);
            if done & here != 0 && needed & self.writes[node] != 0 {
                if self.once & here != 0 || self.generator[node] & !live != 0 {
                    return None;
                }
                time = time.saturating_add(self.time[node]);
                again |= here;
                needed |= self.reads[node] & !live;
            }
        }
        Some((time, again))
    }

    /// E3: what a run that is still possible may read.
    fn useful(&self, done: Bits, again: Bits, slack: u64) -> Bits {
        let mut useful = self.pinned;
        for node in (0..self.reads.len()).rev() {
            let here = bit(node as u32);
            let may = done & here == 0
                || again & here != 0
                || (useful & self.writes[node] != 0 && self.once & here == 0 && self.time[node] < slack);
            if may {
                useful |= self.reads[node] | self.generator[node];
            }
        }
        useful
    }

    fn expand(&mut self, index: u32) {
        let State { done, live, paid, sure, next, .. } = self.states[index as usize];
        let Some((_, again)) = self.due(done, live) else { return };
        let slack = self.limit - sure;
        if let Some(reader) = next {
            let node = self.first_missing(reader, live).unwrap_or(reader);
            if done & bit(node) == 0 && self.reads[node as usize] & !live == 0 {
                self.evict(index, Run { node, paid, next });
            }
            return;
        }
        let missing = self.useful(done, again, slack) & !live;
        let mut waiting = 0;
        for node in 0..self.reads.len() as u32 {
            let at = node as usize;
            if self.reads[at] & !live != 0 {
                continue;
            }
            if done & bit(node) == 0 {
                if self.waits(node, done, slack) {
                    waiting |= bit(node);
                } else {
                    self.evict(index, Run { node, paid, next: None });
                }
            } else if self.writes[at] & missing != 0
                && self.once & bit(node) == 0
                && self.generator[at] & !live == 0
            {
                let paid = paid.saturating_add(self.time[at]);
                if paid < self.limit {
                    self.evict(index, Run { node, paid, next: None });
                }
            }
        }
        for reader in members(self.all & !done) {
            let makers = self.makers(self.reads[reader as usize] & !live);
            if makers != 0 && makers & !waiting == 0 {
                let next = Some(reader);
                self.evict(index, Run { node: makers.trailing_zeros(), paid, next });
            }
        }
    }

    /// The first node that makes what a reader lacks.
    fn first_missing(&self, reader: u32, live: Bits) -> Option<u32> {
        let makers = self.makers(self.reads[reader as usize] & !live);
        (makers != 0).then(|| makers.trailing_zeros())
    }

    /// The nodes that make some values.
    fn makers(&self, values: Bits) -> Bits {
        members(values).fold(0, |set, value| set | bit(self.producer[value as usize]))
    }

    /// E5: whether the first run of a node may as well come just before what reads it first. It needs no more room there than that does, and
    /// whatever it reads is read again later, and cannot be made again under the limit in the meantime.
    fn waits(&self, node: u32, done: Bits, slack: u64) -> bool {
        let at = node as usize;
        let readers =
            members(self.writes[at]).fold(0, |set, value| set | self.readers[value as usize]) & !done;
        let later = members(readers).fold(0, |set, reader| set | self.after[reader as usize]);
        readers != 0
            && self.light & bit(node) != 0
            && members(self.reads[at]).all(|value| {
                let read_again = self.readers[value as usize] & !done & !bit(node) & later != 0;
                (read_again || self.pinned & bit(value) != 0) && self.is_sure(value, done, slack)
            })
    }

    /// E2: all ways to make room for a run in which nothing is evicted in vain.
    fn evict(&mut self, index: u32, run: Run) {
        let Run { node, paid, .. } = run;
        let State { done, live, .. } = self.states[index as usize];
        let at = node as usize;
        let fresh = self.writes[at] | self.generator[at];
        let there = live | fresh;
        let over = self.size(there).saturating_add(self.workspace[at]).saturating_sub(self.budget);
        let done = done | bit(node);
        if over <= 0 {
            self.reach(index, run, done, there);
            return;
        }
        // Its own generator state need not be kept, nor the operand whose buffer it takes.
        let free = (there & !(self.reads[at] | self.writes[at])) | self.over[at];
        let mut candidates: Vec<u32> =
            members(free).filter(|&value| self.bytes[value as usize] > 0).collect();
        candidates.sort_by_key(|&value| (Reverse(self.bytes[value as usize]), value));
        // Bytes of each candidate and all after it.
        let mut rest: Vec<i64> = candidates.iter().map(|&value| self.bytes[value as usize]).collect();
        for place in (0..rest.len().saturating_sub(1)).rev() {
            rest[place] += rest[place + 1];
        }
        let (mut stack, mut ways) = (vec![(0usize, there, over)], 0);
        while let Some((place, there, over)) = stack.pop() {
            ways += 1;
            if ways > WAYS || (ways % 1024 == 0 && self.clock.expired()) {
                self.stuck = self.stuck.or(Some(self.states[index as usize].f));
                return;
            }
            if place >= candidates.len() || rest[place] < over {
                continue;
            }
            stack.push((place + 1, there, over));
            let without = there & !bit(candidates[place]);
            let left = over - self.bytes[candidates[place] as usize];
            if left <= 0 {
                self.reach(index, run, done, without);
            } else if let Some((due, _)) = self.due(done, without)
                && paid.saturating_add(due) < self.limit
            {
                stack.push((place + 1, without, left));
            }
        }
    }

    /// Takes note of a state, after the runs that follow without a choice.
    fn reach(&mut self, before: u32, run: Run, mut done: Bits, mut live: Bits) {
        let Run { node, paid, next } = run;
        let Some((due, again)) = self.due(done, live) else { return };
        let sure = paid.saturating_add(due);
        if sure >= self.limit {
            return;
        }
        let slack = self.limit - sure;
        live &= self.useful(done, again, slack);
        let mut path = vec![(node, done, live)];
        while let Some(next) = self.without_choice(done, live, slack) {
            done |= bit(next);
            live |= self.writes[next as usize] | self.generator[next as usize];
            let Some((_, again)) = self.due(done, live) else { return };
            live &= self.useful(done, again, slack);
            path.push((next, done, live));
        }
        let next = next.filter(|&next| done & bit(next) == 0);
        let complete = done == self.all && self.pinned & !live == 0;
        if !complete && self.is_beaten(done, next, live, paid) {
            return;
        }
        let mut ahead = 0;
        for cut in self.heuristics.iter_mut().filter(|cut| done & bit(cut.node) == 0) {
            ahead = ahead.max(cut.least(again, self.limit));
        }
        let f = sure.saturating_add(ahead).max(self.states[before as usize].f);
        if f >= self.limit {
            return;
        }
        let mut before = before;
        for (ran, done, live) in path {
            let state = State { done, live, paid, sure, f, before, ran: ran as u8, next, beaten: false };
            before = self.states.len() as u32;
            self.states.push(state);
        }
        if complete {
            (self.limit, self.best) = (paid, Some(before));
            return;
        }
        self.by_done.entry((done, next)).or_default().push(before);
        self.queue.push((Reverse(f), done.count_ones(), Reverse(before)));
    }

    /// E4: the first node that may run at once, frees as much as it makes, and is in nobody's way. What it frees must be such that no
    /// plan under the limit could do without it in the meantime.
    fn without_choice(&self, done: Bits, live: Bits, slack: u64) -> Option<u32> {
        let size = self.size(live);
        members(self.all & !done).find(|&node| {
            let at = node as usize;
            if self.reads[at] & !live != 0 || self.generator[at] != 0 {
                return false;
            }
            let made = self.size(self.writes[at] & !live);
            let mut freed = 0;
            let mut taken = 0;
            if made > 0 {
                let after = done | bit(node);
                let Some((_, again)) = self.due(after, live | self.writes[at]) else { return false };
                let gone = self.reads[at] & !self.useful(after, again, slack);
                let sure = members(gone).filter(|&value| self.is_sure(value, done, slack));
                freed = sure.map(|value| self.bytes[value as usize]).sum();
                taken = self.size(gone & self.over[at]);
            }
            made <= freed && size + made - taken + self.workspace[at] <= self.budget
        })
    }

    /// Whether no plan under the limit makes a value of a node that ran again.
    fn is_sure(&self, value: u32, done: Bits, slack: u64) -> bool {
        let node = self.producer[value as usize];
        done & bit(node) != 0 && (self.once & bit(node) != 0 || self.time[node as usize] >= slack)
    }

    /// E6.
    fn is_beaten(&mut self, done: Bits, next: Option<u32>, live: Bits, paid: u64) -> bool {
        let Some(rivals) = self.by_done.get_mut(&(done, next)) else { return false };
        let states = &mut self.states;
        if rivals.iter().any(|&rival| {
            let rival = &states[rival as usize];
            live & !rival.live == 0 && rival.paid <= paid
        }) {
            return true;
        }
        rivals.retain(|&rival| {
            let rival = &mut states[rival as usize];
            rival.beaten = rival.live & !live == 0 && paid <= rival.paid;
            !rival.beaten
        });
        false
    }
}
