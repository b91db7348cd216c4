//! A sequence with the smallest peak that can be found quickly: what to tell a user whose budget cannot be met.
//!
//! - gap eviction with cost ignored, towards budgets halved between what is proven to be too little and the smallest peak seen, each
//!   from where the one before ended
//! - the same by whole attempts, each from the given order, from the sequence with the smallest peak and by the fallback: what was
//!   evicted for a budget that could not be met is in the way of the next. Where all of them get stuck, annealing may find a way in
//!   graphs that are not large
//!
//! Source: docs/design/planner.md, 12.1.

use std::sync::Arc;
use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::construct::depth_first_order::fallback;
use crate::construct::gap_eviction::{EvictionParams, Repair};
use crate::construct::greedy::greedy;
use crate::construct::list_scheduling::list_schedules;
use crate::improve::annealing::Annealing;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::worthwhile::{is_small, moves};
use crate::state::flat_graph::from_sequence;
use crate::state::slotted_timeline::SlottedTimeline;

/// Halvings of the interval between proof and plan.
const STEPS: u32 = 12;
/// Randomised repairs of an attempt, and fallbacks.
const TRIES: u32 = 4;
/// By which part of the smallest peak the attempts fall at first, and by which at last.
const PARTS: (i64, i64) = (4, 256);
/// The share of the time limit that this may take on top, and of the time that is left after a proof that nothing fits.
const SHARE: (f64, f64) = (0.05, 0.5);
/// The most that this may take in either case.
const MOST: Duration = Duration::from_secs(1);

/// Looks for sequences with small peaks and offers them.
pub(crate) fn search(task: &mut Incumbent) {
    let on_top = task.request.time_limit.mul_f64(SHARE.0);
    let left = if task.infeasible { task.clock.left().mul_f64(SHARE.1) } else { Duration::ZERO };
    let clock = Clock::new(on_top.max(left).min(MOST));
    let mut starts = vec![(0..task.model.len() as u32).collect::<Vec<u32>>()];
    starts.extend(list_schedules(&task.model, 5, task.request.seed, &clock));
    let mut found: Vec<Vec<u32>> = Vec::new();
    let mut random = ChaCha8Rng::seed_from_u64(task.request.seed);
    let least = i64::try_from(task.infeasible_below.0).unwrap_or(i64::MAX);
    for start in starts {
        let mut timeline = SlottedTimeline::new(&task.model, &start);
        let mut repair = Repair::new(task.model.len(), least);
        let (mut low, mut high) = (least, timeline.peak());
        for _ in 0..STEPS {
            if clock.expired() || low >= high {
                break;
            }
            let middle = low + (high - low) / 2;
            repair.set_budget(middle);
            let params = EvictionParams::new(0.0, u64::MAX);
            let fits = repair.repair(&mut timeline, &params, &mut random, &clock);
            // Even a failed attempt may have lowered the peak.
            let reached = timeline.peak().min(high);
            if fits || reached < high {
                timeline.commit();
                high = reached;
            } else {
                timeline.rollback();
            }
            if !fits {
                low = middle + 1;
            }
        }
        found.push(timeline.sequence());
    }
    for nodes in found {
        task.offer(&nodes, Solver::Greedy);
    }
    by_attempts(task, least, &clock);
}

/// Falls from the smallest peak seen by a part of it, which is halved where no attempt succeeds: whether one does says little about
/// budgets below, so nothing is taken to be out of reach but what is proven to be.
fn by_attempts(task: &mut Incumbent, least: i64, clock: &Clock) {
    let mut part = PARTS.0;
    while part <= PARTS.1 && !clock.expired() {
        let Some((peak, sequence)) = &task.smallest else { return };
        let high = i64::try_from(peak.0).unwrap_or(i64::MAX);
        let budget = high - high / part - 1;
        if budget < least {
            // What is left to try lies between that and the peak.
            part *= 2;
            continue;
        }
        let smallest = from_sequence(sequence);
        attempt(task, budget, &smallest, clock);
        if !is_met(task, budget) {
            part *= 2;
        }
    }
}

/// Whether a sequence within this budget has been judged: annealing does not count generator states, so its word is not enough.
fn is_met(task: &Incumbent, budget: i64) -> bool {
    task.smallest.as_ref().is_some_and(|(peak, _)| i64::try_from(peak.0).is_ok_and(|peak| peak <= budget))
}

/// Offers what may fit a budget, one way after the other until one does.
fn attempt(task: &mut Incumbent, budget: i64, smallest: &[u32], clock: &Clock) {
    let model = Arc::clone(&task.model);
    let given: Vec<u32> = (0..model.len() as u32).collect();
    let seed = task.request.seed;
    let evicted = |start: &[u32]| greedy(&model, start, budget, seed, TRIES, clock);
    if let Some(best) = evicted(&given).or_else(|| evicted(smallest)) {
        return task.offer(&best.nodes, Solver::Greedy);
    }
    for turn in 0..TRIES {
        fallback(&model, budget, seed, turn, clock, |nodes| task.offer(nodes, Solver::Greedy));
        if is_met(task, budget) || clock.expired() {
            return;
        }
    }
    if !is_small(task) {
        return;
    }
    let params = &task.request.params.annealing;
    for (start, heat) in [smallest, &given].into_iter().zip(params.heats()) {
        let moves = moves(task);
        let mut annealing = Annealing::new(&model, start, budget, seed, params);
        annealing.run(moves / 4, false, heat, clock);
        annealing.run(moves, true, heat, clock);
        task.offer(&annealing.best, Solver::Local);
        if !is_met(task, budget)
            && let Some(best) = evicted(&annealing.best)
        {
            task.offer(&best.nodes, Solver::Local);
        }
        if is_met(task, budget) {
            return;
        }
    }
}
