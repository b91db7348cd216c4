//! Which block a backward node belongs to.
//!
//! Backward runs the blocks in reverse, so a backward node belongs to no later block than any backward node whose result it
//! reads: that is its *bound* (the last block, if it reads none). Below the bound:
//!
//! 1. If forward nodes stand at the same module path (the recorder gives a backward node the path of the forward
//!    call that it differentiates), it belongs to the last of their blocks that the bound allows.
//! 2. Otherwise, to the last allowed block that makes or reads every forward value and parameter which the node reads.
//! 3. Otherwise (a sum of gradients, an expansion), to the bound itself.
//!
//! A tie decides how work is grouped and never what is equal: blocks are compared with all that they hold.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use rk_plan::{NodeId, ValueId};

use crate::step::{Origin, Source, Step};

/// Per block (an interval of forward nodes), its forward nodes and then its backward nodes, each in order of execution.
pub fn tie(step: &Step, forward: &[NodeId], blocks: &[Range<usize>]) -> Vec<Vec<NodeId>> {
    let mut tied: Vec<Vec<NodeId>> = blocks.iter().map(|range| forward[range.clone()].to_vec()).collect();
    let Some(last) = blocks.len().checked_sub(1) else { return tied };
    let mut at_path: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    let mut touch: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); step.values.len()];
    for (block, nodes) in tied.iter().enumerate() {
        for &node in nodes {
            let node = step.node(node);
            at_path.entry(&node.path).or_default().insert(block);
            for value in node.inputs.iter().chain(&node.outputs) {
                touch[value.index()].insert(block);
            }
        }
    }
    // Of a backward node: its block.
    let mut block_of: Vec<Option<usize>> = vec![None; step.nodes.len()];
    for (id, node) in step.nodes().filter(|(_, node)| node.backward) {
        let before = node.inputs.iter().filter_map(|&value| block_of[step.producer(value)?.index()]);
        let bound = before.min().unwrap_or(last);
        let same_path = at_path.get(node.path.as_str()).filter(|_| !node.path.is_empty());
        let block = match same_path {
            Some(blocks) => allowed(blocks, bound),
            None => allowed(&common(step, &node.inputs, &touch), bound),
        };
        let block = block.unwrap_or(bound);
        block_of[id.index()] = Some(block);
        tied[block].push(id);
    }
    tied
}

fn allowed(blocks: &BTreeSet<usize>, bound: usize) -> Option<usize> {
    blocks.range(..=bound).next_back().copied()
}

/// The blocks that touch every forward value and parameter among `inputs`.
fn common(step: &Step, inputs: &[ValueId], touch: &[BTreeSet<usize>]) -> BTreeSet<usize> {
    let tells = |value: &&ValueId| match step.value(**value).origin {
        Origin::Resident(Source::Parameter { .. }) => true,
        Origin::Resident(_) => false,
        Origin::Node(node) => !step.node(node).backward,
    };
    let mut sets = inputs.iter().filter(tells).map(|value| &touch[value.index()]);
    let Some(first) = sets.next() else { return BTreeSet::new() };
    sets.fold(first.clone(), |common, set| common.intersection(set).copied().collect())
}
