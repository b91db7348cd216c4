//! The command line: what may be asked, and its defaults.
//!
//! Not here: what the commands do (see `run`, `figures`, `plan`, `timing`).

use clap::builder::PossibleValuesParser;
use clap::{Args, Parser, Subcommand, ValueEnum};
use rk_dtr::{Heuristic, Policy, Scan};
use std::path::PathBuf;

/// DTR's simulator: replays a recorded training step under a memory budget and reports what an online
/// rematerialization heuristic would have cost.
#[derive(Debug, Parser)]
#[command(name = "rk-simrd", version, about, after_help = EXIT)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

const EXIT: &str = "Exit status: 0 when everything ran, whatever the runs came to; 1 when a log cannot be read or a \
    file cannot be written; 2 when the command line is wrong.\nResults go to standard output or to files, progress and \
    errors to standard error.";

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Replay one log for every given heuristic and ratio.
    Run(RunArgs),
    /// Overhead over budget for the seven heuristics (figure 2 of the paper).
    Pareto(FigureArgs),
    /// Overhead over budget for the 16 ablations in four groups (figures 7 to 10).
    Ablation(FigureArgs),
    /// What becomes of dead values: evicted, banished, or nothing at all (figure 11).
    Banishing(FigureArgs),
    /// Metadata accesses of the three variants of h_DTR (figure 12).
    Accesses(FigureArgs),
    /// Write a step of rk (the JSON of `rk-translate --to json`, or of the benchmark graphs) as a log.
    #[command(long_flag = "record")]
    Record(RecordArgs),
    /// What rk's offline plans cost at the same budgets, beside an online heuristic and beside what is possible at all.
    #[command(long_flag = "plan")]
    Plan(PlanArgs),
    /// Time per run, as a table in Markdown: the seven heuristics over ten ratios, on one thread.
    Timing(TimingArgs),
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// A log in DTR's format, plain or compressed with gzip; `-` is standard input.
    pub log: PathBuf,
    /// Which storage is evicted first; may be given several times.
    #[arg(long = "heuristic", required = true, value_name = "NAME", value_parser = heuristic_names())]
    pub heuristics: Vec<String>,
    /// Budget as a fraction of the peak without a limit; may be given several times.
    #[arg(long = "ratio", required = true, value_name = "R", value_parser = ratio)]
    pub ratios: Vec<f64>,
    /// What happens when the program drops its last reference to a value.
    #[arg(long, value_enum, default_value_t = RuntimeName::Eager)]
    pub runtime: RuntimeName,
    /// Seed of random heuristics.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// How the pool is searched. The results are the same; only a full scan counts accesses.
    #[arg(long, value_enum, default_value_t = ScanName::Pruned)]
    pub scan: ScanName,
    /// Recognise segments that recur and evict them by plans made once; with the eager runtime.
    #[arg(long)]
    pub segments: bool,
    /// One JSON object per run and line, instead of a table.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of the figures.
#[derive(Debug, Args)]
pub struct FigureArgs {
    /// A folder of logs (*.log, *.log.gz), or one log.
    pub logs: PathBuf,
    /// Where the csv, svg and png files go; made if it does not exist.
    #[arg(short, long, value_name = "FOLDER", default_value = ".")]
    pub output: PathBuf,
    /// Budgets as fractions of the peak without a limit.
    #[arg(long, value_name = "R,...", value_delimiter = ',', value_parser = ratio,
        default_value = "0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9,1.0")]
    pub ratios: Vec<f64>,
    /// Runs per cell of a random heuristic, with consecutive seeds.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub trials: u64,
    /// The first of those seeds.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// Arguments of `record`.
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// The step.
    #[arg(value_name = "STEP.json")]
    pub graph: PathBuf,
    /// Where the log goes; standard output if nothing is said, or `-`.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// A folder of logs (*.log, *.log.gz), or one log.
    pub logs: PathBuf,
    /// Budgets as fractions of the peak without a limit.
    #[arg(long = "ratio", value_name = "R,...", value_delimiter = ',', value_parser = ratio,
        default_value = "0.3,0.4,0.5,0.6,0.7,0.8,0.9")]
    pub ratios: Vec<f64>,
    /// Whom to compare with.
    #[arg(long, value_name = "NAME", default_value = "h_dtr_eq", value_parser = heuristic_names())]
    pub heuristic: String,
    /// Seconds for a plan, and again for a bound.
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    pub time_limit: f64,
    /// One JSON object per line, instead of a table in Markdown.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `timing`.
#[derive(Debug, Args)]
pub struct TimingArgs {
    /// A folder of logs (*.log, *.log.gz), or one log.
    pub logs: PathBuf,
    /// Every run is repeated this often; its median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
}

/// Names of [`Policy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeName {
    /// Evicted at once; may come back as an intermediate.
    Eager,
    /// Freed for ever as soon as nothing evicted depends on it.
    Banish,
    /// Nothing.
    NoDealloc,
}

impl From<RuntimeName> for Policy {
    fn from(name: RuntimeName) -> Self {
        match name {
            RuntimeName::Eager => Self::Eager,
            RuntimeName::Banish => Self::Banish,
            RuntimeName::NoDealloc => Self::Ignore,
        }
    }
}

/// Names of [`Scan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScanName {
    /// Exact scores only where a lower bound does not settle the matter.
    Pruned,
    /// Every score, as the reference does.
    Full,
}

impl From<ScanName> for Scan {
    fn from(name: ScanName) -> Self {
        match name {
            ScanName::Pruned => Self::Pruned,
            ScanName::Full => Self::Full,
        }
    }
}

fn heuristic_names() -> PossibleValuesParser {
    PossibleValuesParser::new(Heuristic::ALL.map(|h| h.name()))
}

fn ratio(text: &str) -> Result<f64, String> {
    let ratio: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if ratio.is_finite() && ratio >= 0.0 {
        Ok(ratio)
    } else {
        Err("a ratio is a number of at least 0".to_owned())
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number".to_owned())?;
    if seconds > 0.0 && seconds <= 86400.0 { Ok(seconds) } else { Err("between 0 and a day".to_owned()) }
}
