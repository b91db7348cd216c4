//! Which nodes to cut at: the relaxation at many, cheaply, best first.
//!
//! Small graphs are scanned whole. In larger ones a grid of nodes, the neighbourhood of the base peak, and the
//! neighbourhoods of the best of these are; the number of cuts does not grow with the graph, so that the cost of a scan
//! grows as that of one cut. In large graphs each cut is first tried at the price of the best one so far: any price gives a
//! bound, and neighbours share theirs, so most are done with one flow.
//!
//! A cut that is not looked at only makes the bound weaker.

use std::cmp::Reverse;
use std::time::Instant;

use rk_plan::{Bytes, Graph, NodeId, base_trace};

use crate::bound::cut::Cutter;
use crate::bound::lagrangian::{Fixed, Network, Price, relax};
use crate::portfolio::clock::now;

/// Up to here every node is tried. In larger steps of training, 85 cells of 583 to 1,038 nodes, no bound was lower with the grid.
const WHOLE: usize = 500;
/// From here on cuts that look poor at first sight are left.
const HURRY: usize = 1500;
/// Grid points in larger graphs.
const GRID: usize = 160;
/// Nodes on each side of the base peak.
const WINDOW: usize = 64;
/// Grid points whose surroundings are tried.
const REFINED: usize = 3;

/// A node worth cutting at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The node.
    pub at: NodeId,
    /// The relaxation of its cut problem, in ticks; `None`: it has no solution, so the budget cannot be met.
    pub bound: Option<u64>,
}

/// Ranks nodes by the bounds of their cuts, best first; those that bound nothing are left out.
pub fn scan(graph: &Graph, budget: Bytes, deadline: Option<Instant>) -> Vec<Promise> {
    let n = graph.len();
    let mut scan = Scan {
        cutter: Cutter::new(graph),
        budget,
        price: None,
        hurry: n > HURRY,
        best: 0,
        found: Vec::new(),
    };
    let mut tried = vec![n > WHOLE; n];
    // The base order runs every node once, so its steps are node ids.
    let peak = base_trace(graph).peak_step;
    let stride = n.div_ceil(GRID);
    if n > WHOLE {
        let near = peak.saturating_sub(WINDOW)..(peak + WINDOW + 1).min(n);
        (0..n).step_by(stride).chain(near).for_each(|node| tried[node] = false);
    }
    // Outwards from the peak: the price is right early.
    let mut order: Vec<usize> = (0..n).filter(|&node| !tried[node]).collect();
    order.sort_unstable_by_key(|&node| (node.abs_diff(peak), node));
    let in_time = || deadline.is_none_or(|deadline| now() < deadline);
    let stop = order.into_iter().take_while(|_| in_time()).any(|node| scan.look(node));
    if n > WHOLE && !stop {
        tried.fill(false);
        let seen: Vec<usize> = scan.found.iter().map(|promise| promise.at.index()).collect();
        seen.into_iter().for_each(|node| tried[node] = true);
        scan.sort();
        let best: Vec<usize> = scan.found.iter().take(REFINED).map(|promise| promise.at.index()).collect();
        let around = best.into_iter().flat_map(|at| at.saturating_sub(stride)..(at + stride).min(n));
        let around: Vec<usize> = around.collect();
        for node in around.into_iter().take_while(|_| in_time()) {
            if !std::mem::replace(&mut tried[node], true) && scan.look(node) {
                break;
            }
        }
    }
    scan.sort();
    scan.found
}

struct Scan<'a> {
    cutter: Cutter<'a>,
    budget: Bytes,
    price: Option<Price>,
    /// Leave cuts that look poor at the price of the best one.
    hurry: bool,
    best: u64,
    found: Vec<Promise>,
}

impl Scan<'_> {
    /// Whether the cut at this node shows that nothing fits.
    fn look(&mut self, node: usize) -> bool {
        let at = NodeId::from_index(node);
        let cut = self.cutter.cut(at, self.budget);
        if cut.is_trivial() {
            return false;
        }
        let mut network = Network::new(&cut);
        let fixed = vec![Fixed::Free; cut.nodes.len()];
        if let Some(price) = self.price.filter(|_| self.hurry) {
            let price = network.price(price.numerator.into(), price.denominator.into());
            let bound = network.evaluate(&cut, &fixed, price).map_or(0, |(bound, _)| bound);
            if bound < self.best / 2 && cut.room >= 0 {
                if bound > 0 {
                    self.found.push(Promise { at, bound: Some(bound) });
                }
                return false;
            }
        }
        let relaxation = relax(&cut, &mut network, &fixed, self.price, u64::MAX);
        let bound = relaxation.bound;
        if bound != Some(0) {
            self.found.push(Promise { at, bound });
        }
        if bound > Some(self.best) {
            self.best = bound.unwrap_or(0);
            self.price = Some(relaxation.price);
        }
        bound.is_none()
    }

    fn sort(&mut self) {
        self.found.sort_unstable_by_key(|promise| (Reverse(promise.bound.unwrap_or(u64::MAX)), promise.at));
    }
}
