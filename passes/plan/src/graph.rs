//! The problem: nodes with costs, values with sizes, and who reads what.
//!
//! Nodes stand in the given order, which is itself a legal schedule: every read is produced by an earlier node.
//! Graph inputs and parameters are resident and are not values here. A graph is made by [`GraphBuilder`], which refuses
//! what would make a plan meaningless; once built it never changes.
//!
//! What the fields of a [`Node`] mean is part of the laws of a schedule (see [`mod@crate::judge`]).

use crate::units::{Bytes, NodeId, Time, ValueId};

/// Which half of the training step a node belongs to. Solvers use it as a hint only; the judge ignores it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Before the loss, or the loss.
    Forward,
    /// After the loss.
    Backward,
    /// No such split.
    #[default]
    Other,
}

/// One computation: written once, run at least once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// For people; need not be unique.
    pub name: String,
    /// The module of the network whose call it is, for people; empty where nobody said.
    pub module: String,
    /// Forward, backward or neither.
    pub kind: Kind,
    /// Ticks of one run.
    pub time: Time,
    /// Extra bytes, only while the node runs.
    pub workspace: Bytes,
    /// The values read, in increasing order, each once.
    pub reads: Vec<ValueId>,
    /// The outputs, all made by every run, each with a lifetime of its own.
    pub writes: Vec<ValueId>,
    /// A value among `reads` in whose buffer the first output may be written, if nothing needs it afterwards and both
    /// have the same size.
    pub overwrites: Option<ValueId>,
    /// Bytes of random-generator state that are kept from the first run to the last one, if there is more than one.
    pub state: Bytes,
    /// Has a side effect: runs exactly once, in the given order relative to the other such nodes (S5).
    pub once: bool,
    /// Reads what the caller may change as soon as the outputs are in its hands: runs once, before the hand-over (S9).
    pub lent: bool,
    /// The hand-over: here the caller gets the outputs, and comes back with their gradients.
    pub hands_over: bool,
}

impl Node {
    /// Whether it may run a second time.
    pub fn is_repeatable(&self) -> bool {
        !self.once && !self.lent
    }
}

/// What a run of a node makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    /// For people; need not be unique.
    pub name: String,
    /// The size. Zero-byte values serve as ordering tokens.
    pub bytes: Bytes,
    /// The node that makes it.
    pub producer: NodeId,
    /// An output of the step: alive after its end.
    pub pinned: bool,
}

/// What a caller knows about a node before it has ids. `..NodeSpec::default()` fills in the rest.
#[derive(Clone, Debug, Default)]
pub struct NodeSpec {
    /// See [`Node::name`].
    pub name: String,
    /// See [`Node::module`].
    pub module: String,
    /// See [`Node::kind`].
    pub kind: Kind,
    /// See [`Node::time`].
    pub time: Time,
    /// See [`Node::workspace`].
    pub workspace: Bytes,
    /// In any order; repeated reads count once.
    pub reads: Vec<ValueId>,
    /// The outputs in order.
    pub outputs: Vec<OutputSpec>,
    /// See [`Node::overwrites`].
    pub overwrites: Option<ValueId>,
    /// See [`Node::state`].
    pub state: Bytes,
    /// See [`Node::once`].
    pub once: bool,
    /// See [`Node::lent`].
    pub lent: bool,
    /// See [`Node::hands_over`].
    pub hands_over: bool,
}

/// One output of a [`NodeSpec`].
#[derive(Clone, Debug, Default)]
pub struct OutputSpec {
    /// See [`Value::name`].
    pub name: String,
    /// See [`Value::bytes`].
    pub bytes: Bytes,
    /// See [`Value::pinned`].
    pub pinned: bool,
}

/// Why a graph cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    /// A read of a value that no earlier node makes: unknown, later, or its own (a cycle).
    #[error("node {position} ({name:?}) reads value {value}, which no earlier node makes")]
    ReadsUnknownValue {
        /// The position of the reader.
        position: usize,
        /// The name of the reader.
        name: String,
        /// The index of the value.
        value: u32,
    },
    /// `overwrites` names something that the node does not read.
    #[error("node {position} ({name:?}) overwrites value {value}, which it does not read")]
    OverwritesUnread {
        /// The position of the node.
        position: usize,
        /// The name of the node.
        name: String,
        /// The index of the value.
        value: u32,
    },
    /// The sizes cannot be added in 64 bits with room to spare.
    #[error("the bytes of all values and workspaces add up to more than 2^62, at node {position} ({name:?})")]
    TooManyBytes {
        /// Where the limit was passed.
        position: usize,
        /// The name of that node.
        name: String,
    },
    /// The times cannot be added in 64 bits with room to spare.
    #[error("the times of all nodes add up to more than 2^56 ticks, at node {position} ({name:?})")]
    TooMuchTime {
        /// Where the limit was passed.
        position: usize,
        /// The name of that node.
        name: String,
    },
    /// A graph without nodes has no schedule and no peak.
    #[error("the graph has no nodes")]
    Empty,
    /// More than 2^31 nodes or values.
    #[error("the graph has too many nodes or values")]
    TooLarge,
}

/// Nodes and values in the given order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Graph {
    name: String,
    time_unit: String,
    ticks_per_unit: u64,
    nodes: Vec<Node>,
    values: Vec<Value>,
    readers: Vec<Vec<NodeId>>,
}

impl Graph {
    /// The name, for reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The unit of the costs as their author named it ("us").
    pub fn time_unit(&self) -> &str {
        &self.time_unit
    }

    /// How many ticks make one time unit: a power of ten.
    pub fn ticks_per_unit(&self) -> u64 {
        self.ticks_per_unit
    }

    /// The number of nodes, at least 1.
    #[expect(clippy::len_without_is_empty, reason = "a graph is never empty")]
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The nodes in the given order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// The values in the order of their producers.
    pub fn values(&self) -> &[Value] {
        &self.values
    }

    /// All node ids in the given order.
    pub fn node_ids(&self) -> impl DoubleEndedIterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::from_index)
    }

    /// The node with this id, which must be of this graph.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// The value with this id, which must be of this graph.
    pub fn value(&self, value: ValueId) -> &Value {
        &self.values[value.index()]
    }

    /// The nodes that read a value, in the given order.
    pub fn readers(&self, value: ValueId) -> &[NodeId] {
        &self.readers[value.index()]
    }

    /// The sum of the times of all nodes: no legal schedule takes less.
    pub fn total_time(&self) -> Time {
        self.nodes.iter().map(|node| node.time).sum()
    }

    /// Ticks as a number of time units, without trailing zeros ("47945.02").
    pub fn time_text(&self, time: Time) -> String {
        let (whole, rest) = (time.0 / self.ticks_per_unit, time.0 % self.ticks_per_unit);
        if rest == 0 {
            return whole.to_string();
        }
        let digits = self.ticks_per_unit.ilog10() as usize;
        format!("{whole}.{}", format!("{rest:0digits$}").trim_end_matches('0'))
    }
}

/// Builds a [`Graph`] node by node, in the given order.
#[derive(Clone, Debug)]
pub struct GraphBuilder {
    graph: Graph,
    bytes: u64,
    time: u64,
}

/// Peaks are sums of sizes, and solvers subtract them in signed 64-bit numbers.
const MOST_BYTES: u64 = 1 << 62;
/// Leaves a factor of 256 for recomputation before sums of times saturate.
const MOST_TIME: u64 = 1 << 56;
const MOST_IDS: usize = 1 << 31;

impl GraphBuilder {
    /// An empty graph whose ticks are microseconds.
    pub fn new(name: impl Into<String>) -> Self {
        let graph = Graph {
            name: name.into(),
            time_unit: "us".into(),
            ticks_per_unit: 1,
            nodes: Vec::new(),
            values: Vec::new(),
            readers: Vec::new(),
        };
        Self { graph, bytes: 0, time: 0 }
    }

    /// Names the unit of time and how many ticks make one: `("us", 1000)` for times in nanoseconds.
    /// Values that are not a power of ten up to 10^18 are rounded down to one.
    pub fn time_unit(mut self, unit: impl Into<String>, ticks_per_unit: u64) -> Self {
        self.graph.time_unit = unit.into();
        self.graph.ticks_per_unit = 10u64.pow(ticks_per_unit.max(1).ilog10().min(18));
        self
    }

    /// Adds a node after all others.
    ///
    /// # Errors
    /// [`GraphError`] when it reads something that does not exist yet, or when sums would leave 64 bits.
    pub fn add(&mut self, spec: NodeSpec) -> Result<NodeId, GraphError> {
        let position = self.graph.nodes.len();
        let id = NodeId::from_index(position);
        let NodeSpec {
            mut reads,
            outputs,
            name,
            module,
            kind,
            time,
            workspace,
            overwrites,
            state,
            once,
            lent,
            hands_over,
        } = spec;
        reads.sort_unstable();
        reads.dedup();
        let made = self.graph.values.len();
        if position >= MOST_IDS || made + outputs.len() >= MOST_IDS {
            return Err(GraphError::TooLarge);
        }
        if let Some(unknown) = reads.iter().find(|value| value.index() >= made) {
            return Err(GraphError::ReadsUnknownValue { position, name, value: unknown.0 });
        }
        if let Some(value) = overwrites.filter(|value| reads.binary_search(value).is_err()) {
            return Err(GraphError::OverwritesUnread { position, name, value: value.0 });
        }
        let add = |sum: u64, bytes: Bytes| sum.checked_add(bytes.0).filter(|&sum| sum <= MOST_BYTES);
        let sizes = outputs.iter().map(|output| output.bytes).chain([workspace, state]);
        let bytes = sizes.clone().try_fold(self.bytes, add);
        let time_sum = self.time.checked_add(time.0).filter(|&sum| sum <= MOST_TIME);
        self.bytes = bytes.ok_or_else(|| GraphError::TooManyBytes { position, name: name.clone() })?;
        self.time = time_sum.ok_or_else(|| GraphError::TooMuchTime { position, name: name.clone() })?;
        for read in &reads {
            self.graph.readers[read.index()].push(id);
        }
        let writes = (made..made + outputs.len()).map(ValueId::from_index).collect();
        for OutputSpec { name, bytes, pinned } in outputs {
            self.graph.values.push(Value { name, bytes, producer: id, pinned });
            self.graph.readers.push(Vec::new());
        }
        self.graph.nodes.push(Node {
            name,
            module,
            kind,
            time,
            workspace,
            reads,
            writes,
            overwrites,
            state,
            once,
            lent,
            hands_over,
        });
        Ok(id)
    }

    /// The value that output `index` of a node became, if it exists.
    pub fn output(&self, node: NodeId, index: usize) -> Option<ValueId> {
        self.graph.nodes.get(node.index())?.writes.get(index).copied()
    }

    /// Declares a value an output of the step, after the fact.
    pub fn pin(&mut self, value: ValueId) {
        if let Some(value) = self.graph.values.get_mut(value.index()) {
            value.pinned = true;
        }
    }

    /// The finished graph.
    ///
    /// # Errors
    /// [`GraphError::Empty`] without nodes.
    pub fn finish(self) -> Result<Graph, GraphError> {
        if self.graph.nodes.is_empty() { Err(GraphError::Empty) } else { Ok(self.graph) }
    }
}
