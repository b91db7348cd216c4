//! A chain of cuts: several instants at once, still for every order.
//!
//! Let `c_1, ..., c_K` be nodes each of which is *before* the next ([`crate::cut`]): in every schedule they first run in this
//! order. Interval `k` lasts from the first run of `c_k` (exclusive) to that of `c_{k+1}` (inclusive), the last one to the
//! end. `B_k`, `A_k`, `S_k`: the nodes before and after `c_k`, and what is in memory with it for certain. `W_k`: values made
//! in `B_k` that a node outside `B_k` reads, or pinned, and what is read to make them again.
//!
//! ```text
//! Variables   h[k][v]   v of W_k is alive while c_k first runs (1 for v in S_k)
//!             y[k][p]   p, a producer in W_k, runs in interval k;  Y[k][p]  in interval k or later
//!             c[k][v]   the instance alive at c_k is the one alive at c_{k+1}
//! Objective   minimise  sum over k, p of time[p] y[k][p]
//! G1 budget   sum_v bytes[v] h[k][v] + sum_p state[p] Y[k][p] <= M - workspace[c_k] - sum_{S_k} bytes
//! G2 inputs   y[k][p] <= h[k][u] + y[k][producer u]              u read by p
//! G3 keeping  h[k+1][v] <= h[k][v] + y[k][producer v]            producer v in B_k
//! G4 served   h[k][u] + y[k][producer u] >= 1                    u read by a node of A_k in B_{k+1}
//!                                                                (k = K: by any of A_K, or pinned)
//! G5 first    Y[k][p] <= sum_{q >= k} y[q][p]
//!             Y[k][producer u] + h[k][u] >= 1                    u read by any node of A_k, or pinned
//!             Y[k][p] <= Y[k][producer u] + h[k][u]              u read by p
//! G6 effects  y = Y = 0 for `once` nodes
//! G7 inside   c[k][v] >= h[k+1][v] - y[k][producer v]
//!             sum_v bytes[v] c[k][v] + R <= M                    d a node of A_k in B_{k+1}, v neither read nor made by it
//!             sum_v bytes[v] c[k][v] + R y[k][p] <= M            p that may run again in interval k, likewise
//!             R = workspace and bytes of what the node reads and makes (less an operand it may overwrite)
//! ```
//!
//! **Why it bounds every schedule.** Take any legal schedule and drop runs whose outputs nothing uses. Read `h`, `y`, `Y`,
//! `c` off it; every row is then a fact about it. Only runs of nodes in `B_k` are priced in interval `k`, and those have all
//! run before: overhead, each counted once. No variable is missing: what a run in interval `k` makes is used, through other
//! runs of nodes in `B_k`, by the first run of a node outside `B_k` or as an output, so its producer is in `W_k`. The
//! instance that lives through interval `k` coexists with whatever runs in it: G7.
//!
//! **Made small by what is known.** With a plan of time `T` at hand, only solutions below `T` matter. The relaxation of each
//! single cut then fixes most nodes to run again after it, or never to, before any solver starts.
//!
//! **Which chain.** Begin with the best cut. Play the solution out; where its memory exceeds the budget at the first run of
//! a node that fits in the chain, that node joins; where at a second run, G7 is added for it. If nothing exceeds, the
//! solution is an optimal plan.
//!
//! Source: rk design notes, section 3.3. Solved by CBC ([`crate::milp`]).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, ValueId, judge, may_overwrite};

use crate::closure::{Fixed, Network, relax};
use crate::cut::Cutter;
use crate::knapsack::fixed_by_price;
use crate::milp::{End, Milp, Options, Var};

/// What a chain proves, and what it suggests.
#[derive(Clone, Debug)]
pub struct ChainBound {
    /// No schedule takes less.
    pub time: Time,
    /// The cuts that prove it.
    pub cuts: Vec<NodeId>,
    /// A legal sequence that plays the last solution out; it may exceed the budget.
    pub start: Option<Sequence>,
}

/// Improves on the best single cut at `first` until the time is over, nothing is left to add, or `known` is proven.
///
/// `known` is the time of a plan; without one the programs are larger.
pub fn chain(
    graph: &Graph,
    budget: Bytes,
    first: NodeId,
    known: Option<Time>,
    limit: Duration,
) -> ChainBound {
    let start = Instant::now();
    let total = graph.total_time();
    let cutoff = known.map_or(u64::MAX, |known| known.0.saturating_sub(total.0));
    let mut best = ChainBound { time: total, cuts: vec![first], start: None };
    let mut chain = vec![first];
    let mut inside = BTreeSet::new();
    let mut cutter = Cutter::new(graph);
    loop {
        let left = limit.saturating_sub(start.elapsed());
        if left.is_zero() {
            return best;
        }
        let mut program = Program::new(graph, budget, &mut cutter, &chain, cutoff);
        let Some(rows) = program.rows(&inside) else { return best };
        let answer = program.milp.solve(Options::exact(left));
        tracing::debug!(cuts = chain.len(), rows, inside = inside.len(), ?answer.end, answer.bound, "chain of cuts");
        // Infeasible means that nothing is below the cutoff, as solutions above it were fixed away.
        let bound = match answer.end {
            End::Infeasible if known.is_some() => cutoff,
            End::Infeasible | End::Failed => 0,
            End::Optimal | End::Stopped => answer.bound.min(cutoff),
        };
        if total + Time(bound) > best.time {
            (best.time, best.cuts) = (total + Time(bound), chain.clone());
        }
        if answer.end != End::Optimal || bound >= cutoff || answer.point.is_none() {
            return best;
        }
        let absent = program.absent(|var| answer.is_one(var));
        let order = hoisted(graph, &mut cutter, &chain, &program.lost(|var| answer.is_one(var), &absent));
        let sequence = play(graph, &order, &chain, &absent);
        let Ok(trace) = judge(graph, &sequence) else { return best };
        best.start = Some(sequence.clone());
        if !extend(graph, &mut cutter, &sequence, &trace.memory, budget, &mut chain, &mut inside) {
            return best;
        }
    }
}

/// How far from an overflow to look for a node that fits in the chain, in steps.
const REACH: usize = 12;

/// Adds what the played solution violates most; whether there was anything new.
fn extend(
    graph: &Graph,
    cutter: &mut Cutter,
    sequence: &Sequence,
    memory: &[Bytes],
    budget: Bytes,
    chain: &mut Vec<NodeId>,
    inside: &mut BTreeSet<NodeId>,
) -> bool {
    let mut ran = vec![false; graph.len()];
    let first: Vec<bool> =
        sequence.0.iter().map(|node| !std::mem::replace(&mut ran[node.index()], true)).collect();
    let mut over: Vec<usize> = (0..memory.len()).filter(|&step| memory[step] > budget).collect();
    over.sort_unstable_by_key(|&step| (std::cmp::Reverse(memory[step]), step));
    for step in over {
        let near = step.saturating_sub(REACH)..(step + REACH + 1).min(memory.len());
        let mut near: Vec<usize> = near.filter(|&at| first[at] && !chain.contains(&sequence.0[at])).collect();
        near.retain(|&at| memory[at] > budget);
        // A node on the spine, ordered against almost all others, leaves room for further cuts.
        let mut best: Option<(usize, Bytes, usize, usize)> = None;
        for at in near {
            cutter.look_at(sequence.0[at]);
            let comparable = chain.iter().all(|&cut| cutter.is_before(cut) || cutter.is_after(cut));
            let related = |node: &NodeId| cutter.is_before(*node) || cutter.is_after(*node);
            let related = graph.node_ids().filter(related).count();
            let candidate = (related, memory[at], usize::MAX - at.abs_diff(step), at);
            // What nothing follows would end the chain.
            if comparable && graph.node_ids().any(|other| cutter.is_after(other)) {
                best = best.max(Some(candidate));
            }
        }
        if let Some((.., at)) = best {
            let node = sequence.0[at];
            cutter.look_at(node);
            let position = chain.iter().filter(|&&cut| cutter.is_before(cut)).count();
            chain.insert(position, node);
            return true;
        }
        if inside.insert(sequence.0[step]) {
            return true;
        }
    }
    false
}

/// The given order, but what is independent of a cut and reads a value that is lost there comes in front of it.
///
/// The cut says nothing about nodes neither before nor after it; in the schedules that it has in mind they ran before.
fn hoisted(graph: &Graph, cutter: &mut Cutter, chain: &[NodeId], lost: &[Vec<ValueId>]) -> Vec<NodeId> {
    let mut order: Vec<NodeId> = graph.node_ids().collect();
    for (&cut, lost) in chain.iter().zip(lost) {
        cutter.look_at(cut);
        let Some(at) = order.iter().position(|&node| node == cut) else { continue };
        let rest = &order[at + 1..];
        let mut early = vec![false; graph.len()];
        for &node in rest.iter().rev().filter(|&&node| !cutter.is_after(node)) {
            let reads_lost = graph.node(node).reads.iter().any(|value| lost.binary_search(value).is_ok());
            if reads_lost || early[node.index()] {
                early[node.index()] = true;
                cutter.precede(node).for_each(|earlier| early[earlier.index()] = true);
            }
        }
        let (hoisted, late): (Vec<NodeId>, Vec<NodeId>) = rest.iter().partition(|node| early[node.index()]);
        order.truncate(at);
        order.extend(hoisted);
        order.push(cut);
        order.extend(late);
    }
    order
}

/// Plays decisions out in an order of all nodes: after `chain[k]`, the values of `absent[k]` are gone; what is read is rebuilt.
pub(crate) fn play(graph: &Graph, order: &[NodeId], chain: &[NodeId], absent: &[Vec<ValueId>]) -> Sequence {
    let mut gone = vec![false; graph.values().len()];
    let mut ran = vec![false; graph.len()];
    let mut sequence = Vec::with_capacity(2 * graph.len());
    for &node in order {
        let mut stack = vec![(node, false)];
        while let Some((next, ready)) = stack.pop() {
            if next != node && !graph.node(next).writes.iter().any(|value| gone[value.index()]) {
                continue;
            }
            let missing: Vec<ValueId> =
                graph.node(next).reads.iter().copied().filter(|value| gone[value.index()]).collect();
            if !ready && !missing.is_empty() {
                stack.push((next, true));
                stack.extend(missing.iter().rev().map(|&value| (graph.value(value).producer, false)));
                continue;
            }
            sequence.push(next);
            graph.node(next).writes.iter().for_each(|value| gone[value.index()] = false);
        }
        ran[node.index()] = true;
        if let Some(cut) = chain.iter().position(|&cut| cut == node) {
            for &value in &absent[cut] {
                let producer = graph.value(value).producer;
                gone[value.index()] = ran[producer.index()] && !graph.node(producer).once;
            }
        }
    }
    // A pinned value must be there at the end.
    for (index, value) in graph.values().iter().enumerate() {
        if value.pinned && gone[index] {
            rebuild(graph, value.producer, &mut gone, &mut sequence);
        }
    }
    Sequence(sequence)
}

fn rebuild(graph: &Graph, node: NodeId, gone: &mut [bool], sequence: &mut Vec<NodeId>) {
    let mut stack = vec![(node, false)];
    while let Some((next, ready)) = stack.pop() {
        if !graph.node(next).writes.iter().any(|value| gone[value.index()]) {
            continue;
        }
        if !ready {
            stack.push((next, true));
            let missing = graph.node(next).reads.iter().rev().filter(|value| gone[value.index()]);
            stack.extend(missing.map(|&value| (graph.value(value).producer, false)));
            continue;
        }
        sequence.push(next);
        graph.node(next).writes.iter().for_each(|value| gone[value.index()] = false);
    }
}

/// Whether a value is in memory at a cut.
#[derive(Clone, Copy)]
enum Held {
    /// In `S_k`.
    Surely,
    /// `h[k][v]`.
    If(Var),
}

/// Values without bytes are always there.
fn sized(graph: &Graph, value: ValueId) -> bool {
    graph.value(value).bytes.0 > 0
}

/// One cut of the chain with its variables.
struct Link {
    at: NodeId,
    room: i128,
    before: Vec<bool>,
    after: Vec<bool>,
    held: BTreeMap<ValueId, Held>,
    again: BTreeMap<NodeId, Var>,
    later: BTreeMap<NodeId, Var>,
}

struct Program<'a> {
    graph: &'a Graph,
    budget: Bytes,
    milp: Milp,
    cuts: Vec<Link>,
}

impl<'a> Program<'a> {
    fn new(graph: &'a Graph, budget: Bytes, cutter: &mut Cutter, chain: &[NodeId], cutoff: u64) -> Self {
        let mut program = Self { graph, budget, milp: Milp::default(), cuts: Vec::new() };
        let mut never = vec![false; graph.len()];
        for &at in chain {
            let cut = cutter.cut(at, budget);
            let mut sure = BTreeSet::new();
            if cutoff < u64::MAX {
                let mut network = Network::new(&cut);
                let mut fixed = vec![Fixed::Free; cut.nodes.len()];
                let relaxation = relax(&cut, &mut network, &fixed, None, u64::MAX);
                fixed_by_price(&cut, &mut network, &mut fixed, relaxation.price, cutoff);
                for (node, fixed) in cut.nodes.iter().zip(&fixed) {
                    // What never runs after this cut never does after a later one.
                    never[node.id.index()] |= *fixed == Fixed::Never;
                    if *fixed == Fixed::Again {
                        sure.insert(node.id);
                    }
                }
            }
            program.instant(cutter, at, cut.room, &never, &sure);
        }
        program
    }

    /// The variables of one cut.
    fn instant(&mut self, cutter: &Cutter, at: NodeId, room: i128, never: &[bool], sure: &BTreeSet<NodeId>) {
        let graph = self.graph;
        let flags = |is: &dyn Fn(NodeId) -> bool| graph.node_ids().map(is).collect::<Vec<bool>>();
        let (before, after) = (flags(&|node| cutter.is_before(node)), flags(&|node| cutter.is_after(node)));
        let over = may_overwrite(graph, at);
        let here = graph.node(at);
        let mut wanted: BTreeSet<ValueId> = BTreeSet::new();
        let mut queue: Vec<ValueId> = Vec::new();
        for (index, value) in
            graph.values().iter().enumerate().filter(|(_, value)| before[value.producer.index()])
        {
            let id = ValueId::from_index(index);
            if value.pinned || graph.readers(id).iter().any(|reader| !before[reader.index()]) {
                queue.push(id);
            }
        }
        while let Some(value) = queue.pop() {
            if graph.value(value).bytes.0 > 0 && wanted.insert(value) {
                queue.extend(graph.node(graph.value(value).producer).reads.iter());
            }
        }
        let mut cut = Link {
            at,
            room,
            before,
            after,
            held: BTreeMap::new(),
            again: BTreeMap::new(),
            later: BTreeMap::new(),
        };
        for &value in here.reads.iter().filter(|&&value| Some(value) != over).chain(&here.writes) {
            cut.held.insert(value, Held::Surely);
        }
        for &value in &wanted {
            cut.held.entry(value).or_insert_with(|| Held::If(self.milp.binary(0)));
            let producer = graph.value(value).producer;
            let about = graph.node(producer);
            if about.once || never[producer.index()] || cut.again.contains_key(&producer) {
                continue;
            }
            cut.again.insert(producer, self.milp.binary(about.time.0));
            let later = self.milp.binary(0);
            cut.later.insert(producer, later);
            if sure.contains(&producer) {
                self.milp.fix(later, 1);
            }
        }
        self.cuts.push(cut);
    }

    /// All rows; how many. `None` if sizes leave 63 bits.
    fn rows(&mut self, inside: &BTreeSet<NodeId>) -> Option<usize> {
        for k in 0..self.cuts.len() {
            self.g1_budget(k)?;
            self.g2_inputs(k);
            self.g3_keeping(k);
            self.g4_served(k);
            self.g5_first(k);
            self.g7_inside(k, inside)?;
        }
        Some(self.milp.size().1)
    }

    /// `positive variable <= h[k][u] + other`, or nothing if `u` is surely there.
    fn implies(&mut self, k: usize, cause: Option<Var>, u: ValueId, other: Option<Var>) {
        let mut terms: Vec<(Var, i64)> = Vec::with_capacity(3);
        match self.cuts[k].held.get(&u) {
            Some(Held::Surely) => return,
            Some(Held::If(h)) => terms.push((*h, 1)),
            None => {}
        }
        terms.extend(other.map(|other| (other, 1)));
        terms.extend(cause.map(|cause| (cause, -1)));
        self.milp.at_least(terms, i64::from(cause.is_none()));
    }

    fn g1_budget(&mut self, k: usize) -> Option<()> {
        let cut = &self.cuts[k];
        let mut terms = Vec::new();
        for (value, held) in &cut.held {
            if let Held::If(h) = held {
                terms.push((*h, i64::try_from(self.graph.value(*value).bytes.0).ok()?));
            }
        }
        for (node, later) in cut.later.iter().filter(|(node, _)| self.graph.node(**node).state.0 > 0) {
            terms.push((*later, i64::try_from(self.graph.node(*node).state.0).ok()?));
        }
        self.milp.at_most(terms, i64::try_from(cut.room).ok()?);
        Some(())
    }

    fn g2_inputs(&mut self, k: usize) {
        let graph = self.graph;
        let runs: Vec<(NodeId, Var)> = self.cuts[k].again.iter().map(|(&node, &var)| (node, var)).collect();
        for (node, y) in runs {
            for &u in graph.node(node).reads.iter().filter(|&&u| sized(graph, u)) {
                let other = self.cuts[k].again.get(&self.graph.value(u).producer).copied();
                self.implies(k, Some(y), u, other);
            }
        }
    }

    fn g3_keeping(&mut self, k: usize) {
        let graph = self.graph;
        let Some(next) = self.cuts.get(k + 1) else { return };
        let kept: Vec<(ValueId, Held)> = next.held.iter().map(|(&value, &held)| (value, held)).collect();
        for (value, held) in kept.into_iter().filter(|(value, _)| sized(graph, *value)) {
            let producer = self.graph.value(value).producer;
            if !self.cuts[k].before[producer.index()] {
                continue;
            }
            let cause = match held {
                Held::Surely => None,
                Held::If(h) => Some(h),
            };
            self.implies(k, cause, value, self.cuts[k].again.get(&producer).copied());
        }
    }

    /// Values made before cut `k` and read by a node that satisfies a condition.
    fn read_by(&self, k: usize, or_pinned: bool, reader_is: impl Fn(NodeId) -> bool) -> Vec<ValueId> {
        let graph = self.graph;
        let ids =
            (0..graph.values().len()).map(ValueId::from_index).filter(|&value| sized(self.graph, value));
        let made = ids.filter(|&value| self.cuts[k].before[graph.value(value).producer.index()]);
        made.filter(|&value| {
            (or_pinned && graph.value(value).pinned)
                || graph.readers(value).iter().any(|&reader| reader_is(reader))
        })
        .collect()
    }

    fn g4_served(&mut self, k: usize) {
        let after = &self.cuts[k].after;
        let values = match self.cuts.get(k + 1) {
            Some(next) => self.read_by(k, false, |d| after[d.index()] && next.before[d.index()]),
            None => self.read_by(k, true, |d| after[d.index()]),
        };
        for u in values {
            let other = self.cuts[k].again.get(&self.graph.value(u).producer).copied();
            self.implies(k, None, u, other);
        }
    }

    fn g5_first(&mut self, k: usize) {
        let graph = self.graph;
        let runs: Vec<(NodeId, Var)> = self.cuts[k].later.iter().map(|(&node, &var)| (node, var)).collect();
        for &(node, later) in &runs {
            let mut terms = vec![(later, 1)];
            terms.extend(self.cuts[k..].iter().filter_map(|cut| cut.again.get(&node)).map(|&y| (y, -1)));
            self.milp.at_most(terms, 0);
            for &u in graph.node(node).reads.iter().filter(|&&u| sized(graph, u)) {
                let other = self.cuts[k].later.get(&self.graph.value(u).producer).copied();
                self.implies(k, Some(later), u, other);
            }
        }
        for u in self.read_by(k, true, |d| self.cuts[k].after[d.index()]) {
            let other = self.cuts[k].later.get(&self.graph.value(u).producer).copied();
            self.implies(k, None, u, other);
        }
    }

    fn g7_inside(&mut self, k: usize, inside: &BTreeSet<NodeId>) -> Option<()> {
        let Some(next) = self.cuts.get(k + 1) else { return Some(()) };
        let cut = &self.cuts[k];
        let first = |d: NodeId| cut.after[d.index()] && next.before[d.index()];
        let nodes: Vec<(NodeId, Option<Var>)> = inside
            .iter()
            .filter_map(|&d| match cut.again.get(&d) {
                Some(&y) => Some((d, Some(y))),
                None => (first(d) && d != next.at).then_some((d, None)),
            })
            .collect();
        if nodes.is_empty() {
            return Some(());
        }
        let mut through: Vec<(ValueId, Held, Option<Var>)> = Vec::new();
        for (&value, &held) in next.held.iter().filter(|(value, _)| cut.held.contains_key(value)) {
            let producer = self.graph.value(value).producer;
            if sized(self.graph, value) && cut.before[producer.index()] {
                through.push((value, held, cut.again.get(&producer).copied()));
            }
        }
        let mut kept: Vec<(ValueId, Option<Var>)> = Vec::new();
        for (value, held, again) in through {
            let c = match (held, again) {
                (Held::Surely, None) => None,
                (Held::If(h), None) => Some(h),
                (held, Some(y)) => {
                    let c = self.milp.binary(0);
                    match held {
                        Held::Surely => self.milp.at_least(vec![(c, 1), (y, 1)], 1),
                        Held::If(h) => self.milp.at_least(vec![(c, 1), (y, 1), (h, -1)], 0),
                    }
                    Some(c)
                }
            };
            kept.push((value, c));
        }
        for (node, again) in nodes {
            let about = self.graph.node(node);
            let over = may_overwrite(self.graph, node);
            let touched = about.reads.iter().filter(|&&value| Some(value) != over).chain(&about.writes);
            let own: u64 =
                touched.map(|&value| self.graph.value(value).bytes.0).sum::<u64>() + about.workspace.0;
            let own = i64::try_from(own).ok()?;
            let mut room = i64::try_from(self.budget.0).ok()?;
            let mut terms: Vec<(Var, i64)> = again.map(|y| (y, own)).into_iter().collect();
            if again.is_none() {
                room -= own;
            }
            for &(value, c) in &kept {
                if about.reads.contains(&value) || about.writes.contains(&value) {
                    continue;
                }
                let bytes = i64::try_from(self.graph.value(value).bytes.0).ok()?;
                match c {
                    Some(c) => terms.push((c, bytes)),
                    None => room -= bytes,
                }
            }
            self.milp.at_most(terms, room);
        }
        Some(())
    }

    /// Per cut, the values that a solution does not hold.
    fn absent(&self, is_one: impl Fn(Var) -> bool) -> Vec<Vec<ValueId>> {
        let absent = |cut: &Link| {
            let not = cut.held.iter().filter(|(_, held)| matches!(held, Held::If(h) if !is_one(*h)));
            not.map(|(&value, _)| value).collect()
        };
        self.cuts.iter().map(absent).collect()
    }

    /// Per cut, the values not held there that are not made again later either.
    fn lost(&self, is_one: impl Fn(Var) -> bool, absent: &[Vec<ValueId>]) -> Vec<Vec<ValueId>> {
        let made = |k: usize, value: ValueId| {
            let producer = self.graph.value(value).producer;
            self.cuts[k..].iter().any(|cut| cut.again.get(&producer).is_some_and(|&y| is_one(y)))
        };
        let lost = |(k, absent): (usize, &Vec<ValueId>)| {
            absent.iter().copied().filter(|&value| !made(k, value)).collect::<Vec<ValueId>>()
        };
        absent.iter().enumerate().map(lost).collect()
    }
}
