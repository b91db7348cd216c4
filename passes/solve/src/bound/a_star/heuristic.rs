//! What a cut problem says of a state: what must run again once its node has run ([`crate::bound::cut`]).

use std::collections::BTreeMap;

use rk_plan::{Bytes, Graph};

use super::{Bits, bit};
use crate::bound::branch_and_bound;
use crate::bound::cut::{Cut, Cutter};
use crate::bound::cut_selection::scan;
use crate::bound::limits::Limits;

/// Cuts that are looked at.
const CUTS: usize = 8;
/// Subproblems for each cut and state.
const SUBPROBLEMS: u64 = 500;

/// The best cuts of a graph.
pub(super) fn cut_heuristics(graph: &Graph, budget: Bytes) -> Vec<CutHeuristic> {
    let mut cutter = Cutter::new(graph);
    let ranked = scan(graph, budget, None);
    let cuts = ranked.iter().take(CUTS).map(|promise| {
        let cut = cutter.cut(promise.at, budget);
        let nodes = cut.nodes.iter().fold(0, |set, node| set | bit(node.id.0));
        CutHeuristic { node: promise.at.0, cut, nodes, known: BTreeMap::new() }
    });
    cuts.collect()
}

/// The cut problem of a node, and its bounds when some nodes run again anyhow.
pub(super) struct CutHeuristic {
    pub(super) node: u32,
    cut: Cut,
    nodes: Bits,
    known: BTreeMap<Bits, u64>,
}

impl CutHeuristic {
    /// What runs again after the node, besides those that must anyhow.
    pub(super) fn least(&mut self, again: Bits, cutoff: u64) -> u64 {
        let again = again & self.nodes;
        if let Some(&known) = self.known.get(&again) {
            return known;
        }
        let mut cut = self.cut.clone();
        for node in cut.nodes.iter_mut().filter(|node| again & bit(node.id.0) != 0) {
            node.time = 0;
        }
        let limits = Limits { cutoff, nodes: SUBPROBLEMS, ..Limits::NONE };
        let least = branch_and_bound::solve(&cut, limits).bound.unwrap_or(cutoff);
        self.known.insert(again, least);
        least
    }
}
