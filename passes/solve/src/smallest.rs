//! A sequence with the smallest peak that can be found quickly: what to tell a user whose budget cannot be met.
//!
//! Gap eviction with cost ignored, towards budgets halved between the working set (which proves that nothing below works)
//! and the smallest peak seen. The number of steps is fixed. Source: planner.md of the project, 12.12.

use std::time::Duration;

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rk_plan::working_set;

use crate::clock::Clock;
use crate::order::list_schedules;
use crate::repair::{Repair, Taste};
use crate::solver::Solver;
use crate::tape::Tape;
use crate::task::Task;

/// Halvings of the interval between proof and plan.
const STEPS: u32 = 12;

/// Looks for sequences with small peaks and offers them; takes at most a fifth of the time limit on top.
pub(crate) fn search(task: &mut Task) {
    let clock = Clock::new(task.request.time_limit.mul_f64(0.05).min(Duration::from_secs(1)));
    let mut starts = vec![(0..task.model.len() as u32).collect::<Vec<u32>>()];
    starts.extend(list_schedules(&task.model, 5, task.request.seed, &clock));
    let mut found: Vec<Vec<u32>> = Vec::new();
    let mut random = ChaCha8Rng::seed_from_u64(task.request.seed);
    let least = i64::try_from(working_set(task.request.graph).0.0).unwrap_or(i64::MAX);
    for start in starts {
        let mut tape = Tape::new(&task.model, &start);
        let mut repair = Repair::new(task.model.len(), least);
        let (mut low, mut high) = (least, tape.peak());
        for _ in 0..STEPS {
            if clock.expired() || low >= high {
                break;
            }
            let middle = low + (high - low) / 2;
            repair.set_budget(middle);
            let taste = Taste { sigma: 0.0, cost_limit: u64::MAX };
            let fits = repair.repair(&mut tape, &taste, &mut random, &clock);
            // Even a failed attempt may have lowered the peak.
            let reached = tape.peak().min(high);
            if fits || reached < high {
                tape.commit();
                high = reached;
            } else {
                tape.rollback();
            }
            if !fits {
                low = middle + 1;
            }
        }
        found.push(tape.sequence());
    }
    for nodes in found {
        task.offer(&nodes, Solver::Greedy);
    }
}
