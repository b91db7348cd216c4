//! Recomputation and transfers in one plan: [`solve_with_transfers`] is the door.
//!
//! 1. *Recomputation alone*: [`crate::solve`], as without a host. Its plan is the first incumbent.
//! 2. *Starts*: the given order, that plan, and plans for larger budgets. A plan for a larger budget recomputes less, and what
//!    it has too much can wait in host memory.
//! 3. [`iterated_greedy`] from each of them, first from the given order with transfers alone, then with both.
//! 4. A lower bound for every schedule with transfers ([`bound`]).
//!
//! So the answer is never slower than what is found with one of the two alone, and [`TransferOutcome`] has all three.
//! With a host that has no engine or no memory, the answer is that of step 1.
//!
//! Source: docs/design/offload.md. Not here: what a schedule with transfers may do and costs ([`rk_plan::transfer`]); addresses.

mod bound;
mod gaps;
mod iterated_greedy;
mod ladder;
mod list_scheduling;

use rk_plan::{
    Bytes, Direction, Host, NodeId, Sequence, Time, Transfer, TransferTrace, base_trace, judge_transfers,
    working_set,
};

use crate::portfolio::clock::Clock;
use crate::portfolio::request::{Outcome, Request, Status, enough};
use iterated_greedy::{Moves, Search};
use ladder::Ladder;

/// A legal sequence with transfers, within both budgets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransferPlan {
    /// The runs in order.
    pub sequence: Sequence,
    /// What moves, by start.
    pub transfers: Vec<Transfer>,
    /// What the judge said about them.
    pub trace: TransferTrace,
    /// Which part found it.
    pub solver: &'static str,
}

/// The answer to a [`Request`] with a host.
#[derive(Clone, Debug)]
pub struct TransferOutcome {
    /// How good it is.
    pub status: Status,
    /// The best plan found.
    pub plan: Option<TransferPlan>,
    /// The best one that runs nothing twice.
    pub transfers_alone: Option<TransferPlan>,
    /// The answer with recomputation alone. Its bound and what it proves infeasible speak of schedules without transfers.
    pub recomputation_alone: Outcome,
    /// No schedule with or without transfers has a smaller makespan, whatever its order.
    pub lower_bound: Time,
    /// No budget of the device below this one can be met, however large host memory is.
    pub proven_infeasible_below: Bytes,
    /// The node whose run shows that.
    pub peak_holder: NodeId,
    /// The smallest budget of the device known to be feasible.
    pub smallest_found: Bytes,
}

/// The share of the time limit for recomputation alone. The search for both takes what these leave.
const ALONE: f64 = 0.4;
/// The share of the time limit for plans of the first larger budgets.
const LARGER: f64 = 0.1;
/// The share of the time limit for transfers alone.
const TRANSFERS: f64 = 0.05;
/// The share of the time limit for the bound.
const BOUND: f64 = 0.1;
/// The share of the time limit for the smallest budget that can be met, where the given one was not met by transfers alone.
const SMALLEST: f64 = 0.15;
/// Budgets that are tried for it.
const TRIES: u32 = 8;
/// Larger budgets whose plans are starts.
const RUNGS: u64 = 4;
/// Larger budgets between these that are tried afterwards.
const BETWEEN: u32 = 4;

/// Plans a step within the budgets of device and host. Addresses are not looked for.
///
/// Like [`crate::solve`], it never panics and never returns an illegal plan.
pub fn solve_with_transfers(request: &Request, host: &Host) -> TransferOutcome {
    let request = Request { addresses: None, spare: None, ..request.clone() };
    request.timekeeping.keep(|| Task::new(&request, host).solve())
}

struct Task<'a> {
    request: &'a Request<'a>,
    host: &'a Host,
    clock: Clock,
    plan: Option<TransferPlan>,
    smallest: Bytes,
}

impl<'a> Task<'a> {
    fn new(request: &'a Request<'a>, host: &'a Host) -> Self {
        let smallest = base_trace(request.graph).peak;
        Self { request, host, clock: Clock::new(request.time_limit), plan: None, smallest }
    }

    fn solve(mut self) -> TransferOutcome {
        let (graph, budget) = (self.request.graph, self.request.budget);
        let (least, peak_holder) = working_set(graph);
        let possible = Direction::ALL.iter().all(|&way| self.host.engine(way).bytes > 0)
            && self.host.budget != Some(Bytes(0));
        let share = if possible { self.request.time_limit.mul_f64(ALONE) } else { self.request.time_limit };
        let alone = crate::solve(&Request { time_limit: share, ..self.request.clone() });
        self.smallest = alone.smallest_found.map_or(self.smallest, |found| found.min(self.smallest));
        if let Some(plan) = &alone.plan {
            self.offer_runs(plan.sequence.clone(), plan.solver.name());
        }
        let mut transfers_alone = None;
        let mut lower_bound = if possible { graph.total_time() } else { alone.lower_bound };
        if possible && budget >= least {
            transfers_alone = self.transfers_alone();
        }
        if possible && self.plan.is_none() {
            self.seek_smallest(least.max(budget), &alone);
        }
        if possible && budget >= least && !self.is_settled(lower_bound) {
            self.both(&alone);
            let limit = self.clock.left().min(self.request.time_limit.mul_f64(BOUND));
            let known = self.plan.as_ref().map(|plan| plan.trace.makespan);
            lower_bound = lower_bound.max(bound::bound(graph, budget, self.host, known, limit));
        }
        let status = match &self.plan {
            Some(_) if self.is_settled(lower_bound) => Status::Optimal,
            Some(_) => Status::Feasible,
            None if budget < least => Status::Infeasible,
            None if !possible => alone.status,
            None => Status::Unknown,
        };
        let proven_infeasible_below = if possible { least } else { alone.proven_infeasible_below };
        TransferOutcome {
            status,
            plan: self.plan,
            transfers_alone,
            recomputation_alone: alone,
            lower_bound,
            proven_infeasible_below,
            peak_holder,
            smallest_found: self.smallest,
        }
    }

    fn is_settled(&self, bound: Time) -> bool {
        let enough = enough(bound, self.request.graph.total_time());
        self.plan.as_ref().is_some_and(|plan| plan.trace.makespan <= enough)
    }

    /// From the given order, without recomputation.
    fn transfers_alone(&mut self) -> Option<TransferPlan> {
        let clock = self.clock.with_left(self.clock.left().min(self.request.time_limit.mul_f64(TRANSFERS)));
        let mut search = self.search(Sequence::base(self.request.graph));
        search.run(Moves::Transfers, &clock);
        self.take(&search);
        search.best().cloned()
    }

    /// Halves the interval between a budget and the smallest one that is known to be feasible.
    fn seek_smallest(&mut self, least: Bytes, alone: &Outcome) {
        let starts =
            std::iter::once(Sequence::base(self.request.graph)).chain(alone.smallest.iter().cloned());
        let starts: Vec<Sequence> = starts.collect();
        let clock = self.clock.with_left(self.clock.left().min(self.request.time_limit.mul_f64(SMALLEST)));
        let mut low = least.0;
        for left in (1..=TRIES).rev() {
            let budget = Bytes(low + self.smallest.0.saturating_sub(low) / 2);
            if budget.0 == low {
                break;
            }
            let clock = clock.part(1.0 / f64::from(left));
            for (place, start) in starts.iter().enumerate() {
                let start = start.clone();
                let mut search = Search::new(self.request.graph, budget, self.host, start, self.request.seed);
                search.run(Moves::Both, &clock.part(1.0 / (starts.len() - place) as f64));
                self.take(&search);
                if search.best().is_some() {
                    break;
                }
            }
            if self.smallest > budget {
                low = budget.0;
            }
        }
    }

    /// From the given order, the plan of recomputation alone and plans for larger budgets: each for a while, then larger budgets near
    /// the best of them, then the best.
    fn both(&mut self, alone: &Outcome) {
        let limit = self.request.time_limit;
        let clock = self.clock.with_left(self.clock.left().saturating_sub(limit.mul_f64(BOUND)));
        let mut ladder = Ladder::new(self, alone);
        for part in 1..=RUNGS {
            if clock.expired() {
                break;
            }
            let limit = (limit.mul_f64(LARGER) / RUNGS as u32).min(clock.left());
            ladder.add(self, ladder.room / RUNGS * part, limit);
        }
        let others = [Sequence::base(self.request.graph)].into_iter().chain(alone.smallest.iter().cloned());
        let mut others: Vec<Search> = others.map(|start| self.search(start)).collect();
        // Half of the time is for all, half for the best: what a start costs says little about what becomes of it.
        let most = ladder.rungs.len() + others.len();
        let searches = ladder.rungs.iter_mut().map(|rung| &mut rung.search).chain(&mut others);
        for (index, search) in searches.enumerate() {
            search.run(Moves::Both, &clock.part(0.5 / (most as f64 - 0.5 * index as f64)));
            self.take(search);
        }
        for left in (1..=BETWEEN).rev() {
            let Some(more) = ladder.between().filter(|_| !clock.expired()) else { break };
            let clock = clock.part(0.5 / f64::from(left));
            let place = ladder.add(self, more, clock.left() / 2);
            let search = place.map(|place| &mut ladder.rungs[place].search);
            if let Some(search) = search {
                search.run(Moves::Both, &clock);
                self.take(search);
            }
        }
        let searches = ladder.rungs.iter_mut().map(|rung| &mut rung.search).chain(&mut others);
        if let Some(best) = searches.min_by_key(|search| search.rank()) {
            best.run(Moves::Both, &clock);
            self.take(best);
        }
    }

    fn search(&self, start: Sequence) -> Search<'a> {
        Search::new(self.request.graph, self.request.budget, self.host, start, self.request.seed)
    }

    fn take(&mut self, search: &Search) {
        self.smallest = self.smallest.min(search.smallest());
        if let Some(plan) = search.best() {
            self.offer(plan.clone());
        }
    }

    fn offer_runs(&mut self, sequence: Sequence, solver: &'static str) {
        if let Ok(trace) = judge_transfers(self.request.graph, &sequence, &[], self.host) {
            self.offer(TransferPlan { sequence, transfers: Vec::new(), trace, solver });
        }
    }

    /// Keeps a plan if it fits and is the best so far.
    fn offer(&mut self, plan: TransferPlan) {
        let better = self.plan.as_ref().is_none_or(|best| plan.trace.makespan < best.trace.makespan);
        if better && plan.trace.device.peak <= self.request.budget {
            tracing::info!(
                solver = plan.solver,
                makespan = plan.trace.makespan.0,
                transfers = plan.transfers.len(),
                "better plan"
            );
            self.plan = Some(plan);
        }
    }
}
