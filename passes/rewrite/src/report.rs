//! A planned step as one HTML page, for `rk-translate --to html` and for Python.
//!
//! Budget, bound and status are those that the step carries; peak, time and memory are what the judge says of its schedule.
//! Not here: the page (`rk-report`).

use std::time::Duration;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{AtenOp, StepOp};
use rk_dialect::{Op, PlanSummary, Stage};
use rk_plan::{Bytes, Graph, Sequence, Time, Trace};
use rk_report::{Report, Timeline, curve, html};
use rk_solve::{Request, Timekeeping};

use crate::moves;
use crate::planning::Problem;

/// For each budget of the curve, in work: the same step gives the same page.
const EACH: Duration = Duration::from_millis(500);

/// A scheduled or lowered step as numbers.
pub struct Planned<'c> {
    /// The step.
    pub problem: Problem<'c>,
    /// Its runs.
    pub sequence: Sequence,
    /// What the judge says of them.
    pub trace: Trace,
}

impl<'c> Planned<'c> {
    /// Reads a step and judges it.
    ///
    /// # Errors
    /// For a step before stage `scheduled`, and for one that is not legal, at the op.
    pub fn of(step: StepOp<'c>, module: Op<'c>) -> Result<Self, Diagnostic<'c>> {
        let wrong = |why: String| Diagnostic::error(step.op().location(), why);
        if step.stage() < Stage::Scheduled {
            let stage = step.stage().as_str();
            return Err(wrong(format!(
                "the step has no plan: stage {stage} comes before scheduled (--rematerialize)"
            )));
        }
        let problem = Problem::of(step, module)?;
        let (sequence, trace) = moves::trace(step, &problem)?;
        Ok(Self { sequence, trace, problem })
    }

    /// The numbers of its graph.
    pub fn graph(&self) -> &Graph {
        &self.problem.graph
    }

    /// The runs over time.
    pub fn timeline(&self) -> Timeline {
        Timeline::of(self.graph(), &self.sequence, &self.trace)
    }
}

/// The page of a planned step; `points` other budgets are planned for its curve.
///
/// # Errors
/// Those of [`Planned::of`].
pub fn page<'c>(step: StepOp<'c>, module: Op<'c>, points: usize) -> Result<String, Diagnostic<'c>> {
    let planned = Planned::of(step, module)?;
    let said = PlanSummary::of(step);
    let budget = said.budget.map_or(planned.trace.peak, Bytes);
    let operators = planned.problem.nodes.iter().map(|node| {
        let names: Vec<&str> = node.calls().into_iter().map(AtenOp::operator).collect();
        names.join(", ")
    });
    let operators: Vec<String> = operators.collect();
    let report = Report {
        graph: planned.graph(),
        budget,
        time: planned.trace.time,
        lower_bound: said.lower_bound.map_or(planned.graph().total_time(), Time),
        bound_kind: said.bound_kind.as_deref().unwrap_or_default(),
        status: said.status.as_deref().unwrap_or_default(),
        solver: said.solver.as_deref().unwrap_or_default(),
        resident: said.resident.map(Bytes),
        transfers: &[],
        operators: &operators,
    };
    let request =
        Request { time_limit: EACH, timekeeping: Timekeeping::Work, ..Request::new(planned.graph(), budget) };
    let others = curve(&request, &planned.sequence, points);
    Ok(html(&report, &planned.timeline(), &others))
}
