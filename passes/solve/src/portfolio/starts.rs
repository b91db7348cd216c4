//! Starts of the local search: plans that are far from each other.
//!
//! 1. what cuts hold, played out in the given order and in an annealed one ([`crate::improve::order_annealing`]): a moment each
//! 2. two coarse chains ([`crate::chain_dp::coarse`])
//! 3. [`Late`], when the search is at rest: the same cut while nodes wait ([`crate::construct::postponed_replay`]), annealed orders, finer chains. What they cost
//!    is worth many rounds of a search that still gains; without any plan they come at once
//!
//! What a start costs says little about what the search makes of it, so there are many.

use std::sync::Arc;
use std::time::Duration;

use rk_plan::{Bytes, NodeId};

use crate::bound::{CutSolution, held_at, roughly_held_at};
use crate::chain_dp::coarse::{BLOCKS, coarse_starts};
use crate::construct::greedy::{TRIES, greedy};
use crate::construct::list_scheduling::list_schedules;
use crate::construct::postponed_replay::{Held, postponed_replays};
use crate::construct::replay::replay;
use crate::improve::annealing::{Annealing, HEATS};
use crate::improve::lns::Solution;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::worthwhile::{SMALL_GRAPH, cuts_fit, gap_is_large, moves, order_matters};

/// The share of the time left for orders in which nodes wait.
pub(crate) const WAITING: f64 = 0.1;
/// The share of the time left for cuts at nodes around the best one.
const NEARBY: f64 = 0.05;
/// So many nodes on either side of the best one are cut at.
const ASIDE: usize = 3;
/// The nodes that are cut at lie one in so many parts of all nodes apart.
const STRIDES: usize = 25;
/// The budgets of cuts at nodes around the best one, in per mille.
const ROOMS: [u64; 4] = [1000, 970, 930, 880];
/// So many plans from cuts at nodes around the best one are worth a search.
const NEARBY_KEPT: usize = 8;
/// Chains of the first starts; the others are late.
const CHAINS: usize = 2;

/// Starts that are made when the search is at rest, in this order.
#[derive(Clone, Copy)]
pub(crate) enum Late {
    Waiting,
    Reordered,
    Chains,
}

impl Late {
    pub(crate) const ALL: [Self; 3] = [Self::Waiting, Self::Reordered, Self::Chains];

    /// None where plan and bound are near each other.
    pub(crate) fn starts(self, task: &mut Incumbent) -> Vec<Solution> {
        match self {
            Self::Waiting => waiting_starts(task),
            Self::Reordered => {
                let pays = gap_is_large(task) && (task.model.len() <= SMALL_GRAPH || order_matters(task));
                if pays { ordered_starts(task) } else { Vec::new() }
            }
            Self::Chains => coarse_starts(task, CHAINS..BLOCKS.len()),
        }
    }
}

/// The starts of the first round, besides the best plan.
pub(crate) fn first_starts(task: &mut Incumbent) -> Vec<Solution> {
    let held = task.clock.elapsed();
    let mut starts = held_starts(task);
    tracing::debug!(from = held.as_millis() as u64, to = task.clock.elapsed().as_millis() as u64, "replayed");
    starts.extend(coarse_starts(task, 0..CHAINS));
    starts
}

/// Replays of the held sets of the bound, and of cuts at slightly smaller budgets: a cut sees one instant only, and the
/// repair of what it overlooks costs less when some bytes are left.
pub(crate) fn held_starts(task: &mut Incumbent) -> Vec<Solution> {
    let mut sets = std::mem::take(&mut task.held);
    sets.truncate(4);
    let at = sets.first().map(|set| set.at);
    task.best_cut = sets.first().cloned();
    let mut starts = Vec::new();
    for per_mille in [10, 30, 70, 0] {
        let given: Vec<Solution> = sets.iter().filter_map(|set| replayed(task, set)).collect();
        starts.extend(replayed_in_other_order(task, &sets, &given));
        starts.extend(given);
        if per_mille == 0 || task.is_settled() || !cuts_fit(task) || !worth_it(task) {
            break;
        }
        let budget = Bytes(task.request.budget.0 / 1000 * (1000 - per_mille));
        let time = task.clock.left().mul_f64(0.05).min(Duration::from_secs(2));
        sets = at.map_or_else(Vec::new, |at| held_at(task.request.graph, budget, at, time));
    }
    if let Some(at) = at.filter(|_| gap_is_large(task) && worth_it(task)) {
        starts.extend(nearby_cuts(task, at));
    }
    starts
}

/// Where not one cut fits, more of the same will not, as far as there is an answer without them.
fn worth_it(task: &Incumbent) -> bool {
    task.has_plan() || task.plan.is_none()
}

/// Replays of what the best cut holds in orders in which nodes wait.
fn waiting_starts(task: &mut Incumbent) -> Vec<Solution> {
    let mut starts = Vec::new();
    let far = gap_is_large(task) && worth_it(task);
    let Some(set) = task.best_cut.take().filter(|_| far) else { return starts };
    let order = task.other_order.clone().unwrap_or_else(|| (0..task.model.len() as u32).collect());
    let held = Held { order, at: set.at.0, evicted: evicted(task, &set) };
    let clock = task.clock.part(WAITING);
    for best in postponed_replays(&task.model, held, task.budget, task.request.seed, 0, &clock) {
        task.offer(&best.nodes, Solver::Cut);
        starts.push(best);
    }
    tracing::debug!(milliseconds = task.clock.elapsed().as_millis() as u64, "waited");
    starts
}

/// The best of many replays of rounded cuts, at nodes around one and with less and less room. What a cut overlooks decides how much
/// of it is left in the end, and to try is cheaper than to tell.
fn nearby_cuts(task: &mut Incumbent, at: NodeId) -> Vec<Solution> {
    let (graph, last) = (task.request.graph, task.model.len() - 1);
    let (clock, stride) = (task.clock.part(NEARBY), task.model.len() / STRIDES);
    let mut found = Vec::new();
    for steps in 0..=2 * ASIDE {
        let node = NodeId::from_index((at.index() + steps * stride).saturating_sub(ASIDE * stride).min(last));
        for share in ROOMS {
            if clock.expired() {
                break;
            }
            let set = roughly_held_at(graph, Bytes(task.request.budget.0 / 1000 * share), node);
            let Some(set) = set else { continue };
            found.extend(replayed(task, &set));
            found.extend(task.other_order.clone().and_then(|order| replayed_in(task, &order, &set)));
        }
    }
    found.sort_by_key(|best| best.cost);
    found.dedup_by_key(|best| best.cost);
    found.truncate(NEARBY_KEPT);
    found
}

/// A plan that holds what a cut holds.
pub(crate) fn replayed(task: &mut Incumbent, set: &CutSolution) -> Option<Solution> {
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    replayed_in(task, &base, set)
}

fn replayed_in(task: &mut Incumbent, order: &[u32], set: &CutSolution) -> Option<Solution> {
    let nodes = replay(&task.model, order, set.at.0, &evicted(task, set));
    let best = greedy(&task.model, &nodes, task.budget, task.request.seed, 2, &task.clock)?;
    task.offer(&best.nodes, Solver::Cut);
    Some(best)
}

/// The same in the other order, which is given up if it brings nothing better than the given one did.
fn replayed_in_other_order(task: &mut Incumbent, sets: &[CutSolution], given: &[Solution]) -> Vec<Solution> {
    let Some(order) = task.other_order.take() else { return Vec::new() };
    let starts: Vec<Solution> = sets.iter().filter_map(|set| replayed_in(task, &order, set)).collect();
    let least = |starts: &[Solution]| starts.iter().map(|best| best.cost).min().unwrap_or(u64::MAX);
    task.other_order = (least(&starts) < least(given)).then_some(order);
    starts
}

/// The outputs of what runs again, except those that are held nevertheless.
fn evicted(task: &Incumbent, set: &CutSolution) -> Vec<u32> {
    let graph = task.request.graph;
    let outputs = set.again.iter().flat_map(|&node| graph.node(node).writes.iter());
    let evicted = outputs.filter(|value| set.held.binary_search(value).is_err());
    evicted.map(|value| task.model.index[value.index()]).collect()
}

/// Greedy plans from reordered graphs: list schedules and annealed orders, the latter with recomputation too.
pub(crate) fn ordered_starts(task: &mut Incumbent) -> Vec<Solution> {
    let (seed, moves) = (task.request.seed, moves(task));
    let mut orders = list_schedules(&task.model, 40, seed, &task.clock);
    orders.push((0..task.model.len() as u32).collect());
    let model = Arc::clone(&task.model);
    let mut annealed: Vec<Annealing> = orders
        .iter()
        .take_while(|_| !task.clock.expired())
        .map(|order| Annealing::new(&model, order, task.budget, seed))
        .collect();
    annealed.sort_by_key(|annealing| annealing.best_excess);
    annealed.truncate(if model.len() <= SMALL_GRAPH { 4 } else { 1 });
    tracing::debug!(milliseconds = task.clock.elapsed().as_millis() as u64, "listed");
    let mut starts = Vec::new();
    let mut start = |task: &mut Incumbent, nodes: &[u32], tries: u32| {
        if let Some(best) = greedy(&model, nodes, task.budget, seed, tries, &task.clock) {
            task.offer(&best.nodes, Solver::Local);
            starts.push(best);
        }
    };
    for (index, annealing) in annealed.iter_mut().enumerate() {
        if !task.has_plan() {
            // A plan at once, however bad.
            start(task, &annealing.best, 1);
        }
        for (moves, recompute) in [(moves / 4, false), (moves, true)] {
            annealing.run(moves, recompute, HEATS[index % 2], &task.clock);
            start(task, &annealing.best, TRIES);
        }
        tracing::debug!(
            excess = annealing.best_excess as f64,
            cost = annealing.best_cost,
            milliseconds = task.clock.elapsed().as_millis() as u64,
            "annealed"
        );
    }
    starts
}
