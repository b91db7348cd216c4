//! The cut problem solved exactly: branch and bound on its network, in whole numbers.
//!
//! A precedence-constrained knapsack. A subproblem fixes some nodes of [`crate::bound::cut`] to run again or not to; its bound is
//! the relaxation of [`crate::bound::lagrangian`], a few maximum flows of microseconds. Branching is on the nodes in which the two
//! optimal solutions at the best price differ: as soon as they agree, one of them is optimal. Each candidate is probed on
//! both sides at that price; a side that cannot beat what is known fixes the other one. Subproblems are taken by least
//! bound, so the least open bound is proven at any time. Solutions within the room come from the relaxation, improved by
//! leaving out what is not needed.
//!
//! No floating point: the result needs no tolerance, is the same on every machine, and the limit is a count of flows (or a
//! clock that only stops). Source: Lagrangian branch and bound is classical; see Martello and Toth, "Knapsack Problems".
//! Not here: symmetry (equal blocks), cover inequalities.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Instant;

use crate::bound::cut::{Choice, Cut};
use crate::bound::label_setting::{self, DECISIONS, Found, Size};
use crate::bound::lagrangian::{Fixed, Network, Price, Relaxation, relax};
use crate::bound::limits::Limits;
use crate::portfolio::clock::now;

/// What branch and bound found out.
#[derive(Clone, Debug)]
pub struct Solved {
    /// Every solution takes at least this many ticks, or [`Limits::cutoff`] if that is less. `None`: there is no solution.
    pub bound: Option<u64>,
    /// The best solution seen.
    pub best: Option<Choice>,
    /// What the relaxation alone gives within the room.
    pub plain: Option<Choice>,
    /// The bound is the optimum (or the cutoff).
    pub exact: bool,
    /// Subproblems looked at.
    pub nodes: u64,
}

struct Open {
    bound: u64,
    order: u64,
    price: Price,
    fixed: Vec<Fixed>,
}

impl PartialEq for Open {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}
impl Eq for Open {}
impl PartialOrd for Open {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Open {
    // Least bound first; among equals the youngest, which is deepest and ends soonest.
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (Reverse(self.bound), self.order).cmp(&(Reverse(other.bound), other.order))
    }
}

/// Decisions of an exact program that is tried even where a solution near the optimum would do: some milliseconds.
const EXACT_DECISIONS: usize = 100_000;
/// How much finer time quanta get if what they lose is too much.
const FINER: u64 = 4;
/// Candidates probed per subproblem; each costs two flows.
const PROBES: usize = 12;

/// Solves a cut problem within limits: by the dynamic program over frontiers if the network is narrow, else by branching.
pub fn solve(cut: &Cut, limits: Limits) -> Solved {
    search(cut, limits, true)
}

/// The same by branch and bound alone.
pub fn branch_and_bound(cut: &Cut, limits: Limits) -> Solved {
    search(cut, limits, false)
}

/// What the relaxation alone gives within the room, by one price for all bytes: equal blocks are treated alike, which the best
/// solution, filling the last byte, does not.
pub(crate) fn rounded(cut: &Cut) -> Option<Choice> {
    let root = relax(cut, &mut Network::new(cut), &vec![Fixed::Free; cut.nodes.len()], None, u64::MAX);
    root.within.map(|choice| lighten(cut, &choice))
}

fn search(cut: &Cut, limits: Limits, narrow: bool) -> Solved {
    let mut network = Network::new(cut);
    let mut search = Search { cut, best: None, goal: limits.cutoff, order: 0 };
    let mut open = BinaryHeap::new();
    let root = relax(cut, &mut network, &vec![Fixed::Free; cut.nodes.len()], None, u64::MAX);
    let Some(bound) = root.bound else {
        return Solved { bound: None, best: None, plain: None, exact: true, nodes: 1 };
    };
    search.offer(root.within.as_ref());
    let plain = search.best.clone();
    let mut bound = bound;
    let near = limits.near.max(bound.checked_div(limits.parts).unwrap_or(0));
    let close = |bound: u64, goal: u64| bound.saturating_add(near) >= goal;
    if near > 0 && close(bound, search.goal) {
        return Solved {
            bound: Some(bound),
            best: search.best,
            plain,
            exact: bound >= search.goal,
            nodes: 1,
        };
    }
    if narrow {
        bound = search.by_frontiers(root.price, bound, near, &limits).min(search.goal);
        if close(bound, search.goal) {
            let exact = bound >= search.goal;
            return Solved { bound: Some(bound), best: search.best, plain, exact, nodes: 1 };
        }
    }
    let mut fixed = vec![Fixed::Free; cut.nodes.len()];
    fixed_by_price(cut, &mut network, &mut fixed, root.price, search.goal, limits.probing());
    open.push(Open { bound, order: 0, price: root.price, fixed });
    let mut nodes = 1;
    while let Some(top) = open.peek() {
        if top.bound >= search.goal {
            break;
        }
        if limits.passed(nodes) || search.goal <= limits.floor || close(top.bound, search.goal) {
            return Solved { bound: Some(top.bound), best: search.best, plain, exact: false, nodes };
        }
        let Some(next) = open.pop() else { break };
        nodes += 1;
        let relaxation = relax(cut, &mut network, &next.fixed, Some(next.price), search.goal);
        search.offer(relaxation.within.as_ref());
        let Some(bound) = relaxation.bound.filter(|&bound| bound < search.goal) else { continue };
        for child in search.branch(&mut network, next, &relaxation, bound) {
            open.push(child);
        }
    }
    Solved { bound: Some(search.goal), best: search.best, plain, exact: true, nodes }
}

/// Leaves out runs, dearest first, while what is then held fits.
fn lighten(cut: &Cut, choice: &Choice) -> Choice {
    let mut again = choice.again.clone();
    let mut bytes = choice.bytes;
    let (mut reads, mut writes) = (vec![Vec::new(); cut.nodes.len()], vec![Vec::new(); cut.nodes.len()]);
    let mut wanted: Vec<usize> = Vec::with_capacity(cut.values.len());
    for (index, value) in cut.values.iter().enumerate() {
        writes[value.producer].push(index);
        value.readers.iter().for_each(|&reader| reads[reader].push(index));
        let readers = value.readers.iter().filter(|&&reader| again[reader]).count();
        wanted.push(readers + usize::from(value.needed));
    }
    let mut order: Vec<usize> = (0..cut.nodes.len()).filter(|&node| again[node]).collect();
    order.sort_unstable_by_key(|&node| (Reverse(cut.nodes[node].time), node));
    let size = |value: usize| i128::from(cut.values[value].bytes);
    loop {
        let mut changed = false;
        for &node in &order {
            if !again[node] {
                continue;
            }
            let more: i128 =
                writes[node].iter().filter(|&&value| wanted[value] > 0).map(|&value| size(value)).sum();
            let dead = |&&value: &&usize| wanted[value] == 1 && !again[cut.values[value].producer];
            let less: i128 = reads[node].iter().filter(dead).map(|&value| size(value)).sum();
            let then = bytes + more - less - i128::from(cut.nodes[node].state);
            if then <= cut.room {
                (again[node], bytes, changed) = (false, then, true);
                reads[node].iter().for_each(|&value| wanted[value] -= 1);
            }
        }
        if !changed {
            break;
        }
    }
    cut.choose(again).filter(|lighter| lighter.bytes <= cut.room).unwrap_or_else(|| choice.clone())
}

struct Search<'a> {
    cut: &'a Cut,
    best: Option<Choice>,
    /// The time of the best solution, or the cutoff.
    goal: u64,
    order: u64,
}

impl Search<'_> {
    fn offer(&mut self, within: Option<&Choice>) {
        let lighter = within.map(|choice| lighten(self.cut, choice));
        self.accept(lighter);
    }

    fn accept(&mut self, choice: Option<Choice>) {
        let Some(choice) = choice else { return };
        if self.best.as_ref().is_none_or(|best| choice.time < best.time) {
            self.goal = self.goal.min(choice.time);
            self.best = Some(choice);
        }
    }

    /// The dynamic program: exact if it is small, then in finer and finer time quanta until nothing is below the best solution by more
    /// than `near` ticks, or it grows too large; returns what is proven.
    fn by_frontiers(&mut self, price: Price, mut bound: u64, near: u64, limits: &Limits) -> u64 {
        let runs = self.best.as_ref().map_or(0, |best| best.again.iter().filter(|&&again| again).count());
        let mut quantum = (near / (1 + runs as u64)).max(1);
        let exact = limits.parts == 0;
        let mut size = Size {
            quantum: if exact { 1 } else { quantum },
            decisions: if quantum > 1 && exact { EXACT_DECISIONS } else { DECISIONS },
        };
        loop {
            match label_setting::solve(self.cut, price, size, bound, self.goal, limits) {
                Found::Solved(choice) => {
                    self.accept(choice);
                    return self.goal;
                }
                Found::Near(choice, proven) => {
                    self.accept(Some(choice));
                    bound = bound.max(proven);
                    if bound.saturating_add(near) >= self.goal {
                        return bound;
                    }
                    quantum = (quantum / FINER).max(1);
                }
                Found::Bounded(proven) => {
                    bound = bound.max(proven);
                    if size.decisions == DECISIONS {
                        return bound;
                    }
                }
                Found::Wide => return bound,
            }
            size = Size { quantum, decisions: DECISIONS };
        }
    }

    /// Probes, and splits where both sides rise most.
    fn branch(
        &mut self,
        network: &mut Network,
        open: Open,
        relaxation: &Relaxation,
        bound: u64,
    ) -> Vec<Open> {
        // Without two sides the relaxation is solved by a whole solution, which `offer` has taken.
        let (Some(within), Some(beyond)) = (&relaxation.within, &relaxation.beyond) else {
            return Vec::new();
        };
        let mut fixed = open.fixed;
        let differs = |&node: &usize| fixed[node] == Fixed::Free && within.again[node] != beyond.again[node];
        let mut candidates: Vec<usize> = (0..fixed.len()).filter(differs).collect();
        if candidates.is_empty() {
            // Cannot happen while the two sides differ in bytes; splitting anywhere is sound in any case.
            candidates.extend((0..fixed.len()).filter(|&node| fixed[node] == Fixed::Free));
        }
        candidates.sort_unstable_by_key(|&node| (Reverse(self.cut.nodes[node].time), node));
        let price = relaxation.price;
        let mut choice: Option<(u64, u64, usize, [u64; 2])> = None;
        let (mut forced, mut least) = (false, bound);
        for &node in candidates.iter().take(PROBES) {
            let mut side = |as_fixed| {
                fixed[node] = as_fixed;
                network.evaluate(self.cut, &fixed, price).map_or(u64::MAX, |(bound, _)| bound.max(least))
            };
            let bounds = [side(Fixed::Again), side(Fixed::Never)];
            fixed[node] = Fixed::Free;
            match bounds.map(|bound| bound >= self.goal) {
                [true, true] => return Vec::new(),
                [true, false] => (fixed[node], forced, least) = (Fixed::Never, true, bounds[1]),
                [false, true] => (fixed[node], forced, least) = (Fixed::Again, true, bounds[0]),
                [false, false] => {
                    let (low, high) = (bounds[0].min(bounds[1]), bounds[0].max(bounds[1]));
                    if choice.is_none_or(|(l, h, ..)| (low, high) > (l, h)) {
                        choice = Some((low, high, node, bounds));
                    }
                }
            }
        }
        if forced {
            // The price may improve now: look again before splitting.
            self.order += 1;
            return vec![Open { bound: least, order: self.order, price, fixed }];
        }
        let Some((_, _, node, bounds)) = choice else { return Vec::new() };
        let sides = [(Fixed::Again, bounds[0]), (Fixed::Never, bounds[1])];
        let children = sides.map(|(side, bound)| {
            self.order += 1;
            let mut fixed = fixed.clone();
            fixed[node] = side;
            Open { bound: bound.max(least), order: self.order, price, fixed }
        });
        children.into()
    }
}

/// Fixes every node whose other side brings the bound at this price to `goal`: no solution below `goal` takes it. A flow per
/// node, which takes seconds in a large network; what is not probed by the deadline stays free.
pub(crate) fn fixed_by_price(
    cut: &Cut,
    network: &mut Network,
    fixed: &mut [Fixed],
    price: Price,
    goal: u64,
    deadline: Option<Instant>,
) {
    let Some((_, choice)) = network.evaluate(cut, fixed, price) else { return };
    for node in (0..fixed.len()).filter(|&node| !cut.nodes[node].barred) {
        if deadline.is_some_and(|deadline| now() >= deadline) {
            return;
        }
        let (same, other) =
            if choice.again[node] { (Fixed::Again, Fixed::Never) } else { (Fixed::Never, Fixed::Again) };
        fixed[node] = other;
        let bound = network.evaluate(cut, fixed, price).map(|(bound, _)| bound);
        fixed[node] = if bound.is_none_or(|bound| bound >= goal) { same } else { Fixed::Free };
    }
}
