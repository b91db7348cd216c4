//! Rockmate's three experiments: `options`, `solving-time` and `performance`, one runner for all of them.
//!
//! An experiment is a list of [`Cell`]s: a network, a method, its options and a budget. Each is planned once, and its row of CSV is written at
//! once, so that a run that was interrupted goes on where it stopped. From the rows of its cells come a table and a figure; both can be
//! made again from the file without planning anything.
//!
//! Limits count work ([`rk_solve::Timekeeping::Work`]), so that the same seed gives the same plans on every machine. Seconds stand in columns of
//! their own, and are those of the processor: on an idle machine those of the clock, and on a busy one still of use. Only integer programs are stopped by
//! them.
//!
//! Not here: steps that run. `rk-bench models`, `rk-bench lowered` and the GPU suite measure those.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::builder::RangedU64ValueParser;
use indicatif::{ProgressBar, ProgressStyle};
use rk_plan::Graph;
use rk_solve::{REVISION, SaveBudgets, Solver, Spread};
use rk_vocabulary::parse_span;

use crate::report::{Table, publish};
use crate::yardstick::machine;
use defaults::{Defaults, Experiment};
use rows::{Cell, Row, Rows};

mod defaults;
mod figures;
mod measure;
pub mod networks;
mod rows;
mod tables;

/// What all three have in common.
#[derive(clap::Args)]
struct Study {
    /// Networks of examples/repeated.py, files FILE.json, or made-up:FAMILY-NODES-SEED.
    #[arg(long, value_delimiter = ',')]
    networks: Vec<String>,
    /// Budgets, in percent of the peak without recomputation.
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<u32>::new().range(1..=100))]
    budgets: Vec<u32>,
    /// Methods, as `rk-plan --list-solvers` names them.
    #[arg(long, value_delimiter = ',')]
    methods: Vec<Solver>,
    /// Time limit of each plan, counted in work.
    #[arg(long, value_parser = parse_span)]
    time_limit: Option<Duration>,
    /// The same seed gives the same plans.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The sizes of the papers instead of those for a laptop: hours, and gigabytes to trace the networks of `performance`.
    #[arg(long)]
    paper: bool,
    /// The rows; the file is made, or gone on with [default: NAME.csv in the cache].
    #[arg(long)]
    rows: Option<PathBuf>,
    /// The figure, written as PATH.svg and PATH.png [default: the path of the rows].
    #[arg(long, value_name = "PATH")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    common: crate::Common,
}

#[derive(clap::Args)]
pub struct SaveOptions {
    /// Save budgets per block.
    #[arg(long, value_delimiter = ',', value_parser = RangedU64ValueParser::<u32>::new().range(1..=1000))]
    counts: Vec<u32>,
    /// How they are spread.
    #[arg(long, value_delimiter = ',', default_values = ["linear", "geometric", "mirrored"])]
    spreads: Vec<Spread>,
    #[command(flatten)]
    study: Study,
}

#[derive(clap::Args)]
pub struct Plain {
    #[command(flatten)]
    study: Study,
}

/// Experiment 1: how many options per block, and which.
pub fn options(options: &SaveOptions) -> Result<()> {
    let defaults = options.study.defaults(Experiment::Options);
    let counts = if options.counts.is_empty() { defaults.counts.to_vec() } else { options.counts.clone() };
    let choices: Vec<Option<SaveBudgets>> = options
        .spreads
        .iter()
        .flat_map(|&spread| counts.iter().map(move |&count| Some(SaveBudgets { count, spread })))
        .collect();
    options.study.run(&defaults, |method| match method {
        Solver::Rockmate | Solver::Classes => choices.clone(),
        _ => vec![None],
    })
}

/// Experiment 2: how long it takes.
pub fn solving_time(options: &Plain) -> Result<()> {
    options.study.run(&options.study.defaults(Experiment::SolvingTime), |_| vec![None])
}

/// Experiment 3: overhead against peak.
pub fn performance(options: &Plain) -> Result<()> {
    options.study.run(&options.study.defaults(Experiment::Performance), |_| vec![None])
}

impl Study {
    /// The experiment with what was asked for in place of its own lists.
    fn defaults(&self, experiment: Experiment) -> Defaults {
        let mut defaults = experiment.defaults(self.paper);
        if !self.networks.is_empty() {
            defaults.networks.clone_from(&self.networks);
        }
        if !self.budgets.is_empty() {
            defaults.budgets.clone_from(&self.budgets);
        }
        if !self.methods.is_empty() {
            defaults.methods.clone_from(&self.methods);
        }
        defaults.limit = self.time_limit.unwrap_or(defaults.limit);
        defaults
    }

    /// Plans every cell that the file has no row of, and shows all of them.
    fn run(&self, study: &Defaults, choices: impl Fn(Solver) -> Vec<Option<SaveBudgets>>) -> Result<()> {
        let name = study.experiment.name();
        let path = self.rows.clone().unwrap_or_else(|| self.common.cache.join(format!("{name}.csv")));
        let limit = study.limit.as_millis();
        let asked = format!("rk-bench {name}, seed {}, limit {limit} ms of work", self.seed);
        let mut rows = Rows::open(&path, &asked)?;
        let cells = study.cells(choices);
        let missing = cells.iter().filter(|cell| rows.find(cell).is_none()).count();
        if missing > 0 {
            let head = vec![asked, format!("planner revision {REVISION}"), format!("machine {}", machine())];
            rows.go_on(&path, head)?;
            eprintln!("{name}: {missing} of {} plans to make; {}", cells.len(), study.estimate(missing));
            let graphs = self.graphs(study, &cells, &rows)?;
            self.measure(study, &cells, &graphs, &mut rows, &path)?;
        } else {
            eprintln!("{name}: all {} plans are there, of {}", cells.len(), rows.makers());
        }
        let shown: Vec<&Row> = cells.iter().filter_map(|cell| rows.find(cell)).collect();
        let stem = self.plot.clone().unwrap_or_else(|| path.with_extension(""));
        figures::of(study.experiment, &shown).write(&stem)?;
        let table: Table = tables::of(study.experiment, &shown);
        publish(self.common.document.as_deref(), name, &table.to_markdown())?;
        eprintln!("{name}: {}, {}.svg, {}.png", path.display(), stem.display(), stem.display());
        Ok(())
    }

    /// The graphs of the networks with a cell to plan, all of them before the first is planned: a wrong name is an error at once.
    fn graphs(&self, study: &Defaults, cells: &[Cell], rows: &Rows) -> Result<BTreeMap<String, Graph>> {
        let wanted = |network: &&String| {
            cells.iter().any(|cell| cell.network == **network && rows.find(cell).is_none())
        };
        let graphs = study.networks.iter().filter(wanted).map(|network| {
            let graph = networks::graph(network, &self.common.cache);
            Ok((network.clone(), graph.with_context(|| format!("network '{network}'"))?))
        });
        graphs.collect()
    }

    fn measure(
        &self,
        study: &Defaults,
        cells: &[Cell],
        graphs: &BTreeMap<String, Graph>,
        rows: &mut Rows,
        path: &Path,
    ) -> Result<()> {
        let style = ProgressStyle::with_template("{wide_bar} {pos}/{len}, {eta} left: {msg}")?;
        // It draws on a terminal and nowhere else.
        let bar = ProgressBar::new(cells.len() as u64).with_style(style);
        for cell in cells {
            bar.set_message(cell.to_string());
            if rows.find(cell).is_none() {
                let graph = graphs.get(&cell.network).context("a cell without a graph")?;
                rows.add(&measure::row(cell, graph, study.limit, self.seed))?;
                rows.write(path, cells)?;
            }
            bar.inc(1);
        }
        bar.finish_and_clear();
        ensure!(cells.iter().all(|cell| rows.find(cell).is_some()), "a cell has no row");
        Ok(())
    }
}
