//! Successive halving as strategies: many searches ([`crate::improve::population`]), of which the better half goes on for twice as long.
//!
//! Every start gets the same few iterations. A round that gains nothing is an occasion for others ([`crate::portfolio::strategy::When`]),
//! since the winner may sit in a place with no way out.
//!
//! Rounds are counted. The clock ends them.
//! Source: Jamieson and Talwalkar, "Non-stochastic best arm identification", 2016, for the halving.

use std::ops::ControlFlow;

use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::{gap_is_large, gap_within, is_small};

/// A plan is near the bound if at most one part in this many of the base time lies between: 0.1 points of overhead.
const NEAR: u64 = 1_000;

/// A round of local search for every start.
pub(crate) struct Race;

impl Strategy for Race {
    fn name(&self) -> &'static str {
        "race"
    }

    fn is_due(&self, _task: &Incumbent, board: &Blackboard) -> bool {
        board.population.len() > 0
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        if board.round.count == 0 {
            task.exhausted = false;
            let competes = gap_is_large(task) && (is_small(task) || board.order_matters(task));
            board.rivalry = competes.then(|| board.moves(task));
        }
        let before = task.best_cost();
        let made = board.population.run(task);
        board.round.close(made, before, task.best_cost());
        if !task.is_settled() {
            board.time_is_over = task.clock.expired();
        }
        tracing::debug!(round = board.round.index(), cost = task.best_cost(), "searched");
        ControlFlow::Continue(())
    }
}

/// The better half goes on, for twice as many iterations.
pub(crate) struct Halving;

impl Strategy for Halving {
    fn name(&self) -> &'static str {
        "halving"
    }

    fn step(&mut self, _: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        // Where annealed starts compete there are newcomers enough.
        board.population.halve(board.rivalry.is_none());
        ControlFlow::Continue(())
    }
}

/// When one search is left, some that lost early come back for a while.
pub(crate) struct Revival;

impl Strategy for Revival {
    fn name(&self) -> &'static str {
        "revival"
    }

    fn is_due(&self, _: &Incumbent, board: &Blackboard) -> bool {
        board.population.len() == 1 && board.rivalry.is_none()
    }

    fn step(&mut self, _: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        board.population.revive();
        ControlFlow::Continue(())
    }
}

/// Ends a search that stalls near the bound.
pub(crate) struct Convergence;

impl Strategy for Convergence {
    fn name(&self) -> &'static str {
        "convergence"
    }

    fn is_due(&self, task: &Incumbent, _: &Blackboard) -> bool {
        gap_within(task, NEAR)
    }

    fn step(&mut self, task: &mut Incumbent, _: &mut Blackboard, _: f64) -> ControlFlow<()> {
        task.exhausted = true;
        ControlFlow::Break(())
    }
}
