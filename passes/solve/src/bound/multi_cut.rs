//! A chain of cuts: several instants at once, still for every order.
//!
//! Let `c_1, ..., c_K` be nodes each of which is *before* the next ([`crate::bound::cut`]): in every schedule they first run in this
//! order. Interval `k` lasts from the first run of `c_k` (exclusive) to that of `c_{k+1}` (inclusive), the last one to the
//! end. `B_k`, `A_k`, `S_k`: the nodes before and after `c_k`, and what is in memory with it for certain. `W_k`: values made
//! in `B_k` that a node outside `B_k` reads, or pinned, and what is read to make them again.
//!
//! ```text
//! Variables   h[k][v]   v of W_k is alive while c_k first runs (1 for v in S_k)
//!             y[k][p]   p, a producer in W_k, runs in interval k, not counting its first run
//!             Y[k][p]   the same for interval k or later
//!             f[k][x]   x has run when c_k first runs: 1 in B_k, 0 in A_k, decided for the others; f[K+1] = 1
//!             d[k][x] = f[k+1][x] - f[k][x]: x first runs in interval k
//!             c[k][v]   the instance alive at c_k is the one alive at c_{k+1}
//! Objective   minimise  sum over k, p of time[p] y[k][p]
//! G1 budget   sum_v bytes[v] h[k][v] + sum_{p in B_k} state[p] Y[k][p] <= M - workspace[c_k] - sum_{S_k} bytes
//!             h[k][v] <= f[k][producer v]
//! G2 inputs   y[k][p] <= h[k][u] + (y + d)[k][producer u]              u read by p
//! G3 keeping  h[k+1][v] <= h[k][v] + (y + d)[k][producer v]
//! G4 served   d[k][x] <= h[k][u] + (y + d)[k][producer u]              u read by x; last k: 1 <= for pinned u
//! G5 first    Y[k][p] <= sum_{q >= k} y[q][p]
//!             1 - f[k][x] <= Y[k][p] + h[k][u] + 1 - f[k][p]           u read by x, p its producer; 1 <= for pinned u
//!             Y[k][x] <= Y[k][p] + h[k][u] + 1 - f[k][p]
//! G6 effects  y = Y = 0 for `once` nodes
//! G7 inside   c[k][v] >= h[k+1][v] - (y + d)[k][producer v]
//!             sum_v bytes[v] c[k][v] + R <= M                          x of A_k in B_{k+1}, v neither read nor made by it
//!             sum_v bytes[v] c[k][v] + R y[k][p] <= M                  p that may run again in interval k, likewise
//!             R = workspace and bytes of what the node reads and makes (less an operand it may overwrite)
//! G8 order    f[k][x] <= f[k][x'] for x' before x;  f[k][x] <= f[k+1][x]
//! ```
//!
//! **Why it bounds every schedule.** Take any legal schedule and drop runs whose outputs nothing uses. Read the variables off
//! it; every row is then a fact about it. Runs in interval `k` other than the first of their node are overhead, each counted
//! once. No variable is missing: what a run in interval `k` makes is used, through other runs of nodes that ran before
//! `c_k`, by a first run after `c_k` or as an output, so its producer is in `W_k` (a second run of a node that first ran in
//! the same interval is not priced). The instance that lives through interval `k` coexists with whatever runs in it: G7.
//! Where too many nodes are independent of `c_k`, nothing is said about them, which only weakens the bound.
//!
//! **Made small by what is known.** With a plan of time `T` at hand, only solutions below `T` matter. The relaxation of each
//! single cut then fixes most nodes to run again after it, or never to, before any solver starts.
//!
//! Its time is also the solver's cutoff, and no heuristics look for solutions: the chain that proves gpt2_L4 at 30 % takes
//! half a second instead of 17. Branch and bound is tried in several ways, each for a few nodes, then each for four times as many.
//!
//! **Which chain.** Begin with the best cut, whose solution [`crate::bound::branch_and_bound`] has. Play the solution out; where its memory
//! exceeds the budget at the first run of a node that fits in the chain, that node joins; else G7 is added
//! for all such nodes. Where a second run exceeds it nevertheless, what is alive then does not live through the interval: the nodes that
//! first run next to it join, so that it does. If nothing is left to add, `disjunctive_branching.rs` divides the schedules; where it cannot, a node
//! joins for which others leave, or that nothing follows. If nothing exceeds, the solution is an optimal plan.
//!
//! Source: docs/design/planner.md, section 3.3. Solved by [`crate::milp`].

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, ValueId, judge};

use crate::bound::cut::Cutter;
use crate::bound::held_at;
use crate::bound::multi_cut_rows::Program;
use crate::milp::{End, Options, Way};
use crate::portfolio::clock::now;

/// What a chain proves, and what it suggests.
#[derive(Clone, Debug)]
pub struct ChainBound {
    /// No schedule takes less; the greatest time there is if none fits.
    pub time: Time,
    /// The cuts that prove it.
    pub cuts: Vec<NodeId>,
    /// A legal sequence that plays the last solution out; it may exceed the budget.
    pub start: Option<Sequence>,
}

/// Improves on the best single cut at `first` until the time is over, nothing is left to add, or `known` is proven.
///
/// `known` is the time of a plan; without one the programs are larger. The limit is that of all programs together.
pub fn chain(
    graph: &Graph,
    budget: Bytes,
    first: NodeId,
    known: Option<Time>,
    options: Options,
) -> ChainBound {
    let mut chain = Chain::new(graph, budget, first);
    chain.run(known, options);
    chain.best
}

/// A chain that grows, and goes on growing when there is more time or a better plan.
#[derive(Clone)]
pub(crate) struct Chain<'a> {
    graph: &'a Graph,
    budget: Bytes,
    growing: Growing<'a>,
    pub(crate) best: ChainBound,
    /// The program of the present chain was solved for this plan, and nothing could be added.
    complete: Option<Option<Time>>,
    /// Two nodes whose order is open, of which one exceeds the budget when the last solution is played out.
    pub(crate) open: Option<(NodeId, NodeId)>,
    /// How the present program is tried.
    trial: Trial,
    /// The most that a program was given.
    longest: Duration,
    begun: bool,
}

impl<'a> Chain<'a> {
    pub(crate) fn new(graph: &'a Graph, budget: Bytes, first: NodeId) -> Self {
        let growing = Growing {
            graph,
            cutter: Cutter::new(graph),
            chain: vec![first],
            inside: BTreeSet::new(),
            left: BTreeSet::new(),
        };
        let best = ChainBound { time: graph.total_time(), cuts: vec![first], start: None };
        Self {
            graph,
            budget,
            growing,
            best,
            complete: None,
            open: None,
            trial: Trial::FIRST,
            longest: Duration::ZERO,
            begun: false,
        }
    }

    /// The same for those schedules only in which `earlier` first runs before `later`. One of them joins the chain.
    pub(crate) fn assuming(&self, earlier: NodeId, later: NodeId) -> Self {
        let mut chain = Self { complete: None, open: None, ..self.clone() };
        chain.growing.cutter.assume(earlier, later);
        chain.growing.left.clear();
        for node in [earlier, later] {
            if chain.growing.candidate(node, Bytes(0), 0, true).is_some() {
                chain.growing.insert(node);
            }
        }
        chain
    }

    /// Whether nothing can be added below a plan of this time.
    pub(crate) fn is_complete(&self, known: Option<Time>) -> bool {
        self.complete == Some(known)
    }

    /// Goes on where it was, see [`chain`].
    pub(crate) fn run(&mut self, known: Option<Time>, options: Options) {
        let start = now();
        if !std::mem::replace(&mut self.begun, true)
            && let Some(sequence) = self.begin(options.limit)
        {
            self.extend(sequence);
        }
        while self.complete != Some(known) {
            let left = options.limit.saturating_sub(now().saturating_duration_since(start));
            if left.is_zero() {
                return;
            }
            self.longest = self.longest.max(left);
            match self.grow(known, Options { limit: left, ..options }) {
                Grown::Further => (self.trial.nodes, self.trial.tried) = (FIRST_NODES, 0),
                Grown::Nothing => self.complete = Some(known),
                Grown::Undecided => self.trial.next(),
                Grown::Stopped => {
                    // Another way only if this one had a fair chance.
                    if left > self.longest / 2 {
                        self.trial.next();
                    }
                    return;
                }
            }
        }
    }

    /// The best cut alone needs no program: what it holds, played out.
    fn begin(&mut self, limit: Duration) -> Option<Sequence> {
        let (graph, first) = (self.graph, self.growing.chain[0]);
        let set = held_at(graph, self.budget, first, limit).into_iter().next()?;
        let cut = self.growing.cutter.cut(first, self.budget);
        let gone =
            cut.values.iter().map(|value| value.id).filter(|value| set.held.binary_search(value).is_err());
        Some(play(graph, &graph.node_ids().collect::<Vec<_>>(), &[first], &[gone.collect()]))
    }

    /// Solves the program of the chain as it is, and adds to it what the solution violates.
    fn grow(&mut self, known: Option<Time>, options: Options) -> Grown {
        let (graph, growing, total) = (self.graph, &mut self.growing, self.graph.total_time());
        let cutoff = known.map_or(u64::MAX, |known| known.0.saturating_sub(total.0));
        let mut program = Program::new(graph, self.budget, &mut growing.cutter, &growing.chain, cutoff);
        let Some(rows) = program.rows(&growing.inside) else { return Grown::Nothing };
        let ways = if rows <= FEW_ROWS { Way::SIMPLE_FIRST } else { Way::USUAL_FIRST };
        let (way, most_nodes) = (ways[self.trial.way], Some(self.trial.nodes));
        let answer = program.milp.solve(Options { below: known.map(|_| cutoff), most_nodes, way, ..options });
        let (cuts, inside) = (growing.chain.len(), growing.inside.len());
        tracing::debug!(cuts, inside, rows, ?self.trial, ?answer.end, answer.bound, "chain of cuts");
        // Infeasible means that nothing is below the cutoff, as solutions above it were fixed away; without a plan, that there is none.
        let bound = match answer.end {
            End::Infeasible => cutoff,
            End::Failed => 0,
            End::Optimal | End::Stopped | End::NodeLimit => answer.bound.min(cutoff),
        };
        let time = Time(total.0.saturating_add(bound));
        if time > self.best.time {
            (self.best.time, self.best.cuts) = (time, growing.chain.clone());
        }
        if bound >= cutoff {
            return Grown::Nothing;
        }
        match answer.end {
            End::NodeLimit => return Grown::Undecided,
            End::Optimal if answer.point.is_some() => {}
            _ => return Grown::Stopped,
        }
        let absent = program.absent(|var| answer.is_one(var));
        let order = program.order(&growing.cutter, |var| answer.is_one(var), &absent);
        let sequence = play(graph, &order, &growing.chain, &absent);
        self.extend(sequence)
    }

    /// Adds what a sequence violates that plays a solution out.
    fn extend(&mut self, sequence: Sequence) -> Grown {
        let Ok(trace) = judge(self.graph, &sequence) else { return Grown::Nothing };
        let mut further = self.growing.extend(&sequence, &trace.memory, self.budget, false);
        self.open = if further { None } else { self.growing.open(&sequence, &trace.memory, self.budget) };
        if !further && self.open.is_none() {
            further = self.growing.extend(&sequence, &trace.memory, self.budget, true);
        }
        self.best.start = Some(sequence);
        if further { Grown::Further } else { Grown::Nothing }
    }
}

/// What came of a program.
enum Grown {
    /// The chain has more in it.
    Further,
    /// Nothing can be added, or nothing needs to be.
    Nothing,
    /// The solver ran out of nodes.
    Undecided,
    /// It was stopped.
    Stopped,
}

/// Nodes of the solver's tree in the first trials of a program.
const FIRST_NODES: u64 = 100;
/// How many times more nodes its next trials have, when all ways have been tried.
const MORE_NODES: u64 = 4;
/// Programs of up to so many rows are solved sooner than preprocessed.
const FEW_ROWS: usize = 2_500;
/// CBC counts in 32 bits.
const MOST_NODES: u64 = 1 << 30;

/// One of the ways to solve a program, for some nodes. The way that solved a program is the first for the next.
#[derive(Clone, Copy, Debug)]
struct Trial {
    way: usize,
    nodes: u64,
    /// Ways that were tried for so many nodes.
    tried: usize,
}

impl Trial {
    const FIRST: Self = Self { way: 0, nodes: FIRST_NODES, tried: 0 };

    fn next(&mut self) {
        self.way = (self.way + 1) % Way::USUAL_FIRST.len();
        self.tried += 1;
        if self.tried == Way::USUAL_FIRST.len() {
            (self.tried, self.nodes) = (0, (self.nodes * MORE_NODES).min(MOST_NODES));
        }
    }
}

/// How far from an overflow to look for a node that fits in the chain, in steps.
const REACH: usize = 12;

/// A chain under construction.
#[derive(Clone)]
struct Growing<'a> {
    graph: &'a Graph,
    cutter: Cutter<'a>,
    chain: Vec<NodeId>,
    /// Nodes with rows G7.
    inside: BTreeSet<NodeId>,
    /// Nodes that were in the chain and had to leave it.
    left: BTreeSet<NodeId>,
}

impl Growing<'_> {
    /// Adds what the played solution violates most; whether there was anything new.
    fn extend(&mut self, sequence: &Sequence, memory: &[Bytes], budget: Bytes, leave: bool) -> bool {
        let first = first_runs(self.graph, sequence);
        let last_cut = sequence.0.iter().position(|node| self.chain.last() == Some(node)).unwrap_or(0);
        let over = over(memory, budget);
        let mut inside = false;
        for &step in &over {
            let near = step.saturating_sub(REACH)..(step + REACH + 1).min(memory.len());
            let near = near.filter(|&at| first[at] && memory[at] > budget);
            let best =
                near.filter_map(|at| self.candidate(sequence.0[at], memory[at], at.abs_diff(step), leave));
            if let Some((.., node)) = best.max() {
                self.insert(node);
                return true;
            }
            inside |= step < last_cut && self.inside.insert(sequence.0[step]);
        }
        inside || over.iter().any(|&step| !first[step] && self.bracket(sequence, &first, step, leave))
    }

    /// A node joins the chain next to a second run that exceeds the budget, so that G7 counts more of what is alive then.
    fn bracket(&mut self, sequence: &Sequence, first: &[bool], step: usize, leave: bool) -> bool {
        for node in beside_run(sequence, first, step) {
            if self.candidate(node, Bytes(0), 0, leave).is_some() {
                self.insert(node);
                self.inside.insert(sequence.0[step]);
                return true;
            }
        }
        false
    }

    /// A node that exceeds the budget when it first runs, or else one next to a second run that does, and one of the chain that is
    /// independent of it.
    fn open(&mut self, sequence: &Sequence, memory: &[Bytes], budget: Bytes) -> Option<(NodeId, NodeId)> {
        let first = first_runs(self.graph, sequence);
        let over = over(memory, budget);
        let alone: Vec<NodeId> =
            over.iter().filter(|&&step| first[step]).map(|&step| sequence.0[step]).collect();
        let beside = over.iter().filter(|&&step| !first[step]);
        let beside: Vec<NodeId> = beside.flat_map(|&step| beside_run(sequence, &first, step)).collect();
        self.independent(&alone).or_else(|| self.independent(&beside))
    }

    /// One of some nodes, and one of the chain that is independent of it: of as few as possible, as the others stay with it when it joins. Of
    /// those, the first.
    fn independent(&mut self, nodes: &[NodeId]) -> Option<(NodeId, NodeId)> {
        let pairs = nodes.iter().filter_map(|&node| {
            self.cutter.look_at(node);
            let independent = |cut: &&NodeId| {
                **cut != node && !self.cutter.is_before(**cut) && !self.cutter.is_after(**cut)
            };
            let mut others = self.chain.iter().filter(independent);
            let other = *others.next()?;
            Some((others.count(), node, other))
        });
        pairs.min_by_key(|&(more, ..)| more).map(|(_, node, other)| (node, other))
    }

    /// How good a node would be in the chain: best are those ordered against almost all others, which leave room.
    fn candidate(
        &mut self,
        node: NodeId,
        memory: Bytes,
        distance: usize,
        leave: bool,
    ) -> Option<(usize, Bytes, usize, NodeId)> {
        if self.chain.contains(&node) || self.left.contains(&node) {
            return None;
        }
        self.cutter.look_at(node);
        let related = |node: NodeId| self.cutter.is_before(node) || self.cutter.is_after(node);
        // The first cut, the best one by itself, never leaves.
        let fits = related(self.chain[0]) && (leave || self.chain.iter().all(|&cut| related(cut)));
        // What nothing follows ends the chain: only where nothing else is left.
        let leads = leave || self.graph.node_ids().any(|other| self.cutter.is_after(other));
        let count = self.graph.node_ids().filter(|&other| related(other)).count();
        (fits && leads).then_some((count, memory, usize::MAX - distance, node))
    }

    fn insert(&mut self, node: NodeId) {
        self.cutter.look_at(node);
        let related = |cut: &NodeId| self.cutter.is_before(*cut) || self.cutter.is_after(*cut);
        let (stay, leave): (Vec<NodeId>, Vec<NodeId>) = self.chain.iter().partition(|cut| related(cut));
        let position = stay.iter().filter(|&&cut| self.cutter.is_before(cut)).count();
        self.chain = stay;
        self.chain.insert(position, node);
        self.left.extend(leave);
    }
}

/// Which runs are the first of their node.
fn first_runs(graph: &Graph, sequence: &Sequence) -> Vec<bool> {
    let mut ran = vec![false; graph.len()];
    sequence.0.iter().map(|node| !std::mem::replace(&mut ran[node.index()], true)).collect()
}

/// The steps that exceed a budget, those that need most before others.
fn over(memory: &[Bytes], budget: Bytes) -> Vec<usize> {
    let mut over: Vec<usize> = (0..memory.len()).filter(|&step| memory[step] > budget).collect();
    over.sort_unstable_by_key(|&step| (Reverse(memory[step]), step));
    over
}

/// The node that first runs next after a second run, and the one that did last.
fn beside_run(sequence: &Sequence, first: &[bool], step: usize) -> impl Iterator<Item = NodeId> {
    let next = (step + 1..first.len()).find(|&at| first[at]);
    let last = (0..step).rev().find(|&at| first[at]);
    next.into_iter().chain(last).map(|at| sequence.0[at])
}

/// Plays decisions out in an order of all nodes: after `chain[k]`, the values of `absent[k]` are gone; what is read is rebuilt.
pub(crate) fn play(graph: &Graph, order: &[NodeId], chain: &[NodeId], absent: &[Vec<ValueId>]) -> Sequence {
    let mut gone = vec![false; graph.values().len()];
    let mut ran = vec![false; graph.len()];
    let mut sequence = Vec::with_capacity(2 * graph.len());
    for &node in order {
        for &value in &graph.node(node).reads {
            rebuild(graph, value, &mut gone, &mut sequence);
        }
        sequence.push(node);
        ran[node.index()] = true;
        if let Some(cut) = chain.iter().position(|&cut| cut == node) {
            for &value in &absent[cut] {
                let producer = graph.value(value).producer;
                gone[value.index()] = ran[producer.index()] && graph.node(producer).is_repeatable();
            }
        }
    }
    // A pinned value must be there at the end.
    for index in (0..graph.values().len()).filter(|&index| graph.values()[index].pinned) {
        rebuild(graph, ValueId::from_index(index), &mut gone, &mut sequence);
    }
    Sequence(sequence)
}

/// Makes a value again if it is gone, and what is gone of what that takes.
fn rebuild(graph: &Graph, value: ValueId, gone: &mut [bool], sequence: &mut Vec<NodeId>) {
    let mut stack = vec![(value, false)];
    while let Some((value, ready)) = stack.pop() {
        let node = graph.node(graph.value(value).producer);
        if !gone[value.index()] {
            continue;
        }
        if !ready {
            stack.push((value, true));
            stack.extend(node.reads.iter().rev().map(|&read| (read, false)));
            continue;
        }
        sequence.push(graph.value(value).producer);
        node.writes.iter().for_each(|value| gone[value.index()] = false);
    }
}
