//! Lowered steps: every model at every budget, in one arena; how large it is, what was allocated outside of it, and how fast it
//! runs, against eager PyTorch and against what the planner predicted.
//!
//! All times of a row are medians of one process in which the step, the same step without second runs, and eager PyTorch take
//! turns. The predicted overhead is the planner's, from the costs measured at import.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::report::{Table, mib, publish};
use crate::toolbox::tool;

#[derive(clap::Args)]
pub struct Options {
    /// Models, as named by examples/models.py.
    #[arg(long, value_delimiter = ',', default_value = crate::models::MODELS)]
    models: Vec<String>,
    /// Budgets, as --budget takes them; `none` keeps everything.
    #[arg(long, value_delimiter = ',', default_value = "none,80%,60%,40%")]
    budgets: Vec<String>,
    /// Timed steps of each side.
    #[arg(long, default_value_t = 7)]
    repeat: u32,
    /// Options of the rematerialize pass besides the budget.
    #[arg(long, default_value = "time-limit=10s")]
    rematerialize: String,
    /// Timed runs of every op when importing.
    #[arg(long, default_value_t = 3)]
    measure: u32,
    #[command(flatten)]
    common: crate::Common,
}

pub fn run(options: &Options) -> Result<()> {
    let mut table = Table::new(&[
        "model",
        "budget",
        "measured peak",
        "arena",
        "arena / planned peak",
        "outside",
        "step / eager",
        "overhead predicted",
        "overhead measured",
        "bit-equal",
    ]);
    let mut failures = 0;
    for model in &options.models {
        let raw = crate::models::import(&options.common, options.measure, model)?;
        let mut unlimited = None;
        for budget in &options.budgets {
            eprintln!("{model} {budget}");
            match cell(options, &raw, budget, &mut unlimited) {
                Ok(cells) => table.row([vec![model.clone(), budget.clone()], cells].concat()),
                Err(error) => {
                    failures += 1;
                    eprintln!("{model} {budget}: {error:#}");
                    let mut row = vec![model.clone(), budget.clone(), format!("{error:#}").replace('|', "/")];
                    row.resize(10, String::new());
                    table.row(row);
                }
            }
        }
    }
    publish(options.common.document.as_deref(), "lowered", &table.to_markdown())?;
    if failures > 0 {
        bail!("{failures} cells failed; see the table");
    }
    Ok(())
}

/// The cells of one row behind model and budget. `unlimited` is the time of the step that keeps everything, in steps of eager.
fn cell(options: &Options, raw: &str, budget: &str, unlimited: &mut Option<f64>) -> Result<Vec<String>> {
    let tag = budget.trim_end_matches('%');
    let stem = raw.trim_end_matches(".mlir");
    let (lowered, step) = (format!("{stem}.{tag}.lowered.mlir"), format!("{stem}.{tag}.lowered.rkx"));
    let plan = format!("--rematerialize=budget={budget} {}", options.rematerialize);
    let mut passes = vec![raw, "--rk-lower", "-o", &lowered];
    if budget != "none" {
        passes.insert(1, &plan);
    }
    let planned = tool("rk-opt", &passes)?;
    if planned.code == 2 {
        return Ok([vec!["infeasible".to_owned()], vec![String::new(); 7]].concat());
    }
    for done in [planned, tool("rk-translate", &[&lowered, "--to", "step", "-o", &step])?] {
        if done.code != 0 {
            bail!("{}", done.reason());
        }
    }
    let repeat = options.repeat.to_string();
    let ran = tool("rk-run", &[&step, "--check", "--steps", "3", "--repeat", &repeat, "--json"])?;
    let report: Value =
        serde_json::from_str(&ran.stdout).with_context(|| format!("rk-run: {}", ran.reason()))?;
    let number =
        |key: &str| report[key].as_f64().with_context(|| format!("rk-run --json has no number {key}"));
    if report["bit_equal"] != true || ran.code != 0 {
        bail!("rk-run ended with {}: {}", ran.code, ran.reason());
    }
    let text = std::fs::read_to_string(&lowered)?;
    let nanos = |key: &str| -> Result<f64> { Ok(crate::models::attribute(&text, key)?.parse()?) };
    let predicted = 100.0 * (nanos("rk.time")? / nanos("rk.base_time")? - 1.0);
    let ratio = number("step_seconds")? / number("baseline_step_seconds")?;
    let base = *unlimited.get_or_insert(ratio);
    Ok(vec![
        mib(number("measured_peak_bytes")?),
        mib(number("arena_bytes")?),
        format!("{:.4}", number("arena_bytes")? / number("planned_peak_bytes")?),
        format!("{}", number("outside_allocations")?),
        format!("{ratio:.3}"),
        format!("{predicted:.1} %"),
        format!("{:.1} %", 100.0 * (ratio / base - 1.0)),
        "yes".to_owned(),
    ])
}
