//! Solvers: each proposes a sequence of runs for a graph and a budget; the judge of `rk-plan` decides.
//!
//! [`solve`] is the door. A [`Request`] names a [`Solver`]; the [`Outcome`] carries the best legal plan found, a proven
//! lower bound on the time of every plan with what it assumes, and, when nothing fits, the numbers that would.
//!
//! The clock only stops: everything else is driven by counts of work, so that the same seed gives the same plan whenever
//! the time suffices, and more time never gives a worse one. Progress goes to `tracing`.
//!
//! **Invariants:** no MLIR, no torch. No plan leaves this crate that the judge has not accepted within the budget.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod request;
mod solver;

pub use request::{BoundKind, Outcome, Plan, Request, Status, Stop};
pub use solver::{Solver, UnknownSolver};

use rk_plan::{Sequence, judge, working_set};

/// Plans a step within a budget.
///
/// Never panics on any graph and never returns an illegal plan; see [`Outcome`] for what it does return.
pub fn solve(request: &Request) -> Outcome {
    let graph = request.graph;
    let (least, peak_holder) = working_set(graph);
    let sequence = Sequence::base(graph);
    let trace = judge(graph, &sequence).ok().filter(|trace| trace.peak <= request.budget);
    let plan = trace.map(|trace| Plan { sequence, trace, solver: Solver::KeepAll });
    let status = match &plan {
        Some(_) => Status::Optimal,
        None if request.budget < least => Status::Infeasible,
        None => Status::Unknown,
    };
    Outcome {
        status,
        plan,
        lower_bound: graph.total_time(),
        bound_kind: BoundKind::OrderFree,
        proven_infeasible_below: least,
        smallest_found: Some(rk_plan::base_trace(graph).peak),
        peak_holder,
        why_stopped: Stop::Exhausted,
    }
}
