//! `--offload`: the plan with transfers, and what it adds to the report.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rk_plan::arena::pack_with;
use rk_plan::transfer::Rate;
use rk_plan::{Budget, Bytes, Direction, Graph, Host, Time, Trace, Transfer, base_trace, readable};
use rk_report::Timeline;
use rk_solve::{
    Addresses, BoundKind, Outcome, Plan, Status, TransferOutcome, TransferPlan, solve_with_transfers,
};
use serde_json::{Value, json};

use crate::link::host;
use crate::page;
use crate::report::Report;
use crate::{Arguments, Fit, addresses, exit_code, request};

/// Plans with transfers and prints the report.
pub fn print(graph: &Graph, budget: Budget, rate: Rate, arguments: &Arguments) -> Result<ExitCode> {
    if arguments.fit == Fit::Arena {
        bail!(
            "--fit arena does not know --offload: the logical peak has to fit, and the plan is packed as it is"
        );
    }
    let start = Instant::now();
    let base = base_trace(graph);
    let host_budget = arguments.host_budget.as_deref().map(host_bytes).transpose()?;
    let (host, assumed) = host(graph, rate, arguments.latency, host_budget)?;
    if let Some(unit) = assumed {
        eprintln!(
            "rk-plan: the time_unit of the graph is '{}'; for the bandwidth it is taken to be {unit}",
            graph.time_unit()
        );
    }
    let budget = budget.resolve(base.peak);
    let search = |limit| {
        let answer = solve_with_transfers(&request(graph, budget, &base, limit, arguments), &host);
        let answer = Answer { graph, host, answer };
        let outcome = answer.outcome(addresses(&base, limit, arguments), arguments);
        (answer, outcome)
    };
    let patience = arguments.patience();
    let (mut answer, mut outcome) = search(patience.first(graph.len()));
    if let Some(longer) = patience.again(budget, &outcome) {
        (answer, outcome) = search(longer);
    }
    let report = Report::new(graph, budget, &base, outcome, start.elapsed());
    if let Some(file) = &arguments.schedule {
        match report.schedule() {
            Some(ids) => {
                let whole = format!("{}\n", json!({"schedule": ids, "transfers": answer.transfers()}));
                rk_vocabulary::write_output(file, whole.as_bytes())
                    .with_context(|| format!("cannot write {}", file.display()))?;
            }
            None => eprintln!("rk-plan: no schedule, so {} is not written", file.display()),
        }
    }
    if let Some(file) = &arguments.report {
        page::write(file, graph, &report, answer.found(), arguments)?;
    }
    let text = if arguments.json {
        let mut object = report.json();
        if let (Value::Object(object), Value::Object(more)) = (&mut object, answer.json(&report, rate)) {
            object.extend(more);
        }
        format!("{object}\n")
    } else {
        format!("{}{}", report.text(), answer.text(&report))
    };
    rk_vocabulary::write_output(Path::new("-"), text.as_bytes())?;
    Ok(exit_code(report.outcome.status))
}

fn host_bytes(text: &str) -> Result<Bytes> {
    match text.parse().context("--host-budget")? {
        Budget::Bytes(bytes) => Ok(bytes),
        Budget::Fraction { .. } => {
            bail!("--host-budget '{text}': a share of what? Write bytes, such as 8GiB")
        }
    }
}

struct Answer<'a> {
    graph: &'a Graph,
    host: Host,
    answer: TransferOutcome,
}

impl Answer<'_> {
    fn plan(&self) -> Option<&TransferPlan> {
        self.answer.plan.as_ref()
    }

    /// The answer in the form of one without transfers, whose time is the makespan.
    fn outcome(&self, packing: Addresses, arguments: &Arguments) -> Outcome {
        let answer = &self.answer;
        let mut outcome = answer.recomputation_alone.clone();
        outcome.plan = self.plan().map(|plan| {
            let device = &plan.trace.device;
            let arena = pack_with(self.graph, &plan.sequence, device, packing.alignment, packing.effort);
            let trace = Trace { time: plan.trace.makespan, ..device.clone() };
            Plan { sequence: plan.sequence.clone(), trace, solver: arguments.solver, arena: Some(arena) }
        });
        outcome.status = answer.status;
        outcome.lower_bound = answer.lower_bound;
        let optimal = answer.status == Status::Optimal;
        outcome.bound_kind = if optimal { BoundKind::Optimal } else { BoundKind::OrderFree };
        outcome.in_given_order = None;
        outcome.proven_infeasible_below = answer.proven_infeasible_below;
        outcome.smallest_found = Some(answer.smallest_found);
        outcome.peak_holder = answer.peak_holder;
        outcome
    }

    /// For the page.
    fn found(&self) -> Option<page::Found<'_>> {
        let plan = self.plan()?;
        Some(page::Found {
            sequence: &plan.sequence,
            timeline: Timeline::with_transfers(self.graph, &plan.sequence, &plan.transfers, &plan.trace),
            time: plan.trace.makespan,
            transfers: &plan.transfers,
            solver: plan.solver.to_string(),
        })
    }

    /// By start: what moves, which way, before which runs it starts and must have ended, and when it does.
    fn transfers(&self) -> Option<Vec<Value>> {
        let plan = self.plan()?;
        let spans = plan.transfers.iter().zip(&plan.trace.spans);
        let written = spans.map(|(transfer, span)| {
            let about = self.graph.value(transfer.value);
            json!({
                "value": self.id(transfer), "kind": transfer.direction.to_string(),
                "start_step": transfer.start, "end_step": transfer.end,
                "name": about.name, "bytes": about.bytes.0,
                "start_time": self.time(span.0), "end_time": self.time(span.1),
            })
        });
        Some(written.collect())
    }

    /// As in the graph: the node, or the node and its output.
    fn id(&self, transfer: &Transfer) -> Value {
        let producer = self.graph.value(transfer.value).producer;
        match self.graph.node(producer).writes.iter().position(|value| *value == transfer.value) {
            None | Some(0) => json!(producer.0),
            Some(output) => json!([producer.0, output]),
        }
    }

    fn time(&self, time: Time) -> Value {
        self.graph.time_text(time).parse::<serde_json::Number>().map_or(Value::Null, Value::Number)
    }

    fn json(&self, report: &Report, rate: Rate) -> Value {
        let trace = self.plan().map(|plan| &plan.trace);
        let alone = self.answer.recomputation_alone.plan.as_ref().map(|plan| self.time(plan.trace.time));
        let transfers = self.answer.transfers_alone.as_ref().map(|plan| self.time(plan.trace.makespan));
        json!({
            "transfers": self.transfers(),
            "stall_time": trace.map(|trace| self.time(trace.stall())),
            "host_peak_bytes": trace.map(|trace| trace.host_peak.0),
            "host_budget_bytes": self.host.budget.map(|bytes| bytes.0),
            "bandwidth_bytes_per_second": rate.0,
            "latency_time": self.time(self.host.offload.latency),
            "recomputation_alone_time": alone,
            "transfers_alone_time": transfers,
            "solver": report.outcome.plan.as_ref().and(self.plan()).map(|plan| plan.solver),
        })
    }

    fn text(&self, report: &Report) -> String {
        let Some(plan) = self.plan() else { return String::new() };
        let bytes = |way| {
            let mine = plan.transfers.iter().filter(|transfer| transfer.direction == way);
            mine.map(|transfer| self.graph.value(transfer.value).bytes).sum::<Bytes>()
        };
        let (out, back) = (readable(bytes(Direction::Offload)), readable(bytes(Direction::Fetch)));
        let stall = report.percent_of_base(plan.trace.stall());
        let percent = |time: Option<Time>| {
            time.map_or("no plan".to_string(), |time| format!("{:.4} % more", report.percent(time)))
        };
        let alone = percent(self.answer.recomputation_alone.plan.as_ref().map(|plan| plan.trace.time));
        let moved = percent(self.answer.transfers_alone.as_ref().map(|plan| plan.trace.makespan));
        let mut text = String::new();
        let mut line = |label: &str, value: String| {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{label:<12} {value}");
        };
        line(
            "transfers",
            format!(
                "{}, {out} out, {back} back; runs wait for {stall:.4} % of the base time",
                plan.transfers.len()
            ),
        );
        line("host", format!("peak {}", readable(plan.trace.host_peak)));
        line("alone", format!("recomputation {alone}, transfers {moved}"));
        text
    }
}
