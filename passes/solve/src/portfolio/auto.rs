//! The portfolio: what users get.
//!
//! 1. *greedy* from the given order: a plan in milliseconds; where that gets stuck, a fallback from another order
//! 2. *bound*: order-free cut bounds, and from each good cut a held set
//! 3. *starts*: replays of the held sets and coarse chains, each repaired ([`crate::portfolio::starts`])
//! 4. *local search* by successive halving: every start gets the same number of iterations, the better half goes on; other starts
//!    come when it is at rest ([`crate::improve::racing`])
//!
//! All quantities are counts, so the clock only cuts the story short. It ends early when plan and bound meet.
//!
//! Source: docs/design/planner.md, sections 2 and 4.7.

use std::sync::Arc;
use std::time::Duration;

use rk_plan::Time;

use crate::bound::fixed_order::fixed_order;
use crate::bound::{Bound, order_free_below};
use crate::construct::depth_first_order::fallback;
use crate::construct::greedy::{self as first_plan, Attempts};
use crate::construct::list_scheduling::list_schedules;
use crate::improve::annealing::{Annealing, HEATS};
use crate::improve::lns::Solution;
use crate::improve::order_annealing::relax;
use crate::improve::racing::{REHEAT, Until, search};
use crate::layout::assign_addresses::share_until_packing;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::prove::{prove, share};
use crate::portfolio::solver::Solver;
use crate::portfolio::starts::{Late, first_starts, held_starts, ordered_starts};
use crate::state::slotted_timeline::SlottedTimeline;

/// Attempts with growing randomness when the first greedy run fails.
pub(crate) const TRIES: u32 = 6;
/// Seconds of cuts per thousand nodes, with a reserve for slow machines: 1.5 s at 10,000 nodes.
const CUT_TIME_PER_NODE: Duration = Duration::from_micros(150);
/// A plan is far from the bound if more than one part in this many of the base time lies between: 1 point.
const FAR: u64 = 100;
/// Up to here annealing over the order takes a moment, and is tried whenever the gap is large.
pub(crate) const SMALL: usize = 500;
/// The share of the time left for a bound in the given order, and what it takes per node, at least.
const ORDER_SHARE: f64 = 0.06;
const ORDER_TIME_PER_NODE: Duration = Duration::from_micros(250);
/// The share of the time left for a proof that nothing comes after but repair.
const ALONE: f64 = 0.95;
/// While no plan is found, this share of the time so far may go to chains of cuts: they may find one, or prove that there is none.
const REFUTATION: f64 = 0.67;
/// The same where a list schedule alone lowers the peak: annealing over the order finds most of what there is, and chains of cuts some of
/// the rest.
const REFUTATION_BESIDE_ORDERS: f64 = 0.33;
/// Moves of an annealing, times nodes, ...
const MOVES_PER_NODE: u64 = 200;
/// ... and at most, where another order may pay and where it is only one more start; growing with the rounds.
const MOVES: (u64, u64) = (100_000, 25_000);

/// Moves of an annealing of the first round.
pub(crate) fn moves(task: &mut Incumbent) -> u64 {
    let most = if order_matters(task) && !gap_within(task, FAR) { MOVES.0 } else { MOVES.1 };
    (MOVES_PER_NODE * task.model.len() as u64).min(most)
}

/// Gap eviction and clean-up from the given order, then from list schedules if that finds nothing.
pub(crate) fn greedy(task: &mut Incumbent) {
    first_attempt(task);
    if task.has_plan() {
        return;
    }
    let seed = task.request.seed;
    for start in list_schedules(&task.model, 10, seed, &task.clock) {
        let found = first_plan::greedy(&task.model, &start, task.budget, seed, TRIES, &task.clock);
        if let Some(best) = found {
            task.offer(&best.nodes, Solver::Greedy);
        }
    }
}

/// Local search from greedy starts, without bounds.
pub(crate) fn local(task: &mut Incumbent) {
    greedy(task);
    let mut starts = own_start(task);
    starts.extend(relax(task));
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
    starts.extend(relax(task));
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
    let mut starts: Vec<Solution> = task.plan.iter().map(best_of).collect();
    if task.model.len() <= SMALL || order_matters(task) {
        let moves = moves(task);
        let model = Arc::clone(&task.model);
        for ((_, start), seed) in task.request.starts.iter().zip(seed..) {
            let mut annealing =
                Annealing::new(&model, &crate::state::flat_graph::from_sequence(start), task.budget, seed);
            annealing.run(moves, true, REHEAT, &task.clock);
            if let Some(best) =
                first_plan::greedy(&model, &annealing.best, task.budget, seed, TRIES, &task.clock)
            {
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
    if task.model.len() > SMALL || !gap_is_large(task) {
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

/// A proof needs a good plan at hand, and what it plays out is a start.
pub(crate) fn proof_starts(task: &mut Incumbent) -> Vec<Solution> {
    let far = !gap_within(task, FAR);
    let share = share(task, far).min(share_until_packing(task));
    starts_by(task, share)
}

fn starts_by(task: &mut Incumbent, share: f64) -> Vec<Solution> {
    let mut starts = Vec::new();
    for nodes in prove(task, share) {
        let seed = task.request.seed;
        if let Some(best) = first_plan::greedy(&task.model, &nodes, task.budget, seed, 2, &task.clock) {
            task.offer(&best.nodes, Solver::Cut);
            starts.push(best);
        }
    }
    starts
}

/// Gap eviction along the given order. Attempts that get stuck take turns with those at a fallback.
pub(crate) fn first_attempt(task: &mut Incumbent) {
    let (seed, budget, clock) = (task.request.seed, task.budget, task.clock);
    let model = Arc::clone(&task.model);
    let given: Vec<u32> = (0..model.len() as u32).collect();
    let mut along = Attempts::new(&model, &given, budget, seed);
    for attempt in 0..TRIES {
        // One attempt and one fallback are made even if the time is over.
        if attempt > 0 && clock.expired() {
            break;
        }
        if let Some(best) = along.next(&clock) {
            task.offer(&best.nodes, Solver::Greedy);
            break;
        }
        if task.plan.is_none() {
            fallback(&model, budget, seed, attempt, &clock, |nodes| {
                task.offer_makeshift(nodes, Solver::Greedy);
            });
        }
    }
}

/// The best plan, if anything is to be built on it.
fn own_start(task: &Incumbent) -> Vec<Solution> {
    task.plan.iter().filter(|_| task.has_plan()).map(best_of).collect()
}

fn best_of(plan: &crate::portfolio::request::Plan) -> Solution {
    Solution { nodes: crate::state::flat_graph::from_sequence(&plan.sequence), cost: plan.trace.time.0 }
}

/// Half a percent of the base time between plan and bound, or no plan.
pub(crate) fn gap_is_large(task: &Incumbent) -> bool {
    !gap_within(task, 200)
}

/// Whether there is a plan, at most one part in `parts` of the base time above the bound.
pub(crate) fn gap_within(task: &Incumbent, parts: u64) -> bool {
    let gap = task.best_cost().map(|cost| cost.saturating_sub(task.bound.0));
    gap.is_some_and(|gap| gap.saturating_mul(parts) <= task.base_time)
}

/// Whether a look at the cuts of a graph of this size can end in time: one flow in the whole network is not interrupted.
pub(crate) fn cuts_fit(task: &Incumbent) -> bool {
    task.clock.left() > CUT_TIME_PER_NODE.saturating_mul(u32::try_from(task.model.len()).unwrap_or(u32::MAX))
}

/// Whether annealing over the order pays: a list schedule alone lowers the peak, or nothing else has found a plan.
pub(crate) fn order_matters(task: &mut Incumbent) -> bool {
    if let Some(known) = task.order_matters {
        return known;
    }
    let matters = !task.has_plan() || lists_lower_the_peak(task);
    task.order_matters = Some(matters);
    matters
}

/// Whether a list schedule alone lowers the peak. The graph of a training step is a ladder, and hardly any order of it is better than
/// the given one.
fn lists_lower_the_peak(task: &Incumbent) -> bool {
    let peak = |order: &[u32]| SlottedTimeline::new(&task.model, order).peak();
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    let orders = list_schedules(&task.model, 5, task.request.seed, &task.clock);
    let least = orders.iter().map(|order| peak(order)).min().unwrap_or(i64::MAX);
    least < peak(&base) / 100 * 97
}

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

/// For graphs without a plan so far: longer and longer annealings until one is found, and proofs that there is none.
pub(crate) fn search_any_plan(task: &mut Incumbent) -> Vec<Solution> {
    let (mut round, mut proving) = (0u32, Duration::ZERO);
    // What generator states took in a sequence that annealing, which does not count them, took for a plan.
    let mut uncounted = 0;
    let share = match task.model.len() <= SMALL {
        true if lists_lower_the_peak(task) => REFUTATION_BESIDE_ORDERS,
        true => REFUTATION,
        false => 0.0,
    };
    while task.plan.is_none() && !task.is_settled() {
        if task.clock.expired() {
            let Some(spare) = task.spare.take() else { break };
            task.clock = task.clock.with_left(spare.time);
        }
        let seed = task.request.seed.wrapping_add(u64::from(round));
        let moves = (MOVES_PER_NODE * task.model.len() as u64) << (round / 4).min(16);
        let orders = list_schedules(&task.model, 10, seed, &task.clock);
        let start = &orders[round as usize % orders.len()];
        let mut annealing = Annealing::new(&task.model, start, task.budget - uncounted, seed);
        annealing.run(moves / 4, false, HEATS[round as usize % 2], &task.clock);
        annealing.run(moves, true, HEATS[round as usize % 2], &task.clock);
        tracing::debug!(round, excess = annealing.best_excess as f64, "insisting");
        let (nodes, fits) = (annealing.best, annealing.best_excess == 0);
        task.offer(&nodes, Solver::Local);
        if fits {
            let over = SlottedTimeline::new(&task.model, &nodes).peak() - task.budget;
            uncounted = (uncounted + over.max(0)).min(task.budget / 2);
        }
        if let Some(best) = first_plan::greedy(&task.model, &nodes, task.budget, seed, TRIES, &task.clock) {
            task.offer(&best.nodes, Solver::Local);
        }
        round += 1;
        let (elapsed, left) = (task.clock.elapsed(), task.clock.left());
        let due = elapsed.mul_f64(share);
        // Each a part of the time so far, so that programs that were stopped get more the next time.
        if share > 0.0 && task.plan.is_none() && proving <= due / 2 && !left.is_zero() {
            drop(starts_by(task, (due - proving).div_duration_f64(left)));
            proving += task.clock.elapsed() - elapsed;
        }
    }
    if task.request.spare.is_some() && task.spare.is_none() {
        // What is left of it is for packing again, half of it at least.
        task.clock = task.clock.with_left(task.clock.left() / 2);
    }
    task.plan.iter().map(best_of).collect()
}
