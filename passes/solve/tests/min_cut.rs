//! The network of a cut problem, built from its definition with petgraph, has the minimum cut that ours finds.

use petgraph::algo::ford_fulkerson;
use petgraph::graph::DiGraph;
use rk_plan::{Bytes, base_trace};
use rk_solve::bound::cut::{Cut, Cutter};
use rk_solve::bound::lagrangian::{Fixed, Network, Price};
use rk_solve::synthetic::{Family, graph};

/// The least price of a solution: what must run again costs its time, what is held costs its bytes.
fn minimum_cut(cut: &Cut, price: Price) -> u64 {
    let bytes = |bytes: u64| bytes * price.numerator;
    let finite: u64 =
        cut.nodes.iter().map(|node| node.time * price.denominator + bytes(node.state)).sum::<u64>()
            + cut.values.iter().map(|value| bytes(value.bytes)).sum::<u64>();
    let infinite = finite + 1;
    let mut network = DiGraph::<(), u64>::new();
    let (source, sink) = (network.add_node(()), network.add_node(()));
    let nodes: Vec<_> = cut.nodes.iter().map(|_| network.add_node(())).collect();
    for (node, about) in nodes.iter().zip(&cut.nodes) {
        let again = about.time * price.denominator + bytes(about.state);
        network.add_edge(*node, sink, if about.barred { infinite } else { again });
    }
    for value in &cut.values {
        // It is wanted by what comes later, or as soon as one of its readers runs again.
        let wanted = if value.needed {
            source
        } else {
            let hub = network.add_node(());
            for &reader in &value.readers {
                network.add_edge(nodes[reader], hub, infinite);
            }
            hub
        };
        network.add_edge(wanted, nodes[value.producer], bytes(value.bytes));
    }
    ford_fulkerson(&network, source, sink).0
}

#[test]
fn our_flow_is_the_maximum_at_every_price() {
    let (mut cuts, mut between) = (0, 0);
    for family in Family::ALL {
        let graph = graph(family, 120, 1);
        let budget = Bytes(base_trace(&graph).peak.0 / 2);
        let mut cutter = Cutter::new(&graph);
        for at in graph.node_ids().step_by(9) {
            let cut = cutter.cut(at, budget);
            let mut network = Network::new(&cut);
            let free = vec![Fixed::Free; cut.nodes.len()];
            let time: u128 = cut.nodes.iter().map(|node| u128::from(node.time)).sum();
            let bytes: u128 = cut.values.iter().map(|value| u128::from(value.bytes)).sum();
            for share in [0, 1, 4, 100] {
                let price = network.price(time * share, bytes.max(1) * 4);
                let (flow, again) = network.solve(&cut, &free, price);
                assert_eq!(flow, minimum_cut(&cut, price), "{family} at {at:?}, {price:?}");
                between += usize::from(again.contains(&true) && again.contains(&false));
            }
            cuts += 1;
        }
    }
    assert!(cuts > 80 && between > cuts, "{cuts} cuts, {between} solutions that hold some and run some");
}
