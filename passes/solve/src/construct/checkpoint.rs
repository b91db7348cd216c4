//! The plan of a checkpoint: of what can be run again, nothing is held while the caller is busy.
//!
//! Forward runs as it stands. After the hand-over each value is rebuilt before its first use there, once. What may not run
//! again (side effects, what reads a loan) is held. It needs no search, and where many graphs share a budget it is
//! what any of them can do at least: the torch.utils.checkpoint of one graph.

use rk_plan::{Graph, Sequence};

use crate::construct::replay::replay;
use crate::state::flat_graph::{FlatGraph, to_sequence};

/// The sequence; `None` for a step that nobody interrupts.
pub fn checkpoint(graph: &Graph) -> Option<Sequence> {
    let at = graph.nodes().iter().position(|node| node.hands_over)? as u32;
    let model = FlatGraph::new(graph);
    let order: Vec<u32> = (0..model.len() as u32).collect();
    let before = |&value: &u32| model.producer[value as usize] < at;
    let evicted: Vec<u32> = (0..model.values() as u32).filter(before).collect();
    Some(to_sequence(&replay(&model, &order, at, &evicted)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rk_plan::{Bytes, GraphBuilder, Halves, NodeSpec, OutputSpec, Time, judge};

    #[test]
    fn only_what_may_not_run_again_is_held() {
        let mut builder = GraphBuilder::new("checkpoint");
        let mut made = Vec::new();
        for (name, bytes, reads) in [
            ("effect", 16, vec![]),
            ("plain", 8, vec![0]),
            ("unread", 4, vec![1]),
            ("hand over", 2, vec![2]),
            ("gradient", 1, vec![1, 3]),
        ] {
            let spec = NodeSpec {
                name: name.into(),
                time: Time(1),
                reads: reads.into_iter().map(|read: usize| made[read]).collect(),
                outputs: vec![OutputSpec { name: name.into(), bytes: Bytes(bytes), pinned: false }],
                once: name == "effect" || name == "hand over",
                hands_over: name == "hand over",
                ..NodeSpec::default()
            };
            let node = builder.add(spec).expect("a small graph");
            made.extend(builder.output(node, 0));
        }
        let graph = builder.finish().expect("a small graph");
        let sequence = checkpoint(&graph).expect("it is interrupted");
        let trace = judge(&graph, &sequence).expect("legal");
        let nodes: Vec<u32> = sequence.0.iter().map(|node| node.0).collect();
        assert_eq!(nodes, [0, 1, 2, 3, 1, 4]);
        assert_eq!(Halves::of(&graph, &sequence, &trace, &[]).expect("halves").held, Bytes(16));
    }
}
