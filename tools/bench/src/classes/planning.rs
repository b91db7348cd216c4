//! `solver=classes` against `solver=auto`: what they find, and when they find it.
//!
//! Both have the same limit. What counts is the curve: when each first had a plan that is at most 0.1 points above the last one of
//! `auto`. Imported networks are planned by `rk-opt`, whose log tells the curve; made-up ones
//! (`made-up:FAMILY-NODES-SEED`, see `rk_solve::synthetic`) in this process.

use std::ffi::OsStr;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rk_plan::{Bytes, base_trace};
use rk_solve::{Request, Solver};

use super::{Options, raw, succeeded};
use crate::experiments::networks::{self, MADE_UP};
use crate::report::Table;
use crate::toolbox::{talking_tool, tool};

/// Points that a plan may be worse and counts as equal.
const TOLERANCE: f64 = 0.1;

/// The plans of one run, as they were found.
struct Curve {
    nodes: usize,
    /// Seconds, and percent above the time without recomputation.
    plans: Vec<(f64, f64)>,
    /// Seconds until the solver ended.
    end: f64,
}

impl Curve {
    /// Percent of the best plan.
    fn last(&self) -> Result<f64> {
        self.plans.last().map(|plan| plan.1).context("no plan was found")
    }

    /// Seconds until there was a plan of at most these percent.
    fn reached(&self, overhead: f64) -> Option<f64> {
        self.plans.iter().find(|plan| plan.1 <= overhead).map(|plan| plan.0)
    }
}

pub fn table(options: &Options, models: &[String]) -> Result<Table> {
    let mut table = Table::new([
        "network",
        "nodes",
        "budget",
        "whole graph: overhead",
        "within 0.1 points of it after, s",
        "per class: overhead",
        "difference",
        "within 0.1 points after, s",
        "faster",
        "ended after, s",
    ]);
    for model in models {
        for budget in &options.budgets {
            eprintln!("{model} {budget}: plan");
            let curve = |solver| match model.strip_prefix(MADE_UP) {
                Some(name) => made_up(name, budget, solver, options),
                None => imported(model, budget, solver, options),
            };
            let (whole, by_class) = match (curve(Solver::Auto), curve(Solver::Classes)) {
                (Ok(whole), Ok(by_class)) => (whole, by_class),
                (whole, by_class) => {
                    for error in [whole.err(), by_class.err()].into_iter().flatten() {
                        eprintln!("{model} {budget}: {error}");
                    }
                    let mut row = vec![model.clone(), "–".to_owned(), budget.clone(), "no plan".to_owned()];
                    row.resize(10, "–".to_owned());
                    table.row(row);
                    continue;
                }
            };
            let (best, found) = (whole.last()?, by_class.last()?);
            let (slow, equal) = (whole.reached(best + TOLERANCE), by_class.reached(best + TOLERANCE));
            let seconds = |at: Option<f64>| at.map_or("–".to_owned(), |seconds| format!("{seconds:.2}"));
            let ratio = slow.zip(equal).map(|(slow, fast)| format!("{:.1}x", slow / fast.max(1e-3)));
            table.row(vec![
                model.replace(MADE_UP, ""),
                whole.nodes.to_string(),
                budget.clone(),
                format!("{best:.3} %"),
                seconds(slow),
                format!("{found:.3} %"),
                format!("{:+.3} pp", found - best),
                seconds(equal),
                ratio.unwrap_or_else(|| "–".to_owned()),
                format!("{:.1}", by_class.end),
            ]);
        }
    }
    Ok(table)
}

/// A step of an imported network, planned by `rk-opt`.
fn imported(model: &str, budget: &str, solver: Solver, options: &Options) -> Result<Curve> {
    let costed = raw(options, model)?.with_extension("costed.mlir");
    if !costed.exists() {
        let raw = raw(options, model)?;
        let passes = ["--rk-dataflow", "--rk-simplify", "--rk-anonymize", "--rk-annotate-cost", "-o"];
        let mut arguments = vec![raw.as_os_str()];
        arguments.extend(passes.iter().map(OsStr::new));
        arguments.push(costed.as_os_str());
        succeeded(tool("rk-opt", &arguments)?, "rk-opt")?;
    }
    let nodes = std::fs::read_to_string(&costed)?.matches("rk.node @").count();
    let pass = format!("--rematerialize=budget={budget} solver={solver} time-limit={}", options.time_limit);
    let arguments = [costed.as_os_str(), OsStr::new(&pass), OsStr::new("-o"), OsStr::new("/dev/null")];
    let said = succeeded(talking_tool("rk-opt", &arguments)?, "rk-opt")?.stderr;
    let number = |line: &str, key: &str| -> Option<f64> {
        let rest = &line[line.find(&format!(" {key}="))? + key.len() + 2..];
        rest.split(' ').next()?.parse().ok()
    };
    // What comes after is the search for a plan that packs better: the same for all solvers.
    let first = said.lines().take_while(|line| !line.contains("the arena misses the budget"));
    let (mut plans, mut end) = (Vec::new(), 0.0);
    for line in first {
        let Some(seconds) = number(line, "milliseconds").map(|milliseconds| milliseconds / 1e3) else {
            continue;
        };
        if seconds < end {
            break; // the clock of another search
        }
        end = seconds;
        if let (true, Some(time), Some(base)) =
            (line.contains("better plan"), number(line, "time"), number(line, "base"))
        {
            plans.push((seconds, 100.0 * (time - base) / base));
        }
    }
    Ok(Curve { nodes, plans, end })
}

/// `FAMILY-NODES-SEED`.
fn made_up(name: &str, budget: &str, solver: Solver, options: &Options) -> Result<Curve> {
    let graph = networks::made_up(name)?;
    let share: f64 =
        budget.strip_suffix('%').context("budgets of made-up networks are in percent")?.parse()?;
    let limit: f64 = options.time_limit.strip_suffix('s').context("a limit in seconds")?.parse()?;
    let bytes = Bytes((base_trace(&graph).peak.0 as f64 * share / 100.0).ceil() as u64);
    let request =
        Request { solver, time_limit: Duration::from_secs_f64(limit), ..Request::new(&graph, bytes) };
    let start = Instant::now();
    let outcome = rk_solve::solve(&request);
    let end = start.elapsed().as_secs_f64();
    let base = graph.total_time().0 as f64;
    let found = outcome.progress.iter().filter_map(|progress| Some((progress.at, progress.plan?)));
    let plans = found.map(|(at, time)| (at.as_secs_f64(), 100.0 * (time.0 as f64 - base) / base));
    Ok(Curve { nodes: graph.len(), plans: plans.collect(), end })
}
