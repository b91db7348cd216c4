//! Nodes that wait: replays of a held set in orders that suit it.
//!
//! A replay ([`crate::construct::replay`]) runs again what the first who asks is missing. What nobody asks for soon, a weight gradient above all,
//! may as well wait until its operands run again for another node, at the price of keeping its other operands till then. Chains of
//! small steps do not get there: the gradient that is kept longer costs at once, and what that saves elsewhere has to go first.
//!
//! - *candidates*: a node behind the cut that reads what the cut lets go, and a later reader of something that has to run again for it
//!   before its own first reader; most time in common first
//! - each is tried in a replay, repaired and cleaned; what costs less stays, and the others are tried on top of it
//!
//! Everything is counted; the clock only stops.

use crate::construct::greedy::greedy;
use crate::construct::replay::replay;
use crate::improve::lns::{Search, Solution};
use crate::params::LocalSearch;
use crate::portfolio::clock::Clock;
use crate::state::flat_graph::FlatGraph;
use crate::state::slotted_timeline::SlottedTimeline;

/// Orders that are tried, times nodes: as many operations in graphs of all sizes, about.
const ORDERS: usize = 100_000;
/// Runs that are looked at for one node, nearest first: longer chains are never run again for it alone.
const CLOSURE: usize = 64;
/// Plans that come back, at most.
const KEPT: usize = 4;

/// What is held when a node first runs.
pub(crate) struct Held {
    /// Every node once.
    pub(crate) order: Vec<u32>,
    /// The node.
    pub(crate) at: u32,
    /// Values made before and read later that are not held.
    pub(crate) evicted: Vec<u32>,
}

impl Held {
    /// What a plan holds.
    pub(crate) fn by(model: &FlatGraph, plan: &[u32], at: u32) -> Self {
        let timeline = SlottedTimeline::new(model, plan);
        let mut seen = vec![false; model.len()];
        let mut order = plan.to_vec();
        order.retain(|&node| !std::mem::replace(&mut seen[node as usize], true));
        let slot = timeline.runs(at)[0];
        let let_go = |&value: &u32| {
            let producer = model.producer[value as usize];
            let newest = timeline.newest(producer, slot);
            newest.is_some_and(|run| {
                timeline.end(value, run) <= slot && run + 1 < timeline.runs(producer).len()
            })
        };
        Self { order, at, evicted: (0..model.values() as u32).filter(let_go).collect() }
    }
}

/// Plans of different costs, best first, that begin by holding what is held, each searched for some iterations if that is asked for.
pub(crate) fn postponed_replays(
    model: &FlatGraph,
    Held { mut order, at, evicted }: Held,
    budget: i64,
    seed: u64,
    search: Option<(u64, &LocalSearch)>,
    clock: &Clock,
) -> Vec<Solution> {
    let mut found: Vec<Solution> = Vec::new();
    let mut left = ORDERS / model.len().max(1);
    let candidates = candidates(model, &order, at, &evicted);
    let mut moves = vec![None];
    let mut unmoved = None;
    loop {
        let before = found.first().map(|best| best.cost);
        for pair in std::mem::take(&mut moves) {
            if clock.expired() || left == 0 {
                return found;
            }
            let Some(tried) = pair.map_or_else(|| Some(order.clone()), |pair| moved(model, &order, pair))
            else {
                continue;
            };
            left -= 1;
            let nodes = replay(model, &tried, at, &evicted);
            let Some(mut plan) = greedy(model, &nodes, budget, seed, 1, clock) else { continue };
            // What costs as much as without waiting is the same plan, nearly always.
            match (pair, unmoved) {
                (None, _) => unmoved = Some(plan.cost),
                (Some(_), same) if same == Some(plan.cost) => continue,
                _ => {}
            }
            if let Some((iterations, params)) = search {
                let mut search = Search::new(model, &plan.nodes, budget, seed, params);
                search.run(iterations, 0, clock);
                plan = search.best;
            }
            let place = found.partition_point(|other| other.cost < plan.cost);
            if found.first().is_none_or(|best| plan.cost < best.cost) {
                tracing::debug!(?pair, cost = plan.cost, "waiting");
                order = tried;
            }
            if found.get(place).is_none_or(|other| other.cost > plan.cost) {
                found.insert(place, plan);
                found.truncate(KEPT);
            }
        }
        if found.first().map(|best| best.cost) == before {
            return found;
        }
        moves.extend(candidates.iter().copied().map(Some));
    }
}

/// Nodes that may wait, and for whom.
fn candidates(model: &FlatGraph, order: &[u32], at: u32, evicted: &[u32]) -> Vec<(u32, u32)> {
    let mut place = vec![0; model.len()];
    order.iter().zip(0usize..).for_each(|(&node, index)| place[node as usize] = index);
    let first = place[at as usize] + 1;
    let mut absent = vec![false; model.values()];
    for &value in evicted {
        let producer = model.producer[value as usize] as usize;
        absent[value as usize] = place[producer] < first && !model.once[producer];
    }
    let mut found = Vec::new();
    for &node in &order[first..] {
        let asked = readers(model, node, |_| true).map(|reader| place[reader as usize]).min();
        let waits = place[node as usize] + 1..asked.unwrap_or(usize::MAX);
        let mut shared: Vec<(u32, u64)> = Vec::new();
        for producer in again(model, node, &absent) {
            let for_whom = readers(model, producer, |value| absent[value as usize])
                .filter(|&reader| waits.contains(&place[reader as usize]));
            shared.extend(for_whom.map(|reader| (reader, model.time[producer as usize])));
        }
        shared.sort_unstable();
        for group in shared.chunk_by(|one, other| one.0 == other.0) {
            let time: u64 = group.iter().map(|(_, time)| time).sum();
            found.push((std::cmp::Reverse(time), node, group[0].0));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, node, behind)| (node, behind)).collect()
}

/// Who reads the outputs of a node that are asked about.
fn readers<'m>(
    model: &'m FlatGraph,
    node: u32,
    which: impl Fn(u32) -> bool + 'm,
) -> impl Iterator<Item = u32> + 'm {
    let values = model.writes.row(node).iter().filter(move |&&value| which(value));
    values.flat_map(|&value| model.readers.row(value)).copied()
}

/// The nodes that run again for one if nothing of what is absent has been brought back, nearest first.
fn again(model: &FlatGraph, node: u32, absent: &[bool]) -> Vec<u32> {
    let (mut found, mut next, mut reader) = (Vec::new(), 0, node);
    loop {
        for &value in model.reads.row(reader).iter().filter(|&&value| absent[value as usize]) {
            let producer = model.producer[value as usize];
            if found.len() < CLOSURE && !found.contains(&producer) {
                found.push(producer);
            }
        }
        let Some(&producer) = found.get(next) else { return found };
        (reader, next) = (producer, next + 1);
    }
}

/// The order with the first node of a pair right behind the second. `None` if that is past a reader of the node: the second may itself have
/// waited since the pair was found.
fn moved(model: &FlatGraph, order: &[u32], (node, behind): (u32, u32)) -> Option<Vec<u32>> {
    let place = |node| order.iter().position(|&other| other == node).unwrap_or(0);
    let (from, to) = (place(node), place(behind));
    let mut order = order.to_vec();
    if from < to {
        if readers(model, node, |_| true).any(|reader| order[from..=to].contains(&reader)) {
            return None;
        }
        order[from..=to].rotate_left(1);
    }
    Some(order)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rk_plan::{Bytes, base_trace, judge};

    use super::*;
    use crate::bound::order_free;
    use crate::state::flat_graph::to_sequence;
    use crate::synthetic::{Family, graph};

    #[test]
    fn weight_gradients_of_a_unet_wait() {
        let clock = Clock::new(Duration::MAX);
        let mut gains = 0;
        for seed in 1..=3 {
            let graph = graph(Family::UNet, 150, seed);
            let model = FlatGraph::new(&graph);
            let budget = Bytes(base_trace(&graph).peak.0 / 100 * 45);
            let set = order_free(&graph, budget, Duration::MAX).starts.remove(0);
            let evicted = set.again.iter().flat_map(|&node| graph.node(node).writes.iter());
            let evicted = evicted.filter(|value| set.held.binary_search(value).is_err());
            let evicted: Vec<u32> = evicted.map(|value| model.index[value.index()]).collect();
            let order: Vec<u32> = (0..model.len() as u32).collect();
            let nodes = replay(&model, &order, set.at.0, &evicted);
            let at_once = greedy(&model, &nodes, budget.0 as i64, 0, 1, &clock).expect("repaired");
            let held = Held { order, at: set.at.0, evicted };
            let found = postponed_replays(&model, held, budget.0 as i64, 0, None, &clock);
            assert!(found[0].cost <= at_once.cost && found.is_sorted_by_key(|best| best.cost));
            gains += u32::from(found[0].cost < at_once.cost);
            // What the plan holds is held again, in orders that go on from there.
            let held = Held::by(&model, &found[0].nodes, set.at.0);
            let again = postponed_replays(&model, held, budget.0 as i64, 0, None, &clock);
            assert!(!again.is_empty());
            for best in found.iter().chain(&again) {
                let trace = judge(&graph, &to_sequence(&best.nodes)).expect("legal");
                assert!(trace.peak <= budget && trace.time.0 == best.cost);
            }
        }
        assert!(gains > 0);
    }

    #[test]
    fn nobody_waits_past_those_who_ask() {
        let text =
            "a 9 9; b(a) 1 1; l(b) 1 1; g(l, b) 1 1; w(a, g) 1 1; h(g, a) 1 1; u(w, a) 1 1; v(a, h) 1 1";
        let graph = rk_plan::text::read(text).unwrap();
        let model = FlatGraph::new(&graph);
        let order: Vec<u32> = (0..model.len() as u32).collect();
        // `w` may wait for `h`, which needs `a` too, but not for `v`: `u` asks for it before. `v`, the last, has nobody to wait for.
        let pairs = candidates(&model, &order, 2, &[model.index[0]]);
        assert_eq!(pairs, [(4, 5), (5, 6), (6, 7)]);
        assert_eq!(moved(&model, &order, (4, 5)), Some(vec![0, 1, 2, 3, 5, 4, 6, 7]));
        // But when `h` has waited for `v`, behind `h` is behind `u`.
        let waited = [0, 1, 2, 3, 4, 6, 7, 5];
        assert_eq!(moved(&model, &waited, (4, 5)), None);
    }
}
