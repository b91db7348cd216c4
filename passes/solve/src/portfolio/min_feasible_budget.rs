//! A sequence with the smallest peak that can be found quickly: what to tell a user whose budget cannot be met.
//!
//! - gap eviction with cost ignored, towards budgets halved between what is proven to be too little and the smallest peak seen, each
//!   from where the one before ended
//! - the same by whole attempts, each from the given order and from the sequence with the smallest peak: what was evicted for a budget
//!   that could not be met is in the way of the next
//!
//! The number of steps is fixed. Source: docs/design/planner.md, 12.1.

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::construct::gap_eviction::{EvictionParams, Repair};
use crate::construct::greedy::greedy;
use crate::construct::list_scheduling::list_schedules;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::state::flat_graph::from_sequence;
use crate::state::slotted_timeline::SlottedTimeline;

/// Halvings of the interval between proof and plan.
const STEPS: u32 = 12;
/// Randomised repairs of an attempt.
const TRIES: u32 = 4;
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

/// Halves the interval from `low` to the smallest peak seen.
fn by_attempts(task: &mut Incumbent, mut low: i64, clock: &Clock) {
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    let seed = task.request.seed;
    for _ in 0..STEPS {
        let Some((peak, sequence)) = &task.smallest else { return };
        let high = i64::try_from(peak.0).unwrap_or(i64::MAX);
        if clock.expired() || low >= high {
            return;
        }
        let middle = low + (high - low) / 2;
        let least = from_sequence(sequence);
        let attempt = |start: &[u32]| greedy(&task.model, start, middle, seed, TRIES, clock);
        match attempt(&base).or_else(|| attempt(&least)) {
            Some(best) => task.offer(&best.nodes, Solver::Greedy),
            None => low = middle + 1,
        }
    }
}
