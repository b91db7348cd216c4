//! The graph as flat arrays, for solvers that look at it millions of times.
//!
//! Numbers are plain here: nodes and values are `u32` indices, bytes are `i64` (a graph's total is at most 2^62).
//! One thing is added to the graph: consecutive nodes with side effects are linked by a zero-byte token, so that law S5
//! (effects keep their order) becomes an ordinary dependency and no move needs to know it.

use rk_plan::{Bytes, Graph, NodeId, Sequence, arena, may_overwrite};

/// No node, no value.
pub(crate) const NONE: u32 = u32::MAX;

/// Rows of unequal length in one array.
pub(crate) struct Csr {
    start: Vec<u32>,
    items: Vec<u32>,
}

impl Csr {
    pub(crate) fn new(rows: &[Vec<u32>]) -> Self {
        let mut start = vec![0];
        let mut items = Vec::new();
        for row in rows {
            items.extend_from_slice(row);
            start.push(items.len() as u32);
        }
        Self { start, items }
    }

    pub(crate) fn row(&self, index: u32) -> &[u32] {
        &self.items[self.start[index as usize] as usize..self.start[index as usize + 1] as usize]
    }
}

/// See the module.
pub(crate) struct FlatGraph {
    /// Ticks of one run, per node.
    pub(crate) time: Vec<u64>,
    /// Bytes while running, per node.
    pub(crate) workspace: Vec<i64>,
    /// Generator state in bytes, per node.
    pub(crate) state: Vec<i64>,
    /// May not run twice, per node.
    pub(crate) once: Vec<bool>,
    /// Values read, per node.
    pub(crate) reads: Csr,
    /// Values made, per node.
    pub(crate) writes: Csr,
    /// The value whose buffer a node takes over if it can, or `NONE`.
    pub(crate) over: Vec<u32>,
    /// Size, per value.
    pub(crate) bytes: Vec<i64>,
    /// Node, per value.
    pub(crate) producer: Vec<u32>,
    /// Alive at the end, per value.
    pub(crate) pinned: Vec<bool>,
    /// Reading nodes, per value.
    pub(crate) readers: Csr,
    /// Whether some reader may overwrite it, per value.
    pub(crate) overwritable: Vec<bool>,
    /// The index here of each value of the graph.
    pub(crate) index: Vec<u32>,
}

impl FlatGraph {
    pub(crate) fn new(graph: &Graph) -> Self {
        let n = graph.len();
        let (mut reads, mut writes) = (vec![Vec::new(); n], vec![Vec::new(); n]);
        let (mut bytes, mut producer, mut pinned) = (Vec::new(), Vec::new(), Vec::new());
        let mut over = vec![NONE; n];
        // Tokens shift the numbering of values; `index` maps those of the graph.
        let mut index = Vec::with_capacity(graph.values().len());
        let last_once = graph.nodes().iter().rposition(|node| node.once);
        let mut token = None;
        for (node, about) in graph.nodes().iter().enumerate() {
            reads[node] = about.reads.iter().map(|value| index[value.index()]).collect();
            if let Some(value) = may_overwrite(graph, NodeId::from_index(node)) {
                over[node] = index[value.index()];
            }
            let mut make = |size: i64, keep: bool| {
                bytes.push(size);
                producer.push(node as u32);
                pinned.push(keep);
                writes[node].push(bytes.len() as u32 - 1);
                bytes.len() as u32 - 1
            };
            for &value in &about.writes {
                let value = graph.value(value);
                index.push(make(i64::try_from(value.bytes.0).unwrap_or(i64::MAX), value.pinned));
            }
            if about.once {
                reads[node].extend(token.take());
                token = (Some(node) != last_once).then(|| make(0, false));
            }
        }
        let mut readers = vec![Vec::new(); bytes.len()];
        for (node, row) in reads.iter().enumerate() {
            for &value in row {
                readers[value as usize].push(node as u32);
            }
        }
        let mut overwritable = vec![false; bytes.len()];
        over.iter().filter(|&&value| value != NONE).for_each(|&value| overwritable[value as usize] = true);
        let column = |get: fn(&rk_plan::Node) -> u64| -> Vec<i64> {
            graph.nodes().iter().map(|node| i64::try_from(get(node)).unwrap_or(i64::MAX)).collect()
        };
        Self {
            time: graph.nodes().iter().map(|node| node.time.0).collect(),
            workspace: column(|node| node.workspace.0),
            state: column(|node| node.state.0),
            once: graph.nodes().iter().map(|node| !node.is_repeatable()).collect(),
            reads: Csr::new(&reads),
            writes: Csr::new(&writes),
            over,
            bytes,
            producer,
            pinned,
            readers: Csr::new(&readers),
            overwritable,
            index,
        }
    }

    /// The same with all sizes rounded up, as an arena has them.
    pub(crate) fn aligned(graph: &Graph, alignment: Bytes) -> Self {
        let mut model = Self::new(graph);
        let alignment = i64::try_from(alignment.0.max(1)).unwrap_or(1);
        for size in model.bytes.iter_mut().chain(&mut model.workspace).chain(&mut model.state) {
            *size = size.saturating_add(alignment - 1) / alignment * alignment;
        }
        model
    }

    /// The same in grains of [`arena::Arena::grain`], each size rounded to the nearest.
    pub(crate) fn coarse(graph: &Graph, alignment: Bytes, grain: Bytes) -> Self {
        let mut model = Self::aligned(graph, alignment);
        for size in model.bytes.iter_mut().chain(&mut model.workspace).chain(&mut model.state) {
            let rounded = arena::rounded(u64::try_from(*size).unwrap_or(0), grain.0);
            *size = i64::try_from(rounded).unwrap_or(i64::MAX);
        }
        model
    }

    pub(crate) fn len(&self) -> usize {
        self.time.len()
    }

    pub(crate) fn values(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of all outputs of a node.
    pub(crate) fn output_bytes(&self, node: u32) -> i64 {
        self.writes.row(node).iter().map(|&value| self.bytes[value as usize]).sum()
    }
}

pub(crate) fn to_sequence(nodes: &[u32]) -> Sequence {
    nodes.iter().map(|&node| NodeId(node)).collect()
}

pub(crate) fn from_sequence(sequence: &Sequence) -> Vec<u32> {
    sequence.0.iter().map(|node| node.0).collect()
}
