//! `--rematerialize="... offload"`: options, the plan with transfers, and the lines that it is written down with.
//!
//! Between two runs stand, in this order: the ends of transfers, drops, the starts of transfers ([`rk_plan::transfer`]). What is
//! fetched is a new value, and what was offloaded a copy in host memory, which is dropped behind the last fetch of it.
//!
//! Not here: which values move (`rk-solve`), whether that is legal and what it costs (`rk-plan` and [`crate::verify_schedule`]).

use std::collections::HashMap;

use rk_dialect::create;
use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::StepOp;
use rk_dialect::pass::PassContext;
use rk_dialect::{At, Op, PlanSummary, Value};
use rk_plan::transfer::{Latency, Rate, nothing_fits};
use rk_plan::{Budget, Bytes, Direction, Fate, Host, Step, Time, Trace, Transfer, ValueId, readable};
use rk_solve::{
    BoundKind, Outcome, Plan, Request, Solver, Status, TransferOutcome, TransferPlan, solve_with_transfers,
};

use crate::exit;
use crate::planning::Problem;
use crate::verify_schedule::Verdict;

/// The other side of the device, as the options describe it.
pub struct Link {
    rate: Rate,
    latency: Latency,
    budget: Option<Bytes>,
}

impl Link {
    /// Reads the options; nothing without `offload`.
    ///
    /// # Errors
    /// The option that is wrong, missing, or of no use.
    pub fn of_options<'c>(cx: &PassContext<'c>) -> Result<Option<Self>, Failure<'c>> {
        let asked = match cx.option("offload").as_str() {
            "true" => true,
            "false" => false,
            other => {
                let message = format!(
                    "offload '{other}' is neither true nor false; how much host memory there is says host-budget"
                );
                return Err(cx.refused(message));
            }
        };
        let given =
            ["bandwidth", "latency", "host-budget"].into_iter().find(|name| !cx.option(name).is_empty());
        match (asked, given) {
            (false, Some(name)) => {
                let value = cx.option(name);
                let message = format!(
                    "{name}={value} is for plans in which values wait in host memory; add offload, or leave it out"
                );
                return Err(cx.refused(message));
            }
            (false, None) => return Ok(None),
            _ => {}
        }
        if cx.option("bandwidth").is_empty() {
            let message =
                "offload needs the bandwidth between device and host memory, such as bandwidth=25GB/s";
            return Err(cx.refused(message));
        }
        let latency = if cx.option("latency").is_empty() { Latency(0) } else { cx.parsed_option("latency")? };
        let budget = match cx.option("host-budget").as_str() {
            "" => None,
            text => match cx.parsed_option("host-budget")? {
                Budget::Bytes(bytes) => Some(bytes),
                Budget::Fraction { .. } => {
                    let message = format!("host-budget '{text}': a share of what? Write bytes, such as 8GiB");
                    return Err(cx.refused(message));
                }
            },
        };
        Ok(Some(Self { rate: cx.parsed_option("bandwidth")?, latency, budget }))
    }

    /// Times of a step are nanoseconds.
    fn host(&self) -> Host {
        Host::behind(self.rate, self.latency, 1_000_000_000, self.budget)
    }
}

/// The answer of the planner, and for which link.
pub struct Offloading<'a> {
    link: &'a Link,
    answer: TransferOutcome,
}

/// What stands in a scheduled step, in order.
#[derive(Clone, Copy)]
pub enum Line {
    /// A run or a drop.
    Step(Step),
    /// Part of a transfer.
    Move(Move),
}

/// A line about a transfer.
#[derive(Clone, Copy)]
pub enum Move {
    /// Its engine gets it.
    Start(Transfer),
    /// It must have ended.
    End(Transfer),
    /// Host memory is given back.
    Forget(ValueId),
}

impl<'a> Offloading<'a> {
    /// Plans a step with transfers.
    ///
    /// # Errors
    /// A host's budget in which no value of the step could ever wait.
    pub fn plan<'c>(
        step: StepOp<'c>,
        problem: &Problem<'c>,
        request: &Request<'_>,
        link: &'a Link,
    ) -> Result<Self, Failure<'c>> {
        if let Some(budget) = link.budget
            && let Some(least) = nothing_fits(&problem.graph, budget)
        {
            exit::set(exit::BAD_OPTION);
            let message = format!(
                "host-budget of {} bytes: the smallest value of '{}' that could wait there, '{}', has {}",
                budget.0,
                step.symbol(),
                least.name,
                least.bytes.0
            );
            return Err(Diagnostic::error(step.op().location(), message).into());
        }
        Ok(Self { link, answer: solve_with_transfers(request, &link.host()) })
    }

    fn found(&self) -> Option<&TransferPlan> {
        self.answer.plan.as_ref()
    }

    /// Which part of the planner found the plan.
    pub fn solver(&self) -> &'static str {
        self.found().map_or("none", |plan| plan.solver)
    }

    /// The answer in the form of one without transfers; the time of its plan is the makespan.
    pub fn outcome(&self) -> Outcome {
        let answer = &self.answer;
        let mut outcome = answer.recomputation_alone.clone();
        outcome.plan = self.found().map(|plan| Plan {
            sequence: plan.sequence.clone(),
            trace: Trace { time: plan.trace.makespan, ..plan.trace.device.clone() },
            solver: Solver::Auto,
            arena: None,
        });
        outcome.status = answer.status;
        outcome.lower_bound = answer.lower_bound;
        let optimal = answer.status == Status::Optimal;
        outcome.bound_kind = if optimal { BoundKind::Optimal } else { BoundKind::OrderFree };
        outcome.proven_infeasible_below = answer.proven_infeasible_below;
        outcome.smallest_found = Some(answer.smallest_found);
        outcome.peak_holder = answer.peak_holder;
        outcome
    }

    /// The plan as lines: at each point the ends of transfers, drops, the starts of transfers; then the run.
    pub fn lines(&self) -> Vec<Line> {
        let Some(plan) = self.found() else { return Vec::new() };
        let (runs, device) = (&plan.sequence.0, &plan.trace.device);
        let forgotten = forgotten(&plan.transfers, runs.len());
        let mut drops = vec![Vec::new(); runs.len() + 1];
        for stay in device.instances.iter().filter(|stay| stay.fate == Fate::Dropped) {
            drops[stay.end + 1].push(stay.value);
        }
        let mut ran = vec![false; runs.iter().map(|node| node.index() + 1).max().unwrap_or(0)];
        let mut lines = Vec::new();
        for point in 0..=runs.len() {
            let at = |wanted: fn(&Transfer) -> usize| {
                plan.transfers.iter().copied().filter(move |transfer| wanted(transfer) == point)
            };
            lines.extend(at(|transfer| transfer.end).map(|transfer| Line::Move(Move::End(transfer))));
            drops[point].sort_unstable();
            lines.extend(drops[point].iter().map(|&value| Line::Step(Step::Drop(value))));
            lines.extend(forgotten[point].iter().map(|&value| Line::Move(Move::Forget(value))));
            lines.extend(at(|transfer| transfer.start).map(|transfer| Line::Move(Move::Start(transfer))));
            if let Some(&node) = runs.get(point) {
                let again = std::mem::replace(&mut ran[node.index()], true);
                lines.push(Line::Step(Step::Run { node, again, overwrite: device.overwrites[point] }));
            }
        }
        lines
    }

    /// Adds what the step says of its transfers.
    pub fn describe(&self, summary: &mut PlanSummary) {
        let Some(trace) = self.found().map(|plan| &plan.trace) else { return };
        summary.stall = Some(trace.stall().0);
        summary.host_peak = Some(trace.host_peak.0);
        summary.host_budget = self.link.budget.map(|bytes| bytes.0);
        summary.bandwidth = Some(self.link.rate.0);
        summary.latency = Some(self.link.latency.0);
    }

    /// Compares what was planned with what the IR says, which other code adds up.
    ///
    /// # Errors
    /// What differs.
    pub fn agrees(&self, verdict: &Verdict<'_>) -> Result<(), String> {
        let Some(plan) = self.found() else { return Ok(()) };
        let planned = &plan.trace;
        let read = verdict.account.as_ref();
        let (peak, host) = read.map_or((verdict.peak.0, 0), |account| account.peaks());
        let time = read.map_or(Some((planned.device.time.0, 0)), |account| account.time);
        let (makespan, stall) = time.unwrap_or_default();
        let count = read.map_or(0, |account| account.transfers);
        for (what, planned, read) in [
            ("transfers", plan.transfers.len() as u64, count as u64),
            ("bytes on the device", planned.device.peak.0, peak),
            ("bytes in host memory", planned.host_peak.0, host),
            ("nanoseconds", planned.makespan.0, makespan),
            ("nanoseconds of waits", planned.stall().0, stall),
        ] {
            if planned != read {
                return Err(format!("{planned} {what} were planned, the step that was written has {read}"));
            }
        }
        Ok(())
    }

    /// For the remark: what moves, and what the planner found with one of the two alone.
    pub fn text(&self, base_time: Time) -> String {
        let Some(plan) = self.found() else { return String::new() };
        let percent = |time: Time| 100.0 * time.0 as f64 / base_time.0.max(1) as f64;
        let more = |time: Option<Time>| match time {
            Some(time) => format!("{:.2} % more", percent(Time(time.0.saturating_sub(base_time.0)))),
            None => "no plan".to_owned(),
        };
        let alone = self.answer.recomputation_alone.plan.as_ref().map(|plan| plan.trace.time);
        let moved = self.answer.transfers_alone.as_ref().map(|plan| plan.trace.makespan);
        format!(
            "; {} transfers, host peak {}, waits of {:.2} %; recomputation alone {}, transfers alone {}",
            plan.transfers.len(),
            readable(plan.trace.host_peak),
            percent(plan.trace.stall()),
            more(alone),
            more(moved),
        )
    }

    /// The same for programs.
    pub fn metrics(&self) -> Vec<(&'static str, String)> {
        let Some(plan) = self.found() else { return Vec::new() };
        vec![
            ("transfers", plan.transfers.len().to_string()),
            ("host_peak_bytes", plan.trace.host_peak.0.to_string()),
            ("makespan_ns", plan.trace.makespan.0.to_string()),
            ("stall_ns", plan.trace.stall().0.to_string()),
        ]
    }
}

/// Per point, the copies in host memory that nobody needs from there on: the last transfer from or to them has ended.
fn forgotten(transfers: &[Transfer], runs: usize) -> Vec<Vec<ValueId>> {
    let mut copies: Vec<(ValueId, usize)> = Vec::new();
    let mut newest: HashMap<ValueId, usize> = HashMap::new();
    let mut by_start: Vec<&Transfer> = transfers.iter().collect();
    by_start.sort_by_key(|transfer| transfer.start);
    for transfer in by_start {
        if transfer.direction == Direction::Offload {
            newest.insert(transfer.value, copies.len());
            copies.push((transfer.value, transfer.end));
        } else if let Some(&copy) = newest.get(&transfer.value) {
            copies[copy].1 = copies[copy].1.max(transfer.end);
        }
    }
    let mut points = vec![Vec::new(); runs + 1];
    for (value, end) in copies {
        points[end].push(value);
    }
    points.iter_mut().for_each(|values| values.sort_unstable());
    points
}

/// The copies in host memory, while transfers are written down.
#[derive(Default)]
pub struct Moving<'c> {
    copies: HashMap<ValueId, Value<'c>>,
}

impl<'c> Moving<'c> {
    /// Writes one line; `now` has the newest value on the device. A line about a value that the step does not have is left out, which
    /// [`Offloading::agrees`] notices.
    pub fn write(&mut self, step: Move, now: &mut HashMap<ValueId, Value<'c>>, end: Op<'c>) {
        let at = At::Before(end);
        match step {
            Move::Start(Transfer { value, direction: Direction::Offload, .. }) => {
                let Some(&live) = now.get(&value) else { return };
                self.copies
                    .extend(create::offload(live, at, live.location()).copy().map(|copy| (value, copy)));
            }
            Move::Start(Transfer { value, .. }) => {
                let (Some(&copy), Some(&before)) = (self.copies.get(&value), now.get(&value)) else { return };
                let fetched = create::fetch(copy, before.ty(), at, copy.location()).value();
                now.extend(fetched.map(|fetched| (value, fetched)));
            }
            Move::End(Transfer { value, direction, .. }) => {
                let made =
                    if direction == Direction::Offload { self.copies.get(&value) } else { now.get(&value) };
                if let Some(&made) = made {
                    create::wait(made, at, made.location());
                }
            }
            Move::Forget(value) => {
                if let Some(copy) = self.copies.remove(&value) {
                    create::drop(copy, at, copy.location());
                }
            }
        }
    }
}
