//! Chains against petgraph: separators dominate what comes after them, and blocks of one signature are isomorphic.
//!
//! A separator is no dominator of the graph as it is: a later node may read nothing of the forward part, and then a path begins behind
//! the separator. So each position is asked for itself, with a source in front of all nodes up to it.

use std::collections::BTreeMap;

use petgraph::algo::{dominators, is_isomorphic_matching};
use petgraph::graph::{DiGraph, NodeIndex};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Graph, Kind, ValueId, text};
use rk_solve::chain_dp::blocks::{Block, chain, signature};
use rk_solve::synthetic::{Family, graph};

/// A forward part in which a value has at most two readers, so that none is shared by many blocks, then a node that reads the last one.
fn random(seed: u64) -> Graph {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let length = random.random_range(2..30);
    let window = random.random_range(1..5);
    let mut readers = vec![0; length];
    let mut lines = String::new();
    for node in 0..length {
        let mut reads: Vec<usize> = Vec::new();
        for _ in 0..random.random_range(0..4) {
            let read = node.saturating_sub(random.random_range(1..=window));
            if read < node && readers[read] < 2 && !reads.contains(&read) {
                readers[read] += 1;
                reads.push(read);
            }
        }
        let reads: Vec<String> = reads.iter().map(|read| format!("f{read}")).collect();
        let reads = if reads.is_empty() { String::new() } else { format!("({})", reads.join(", ")) };
        let bytes = if random.random_bool(0.1) { 0 } else { 4 };
        lines += &format!("f{node}{reads} {bytes} 1 fwd\n");
    }
    lines += &format!("b(f{}) 4 1 bwd\n", length - 1);
    text::read(&lines).unwrap_or_else(|error| panic!("{error}\n{lines}"))
}

/// Values with bytes that are read later, and without which petgraph finds no path from the nodes up to their producer to later ones.
fn separators(graph: &Graph) -> Vec<ValueId> {
    let forward = graph.nodes().iter().take_while(|node| node.kind == Kind::Forward).count();
    let counts = |value: ValueId| {
        let later = graph.readers(value).iter().any(|reader| reader.index() < forward);
        later && graph.value(value).bytes.0 > 0
    };
    let mut network = DiGraph::<(), ()>::new();
    let source = network.add_node(());
    let nodes: Vec<NodeIndex> = (0..forward).map(|_| network.add_node(())).collect();
    let values: Vec<NodeIndex> = graph.values().iter().map(|_| network.add_node(())).collect();
    for (node, about) in nodes.iter().zip(graph.nodes()) {
        for &value in about.writes.iter().filter(|&&value| counts(value)) {
            network.add_edge(*node, values[value.index()], ());
        }
        for &value in about.reads.iter().filter(|&&value| counts(value)) {
            network.add_edge(values[value.index()], *node, ());
        }
    }
    let mut found = Vec::new();
    for at in 0..forward {
        network.add_edge(source, nodes[at], ());
        let above = dominators::simple_fast(&network, source);
        for &value in graph.nodes()[at].writes.iter().filter(|&&value| counts(value)) {
            let separates = nodes[at + 1..].iter().all(|&later| {
                above.dominators(later).is_none_or(|mut above| above.any(|one| one == values[value.index()]))
            });
            found.extend(separates.then_some(value));
        }
    }
    found
}

#[test]
fn separators_are_the_dominators_of_what_comes_after() {
    let (mut ends, mut open) = (0, 0);
    for seed in 0..600 {
        let graph = random(seed);
        let ours: Vec<ValueId> = chain(&graph).iter().filter_map(|block| block.output).collect();
        assert_eq!(ours, separators(&graph), "seed {seed}");
        ends += ours.len();
        open += graph.len() - ours.len();
    }
    assert!(ends > 1000 && open > 1000, "{ends} separators, {open} positions without");
}

/// A block as a graph: nodes with what they cost and the half that they stand in, edges with what is read.
fn body(graph: &Graph, block: &Block) -> DiGraph<[u64; 5], Vec<(usize, u64)>> {
    let mut body = DiGraph::<[u64; 5], Vec<(usize, u64)>>::new();
    let mut inside = BTreeMap::new();
    for (half, positions) in [block.forward.clone(), block.backward.clone()].into_iter().enumerate() {
        for position in positions {
            let node = &graph.nodes()[position];
            let repeatable = u64::from(node.is_repeatable());
            let cost = [node.time.0, node.workspace.0, node.state.0, repeatable, half as u64];
            inside.insert(position, body.add_node(cost));
        }
    }
    for (&position, &at) in &inside {
        for &read in &graph.nodes()[position].reads {
            let value = graph.value(read);
            let Some(&producer) = inside.get(&value.producer.index()) else { continue };
            let output = graph.node(value.producer).writes.iter().position(|&other| other == read);
            let edge = (output.expect("it makes it"), value.bytes.0);
            match body.find_edge(producer, at) {
                Some(both) => body[both].push(edge),
                None => _ = body.add_edge(producer, at, vec![edge]),
            }
        }
    }
    body.edge_weights_mut().for_each(|edges| edges.sort_unstable());
    body
}

#[test]
fn blocks_of_one_signature_are_isomorphic() {
    let mut equal = 0;
    for family in Family::ALL {
        let graph = graph(family, 300, 1);
        let mut first: BTreeMap<Vec<u64>, Block> = BTreeMap::new();
        for block in chain(&graph) {
            let one = first.entry(signature(&graph, &block)).or_insert_with(|| block.clone());
            if *one != block {
                let (one, other) = (body(&graph, one), body(&graph, &block));
                let matches = is_isomorphic_matching(
                    &one,
                    &other,
                    |one, other| one == other,
                    |one, other| one == other,
                );
                assert!(matches, "{family}: {block:?}");
                equal += 1;
            }
        }
    }
    assert!(equal > 30, "{equal} pairs");
}
