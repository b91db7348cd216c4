//! Starts for larger budgets: what a plan of recomputation alone has too much can wait in host memory.
//!
//! With a makespan `Z` no more than `min(H, B Z / 2)` bytes can wait and come back ([`super::bound`]), so the budgets that can be
//! worth a start lie between the given one and that much more. A plan for a small surplus recomputes much and waits little, one
//! for a large surplus the reverse, and the best lies in between: some rungs are tried, then budgets between the best one and its
//! better neighbour. The plan of the rung below fits on each rung, and is a start there.
//!
//! Source: interval search for a unimodal function (Kiefer, 1953), though nothing promises that this one is.

use std::time::Duration;

use rk_plan::{Bytes, Sequence, base_trace};

use super::iterated_greedy::Search;
use super::{Task, bound};
use crate::portfolio::request::{Outcome, Request};
use crate::portfolio::solver::Solver;

/// Rungs are at least this part of the whole apart.
const FINEST: u64 = 32;

/// A larger budget, the plan of recomputation alone for it, and the search from that plan.
pub(super) struct Rung<'a> {
    surplus: u64,
    plan: (Solver, Sequence),
    pub(super) search: Search<'a>,
}

/// By surplus.
pub(super) struct Ladder<'a> {
    /// The largest surplus.
    pub(super) room: u64,
    pub(super) rungs: Vec<Rung<'a>>,
    /// The surpluses that were solved for.
    tried: Vec<u64>,
}

impl<'a> Ladder<'a> {
    /// The lowest rung is the plan of recomputation alone, if there is one.
    pub(super) fn new(task: &Task<'a>, alone: &Outcome) -> Self {
        let graph = task.request.graph;
        let most = base_trace(graph).peak.0.saturating_sub(task.request.budget.0);
        // Without a plan nobody knows how long the step takes, and so how much the link can move in it.
        let away = task.plan.as_ref().map(|plan| bound::away(task.host, plan.trace.makespan));
        let room = most.min(away.or(task.host.budget).map_or(u64::MAX, |bytes| bytes.0));
        let lowest = alone.plan.iter().map(|plan| Rung {
            surplus: 0,
            plan: (plan.solver, plan.sequence.clone()),
            search: task.search(plan.sequence.clone()),
        });
        Self { room, rungs: lowest.collect(), tried: Vec::new() }
    }

    /// Solves for a surplus; where its rung is, if the plan is new. A surplus is solved for once.
    pub(super) fn add(&mut self, task: &Task<'a>, surplus: u64, limit: Duration) -> Option<usize> {
        if self.tried.contains(&surplus) {
            return None;
        }
        self.tried.push(surplus);
        let place = self.rungs.partition_point(|rung| rung.surplus < surplus);
        let below = place.checked_sub(1).map(|below| self.rungs[below].plan.clone());
        let budget = Bytes(task.request.budget.0 + surplus);
        let starts = below.into_iter().collect();
        let plan =
            crate::solve(&Request { budget, time_limit: limit, starts, ..task.request.clone() }).plan?;
        if self.rungs.iter().any(|rung| rung.plan.1 == plan.sequence) {
            return None;
        }
        let search = task.search(plan.sequence.clone());
        self.rungs.insert(place, Rung { surplus, plan: (plan.solver, plan.sequence), search });
        Some(place)
    }

    /// The surplus in the middle between the best rung and its better neighbour that is not near.
    pub(super) fn between(&self) -> Option<u64> {
        let rank = |place: &usize| self.rungs[*place].search.rank();
        let best = (0..self.rungs.len()).min_by_key(rank)?;
        let apart = |place: &usize| {
            let (one, other) = (self.rungs[*place].surplus, self.rungs[best].surplus);
            one.abs_diff(other) > self.room / FINEST
        };
        let beside = [best.wrapping_sub(1), best + 1].into_iter().filter(|place| *place < self.rungs.len());
        let beside = beside.filter(apart).min_by_key(rank)?;
        let middle = self.rungs[best].surplus.midpoint(self.rungs[beside].surplus);
        (!self.tried.contains(&middle)).then_some(middle)
    }
}
