//! The first plan of a task: gap eviction and clean-up from the given order, and from others where that finds nothing.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::construct::depth_first_order::fallback;
use crate::construct::greedy::{Attempts, TRIES, greedy};
use crate::construct::list_scheduling::list_schedules;
use crate::improve::lns::Solution;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;

/// The first plan, which is a start if it is more than a fallback.
pub(crate) enum FirstPlan {
    /// Along the given order.
    InGivenOrder,
    /// The same, then along others if that finds nothing.
    InAnyOrder,
}

impl Strategy for FirstPlan {
    fn name(&self) -> &'static str {
        "first-plan"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        match self {
            Self::InGivenOrder => first_attempt(task),
            Self::InAnyOrder => from_any_order(task),
        }
        let start = task.plan.as_ref().filter(|_| task.has_plan()).map(Solution::from);
        board.enter_starts(task, &start);
        ControlFlow::Continue(())
    }
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
                task.offer_fallback(nodes, Solver::Greedy);
            });
        }
    }
}

/// Gap eviction and clean-up from the given order, then from list schedules if that finds nothing.
pub(crate) fn from_any_order(task: &mut Incumbent) {
    first_attempt(task);
    if task.has_plan() {
        return;
    }
    let seed = task.request.seed;
    for start in list_schedules(&task.model, 10, seed, &task.clock) {
        let found = greedy(&task.model, &start, task.budget, seed, TRIES, &task.clock);
        if let Some(best) = found {
            task.offer(&best.nodes, Solver::Greedy);
        }
    }
}
