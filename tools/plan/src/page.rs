//! `--report`: the plan as one HTML page.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use rk_plan::{Graph, Sequence, Time, Transfer};
use rk_report::{Timeline, curve, html};
use rk_solve::{Request, Timekeeping};
use rk_vocabulary::write_output;

use crate::Arguments;
use crate::report::Report;

/// For each budget of the curve, in work: the same plan gives the same page.
const EACH: Duration = Duration::from_millis(500);

/// A plan that was found.
pub struct Found<'a> {
    pub sequence: &'a Sequence,
    pub timeline: Timeline,
    pub time: Time,
    pub transfers: &'a [Transfer],
    pub solver: String,
}

impl<'a> Found<'a> {
    /// The plan of a report without transfers.
    pub fn of(graph: &Graph, report: &'a Report) -> Option<Self> {
        let plan = report.outcome.plan.as_ref()?;
        Some(Self {
            sequence: &plan.sequence,
            timeline: Timeline::of(graph, &plan.sequence, &plan.trace),
            time: plan.trace.time,
            transfers: &[],
            solver: plan.solver.to_string(),
        })
    }
}

/// Writes the page of a plan, whole or not at all; without a plan, says so.
pub fn write(
    file: &Path,
    graph: &Graph,
    report: &Report,
    found: Option<Found>,
    arguments: &Arguments,
) -> Result<()> {
    let Some(found) = found else {
        // The answer says why.
        eprintln!("rk-plan: no plan, so {} is not written", file.display());
        return Ok(());
    };
    let request = Request {
        time_limit: EACH,
        timekeeping: Timekeeping::Work,
        seed: arguments.seed,
        milp: arguments.milp,
        ..Request::new(graph, report.budget)
    };
    let others = curve(&request, found.sequence, usize::from(arguments.report_points));
    let about = rk_report::Report {
        graph,
        budget: report.budget,
        time: found.time,
        lower_bound: report.outcome.lower_bound,
        bound_kind: report.bound_kind(),
        status: report.status(),
        solver: &found.solver,
        resident: None,
        transfers: found.transfers,
        operators: &[],
    };
    write_output(file, html(&about, &found.timeline, &others).as_bytes())
        .with_context(|| format!("cannot write {}", file.display()))
}
