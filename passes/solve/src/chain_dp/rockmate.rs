//! Options per block, combined along the chain.
//!
//! Each block of [`crate::chain_dp::blocks`] gets several ways to go through it: which of its values to keep for its backward nodes, the
//! rest being rebuilt from its input and from what is kept. For a given number of bytes the best choice is the cut problem
//! of the block, [`crate::bound::cut`] D1 to D5 with the input present:
//!
//! ```text
//! minimise    sum_p time[p] y[p]
//! B1 served   h[v] + y[producer v] >= 1          v read by the backward nodes of the block
//! B2 inputs   y[p] <= h[u] + y[producer u]       u made in the block and read by p
//! B3 save     sum_v bytes[v] h[v] <= save        for several save budgets, in decreasing order
//! B4 output   the output of the block is kept in any case, and what forward nodes of later blocks read
//! ```
//!
//! Rockmate solves an ILP over the stages of a block here, for a peak and a save budget; the peaks of an option are measured
//! instead, by playing it, and handed to the dynamic program of [`crate::chain_dp::rotor`], which needs them as constraints. The cut
//! problem takes microseconds where the ILP takes seconds, so a block has some dozens of options. It is solved once per class
//! of equal blocks. Blocks of two, four, ... separators are tried as well: larger blocks choose better, smaller ones nest.
//!
//! Source: Zhao et al., "Rockmate", ICML 2023. Not here: hierarchical partitions of large blocks (HiRemate).

use std::time::Instant;

use rk_plan::{Graph, ValueId};

use crate::bound::branch_and_bound::solve;
use crate::bound::cut::{Cut, CutNode, CutValue};
use crate::bound::fixed_order::split;
use crate::bound::limits::Limits;
use crate::chain_dp::blocks::{Block, ids};
use crate::chain_dp::rotor::{by_chain, keep_everything, stages};
use crate::chain_dp::save_budgets::SaveBudgets;
use crate::portfolio::clock::now;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;

/// Blocks of more forward nodes are large: the least time of an option is found to one part in [`PARTS`].
const LARGE: usize = 32;
/// How far the time of an option of a large block may be from the least, as one part in so many.
const PARTS: u64 = 50;
/// Subproblems per option, for blocks too wide for the dynamic program.
const SUBPROBLEMS: u64 = 3000;

/// Plans by blocks, options and the chain.
pub(crate) fn rockmate(task: &mut Incumbent) {
    let mut merge = 1;
    while !task.clock.expired() {
        let stages =
            stages_until(task.request.graph, merge, task.request.save_budgets, task.clock.deadline());
        let blocks = stages.len();
        tracing::info!(blocks, "chain with options");
        by_chain(task, stages, Solver::Rockmate);
        if blocks == 1 {
            return;
        }
        merge *= 2;
    }
}

/// The chain of a graph, `merge` blocks in one, with several options per block.
pub fn rockmate_stages(graph: &Graph, merge: usize) -> Vec<crate::chain_dp::rotor::Stage> {
    stages_until(graph, merge, SaveBudgets::default(), None)
}

/// The same with fewer options, if the time is over before all are known.
pub(crate) fn stages_until(
    graph: &Graph,
    merge: usize,
    budgets: SaveBudgets,
    deadline: Option<Instant>,
) -> Vec<crate::chain_dp::rotor::Stage> {
    stages(graph, merge, |graph, block| options(graph, block, budgets, deadline))
}

/// Sets of values to keep, everything first, each with the least time for its bytes.
pub(crate) fn options(
    graph: &Graph,
    block: &Block,
    budgets: SaveBudgets,
    deadline: Option<Instant>,
) -> Vec<Vec<ValueId>> {
    let everything = keep_everything(graph, block);
    let (mut cut, always) = block_cut(graph, block, &everything);
    let most: i128 =
        cut.values.iter().filter(|value| value.needed).map(|value| i128::from(value.bytes)).sum();
    let parts = if cut.nodes.len() > LARGE { PARTS } else { 0 };
    let mut options = vec![everything];
    for room in budgets.of(most) {
        if deadline.is_some_and(|deadline| now() >= deadline) {
            break;
        }
        cut.room = room;
        let solved = solve(&cut, Limits { parts, nodes: SUBPROBLEMS, deadline, ..Limits::NONE });
        let Some(best) = solved.best else { continue };
        let held = cut.values.iter().zip(&best.held).filter(|(_, held)| **held).map(|(value, _)| value.id);
        let mut kept: Vec<ValueId> = held.chain(always.iter().copied()).collect();
        kept.sort_unstable();
        if !options.contains(&kept) {
            options.push(kept);
        }
    }
    options
}

/// B1 and B2 as a cut problem; and what is kept in any case: B4, outputs of the step, what cannot be made again.
fn block_cut(graph: &Graph, block: &Block, everything: &[ValueId]) -> (Cut, Vec<ValueId>) {
    let nodes: Vec<_> = ids(block.forward.clone()).collect();
    let position = |node: rk_plan::NodeId| node.index() - block.forward.start;
    let split = split(graph);
    let must = |value: ValueId| {
        let about = graph.value(value);
        let later = |reader: &rk_plan::NodeId| (block.forward.end..split).contains(&reader.index());
        let shared = graph.readers(value).iter().any(later);
        Some(value) == block.output || shared || about.pinned || !graph.node(about.producer).is_repeatable()
    };
    let mut always = Vec::new();
    let mut values = Vec::new();
    for value in nodes.iter().flat_map(|&node| graph.node(node).writes.iter().copied()) {
        let about = graph.value(value);
        if must(value) && (everything.contains(&value) || Some(value) == block.output) {
            always.push(value);
            continue;
        }
        let inside = |reader: &&rk_plan::NodeId| block.forward.contains(&reader.index());
        let readers = graph.readers(value).iter().filter(inside).map(|&reader| position(reader)).collect();
        if about.bytes.0 > 0 {
            let needed = everything.contains(&value);
            values.push(CutValue {
                id: value,
                bytes: about.bytes.0,
                producer: position(about.producer),
                needed,
                readers,
            });
        }
    }
    let nodes = nodes.into_iter().map(|id| {
        let node = graph.node(id);
        CutNode { id, time: node.time.0, state: 0, barred: !node.is_repeatable() }
    });
    (
        Cut {
            at: rk_plan::NodeId::from_index(block.forward.end - 1),
            nodes: nodes.collect(),
            values,
            room: 0,
        },
        always,
    )
}
