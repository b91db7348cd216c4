//! A fallback: some plan, soon, where none is found along the given order.
//!
//! Gap eviction gets stuck where much is alive that many read: to bring one value back so much must run again that no room
//! for it is left. That depends on the order. In a *demand order* nodes wait until somebody asks for them: depth first,
//! from the nodes that nobody reads, operands first. So each node runs just before its first reader, and a value rests
//! only for readers that come much later: in few and long gaps, and what rebuilds it is a path down to what is there.
//!
//! - from the *first* unread node on, the order stays near the given one, and so does its peak
//! - from the *last* one on, the deepest paths come first: the peak is twice as high, but eviction brings it far lower
//!
//! On layered graphs of 1,000 to 10,000 nodes the first leads to 45 % of the given order's peak, at 14 to 36 % more time; the
//! second to 30 %, at two to four times the price where both do. One attempt in six fails there; noise makes others of it.
//!
//! The budget falls in steps from the peak of the order, so that the cheapest evictions come before those that only the last
//! steps need. Chains of recomputation may be longer than a good plan would have them.
//!
//! The plan is legal and bad. It is an answer while there is no other, and the last resort of the local search, which otherwise
//! starts without it.
//!
//! Not here, since it does worse: paging along these orders (operands that are missing run again when asked for, and what is
//! used last, or is cheap, goes). At 30 % it thrashes in most of these graphs, as it does along the given order (`dtr.rs`).

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::construct::gap_eviction::{EvictionParams, Repair};
use crate::construct::greedy::cleaned;
use crate::portfolio::clock::Clock;
use crate::state::flat_graph::FlatGraph;
use crate::state::slotted_timeline::SlottedTimeline;

/// The attempts are as many as this over the number of nodes: the larger the graph, the longer they take and the seldomer they fail.
const ATTEMPTS: usize = 4000;
/// The least attempts.
const FEWEST: usize = 3;
/// All but the first of them go from the last unread node on, and the first one, too, if the peak of the given order must
/// fall below this, in percent.
const TIGHT: i64 = 40;
/// Steps in which the budget falls.
const STEPS: i64 = 8;
/// Nodes that may run again for one eviction.
const CHAIN: usize = 128;
/// Attempts end whose runs take longer than all nodes once, times this: they go in circles.
const DEAREST: u64 = 4;

/// A plan within the budget by one of the attempts, which are numbered from 0 on and get more and more random. Whatever fits is
/// offered at once: to clean it up takes up to a third of the time again.
pub(crate) fn fallback(
    model: &FlatGraph,
    budget: i64,
    seed: u64,
    attempt: u32,
    clock: &Clock,
    mut offer: impl FnMut(&[u32]),
) {
    if attempt as usize >= (ATTEMPTS / model.len().max(1)).max(FEWEST) {
        return;
    }
    let given: Vec<u32> = (0..model.len() as u32).collect();
    let tight = budget < SlottedTimeline::new(model, &given).peak() / 100 * TIGHT;
    let from = if attempt > 0 || tight { Begin::Last } else { Begin::First };
    let sigma = 0.15 * f64::from(attempt + u32::from(tight));
    let mut random = ChaCha8Rng::seed_from_u64(seed.wrapping_add(attempt.into()));
    let mut timeline = SlottedTimeline::new(model, &demand_order(model, from));
    if lower(&mut timeline, budget, sigma, &mut random, clock) {
        offer(&timeline.sequence());
        offer(&cleaned(&mut timeline, budget, &mut random, clock).nodes);
    }
}

/// Gap eviction to budgets that fall from the peak to the last one; true if that is reached.
fn lower(
    timeline: &mut SlottedTimeline,
    budget: i64,
    sigma: f64,
    random: &mut ChaCha8Rng,
    clock: &Clock,
) -> bool {
    let params = EvictionParams {
        forward: false,
        ..EvictionParams::new(sigma, timeline.cost().saturating_mul(DEAREST))
    };
    let mut repair = Repair::new(timeline.model.len(), budget).with_closures(CHAIN);
    let step = (timeline.peak() - budget).max(0) / STEPS;
    let fits = (0..STEPS).rev().all(|left| {
        repair.set_budget(budget + left * step);
        repair.repair(timeline, &params, random, clock)
    });
    tracing::debug!(
        fits,
        sigma,
        cost = timeline.cost(),
        milliseconds = clock.elapsed().as_millis() as u64,
        "lowered"
    );
    fits
}

/// Which of the nodes that nobody reads comes first; the others follow in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Begin {
    First,
    Last,
}

/// Every node once, each just before the first that asks for it.
fn demand_order(model: &FlatGraph, from: Begin) -> Vec<u32> {
    let unread = |&node: &u32| {
        let mut outputs = model.writes.row(node).iter();
        outputs.all(|&value| model.readers.row(value).is_empty())
    };
    let mut stack: Vec<(u32, bool)> =
        (0..model.len() as u32).filter(unread).map(|node| (node, false)).collect();
    if from == Begin::First {
        stack.reverse();
    }
    let mut ran = vec![false; model.len()];
    let mut order = Vec::with_capacity(model.len());
    while let Some((node, ready)) = stack.pop() {
        if ran[node as usize] {
            continue;
        }
        if ready {
            ran[node as usize] = true;
            order.push(node);
            continue;
        }
        stack.push((node, true));
        // Pushed in descending order, so that they run in ascending order.
        let operands = model.reads.row(node).iter().rev().map(|&value| model.producer[value as usize]);
        stack.extend(operands.map(|operand| (operand, false)));
    }
    order
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use rk_plan::{Bytes, Graph, base_trace, judge};

    use super::*;
    use crate::construct::greedy::greedy;
    use crate::portfolio::incumbent::Incumbent;
    use crate::state::flat_graph::to_sequence;
    use crate::state::slotted_timeline_tests::random_graph;
    use crate::synthetic::{Family, graph};
    use crate::{Request, Solver, solve};

    fn clock() -> Clock {
        Clock::new(Duration::MAX)
    }

    fn budget(graph: &Graph, percent: i64) -> i64 {
        (base_trace(graph).peak.0 as i64 * percent).div_euclid(100) + 1
    }

    #[test]
    fn finds_plans_where_the_given_order_leads_nowhere() {
        for (nodes, seed, percent) in
            [(1000, 0, 30), (1000, 2, 30), (1000, 3, 30), (4000, 0, 30), (4000, 1, 30)]
        {
            let graph = graph(Family::Layered, nodes, seed);
            let (model, budget) = (FlatGraph::new(&graph), budget(&graph, percent));
            let given: Vec<u32> = (0..model.len() as u32).collect();
            assert!(greedy(&model, &given, budget, 0, 6, &clock()).is_none(), "{nodes} {seed} {percent}");
            let mut times = Vec::new();
            for attempt in 0..6 {
                fallback(&model, budget, 0, attempt, &clock(), |nodes| {
                    let trace = judge(&graph, &to_sequence(nodes)).expect("it is legal");
                    assert!(trace.peak <= Bytes(budget as u64));
                    times.push(trace.time);
                });
            }
            assert!(!times.is_empty(), "{nodes} {seed} {percent}: nothing found");
            // Each is cleaned up.
            assert!(times.chunks(2).all(|pair| pair[1] <= pair[0]), "{times:?}");
        }
    }

    #[test]
    fn greedy_answers_with_a_fallback_where_it_had_none() {
        for seed in 0..3 {
            let graph = graph(Family::Layered, 1000, seed);
            let budget = Bytes(budget(&graph, 30) as u64);
            let time_limit = Duration::from_secs(100);
            let request = Request { solver: Solver::Greedy, time_limit, ..Request::new(&graph, budget) };
            let plan = solve(&request).plan;
            assert!(plan.is_some_and(|plan| plan.trace.peak <= budget), "{seed}");
        }
    }

    #[test]
    fn a_fallback_counts_only_while_there_is_nothing_else() {
        let graph = graph(Family::Layered, 100, 0);
        let budget = base_trace(&graph).peak;
        let request = Request::new(&graph, Bytes(budget.0 - 1));
        let mut task = Incumbent::new(&request);
        let mut timeline = SlottedTimeline::new(&task.model, &demand_order(&task.model, Begin::First));
        let mut random = ChaCha8Rng::seed_from_u64(0);
        assert!(
            lower(&mut timeline, task.budget, 0.0, &mut random, &clock()),
            "next to nothing is to be evicted"
        );
        let nodes = timeline.sequence();
        assert!(!task.has_plan());
        task.offer_fallback(&nodes, Solver::Greedy);
        assert!(task.plan.is_some() && !task.has_plan());
        task.offer_fallback(&nodes, Solver::Greedy);
        assert!(task.plan.is_some() && !task.has_plan());
        task.offer(&nodes, Solver::Greedy);
        assert!(task.has_plan());
        task.offer_fallback(&nodes, Solver::Greedy);
        assert!(task.has_plan());
    }

    proptest! {
        #[test]
        fn demand_orders_are_legal(seed in any::<u64>(), nodes in 1usize..40) {
            let graph = random_graph(nodes, 0.3, &mut ChaCha8Rng::seed_from_u64(seed));
            let model = FlatGraph::new(&graph);
            for from in [Begin::First, Begin::Last] {
                let order = demand_order(&model, from);
                prop_assert_eq!(order.len(), nodes);
                prop_assert!(judge(&graph, &to_sequence(&order)).is_ok());
            }
        }
    }
}
