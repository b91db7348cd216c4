//! `rk-run`: executes a step file, on a machine where only torch is installed.
//!
//! Reads what `rk-translate --to step` wrote, runs the program, measures peak and time, and with `--check` trains
//! the step before the rewrite alongside and compares every bit. Results go to standard output, messages to
//! standard error; the exit code says what happened (`rk-run --help` lists the codes).

mod report;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use rk_runtime::{Options, RuntimeError, session};
use rk_step::queue::Pace;

/// Exit codes, as `--help` lists them.
mod code {
    pub const FAILED: u8 = 1;
    pub const BITS: u8 = 4;
    pub const PEAK: u8 = 5;
    pub const FILE: u8 = 6;
    pub const MODEL: u8 = 7;
    pub const DEVICE: u8 = 8;
}

const CODES: &str = "Exit codes: 0 done; 1 an operator failed; 2 wrong usage; 4 bits differ from the step before the \
rewrite; 5 the measured peak exceeds the budget; 6 bad step file; 7 archive missing or not the recorded one; \
8 device missing or not the recorded one.";

#[derive(Parser)]
#[command(name = "rk-run", version = version(), about = "Executes a training step under its memory plan", after_help = CODES)]
struct Arguments {
    /// Step file written by `rk-translate --to step`; `-` is standard input
    step: PathBuf,
    /// cpu, cuda or cuda:N; default: the device that the step was recorded on
    #[arg(long)]
    device: Option<String>,
    /// Training steps, each followed by an SGD update
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    steps: u32,
    /// Learning rate of the updates
    #[arg(long, default_value_t = 1e-3)]
    lr: f64,
    /// Runs per training step; their gradients are added up, as autograd adds to an existing .grad, before the update
    #[arg(long, value_name = "RUNS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    accumulate: u32,
    /// Train the step before the rewrite too and compare every bit: with eager PyTorch (the original order of nodes
    /// when the step has no archive), or with both. A step fused with `exact=false` is compared with the original order of its
    /// nodes on the same kernels, and its distance from the others is reported
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "before")]
    check: Option<Check>,
    /// The archive, when it is not where it was at import
    #[arg(long, value_name = "M.pt")]
    model: Option<PathBuf>,
    /// Timed steps, whose median is reported; 0: none
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Steps before the timed ones
    #[arg(long, default_value_t = 1)]
    warmup: u32,
    /// Seed of the generator, and of arguments when the step has no archive; default: as recorded
    #[arg(long)]
    seed: Option<u64>,
    /// Threads of libtorch; default: its own choice. Workspaces depend on it: use what the costs were measured with
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Whether nodes with a generated kernel run it, or their ATen calls; the bits are the same, unless the step was
    /// fused with `exact=false`
    #[arg(long, value_enum, default_value = "on")]
    kernels: Switch,
    /// On the CPU, run the streams of a lowered step in an order that a GPU might: program, first, last (each as far ahead as it
    /// can be), or a seed for a random one. The bits are the same
    #[arg(long, value_name = "ORDER", value_parser = pace)]
    emulate_streams: Option<Pace>,
    /// Another step file with the same arguments, timed in turns with this one: its step time is compared with this one's
    #[arg(long, value_name = "OTHER.rkx")]
    beside: Option<PathBuf>,
    /// Write the median time of every node here, of its second runs if it has any, for --rk-annotate-cost=times=FILE; many steps
    /// (--repeat) make it steady
    #[arg(long, value_name = "FILE")]
    times: Option<PathBuf>,
    /// Print the program with its live bytes instead of running it
    #[arg(long)]
    print: bool,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// With the libtorch that it is linked to.
fn version() -> &'static str {
    format!("{} (torch {})", env!("CARGO_PKG_VERSION"), rk_torch::torch_version()).leak()
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Generated kernels
    On,
    /// ATen calls
    Off,
}

#[derive(Clone, Copy, ValueEnum)]
enum Check {
    /// With eager PyTorch, or the original order of nodes when there is no archive
    Before,
    /// With both
    All,
}

fn pace(text: &str) -> Result<Pace, String> {
    match text {
        "program" => Ok(Pace::Program),
        "first" => Ok(Pace::FirstStream),
        "last" => Ok(Pace::LastStream),
        seed => {
            seed.parse().map(Pace::Random).map_err(|_| "neither program, first, last nor a seed".to_owned())
        }
    }
}

fn main() -> ExitCode {
    tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_target(false)
        .without_time()
        .with_env_filter(
            tracing_subscriber::EnvFilter::try_from_env("RK_LOG")
                .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn")),
        )
        .init();
    match run(&rk_cli::parse()) {
        Ok(code) => ExitCode::from(code),
        Err(e) => {
            eprintln!("rk-run: error: {e}");
            ExitCode::from(match e {
                RuntimeError::Step(_) => code::FILE,
                RuntimeError::Model(_) => code::MODEL,
                RuntimeError::Device(_) => code::DEVICE,
                RuntimeError::Execution { .. } | RuntimeError::Torch(_) => code::FAILED,
            })
        }
    }
}

fn run(arguments: &Arguments) -> Result<u8, RuntimeError> {
    let step = rk_step::read(&arguments.step)?;
    if arguments.print {
        print(&rk_step::explain(&step)?);
        return Ok(0);
    }
    if let Some(threads) = arguments.threads {
        rk_torch::set_threads(threads as usize)?;
    }
    let options = Options {
        device: arguments.device.clone(),
        steps: arguments.steps as usize,
        lr: arguments.lr,
        accumulate: arguments.accumulate as usize,
        check: match arguments.check {
            None => rk_runtime::Check::None,
            Some(Check::Before) => rk_runtime::Check::Before,
            Some(Check::All) => rk_runtime::Check::All,
        },
        model: arguments.model.clone(),
        warmup: arguments.warmup as usize,
        repeat: arguments.repeat as usize,
        seed: arguments.seed,
        kernels: arguments.kernels == Switch::On,
        pace: arguments.emulate_streams,
        beside: arguments.beside.as_deref().map(rk_step::read).transpose()?,
        times: arguments.times.is_some(),
    };
    let plan = step.plan.clone();
    let result = session::run(step, &arguments.step, &options)?;
    if let (Some(path), Some(times)) = (&arguments.times, &result.times) {
        let failed = |e: std::io::Error| RuntimeError::Torch(format!("cannot write {}: {e}", path.display()));
        rk_vocabulary::write_output(path, times.as_bytes()).map_err(failed)?;
    }
    let text = if arguments.json { report::json(&plan, &result) } else { report::table(&plan, &result) };
    print(&text);
    let difference = result.verdict.as_ref().and_then(|v| v.difference.as_ref());
    if let Some(difference) = difference {
        eprintln!("rk-run: bits differ: {difference}");
        return Ok(code::BITS);
    }
    if let Some(budget) = plan.budget_bytes.filter(|b| result.measured.peak_bytes > *b) {
        eprintln!(
            "rk-run: the measured peak of {} bytes, at {:?}, exceeds the budget of {budget} bytes",
            result.measured.peak_bytes, result.measured.peak_node
        );
        return Ok(code::PEAK);
    }
    Ok(0)
}

/// Standard output may be closed early (`| head`): no reason to panic.
fn print(text: &str) {
    use std::io::Write as _;
    let _ = std::io::stdout().write_all(text.as_bytes());
}
