//! Eviction heuristics of dynamic tensor rematerialization, replayed at planning time: a portfolio.
//!
//! Walk the given order. Before each node run again, operands first, what it reads and memory has lost; while its outputs
//! do not fit, evict the resident value with the least score; drop values after their last reader in the given order.
//! The sequence is then judged with exact lifetimes, and the cheapest within the budget wins.
//!
//! ```text
//! score  = price / (bytes ^ a * patience ^ b)             least goes first
//! price  = 1 | own time | own time + time of the evicted ancestors that a rerun needs
//! patience = 1 | steps since the last access (staleness) | steps until the next reader (which a planner knows)
//! ```
//!
//! Scores without staleness win offline: it is an online proxy for the next use. And results are not monotone in the
//! budget simulated, so smaller ones are tried too.
//!
//! Source: Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021. Not here: the online runtime and its union-find
//! approximations (crate `rk-dtr`), and any change of order.

use rk_plan::{Graph, NodeId, Sequence, ValueId};

use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;

/// What a rerun is taken to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Price {
    /// Everything costs the same.
    One,
    /// The producer alone.
    Own,
    /// The producer, and the producers of evicted operands, transitively.
    Ancestors,
}

/// How long a value is taken to be idle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Not considered.
    None,
    /// Runs since it was made or read.
    Staleness,
    /// Nodes of the given order until it is read.
    NextUse,
}

/// One heuristic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heuristic {
    /// The numerator.
    pub price: Price,
    /// Whether large values go first.
    pub by_bytes: bool,
    /// The other part of the denominator.
    pub patience: Patience,
}

impl Heuristic {
    /// All combinations that make sense: h_DTR is ancestors, bytes, staleness; LRU is one, no bytes, staleness; size is one,
    /// bytes, none; MSPS is ancestors, bytes, none; Belady is one, no bytes, next use.
    pub fn all() -> Vec<Self> {
        let mut all = Vec::new();
        for price in [Price::Own, Price::Ancestors, Price::One] {
            for patience in [Patience::None, Patience::NextUse, Patience::Staleness] {
                for by_bytes in [true, false] {
                    let constant = price == Price::One && patience == Patience::None && !by_bytes;
                    if !constant {
                        all.push(Self { price, by_bytes, patience });
                    }
                }
            }
        }
        all
    }
}

/// Budgets simulated, in per mille of the real one, from the largest down. Above it, because the judge's lifetimes are
/// shorter than the simulated ones.
const SIMULATED: std::ops::RangeInclusive<u64> = 60..=108;
/// Runs per node after which a simulation is given up: it thrashes.
const MOST_RUNS: usize = 6;
/// Evicted ancestors looked at per score.
const ANCESTORS: usize = 48;

/// The portfolio.
pub(crate) fn portfolio(task: &mut Incumbent) {
    let graph = task.request.graph;
    for per_mille in SIMULATED.rev().map(|percent| 10 * percent) {
        let budget = (u128::from(task.request.budget.0) * u128::from(per_mille) / 1000) as u64;
        for heuristic in Heuristic::all() {
            if task.is_settled() || task.clock.expired() {
                return;
            }
            // Smaller budgets cost more, as a rule: those far below the real one are for tight cases only.
            if per_mille < 850 && task.plan.is_some() && graph.len() > 500 {
                return;
            }
            if let Some(sequence) = simulate(graph, budget, heuristic, &|| task.clock.expired()) {
                task.offer_sequence(sequence, Solver::Dtr);
            }
        }
    }
}

/// The sequence that a heuristic makes of the given order, or `None` if it gets stuck, thrashes or is stopped.
pub fn simulate(
    graph: &Graph,
    budget: u64,
    heuristic: Heuristic,
    stop: &dyn Fn() -> bool,
) -> Option<Sequence> {
    let mut memory = Memory {
        graph,
        budget,
        heuristic,
        used: 0,
        resident: vec![false; graph.values().len()],
        ran: vec![false; graph.len()],
        locks: vec![0; graph.values().len()],
        touched: vec![0; graph.values().len()],
        now: NodeId(0),
        sequence: Vec::with_capacity(2 * graph.len()),
    };
    for node in graph.node_ids() {
        if stop() {
            return None;
        }
        memory.now = node;
        memory.execute(node)?;
    }
    Some(Sequence(memory.sequence))
}

struct Memory<'a> {
    graph: &'a Graph,
    budget: u64,
    heuristic: Heuristic,
    used: u64,
    resident: Vec<bool>,
    ran: Vec<bool>,
    locks: Vec<u32>,
    /// Length of the sequence at the last access.
    touched: Vec<usize>,
    /// The node of the given order that is being worked on.
    now: NodeId,
    sequence: Vec<NodeId>,
}

impl Memory<'_> {
    /// Runs a node and what it needs, without recursion.
    fn execute(&mut self, node: NodeId) -> Option<()> {
        let graph = self.graph;
        let mut stack = vec![(node, false)];
        while let Some((next, ready)) = stack.pop() {
            let about = graph.node(next);
            if !ready {
                let wanted = next == node || about.writes.iter().any(|value| !self.resident[value.index()]);
                if !wanted {
                    continue;
                }
                about.reads.iter().for_each(|value| self.locks[value.index()] += 1);
                stack.push((next, true));
                let missing = about.reads.iter().rev().filter(|value| !self.resident[value.index()]);
                stack.extend(missing.map(|&value| (graph.value(value).producer, false)));
                continue;
            }
            if self.sequence.len() > MOST_RUNS * graph.len() {
                return None;
            }
            self.run(next)?;
        }
        Some(())
    }

    fn run(&mut self, node: NodeId) -> Option<()> {
        let about = self.graph.node(node);
        // A second run replaces what is still there of its outputs.
        about.writes.iter().for_each(|&value| self.remove(value));
        let need: u64 = about.writes.iter().map(|&value| self.graph.value(value).bytes.0).sum();
        self.make_room(need + about.workspace.0)?;
        self.sequence.push(node);
        self.ran[node.index()] = true;
        self.used += need;
        for &value in about.writes.iter().chain(&about.reads) {
            self.touched[value.index()] = self.sequence.len();
        }
        about.writes.iter().for_each(|value| self.resident[value.index()] = true);
        for &value in &about.reads {
            self.locks[value.index()] -= 1;
        }
        for &value in about.reads.iter().chain(&about.writes) {
            let idle = self.locks[value.index()] == 0 && self.next_use(value).is_none();
            if idle && !self.graph.value(value).pinned {
                self.remove(value);
            }
        }
        Some(())
    }

    fn remove(&mut self, value: ValueId) {
        if std::mem::replace(&mut self.resident[value.index()], false) {
            self.used -= self.graph.value(value).bytes.0;
        }
    }

    /// Nodes until the next reader in the given order.
    fn next_use(&self, value: ValueId) -> Option<u32> {
        let readers = self.graph.readers(value);
        let next = readers.partition_point(|&reader| reader <= self.now);
        readers.get(next).map(|reader| reader.0 - self.now.0)
    }

    fn make_room(&mut self, need: u64) -> Option<()> {
        while self.used + need > self.budget {
            let candidates = (0..self.resident.len()).map(ValueId::from_index).filter(|&value| {
                let about = self.graph.value(value);
                self.resident[value.index()]
                    && self.locks[value.index()] == 0
                    && about.bytes.0 > 0
                    && !about.pinned
                    && self.graph.node(about.producer).is_repeatable()
            });
            let worst = candidates.min_by(|&a, &b| self.score(a).total_cmp(&self.score(b)))?;
            self.remove(worst);
        }
        Some(())
    }

    fn score(&self, value: ValueId) -> f64 {
        let about = self.graph.value(value);
        let own = self.graph.node(about.producer).time.0;
        let price = match self.heuristic.price {
            Price::One => 1.0,
            Price::Own => own as f64,
            Price::Ancestors => self.lost_ancestors(about.producer) as f64,
        };
        let bytes = if self.heuristic.by_bytes { about.bytes.0 as f64 } else { 1.0 };
        let patience = match self.heuristic.patience {
            Patience::None => 1.0,
            Patience::Staleness => (self.sequence.len() - self.touched[value.index()] + 1) as f64,
            // What only reruns may read can go.
            Patience::NextUse => self.next_use(value).map_or(1e9, f64::from),
        };
        // Free reruns still prefer the larger and the longer idle.
        (price + 1e-3) / (bytes * patience)
    }

    /// Time to run a node again from what is resident.
    fn lost_ancestors(&self, node: NodeId) -> u64 {
        let mut seen = vec![node];
        let (mut front, mut time) = (0, 0u64);
        while front < seen.len() && seen.len() < ANCESTORS {
            let about = self.graph.node(seen[front]);
            front += 1;
            time += about.time.0;
            for &read in about.reads.iter().filter(|read| !self.resident[read.index()]) {
                let producer = self.graph.value(read).producer;
                if !seen.contains(&producer) {
                    seen.push(producer);
                }
            }
        }
        time
    }
}
