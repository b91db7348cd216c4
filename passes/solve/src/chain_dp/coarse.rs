//! Starts from a coarse chain: a few large blocks, the options of [`crate::chain_dp::rockmate`], the dynamic program of [`crate::chain_dp::rotor`].
//!
//! A cut sees one instant; in a deep network at a tight budget every instant of the backward half is tight, and the replay
//! of a cut needs so much repair that little of it is left. The dynamic program knows how memory is filled and emptied along
//! the chain, and the options of a block are cuts of their own. Some eight to sixteen blocks are best most of the time, whatever the
//! size of the graph: fewer do not nest, more have too little choice inside. What comes out is polished by the local search.
//!
//! Plans that overshoot a little are repaired, since the program counts with caution.

use std::ops::Range;
use std::time::Duration;

use rk_plan::{Bytes, judge};

use crate::chain_dp::blocks::chain;
use crate::chain_dp::rockmate::stages_until;
use crate::chain_dp::rotor::Table;
use crate::chain_dp::save_budgets::SaveBudgets;
use crate::construct::greedy::greedy;
use crate::improve::lns::Solution;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::worthwhile::gap_is_large;
use crate::state::flat_graph::from_sequence;

/// Blocks of the chains that are tried, the finer ones only while the gap is large.
pub(crate) const BLOCKS: [usize; 5] = [8, 16, 4, 32, 64];
/// What a chain takes per node, about: a second at 10,000 nodes.
const TIME_PER_NODE: Duration = Duration::from_micros(100);
/// The most that a plan may overshoot to be repaired, in percent of the budget.
const OVERSHOOT: u64 = 8;
/// Plans repaired per chain.
const REPAIRED: usize = 3;

/// Greedy plans from some of the coarse chains, by their places in [`BLOCKS`]. Nothing if the graph is no chain.
pub(crate) fn coarse_starts(task: &mut Incumbent, which: Range<usize>) -> Vec<Solution> {
    let graph = task.request.graph;
    let length = chain(graph).len();
    let mut starts = Vec::new();
    // In a short chain several have the same blocks.
    let mut tried: Vec<usize> = BLOCKS[..which.start].iter().map(|&blocks| length.div_ceil(blocks)).collect();
    // Parts of a chain are not interrupted: one is begun only if there is time for two like the longest so far.
    let nodes = u32::try_from(graph.len()).unwrap_or(u32::MAX);
    let mut longest = TIME_PER_NODE.saturating_mul(nodes);
    for &blocks in &BLOCKS[which] {
        let merge = length.div_ceil(blocks);
        let worth_it = blocks <= BLOCKS[1] || gap_is_large(task);
        let in_time = task.clock.left() > longest.saturating_mul(2);
        if length < 4 || tried.contains(&merge) || task.is_settled() || !in_time || !worth_it {
            continue;
        }
        let before = task.clock.elapsed();
        tried.push(merge);
        starts.extend(by_blocks(task, merge));
        longest = longest.max(task.clock.elapsed() - before);
    }
    starts
}

fn by_blocks(task: &mut Incumbent, merge: usize) -> Vec<Solution> {
    let (graph, clock) = (task.request.graph, task.clock);
    let budget = task.request.budget;
    let most = Bytes(budget.0.saturating_add(budget.0 / 100 * OVERSHOOT));
    let stages = stages_until(graph, merge, SaveBudgets::default(), clock.deadline());
    let count = stages.len();
    let mut starts = Vec::new();
    let Some(table) = Table::new(graph, stages, most, &|| clock.expired()) else { return starts };
    let mut over = Vec::new();
    for sequence in table.sequences() {
        if clock.expired() {
            break;
        }
        let Ok(trace) = judge(graph, &sequence) else { continue };
        let nodes = from_sequence(&sequence);
        if trace.peak <= budget {
            task.offer(&nodes, Solver::Rockmate);
            over.push(nodes);
            break;
        }
        over.push(nodes);
    }
    // The last one fits; those before it cost less and overshoot, from a little to too much.
    for nodes in over.iter().rev().step_by((over.len() / REPAIRED).max(1)).take(REPAIRED) {
        if let Some(best) = greedy(&task.model, nodes, task.budget, task.request.seed, 1, &clock) {
            task.offer(&best.nodes, Solver::Rockmate);
            starts.push(best);
        }
    }
    tracing::debug!(
        blocks = count,
        sequences = over.len(),
        milliseconds = clock.elapsed().as_millis() as u64,
        "coarse chain"
    );
    starts
}

#[cfg(test)]
mod tests {
    use rk_plan::base_trace;

    use super::*;
    use crate::Request;
    use crate::synthetic::{Family, graph};

    /// A chain of fewer than sixteen blocks is the same for sixteen, thirty-two and sixty-four.
    #[test]
    fn chains_in_two_parts_are_the_same_as_at_once() {
        let mut several = 0;
        for (family, nodes) in
            [(Family::Transformer, 160), (Family::Bottleneck, 160), (Family::Residual, 120)]
        {
            let graph = graph(family, nodes, 1);
            let request = Request::new(&graph, Bytes(base_trace(&graph).peak.0 / 100 * 60));
            let costs = |parts: &[(usize, usize)]| {
                let mut task = Incumbent::new(&request);
                let starts = parts.iter().flat_map(|&(from, to)| coarse_starts(&mut task, from..to));
                starts.map(|start| start.cost).collect::<Vec<_>>()
            };
            let all = costs(&[(0, BLOCKS.len())]);
            assert_eq!(costs(&[(0, 2), (2, BLOCKS.len())]), all, "{nodes} nodes");
            several += all.len();
        }
        assert!(several > 5, "{several}");
    }
}
