//! `rk-bench offload-chains`: the planner with transfers beside the optimum of POFO on chains.
//!
//! Each cell is a chain, a budget and a link. [`pofo`] gives the least time of a plan of POFO's shape, in a model that is kinder than that of
//! the planner (see there), exactly or as a pair of numbers that it lies between. The planner gets a tenth of the time that this
//! took, at least a minimum, and then a fixed limit.
//!
//! Not here: graphs that are no chains; the planner's own tests against exhaustion (`passes/solve/tests/transfers.rs`).

mod chain;
#[cfg(test)]
mod exhaustive;
mod pofo;
mod segments;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Result;
use rk_plan::{Bytes, base_trace};
use rk_solve::{Request, solve_with_transfers};

use crate::report::{Table, publish};
use chain::{Chain, KINDS, TICKS, UNIT, host, of_kind};
use pofo::{Ahead, optimum};
use segments::Segments;

#[derive(clap::Args)]
pub struct Options {
    /// Stages of each chain.
    #[arg(long, value_delimiter = ',', default_value = "12,24")]
    stages: Vec<usize>,
    /// Budgets in percent of the peak.
    #[arg(long, value_delimiter = ',', default_value = "80,60,40,25")]
    budgets: Vec<u64>,
    /// Percent of the peak that the link moves each way in the time of all runs.
    #[arg(long, value_delimiter = ',', default_value = "25,100")]
    links: Vec<u64>,
    /// Kinds of chains; all by default.
    #[arg(long, value_delimiter = ',')]
    kinds: Vec<String>,
    /// Seconds of the planner in the last columns.
    #[arg(long, default_value_t = 2.0)]
    limit: f64,
    /// The least milliseconds that the planner gets.
    #[arg(long, default_value_t = 20)]
    least: u64,
    /// Plan without the yardstick.
    #[arg(long)]
    alone: bool,
    /// The Markdown file whose tables between `<!-- NAME -->` and `<!-- /NAME -->` are replaced; standard output without it.
    #[arg(long)]
    document: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let mut table = Table::new([
        "chain",
        "stages",
        "link %",
        "budget %",
        "POFO %",
        "POFO s",
        "rk %",
        "rk s",
        "gap %",
        "rk % at the limit",
        "gap %",
    ]);
    let all: Vec<String> = KINDS.map(str::to_owned).to_vec();
    let kinds = if options.kinds.is_empty() { &all } else { &options.kinds };
    for kind in kinds {
        for &stages in &options.stages {
            let chain = of_kind(kind, stages, 1);
            let started = Instant::now();
            let segments = if options.alone { None } else { Some(Segments::new(&chain)) };
            let prepared = started.elapsed();
            for &link in &options.links {
                for &budget in &options.budgets {
                    let cell = Cell { chain: &chain, segments: segments.as_ref(), prepared, link, budget };
                    let row = cell.row(options)?;
                    eprintln!("{}", row.join(" "));
                    table.row(row);
                }
            }
        }
    }
    publish(options.document.as_deref(), "offload-chains", &table.to_markdown())
}

struct Cell<'a> {
    chain: &'a Chain,
    segments: Option<&'a Segments>,
    prepared: Duration,
    link: u64,
    budget: u64,
}

impl Cell<'_> {
    fn row(&self, options: &Options) -> Result<Vec<String>> {
        let graph = self.chain.graph()?;
        let peak = base_trace(&graph).peak.0 / UNIT;
        let memory = (peak * self.budget).div_ceil(100);
        let rate = (peak * self.link).div_ceil(100 * self.chain.time()).max(1);
        let base = (self.chain.time() * rate) as f64;
        let started = Instant::now();
        let bounds = |ahead| {
            let segments = self.segments?;
            Some(optimum(self.chain, segments, memory, rate, ahead)? as f64 / base)
        };
        let best = bounds(Ahead::Reserved);
        let took = started.elapsed() + self.prepared;
        let below = bounds(Ahead::Free);
        let plan = |limit| {
            let started = Instant::now();
            let request = Request { time_limit: limit, ..Request::new(&graph, Bytes(memory * UNIT)) };
            let answer = solve_with_transfers(&request, &host(rate));
            let makespan =
                answer.plan.map(|plan| plan.trace.makespan.0 as f64 / (self.chain.time() * TICKS) as f64);
            (makespan, started.elapsed())
        };
        let (soon, soon_took) = plan((took / 10).max(Duration::from_millis(options.least)));
        let (late, _) = plan(Duration::from_secs_f64(options.limit));
        let percent =
            |time: Option<f64>| time.map_or("–".to_owned(), |time| format!("{:.2}", (time - 1.0) * 100.0));
        let gap = |time: Option<f64>| {
            time.zip(best)
                .map_or("–".to_owned(), |(time, best)| format!("{:+.2}", (time / best - 1.0) * 100.0))
        };
        let yardstick = match (below, best) {
            (Some(below), Some(best)) if percent(Some(below)) != percent(Some(best)) => {
                format!("{} to {}", percent(Some(below)), percent(Some(best)))
            }
            _ => percent(best),
        };
        Ok(vec![
            self.chain.name.clone(),
            self.chain.stages.len().to_string(),
            self.link.to_string(),
            self.budget.to_string(),
            yardstick,
            format!("{:.2}", took.as_secs_f64()),
            percent(soon),
            format!("{:.2}", soon_took.as_secs_f64()),
            gap(soon),
            percent(late),
            gap(late),
        ])
    }
}
