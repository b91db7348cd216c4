//! A scheduled step read back as runs and transfers, and what the judge of plans says of them.
//!
//! Not here: the laws of what is read (`verify_transfers` of the dialect, `rk_plan::judge_transfers`).

use std::collections::HashMap;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{Execution, StepOp, Transfer as TransferOp, WaitOp};
use rk_dialect::{PlanSummary, Value};
use rk_plan::transfer::{Latency, Rate};
use rk_plan::{
    Bytes, Direction, Host, Sequence, Trace, Transfer, TransferTrace, judge_schedule, judge_transfers,
};

use crate::planning::Problem;

/// Every transfer of a step, in the order in which the engines get them. A point is how many runs stand before it.
pub fn of<'c>(step: StepOp<'c>, problem: &Problem<'c>) -> Vec<Transfer> {
    let mut moves: Vec<Transfer> = Vec::new();
    let mut places: HashMap<Value<'c>, usize> = HashMap::new();
    let mut point = 0;
    for op in step.body().ops() {
        if Execution::of(op).is_some() {
            point += 1;
        } else if let Some(transfer) = TransferOp::of(op) {
            let direction = match transfer {
                TransferOp::Offload(_) => Direction::Offload,
                TransferOp::Fetch(_) => Direction::Fetch,
            };
            if let Some(value) = transfer.from().and_then(|value| problem.value_of(value)) {
                places.extend(transfer.made().map(|made| (made, moves.len())));
                moves.push(Transfer { value, direction, start: point, end: usize::MAX });
            }
        } else if let Some(&place) = WaitOp::of(op).and_then(WaitOp::value).and_then(|made| places.get(&made))
        {
            moves[place].end = point;
        }
    }
    moves
}

/// The runs of a scheduled or lowered step and what is on the device at each of them; the time is the makespan.
///
/// # Errors
/// The first law that is broken, at the step.
pub fn trace<'c>(step: StepOp<'c>, problem: &Problem<'c>) -> Result<(Sequence, Trace), Diagnostic<'c>> {
    let refuse = |message: String| Diagnostic::error(step.op().location(), message);
    let graph = &problem.graph;
    let moves = of(step, problem);
    if moves.is_empty() {
        let schedule = problem.schedule_of(step)?;
        let trace =
            judge_schedule(graph, &schedule, None).map_err(|illegal| refuse(illegal.describe(graph)))?;
        return Ok((schedule.sequence(), trace));
    }
    let sequence = problem.runs_of(step)?.sequence();
    let host = host_of(step).ok_or_else(|| refuse("its transfers have no 'rk.bandwidth'".to_owned()))?;
    let TransferTrace { device, makespan: time, .. } =
        judge_transfers(graph, &sequence, &moves, &host).map_err(|unlawful| refuse(unlawful.to_string()))?;
    Ok((sequence, Trace { time, ..device }))
}

/// The link that a step was planned for; `None` where it says nothing of one.
pub fn host_of(step: StepOp<'_>) -> Option<Host> {
    let summary = PlanSummary::of(step);
    let (rate, latency) = (Rate(summary.bandwidth?), Latency(summary.latency.unwrap_or(0)));
    Some(Host::behind(rate, latency, 1_000_000_000, summary.host_budget.map(Bytes)))
}
