//! `rk-bench`: the experiments behind `docs/benchmarks.md`, each reproducible by one command.
//!
//! Most experiments call the tools as a user would, as processes, and write a Markdown table about real models
//! between two markers of a document. Numbers that are compared with each other are taken in one run.
//! Not here: pass or solver code. What a number means is defined by the tool that prints it.

mod ablate;
mod classes;
mod experiments;
mod lowered;
mod models;
mod offload_chains;
mod offload_graphs;
mod plot;
mod ratios;
mod report;
mod toolbox;
mod yardstick;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Experiments on real models; each writes tables of docs/benchmarks*.md.
#[derive(Parser)]
#[command(
    name = "rk-bench",
    version,
    after_help = "Examples:\n  rk-bench models --models resnet18,gpt2_4 --budgets 60%\n  rk-bench ratios\n  rk-bench options\n  rk-bench performance --networks gpt2-4 --budgets 60,40 --methods auto,rockmate"
)]
struct Cli {
    #[command(subcommand)]
    experiment: Experiment,
}

#[derive(Subcommand)]
enum Experiment {
    /// Import, plan, run and check every model at every budget.
    Models(models::Options),
    /// The same, lowered: size of the arena, allocations outside of it, time against eager and against the prediction.
    Lowered(lowered::Options),
    /// Cost of importing, of the passes and of running, as ratios to eager PyTorch.
    Ratios(ratios::Options),
    /// Equal blocks: counts, measuring and planning per class, and what finding them costs.
    Classes(classes::Options),
    /// The planner alone: quality, speed and proofs of some four hundred cells, and what a change did to them.
    Yardstick(yardstick::Options),
    /// The planner alone: what each parameter and each strategy is worth.
    Ablate(ablate::Options),
    /// The planner with transfers beside the optimum of POFO, on chains.
    OffloadChains(offload_chains::Options),
    /// Recomputation alone, transfers alone and both, on graphs in files.
    OffloadGraphs(offload_graphs::Options),
    /// Rockmate's experiment 1: how many options per block, and which; plans and planning time.
    Options(experiments::SaveOptions),
    /// Rockmate's experiment 2: seconds to a plan, to a good one and to the proof, over the depth of networks.
    SolvingTime(experiments::Plain),
    /// Rockmate's experiment 3: overhead against peak, by every method.
    Performance(experiments::Plain),
}

/// What all experiments share.
#[derive(clap::Args)]
struct Common {
    /// The Markdown file whose table between `<!-- NAME -->` and `<!-- /NAME -->` is replaced; standard output without it.
    #[arg(long)]
    document: Option<PathBuf>,
    /// Where archives and step files are kept between runs.
    #[arg(long, default_value = "target/bench")]
    cache: PathBuf,
}

fn main() -> ExitCode {
    let done = match rk_cli::parse::<Cli>().experiment {
        Experiment::Models(options) => models::run(&options),
        Experiment::Lowered(options) => lowered::run(&options),
        Experiment::Ratios(options) => ratios::run(&options),
        Experiment::Classes(options) => classes::run(&options),
        Experiment::Yardstick(options) => yardstick::run(&options),
        Experiment::Ablate(options) => ablate::run(&options),
        Experiment::OffloadChains(options) => offload_chains::run(&options),
        Experiment::OffloadGraphs(options) => offload_graphs::run(&options),
        Experiment::Options(options) => experiments::options(&options),
        Experiment::SolvingTime(options) => experiments::solving_time(&options),
        Experiment::Performance(options) => experiments::performance(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rk-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
