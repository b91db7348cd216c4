//! The portfolio on made-up training steps: quality, bound and speed, one line per cell.
//!
//! ```text
//! campaign [--family NAME]... [--nodes N,...] [--seeds FROM-TO] [--budgets PERCENT,...] [--seconds S] [--compare]
//!          [--graphs DIR] [--save DIR]
//! ```
//!
//! Columns: overhead and bound in percent of the base time, gap in points, milliseconds to the first plan, to a plan within
//! 0.2 points of the final bound, to a *proof* of that, to the last improvement, and the whole time.
//! `--compare` solves every cell by each part of the portfolio alone, for as long: which part earns what, per family.
//! `--graphs` takes JSON files instead of synthetic graphs; `--save` writes the synthetic graphs as such files.

use std::error::Error;
use std::time::{Duration, Instant};

use rk_plan::{Bytes, Graph, Time, base_trace, json, judge, working_set};
use rk_solve::synthetic::{Family, graph};
use rk_solve::{Outcome, Request, Solver, solve};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut families, mut nodes, mut seeds, mut budgets) = (Vec::new(), vec![1000], 0..1, vec![50, 30]);
    let (mut seconds, mut folder, mut save, mut solver) = (10.0, None, None, Solver::Auto);
    let mut compare = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--family" => families.push(value()?.parse::<Family>()?),
            "--nodes" => nodes = numbers(&value()?)?,
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once('-').ok_or("seeds are FROM-TO")?;
                seeds = from.parse()?..to.parse::<u64>()? + 1;
            }
            "--budgets" => budgets = numbers(&value()?)?,
            "--seconds" => seconds = value()?.parse()?,
            "--graphs" => folder = Some(value()?),
            "--save" => save = Some(value()?),
            "--compare" => compare = true,
            "--solver" => solver = value()?.parse()?,
            _ => return Err(format!("unknown option {arg}").into()),
        }
    }
    let limit = Duration::try_from_secs_f64(seconds)?;
    let columns: Vec<String> = if compare {
        PARTS.iter().map(|part| part.to_string()).chain(["bound".into(), "found by".into()]).collect()
    } else {
        COLUMNS.map(String::from).to_vec()
    };
    println!("| graph (n) | budget % | {} |", columns.join(" | "));
    println!("{}", "|---".repeat(columns.len() + 2) + "|");
    let each = |name: &str, graph: &Graph| {
        for &percent in &budgets {
            let cell = Cell::new(name, graph, percent);
            println!("{}", if compare { cell.comparison(limit) } else { cell.row(limit, solver) });
        }
    };
    if let Some(folder) = folder {
        let mut paths: Vec<_> =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<_>>()?;
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
        paths.sort();
        for path in paths {
            let graph = json::read(&std::fs::read_to_string(&path)?)?;
            each(graph.name(), &graph);
        }
        return Ok(());
    }
    if families.is_empty() {
        families = Family::ALL.to_vec();
    }
    for family in families {
        for &nodes in &nodes {
            for seed in seeds.clone() {
                let made = graph(family, nodes, seed);
                if let Some(folder) = &save {
                    std::fs::write(format!("{folder}/{}.json", made.name()), json::write(&made))?;
                }
                each(made.name(), &made);
            }
        }
    }
    Ok(())
}

fn numbers(text: &str) -> Result<Vec<usize>, std::num::ParseIntError> {
    text.split(',').map(str::parse).collect()
}

const COLUMNS: [&str; 9] = [
    "overhead %",
    "bound %",
    "gap",
    "status",
    "first ms",
    "to 0.2 points, ms",
    "proof ms",
    "last ms",
    "total ms",
];
const PARTS: [Solver; 6] =
    [Solver::Dtr, Solver::Greedy, Solver::Rockmate, Solver::Cut, Solver::Local, Solver::Auto];

struct Cell<'a> {
    head: String,
    graph: &'a Graph,
    base: Time,
    budget: Bytes,
}

impl<'a> Cell<'a> {
    fn new(name: &str, graph: &'a Graph, percent: usize) -> Self {
        let base = base_trace(graph);
        let budget = Bytes((u128::from(base.peak.0) * percent as u128).div_ceil(100) as u64);
        Self { head: format!("| {name} ({}) | {percent} |", graph.len()), graph, base: base.time, budget }
    }

    fn percent(&self, time: Time) -> f64 {
        100.0 * (time.0 as f64 / self.base.0.max(1) as f64 - 1.0)
    }

    fn solve(&self, solver: Solver, time_limit: Duration) -> Outcome {
        solve(&Request { solver, time_limit, ..Request::new(self.graph, self.budget) })
    }

    /// One column per part.
    fn comparison(&self, limit: Duration) -> String {
        let mut text = self.head.clone();
        for part in PARTS {
            let outcome = self.solve(part, limit);
            let plan = outcome.plan.as_ref();
            text += &plan.map_or(" - |".into(), |plan| format!(" {:.3} |", self.percent(plan.trace.time)));
            if part == Solver::Auto {
                let finder = plan.map_or("-", |plan| plan.solver.name());
                text += &format!(" {:.3} | {finder} |", self.percent(outcome.lower_bound));
            }
        }
        text
    }

    fn row(&self, limit: Duration, solver: Solver) -> String {
        let head = &self.head;
        if self.budget < working_set(self.graph).0 {
            return format!("{head} | | | below the working set | | | | | |");
        }
        let start = Instant::now();
        let outcome = self.solve(solver, limit);
        let total = start.elapsed();
        let bound = self.percent(outcome.lower_bound);
        let late = if total > limit.mul_f64(1.1) + Duration::from_millis(20) { " LATE" } else { "" };
        let Some(plan) = &outcome.plan else {
            let status = outcome.status;
            return format!("{head} - | {bound:.4} | - | {status:?}{late} | | | | | {:.0} |", ms(total));
        };
        let trace = judge(self.graph, &plan.sequence);
        let legal = trace.is_ok_and(|trace| trace.peak <= self.budget && trace == plan.trace);
        let mark = if legal { late } else { " ILLEGAL" };
        let overhead = self.percent(plan.trace.time);
        let near = reached(&outcome, |plan, _| self.percent(plan) <= bound + 0.2);
        let proof = reached(&outcome, |plan, bound| self.percent(plan) <= self.percent(bound) + 0.2);
        let first = reached(&outcome, |_, _| true);
        let last = outcome.progress.last().map_or(0.0, |progress| ms(progress.at));
        let (gap, status) = (overhead - bound, outcome.status);
        format!(
            "{head} {overhead:.4} | {bound:.4} | {gap:.4} | {status:?}{mark} | {first} | {near} | {proof} | {last:.0} | {:.0} |",
            ms(total)
        )
    }
}

fn ms(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// Milliseconds until plan and bound first satisfied a condition.
fn reached(outcome: &Outcome, condition: impl Fn(Time, Time) -> bool) -> String {
    let found =
        outcome.progress.iter().find(|step| step.plan.is_some_and(|plan| condition(plan, step.bound)));
    found.map_or("-".into(), |step| format!("{:.0}", ms(step.at)))
}
