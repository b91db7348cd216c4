//! `--rk-verify-schedule`: reads a scheduled step back and lets the judge of `rk-plan` decide.
//!
//! # Before and after
//! The IR is not changed. A legal schedule gives a remark with its peak; an illegal one an error that names the law.
//!
//! # Contract
//! Needs `scheduled`. S1 to S7 hold afterwards, S7 for the budget in `rk.budget`.
//!
//! # Not here
//! S8, which needs the numbers: `rk-run --check`.

use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::pass::{PassContext, PassSpec};
use rk_dialect::{Attr, Stage};
use rk_plan::{Bytes, Step, judge_schedule, readable};

use crate::planning::Problem;

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "VerifySchedule",
    argument: "rk-verify-schedule",
    description: "Judges a scheduled step by the laws S1 to S7",
    options: &[],
    run: |cx| run(cx),
};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    for step in cx.steps_at(Stage::Scheduled) {
        cx.at(step.op());
        let problem = Problem::of(step, cx.module())?;
        let schedule = problem.schedule_of(step)?;
        let budget =
            step.op().get("rk.budget").and_then(Attr::as_i64).and_then(|bytes| u64::try_from(bytes).ok());
        let trace = judge_schedule(&problem.graph, &schedule, budget.map(Bytes))
            .map_err(|illegal| Diagnostic::error(step.op().location(), illegal.describe(&problem.graph)))?;
        let again = schedule.0.iter().filter(|line| matches!(line, Step::Run { again: true, .. })).count();
        let limit =
            budget.map_or("no budget".to_owned(), |bytes| format!("budget {}", readable(Bytes(bytes))));
        let message = format!(
            "'{}' is legal: peak {}, {limit}, {} runs, {again} of them again",
            step.symbol(),
            readable(trace.peak),
            problem.nodes.len() + again,
        );
        Diagnostic::remark(step.op().location(), message).report();
    }
    Ok(())
}
