//! The rows of a chain of cuts; the mathematics is at the head of [`crate::bound::multi_cut`].

use std::collections::{BTreeMap, BTreeSet};

use rk_plan::{Bytes, Graph, NodeId, ValueId, may_overwrite};

use crate::bound::branch_and_bound::fixed_by_price;
use crate::bound::cut::Cutter;
use crate::bound::lagrangian::{Fixed, Network, relax};
use crate::milp::{Milp, Var};

mod inside;

/// Nodes independent of a cut for which it is decided whether they ran before; with more, nothing is said about them.
const DECIDED: usize = 300;

/// Whether a value is in memory at a cut.
#[derive(Clone, Copy)]
enum Held {
    /// In `S_k`.
    Surely,
    /// `h[k][v]`.
    If(Var),
}

/// Whether a node has run when the node of a cut first runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ran {
    /// In `B_k`.
    Yes,
    /// In `A_k`.
    No,
    /// `f[k][x]`.
    If(Var),
    /// Independent, and left open.
    Unknown,
}

/// A sum of variables and a number.
#[derive(Clone, Default)]
struct Sum {
    terms: Vec<(Var, i64)>,
    number: i64,
}

impl Sum {
    fn number(number: i64) -> Self {
        Self { terms: Vec::new(), number }
    }

    fn var(var: Var) -> Self {
        Self { terms: vec![(var, 1)], number: 0 }
    }

    fn plus(mut self, other: Self) -> Self {
        self.terms.extend(other.terms);
        self.number += other.number;
        self
    }

    fn minus(mut self, other: Self) -> Self {
        self.terms.extend(other.terms.into_iter().map(|(var, by)| (var, -by)));
        self.number -= other.number;
        self
    }
}

/// Values without bytes are always there.
fn sized(graph: &Graph, value: ValueId) -> bool {
    graph.value(value).bytes.0 > 0
}

/// One cut of the chain with its variables.
struct Link {
    at: NodeId,
    room: i128,
    ran: Vec<Ran>,
    held: BTreeMap<ValueId, Held>,
    again: BTreeMap<NodeId, Var>,
    later: BTreeMap<NodeId, Var>,
}

/// The program of a chain.
pub(crate) struct Program<'a> {
    graph: &'a Graph,
    budget: Bytes,
    pub(crate) milp: Milp,
    cuts: Vec<Link>,
}

impl<'a> Program<'a> {
    /// The variables. Solutions at or above `cutoff` ticks may be missing.
    pub(crate) fn new(
        graph: &'a Graph,
        budget: Bytes,
        cutter: &mut Cutter,
        chain: &[NodeId],
        cutoff: u64,
    ) -> Self {
        let mut program = Self { graph, budget, milp: Milp::default(), cuts: Vec::new() };
        let mut never = vec![false; graph.len()];
        for &at in chain {
            let cut = cutter.cut(at, budget);
            let mut sure = BTreeSet::new();
            if cutoff < u64::MAX {
                let mut network = Network::new(&cut);
                let mut fixed = vec![Fixed::Free; cut.nodes.len()];
                let relaxation = relax(&cut, &mut network, &fixed, None, u64::MAX);
                fixed_by_price(&cut, &mut network, &mut fixed, relaxation.price, cutoff, None);
                for (node, fixed) in cut.nodes.iter().zip(&fixed) {
                    // What never runs after this cut never does after a later one.
                    never[node.id.index()] |= *fixed == Fixed::Never;
                    if *fixed == Fixed::Again {
                        sure.insert(node.id);
                    }
                }
            }
            program.link(cutter, at, cut.room, &never, &sure);
        }
        program
    }

    /// The variables of one cut.
    fn link(&mut self, cutter: &Cutter, at: NodeId, room: i128, never: &[bool], sure: &BTreeSet<NodeId>) {
        let graph = self.graph;
        let independent = |node: &NodeId| !cutter.is_before(*node) && !cutter.is_after(*node);
        let decide = graph.node_ids().filter(independent).count() <= DECIDED;
        let mut ran = Vec::with_capacity(graph.len());
        for node in graph.node_ids() {
            ran.push(match (cutter.is_before(node), cutter.is_after(node)) {
                (true, _) => Ran::Yes,
                (_, true) => Ran::No,
                _ if decide => Ran::If(self.milp.binary(0)),
                _ => Ran::Unknown,
            });
        }
        self.f_order(cutter, &ran);
        let possible = |node: NodeId| matches!(ran[node.index()], Ran::Yes | Ran::If(_));
        let mut wanted: BTreeSet<ValueId> = BTreeSet::new();
        let mut queue: Vec<ValueId> = Vec::new();
        for id in (0..graph.values().len()).map(ValueId::from_index) {
            let value = graph.value(id);
            let read_later = graph.readers(id).iter().any(|reader| ran[reader.index()] != Ran::Yes);
            if possible(value.producer) && (value.pinned || read_later) {
                queue.push(id);
            }
        }
        while let Some(value) = queue.pop() {
            if sized(graph, value) && wanted.insert(value) {
                queue.extend(graph.node(graph.value(value).producer).reads.iter());
            }
        }
        let mut cut =
            Link { at, room, ran, held: BTreeMap::new(), again: BTreeMap::new(), later: BTreeMap::new() };
        let (over, here) = (may_overwrite(graph, at), graph.node(at));
        for &value in here.reads.iter().filter(|&&value| Some(value) != over).chain(&here.writes) {
            cut.held.insert(value, Held::Surely);
        }
        for &value in &wanted {
            let producer = graph.value(value).producer;
            if let std::collections::btree_map::Entry::Vacant(free) = cut.held.entry(value) {
                let h = self.milp.binary(0);
                free.insert(Held::If(h));
                if let Ran::If(f) = cut.ran[producer.index()] {
                    self.milp.at_most(vec![(h, 1), (f, -1)], 0);
                }
            }
            let about = graph.node(producer);
            if !about.is_repeatable() || never[producer.index()] || cut.again.contains_key(&producer) {
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
    pub(crate) fn rows(&mut self, inside: &BTreeSet<NodeId>) -> Option<usize> {
        for k in 0..self.cuts.len() {
            self.g1_budget(k)?;
            self.g2_inputs(k);
            self.g3_keeping(k);
            self.g4_served(k);
            self.g5_first(k);
            self.g7_inside(k, inside)?;
            self.g8_order(k);
        }
        Some(self.milp.size().1)
    }

    /// `small <= large`.
    fn require(&mut self, small: Sum, large: Sum) {
        let difference = large.minus(small);
        if !difference.terms.is_empty() || difference.number < 0 {
            self.milp.at_least(difference.terms, -difference.number);
        }
    }

    /// 1 if a node has run at cut `k`; `None` if that is open. At the end, beyond the last cut, everything has.
    fn ran(&self, k: usize, node: NodeId) -> Option<Sum> {
        let Some(cut) = self.cuts.get(k) else { return Some(Sum::number(1)) };
        match cut.ran[node.index()] {
            Ran::Yes => Some(Sum::number(1)),
            Ran::No => Some(Sum::number(0)),
            Ran::If(f) => Some(Sum::var(f)),
            Ran::Unknown => None,
        }
    }

    /// 1 if a node first runs in interval `k`.
    fn first(&self, k: usize, node: NodeId) -> Option<Sum> {
        Some(self.ran(k + 1, node)?.minus(self.ran(k, node)?))
    }

    /// `h[k][u] + y[k][producer u] + d[k][producer u]`, or `None` if that is 1 or open in any case.
    fn supply(&self, k: usize, u: ValueId) -> Option<Sum> {
        let (cut, producer) = (&self.cuts[k], self.graph.value(u).producer);
        let mut sum = match cut.held.get(&u) {
            Some(Held::Surely) => return None,
            Some(Held::If(h)) => Sum::var(*h),
            None => Sum::default(),
        };
        if let Some(&y) = cut.again.get(&producer) {
            sum = sum.plus(Sum::var(y));
        }
        Some(sum.plus(self.first(k, producer)?)).filter(|_| sized(self.graph, u))
    }

    /// `h[k][u] + Y[k][producer u] + 1 - f[k][producer u]`, likewise.
    fn later_supply(&self, k: usize, u: ValueId) -> Option<Sum> {
        let (cut, producer) = (&self.cuts[k], self.graph.value(u).producer);
        let mut sum = match cut.held.get(&u) {
            Some(Held::Surely) => return None,
            Some(Held::If(h)) => Sum::var(*h),
            None => Sum::default(),
        };
        if let Some(&later) = cut.later.get(&producer) {
            sum = sum.plus(Sum::var(later));
        }
        let not_yet = Sum::number(1).minus(self.ran(k, producer)?);
        Some(sum.plus(not_yet)).filter(|_| sized(self.graph, u))
    }

    fn g1_budget(&mut self, k: usize) -> Option<()> {
        let cut = &self.cuts[k];
        let mut terms = Vec::new();
        for (value, held) in &cut.held {
            if let Held::If(h) = held {
                terms.push((*h, i64::try_from(self.graph.value(*value).bytes.0).ok()?));
            }
        }
        for (node, later) in &cut.later {
            let state = self.graph.node(*node).state.0;
            if state > 0 && cut.ran[node.index()] == Ran::Yes {
                terms.push((*later, i64::try_from(state).ok()?));
            }
        }
        self.milp.at_most(terms, i64::try_from(cut.room).ok()?);
        Some(())
    }

    fn g2_inputs(&mut self, k: usize) {
        let graph = self.graph;
        let runs: Vec<(NodeId, Var)> = self.cuts[k].again.iter().map(|(&node, &var)| (node, var)).collect();
        for (node, y) in runs {
            for &u in &graph.node(node).reads {
                if let Some(supply) = self.supply(k, u) {
                    self.require(Sum::var(y), supply);
                }
            }
        }
    }

    fn g3_keeping(&mut self, k: usize) {
        let Some(next) = self.cuts.get(k + 1) else { return };
        let kept: Vec<(ValueId, Held)> = next.held.iter().map(|(&value, &held)| (value, held)).collect();
        for (value, held) in kept {
            let held = match held {
                Held::Surely => Sum::number(1),
                Held::If(h) => Sum::var(h),
            };
            if let Some(supply) = self.supply(k, value) {
                self.require(held, supply);
            }
        }
    }

    fn g4_served(&mut self, k: usize) {
        let graph = self.graph;
        for d in self.not_yet(k) {
            let Some(first) = self.first(k, d).filter(|first| !first.terms.is_empty() || first.number > 0)
            else {
                continue;
            };
            for &u in &graph.node(d).reads {
                // What first runs in the same interval without doubt serves its readers.
                if self.cuts[k].ran[graph.value(u).producer.index()] == Ran::No {
                    continue;
                }
                if let Some(supply) = self.supply(k, u) {
                    self.require(first.clone(), supply);
                }
            }
        }
        if k + 1 == self.cuts.len() {
            for value in self.pinned() {
                if let Some(supply) = self.supply(k, value) {
                    self.require(Sum::number(1), supply);
                }
            }
        }
    }

    /// Nodes that may first run after cut `k`.
    fn not_yet(&self, k: usize) -> Vec<NodeId> {
        self.graph.node_ids().filter(|d| self.cuts[k].ran[d.index()] != Ran::Yes).collect()
    }

    fn pinned(&self) -> Vec<ValueId> {
        let ids = (0..self.graph.values().len()).map(ValueId::from_index);
        ids.filter(|&value| self.graph.value(value).pinned).collect()
    }

    fn g5_first(&mut self, k: usize) {
        let graph = self.graph;
        let runs: Vec<(NodeId, Var)> = self.cuts[k].later.iter().map(|(&node, &var)| (node, var)).collect();
        for &(node, later) in &runs {
            let mut terms = vec![(later, 1)];
            terms.extend(self.cuts[k..].iter().filter_map(|cut| cut.again.get(&node)).map(|&y| (y, -1)));
            self.milp.at_most(terms, 0);
            for &u in &graph.node(node).reads {
                if let Some(supply) = self.later_supply(k, u) {
                    self.require(Sum::var(later), supply);
                }
            }
        }
        for d in self.not_yet(k) {
            let Some(ran) = self.ran(k, d) else { continue };
            for &u in &graph.node(d).reads {
                if let Some(supply) = self.later_supply(k, u) {
                    self.require(Sum::number(1).minus(ran.clone()), supply);
                }
            }
        }
        for value in self.pinned() {
            if let Some(supply) = self.later_supply(k, value) {
                self.require(Sum::number(1), supply);
            }
        }
    }

    /// G8 within a cut: what has run has its operands behind it.
    fn f_order(&mut self, cutter: &Cutter, ran: &[Ran]) {
        for node in self.graph.node_ids() {
            let Ran::If(f) = ran[node.index()] else { continue };
            for earlier in cutter.precede(node) {
                if let Ran::If(before) = ran[earlier.index()] {
                    self.milp.at_most(vec![(f, 1), (before, -1)], 0);
                }
            }
        }
    }

    /// G8 between cuts: what has run stays so.
    fn g8_order(&mut self, k: usize) {
        if k + 1 >= self.cuts.len() {
            return;
        }
        for node in self.graph.node_ids() {
            if let Some(first) = self.first(k, node).filter(|first| !first.terms.is_empty()) {
                self.require(Sum::default(), first);
            }
        }
    }

    /// Per cut, the values that a solution does not hold.
    pub(crate) fn absent(&self, is_one: impl Fn(Var) -> bool) -> Vec<Vec<ValueId>> {
        let absent = |cut: &Link| {
            let not = cut.held.iter().filter(|(_, held)| matches!(held, Held::If(h) if !is_one(*h)));
            not.map(|(&value, _)| value).collect()
        };
        self.cuts.iter().map(absent).collect()
    }

    /// An order of first runs in which a solution can be played out.
    ///
    /// Where it is open whether a node runs before a cut, the given order counts; also where the solution would have it
    /// earlier than given, unless the node reads a value that is lost at the cut.
    pub(crate) fn order(
        &self,
        cutter: &Cutter,
        is_one: impl Fn(Var) -> bool,
        absent: &[Vec<ValueId>],
    ) -> Vec<NodeId> {
        let mut interval = vec![0usize; self.graph.len()];
        for (k, cut) in self.cuts.iter().enumerate() {
            let made_again = |value: ValueId| {
                let producer = self.graph.value(value).producer;
                self.cuts[k..].iter().any(|cut| cut.again.get(&producer).is_some_and(|&y| is_one(y)))
            };
            let lost = |value: &ValueId| absent[k].binary_search(value).is_ok() && !made_again(*value);
            let mut early: Vec<bool> = Vec::with_capacity(self.graph.len());
            for node in self.graph.node_ids() {
                early.push(match cut.ran[node.index()] {
                    Ran::Yes => true,
                    Ran::No => false,
                    Ran::Unknown => node < cut.at,
                    Ran::If(f) => {
                        is_one(f) && (node < cut.at || self.graph.node(node).reads.iter().any(lost))
                    }
                });
            }
            for &node in cutter.order().iter().rev() {
                if early[node.index()] {
                    cutter.precede(node).for_each(|earlier| early[earlier.index()] = true);
                }
            }
            for (interval, _) in interval.iter_mut().zip(&early).filter(|(_, early)| !**early) {
                *interval += 1;
            }
        }
        let mut order = cutter.order().to_vec();
        // The node of a cut comes last in its interval.
        let is_cut = |node: NodeId| self.cuts.iter().any(|cut| cut.at == node);
        order.sort_by_cached_key(|&node| (interval[node.index()], is_cut(node)));
        order
    }
}
