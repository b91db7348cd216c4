//! Layouts of random sequences against a check of every pair of buffers.

use proptest::prelude::*;
use rk_plan::arena::{Arena, Misplaced, Owner, check_no_overlap, is_plain, pack_with, placed_at, settled};
use rk_plan::{Bytes, Fate, Graph, GraphBuilder, NodeId, NodeSpec, OutputSpec, Sequence, Time, Trace, judge};

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

/// Whether every value that is overwritten in place lies where what overwrites it does, by looking for that.
fn heirs_stay(graph: &Graph, trace: &Trace, arena: &Arena) -> bool {
    let overwritten = arena.buffers.iter().zip(&trace.instances);
    overwritten.filter(|(_, instance)| instance.fate == Fate::Overwritten).all(|(buffer, instance)| {
        let takes_over = |heir: &&rk_plan::arena::Buffer| match heir.owner {
            Owner::Instance(_, value) => {
                heir.start == instance.end + 1
                    && graph.node(graph.value(value).producer).writes.first() == Some(&value)
            }
            _ => false,
        };
        arena.buffers.iter().find(takes_over).is_some_and(|heir| heir.offset == buffer.offset)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn no_two_buffers_share_a_byte_at_a_run(
        nodes in prop::collection::vec((prop::collection::vec(any::<prop::sample::Index>(), 0..4), 0u64..3000, any::<u8>()), 1..40),
        again in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..20),
        alignment in prop::sample::select(vec![0u64, 1, 7, 512]),
        moved in prop::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), -1i8..2), 1..3),
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
        prop_assert_eq!(pack_with(&graph, &sequence, &trace, Bytes(alignment), 200_000), arena.clone());
        let plain = |effort| pack_with(&graph, &sequence, &trace, Bytes(alignment), effort) == arena;
        prop_assert!(!is_plain(&graph, &sequence, &trace, &arena) || (plain(0) && plain(1_000_000)));

        // From its offsets the same layout is made; after some of them changed, whatever is no layout is refused.
        let placed = |offsets: &[Bytes]| placed_at(&graph, &sequence, &trace, Bytes(alignment), offsets);
        let mut offsets = arena.offsets();
        prop_assert_eq!(placed(&offsets), Ok(arena.clone()));
        // Settled in the same order it is no higher, and in any other it is a layout, too.
        let lies = |owner, start| arena.buffers.iter().find(|buffer| (buffer.owner, buffer.start) == (owner, start));
        let again = settled(&graph, &sequence, &trace, Bytes(alignment), |owner, start| lies(owner, start).map_or(Bytes(0), |buffer| buffer.offset));
        prop_assert!(again.is_ok_and(|again| again.size <= arena.size && collision(&again).is_none()));
        let hash = |start: usize| Bytes((start as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let other = settled(&graph, &sequence, &trace, Bytes(alignment), |_, start| hash(start));
        prop_assert!(other.is_ok_and(|other| collision(&other).is_none() && heirs_stay(&graph, &trace, &other)));
        let count = offsets.len();
        if count == 0 {
            return Ok(());
        }
        let short = Err(Misplaced::Count { given: count - 1, needed: count });
        prop_assert_eq!(placed(&offsets[1..]), short);
        for (whose, to, slip) in moved {
            let slip = i64::from(slip) * alignment.max(1) as i64;
            offsets[whose.index(count)] = Bytes(offsets[to.index(count)].0.saturating_add_signed(slip));
        }
        let mut other = arena.clone();
        let solid = other.buffers.iter_mut().filter(|buffer| buffer.bytes.0 > 0);
        solid.zip(&offsets).for_each(|(buffer, &offset)| buffer.offset = offset);
        let legal = collision(&other).is_none() && heirs_stay(&graph, &trace, &other);
        let made = placed(&offsets);
        prop_assert_eq!(made.is_ok(), legal, "{:?}", made);
        if let Ok(made) = made {
            prop_assert_eq!(made.buffers, other.buffers);
        }
        let aside = offsets.iter().enumerate().map(|(at, &offset)| Bytes(offset.0 + u64::from(at == 0))).collect::<Vec<_>>();
        prop_assert!(alignment < 2 || placed(&aside).is_err());
        let beyond = offsets.iter().enumerate().map(|(at, &offset)| if at == 0 { Bytes(u64::MAX) } else { offset }).collect::<Vec<_>>();
        prop_assert!(placed(&beyond).is_err());
    }
}
