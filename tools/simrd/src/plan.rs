//! `rk-simrd --record` and `--plan`: steps of rk in DTR's simulator, and DTR's logs in rk's planner.
//!
//! Idea: at the same budget an offline plan knows the future and may change the order, so it should never cost more than
//! what an online heuristic does; how much less, and how far both are from what is possible at all, is the table that
//! `--plan` prints. The plan is made on the graph that overstates recomputation and the bound on the one that understates
//! it (see `graph`), so both hold in DTR's own accounting.
//! Not here: the solvers (`rk-solve`), the judge (`rk-plan`).

use crate::cell::{Cell, Model, Task};
use crate::cli::{PlanArgs, RecordArgs};
use crate::graph::{Views, graph_of, write_log};
use crate::read::find_logs;
use crate::step::read_graph;
use crate::write::write_atomically;
use anyhow::Result;
use rk_dtr::{Heuristic, Policy, Scan};
use rk_solve::{BoundKind, Request, Status, solve};
use serde::Serialize;
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

/// Writes a step as a log.
///
/// # Errors
/// If the graph cannot be read or the log cannot be written.
pub fn record(args: &RecordArgs, output: &mut impl Write) -> Result<()> {
    let graph = read_graph(&args.graph)?;
    match &args.output {
        Some(path) if path != Path::new("-") => write_atomically(path, &write_log(&graph, Vec::new())?),
        _ => write_log(&graph, output).map(|_| ()),
    }
}

/// One budget of one log: DTR and rk.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The log's name.
    pub model: String,
    /// Budget over the peak without a limit.
    pub ratio: f64,
    /// Bytes, constants included.
    pub budget: u64,
    /// Bytes of constants, which are pinned.
    pub constants: u64,
    /// Name of the online heuristic.
    pub heuristic: &'static str,
    /// ok, oom or thrashed.
    pub online_status: &'static str,
    /// Time over that without recomputation, where the heuristic came to an end.
    pub online_overhead: Option<f64>,
    /// optimal, feasible, infeasible or unknown.
    pub plan_status: &'static str,
    /// Time over that without recomputation.
    pub plan_overhead: Option<f64>,
    /// No schedule of the class takes less.
    pub lower_bound: f64,
    /// order_free, fixed_order or optimal.
    pub bound_kind: &'static str,
    /// Which solver found the plan.
    pub solver: Option<String>,
    /// Seconds for the plan and the bound.
    pub seconds: f64,
}

/// Compares every log at every ratio, and writes each row as soon as it is there.
///
/// # Errors
/// If a log is bad or the output is closed.
pub fn plan(args: &PlanArgs, output: &mut impl Write) -> Result<()> {
    let heuristic: Heuristic = args.heuristic.parse()?;
    if !args.json {
        writeln!(output, "| log | ratio | {heuristic} | rk | lower bound | kind | solver | s |")?;
        writeln!(output, "|---|--:|--:|--:|--:|---|---|--:|")?;
    }
    for path in find_logs(&args.logs)? {
        let model = Model::read(&path)?;
        for &ratio in &args.ratios {
            let row = compare(&model, heuristic, ratio, args.time_limit)?;
            if args.json {
                writeln!(output, "{}", serde_json::to_string(&row)?)?;
            } else {
                writeln!(output, "{}", row.markdown())?;
            }
            output.flush()?;
        }
    }
    Ok(())
}

fn compare(model: &Model, heuristic: Heuristic, ratio: f64, seconds: f64) -> Result<Row> {
    let task = Task { policy: Policy::Eager, heuristic, ratio, seed: 0, scan: Scan::Pruned, segments: false };
    let cell = Cell::run(model, task);
    let start = Instant::now();
    let charged = graph_of(&model.name, &model.program, Views::EveryRun)?;
    let free = graph_of(&model.name, &model.program, Views::Once)?;
    let budget = rk_plan::Bytes(cell.budget.saturating_sub(charged.constants.0));
    let time_limit = Duration::from_secs_f64(seconds);
    let planned = solve(&Request { time_limit, ..Request::new(&charged.graph, budget) });
    let bound = solve(&Request { time_limit, ..Request::new(&free.graph, budget) });
    let base = free.graph.total_time().0 as f64;
    // Both hold: where the graphs agree on the plan's price, it is the bound's, too.
    let plan_overhead = planned.plan.as_ref().map(|plan| plan.trace.time.0 as f64 / base);
    Ok(Row {
        model: model.name.clone(),
        ratio,
        budget: cell.budget,
        constants: charged.constants.0,
        heuristic: heuristic.name(),
        online_status: cell.status,
        online_overhead: cell.overhead.filter(|_| cell.passed()),
        plan_status: match planned.status {
            Status::Optimal => "optimal",
            Status::Feasible => "feasible",
            Status::Infeasible => "infeasible",
            Status::Unknown => "unknown",
        },
        plan_overhead,
        lower_bound: bound.lower_bound.0 as f64 / base,
        bound_kind: match bound.bound_kind {
            BoundKind::OrderFree => "order_free",
            BoundKind::FixedOrder => "fixed_order",
            BoundKind::Optimal => "optimal",
        },
        solver: planned.plan.map(|plan| plan.solver.to_string()),
        seconds: start.elapsed().as_secs_f64(),
    })
}

impl Row {
    fn markdown(&self) -> String {
        let number = |n: Option<f64>, otherwise: &str| n.map_or(otherwise.to_owned(), |n| format!("{n:.4}"));
        let Self { model, ratio, lower_bound, bound_kind, seconds, .. } = self;
        let online = number(self.online_overhead, self.online_status);
        let plan = number(self.plan_overhead, self.plan_status);
        let solver = self.solver.as_deref().unwrap_or("-");
        format!(
            "| {model} | {ratio} | {online} | {plan} | {lower_bound:.4} | {bound_kind} | {solver} | {seconds:.1} |"
        )
    }
}
