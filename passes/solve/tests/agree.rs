//! Solvers against brute force, bounds and each other, on small random graphs with every optional field.

use std::collections::{BTreeMap, BinaryHeap};
use std::time::Duration;

use proptest::prelude::*;
use rk_plan::{
    Bytes, Fate, Graph, GraphBuilder, NodeId, NodeSpec, OutputSpec, Schedule, Sequence, Time, ValueId,
    base_trace, judge, judge_schedule, may_overwrite, working_set,
};
use rk_solve::{Request, Solver, Status, solve};

/// What a random graph may contain beyond one output per node.
#[derive(Clone, Copy, PartialEq)]
enum Features {
    Plain,
    All,
}

/// Random graphs: each node reads up to three earlier outputs.
fn graphs(nodes: std::ops::Range<usize>, features: Features) -> impl Strategy<Value = Graph> {
    let node = (prop::collection::vec(any::<prop::sample::Index>(), 0..4), 0u64..6, 0u64..9, any::<u64>());
    prop::collection::vec(node, nodes).prop_map(move |nodes| {
        let mut builder = GraphBuilder::new("random");
        let mut values: Vec<(ValueId, u64)> = Vec::new();
        for (position, (reads, time, bytes, dice)) in nodes.into_iter().enumerate() {
            let mut chosen: Vec<ValueId> = Vec::new();
            for read in reads.iter().filter(|_| !values.is_empty()) {
                chosen.push(values[read.index(values.len())].0);
            }
            // Most nodes read something recent, so that the graph hangs together.
            if dice % 4 != 0 {
                chosen.extend(values.last().map(|(value, _)| *value));
            }
            let mut spec = NodeSpec {
                name: format!("n{position}"),
                time: Time(time),
                reads: chosen,
                ..NodeSpec::default()
            };
            let output = |bytes, pinned| OutputSpec { name: String::new(), bytes: Bytes(bytes), pinned };
            spec.outputs.push(output(bytes, false));
            if features == Features::All {
                let on = |bit: u32, rate: u64| (dice >> bit).is_multiple_of(rate);
                spec.outputs[0].pinned = on(3, 9);
                spec.workspace = Bytes(if on(7, 3) { dice % 5 } else { 0 });
                spec.state = Bytes(if on(11, 6) { 3 } else { 0 });
                spec.once = on(17, 8);
                if on(23, 4) {
                    spec.outputs.push(output(dice % 4, on(29, 9)));
                }
                if on(31, 3)
                    && let Some(&target) = spec.reads.first()
                {
                    // In place, as an activation would be: the same size.
                    spec.overwrites = Some(target);
                    spec.outputs[0].bytes =
                        Bytes(values.iter().find(|(value, _)| *value == target).map_or(0, |v| v.1));
                }
            }
            let sizes: Vec<u64> = spec.outputs.iter().map(|output| output.bytes.0).collect();
            let id = builder.add(spec).expect("reads are earlier");
            for (index, size) in sizes.into_iter().enumerate() {
                values.extend(builder.output(id, index).map(|value| (value, size)));
            }
        }
        builder.finish().expect("not empty")
    })
}

/// The least time within a budget, by Dijkstra over (nodes that have run, values alive). Plain graphs only.
fn brute_force(graph: &Graph, budget: Bytes) -> Option<Time> {
    let nodes: Vec<(u32, u32, u64)> = graph
        .nodes()
        .iter()
        .map(|node| (node.reads.iter().map(|value| 1 << value.0).sum(), 1 << node.writes[0].0, node.time.0))
        .collect();
    let size = |set: u32| -> u64 {
        (0..graph.len())
            .filter(|&value| set >> value & 1 == 1)
            .map(|value| graph.values()[value].bytes.0)
            .sum()
    };
    let everything = (1u32 << graph.len()) - 1;
    let mut least: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let mut queue = BinaryHeap::from([(std::cmp::Reverse(0), 0u32, 0u32)]);
    while let Some((std::cmp::Reverse(cost), ran, alive)) = queue.pop() {
        if ran == everything {
            return Some(Time(cost));
        }
        if least.insert((ran, alive), cost).is_some_and(|before| before <= cost) {
            continue;
        }
        for (node, &(reads, writes, time)) in nodes.iter().enumerate() {
            if reads & !alive != 0 || alive & writes != 0 {
                continue;
            }
            let optional = alive & !reads;
            let mut dropped = optional;
            loop {
                let kept = alive & !dropped;
                if size(kept | writes) <= budget.0 {
                    let state = (ran | 1 << node, kept | writes);
                    if least.get(&state).is_none_or(|&before| before > cost + time) {
                        queue.push((std::cmp::Reverse(cost + time), state.0, state.1));
                    }
                }
                if dropped == 0 {
                    break;
                }
                dropped = (dropped - 1) & optional;
            }
        }
    }
    None
}

/// The judge once more, as slowly and plainly as possible: for each step, ask of every earlier production whether it is
/// still needed.
fn naive_memory(graph: &Graph, sequence: &Sequence) -> Vec<Bytes> {
    let runs = &sequence.0;
    let memory = |step: usize| {
        let mut bytes = graph.node(runs[step]).workspace.0;
        for (start, node) in runs.iter().enumerate().take(step + 1) {
            let next = runs
                .iter()
                .skip(start + 1)
                .position(|other| other == node)
                .map_or(runs.len(), |at| at + start + 1);
            for &value in &graph.node(*node).writes {
                let uses = (start + 1..next).filter(|&at| graph.node(runs[at]).reads.contains(&value));
                let kept = graph.value(value).pinned && next == runs.len();
                let last = if kept { runs.len() - 1 } else { uses.max().unwrap_or(start) };
                let taken_over = !kept && last > start && may_overwrite(graph, runs[last]) == Some(value);
                let alive = step >= start && if taken_over { step < last } else { step <= last };
                bytes += if alive { graph.value(value).bytes.0 } else { 0 };
            }
        }
        for (index, node) in graph.nodes().iter().enumerate() {
            let at: Vec<usize> = (0..runs.len()).filter(|&at| runs[at].index() == index).collect();
            if at.len() > 1 && at[0] <= step && step <= at[at.len() - 1] {
                bytes += node.state.0;
            }
        }
        Bytes(bytes)
    };
    (0..runs.len()).map(memory).collect()
}

/// A legal sequence with random repetitions.
fn repeated(graph: &Graph, dice: &[prop::sample::Index]) -> Sequence {
    let mut nodes: Vec<NodeId> = Vec::new();
    for (position, node) in graph.node_ids().enumerate() {
        nodes.push(node);
        if let Some(index) = dice.get(position) {
            let again = nodes[index.index(nodes.len())];
            if !graph.node(again).once {
                nodes.push(again);
            }
        }
    }
    Sequence(nodes)
}

fn request(graph: &Graph, budget: Bytes, solver: Solver) -> Request<'_> {
    Request { solver, time_limit: Duration::from_millis(30), ..Request::new(graph, budget) }
}

/// Between the working set and the base peak.
fn between(graph: &Graph, share: u64) -> Bytes {
    let (low, high) = (working_set(graph).0.0, base_trace(graph).peak.0);
    Bytes(low + high.saturating_sub(low) * share / 8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn both_judges_agree_with_a_naive_one(
        graph in graphs(1..12, Features::All),
        dice in prop::collection::vec(any::<prop::sample::Index>(), 12),
    ) {
        let sequence = repeated(&graph, &dice);
        let trace = judge(&graph, &sequence).expect("legal");
        prop_assert_eq!(&trace.memory, &naive_memory(&graph, &sequence));
        let schedule = Schedule::from_sequence(&graph, &sequence).expect("legal");
        prop_assert_eq!(judge_schedule(&graph, &schedule, Some(trace.peak)), Ok(trace.clone()));
        prop_assert_eq!(schedule.sequence(), sequence);
        let kept = trace.instances.iter().filter(|instance| instance.fate == Fate::Kept).count();
        prop_assert_eq!(kept, graph.values().iter().filter(|value| value.pinned).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn bound_is_at_most_the_optimum_and_that_is_at_most_the_plan(
        graph in graphs(2..8, Features::Plain),
        share in 0u64..8,
    ) {
        let budget = between(&graph, share);
        let optimum = brute_force(&graph, budget);
        let outcome = solve(&request(&graph, budget, Solver::Auto));
        match optimum {
            Some(optimum) => {
                prop_assert_ne!(outcome.status, Status::Infeasible);
                prop_assert!(outcome.lower_bound <= optimum, "bound {:?} optimum {optimum:?}", outcome.lower_bound);
                if let Some(plan) = &outcome.plan {
                    prop_assert!(plan.trace.time >= optimum);
                    prop_assert!(plan.trace.peak <= budget);
                }
                if outcome.status == Status::Optimal {
                    prop_assert_eq!(outcome.plan.map(|plan| plan.trace.time), Some(optimum));
                }
            }
            None => prop_assert!(outcome.plan.is_none(), "a plan where none exists"),
        }
    }

    #[test]
    fn every_solver_returns_legal_plans_or_none(
        graph in graphs(1..20, Features::All),
        share in 0u64..9,
    ) {
        let budget = between(&graph, share);
        for solver in [Solver::Auto, Solver::Greedy, Solver::Local, Solver::DropAll, Solver::KeepAll] {
            let outcome = solve(&request(&graph, budget, solver));
            if let Some(plan) = outcome.plan {
                prop_assert_eq!(judge(&graph, &plan.sequence), Ok(plan.trace.clone()));
                prop_assert!(plan.trace.peak <= budget && plan.trace.time >= outcome.lower_bound);
            }
            prop_assert!(outcome.smallest_found.is_some_and(|smallest| smallest >= outcome.proven_infeasible_below));
        }
    }
}
