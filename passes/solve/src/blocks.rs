//! A training step as a chain of blocks: separators of the forward part, and which backward nodes belong to which block.
//!
//! A *separator* is a value through which every path from the past to the future of the forward part passes: at its
//! position it is the only value with bytes that later forward nodes read. Blocks are what lies between. The backward part
//! is divided at positions from which on only values of blocks up to `i` are read; among the possible positions, where the
//! fewest bytes of gradients cross.
//!
//! Equal blocks (same times, sizes and wiring) form a class, so that what is worth knowing is computed once per class.
//!
//! Source: rk-GB's sequentialisation; rotor's chains. Not here: graphs whose backward part visits blocks in another order;
//! they come out as few, large blocks.

use std::ops::Range;

use rk_plan::{Graph, NodeId, ValueId};

use crate::kcut::split;

/// A block of the chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Its forward nodes.
    pub forward: Range<usize>,
    /// Its backward nodes.
    pub backward: Range<usize>,
    /// The value that later blocks read; the last block has none.
    pub output: Option<ValueId>,
}

/// The chain of a graph: at least one block.
pub fn chain(graph: &Graph) -> Vec<Block> {
    let split = split(graph).min(graph.len());
    let outputs = separators(graph, split);
    let mut blocks = Vec::new();
    let mut start = 0;
    for &value in &outputs {
        let end = graph.value(value).producer.index() + 1;
        blocks.push(Block { forward: start..end, backward: 0..0, output: Some(value) });
        start = end;
    }
    blocks.push(Block { forward: start..split, backward: 0..0, output: None });
    let mut begin = split;
    for index in (0..blocks.len()).rev() {
        let end =
            if index == 0 { graph.len() } else { boundary(graph, split, blocks[index].forward.start, begin) };
        blocks[index].backward = begin..end;
        begin = end;
    }
    blocks
}

/// Values that alone lead from the forward nodes up to their producer to the later ones.
fn separators(graph: &Graph, split: usize) -> Vec<ValueId> {
    let mut open: Vec<(ValueId, usize)> = Vec::new();
    let mut found = Vec::new();
    for position in 0..split {
        for &value in &graph.nodes()[position].writes {
            let last = graph.readers(value).iter().map(|reader| reader.index()).filter(|&r| r < split).max();
            if let (Some(last), true) = (last, graph.value(value).bytes.0 > 0) {
                open.push((value, last));
            }
        }
        open.retain(|&(_, last)| last > position);
        if let [(value, _)] = open[..] {
            // Where the block ends, the separator has just been made.
            if graph.value(value).producer.index() == position {
                found.push(value);
            }
        }
    }
    found
}

/// Where the backward part is done with everything made at `start` and later in the forward part.
fn boundary(graph: &Graph, split: usize, start: usize, begin: usize) -> usize {
    let oldest = |position: usize| {
        let reads = graph.nodes()[position].reads.iter().map(|&v| graph.value(v).producer.index());
        reads.filter(|&producer| producer < split).collect::<Vec<usize>>()
    };
    let done = (begin..graph.len()).rev().find(|&p| oldest(p).iter().any(|&node| node >= start));
    let first = done.map_or(begin, |done| done + 1);
    // Until the first node that reads something of the block before, other than its output.
    let limit = (first..graph.len()).find(|&p| oldest(p).iter().any(|&node| node + 1 < start));
    let crossing = |position: usize| -> u64 {
        let values = graph.nodes()[split..position].iter().flat_map(|node| &node.writes);
        let alive =
            values.filter(|&&v| graph.readers(v).last().is_some_and(|reader| reader.index() >= position));
        alive.map(|&v| graph.value(v).bytes.0).sum()
    };
    // A few positions: what is long is not near a boundary.
    let candidates = first..=limit.unwrap_or(first).min(first + 12);
    candidates.min_by_key(|&position| (crossing(position), position)).unwrap_or(first)
}

/// What makes two blocks equal: times, sizes, and wiring in relative terms.
pub fn signature(graph: &Graph, block: &Block) -> Vec<u64> {
    let mut signature = Vec::new();
    let first_value = |node: usize| graph.nodes()[node].writes.first().map_or(0, |value| value.index());
    let (forward, backward) = (block.forward.start, block.backward.start);
    for position in block.forward.clone().chain(block.backward.clone()) {
        let node = &graph.nodes()[position];
        signature.extend([u64::MAX, node.time.0, node.workspace.0, node.state.0, u64::from(node.once)]);
        for &read in &node.reads {
            let producer = graph.value(read).producer.index();
            let output = (read.index() - first_value(producer)) as u64;
            // Relative to the half of the block that it lies in; what lies outside is only "outside".
            let place = if block.forward.contains(&producer) {
                1 + (producer - forward) as u64
            } else if block.backward.contains(&producer) {
                (1 << 32) + (producer - backward) as u64
            } else {
                0
            };
            signature.extend([place, output, graph.value(read).bytes.0]);
        }
        signature.push(u64::MAX - 1);
        signature.extend(node.writes.iter().map(|&value| graph.value(value).bytes.0));
    }
    signature
}

/// The nodes of a range.
pub(crate) fn ids(range: Range<usize>) -> impl DoubleEndedIterator<Item = NodeId> {
    range.map(NodeId::from_index)
}
