//! The portfolio: what users get.
//!
//! 1. *greedy* from the given order: a plan in milliseconds; where that gets stuck, a fallback from another order
//! 2. *bound*: order-free cut bounds, and from each good cut a held set
//! 3. *starts*: replays of the held sets and coarse chains, each repaired ([`crate::portfolio::starts`])
//! 4. *local search* by successive halving: every start gets the same number of iterations, the better half goes on; other starts
//!    come when it is at rest ([`crate::improve::racing`])
//!
//! Each of them stands in a file of its own, and none knows this one. All of it ends early when plan and bound meet.
//!
//! Source: docs/design/planner.md, sections 2 and 4.7.

use std::sync::Arc;
use std::time::Duration;

use rk_plan::Time;

use crate::bound::fixed_order::fixed_order;
use crate::bound::{Bound, order_free_below};
use crate::construct::greedy::{TRIES, greedy};
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::improve::order_annealing::anneal_order;
use crate::improve::racing::{REHEAT, Until, search};
use crate::portfolio::first_attempt::{first_attempt, from_any_order};
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::prove::starts_by;
use crate::portfolio::solver::Solver;
use crate::portfolio::starts::{Late, first_starts, held_starts, ordered_starts};
use crate::portfolio::worthwhile::{SMALL_GRAPH, cuts_fit, gap_is_large, moves, order_matters};
use crate::state::flat_graph::from_sequence;

/// The share of the time left for a bound in the given order.
const ORDER_SHARE: f64 = 0.06;
/// What a bound in the given order takes per node, at least.
const ORDER_TIME_PER_NODE: Duration = Duration::from_micros(250);
/// The share of the time left for a proof that nothing comes after but repair.
const ALONE: f64 = 0.95;

/// Local search from greedy starts, without bounds.
pub(crate) fn local(task: &mut Incumbent) {
    from_any_order(task);
    let mut starts = own_start(task);
    starts.extend(anneal_order(task));
    starts.extend(ordered_starts(task));
    search(task, starts, &[], Until::Proved);
}

/// Everything.
pub(crate) fn portfolio(task: &mut Incumbent) {
    first_attempt(task);
    bound(task);
    if task.is_settled() {
        return;
    }
    let mut starts = own_start(task);
    starts.extend(anneal_order(task));
    starts.extend(first_starts(task));
    let mut late = Late::ALL.as_slice();
    if !task.has_plan() {
        starts.extend(std::mem::take(&mut late).iter().flat_map(|late| late.starts(task)));
    }
    in_given_order(task);
    search(task, starts, late, Until::Proved);
}

/// For a budget near one that was solved: from the plans that the request brings along, without bounds.
pub(crate) fn nearby(task: &mut Incumbent) {
    let seed = task.request.seed;
    let mut starts: Vec<Solution> = task.plan.iter().map(Solution::from).collect();
    if task.model.len() <= SMALL_GRAPH || order_matters(task) {
        let moves = moves(task);
        let model = Arc::clone(&task.model);
        for ((_, start), seed) in task.request.starts.iter().zip(seed..) {
            let mut annealing = Annealing::new(&model, &from_sequence(start), task.budget, seed);
            annealing.run(moves, true, REHEAT, &task.clock);
            if let Some(best) = greedy(&model, &annealing.best, task.budget, seed, TRIES, &task.clock) {
                task.offer(&best.nodes, Solver::Local);
                starts.push(best);
            }
        }
    }
    search(task, starts, &[], Until::TimeIsUp);
}

/// A bound for the given order only, where the one for all orders is far from the plan: it tells whether another order, or more
/// recomputation in this one, is worth looking for. Reported beside the other, never used.
fn in_given_order(task: &mut Incumbent) {
    if task.model.len() > SMALL_GRAPH || !gap_is_large(task) {
        return;
    }
    let limit = task.clock.left().mul_f64(ORDER_SHARE);
    if limit < ORDER_TIME_PER_NODE * task.model.len() as u32 {
        return;
    }
    let bound = fixed_order(task.request.graph, task.request.budget, task.programs(limit));
    tracing::info!(?bound, milliseconds = task.clock.elapsed().as_millis() as u64, "in the given order");
    task.in_given_order = (!bound.infeasible).then_some(bound.time);
}

/// The cuts alone: bounds, replays of what they hold, and chains, repaired but not searched from.
pub(crate) fn cut(task: &mut Incumbent) {
    first_attempt(task);
    bound(task);
    if !task.is_settled() {
        held_starts(task);
        Late::Waiting.starts(task);
        starts_by(task, ALONE);
    }
}

/// The best plan, if anything is to be built on it.
fn own_start(task: &Incumbent) -> Vec<Solution> {
    task.plan.iter().filter(|_| task.has_plan()).map(Solution::from).collect()
}

/// What cuts prove, and where the best of them is.
fn bound(task: &mut Incumbent) {
    if !cuts_fit(task) {
        tracing::info!("no time for a bound");
        return;
    }
    let known = task.best_cost().filter(|_| task.has_plan()).map(Time);
    let time = task.clock.left().mul_f64(0.4);
    let bound: Bound = order_free_below(task.request.graph, task.request.budget, known, time);
    if bound.is_infeasible() {
        task.prove_infeasible(bound.node);
        return;
    }
    task.raise_bound(bound.time);
    task.at = Some(bound.node.0);
    task.held = bound.starts;
}
