//! Time against budget: the whole curve of a graph in one call.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use rk_plan::{Bytes, Graph, base_trace};
use rk_solve::{Status, pareto};
use serde_json::{Value, json};

use crate::report::Report;
use crate::{Arguments, addresses, placed, request};

/// Budgets in percent of the base peak.
const STEPS: std::ops::RangeInclusive<u64> = 2..=20;

/// Plans at 10 %, 15 %, ..., 100 % of the base peak and prints a table or one JSON object.
pub fn print(graph: &Graph, arguments: &Arguments, out: &mut impl Write) -> Result<ExitCode> {
    let start = Instant::now();
    let base = base_trace(graph);
    let budget = |step: u64| Bytes((u128::from(base.peak.0) * u128::from(step)).div_ceil(20) as u64);
    let budgets: Vec<Bytes> = STEPS.map(budget).collect();
    let limit = arguments.patience().first(graph.len());
    let request = request(graph, base.peak, &base, limit, arguments);
    let outcomes = pareto(&request, &budgets);
    let any = outcomes.iter().any(|outcome| outcome.plan.is_some());
    let points = budgets.iter().zip(outcomes);
    let addresses = addresses(&base, limit, arguments);
    let reports = points.map(|(&budget, outcome)| {
        let outcome = placed(&request, outcome, addresses, Duration::ZERO);
        (budget, Report::new(graph, budget, &base, outcome, start.elapsed()))
    });
    if arguments.json {
        let points = reports.map(|(_, report)| {
            let mut point = report.json();
            // Schedules of all points would bury the curve; --budget prints one.
            const SAME: [&str; 6] = ["graph", "n", "base_peak_bytes", "base_time", "schedule", "offsets"];
            if let Value::Object(fields) = &mut point {
                fields.retain(|key, _| !SAME.contains(&key.as_str()));
            }
            point
        });
        let points: Vec<Value> = points.collect();
        let curve = json!({
            "graph": graph.name(), "n": graph.len(), "base_peak_bytes": base.peak.0,
            "solve_seconds": start.elapsed().as_secs_f64(), "curve": points,
        });
        writeln!(out, "{curve}")?;
    } else {
        writeln!(
            out,
            "{:>8} {:>16} {:>12} {:>12} {:>12}  status",
            "budget", "bytes", "overhead %", "bound %", "peak %"
        )?;
        for (budget, report) in reports {
            let percent = 100.0 * budget.0 as f64 / base.peak.0.max(1) as f64;
            let overhead = report.overhead().map_or("-".into(), |overhead| format!("{overhead:.4}"));
            let peak = report
                .outcome
                .plan
                .as_ref()
                .map(|plan| 100.0 * plan.trace.peak.0 as f64 / base.peak.0.max(1) as f64);
            let peak = peak.map_or("-".into(), |peak| format!("{peak:.2}"));
            let bound = if report.outcome.status == Status::Infeasible {
                "-".into()
            } else {
                format!("{:.4}", report.bound())
            };
            writeln!(
                out,
                "{:>7.1}% {:>16} {overhead:>12} {bound:>12} {peak:>12}  {}",
                percent,
                budget.0,
                report.status()
            )?;
        }
    }
    Ok(if any { ExitCode::SUCCESS } else { ExitCode::from(3) })
}
