//! The incremental judge against the real one, after every change.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, GraphBuilder, NodeSpec, OutputSpec, Time, judge};

use crate::improve::lns::shift;
use crate::state::flat_graph::{FlatGraph, NONE, to_sequence};
use crate::state::slotted_timeline::SlottedTimeline;

/// `states` is the share of nodes that keep generator state.
pub(crate) fn random_graph(nodes: usize, states: f64, random: &mut ChaCha8Rng) -> Graph {
    let mut builder = GraphBuilder::new("random");
    let mut values = Vec::new();
    for position in 0..nodes {
        let mut spec = NodeSpec { time: Time(random.random_range(0..5)), ..NodeSpec::default() };
        for _ in 0..random.random_range(0..3) {
            if !values.is_empty() {
                let recent = values.len().saturating_sub(6);
                spec.reads.push(values[random.random_range(recent..values.len())]);
            }
        }
        for _ in 0..random.random_range(1..3) {
            let (bytes, pinned) = (Bytes(random.random_range(0..4)), random.random_bool(0.1));
            spec.outputs.push(OutputSpec { bytes, pinned, ..OutputSpec::default() });
        }
        spec.workspace = Bytes(random.random_range(0..3));
        spec.state = Bytes(if random.random_bool(states) { 2 } else { 0 });
        spec.once = random.random_bool(0.1);
        spec.overwrites = spec.reads.first().copied().filter(|_| random.random_bool(0.5));
        let id = builder.add(spec).unwrap_or_else(|error| panic!("node {position}: {error}"));
        values.extend((0..2).filter_map(|index| builder.output(id, index)));
    }
    builder.finish().expect("not empty")
}

fn agree(graph: &Graph, timeline: &SlottedTimeline) {
    let sequence = to_sequence(&timeline.sequence());
    let trace = judge(graph, &sequence).unwrap_or_else(|illegal| panic!("{}", illegal.describe(graph)));
    let used = (1..=timeline.last_slot()).filter(|&slot| timeline.node_at(slot) != NONE);
    let memory: Vec<Bytes> = used.map(|slot| Bytes(timeline.tree().at(slot) as u64)).collect();
    assert_eq!(memory, trace.memory);
    assert_eq!((timeline.peak() as u64, timeline.cost()), (trace.peak.0, trace.time.0));
}

fn change(timeline: &mut SlottedTimeline, random: &mut ChaCha8Rng) {
    let node = random.random_range(0..timeline.model.len() as u32);
    let runs = timeline.runs(node).to_vec();
    match random.random_range(0..3) {
        0 if !timeline.model.once[node as usize] => {
            let before = random.random_range(runs[0] + 1..=timeline.last_slot() + 1);
            let at = timeline.previous_used(before);
            if at > runs[0] && !timeline.reserve(at, 1) {
                let slot = timeline.room_before(at);
                timeline.insert(node, slot);
            }
        }
        1 if runs.len() > 1 => timeline.delete_with_dead(node, runs[random.random_range(1..runs.len())]),
        _ => {
            let (slot, sink, place) =
                (runs[random.random_range(0..runs.len())], random.random(), random.random());
            shift(timeline, node, slot, sink, place);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_tape_judges_as_the_judge_does(seed in any::<u64>(), nodes in 1usize..25) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(nodes, 0.2, &mut random);
        let model = FlatGraph::new(&graph);
        let base: Vec<u32> = (0..nodes as u32).collect();
        let mut timeline = SlottedTimeline::new(&model, &base);
        agree(&graph, &timeline);
        for _ in 0..12 {
            let kept = timeline.sequence();
            for _ in 0..random.random_range(1..8) {
                change(&mut timeline, &mut random);
                agree(&graph, &timeline);
            }
            if random.random_bool(0.5) {
                timeline.commit();
            } else {
                timeline.rollback();
                assert_eq!(timeline.sequence(), kept);
                agree(&graph, &timeline);
            }
        }
    }
}

#[test]
fn a_second_run_may_move_across_uses() {
    let graph = rk_plan::text::read("a 1 1; b(a) 1 1; c(a, b) 1 1; d(a, c) 1 1; e(a, d) 1 1").unwrap();
    let model = FlatGraph::new(&graph);
    let mut timeline = SlottedTimeline::new(&model, &[0, 1, 2, 0, 3, 4]);
    let slot = |timeline: &SlottedTimeline, node: u32| timeline.runs(node)[0];
    let again = timeline.runs(0)[1];
    // Behind the first use of the first run, so that this one stays read; before the last use of its own.
    assert_eq!(timeline.window(0, 1), (slot(&timeline, 1), slot(&timeline, 4)));
    assert_eq!(timeline.window(0, 0), (0, slot(&timeline, 1)));
    // Its own operands may be those of an earlier run.
    assert_eq!(timeline.window(3, 0), (slot(&timeline, 2), slot(&timeline, 4)));
    for target in [slot(&timeline, 1) + 1, slot(&timeline, 4) - 1] {
        timeline.shift(0, again, target);
        agree(&graph, &timeline);
        assert!(!timeline.is_dead(0, 0) && !timeline.is_dead(0, 1));
        timeline.rollback();
    }
}
