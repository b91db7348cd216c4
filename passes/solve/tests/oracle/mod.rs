//! The truth for tiny graphs: the least time over every legal schedule, by exhaustive search.
//!
//! Dijkstra over states (nodes that have run, values alive, generator states kept). Moves: drop a value or a state, for
//! nothing; run a node whose operands are alive, for its time, if everything alive, its outputs and its workspace fit;
//! likewise with its first output in the buffer of the operand that it overwrites, which then is gone. Free order, any
//! number of recomputations: the laws of `rk_plan::judge`, written a second time and differently.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, GraphBuilder, Kind, NodeSpec, OutputSpec, Time, ValueId, may_overwrite};

type State = (u32, u32, u32);

/// The least time within a budget; `None` if no schedule fits.
pub fn optimum(graph: &Graph, budget: Bytes) -> Option<u64> {
    optimum_in(graph, budget, None)
}

/// The same for schedules that keep the given order of first runs and run no node from `split` on twice.
pub fn optimum_in(graph: &Graph, budget: Bytes, split: Option<usize>) -> Option<u64> {
    assert!(graph.len() <= 10 && graph.values().len() <= 20, "too large for exhaustion");
    let all = (1u32 << graph.len()) - 1;
    let mask = |values: &[ValueId]| values.iter().fold(0u32, |mask, value| mask | 1 << value.index());
    let pinned =
        (0..graph.values().len()).filter(|&v| graph.values()[v].pinned).fold(0u32, |m, v| m | 1 << v);
    let size = |alive: u32| -> u64 {
        (0..graph.values().len()).filter(|v| alive >> v & 1 == 1).map(|v| graph.values()[v].bytes.0).sum()
    };
    let states = |kept: u32| -> u64 {
        (0..graph.len()).filter(|n| kept >> n & 1 == 1).map(|n| graph.nodes()[n].state.0).sum()
    };
    let mut best: BTreeMap<State, u64> = BTreeMap::from([((0, 0, 0), 0)]);
    let mut heap = BinaryHeap::from([Reverse((0u64, (0u32, 0u32, 0u32)))]);
    while let Some(Reverse((time, state))) = heap.pop() {
        let (ran, alive, kept) = state;
        if best.get(&state) != Some(&time) {
            continue;
        }
        if ran == all && alive & pinned == pinned {
            return Some(time);
        }
        let mut reach = |state: State, time: u64| {
            if best.get(&state).is_none_or(|&old| time < old) {
                best.insert(state, time);
                heap.push(Reverse((time, state)));
            }
        };
        for value in (0..graph.values().len()).filter(|v| alive >> v & 1 == 1) {
            reach((ran, alive & !(1 << value), kept), time);
        }
        for node in (0..graph.len()).filter(|n| kept >> n & 1 == 1) {
            reach((ran, alive, kept & !(1 << node)), time);
        }
        for (id, node) in graph.node_ids().zip(graph.nodes()) {
            let bit = 1u32 << id.index();
            let again = ran & bit != 0;
            let (reads, writes) = (mask(&node.reads), mask(&node.writes));
            let effects_done = (0..id.index()).all(|n| !graph.nodes()[n].once || ran >> n & 1 == 1);
            let state_lost = again && node.state.0 > 0 && kept & bit == 0;
            let out_of_order = split.is_some_and(|split| {
                let next = ran.trailing_ones() as usize;
                if again { id.index() >= split } else { id.index() != next }
            });
            if reads & !alive != 0
                || (node.once && (again || !effects_done))
                || (node.lent && again)
                || state_lost
                || out_of_order
            {
                continue;
            }
            let then = time + node.time.0;
            let mut options = vec![alive & !writes];
            if let Some(over) = may_overwrite(graph, id) {
                options.push(alive & !writes & !(1 << over.index()));
            }
            // The state of a first run may be kept for later ones; a later run keeps what it was.
            let keeps: &[u32] = if !again && node.state.0 > 0 && !node.once { &[0, bit] } else { &[0] };
            for (&held, keep) in options.iter().flat_map(|held| keeps.iter().map(move |keep| (held, keep))) {
                let memory = size(held) + size(writes) + node.workspace.0 + states(kept | keep);
                if memory <= budget.0 {
                    reach((ran | bit, held | writes, kept | keep), then);
                }
            }
        }
    }
    None
}

/// A random graph: half of them shaped like a training step, with everything the model of `rk-plan` knows but a hand-over.
pub fn random_graph(rng: &mut ChaCha8Rng, most: usize) -> Graph {
    random_graph_with(rng, most, false)
}

/// The same, some with a hand-over and nodes that read what is lent until then (law S9).
pub fn random_graph_with_loans(rng: &mut ChaCha8Rng, most: usize) -> Graph {
    random_graph_with(rng, most, true)
}

fn random_graph_with(rng: &mut ChaCha8Rng, most: usize, loans: bool) -> Graph {
    let n = rng.random_range(3..=most);
    let training = rng.random_bool(0.5);
    let plain = rng.random_bool(0.3);
    let mut builder = GraphBuilder::new("random");
    let mut made: Vec<(ValueId, u64)> = Vec::new();
    let half = n / 2;
    let hands_over = loans && training;
    let mut on_loan: Vec<ValueId> = Vec::new();
    for position in 0..n {
        let mut reads: Vec<ValueId> = Vec::new();
        if training && position >= half {
            // A backward node reads what its forward node read and made, and the node before it.
            let mirror = n - 1 - position;
            reads.extend(
                made.iter().map(|made| made.0).filter(|v| v.index() == mirror || v.index() + 1 == made.len()),
            );
        }
        for back in 0..made.len().min(4) {
            if rng.random_bool(if back == 0 { 0.7 } else { 0.25 }) {
                reads.push(made[made.len() - 1 - back].0);
            }
        }
        let outputs = if plain || rng.random_bool(0.75) { 1 } else { 2 };
        let mut outputs: Vec<OutputSpec> = (0..outputs)
            .map(|_| OutputSpec {
                name: String::new(),
                bytes: Bytes(rng.random_range(0..=6)),
                pinned: !plain && rng.random_bool(0.1),
            })
            .collect();
        let mut overwrites = None;
        if !plain && !reads.is_empty() && rng.random_bool(0.3) {
            let target = reads[rng.random_range(0..reads.len())];
            overwrites = Some(target);
            if rng.random_bool(0.8) {
                outputs[0].bytes = Bytes(made[target.index()].1);
            }
        }
        // What reads something on loan comes before the hand-over, and the data says so.
        let here = hands_over && position == half;
        let lent = hands_over && position < half && rng.random_bool(0.3);
        reads.extend(on_loan.drain(..if here { on_loan.len() } else { 0 }));
        let node = builder
            .add(NodeSpec {
                name: format!("n{position}"),
                module: String::new(),
                kind: if position < half { Kind::Forward } else { Kind::Backward },
                time: Time(rng.random_range(0..=9)),
                workspace: Bytes(if !plain && rng.random_bool(0.2) { rng.random_range(1..=4) } else { 0 }),
                reads,
                outputs: outputs.clone(),
                overwrites,
                state: Bytes(if !plain && rng.random_bool(0.1) { rng.random_range(1..=3) } else { 0 }),
                once: here || !lent && !plain && rng.random_bool(0.08),
                lent,
                hands_over: here,
            })
            .expect("reads are earlier");
        on_loan.extend(builder.output(node, 0).filter(|_| lent));
        for (index, output) in outputs.iter().enumerate() {
            made.push((builder.output(node, index).expect("made"), output.bytes.0));
        }
    }
    builder.finish().expect("not empty")
}
