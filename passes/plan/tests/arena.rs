//! Layouts of random sequences against a check of every pair of buffers.

use proptest::prelude::*;
use rk_plan::arena::{Arena, check_no_overlap, pack_with};
use rk_plan::{Bytes, Graph, GraphBuilder, NodeId, NodeSpec, OutputSpec, Sequence, Time, judge};

/// A random graph; each node reads up to three earlier values, some write in place or need workspace.
fn graph(nodes: &[(Vec<prop::sample::Index>, u64, u8)]) -> Graph {
    let mut builder = GraphBuilder::new("random");
    let mut made = Vec::new();
    for (reads, bytes, dice) in nodes {
        let reads: Vec<_> = reads.iter().filter(|_| !made.is_empty()).map(|read| *read.get(&made)).collect();
        let overwrites = reads.first().copied().filter(|_| dice % 3 == 0);
        let output = |pinned| OutputSpec { bytes: Bytes(*bytes), pinned, ..OutputSpec::default() };
        let node = builder.add(NodeSpec {
            time: Time(1),
            workspace: Bytes(if dice % 5 == 0 { bytes / 2 } else { 0 }),
            state: Bytes(u64::from(dice % 7 == 0)),
            reads,
            outputs: if dice % 4 == 0 { vec![output(false), output(true)] } else { vec![output(false)] },
            overwrites,
            ..NodeSpec::default()
        });
        let node = node.expect("reads are earlier");
        made.extend((0..2).filter_map(|index| builder.output(node, index)));
    }
    builder.finish().expect("not empty")
}

/// The first pair of buffers that share a byte at a run, by looking at all of them. What overwrites may share.
fn collision(arena: &Arena) -> Option<(usize, usize)> {
    let buffers = &arena.buffers;
    let pairs = (0..buffers.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let meet = |&(one, other): &(usize, usize)| {
        let (a, b) = (&buffers[one], &buffers[other]);
        let together = a.start <= b.end && b.start <= a.end;
        let (low, high) = (a.offset.0.max(b.offset.0), (a.offset.0 + a.bytes.0).min(b.offset.0 + b.bytes.0));
        together && low < high
    };
    pairs.into_iter().find(meet)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_two_buffers_share_a_byte_at_a_run(
        nodes in prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 0..4), 0u64..3000, any::<u8>()), 1..40),
        again in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
        alignment in prop::sample::select(vec![0u64, 1, 7, 512]),
    ) {
        let graph = graph(&nodes);
        let mut runs: Vec<NodeId> = graph.node_ids().collect();
        for (who, after) in again {
            // Anything may run again once it has run.
            let who = NodeId::from_index(who.index(graph.len()));
            let first = runs.iter().position(|&run| run == who).expect("every node runs");
            runs.insert(first + 1 + after.index(runs.len() - first), who);
        }
        let sequence = Sequence(runs);
        let trace = judge(&graph, &sequence).expect("legal");
        let arena = pack_with(&graph, &sequence, &trace, Bytes(alignment), 200_000);
        prop_assert_eq!(collision(&arena), None);
        prop_assert_eq!(check_no_overlap(&arena), Ok(()));
        let top = arena.buffers.iter().map(|buffer| buffer.offset.0 + buffer.bytes.0).max().unwrap_or(0);
        prop_assert!(top <= arena.size.0 && arena.size >= arena.lower_bound && arena.lower_bound >= trace.peak);
        prop_assert!(arena.buffers.iter().all(|buffer| buffer.offset.0.is_multiple_of(alignment.max(1))));
        prop_assert_eq!(pack_with(&graph, &sequence, &trace, Bytes(alignment), 200_000), arena);
    }
}
