//! `--rk-verify-schedule`: reads a scheduled or lowered step back and lets the judge of `rk-plan` decide.
//!
//! # Before and after
//! The IR is not changed. A legal schedule gives a remark with its peak; an illegal one an error that names the law.
//!
//! # How
//! A lowered step is read as the schedule that it carries out, and its addresses as a layout of what the judge says lives when;
//! a scheduled one may carry a layout, too (`rk.offsets`). S7 then means that no two places that are needed at once overlap, and
//! the remark names the size of the arena.
//!
//! A scheduled step may have transfers. Then S7 speaks of the device, S12 of host memory (`rk.host_budget`), and both are added up op by
//! op; the remark names the host's peak and, with `rk.bandwidth` and `rk.latency`, the makespan and the waits in it.
//!
//! # Contract
//! Needs `scheduled` or `lowered`. S1 to S7 and S9 to S12 hold afterwards, S7 for the budget in `rk.budget`.
//!
//! # Not here
//! S8, which needs the numbers: `rk-run --check`.

use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::StepOp;
use rk_dialect::pass::{PassContext, PassSpec};
use rk_dialect::{Op, PlanSummary, Stage, check_transfers};
use rk_plan::arena::check_no_overlap;
use rk_plan::{Bytes, judge_schedule, readable};

use crate::placing::{self, Judged};
use crate::planning::Problem;
use crate::transfer_account::TransferAccount;

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "VerifySchedule",
    argument: "rk-verify-schedule",
    description: "Judges a scheduled or lowered step by the laws S1 to S7 and S9 to S12",
    options: &[],
    run: |cx| run(cx),
};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    for step in cx.steps().into_iter().filter(|step| step.stage() >= Stage::Scheduled) {
        cx.at(step.op());
        let judged = judge(step, cx.module())?;
        let (runs, again) = placing::launches(step);
        let said = PlanSummary::of(step);
        let limit = said.budget.map_or("no budget".to_owned(), |b| format!("budget {}", readable(Bytes(b))));
        let placed = step.stage() == Stage::Lowered || said.offsets.is_some();
        let arena = said.arena.filter(|_| placed);
        let arena = arena.map_or(String::new(), |bytes| format!(", arena {}", readable(Bytes(bytes))));
        let message = format!(
            "'{}' is legal: peak {}{arena}, {limit}, {runs} runs, {again} of them again{}",
            step.symbol(),
            readable(judged.peak),
            judged.account.as_ref().map_or(String::new(), |account| moved(step, account)),
        );
        Diagnostic::remark(step.op().location(), message).report();
    }
    Ok(())
}

/// What a remark says of transfers.
fn moved(step: StepOp<'_>, account: &TransferAccount<'_>) -> String {
    let host = readable(Bytes(account.peaks().1));
    let limit =
        PlanSummary::of(step).host_budget.map_or(String::new(), |b| format!(" of {}", readable(Bytes(b))));
    let time = account.time.map_or(String::new(), |(makespan, stall)| {
        format!(", makespan {makespan} ns, {stall} ns of it waits")
    });
    format!(", {} transfers, host peak {host}{limit}{time}", account.transfers)
}

/// A step that the laws hold for.
pub struct Verdict<'c> {
    /// The most bytes on the device.
    pub peak: Bytes,
    /// What its transfers do, if it has some.
    pub account: Option<TransferAccount<'c>>,
}

/// What the judge says of a scheduled or lowered step, its addresses included.
///
/// # Errors
/// The first law that is broken.
pub fn judge<'c>(step: StepOp<'c>, module: Op<'c>) -> Result<Verdict<'c>, Diagnostic<'c>> {
    let problem = Problem::of(step, module)?;
    let refuse = |message: String| Diagnostic::error(step.op().location(), message);
    // At any other stage, transfers are refused with the schedule.
    if step.stage() == Stage::Scheduled
        && let Some(account) = TransferAccount::of(step, &problem)
    {
        return judge_transfers(step, &problem, account);
    }
    let schedule = problem.schedule_of(step)?;
    let budget = PlanSummary::of(step).budget.map(Bytes);
    let trace = judge_schedule(&problem.graph, &schedule, budget)
        .map_err(|illegal| refuse(illegal.describe(&problem.graph)))?;
    let judged = Judged { problem: &problem, step, module, schedule: &schedule, trace: &trace };
    if step.stage() == Stage::Lowered {
        let arena = placing::read_back(judged)?;
        check_no_overlap(&arena).map_err(|misplaced| placing::s7(judged, &misplaced))?;
        placing::within(step, &arena)?;
    } else {
        placing::carried(judged)?;
    }
    Ok(Verdict { peak: trace.peak, account: None })
}

/// The laws of runs from the judge, those of transfers and both memories from the IR.
fn judge_transfers<'c>(
    step: StepOp<'c>,
    problem: &Problem<'c>,
    account: TransferAccount<'c>,
) -> Result<Verdict<'c>, Diagnostic<'c>> {
    let refuse = |message: String| Diagnostic::error(step.op().location(), message);
    check_transfers(step)?;
    judge_schedule(&problem.graph, &problem.runs_of(step)?, None)
        .map_err(|illegal| refuse(illegal.describe(&problem.graph)))?;
    if PlanSummary::of(step).offsets.is_some() {
        return Err(refuse("S7: 'rk.offsets' has no place for what is fetched".to_owned()));
    }
    account.within(step)?;
    Ok(Verdict { peak: Bytes(account.peaks().0), account: Some(account) })
}
