//! A step that its caller interrupts, as two halves: what each takes, and what lies between them.
//!
//! The hand-over ([`Node::hands_over`](crate::Node::hands_over)) ends the first half. What the step hands out there, and what it
//! gets back, is pinned and in the caller's hands; the rest of what outlives the hand-over is *held* by the step, however long
//! the caller is busy.

use crate::graph::Graph;
use crate::judge::{Fate, Trace};
use crate::schedule::Sequence;
use crate::units::{Bytes, NodeId};

/// The bytes of both halves of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halves {
    /// The most before the hand-over.
    pub forward: Bytes,
    /// Held by the step across the hand-over: values, and kept generator states.
    pub held: Bytes,
    /// Of the caller from the hand-over on: what the step handed out, and what came back for it.
    pub handed: Bytes,
    /// The most after the hand-over, what is of the caller left out.
    pub backward: Bytes,
    /// The same with the gradients that the half makes, which count while they are added to others.
    pub accumulating: Bytes,
}

impl Halves {
    /// Those of a legal sequence and its trace; `None` for a step that nobody interrupts. `gradients` are what nodes make of which
    /// the graph counts no bytes.
    pub fn of(
        graph: &Graph,
        sequence: &Sequence,
        trace: &Trace,
        gradients: &[(NodeId, Bytes)],
    ) -> Option<Self> {
        let at = sequence.0.iter().position(|&node| graph.node(node).hands_over)?;
        // What the first run of the second half overwrites ends here, and is there until then.
        let taken = trace.overwrites.get(at + 1) == Some(&true);
        let overwritten =
            sequence.0.get(at + 1).filter(|_| taken).and_then(|&node| graph.node(node).overwrites);
        let (mut held, mut handed) = (0, 0);
        for instance in trace.instances.iter().filter(|one| one.start <= at && one.end >= at) {
            let bytes = graph.value(instance.value).bytes.0;
            if instance.fate == Fate::Kept || instance.start == at {
                handed += bytes;
            } else if instance.end > at || overwritten == Some(instance.value) {
                held += bytes;
            }
        }
        held += states(graph, sequence, at);
        let most = |memory: &[Bytes]| memory.iter().map(|bytes| bytes.0).max().unwrap_or(0);
        let backward = most(&trace.memory[at + 1..]).max(held + handed);
        let mut made = 0;
        let accumulating = (at + 1..sequence.0.len()).map(|step| {
            let here = gradients.iter().filter(|(node, _)| *node == sequence.0[step]);
            made += here.map(|(_, bytes)| bytes.0).sum::<u64>();
            trace.memory[step].0 + made
        });
        let accumulating = accumulating.max().unwrap_or(0).max(held + handed);
        Some(Self {
            forward: Bytes(most(&trace.memory[..at])),
            held: Bytes(held),
            handed: Bytes(handed),
            backward: Bytes(backward - handed),
            accumulating: Bytes(accumulating - handed),
        })
    }
}

/// Generator states of nodes that run on both sides of `at`.
fn states(graph: &Graph, sequence: &Sequence, at: usize) -> u64 {
    let mut before = vec![false; graph.len()];
    sequence.0[..at].iter().for_each(|node| before[node.index()] = true);
    let mut after = vec![false; graph.len()];
    sequence.0[at + 1..].iter().for_each(|node| after[node.index()] = true);
    let both = (0..graph.len()).filter(|&node| before[node] && after[node]);
    both.map(|node| graph.node(NodeId::from_index(node)).state.0).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphBuilder, NodeSpec, OutputSpec, Time, judge};

    /// With `overwrites`, the gradient takes the place of `b`.
    fn interrupted(overwrites: bool) -> Graph {
        let mut builder = GraphBuilder::new("interrupted");
        let mut made = Vec::new();
        for (name, bytes, pinned, reads) in [
            ("a", 8, false, vec![]),
            ("b", 4, false, vec![0]),
            ("out", 2, true, vec![1]),
            ("hand over", 2, true, vec![2]),
            ("gradient", 4, true, vec![0, 1, 3]),
        ] {
            let spec = NodeSpec {
                name: name.into(),
                time: Time(1),
                reads: reads.into_iter().map(|read: usize| made[read]).collect(),
                outputs: vec![OutputSpec { name: name.into(), bytes: Bytes(bytes), pinned }],
                hands_over: name == "hand over",
                overwrites: (overwrites && name == "gradient").then(|| made[1]),
                ..NodeSpec::default()
            };
            let node = builder.add(spec).expect("a small graph");
            made.extend(builder.output(node, 0));
        }
        builder.finish().expect("a small graph")
    }

    fn of(graph: &Graph, nodes: &[u32], gradients: &[(NodeId, Bytes)]) -> Halves {
        let sequence: Sequence = nodes.iter().map(|&node| NodeId(node)).collect();
        let trace = judge(graph, &sequence).expect("legal");
        Halves::of(graph, &sequence, &trace, gradients).expect("interrupted")
    }

    fn halves(graph: &Graph, nodes: &[u32]) -> [u64; 4] {
        let found = of(graph, nodes, &[]);
        assert_eq!(found.accumulating, found.backward);
        [found.forward, found.held, found.handed, found.backward].map(|bytes| bytes.0)
    }

    #[test]
    fn what_is_held_is_neither_the_callers_nor_made_later() {
        let graph = interrupted(false);
        assert_eq!(halves(&graph, &[0, 1, 2, 3, 4]), [14, 12, 4, 16]);
        assert_eq!(halves(&graph, &[0, 1, 2, 3, 0, 1, 4]), [12, 0, 4, 16]);
    }

    #[test]
    fn what_the_second_half_overwrites_first_is_held() {
        assert_eq!(halves(&interrupted(true), &[0, 1, 2, 3, 4]), [14, 12, 4, 12]);
    }

    #[test]
    fn gradients_that_are_added_to_others_count_from_the_run_that_makes_them() {
        let graph = interrupted(false);
        let found = of(&graph, &[0, 1, 2, 3, 0, 1, 4], &[(NodeId(4), Bytes(5))]);
        assert_eq!((found.backward.0, found.accumulating.0), (16, 21));
        let before = of(&graph, &[0, 1, 2, 3, 4], &[(NodeId(1), Bytes(5))]);
        assert_eq!(before.accumulating, before.backward);
    }
}
