//! Lower bounds with their reasons: [`order_free`] is what a portfolio asks for.
//!
//! The bound of a graph is the best cut bound over its nodes ([`cut`] says why it holds for every schedule): the relaxation
//! ranks the nodes ([`cut_selection`]), branch and bound solves the best few ([`branch_and_bound`]). All of it is
//! integer arithmetic, so a bound is a number of ticks that needs no tolerance, and no external solver takes part.
//!
//! The cuts also say what a good plan holds at their node: [`CutSolution`]s are starts for a replay.

pub(crate) mod a_star;
pub mod branch_and_bound;
pub mod cut;
pub mod cut_selection;
pub(crate) mod disjunctive_branching;
pub mod fixed_order;
pub(crate) mod label_setting;
pub mod lagrangian;
pub mod limits;
pub mod multi_cut;
pub(crate) mod multi_cut_rows;

use std::time::Duration;

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, ValueId, working_set};

use crate::bound::branch_and_bound::{Solved, rounded};
use crate::bound::cut::{Choice, Cut, Cutter};
use crate::bound::cut_selection::scan;
use crate::bound::disjunctive_branching::Branches;
use crate::bound::limits::Limits;
use crate::milp::Options;
use crate::portfolio::clock::now;
use crate::portfolio::request::BoundKind;

/// How a bound was obtained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// Every node runs once.
    EveryNodeOnce,
    /// The budget is below what one node needs at once: nothing fits.
    WorkingSet,
    /// The cut problem of the node, relaxed or stopped early.
    CutRelaxed,
    /// The cut problem of the node, solved exactly.
    CutExact,
    /// The cut problem of the node has no solution: nothing fits.
    CutInfeasible,
    /// A chain of that many cuts.
    Chain(usize),
    /// A chain of that many cuts has no solution, as the MILP solver says: nothing fits.
    ChainInfeasible(usize),
}

/// What must be alive when a node first runs, in a good solution of its cut problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutSolution {
    /// The node.
    pub at: NodeId,
    /// The values that are alive while it runs, its own operands and outputs included, in order of their ids. Values that
    /// nothing reads any more are not among them.
    pub held: Vec<ValueId>,
    /// The nodes that run again later, in the given order.
    pub again: Vec<NodeId>,
    /// What they take together, in ticks.
    pub time: Time,
}

/// A lower bound on the time of every schedule of a class within a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bound {
    /// No schedule takes less.
    pub time: Time,
    /// The class.
    pub kind: BoundKind,
    /// Where the bound comes from.
    pub node: NodeId,
    /// Why it holds.
    pub proof: Proof,
    /// Starts, best bound first; of each node one near its best solution, and perhaps one that is rounded.
    pub starts: Vec<CutSolution>,
    /// Legal sequences that play a chain out; they may exceed the budget.
    pub sequences: Vec<Sequence>,
}

impl Bound {
    /// The bound says that no schedule fits.
    pub fn is_infeasible(&self) -> bool {
        matches!(self.proof, Proof::WorkingSet | Proof::CutInfeasible | Proof::ChainInfeasible(_))
    }
}

/// How many nodes are cut at exactly.
const EXACT: usize = 4;
/// How many nodes are cut at exactly while a plan is known to be far from the bound.
const EXACT_FAR: usize = 2;
/// A plan is far from the bound if more than one part in this many of the base time lies between: 0.2 points.
const FAR: u64 = 500;
/// Subproblems per exact cut before it is left with what is proven.
const SUBPROBLEMS: u64 = 200_000;

/// Subproblems of the cut of a start before it is left with what is proven.
const START_SUBPROBLEMS: u64 = 1_000;

/// While a plan is known to be far from the bound, proofs may be coarse by one part in this many of what lies between: in large graphs,
/// and in others, where a proof may come at once.
const COARSE: [u64; 2] = [8, 32];
/// Graphs from so many nodes on are large: a proof takes seconds in them, and the first of [`COARSE`] is theirs.
const LARGE: usize = 1200;
/// A solution that is only a start may be coarse by one part in this many of its own time.
const COARSE_START: u64 = 200;

/// Beyond this, no solver has been seen to finish in useful time.
pub const CHAINED: usize = 1200;

/// The best order-free bound that can be had in a time. The clock only stops.
pub fn order_free(graph: &Graph, budget: Bytes, time: Duration) -> Bound {
    order_free_below(graph, budget, None, time)
}

/// The same when a plan is known: proving that nothing beats it ends the search.
pub fn order_free_below(graph: &Graph, budget: Bytes, known: Option<Time>, time: Duration) -> Bound {
    let start = now();
    let deadline = start.checked_add(time);
    let total = graph.total_time();
    let (least, holder) = working_set(graph);
    let once = |node, proof| Bound {
        time: total,
        kind: BoundKind::OrderFree,
        node,
        proof,
        starts: Vec::new(),
        sequences: Vec::new(),
    };
    if budget < least {
        return once(holder, Proof::WorkingSet);
    }
    let mut bound = once(holder, Proof::EveryNodeOnce);
    // A third of the time for looking around is plenty except on huge graphs.
    let ranked = scan(graph, budget, start.checked_add(time / 3));
    let cutoff = known.map_or(u64::MAX, |known| known.0.saturating_sub(total.0));
    let mut cutter = Cutter::new(graph);
    for (position, promise) in ranked.iter().enumerate() {
        let Some(relaxed) = promise.bound else { return once(promise.at, Proof::CutInfeasible) };
        if position == 0 {
            bound.raise(total, relaxed, promise.at, Proof::CutRelaxed);
        }
        let gap = cutoff.saturating_sub(bound.time.0 - total.0);
        let far = known.is_some() && gap > total.0 / FAR;
        if position >= (if far { EXACT_FAR } else { EXACT }) || bound.time.0 >= total.0.saturating_add(cutoff)
        {
            break;
        }
        let cut = cutter.cut(promise.at, budget);
        let floor = bound.time.0 - total.0;
        let near = if far { gap / COARSE[usize::from(graph.len() <= LARGE)] } else { 0 };
        let solved = branch_and_bound::solve(
            &cut,
            Limits { cutoff, floor, near, nodes: SUBPROBLEMS, deadline, ..Limits::NONE },
        );
        let Some(proven) = solved.bound else { return once(promise.at, Proof::CutInfeasible) };
        let proof = if solved.exact { Proof::CutExact } else { Proof::CutRelaxed };
        bound.raise(total, proven, promise.at, proof);
        bound.starts.extend(held_sets(graph, &cut, solved));
    }
    bound
}

/// What the cut at a node holds at a budget, near the optimum and rounded, if that can be had in a time: starts, without a bound.
pub(crate) fn held_at(graph: &Graph, budget: Bytes, at: NodeId, time: Duration) -> Vec<CutSolution> {
    let deadline = now().checked_add(time);
    let cut = Cutter::new(graph).cut(at, budget);
    if cut.is_trivial() {
        return Vec::new();
    }
    let limits = Limits { parts: COARSE_START, nodes: START_SUBPROBLEMS, deadline, ..Limits::NONE };
    held_sets(graph, &cut, branch_and_bound::solve(&cut, limits))
}

/// What the cut at a node holds at a budget, rounded: in the time of a few flows.
pub(crate) fn roughly_held_at(graph: &Graph, budget: Bytes, at: NodeId) -> Option<CutSolution> {
    let cut = Cutter::new(graph).cut(at, budget);
    rounded(&cut).map(|choice| held_set(graph, &cut, &choice))
}

fn held_sets(graph: &Graph, cut: &Cut, Solved { best, plain, .. }: Solved) -> Vec<CutSolution> {
    let plain = plain.filter(|plain| best.as_ref().is_none_or(|best| best.again != plain.again));
    [best, plain].into_iter().flatten().map(|choice| held_set(graph, cut, &choice)).collect()
}

/// Raises a bound of [`order_free_below`] by chains of cuts, up to the time of a plan; without one, up to a proof that nothing fits.
///
/// Costs seconds rather than milliseconds, and a child process; graphs of more than [`CHAINED`] nodes are left alone.
pub fn raise_by_chain(
    graph: &Graph,
    budget: Bytes,
    known: Option<Time>,
    bound: &mut Bound,
    options: Options,
) {
    if bound.is_infeasible() || graph.len() > CHAINED || known.is_some_and(|known| bound.time >= known) {
        return;
    }
    let mut branches = Branches::new(graph, budget, bound.node);
    bound.raise_by(&mut branches, known, options);
}

impl Bound {
    /// Lets chains go on, and takes over what they prove.
    pub(crate) fn raise_by(&mut self, branches: &mut Branches, known: Option<Time>, options: Options) {
        branches.run(known, options);
        self.sequences.extend(branches.sequences());
        let (time, cuts) = branches.bound();
        if time == Time(u64::MAX) {
            self.proof = Proof::ChainInfeasible(cuts);
        } else if time > self.time {
            (self.time, self.proof) = (time, Proof::Chain(cuts));
        }
    }
}

impl Bound {
    fn raise(&mut self, total: Time, overhead: u64, node: NodeId, proof: Proof) {
        let time = total + Time(overhead);
        if time > self.time || (time == self.time && self.proof == Proof::CutRelaxed && self.node == node) {
            (self.time, self.node, self.proof) = (time, node, proof);
        }
    }
}

/// What a solution of a cut problem holds.
pub fn held_set(graph: &Graph, cut: &Cut, choice: &Choice) -> CutSolution {
    let at = graph.node(cut.at);
    let mut held: Vec<ValueId> = at.reads.iter().chain(&at.writes).copied().collect();
    held.extend(cut.values.iter().zip(&choice.held).filter(|(_, held)| **held).map(|(value, _)| value.id));
    held.sort_unstable();
    held.dedup();
    let again = cut.nodes.iter().zip(&choice.again).filter(|(_, again)| **again).map(|(node, _)| node.id);
    CutSolution { at: cut.at, held, again: again.collect(), time: Time(choice.time) }
}
