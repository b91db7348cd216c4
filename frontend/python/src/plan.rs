//! The planner alone, on a graph that the caller wrote down, and the judge's account of a step's memory, as numbers and as a page.

use std::time::Duration;

use pyo3::prelude::*;
use rk_dialect::Context;
use rk_dialect::diagnostic::Diagnostic;
use rk_plan::{Budget, Kind, base_trace, json};
use rk_report::Timeline;
use rk_rewrite::exit::Unmet;
use rk_rewrite::report::{Planned, page};
use rk_solve::{Request, Solver, Status, Timekeeping};
use serde_json::{Map, Value, json};

use crate::errors::Refusal;
use crate::{compile, detached};

/// Plans a graph in the JSON schema of `rk_plan::json`. `budget` is bytes, 2GiB, 50% or 0.5; `time_limit` is in seconds, of the system's clock or
/// of counted work (`timekeeping`: wall, work).
///
/// Returns JSON: `schedule`, the ids of the nodes in order of execution; `budget`, `peak`, `base_peak` in bytes; `time`,
/// `base_time`, `lower_bound` in ticks of the graph's time unit; `status`, `solver`.
///
/// Raises OptionError for a graph, a budget or a solver that cannot be read, BudgetError (with numbers) when nothing fits.
#[pyfunction]
#[pyo3(signature = (graph, *, budget, solver="auto", time_limit=10.0, timekeeping="wall", seed=0, threads=1))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn plan(
    py: Python<'_>,
    graph: &str,
    budget: &str,
    solver: &str,
    time_limit: f64,
    timekeeping: &str,
    seed: u64,
    threads: usize,
) -> PyResult<String> {
    detached(py, || {
        let refused = |what: &str, why: &dyn std::fmt::Display| Refusal::Option(format!("{what}: {why}"));
        let graph = json::read(graph).map_err(|error| refused("graph", &error))?;
        let solver: Solver = solver.parse().map_err(|error| refused("solver", &error))?;
        let asked = Budget::parse_with_fractions(budget).map_err(|error| refused("budget", &error))?;
        let time_limit =
            Duration::try_from_secs_f64(time_limit).map_err(|error| refused("time_limit", &error))?;
        let timekeeping: Timekeeping = timekeeping.parse().map_err(|error| refused("timekeeping", &error))?;
        let base = base_trace(&graph);
        let budget = asked.resolve(base.peak);
        let threads = threads.max(1);
        let request =
            Request { solver, time_limit, timekeeping, seed, threads, ..Request::new(&graph, budget) };
        let outcome = rk_solve::solve(&request);
        let Some(plan) = outcome.plan else {
            let holder = graph.node(outcome.peak_holder).name.clone();
            let smallest = outcome.smallest_found.map_or_else(
                || "no smaller feasible budget was found".to_owned(),
                |found| format!("the smallest feasible budget found is {} bytes", found.0),
            );
            let below = outcome.proven_infeasible_below;
            let proven = outcome.status == Status::Infeasible;
            let verdict =
                if proven { "no schedule fits" } else { "no schedule was found in the time that fits" };
            // That nothing below the budget works either needs no words.
            let bound = if proven && below.0 <= budget.0.saturating_add(1) {
                String::new()
            } else {
                format!(", and nothing below {} bytes can work", below.0)
            };
            let text = format!("{verdict} {} bytes; {smallest}{bound}; '{holder}' holds the peak", budget.0);
            let unmet = Unmet {
                budget,
                smallest: outcome.smallest_found,
                impossible_below: below,
                holder,
                message: text.clone(),
            };
            return Err(Refusal::Budget(Box::new(unmet), text));
        };
        let schedule: Vec<u32> = plan.sequence.0.iter().map(|node| node.0).collect();
        let answer = json!({
            "schedule": schedule,
            "budget": budget.0,
            "peak": plan.trace.peak.0,
            "base_peak": base.peak.0,
            "time": plan.trace.time.0,
            "base_time": base.time.0,
            "lower_bound": outcome.lower_bound.0,
            "status": if outcome.status == Status::Optimal { "optimal" } else { "feasible" },
            "solver": plan.solver.name(),
        });
        Ok(answer.to_string())
    })
}

/// What the judge says about memory in a scheduled step, run by run, in the given order and as planned.
///
/// Returns JSON: `before` and `after`, lists of [node, bytes], where a node is an index into `nodes`: name, time of one run in
/// ns, and whether it belongs to the backward pass; `lives_before` and `lives_after`, all that is ever in memory:
/// [name, bytes, node, first run, last run, why]. Why is the name of a category ([`rk_report::Category`]).
///
/// Raises CompileError for a module that is not one scheduled step.
#[pyfunction]
pub fn memory(py: Python<'_>, text: &str) -> PyResult<String> {
    detached(py, || {
        let _passes = compile::passes();
        let context = Context::new();
        let module = compile::parsed(&context, text)?;
        let planned = Planned::of(compile::only_step(&module)?, module.op()).map_err(refusal)?;
        let graph = planned.graph();
        let nodes = graph.nodes().iter().map(|node| {
            let backward = node.kind == Kind::Backward;
            json!({"name": node.name, "time_ns": node.time.0, "backward": backward})
        });
        let mut answer = Map::new();
        answer.insert("nodes".into(), nodes.collect());
        for (side, timeline) in [("before", Timeline::base(graph)), ("after", planned.timeline())] {
            let runs = timeline.runs.iter().zip(&timeline.memory);
            answer.insert(side.into(), runs.map(|(node, bytes)| json!([node.0, bytes.0])).collect());
            let lives = timeline.lives.iter().map(|life| {
                let category = life.category.name();
                json!([life.name, life.bytes.0, life.node.0, life.first, life.last, category])
            });
            answer.insert(format!("lives_{side}"), lives.collect());
        }
        Ok(Value::Object(answer).to_string())
    })
}

/// The page of a scheduled step, as HTML; `points` other budgets are planned for its curve of time against budget.
///
/// Raises CompileError for a module that is not one scheduled step.
#[pyfunction]
pub fn report(py: Python<'_>, text: &str, points: usize) -> PyResult<String> {
    detached(py, || {
        let _passes = compile::passes();
        let context = Context::new();
        let module = compile::parsed(&context, text)?;
        page(compile::only_step(&module)?, module.op(), points).map_err(refusal)
    })
}

fn refusal(diagnostic: Diagnostic<'_>) -> Refusal {
    Refusal::Other(diagnostic.message().to_owned())
}
