//! A request while it is being solved: the best plans, the bounds, and the clock that all solvers share.
//!
//! Solvers offer sequences and bounds; only what the judge accepts becomes the incumbent, and only a better bound
//! replaces one, so more work never makes an answer worse. What strategies leave for each other is in
//! [`crate::portfolio::blackboard`]. [`Incumbent::outcome`] turns the state into an answer at any moment.

use std::sync::Arc;
use std::time::Duration;

use rk_plan::{Bytes, NodeId, Sequence, Time, judge, working_set};

use crate::milp::{Options, Spent};
use crate::portfolio::clock::Clock;
use crate::portfolio::request::{BoundKind, Outcome, Plan, Progress, Request, Spare, Status, Stop, enough};
use crate::portfolio::solver::Solver;
use crate::state::flat_graph::{FlatGraph, to_sequence};

/// How many plans besides the best one are remembered.
const OTHERS: usize = 24;

pub(crate) struct Incumbent<'a> {
    pub(crate) request: &'a Request<'a>,
    /// Shared, so that searches can borrow it while the task collects what they find.
    pub(crate) model: Arc<FlatGraph>,
    /// The budget as a signed number; budgets beyond any graph are cut off.
    pub(crate) budget: i64,
    /// Ticks of all nodes once.
    pub(crate) base_time: u64,
    pub(crate) clock: Clock,
    pub(crate) plan: Option<Plan>,
    /// When the best plan was found.
    found_after: Duration,
    /// No plan but a fallback has been offered.
    fallback: bool,
    /// Other plans within the budget, fastest first.
    others: Vec<Plan>,
    pub(crate) bound: Time,
    bound_kind: BoundKind,
    /// See [`Outcome::in_given_order`].
    pub(crate) in_given_order: Option<Time>,
    /// A proof that nothing fits.
    pub(crate) infeasible: bool,
    pub(crate) infeasible_below: Bytes,
    peak_holder: NodeId,
    /// The smallest peak of any legal sequence offered, and the sequence.
    pub(crate) smallest: Option<(Bytes, Sequence)>,
    /// False if the clock ended the search.
    pub(crate) exhausted: bool,
    /// What is left of [`Request::spare`], and the plan that was packed in it.
    pub(crate) spare: Option<Spare>,
    pub(crate) early: Option<Plan>,
    progress: Vec<Progress>,
    began: Spent,
    /// See [`Outcome::spent`].
    spent: Vec<Duration>,
}

impl<'a> Incumbent<'a> {
    pub(crate) fn new(request: &'a Request<'a>) -> Self {
        let graph = request.graph;
        let (least, peak_holder) = working_set(graph);
        let base_time = graph.total_time();
        let mut task = Self {
            request,
            model: Arc::new(FlatGraph::new(graph)),
            budget: i64::try_from(request.budget.0).unwrap_or(i64::MAX),
            base_time: base_time.0,
            clock: Clock::new(request.time_limit),
            plan: None,
            found_after: Duration::ZERO,
            fallback: false,
            others: Vec::new(),
            bound: base_time,
            bound_kind: BoundKind::OrderFree,
            in_given_order: None,
            infeasible: request.budget < least,
            infeasible_below: least,
            peak_holder,
            smallest: None,
            exhausted: true,
            spare: request.spare,
            early: None,
            progress: Vec::new(),
            began: Spent::now(),
            spent: Vec::new(),
        };
        let base = Sequence::base(graph);
        task.offer_sequence(base, Solver::KeepAll);
        for (solver, start) in &request.starts {
            task.offer_sequence(start.clone(), *solver);
        }
        task
    }

    /// How programs are solved, within a time.
    pub(crate) fn programs(&self, limit: Duration) -> Options {
        Options::exact(limit).by(self.request.milp)
    }

    /// Nothing more can be won, or too little to be measured.
    pub(crate) fn is_settled(&self) -> bool {
        self.infeasible || self.best_cost().is_some_and(|cost| cost <= self.enough())
    }

    /// The time of a plan that is not worth improving.
    pub(crate) fn enough(&self) -> u64 {
        enough(self.goal(), Time(self.base_time)).0
    }

    /// Ticks that no plan can beat.
    pub(crate) fn goal(&self) -> Time {
        match self.bound_kind {
            BoundKind::FixedOrder => Time(self.base_time),
            BoundKind::OrderFree | BoundKind::Optimal => self.bound,
        }
    }

    /// The time of the best plan.
    pub(crate) fn best_cost(&self) -> Option<u64> {
        self.plan.as_ref().map(|plan| plan.trace.time.0)
    }

    /// Whether so many parts of the time so far have passed since the best plan was found, but for one.
    pub(crate) fn is_stale(&self, parts: u32) -> bool {
        self.has_plan() && self.stale_in(parts).is_zero()
    }

    /// How long until that is so, if none is found.
    pub(crate) fn stale_in(&self, parts: u32) -> Duration {
        self.found_after.saturating_mul(parts).saturating_sub(self.clock.elapsed())
    }

    /// Whether there is a plan that is more than a fallback.
    pub(crate) fn has_plan(&self) -> bool {
        self.plan.is_some() && !self.fallback
    }

    /// The same for a plan that nothing is to be built on but answers.
    pub(crate) fn offer_fallback(&mut self, nodes: &[u32], solver: Solver) {
        let only = !self.has_plan();
        self.offer(nodes, solver);
        self.fallback = only && self.plan.is_some();
    }

    pub(crate) fn offer(&mut self, nodes: &[u32], solver: Solver) {
        self.offer_sequence(to_sequence(nodes), solver);
    }

    /// Judges a sequence and keeps it if it is the best so far.
    pub(crate) fn offer_sequence(&mut self, sequence: Sequence, solver: Solver) {
        let trace = match judge(self.request.graph, &sequence) {
            Ok(trace) => trace,
            Err(illegal) => {
                tracing::error!(%solver, "an illegal sequence was proposed: {illegal}");
                return;
            }
        };
        if self.smallest.as_ref().is_none_or(|(peak, _)| trace.peak < *peak) {
            self.smallest = Some((trace.peak, sequence.clone()));
        }
        self.fallback &= trace.peak > self.request.budget;
        let better = self.plan.as_ref().is_none_or(|plan| trace.time < plan.trace.time);
        if trace.peak <= self.request.budget && better {
            let milliseconds = self.clock.elapsed().as_millis() as u64;
            tracing::info!(%solver, time = trace.time.0, base = self.base_time, milliseconds, "better plan");
            let plan = Plan { sequence, trace, solver, arena: None };
            if let Some(before) = self.plan.replace(plan) {
                self.keep(before);
            }
            self.found_after = self.clock.elapsed();
            self.note_progress();
        } else if trace.peak <= self.request.budget
            && self.plan.as_ref().is_some_and(|best| best.sequence != sequence)
        {
            self.keep(Plan { sequence, trace, solver, arena: None });
        }
    }

    /// Remembers a plan that is not the best, if it is among the next best.
    fn keep(&mut self, plan: Plan) {
        let rank = |plan: &Plan| (plan.trace.time, plan.trace.peak);
        let at = self.others.partition_point(|other| rank(other) < rank(&plan));
        let known = self.others.get(at).is_some_and(|other| rank(other) == rank(&plan));
        if at < OTHERS && !known {
            self.others.insert(at, plan);
            self.others.truncate(OTHERS);
        }
    }

    /// The next best plans.
    pub(crate) fn others(&self) -> &[Plan] {
        &self.others
    }

    /// Raises the bound. A bound for fewer schedules replaces one for all only in reports, see [`Incumbent::goal`].
    pub(crate) fn raise_bound(&mut self, time: Time) {
        if time > self.bound {
            let milliseconds = self.clock.elapsed().as_millis() as u64;
            tracing::info!(bound = time.0, base = self.base_time, milliseconds, "better bound");
            self.bound = time;
            self.note_progress();
        }
    }

    /// Every better plan and bound so far, with the time that it took.
    pub(crate) fn progress(&self) -> &[Progress] {
        &self.progress
    }

    fn note_progress(&mut self) {
        let plan = self.best_cost().map(Time);
        self.progress.push(Progress { at: self.clock.elapsed(), plan, bound: self.goal() });
        self.spent.push(self.began.elapsed());
    }

    /// Raises the bound for schedules in the given order that run no backward node twice, if that says more.
    pub(crate) fn raise_fixed_order(&mut self, time: Time) {
        // A bound for every order is worth more than an equal one for some.
        if time > self.bound {
            (self.bound, self.bound_kind) = (time, BoundKind::FixedOrder);
        }
    }

    /// No schedule fits: proven at `node`.
    pub(crate) fn prove_infeasible(&mut self, node: NodeId) {
        if self.plan.is_none() {
            self.infeasible = true;
            self.peak_holder = node;
            self.infeasible_below = self.infeasible_below.max(Bytes(self.request.budget.0.saturating_add(1)));
        }
    }

    /// The answer as of now.
    pub(crate) fn outcome(mut self) -> Outcome {
        self.spent.push(self.began.elapsed());
        let settled = self.is_settled();
        let status = match (&self.plan, settled, self.infeasible) {
            (_, _, true) => Status::Infeasible,
            (Some(_), true, _) => Status::Optimal,
            (Some(_), false, _) => Status::Feasible,
            (None, ..) => Status::Unknown,
        };
        Outcome {
            status,
            plan: self.plan,
            others: self.others,
            early: self.early,
            lower_bound: self.bound,
            bound_kind: if status == Status::Optimal { BoundKind::Optimal } else { self.bound_kind },
            in_given_order: self.in_given_order.filter(|&time| time > self.bound && !settled),
            proven_infeasible_below: self.infeasible_below,
            smallest_found: self.smallest.as_ref().map(|(peak, _)| *peak),
            smallest: self.smallest.map(|(_, sequence)| sequence),
            smallest_placed: None,
            peak_holder: self.peak_holder,
            why_stopped: match (settled, self.exhausted) {
                (true, _) => Stop::Proved,
                (false, true) => Stop::Exhausted,
                (false, false) => Stop::TimeLimit,
            },
            progress: self.progress,
            spent: self.spent,
        }
    }
}
