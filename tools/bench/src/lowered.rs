//! Lowered steps: every model at every budget, in one arena; how large it is, what was allocated outside of it, and how fast it
//! runs, against eager PyTorch and against what the planner predicted.
//!
//! The costs that the planner sees are measured where they will be paid: inside the lowered step that keeps everything, node by node,
//! as medians of many steps (`rk-run --times`); what the plan costs by them is the overhead *planned*. Then they are measured again, inside of
//! the planned step, whose second runs stand between other neighbours and whose nodes run in less memory, in turns with the step that keeps
//! everything; it is planned once more with those (`--rounds`), and what that plan takes over the nodes of the step that keeps everything is the
//! overhead *predicted*. Then the planned step, the step that keeps everything and eager PyTorch take turns in one process, and a ratio is the median of the ratios of neighbours (`rk-run --beside`). Where a process has its memory makes a step
//! a few percent faster or slower for as long as it lives (a step beside itself shows it), so there are several processes, and the median
//! of their medians counts.
//!
//! On a GPU (`--device cuda`) nodes are not timed inside of a step: costs are measured when it is imported, call by call, and there is one
//! round; kernels are those that give the same bits every time (`rk-import --deterministic`), in eager PyTorch's step, too.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::report::{Table, mib, publish};
use crate::toolbox::{Finished, step_file, tool};

#[derive(clap::Args)]
pub struct Options {
    /// Models, as named by examples/models.py.
    #[arg(long, value_delimiter = ',', default_value = crate::models::MODELS)]
    models: Vec<String>,
    /// Budgets, as --budget takes them, besides the step that keeps everything.
    #[arg(long, value_delimiter = ',', default_value = "80%,60%,40%")]
    budgets: Vec<String>,
    /// For about how many seconds the steps of a row are timed; five steps of each side at least.
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Processes that time each row, for that many seconds together.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    processes: u32,
    /// How often costs are measured and planned with: first in the step that keeps everything, then in the planned one. Once on a GPU.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Options of the rematerialize pass besides the budget.
    #[arg(long, default_value = "time-limit=10s")]
    rematerialize: String,
    /// Where the networks are traced, measured and run: cpu, cuda or cuda:N.
    #[arg(long, default_value = "cpu")]
    device: String,
    /// Passes behind --rk-simplify, such as --rk-fuse.
    #[arg(long, allow_hyphen_values = true, value_delimiter = ',')]
    passes: Vec<String>,
    #[command(flatten)]
    common: crate::Common,
}

const COLUMNS: [&str; 11] = [
    "model",
    "budget",
    "measured peak",
    "arena",
    "arena / planned peak",
    "outside",
    "step / eager",
    "overhead planned",
    "predicted",
    "measured",
    "bit-equal",
];

pub fn run(options: &Options) -> Result<()> {
    let mut table = Table::new(COLUMNS);
    let mut failures = 0;
    for model in &options.models {
        let mut failed = |table: &mut Table, budget: &str, error: &anyhow::Error| {
            failures += 1;
            eprintln!("{model} {budget}: {error:#}");
            table.failure(&[model, budget], error);
        };
        eprintln!("{model} none");
        let kept = match Kept::of(options, model) {
            Ok(kept) => kept,
            Err(error) => {
                failed(&mut table, "none", &error);
                continue;
            }
        };
        table.row([vec![model.clone(), "none".to_owned()], kept.cells.clone()].concat());
        for budget in &options.budgets {
            eprintln!("{model} {budget}");
            match kept.planned(options, budget) {
                Ok(cells) => table.row([vec![model.clone(), budget.clone()], cells].concat()),
                Err(error) => failed(&mut table, budget, &error),
            }
        }
    }
    publish(options.common.document.as_deref(), "lowered", &table.to_markdown())?;
    if failures > 0 {
        bail!("{failures} cells failed; see the table");
    }
    Ok(())
}

/// Runs of every call when a step is imported for a GPU.
const MEASURE: u32 = 5;

/// Nodes are timed inside of a step on the CPU only; on a GPU when they are imported, between events.
fn on_cpu(options: &Options) -> bool {
    options.device == "cpu"
}

/// The step that keeps everything, with the times of its nodes.
struct Kept {
    /// Path of all files of the model, without what follows.
    stem: String,
    /// Passes up to the costs.
    front: Vec<String>,
    /// Times of its nodes.
    times: String,
    /// Timed steps of each side.
    repeat: String,
    /// Its row behind model and budget.
    cells: Vec<String>,
}

impl Kept {
    fn of(options: &Options, model: &str) -> Result<Self> {
        let measure = if on_cpu(options) { 0 } else { MEASURE };
        let raw = crate::models::import(&options.common, &options.device, measure, model)?;
        let stem = raw.trim_end_matches(".mlir").to_owned();
        let mut front = vec![raw, "--rk-dataflow".to_owned(), "--rk-simplify".to_owned()];
        front.extend(options.passes.iter().cloned());
        front.push("--rk-anonymize".to_owned());
        let times = format!("{stem}.times");
        let mut kept = Self { stem, front, times, repeat: "5".to_owned(), cells: Vec::new() };
        let step = kept.step("none", &["--rk-annotate-cost", "--rk-lower"])?.context("infeasible")?;
        // How long a step takes decides how many are timed.
        let ran =
            report(&tool("rk-run", &[step.as_str(), "--check", "--steps", "3", "--repeat", "3", "--json"])?)?;
        let round = number(&ran, "step_seconds")? + number(&ran, "baseline_step_seconds")?;
        // Each side takes two steps in turn, and there may be a third one.
        let rounds = options.seconds / f64::from(options.processes) / (3.0 * round);
        kept.repeat = format!("{}", rounds.clamp(5.0, 200.0) as u32);
        let mut arguments = vec![step.as_str()];
        if on_cpu(options) {
            arguments.extend(["--times", kept.times.as_str()]);
        }
        let ran = kept.timed(options, &arguments)?;
        kept.cells = cells(&ran, &["–"; 3].map(str::to_owned))?;
        Ok(kept)
    }

    /// The cells of a row behind model and budget.
    fn planned(&self, options: &Options, budget: &str) -> Result<Vec<String>> {
        let plan = format!("--rematerialize=budget={budget} {}", options.rematerialize);
        let tag = budget.trim_end_matches('%');
        let planned = |times: &str| match on_cpu(options) {
            true => self.step(tag, &[&format!("--rk-annotate-cost=times={times}"), &plan, "--rk-lower"]),
            false => self.step(tag, &["--rk-annotate-cost", &plan, "--rk-lower"]),
        };
        let Some(mut step) = planned(&self.times)? else {
            return Ok([vec!["infeasible".to_owned()], vec![String::new(); 8]].concat());
        };
        // The time of the plan over that of all nodes once.
        let ratio = || -> Result<f64> {
            let text = std::fs::read_to_string(format!("{}.{tag}.lowered.mlir", self.stem))?;
            let nanos = |key: &str| -> Result<f64> { Ok(crate::models::attribute(&text, key)?.parse()?) };
            Ok(nanos("rk.time")? / nanos("rk.base_time")?)
        };
        let first = ratio()?;
        let mut predicted = first;
        let beside = format!("{}.none.lowered.rkx", self.stem);
        let rounds = if on_cpu(options) { options.rounds } else { 1 };
        for _ in 1..rounds {
            let times = format!("{}.{tag}.times", self.stem);
            let ran = self.timed(options, &[&step, "--beside", &beside, "--times", &times])?;
            step = planned(&times)?.context("a budget that could be met cannot be any more")?;
            predicted = ratio()? * number(&ran, "nodes_over_beside")?;
        }
        let ran = self.timed(options, &[&step, "--beside", &beside])?;
        let measured = number(&ran, "step_over_beside")?;
        cells(&ran, &[first, predicted, measured].map(|ratio| format!("{:.1} %", 100.0 * (ratio - 1.0))))
    }

    /// Runs a step in several processes; of ratios and of the times of nodes the medians, of the rest what the last one said. All after as
    /// many training steps: what an operator takes may depend on the numbers.
    fn timed(&self, options: &Options, arguments: &[&str]) -> Result<Value> {
        let arguments =
            [arguments, &["--check", "--steps", "3", "--repeat", &self.repeat, "--json"]].concat();
        let written =
            arguments.iter().position(|&argument| argument == "--times").map(|at| arguments[at + 1]);
        let (mut reports, mut times) = (Vec::new(), Vec::new());
        for _ in 0..options.processes {
            reports.push(report(&tool("rk-run", &arguments)?)?);
            times.extend(written.map(std::fs::read_to_string).transpose()?);
        }
        if let Some(path) = written {
            std::fs::write(path, medians(&times)?)?;
        }
        let mut last = reports.last().cloned().context("no process")?;
        for key in ["step_over_baseline", "step_over_beside", "nodes_over_beside"] {
            let mut ratios: Vec<f64> = reports.iter().filter_map(|report| report[key].as_f64()).collect();
            ratios.sort_by(f64::total_cmp);
            last[key] = ratios.get(ratios.len() / 2).copied().into();
        }
        Ok(last)
    }

    /// Runs the passes up to the costs and these, and writes a step file; `None` when no schedule fits.
    fn step(&self, tag: &str, passes: &[&str]) -> Result<Option<String>> {
        let (lowered, step) =
            (format!("{}.{tag}.lowered.mlir", self.stem), format!("{}.{tag}.lowered.rkx", self.stem));
        let mut arguments: Vec<&str> = self.front.iter().map(String::as_str).collect();
        arguments.extend(passes);
        Ok(step_file(&arguments, &lowered, &step)?.is_ok().then_some(step))
    }
}

/// What `rk-run` said, if the bits were equal.
fn report(ran: &Finished) -> Result<Value> {
    let report: Value =
        serde_json::from_str(&ran.stdout).with_context(|| format!("rk-run: {}", ran.reason()))?;
    if report["bit_equal"] != true || ran.code != 0 {
        bail!("rk-run ended with {}: {}", ran.code, ran.reason());
    }
    Ok(report)
}

/// Files of times of one step, line by line: of every number the median.
fn medians(files: &[String]) -> Result<String> {
    let files: Vec<Vec<&str>> = files.iter().map(|file| file.lines().collect()).collect();
    let mut text = String::new();
    for (at, first) in files.first().context("no process")?.iter().enumerate() {
        let mut fields: Vec<String> = first.split('\t').map(str::to_owned).collect();
        // Behind the name of a node: its time, and of a kernel that of its calls.
        for (place, field) in fields.iter_mut().enumerate().skip(1).take(2) {
            let number = |file: &Vec<&str>| file.get(at)?.split('\t').nth(place)?.parse::<u64>().ok();
            let numbers: Option<Vec<u64>> = files.iter().map(number).collect();
            let mut numbers =
                numbers.with_context(|| format!("line {}: not the same in all files", at + 1))?;
            numbers.sort_unstable();
            *field = numbers[numbers.len() / 2].to_string();
        }
        text += &(fields.join("\t") + "\n");
    }
    Ok(text)
}

fn number(report: &Value, key: &str) -> Result<f64> {
    report[key].as_f64().with_context(|| format!("rk-run --json has no number {key}"))
}

/// The cells behind model and budget.
fn cells(report: &Value, overheads: &[String; 3]) -> Result<Vec<String>> {
    let number = |key: &str| number(report, key);
    let mut cells = vec![
        mib(number("measured_peak_bytes")?),
        mib(number("arena_bytes")?),
        format!("{:.4}", number("arena_bytes")? / number("planned_peak_bytes")?),
        format!("{}", number("outside_allocations")?),
        format!("{:.3}", number("step_over_baseline")?),
    ];
    cells.extend_from_slice(overheads);
    cells.push("yes".to_owned());
    Ok(cells)
}

#[cfg(test)]
mod tests {
    use super::medians;

    #[test]
    fn times_of_several_processes_are_medians() {
        let file = |conv: u32, kernel: u32, calls: u32| {
            format!("# rk times 1: ...\nlayer.0\t{conv}\nadd\t{kernel}\t{calls}\taten.add aten.mul\n")
        };
        let files = [file(9, 30, 7), file(100, 20, 6), file(8, 40, 5)];
        assert_eq!(medians(&files).unwrap(), file(9, 30, 6));
        let other = file(9, 30, 7).replace("layer.0\t9\n", "");
        assert!(medians(&[file(9, 30, 7), other]).is_err());
    }
}
