//! `cargo xtask demo`: two real networks through import, plan, lower and run, and a table of what came out.
//!
//! Each step is shown as the command line that it is, so that a newcomer can go on from there by hand.
//! The overhead and the gap are the planner's (from measured costs); peak and bits are what `rk-run --check` saw.

use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::{process, setup};

/// A torchvision network and a transformer: one of convolutions and in-place ops, one of matmuls and dropout.
const MODELS: [&str; 2] = ["resnet18", "gpt2_4"];
const SCRIPT: &str = "examples/models.py";
const STEPS: &str = "3";

#[derive(clap::Args)]
pub struct Options {
    /// Models, as `examples/models.py --list` prints them
    #[arg(value_name = "MODEL", default_values = MODELS)]
    models: Vec<String>,
    /// The budget, as rk-opt takes it: 60%, 20MiB, a number of bytes
    #[arg(long, default_value = "60%")]
    budget: String,
}

/// One line of the table.
struct Row {
    model: String,
    budget: f64,
    without: f64,
    peak: f64,
    overhead: f64,
    gap: f64,
    outside: f64,
    bit_equal: bool,
}

/// Runs the demo and prints its table on standard output.
///
/// # Errors
/// When a tool fails, a peak exceeds its budget, or a bit differs.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    setup::run(checkout)?;
    eprintln!("demo: building the tools (minutes the first time)");
    process::show(checkout.cargo("build").args(["--release", "--workspace", "--locked"]))?;
    let tools = checkout.binaries()?;
    let folder = tools.parent().context("the target folder has no parent")?.join("demo");
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut rows = Vec::new();
    for model in &options.models {
        eprintln!("\ndemo: {model}");
        rows.push(one(checkout, &tools, &folder, model, &options.budget).with_context(|| model.clone())?);
    }
    println!("\n{}", render(&rows));
    println!(
        "Peaks count what a step allocates, workspaces included, as seen by the allocator over {STEPS} steps."
    );
    println!(
        "Where no plan keeps within the budget that was asked for, it is the smallest that one was found for."
    );
    println!("Each step ran in one arena; \"outside\" counts the tensors that were allocated anywhere else.");
    println!("The files of each stage are in {}.", folder.display());
    let wrong = rows.iter().filter(|row| !row.bit_equal || row.peak > row.budget || row.outside > 0.0);
    let names: Vec<&str> = wrong.map(|row| row.model.as_str()).collect();
    if !names.is_empty() {
        bail!(
            "a peak is above its budget, a tensor outside of the arena, or a bit differs: {}",
            names.join(", ")
        );
    }
    Ok(())
}

fn one(checkout: &Checkout, tools: &Path, folder: &Path, model: &str, budget: &str) -> Result<Row> {
    let file = |extension: &str| folder.join(format!("{model}.{extension}"));
    let (archive, raw, lowered, step) = (file("pt"), file("raw.mlir"), file("mlir"), file("rkx"));
    if !is_newer(&archive, &checkout.path(SCRIPT)) {
        let mut python = Command::new(checkout.python());
        shown(python.current_dir(&checkout.root).args([Path::new(SCRIPT), Path::new(model), &archive]))?;
    }
    let tool = |name: &str| Command::new(tools.join(name));
    shown(tool("rk-import").arg(&archive).args(["--measure", "3", "-o"]).arg(&raw))?;
    let budget = format!("--budget={budget}");
    // What kernels need while they run differs from processor to processor: oneDNN's convolutions may take most of a small step.
    let plan = "--rematerialize=on-infeasible=smallest";
    shown(tool("rk-opt").arg(&raw).args([plan, &budget, "--rk-lower", "-o"]).arg(&lowered))?;
    shown(tool("rk-translate").arg(&lowered).args(["--to", "step", "-o"]).arg(&step))?;
    let mut run = tool("rk-run");
    run.arg(&step).args(["--check", "--steps", STEPS, "--json"]);
    eprintln!("  {}", process::line(&run));
    let report: Value =
        serde_json::from_str(&process::capture(&mut run)?).context("rk-run printed no JSON")?;
    let number =
        |key: &str| report[key].as_f64().with_context(|| format!("rk-run --json has no number {key}"));
    let text = std::fs::read_to_string(&lowered)?;
    let nanos =
        |name: &str| attribute(&text, name).with_context(|| format!("{} has no {name}", lowered.display()));
    let (base, time, bound) = (nanos("rk.base_time")?, nanos("rk.time")?, nanos("rk.lower_bound")?);
    Ok(Row {
        model: model.to_owned(),
        budget: number("budget_bytes")?,
        without: number("baseline_peak_bytes")?,
        peak: number("measured_peak_bytes")?,
        overhead: 100.0 * (time - base) / base,
        gap: 100.0 * (time - bound.max(base)) / base,
        outside: number("outside_allocations")?,
        bit_equal: report["bit_equal"].as_bool().context("rk-run --json has no bit_equal")?,
    })
}

/// Runs a command after showing it.
fn shown(command: &mut Command) -> Result<()> {
    eprintln!("  {}", process::line(command));
    process::show(command)
}

fn is_newer(file: &Path, than: &Path) -> bool {
    let age = |path: &Path| std::fs::metadata(path).and_then(|data| data.modified()).ok();
    age(file).unwrap_or(SystemTime::UNIX_EPOCH) > age(than).unwrap_or_else(SystemTime::now)
}

/// The number behind `NAME = ` in the attributes of a scheduled function.
fn attribute(text: &str, name: &str) -> Option<f64> {
    let (_, rest) = text.split_once(&format!("{name} = "))?;
    let end = rest.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c))).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

/// The table, its columns as wide as their widest cell.
fn render(rows: &[Row]) -> String {
    let mib = |bytes: f64| format!("{:.1} MiB", bytes / f64::from(1 << 20));
    let head =
        ["model", "peak before", "budget", "measured peak", "outside", "overhead", "proven gap", "bit-equal"];
    let mut cells = vec![head.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.model.clone(),
            mib(row.without),
            mib(row.budget),
            mib(row.peak),
            format!("{}", row.outside),
            format!("{:.1} %", row.overhead),
            format!("{:.1} pp", row.gap),
            if row.bit_equal { "yes" } else { "NO" }.to_owned(),
        ]
    }));
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let line = |row: &[String; 8]| {
        let padded = row.iter().enumerate().map(|(at, cell)| match at {
            0 => format!("{cell:<0$}", width(at)),
            _ => format!("{cell:>0$}", width(at)),
        });
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    cells.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_read_by_their_whole_name() {
        let text = "attributes {rk.base_time = 1200 : i64, rk.time = 1500 : i64, rk.status = \"optimal\"}";
        assert_eq!(attribute(text, "rk.time"), Some(1500.0));
        assert_eq!(attribute(text, "rk.base_time"), Some(1200.0));
        assert_eq!(attribute(text, "rk.lower_bound"), None);
    }

    #[test]
    fn the_table_is_aligned() {
        let mib = f64::from(1 << 20);
        let row = |model: &str, bit_equal| Row {
            model: model.to_owned(),
            budget: 60.0 * mib,
            without: 100.0 * mib,
            peak: 59.5 * mib,
            overhead: 3.25,
            gap: 0.5,
            outside: 0.0,
            bit_equal,
        };
        let text = render(&[row("resnet18", true), row("gpt2_4", false)]);
        let expected = "\
model     peak before    budget  measured peak  outside  overhead  proven gap  bit-equal
resnet18    100.0 MiB  60.0 MiB       59.5 MiB        0     3.2 %      0.5 pp        yes
gpt2_4      100.0 MiB  60.0 MiB       59.5 MiB        0     3.2 %      0.5 pp         NO";
        assert_eq!(text, expected);
    }
}
