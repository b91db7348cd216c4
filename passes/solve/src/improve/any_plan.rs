//! Graphs without a plan so far: longer and longer annealings over order and recomputation until one is found, and proofs that there is
//! none in between.

use std::ops::ControlFlow;
use std::time::Duration;

use crate::construct::greedy::{TRIES, greedy};
use crate::construct::list_scheduling::list_schedules;
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::prover::Prover;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::{is_small, lists_lower_the_peak, moves};
use crate::state::slotted_timeline::SlottedTimeline;

/// While no plan is found, this share of the time so far may go to chains of cuts: they may find one, or prove that there is none.
const REFUTATION: f64 = 0.67;
/// The same where a list schedule alone lowers the peak: annealing over the order finds most of what there is, and chains of cuts some of
/// the rest.
const REFUTATION_BESIDE_ORDERS: f64 = 0.33;

/// Where nothing is there to race with: the plan that is found, if any.
pub(crate) struct AnyPlan;

impl Strategy for AnyPlan {
    fn name(&self) -> &'static str {
        "any-plan"
    }

    fn is_due(&self, _: &Incumbent, board: &Blackboard) -> bool {
        board.population.len() == 0
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let found = search_any_plan(task, &mut board.prover);
        task.exhausted = false;
        board.enter_starts(task, &found);
        ControlFlow::Continue(())
    }
}

fn search_any_plan(task: &mut Incumbent, prover: &mut Prover) -> Option<Solution> {
    let params = &task.request.params.annealing;
    let (mut round, mut proving) = (0u32, Duration::ZERO);
    // What generator states took in a sequence that annealing, which does not count them, took for a plan.
    let mut uncounted = 0;
    let share = match is_small(task) {
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
        let moves = moves(task) << (round / 4).min(16);
        let orders = list_schedules(&task.model, 10, seed, &task.clock);
        let start = &orders[round as usize % orders.len()];
        let mut annealing = Annealing::new(&task.model, start, task.budget - uncounted, seed, params);
        let heat = params.heats()[round as usize % 2];
        annealing.run(moves / 4, false, heat, &task.clock);
        annealing.run(moves, true, heat, &task.clock);
        tracing::debug!(round, excess = annealing.best_excess as f64, "annealed for any plan");
        let (nodes, fits) = (annealing.best, annealing.best_excess == 0);
        task.offer(&nodes, Solver::Local);
        if fits {
            let over = SlottedTimeline::new(&task.model, &nodes).peak() - task.budget;
            uncounted = (uncounted + over.max(0)).min(task.budget / 2);
        }
        if let Some(best) = greedy(&task.model, &nodes, task.budget, seed, TRIES, &task.clock) {
            task.offer(&best.nodes, Solver::Local);
        }
        round += 1;
        let (elapsed, left) = (task.clock.elapsed(), task.clock.left());
        let due = elapsed.mul_f64(share);
        // Each a part of the time so far, so that programs that were stopped get more the next time.
        if share > 0.0 && task.plan.is_none() && proving <= due / 2 && !left.is_zero() {
            drop(prover.starts(task, (due - proving).div_duration_f64(left)));
            proving += task.clock.elapsed() - elapsed;
        }
    }
    if task.request.spare.is_some() && task.spare.is_none() {
        // What is left of it is for packing again, half of it at least.
        task.clock = task.clock.with_left(task.clock.left() / 2);
    }
    task.plan.as_ref().map(Solution::from)
}
