//! # rk-plan: the planner alone, on JSON graphs
//!
//! Reads a graph, asks `rk-solve` for a plan within a budget, and prints one report with the size of its arena. What
//! has to fit is the logical peak, by which published plans are judged; `--fit arena` asks for more.
//! Standard output carries the result only; progress goes to standard error (`RK_LOG=rk_solve=info`).
//!
//! Exit status: 0 with a plan, 2 when it is proven that none exists, 3 when none was found in the time, 1 for everything
//! else (usage, unreadable files).
//!
//! It decides how a time limit is divided between searching and packing, where the logical peak has to fit; every other decision is in
//! `rk-solve`. Not here: what a schedule costs (`rk-plan`, the library).

mod curve;
mod intervals;
mod link;
mod offload;
mod pack;
mod page;
mod report;
mod table;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use clap::Parser;
use rk_cache::Cache;
use rk_plan::arena::ALIGNMENT;
use rk_plan::transfer::{Latency, Rate};
use rk_plan::{Budget, Bytes, Graph, Trace, base_trace};
use rk_solve::{
    Addresses, MilpSolver, Outcome, Params, Patience, Request, Solver, Spare, Status, StrategyNames,
    TimeLimit, Timekeeping, packing_time, packs_easily, with_addresses,
};
use rk_vocabulary::write_output;

use crate::link::{parse_latency, parse_rate};
use crate::report::Report;

const EXAMPLES: &str = "\
Examples:
  rk-plan graph.json --budget 50%                      half of the peak without recomputation
  rk-plan graph.json --budget 2GiB --json              one JSON object with the schedule
  rk-plan graph.json --budget 0.4 --solver greedy      milliseconds, no bound
  rk-plan graph.json --pareto --time-limit 60s         the whole curve, time against budget
  rk-plan graph.json --budget 50% --cache plans/       asked again, answered at once
  rk-plan graph.json --budget 30% --offload --bandwidth 25GB/s --host-budget 8GiB --json
                                                       values may wait in host memory, too
  rk-plan graph.json --budget 50% --report plan.html   a page for a browser, without network
  rk-plan graph.json --budget 50% --intervals kept.csv what is kept from when to when, for other tools
  rk-plan --table DIR --time-limit 5s                  every graph of a folder, as a Markdown table
  rk-plan --pack instance.csv --capacity 1MiB          addresses alone: id,lower,upper,size in, offset added
  rk-plan --list-solvers

Exit status: 0 a plan, 2 proven infeasible, 3 none found in the time, 1 other errors.
The format of graphs is that of rk_plan::json.";

/// Plan a training step within a memory budget: which values to keep, which to compute again.
#[derive(Parser)]
#[command(name = "rk-plan", version, after_help = EXAMPLES)]
struct Arguments {
    /// The graph, in the JSON schema of the benchmark graphs; `-` is standard input
    #[arg(value_name = "GRAPH.json", required_unless_present_any = ["list_solvers", "table", "pack"])]
    graph: Option<PathBuf>,
    /// 50% or 0.5 of the peak without recomputation, or bytes: 1500000000, 500MB, 2GiB
    #[arg(long, value_name = "BUDGET", required_unless_present_any = ["list_solvers", "table", "pareto", "pack"])]
    budget: Option<String>,
    /// Who solves it; --list-solvers explains the names
    #[arg(long, default_value = "auto")]
    solver: Solver,
    /// Time for the search: 10s, 500ms, 2m; auto is a fraction of a second, and more only where that finds no plan
    #[arg(long, default_value = "10s")]
    time_limit: TimeLimit,
    /// What the time limit counts: wall, or work, with which the plan does not depend on the machine and its load
    #[arg(long, default_value = "wall")]
    timekeeping: Timekeeping,
    /// The same seed gives the same plan
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads that may compute
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    /// Who solves mixed integer programs: cbc, or highs where it was built in
    #[arg(long, default_value = "cbc")]
    milp: MilpSolver,
    /// Strategies of the portfolio that do not run, with commas between them; for developers
    #[arg(long, value_name = "NAMES", hide = true, default_value = "", hide_default_value = true)]
    without: StrategyNames,
    /// A JSON file that sets parameters of the planner, as rk_solve::Params says; for developers
    #[arg(long, value_name = "FILE", hide = true, value_parser = read_params)]
    params: Option<Arc<Params>>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Plan for many budgets and print the curve
    #[arg(long, conflicts_with = "budget")]
    pareto: bool,
    /// What has to fit: the logical peak, as in publications, or the arena with all buffers at their addresses
    #[arg(long, value_enum, default_value_t = Fit::Peak)]
    fit: Fit,
    /// Keep plans in a folder and take them from there; other plans of the same graph serve as starts
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// Values may wait in host memory: transfers are planned together with recomputation, and the time is the makespan
    #[arg(long, requires = "bandwidth", conflicts_with_all = ["pareto", "table", "cache"])]
    offload: bool,
    /// What the link between device and host moves in each direction: 25GB/s, 12.5GiB/s
    #[arg(long, value_name = "RATE", requires = "offload", value_parser = parse_rate, allow_hyphen_values = true)]
    bandwidth: Option<Rate>,
    /// What each transfer takes before its first byte: 10us, 500ns
    #[arg(long, value_name = "TIME", requires = "offload", default_value = "0s", value_parser = parse_latency, allow_hyphen_values = true)]
    latency: Latency,
    /// What may wait in host memory: 8GiB, or bytes; without it, as much as there is
    #[arg(long, value_name = "BYTES", requires = "offload", allow_hyphen_values = true)]
    host_budget: Option<String>,
    /// Every buffer starts at a multiple of this many bytes; by default 512, or 1 for graphs below 1 MiB (abstract sizes)
    #[arg(long, value_name = "BYTES")]
    alignment: Option<u64>,
    /// Also write {"schedule": [...]} to a file; `-` is standard output
    #[arg(long, value_name = "FILE")]
    schedule: Option<PathBuf>,
    /// Also write what is in memory from which run to which, as a CSV file with the columns id, lower, upper, size, which --pack reads; `-` is standard
    /// output
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["pareto", "table", "offload"])]
    intervals: Option<PathBuf>,
    /// Also write the plan as one HTML page: memory over the step, what holds the peak, time against budget, modules; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["pareto", "table"])]
    report: Option<PathBuf>,
    /// Budgets that are planned for the curve of the report, each within half a second of work
    #[arg(long, value_name = "COUNT", requires = "report", default_value_t = 7, value_parser = clap::value_parser!(u16).range(0..=1000))]
    report_points: u16,
    /// Pack buffers of a CSV file with the columns id, lower, upper, size, as in MiniMalloc's instances, and print it with their offsets; `-` is
    /// standard input
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["graph", "budget", "pareto", "table", "offload", "report", "schedule", "intervals", "cache"])]
    pack: Option<PathBuf>,
    /// What the buffers have to fit in: 1MiB, or bytes; without it, the lowest layout is looked for
    #[arg(long, value_name = "BYTES", requires = "pack", allow_hyphen_values = true)]
    capacity: Option<String>,
    /// Write the packed buffers to a file instead; `-` is standard output
    #[arg(long, value_name = "FILE.csv", requires = "pack")]
    packed: Option<PathBuf>,
    /// Print the names of the solvers
    #[arg(long)]
    list_solvers: bool,
    /// Plan every graph of a folder at the budgets of its best_known.csv (or at 90% to 30%) and print a Markdown table
    #[arg(long, value_name = "DIR", conflicts_with_all = ["graph", "budget", "pareto", "json"])]
    table: Option<PathBuf>,
}

/// What has to fit in the budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Fit {
    Arena,
    Peak,
}

fn main() -> ExitCode {
    let arguments = match rk_cli::try_parse::<Arguments>() {
        Ok(arguments) => arguments,
        Err(error) => {
            // clap would exit with 2, which here means "proven infeasible".
            let failed = error.use_stderr();
            let _ = error.print();
            return if failed { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    let filter = tracing_subscriber::EnvFilter::try_from_env("RK_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    match run(&arguments) {
        Ok(code) => code,
        Err(error) if rk_cli::is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rk-plan: {error:#}");
            ExitCode::from(1)
        }
    }
}

fn run(arguments: &Arguments) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    if arguments.list_solvers {
        for solver in Solver::ALL {
            writeln!(out, "{solver:<10}  {}", solver.summary())?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(folder) = &arguments.table {
        table::print(folder, arguments, &mut out)?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(instance) = &arguments.pack {
        return pack::print(instance, arguments, &mut out);
    }
    let path = arguments.graph.as_deref().context("a graph is missing")?;
    let graph = load(path)?;
    if arguments.pareto {
        return curve::print(&graph, arguments, &mut out);
    }
    let text = arguments.budget.as_deref().context("--budget is missing")?;
    let budget = Budget::parse_with_fractions(text).context("--budget")?;
    if let (true, Some(rate)) = (arguments.offload, arguments.bandwidth) {
        return offload::print(&graph, budget, rate, arguments);
    }
    let report = plan(&graph, budget, arguments)?;
    if let Some(file) = &arguments.schedule {
        intervals::schedule(file, &report)?;
    }
    if let Some(file) = &arguments.intervals {
        intervals::intervals(file, &graph, &report)?;
    }
    if let Some(file) = &arguments.report {
        page::write(file, &graph, &report, page::Found::of(&graph, &report), arguments)?;
    }
    let text = if arguments.json { format!("{}\n", report.json()) } else { report.text() };
    write_output(Path::new("-"), text.as_bytes())?;
    Ok(exit_code(report.outcome.status))
}

impl Arguments {
    fn patience(&self) -> Patience {
        Patience::new(self.time_limit)
    }
}

/// Solves one problem and packs the plan; with `--time-limit auto`, once more where there is none yet.
fn plan<'a>(graph: &'a Graph, budget: Budget, arguments: &Arguments) -> Result<Report<'a>> {
    let start = Instant::now();
    let base = base_trace(graph);
    let budget = budget.resolve(base.peak);
    let patience = arguments.patience();
    let mut outcome = plan_within(patience.first(graph.len()), graph, budget, &base, arguments)?;
    if let Some(longer) = patience.again(budget, &outcome) {
        outcome = plan_within(longer, graph, budget, &base, arguments)?;
    }
    Ok(Report::new(graph, budget, &base, outcome, start.elapsed()))
}

fn plan_within(
    limit: Duration,
    graph: &Graph,
    budget: Bytes,
    base: &Trace,
    arguments: &Arguments,
) -> Result<Outcome> {
    let start = Instant::now();
    let mut request = request(graph, budget, base, limit, arguments);
    let outcome = match &arguments.cache {
        None => rk_solve::solve(&request),
        Some(folder) => {
            let cache = Cache::open(folder).with_context(|| format!("--cache {}", folder.display()))?;
            cached(&cache, &mut request)?
        }
    };
    let addresses = addresses(base, limit, arguments);
    let spent = match arguments.timekeeping {
        Timekeeping::Wall => start.elapsed(),
        Timekeeping::Work => request.time_limit,
    };
    let left = limit.mul_f64(1.0 - PACKING).saturating_sub(spent);
    Ok(placed(&request, outcome, addresses, left))
}

/// The answer with addresses, if the plan has none yet.
fn placed(request: &Request, outcome: Outcome, addresses: Addresses, limit: Duration) -> Outcome {
    match &outcome.plan {
        Some(plan) if plan.arena.is_none() => with_addresses(request, outcome, addresses, limit),
        _ => outcome,
    }
}

/// The answer from the cache, or a new one, which is kept there.
fn cached(cache: &Cache, request: &mut Request) -> Result<Outcome> {
    if let Some(outcome) = cache.load(request) {
        return Ok(outcome);
    }
    request.starts = cache.neighbours(request);
    let outcome = rk_solve::solve(request);
    cache.store(request, &outcome).context("cannot write to the cache")?;
    Ok(outcome)
}

/// The part of the time limit that is left for the report; a large graph needs more of it for the last packing.
const PACKING: f64 = 0.02;
/// The part of the time limit that is left to pack plans that do not pack by themselves.
const COMPACTING: f64 = 0.4;
/// At least so much, or half of the limit.
const LEAST_COMPACTING: Duration = Duration::from_millis(450);
/// In graphs whose given order does not, all but this, as long as it is no less than a part of the limit: a search gains little from then
/// on, and a layout does.
const SEARCHING: Duration = Duration::from_secs(2);
const LEAST_SEARCHING: f64 = 0.25;
/// Below this base peak sizes are abstract numbers, and aligning them would say nothing.
const ABSTRACT: Bytes = Bytes(1 << 20);

/// How plans are packed.
fn addresses(base: &Trace, limit: Duration, arguments: &Arguments) -> Addresses {
    let usual = if base.peak < ABSTRACT { Bytes(1) } else { ALIGNMENT };
    Addresses::within(arguments.alignment.map_or(usual, Bytes), limit)
}

fn request<'a>(
    graph: &'a Graph,
    budget: Bytes,
    base: &Trace,
    limit: Duration,
    arguments: &Arguments,
) -> Request<'a> {
    let time = limit.mul_f64(1.0 - PACKING);
    let addresses = addresses(base, limit, arguments);
    let request = Request {
        solver: arguments.solver,
        time_limit: time,
        timekeeping: arguments.timekeeping,
        seed: arguments.seed,
        threads: arguments.threads as usize,
        milp: arguments.milp,
        without: arguments.without.clone(),
        params: arguments.params.clone().unwrap_or_default(),
        addresses: (arguments.fit == Fit::Arena).then_some(addresses),
        ..Request::new(graph, budget)
    };
    if arguments.fit == Fit::Arena {
        return Request { time_limit: time, ..request };
    }
    let most = time.mul_f64(COMPACTING).max(LEAST_COMPACTING).min(time / 2);
    let spare = if packs_easily(&request, addresses) {
        let packing = packing_time(graph.len()).min(most);
        Spare { time: packing, more: most - packing, addresses }
    } else {
        let search = time.mul_f64(LEAST_SEARCHING).max(SEARCHING);
        Spare { time: most.max(time.saturating_sub(search)), more: Duration::ZERO, addresses }
    };
    let (packing, spare) = (spare.time, Some(spare));
    Request { time_limit: time - packing, spare, ..request }
}

fn exit_code(status: Status) -> ExitCode {
    match status {
        Status::Optimal | Status::Feasible => ExitCode::SUCCESS,
        Status::Infeasible => ExitCode::from(2),
        Status::Unknown => ExitCode::from(3),
    }
}

/// Parameters in a file, or one line about what is wrong with it.
fn read_params(path: &str) -> Result<Arc<Params>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"))?;
    Params::read(&text).map(Arc::new).map_err(|error| error.to_string())
}

fn load(path: &Path) -> Result<Graph> {
    let text = if path == Path::new("-") {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(path)
    };
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    rk_plan::json::read(&text).with_context(|| path.display().to_string())
}
