//! What is worth remembering of an answer, and how it becomes an answer again.
//!
//! A [`Record`] holds what a solver *claims*: a sequence, a layout, a bound, a status. Recalling one believes nothing that can
//! be computed: the judge replays the sequence, every buffer of the layout is checked, and the status follows from both. What
//! remains a claim is the bound; a record whose bound contradicts its own plan, or the working set, is refused.
//!
//! Not here: where records are kept. This crate knows no files; `rk-cache` does.

use std::fmt::Write as _;

use rk_plan::arena::placed_at;
use rk_plan::{Bytes, NodeId, Sequence, Time, base_trace, judge, working_set};

use crate::chain_dp::save_budgets::SaveBudgets;
use crate::layout::fit_budget;
use crate::milp::MilpSolver;
use crate::params::Params;
use crate::portfolio::request::{
    BoundKind, Outcome, Plan, Request, Status, Stop, StrategyNames, Timekeeping, enough,
};
use crate::portfolio::solver::Solver;

/// Raised whenever the same request may get another answer, or a record means something else.
pub const REVISION: u32 = 29;

/// The memory of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The plan, and who found it; none if it is proven that there is none.
    pub plan: Option<(Solver, Sequence)>,
    /// Where the plan's buffers lie, if addresses were asked for; see [`rk_plan::arena::Arena::offsets`].
    pub offsets: Option<Vec<Bytes>>,
    /// See [`Outcome::lower_bound`].
    pub lower_bound: Time,
    /// The bound speaks of schedules in the given order only.
    pub fixed_order: bool,
    /// See [`Outcome::proven_infeasible_below`].
    pub infeasible_below: Bytes,
    /// See [`Outcome::peak_holder`].
    pub peak_holder: NodeId,
    /// See [`Outcome::smallest`].
    pub smallest: Option<Sequence>,
}

/// Everything of a request but its graph and its starts, in one line: requests with equal lines and equal graphs are the
/// same question.
pub fn question(request: &Request) -> String {
    let Request {
        budget,
        solver,
        time_limit,
        timekeeping,
        seed,
        threads,
        milp,
        save_budgets,
        without,
        params,
        addresses,
        ..
    } = request;
    let mut line = format!(
        "revision {REVISION} budget {} solver {solver} limit {} seed {seed} threads {threads}",
        budget.0,
        time_limit.as_nanos()
    );
    if *timekeeping != Timekeeping::default() {
        // Writing to a String cannot fail.
        let _ = write!(line, " by {timekeeping}");
    }
    if *milp != MilpSolver::default() {
        // Writing to a String cannot fail.
        let _ = write!(line, " milp {milp}");
    }
    if *save_budgets != SaveBudgets::default() {
        let _ = write!(line, " save {} {}", save_budgets.count, save_budgets.spread);
    }
    if *without != StrategyNames::default() {
        // Writing to a String cannot fail.
        let _ = write!(line, " without {without}");
    }
    if **params != Params::default() {
        // Writing to a String cannot fail.
        let _ = write!(line, " with {params}");
    }
    if let Some(addresses) = addresses {
        let _ = write!(line, " alignment {} effort {}", addresses.alignment.0, addresses.effort);
    }
    line
}

impl Record {
    /// What to remember. An answer that settles nothing is not worth it.
    pub fn of(outcome: &Outcome) -> Option<Self> {
        (outcome.status != Status::Unknown).then(|| Self {
            plan: outcome.plan.as_ref().map(|plan| (plan.solver, plan.sequence.clone())),
            offsets: outcome.plan.as_ref().and_then(|plan| Some(plan.arena.as_ref()?.offsets())),
            lower_bound: outcome.lower_bound,
            fixed_order: outcome.bound_kind == BoundKind::FixedOrder,
            infeasible_below: outcome.proven_infeasible_below,
            peak_holder: outcome.peak_holder,
            smallest: outcome.smallest.clone(),
        })
    }

    /// The answer to a request, or why the record cannot be one.
    ///
    /// # Errors
    /// A sentence: what the judge, the checker of layouts or the base of the graph contradicts.
    pub fn recall(&self, request: &Request) -> Result<Outcome, String> {
        let graph = request.graph;
        let (least, _) = working_set(graph);
        let Self { lower_bound, infeasible_below, peak_holder, .. } = *self;
        if peak_holder.index() >= graph.len() || infeasible_below < least || lower_bound < graph.total_time()
        {
            return Err("its bounds do not belong to this graph".into());
        }
        let plan = self.plan.as_ref().map(|(solver, sequence)| {
            let trace = judge(graph, sequence).map_err(|illegal| illegal.describe(graph))?;
            trace.within(graph, sequence, request.budget).map_err(|illegal| illegal.describe(graph))?;
            let arena = request.addresses.map(|addresses| {
                let offsets = self.offsets.as_ref().ok_or("it has no addresses")?;
                placed_at(graph, sequence, &trace, addresses.alignment, offsets)
                    .map_err(|misplaced| misplaced.describe(graph, sequence))
            });
            let arena = arena.transpose()?;
            if arena.as_ref().is_some_and(|arena| arena.size > request.budget) {
                return Err("its arena misses the budget".to_owned());
            }
            Ok(Plan { sequence: sequence.clone(), trace, solver: *solver, arena })
        });
        let plan = plan.transpose()?;
        let status = match &plan {
            None if request.budget < infeasible_below => Status::Infeasible,
            None => return Err("it has no plan, and no proof that there is none".into()),
            Some(plan) if plan.trace.time < lower_bound && !self.fixed_order => {
                return Err("its bound contradicts its plan".into());
            }
            Some(plan) if plan.trace.time <= enough(lower_bound, graph.total_time()) && !self.fixed_order => {
                Status::Optimal
            }
            Some(_) => Status::Feasible,
        };
        let replayed = self.smallest.iter().filter_map(|runs| Some((runs, judge(graph, runs).ok()?)));
        let base = Sequence::base(graph);
        let smallest = replayed.chain([(&base, base_trace(graph))]).min_by_key(|found| found.1.peak);
        let smallest_found = smallest.map(|(runs, trace)| {
            let packed = fit_budget::arena_of(request, runs, &trace);
            plan.as_ref().map_or(packed, |plan| packed.min(plan.height()))
        });
        let settled = matches!(status, Status::Optimal | Status::Infeasible);
        Ok(Outcome {
            status,
            plan,
            lower_bound,
            bound_kind: match (status, self.fixed_order) {
                (Status::Optimal, _) => BoundKind::Optimal,
                (_, true) => BoundKind::FixedOrder,
                (_, false) => BoundKind::OrderFree,
            },
            in_given_order: None,
            proven_infeasible_below: infeasible_below,
            smallest_found,
            smallest: self.smallest.clone(),
            smallest_placed: None,
            peak_holder,
            why_stopped: if settled { Stop::Proved } else { Stop::TimeLimit },
            progress: Vec::new(),
            spent: Vec::new(),
            others: Vec::new(),
            early: None,
        })
    }
}
