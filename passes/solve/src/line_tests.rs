//! The line against the judge, after every change.

use proptest::prelude::*;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Graph, judge};

use crate::line::Line;
use crate::model::{Model, to_sequence};
use crate::tape_tests::random_graph;

const BUDGET: i64 = 6;

fn agree(graph: &Graph, line: &Line) {
    let trace = judge(graph, &to_sequence(&line.sequence()))
        .unwrap_or_else(|illegal| panic!("{}", illegal.describe(graph)));
    let over: Vec<i64> = trace.memory.iter().map(|memory| memory.0 as i64 - BUDGET).collect();
    assert_eq!((0..line.len()).map(|place| line.over(place)).collect::<Vec<_>>(), over);
    assert_eq!(line.excess(), over.iter().map(|&over| i128::from(over.max(0))).sum());
    assert_eq!(line.cost(), trace.time.0);
}

/// Swaps neighbours at random where they are not tied.
fn shuffled(line: &Line, from: usize, to: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut runs: Vec<u32> = (from..to).map(|place| line.order[place]).collect();
    let mut nodes: Vec<u32> = (from..to).map(|place| line.node_at(place)).collect();
    for _ in 0..3 * runs.len() {
        let left = random.random_range(0..runs.len() - 1);
        if !line.tied(nodes[left]).contains(&nodes[left + 1]) {
            runs.swap(left, left + 1);
            nodes.swap(left, left + 1);
        }
    }
    runs
}

fn change(line: &mut Line, random: &mut ChaCha8Rng) {
    let place = random.random_range(0..line.len());
    let node = line.node_at(place);
    match random.random_range(0..4) {
        0 if !line.model.once[node as usize] => {
            let first = line.place(line.runs(node)[0]);
            let at = random.random_range(first + 1..=line.len());
            line.insert(node, at);
        }
        1 if !line.is_first(place) => line.remove(place),
        2 if line.is_dead(line.order[place]) => line.remove(place),
        _ if line.len() > 1 => {
            let from = random.random_range(0..line.len() - 1);
            let to = random.random_range(from + 2..=line.len());
            line.trial = shuffled(line, from, to, random);
            let excess = line.tried(from);
            line.accept(from, excess);
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
        let model = Model::new(&graph);
        let base: Vec<u32> = (0..nodes as u32).collect();
        let mut line = Line::new(&model, &base, BUDGET);
        agree(&graph, &line);
        for _ in 0..40 {
            change(&mut line, &mut random);
            agree(&graph, &line);
        }
    }
}
