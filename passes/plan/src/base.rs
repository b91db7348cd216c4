//! Quantities that need no solver: the step without rematerialization, and what no schedule can go below.

use crate::graph::Graph;
use crate::judge::{Trace, judge, may_overwrite};
use crate::schedule::Sequence;
use crate::units::{Bytes, NodeId};

/// The trace of the given order with nothing run twice: base peak and base time.
pub fn base_trace(graph: &Graph) -> Trace {
    match judge(graph, &Sequence::base(graph)) {
        Ok(trace) => trace,
        // GraphBuilder admits only graphs whose given order is legal.
        Err(illegal) => unreachable!("the given order of a graph is legal: {illegal}"),
    }
}

/// The bytes that must coexist in every schedule, and the node that shows it: no budget below can work.
///
/// While a node runs, its operands, its outputs and its workspace are there, less what it can write in place.
/// At the end, all pinned values are.
pub fn working_set(graph: &Graph) -> (Bytes, NodeId) {
    let mut most = (Bytes(0), NodeId(0));
    let mut pinned = Bytes(0);
    for (id, node) in graph.node_ids().zip(graph.nodes()) {
        let mut bytes =
            node.reads.iter().chain(&node.writes).map(|&value| graph.value(value).bytes).sum::<Bytes>();
        bytes += node.workspace;
        if may_overwrite(graph, id).is_some() {
            // Counted once: the first output lies in the operand's buffer.
            let first = node.writes.first().map_or(Bytes(0), |&value| graph.value(value).bytes);
            bytes = Bytes(bytes.0 - first.0);
        }
        if bytes > most.0 {
            most = (bytes, id);
        }
        let kept = node.writes.iter().map(|&value| graph.value(value)).filter(|value| value.pinned);
        pinned += kept.map(|value| value.bytes).sum();
        if pinned > most.0 {
            most = (pinned, id);
        }
    }
    most
}
