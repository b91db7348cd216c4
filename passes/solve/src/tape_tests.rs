//! The incremental judge against the real one, after every change.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, GraphBuilder, NodeSpec, OutputSpec, Time, judge};

use crate::model::{Model, NONE, to_sequence};
use crate::search::shift;
use crate::tape::Tape;

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

fn agree(graph: &Graph, tape: &Tape) {
    let sequence = to_sequence(&tape.sequence());
    let trace = judge(graph, &sequence).unwrap_or_else(|illegal| panic!("{}", illegal.describe(graph)));
    let used = (1..=tape.last_slot()).filter(|&slot| tape.node_at(slot) != NONE);
    let memory: Vec<Bytes> = used.map(|slot| Bytes(tape.tree().at(slot) as u64)).collect();
    assert_eq!(memory, trace.memory);
    assert_eq!((tape.peak() as u64, tape.cost()), (trace.peak.0, trace.time.0));
}

fn change(tape: &mut Tape, random: &mut ChaCha8Rng) {
    let node = random.random_range(0..tape.model.len() as u32);
    let runs = tape.runs(node).to_vec();
    match random.random_range(0..3) {
        0 if !tape.model.once[node as usize] => {
            let before = random.random_range(runs[0] + 1..=tape.last_slot() + 1);
            let at = tape.previous_used(before);
            if at > runs[0] && !tape.reserve(at, 1) {
                let slot = tape.room_before(at);
                tape.insert(node, slot);
            }
        }
        1 if runs.len() > 1 => tape.delete_with_dead(node, runs[random.random_range(1..runs.len())]),
        _ => {
            let (slot, sink, place) =
                (runs[random.random_range(0..runs.len())], random.random(), random.random());
            shift(tape, node, slot, sink, place);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn the_tape_judges_as_the_judge_does(seed in any::<u64>(), nodes in 1usize..25) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(nodes, 0.2, &mut random);
        let model = Model::new(&graph);
        let base: Vec<u32> = (0..nodes as u32).collect();
        let mut tape = Tape::new(&model, &base);
        agree(&graph, &tape);
        for _ in 0..12 {
            let kept = tape.sequence();
            for _ in 0..random.random_range(1..8) {
                change(&mut tape, &mut random);
                agree(&graph, &tape);
            }
            if random.random_bool(0.5) {
                tape.commit();
            } else {
                tape.rollback();
                assert_eq!(tape.sequence(), kept);
                agree(&graph, &tape);
            }
        }
    }
}

#[test]
fn a_second_run_may_move_across_uses() {
    let graph = rk_plan::text::read("a 1 1; b(a) 1 1; c(a, b) 1 1; d(a, c) 1 1; e(a, d) 1 1").unwrap();
    let model = Model::new(&graph);
    let mut tape = Tape::new(&model, &[0, 1, 2, 0, 3, 4]);
    let slot = |tape: &Tape, node: u32| tape.runs(node)[0];
    let again = tape.runs(0)[1];
    // Behind the first use of the first run, so that this one stays read; before the last use of its own.
    assert_eq!(tape.window(0, 1), (slot(&tape, 1), slot(&tape, 4)));
    assert_eq!(tape.window(0, 0), (0, slot(&tape, 1)));
    // Its own operands may be those of an earlier run.
    assert_eq!(tape.window(3, 0), (slot(&tape, 2), slot(&tape, 4)));
    for target in [slot(&tape, 1) + 1, slot(&tape, 4) - 1] {
        tape.shift(0, again, target);
        agree(&graph, &tape);
        assert!(!tape.is_dead(0, 0) && !tape.is_dead(0, 1));
        tape.rollback();
    }
}
