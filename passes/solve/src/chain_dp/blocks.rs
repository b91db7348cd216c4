//! A training step as a chain of blocks: separators of the forward part, and which backward nodes belong to which block.
//!
//! A *separator* is a value through which every path from the past to the future of the forward part passes: at its
//! position it is the only value with bytes that later forward nodes read, but for shared ones (see `shared`). Blocks are what lies
//! between. The backward part is divided at positions from which on only values of blocks up to `i` are read; among the
//! possible positions, where the fewest bytes of gradients cross.
//!
//! Equal blocks (same times, sizes and wiring) form a class, so that what is worth knowing is computed once per class.
//!
//! Why no graph algorithm: between a source and a sink, petgraph's dominators are other values in 6 of the 12 benchmark graphs. A node that
//! reads nothing of the forward part begins a path of its own: with its 72 dropout masks, gpt2_L24 has 50 separators and 2 dominators.
//! Articulation points are the separators and the masks. Dominators alone take three times as long as the whole chain (144 us and 47 us).
//!
//! Source: rk-GB's sequentialisation; rotor's chains. Not here: graphs whose backward part visits blocks in another order;
//! they come out as few, large blocks.

use std::ops::Range;

use rk_plan::{Graph, NodeId, ValueId, base_trace};

use crate::bound::fixed_order::split;

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

/// Forward readers of a value that is shared, at least.
const SHARED_READERS: usize = 3;
/// A shared value lives for one part in this many of the forward nodes, at least.
const SHARED_LIFE: usize = 4;
/// All shared values together take one part in this many of the base peak, at most.
const SHARED_BYTES: u64 = 20;

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
    let backward = Backward::new(graph, split);
    let mut begin = split;
    for index in (0..blocks.len()).rev() {
        let end =
            if index == 0 { graph.len() } else { backward.boundary(blocks[index].forward.start, begin) };
        blocks[index].backward = begin..end;
        begin = end;
    }
    blocks
}

/// `count` blocks in one, from the front.
pub(crate) fn merged(blocks: &[Block], count: usize) -> Vec<Block> {
    blocks.chunks(count).map(joined).collect()
}

/// Neighbours as one block.
pub(crate) fn joined(blocks: &[Block]) -> Block {
    let (first, last) = (&blocks[0], &blocks[blocks.len() - 1]);
    Block {
        forward: first.forward.start..last.forward.end,
        backward: last.backward.start..first.backward.end,
        output: last.output,
    }
}

/// Values that alone lead from the forward nodes up to their producer to the later ones.
fn separators(graph: &Graph, split: usize) -> Vec<ValueId> {
    let shared = shared(graph, split);
    let mut open: Vec<(ValueId, usize)> = Vec::new();
    let mut found = Vec::new();
    for position in 0..split {
        for &value in &graph.nodes()[position].writes {
            let counts = graph.value(value).bytes.0 > 0 && !shared[value.index()];
            if let Some(last) = forward_readers(graph, value, split).next_back().filter(|_| counts) {
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

/// Forward nodes that read a value, ascending.
fn forward_readers(graph: &Graph, value: ValueId, split: usize) -> impl DoubleEndedIterator<Item = usize> {
    graph.readers(value).iter().map(|reader| reader.index()).filter(move |&reader| reader < split)
}

/// Values that many blocks read, as a mask, positions, or what a decoder knows of the encoder: they lie beside the chain, and are
/// kept as they would be in any case. None if they take much: then they are what the network is about.
fn shared(graph: &Graph, split: usize) -> Vec<bool> {
    let mut bytes = 0;
    let shared: Vec<bool> = (0..graph.values().len())
        .map(|index| {
            let (id, value) = (ValueId::from_index(index), &graph.values()[index]);
            let last = forward_readers(graph, id, split).next_back().unwrap_or(0);
            let long = SHARED_LIFE * last.saturating_sub(value.producer.index()) >= split;
            let shared = long && forward_readers(graph, id, split).count() >= SHARED_READERS;
            bytes += if shared { value.bytes.0 } else { 0 };
            shared
        })
        .collect();
    let few = bytes.saturating_mul(SHARED_BYTES) <= base_trace(graph).peak.0;
    if few { shared } else { vec![false; shared.len()] }
}

/// The backward part, position by position.
struct Backward {
    split: usize,
    /// The newest and the oldest forward node of which something is read.
    reads: Vec<Option<(usize, usize)>>,
    /// Bytes of gradients that are alive in front of it.
    crossing: Vec<u64>,
}

impl Backward {
    fn new(graph: &Graph, split: usize) -> Self {
        let nodes = &graph.nodes()[split..];
        let reads = nodes.iter().map(|node| {
            let producers = node.reads.iter().map(|&value| graph.value(value).producer.index());
            let forward = producers.filter(|&producer| producer < split);
            forward.fold(None, |found: Option<(usize, usize)>, producer| {
                let (newest, oldest) = found.unwrap_or((producer, producer));
                Some((newest.max(producer), oldest.min(producer)))
            })
        });
        let mut steps = vec![0i128; nodes.len() + 2];
        for (position, node) in nodes.iter().enumerate() {
            for &value in &node.writes {
                let last = graph.readers(value).last().map_or(0, |reader| reader.index());
                if last > position + split {
                    let bytes = i128::from(graph.value(value).bytes.0);
                    steps[position + 1] += bytes;
                    steps[last - split + 1] -= bytes;
                }
            }
        }
        let crossing = steps.into_iter().scan(0i128, |alive, step| {
            *alive += step;
            Some(u64::try_from(*alive).unwrap_or(u64::MAX))
        });
        Self { split, reads: reads.collect(), crossing: crossing.collect() }
    }

    /// Where it is done with everything made at `start` and later in the forward part.
    fn boundary(&self, start: usize, begin: usize) -> usize {
        let begin = begin - self.split;
        let done =
            self.reads[begin..].iter().rposition(|read| read.is_some_and(|(newest, _)| newest >= start));
        let first = begin + done.map_or(0, |done| done + 1);
        // Until the first node that reads something of the block before, other than its output.
        let limit =
            self.reads[first..].iter().position(|read| read.is_some_and(|(_, oldest)| oldest + 1 < start));
        // A few positions: what is long is not near a boundary.
        let candidates = first..=first + limit.unwrap_or(0).min(12);
        self.split + candidates.min_by_key(|&position| (self.crossing[position], position)).unwrap_or(first)
    }
}

/// What makes two blocks equal: times, sizes, wiring in relative terms, and what is read from outside.
pub fn signature(graph: &Graph, block: &Block) -> Vec<u64> {
    let mut signature = Vec::new();
    let first_value = |node: usize| graph.nodes()[node].writes.first().map_or(0, |value| value.index());
    let (forward, backward) = (block.forward.start, block.backward.start);
    let inside = |node: usize| block.forward.contains(&node) || block.backward.contains(&node);
    for position in block.forward.clone().chain(block.backward.clone()) {
        let node = &graph.nodes()[position];
        signature.extend([
            u64::MAX,
            node.time.0,
            node.workspace.0,
            node.state.0,
            u64::from(node.is_repeatable()),
        ]);
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
        for &value in &node.writes {
            let about = graph.value(value);
            let leaves = graph.readers(value).iter().any(|reader| !inside(reader.index()));
            signature.extend([about.bytes.0, u64::from(about.pinned), u64::from(leaves)]);
        }
    }
    signature
}

/// The nodes of a range.
pub(crate) fn ids(range: Range<usize>) -> impl DoubleEndedIterator<Item = NodeId> {
    range.map(NodeId::from_index)
}
