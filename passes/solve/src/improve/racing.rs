//! Successive halving: many searches, of which the better half goes on for twice as long.
//!
//! Every start gets the same few iterations, the fewer the more nodes there are: what is won by looking at many starts for long does
//! not grow with the graph, and what an iteration takes does. A round that gains nothing calls for something else, since the winner may
//! sit in a place with no way out:
//!
//! - starts that take longer to make ([`crate::portfolio::starts::Late`]) join after rounds of their own
//! - when one search is left, some that lost early come back for a while
//! - orders in which nodes wait for each other are tried from it (`construct/postponed_replay.rs`), and its memory is made less full
//!   (`annealing/memory_objective.rs`): what the search then runs less again may be more than what that cost
//!
//! Where few are left the best plan is annealed as well (`reannealing.rs`). In small graphs, and where another order may pay, annealed starts
//! join then, too, twice as long from round to round. Proofs are tried in between.
//!
//! Rounds are counted. The clock ends them, says when packing is due, and gives proofs and replays a share of what is left.
//! Source: Jamieson and Talwalkar, "Non-stochastic best arm identification", 2016, for the halving.

use std::sync::Arc;

use crate::construct::greedy::{TRIES, greedy};
use crate::construct::list_scheduling::list_schedules;
use crate::construct::postponed_replay::{Held, postponed_replays};
use crate::improve::annealing::memory_objective::{Walk, Within};
use crate::improve::annealing::{Annealing, HEATS};
use crate::improve::any_plan::search_any_plan;
use crate::improve::lns::{Search, Solution};
use crate::improve::reannealing::Cooling;
use crate::layout::assign_addresses::{is_time_to_pack, leave_more, pack_early};
use crate::portfolio::clock::{Clock, counted};
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::prove::proof_starts;
use crate::portfolio::solver::Solver;
use crate::portfolio::starts::{Late, WAITING};
use crate::portfolio::worthwhile::{SMALL_GRAPH, gap_is_large, gap_within, moves, order_matters};
use crate::state::flat_graph::FlatGraph;

/// Iterations of local search per start in the first round, times nodes.
const FIRST_ROUND: u64 = 25_000;
/// Graphs of fewer nodes than this have more iterations in the first round, in proportion: they take a moment there.
const FEW_NODES: u64 = 320;
/// A proof is tried after the first round of the search and then whenever rounds are this many times as long; each gets a share
/// of the time that is left.
const PROOFS: u64 = 8;
/// So many rounds without gain call for a proof sooner, in graphs small enough for a chain of cuts to say much more than one.
const IDLE: u32 = 2;
/// The next proof is due after rounds that are [`PROOFS`] times as long as this, at least.
const SHORT: u64 = 200;
/// A round stalls that gains less than one part in this many of the base time.
const LEAST_GAIN: u64 = 10_000;
/// No round stalls before this many were made; each is as long as all before.
const LEAST_ROUNDS: u32 = 5;
/// When the only search left is at rest, this many that lost early get another chance.
const REVIVED: usize = 3;
/// A search lost early that has made no more than one in this many of the iterations of the only one left.
const BEHIND: u64 = 4;
/// Starts of a search that ends when it stalls; those of one cost are one plan, or as good as.
const FEW: usize = 4;
/// A plan is near the bound if at most one part in this many of the base time lies between: 0.1 points of overhead.
const NEAR: u64 = 1_000;

/// Late starts that join the search, of each kind.
const NEWCOMERS: usize = 2;
/// Where so few searches are left, the best plan is annealed, too: before that a search gains more.
const MATURE: usize = 4;
/// Iterations of the search in each order that is tried from a plan at rest.
const PATIENCE: u64 = 50;
/// Moves of an annealing for less memory, per iteration of the round: a move takes a fortieth of its time, about.
const EASING: u64 = 8;
/// Moves of an annealing for less memory, times nodes, at least and at most.
const EASED: (u64, u64) = (10, 100);
/// Memory above this share of the budget counts as full, in per mille.
const FULL: i64 = 900;
/// One part in so many of the base time may be spent on less full memory.
const SPENT: u64 = 1_000;
/// How hot the annealing from the best plan is at first: a part of it stays.
pub(crate) const REHEAT: f64 = 0.5;

/// When a search ends, besides proof and clock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Until {
    /// Never: bounds, and what is annealed from the best plan, for as long as there is time.
    Proved,
    /// Never, and nothing is proven.
    TimeIsUp,
    /// When a round gains next to nothing and the plan is near the bound. Proofs only where it is far when that happens.
    Stalled,
}

/// Local search from all starts by successive halving, then from the best.
pub(crate) fn search(task: &mut Incumbent, mut starts: Vec<Solution>, mut late: &[Late], until: Until) {
    if starts.is_empty() {
        starts = search_any_plan(task);
        task.exhausted = false;
    }
    if task.is_settled() || starts.is_empty() {
        return;
    }
    if until == Until::Stalled {
        starts.sort_by_key(|start| start.cost);
        starts.dedup_by_key(|start| start.cost);
        starts.truncate(FEW);
    }
    let (seed, budget, mut clock) = (task.request.seed, task.budget, task.clock);
    let goal = task.enough();
    let reordered = gap_is_large(task) && (task.model.len() <= SMALL_GRAPH || order_matters(task));
    let rivalry = if reordered { moves(task) } else { 0 };
    let model = Arc::clone(&task.model);
    let mut searches: Vec<Search> = starts
        .iter()
        .zip(seed..)
        .map(|(start, seed)| Search::new(&model, &start.nodes, budget, seed))
        .collect();
    let nodes = model.len().max(1) as u64;
    let first_round = (FIRST_ROUND * FEW_NODES.max(nodes) / (nodes * nodes)).clamp(20, 400);
    let mut iterations = first_round;
    let (mut next_proof, mut idle, mut waited) = (0, 0, None);
    let mut benched: Vec<Search> = Vec::new();
    // Work is counted on this thread.
    let threads = if counted::is_on() { 1 } else { task.request.threads.clamp(1, 64) };
    let mut stalled = false;
    let mut cooling = Cooling::new();
    for round in 0u32.. {
        let before = task.best_cost();
        let made = iterations.saturating_mul(searches.len() as u64);
        run_side_by_side(&mut searches, threads, iterations, goal, &clock);
        for search in &searches {
            task.offer(&search.best.nodes, Solver::Local);
        }
        if task.is_settled() {
            break;
        }
        if let Some(shorter) = leave_more(task) {
            (task.clock, clock) = (shorter, shorter);
        }
        if clock.expired() || is_time_to_pack(task) {
            let Some(longer) = pack_early(task) else { break };
            (task.clock, clock) = (longer, longer);
        }
        let costs: Vec<u64> = searches.iter().map(|search| search.best.cost).collect();
        tracing::debug!(round, ?costs, "searched");
        let at_rest = until == Until::Stalled
            && round >= LEAST_ROUNDS
            && gained(task, before) < task.base_time / LEAST_GAIN;
        if at_rest && gap_within(task, NEAR) {
            stalled = true;
            break;
        }
        let resting = gained(task, before) == 0;
        idle = if resting { idle + 1 } else { 0 };
        // The search comes first while there is much to gain.
        let mut due = iterations >= next_proof || (idle >= IDLE && model.len() <= SMALL_GRAPH);
        if due {
            // One more such round calls for the next.
            idle = IDLE - 1;
            next_proof = PROOFS * iterations.max(SHORT);
            due = round > 0 || !gap_is_large(task);
        }
        if at_rest || (until == Until::Proved && due) {
            for best in proof_starts(task) {
                searches.push(Search::new(&model, &best.nodes, budget, seed));
            }
            if task.is_settled() {
                break;
            }
        }
        searches.sort_by_key(|search| search.best.cost);
        let half = searches.len().div_ceil(2);
        thin(&mut searches);
        let lost = searches.drain(half.min(searches.len())..);
        if reordered {
            drop(lost);
        } else {
            benched.extend(lost);
        }
        iterations = iterations.saturating_mul(2);
        if searches.len() == 1 && resting && !reordered {
            iterations = revive(&mut searches, &mut benched, iterations);
        }
        if resting
            && waited != task.best_cost()
            && gap_is_large(task)
            && let Some(at) = task.at
        {
            waited = task.best_cost();
            let held = Held::by(&model, &searches[0].best.nodes, at);
            for best in postponed_replays(&model, held, budget, seed, PATIENCE, &clock.part(WAITING)) {
                task.offer(&best.nodes, Solver::Local);
                searches.push(Search::new(&model, &best.nodes, budget, seed));
            }
        }
        if resting || (task.other_order.is_some() && gap_is_large(task)) {
            let seed = seed.wrapping_add(u64::from(round));
            let walk = if round % 2 == 0 { Walk::RestartToBest } else { Walk::Free };
            let eased = lower_excess(&model, &searches[0].best, budget, (made, walk), seed, &clock);
            searches.extend(eased.map(|nodes| Search::new(&model, &nodes, budget, seed)));
        }
        if resting || searches.len() == 1 {
            searches.extend(late_starts(task, &model, &mut late, first_round, (threads, goal), &clock));
        }
        if searches.len() <= MATURE
            && let Some(best) = cooling.better(&model, &searches[0].best, budget, (round, made), seed, &clock)
        {
            task.offer(&best.nodes, Solver::Local);
            searches.push(Search::new(&model, &best.nodes, budget, seed));
        }
        if reordered && (resting || searches.len() <= MATURE) && gap_is_large(task) {
            let annealed_starts = annealed_starts(
                &model,
                &searches[0].best,
                budget,
                seed.wrapping_add(1000 * u64::from(round + 1)),
                (rivalry, round),
                &clock,
            );
            for (best, seed) in annealed_starts {
                task.offer(&best.nodes, Solver::Local);
                searches.push(Search::new(&model, &best.nodes, budget, seed));
            }
        }
    }
    task.exhausted = stalled;
}

/// Searches from the next late starts that there are: two of them, after rounds of their own.
fn late_starts<'m>(
    task: &mut Incumbent,
    model: &'m FlatGraph,
    late: &mut &[Late],
    mut iterations: u64,
    (threads, goal): (usize, u64),
    clock: &Clock,
) -> Vec<Search<'m>> {
    let mut starts = Vec::new();
    while let Some((next, rest)) = late.split_first().filter(|_| starts.is_empty()) {
        *late = rest;
        starts = next.starts(task);
    }
    let mut searches: Vec<Search> = starts
        .iter()
        .zip(task.request.seed..)
        .map(|(start, seed)| Search::new(model, &start.nodes, task.budget, seed))
        .collect();
    while searches.len() > NEWCOMERS {
        run_side_by_side(&mut searches, threads, iterations, goal, clock);
        for search in &searches {
            task.offer(&search.best.nodes, Solver::Local);
        }
        searches.sort_by_key(|search| search.best.cost);
        let half = searches.len().div_ceil(2);
        thin(&mut searches);
        searches.truncate(half);
        iterations *= 2;
    }
    searches
}

/// The best sequence with its memory less full, at the price of a little time, which comes back with interest where the search can then
/// run less again: it looks at time only, and has no reason to free what nobody needs yet. Takes a part of the time of the
/// iterations that were just made; `None` if that is too little to get anywhere.
fn lower_excess(
    model: &FlatGraph,
    best: &Solution,
    budget: i64,
    (iterations, walk): (u64, Walk),
    seed: u64,
    clock: &Clock,
) -> Option<Vec<u32>> {
    let nodes = model.len() as u64;
    let moves = EASING.saturating_mul(iterations).min(EASED.1 * nodes);
    if moves < EASED.0 * nodes {
        return None;
    }
    let room = |peak: i64| peak / 1000 * FULL;
    let spent = model.time.iter().sum::<u64>() / SPENT;
    let mut annealing = Annealing::new(model, &best.nodes, room(budget), seed);
    annealing.lower_memory(moves, walk, Within { most: best.cost + spent, spent, roof: budget }, room, clock);
    Some(annealing.best)
}

/// Leaves two of each cost: searches that ended at one cost are nearly always at one plan. They are sorted by cost.
fn thin(searches: &mut Vec<Search>) {
    let costs: Vec<u64> = searches.iter().map(|search| search.best.cost).collect();
    let mut index = 0;
    searches.retain(|_| {
        index += 1;
        index < 3 || costs[index - 1] != costs[index - 3]
    });
}

/// Brings some of those that lost early back, for shorter rounds. Where there are none, the winner goes on in long ones.
fn revive<'m>(searches: &mut Vec<Search<'m>>, benched: &mut Vec<Search<'m>>, iterations: u64) -> u64 {
    let back = revived(benched, searches[0].iterations / BEHIND);
    if back.is_empty() {
        return iterations;
    }
    searches.extend(back);
    (iterations / BEHIND).max(1)
}

/// The best of those that lost early, for when the winner is at rest: it may sit in a place with no way out.
fn revived<'m>(benched: &mut Vec<Search<'m>>, iterations: u64) -> Vec<Search<'m>> {
    benched.sort_by_key(|search| (search.iterations > iterations, search.best.cost));
    let young = benched.partition_point(|search| search.iterations <= iterations);
    benched.drain(..young.min(REVIVED)).collect()
}

/// Ticks between the best plan and one before.
fn gained(task: &Incumbent, before: Option<u64>) -> u64 {
    let now = task.best_cost().unwrap_or(u64::MAX);
    before.map_or(u64::MAX, |before| before.saturating_sub(now))
}

/// The same number of iterations for every search. Each depends on its own seed only, so threads change nothing else.
fn run_side_by_side(searches: &mut [Search], threads: usize, iterations: u64, goal: u64, clock: &Clock) {
    for group in searches.chunks_mut(threads) {
        if let [search] = group {
            search.run(iterations, goal, clock);
            continue;
        }
        std::thread::scope(|scope| {
            for search in group {
                scope.spawn(|| search.run(iterations, goal, clock));
            }
        });
    }
}

/// Competitors that the moves of the local search cannot reach: annealed from the best plan, and from fresh orders.
/// The moves double from round to round.
fn annealed_starts(
    model: &FlatGraph,
    best: &Solution,
    budget: i64,
    seed: u64,
    (moves, round): (u64, u32),
    clock: &Clock,
) -> Vec<(Solution, u64)> {
    let moves = moves << round.min(16);
    let mut starts = vec![best.nodes.clone()];
    let mut orders = list_schedules(model, 12, seed, clock);
    starts.extend(orders.drain(5.min(orders.len())..).take(3));
    let mut found = Vec::new();
    for (index, (start, seed)) in starts.iter().zip(seed..).enumerate() {
        let mut annealing = Annealing::new(model, start, budget, seed);
        let fresh = start.len() == model.len();
        let heat = if fresh { HEATS[(index + round as usize) % 2] } else { REHEAT };
        if fresh {
            annealing.run(moves / 4, false, heat, clock);
        }
        annealing.run(moves, true, heat, clock);
        let plan = greedy(model, &annealing.best, budget, seed, TRIES, clock);
        found.extend(plan.map(|best| (best, seed)));
    }
    found
}

#[cfg(test)]
mod tests {
    use rk_plan::base_trace;

    use super::*;
    use crate::synthetic::{Family, graph};

    #[test]
    fn a_plan_gets_roomier_for_little_time() {
        let graph = graph(Family::Bottleneck, 150, 3);
        let model = FlatGraph::new(&graph);
        let budget = base_trace(&graph).peak.0 as i64 / 100 * 60;
        let clock = Clock::new(std::time::Duration::MAX);
        let base: Vec<u32> = (0..model.len() as u32).collect();
        let best = greedy(&model, &base, budget, 0, TRIES, &clock).expect("a plan");
        assert!(
            lower_excess(&model, &best, budget, (10, Walk::Free), 0, &clock).is_none(),
            "too little time"
        );
        let full = |nodes: &[u32]| Annealing::new(&model, nodes, budget / 1000 * FULL, 0).best_excess;
        for walk in [Walk::Free, Walk::RestartToBest] {
            let roomy = lower_excess(&model, &best, budget, (10_000, walk), 0, &clock).expect("time enough");
            let found = Search::new(&model, &roomy, budget, 0).best.cost;
            assert!(crate::state::slotted_timeline::SlottedTimeline::new(&model, &roomy).peak() <= budget);
            assert!(found <= best.cost + model.time.iter().sum::<u64>() / SPENT);
            assert!(full(&roomy) < full(&best.nodes));
        }
    }

    #[test]
    fn late_starts_join_in_turn_two_of_a_kind() {
        let graph = graph(Family::Residual, 250, 7);
        let budget = rk_plan::Bytes(base_trace(&graph).peak.0 / 100 * 30);
        let request = crate::Request::new(&graph, budget);
        let mut task = Incumbent::new(&request);
        crate::portfolio::first_attempt::first_attempt(&mut task);
        let (mut late, mut turns, mut joined) = (Late::ALL.as_slice(), Vec::new(), 0);
        let (model, clock) = (Arc::clone(&task.model), Clock::new(std::time::Duration::MAX));
        while !late.is_empty() {
            let searches = late_starts(&mut task, &model, &mut late, 20, (1, 0), &clock);
            assert!(searches.len() <= NEWCOMERS);
            for search in &searches {
                let timeline =
                    crate::state::slotted_timeline::SlottedTimeline::new(&model, &search.best.nodes);
                assert!(timeline.peak() <= task.budget && timeline.cost() == search.best.cost);
                assert!(task.best_cost().is_some_and(|known| known <= search.best.cost));
            }
            joined += searches.len();
            turns.push((late.len(), searches.is_empty()));
        }
        // No cut was looked at, so nothing waits: the annealed orders come in its place.
        assert_eq!(turns, [(1, false), (0, false)]);
        assert_eq!(joined, 2 * NEWCOMERS);
        assert!(late_starts(&mut task, &model, &mut late, 20, (1, 0), &clock).is_empty());
    }

    #[test]
    fn those_that_lost_early_come_back_best_first() {
        let graph = graph(Family::Vgg, 60, 0);
        let model = FlatGraph::new(&graph);
        let base: Vec<u32> = (0..model.len() as u32).collect();
        let budget = base_trace(&graph).peak.0 as i64;
        let mut benched: Vec<Search> = [(50, 9), (10, 7), (20, 5), (10, 6), (20, 8), (90, 1)]
            .map(|(iterations, cost)| {
                let mut search = Search::new(&model, &base, budget, 0);
                (search.iterations, search.best.cost) = (iterations, cost);
                search
            })
            .into();
        let costs =
            |searches: Vec<Search>| searches.iter().map(|search| search.best.cost).collect::<Vec<_>>();
        assert_eq!(costs(revived(&mut benched, 20)), [5, 6, 7]);
        assert_eq!(costs(revived(&mut benched, 20)), [8]);
        assert!(revived(&mut benched, 20).is_empty());
        let mut winner = vec![Search::new(&model, &base, budget, 0)];
        winner[0].iterations = 50 * BEHIND;
        assert_eq!(revive(&mut winner, &mut benched, 800), 800 / BEHIND);
        assert_eq!((winner.len(), benched.len()), (2, 1));
        // Nobody is left that is so far behind: rounds stay as long as they are.
        assert_eq!(revive(&mut winner, &mut benched, 800), 800);
        assert_eq!(costs(benched), [1]);
    }
}
