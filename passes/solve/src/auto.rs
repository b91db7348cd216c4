//! The portfolio: what users get.
//!
//! 1. *greedy* from the given order: a plan in milliseconds
//! 2. *bound*: order-free cut bounds, and from each good cut a held set
//! 3. *starts*: replay of the held sets, list schedules and annealed orders where the gap is large, each repaired
//! 4. *local search* by successive halving: every start gets the same number of iterations, the better half goes on
//!
//! All quantities are counts, so the clock only cuts the story short. It ends early when plan and bound meet.
//!
//! Source: planner.md of the project, sections 2 and 4.7.

use std::time::Duration;

use rk_plan::{Bytes, Time};

use crate::bounds::{Bound, HeldSet, order_free_below};
use crate::greedy as first_plan;
use crate::order::{Annealing, list_schedules};
use crate::replay::replay;
use crate::search::{Best, Search};
use crate::solver::Solver;
use crate::task::Task;

/// Attempts with growing randomness when the first greedy run fails.
const TRIES: u32 = 6;
/// Iterations of local search per start in the first round.
const FIRST_ROUND: u64 = 400;

/// Gap eviction and clean-up from the given order, then from list schedules if that finds nothing.
pub(crate) fn greedy(task: &mut Task) {
    let mut starts = vec![(0..task.model.len() as u32).collect::<Vec<u32>>()];
    for attempt in 0..2 {
        for start in &starts {
            let found =
                first_plan::greedy(&task.model, start, task.budget, task.request.seed, TRIES, &task.clock);
            if let Some(best) = found {
                task.offer(&best.nodes, Solver::Greedy);
            }
        }
        if attempt == 0 && task.plan.is_none() {
            starts = list_schedules(&task.model, 10, task.request.seed, &task.clock);
        } else {
            return;
        }
    }
}

/// Local search from greedy starts, without bounds.
pub(crate) fn local(task: &mut Task) {
    greedy(task);
    let mut starts: Vec<Best> = task.plan.iter().map(best_of).collect();
    starts.extend(ordered_starts(task));
    search(task, starts);
}

/// Everything.
pub(crate) fn portfolio(task: &mut Task) {
    first_attempt(task);
    bound(task);
    if task.is_settled() {
        return;
    }
    let mut starts: Vec<Best> = task.plan.iter().map(best_of).collect();
    let held = task.clock.elapsed();
    starts.extend(held_starts(task));
    tracing::debug!(from = held.as_millis() as u64, to = task.clock.elapsed().as_millis() as u64, "replayed");
    if gap_is_large(task) {
        starts.extend(ordered_starts(task));
    }
    search(task, starts);
}

fn first_attempt(task: &mut Task) {
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    let found = first_plan::greedy(&task.model, &base, task.budget, task.request.seed, TRIES, &task.clock);
    if let Some(best) = found {
        task.offer(&best.nodes, Solver::Greedy);
    }
}

fn best_of(plan: &crate::request::Plan) -> Best {
    Best { nodes: crate::model::from_sequence(&plan.sequence), cost: plan.trace.time.0 }
}

/// Half a percent of the base time between plan and bound, or no plan.
fn gap_is_large(task: &Task) -> bool {
    let gap = task.best_cost().map(|cost| cost.saturating_sub(task.bound.0));
    gap.is_none_or(|gap| gap.saturating_mul(200) > task.base_time)
}

fn bound(task: &mut Task) {
    let known = task.best_cost().map(Time);
    let time = task.clock.left().mul_f64(0.4);
    let bound: Bound = order_free_below(task.request.graph, task.request.budget, known, time);
    if bound.is_infeasible() {
        task.prove_infeasible(bound.node);
        return;
    }
    task.raise_bound(bound.time);
    task.held = bound.starts;
}

/// Replays of the held sets of the bound, and of cuts at slightly smaller budgets.
fn held_starts(task: &mut Task) -> Vec<Best> {
    let mut sets = std::mem::take(&mut task.held);
    sets.truncate(2);
    for per_mille in [10, 30, 70] {
        let budget = Bytes(task.request.budget.0 / 1000 * (1000 - per_mille));
        let time = task.clock.left().mul_f64(0.05).min(Duration::from_secs(2));
        let bound = order_free_below(task.request.graph, budget, None, time);
        sets.extend(bound.starts.into_iter().take(1));
    }
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    let mut starts = Vec::new();
    for set in &sets {
        let nodes = replay(&task.model, &base, set.at.0, &evicted(task, set));
        if let Some(best) =
            first_plan::greedy(&task.model, &nodes, task.budget, task.request.seed, 2, &task.clock)
        {
            task.offer(&best.nodes, Solver::Cut);
            starts.push(best);
        }
    }
    starts
}

/// The outputs of what runs again, except those that are held nevertheless.
fn evicted(task: &Task, set: &HeldSet) -> Vec<u32> {
    let graph = task.request.graph;
    let outputs = set.again.iter().flat_map(|&node| graph.node(node).writes.iter());
    let evicted = outputs.filter(|value| set.held.binary_search(value).is_err());
    evicted.map(|value| task.model.index[value.index()]).collect()
}

/// Greedy plans from reordered graphs.
fn ordered_starts(task: &mut Task) -> Vec<Best> {
    let seed = task.request.seed;
    let mut orders = list_schedules(&task.model, 40, seed, &task.clock);
    orders.push((0..task.model.len() as u32).collect());
    let mut annealed: Vec<Annealing> =
        orders.iter().map(|order| Annealing::new(&task.model, order, task.budget, seed)).collect();
    annealed.sort_by_key(|annealing| annealing.best_peak);
    annealed.truncate(4);
    let moves = 100 * task.model.len() as u64;
    for annealing in &mut annealed {
        annealing.run(moves, &task.clock);
    }
    annealed.sort_by_key(|annealing| annealing.best_peak);
    let orders: Vec<Vec<u32>> = annealed.into_iter().map(|annealing| annealing.best).collect();
    let mut starts = Vec::new();
    for order in &orders {
        if let Some(best) = first_plan::greedy(&task.model, order, task.budget, seed, TRIES, &task.clock) {
            task.offer(&best.nodes, Solver::Local);
            starts.push(best);
        }
    }
    starts
}

/// Local search from all starts by successive halving, then from the best for as long as there is time.
fn search(task: &mut Task, starts: Vec<Best>) {
    if task.is_settled() || starts.is_empty() {
        return;
    }
    let (seed, budget, clock) = (task.request.seed, task.budget, task.clock);
    let goal = task.goal().0;
    // Taken out, so that the searches can borrow it while the task collects what they find.
    let model = std::mem::replace(&mut task.model, crate::model::Model::empty());
    let mut searches: Vec<Search> = starts
        .iter()
        .enumerate()
        .map(|(index, start)| Search::new(&model, &start.nodes, budget, seed + index as u64))
        .collect();
    let mut round = FIRST_ROUND;
    loop {
        for search in &mut searches {
            search.run(round, goal, &clock);
            task.offer(&search.best.nodes, Solver::Local);
        }
        if task.is_settled() || clock.expired() {
            break;
        }
        searches.sort_by_key(|search| search.best.cost);
        searches.truncate(searches.len().div_ceil(2));
        round *= 2;
    }
    task.exhausted = false;
    task.model = model;
}
