//! `--rematerialize` where no plan was found: what is said of the budget, and the plan for the smallest one that can be met.
//!
//! Not here: whether a search goes on ([`rk_solve::Patience`]).

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::StepOp;
use rk_plan::{Bytes, ValueId, readable};
use rk_solve::{Outcome, Request, Solver, Status};

use crate::exit;
use crate::planning::Problem;

/// The smallest budget that the search has found to be feasible, planned from the sequence that showed it. The same
/// search again might not find that sequence.
pub fn at_smallest(request: &Request<'_>, outcome: &Outcome) -> Option<(Bytes, Outcome)> {
    let budget = outcome.smallest_found?;
    let starts = outcome.smallest.iter().map(|runs| (Solver::Greedy, runs.clone())).collect();
    let mut found = rk_solve::solve(&Request { budget, starts, ..request.clone() });
    if found.plan.is_none() {
        // A start is a sequence. The layout that showed the budget may not be found again, either.
        (found.status, found.plan) = (Status::Feasible, outcome.smallest_placed.clone());
    }
    found.plan.is_some().then_some((budget, found))
}

/// Why there is no plan: the budget that would do, the one that cannot, and the node that holds the peak.
pub fn no_plan<'c>(
    step: StepOp<'c>,
    problem: &Problem<'c>,
    outcome: &Outcome,
    asked: Bytes,
    scope: Bytes,
) -> (i32, Diagnostic<'c>) {
    let with_scope = |bytes: Bytes| readable(Bytes(bytes.0.saturating_add(scope.0)));
    let smallest = match outcome.smallest_found {
        Some(found) => format!(
            "the smallest feasible budget found is {} ({} bytes)",
            with_scope(found),
            found.0.saturating_add(scope.0)
        ),
        None => "no feasible budget was found".to_owned(),
    };
    // A proof for this budget alone is in the verdict; it is no bound that says more.
    let says_more = outcome.proven_infeasible_below.0.saturating_add(scope.0) > asked.0.saturating_add(1)
        || outcome.status != Status::Infeasible;
    let below = match with_scope(outcome.proven_infeasible_below) {
        below if says_more => format!(", and nothing below {below} can work"),
        _ => String::new(),
    };
    let holder = problem.nodes[outcome.peak_holder.index()];
    let (step, budget) = (step.symbol(), readable(asked));
    let (verdict, code) = match outcome.status {
        Status::Infeasible => (format!("no schedule of '{step}' fits {budget}"), exit::INFEASIBLE),
        _ => (format!("no schedule of '{step}' that fits {budget} was found in the time"), exit::NONE_FOUND),
    };
    let about = problem.graph.node(outcome.peak_holder);
    let mut held: Vec<ValueId> = about.reads.iter().chain(&about.writes).copied().collect();
    held.sort_by_key(|&value| (std::cmp::Reverse(problem.graph.value(value).bytes), value));
    let held: Vec<String> = held
        .into_iter()
        .map(|value| problem.graph.value(value))
        .filter(|value| value.bytes.0 > 0)
        .take(4)
        .map(|value| format!("'{}' ({})", value.name, readable(value.bytes)))
        .collect();
    let workspace = match about.workspace {
        Bytes(0) => String::new(),
        bytes => format!(" and {} of workspace", readable(bytes)),
    };
    let note = format!(
        "'{}' holds the peak: while it runs, {}{workspace} must be in memory",
        holder.symbol(),
        if held.is_empty() { "nothing else".to_owned() } else { held.join(", ") }
    );
    let message = format!("{verdict}; {smallest}{below}");
    exit::set_unmet(exit::Unmet {
        budget: asked,
        smallest: outcome.smallest_found.map(|found| Bytes(found.0.saturating_add(scope.0))),
        impossible_below: Bytes(outcome.proven_infeasible_below.0.saturating_add(scope.0)),
        holder: holder.symbol().to_owned(),
        message: format!("{message}; {note}"),
    });
    (code, Diagnostic::error(holder.op().location(), message).note(holder.op().location(), note))
}
