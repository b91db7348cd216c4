//! The timeline against the judge, after every change.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Graph, judge};

use crate::state::dense_timeline::DenseTimeline;
use crate::state::flat_graph::{FlatGraph, to_sequence};
use crate::state::slotted_timeline_tests::random_graph;

const BUDGET: i64 = 6;

fn agree(graph: &Graph, timeline: &DenseTimeline) {
    let trace = judge(graph, &to_sequence(&timeline.sequence()))
        .unwrap_or_else(|illegal| panic!("{}", illegal.describe(graph)));
    let over: Vec<i64> = trace.memory.iter().map(|memory| memory.0 as i64 - BUDGET).collect();
    assert_eq!((0..timeline.len()).map(|place| timeline.over(place)).collect::<Vec<_>>(), over);
    assert_eq!(timeline.excess(), over.iter().map(|&over| i128::from(over.max(0))).sum());
    assert_eq!(timeline.cost(), trace.time.0);
}

/// Swaps neighbours at random where they are not tied.
fn shuffled(timeline: &DenseTimeline, from: usize, to: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut runs: Vec<u32> = (from..to).map(|place| timeline.order[place]).collect();
    let mut nodes: Vec<u32> = (from..to).map(|place| timeline.node_at(place)).collect();
    for _ in 0..3 * runs.len() {
        let left = random.random_range(0..runs.len() - 1);
        if !timeline.tied(nodes[left]).contains(&nodes[left + 1]) {
            runs.swap(left, left + 1);
            nodes.swap(left, left + 1);
        }
    }
    runs
}

fn change(timeline: &mut DenseTimeline, random: &mut ChaCha8Rng) {
    let place = random.random_range(0..timeline.len());
    let node = timeline.node_at(place);
    match random.random_range(0..4) {
        0 if !timeline.model.once[node as usize] => {
            let first = timeline.place(timeline.runs(node)[0]);
            let at = random.random_range(first + 1..=timeline.len());
            timeline.insert(node, at);
        }
        1 if !timeline.is_first(place) => timeline.remove(place),
        2 if timeline.is_dead(timeline.order[place]) => timeline.remove(place),
        _ if timeline.len() > 1 => {
            let from = random.random_range(0..timeline.len() - 1);
            let to = random.random_range(from + 2..=timeline.len());
            timeline.trial = shuffled(timeline, from, to, random);
            let excess = timeline.tried(from);
            timeline.accept(from, excess);
        }
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn a_line_judges_as_the_judge_does(seed in any::<u64>(), nodes in 1usize..25) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(nodes, 0.0, &mut random);
        let model = FlatGraph::new(&graph);
        let base: Vec<u32> = (0..nodes as u32).collect();
        let mut timeline = DenseTimeline::new(&model, &base, BUDGET);
        agree(&graph, &timeline);
        for _ in 0..40 {
            change(&mut timeline, &mut random);
            agree(&graph, &timeline);
        }
    }
}
