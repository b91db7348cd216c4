//! Every model at every budget: import, plan, run three steps with optimizer updates, compare bits.
//!
//! A cell is honest when it shows the peak that the counting allocator saw, not the one that was planned, and when
//! bit-equality was judged against the unmodified step under PyTorch's own autograd (`rk-run --check`).

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::report::{Table, mib, publish};
use crate::toolbox::{archive, checked, step_file, tool};

/// The models of `examples/models.py` that the table shows.
pub const MODELS: &str = "resnet18,resnet50,vgg11,densenet121,inception_v3,mobilenet_v2,regnet_x_400mf,vit_b_16,\
                      gpt2_4,gpt2_12,bert,transformer_encoder,transformer,lstm,unet,mlp_mixer";

#[derive(clap::Args)]
pub struct Options {
    /// Models, as named by examples/models.py.
    #[arg(long, value_delimiter = ',', default_value = MODELS)]
    models: Vec<String>,
    /// Budgets, as --budget takes them.
    #[arg(long, value_delimiter = ',', default_value = "80%,60%,40%")]
    budgets: Vec<String>,
    /// Steps with an optimizer update after each.
    #[arg(long, default_value_t = 3)]
    steps: u32,
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
    let mut table = Table::new([
        "model",
        "budget",
        "status",
        "budget bytes",
        "planned peak",
        "measured peak",
        "overhead planned",
        "gap",
        "step / unmodified",
        "bit-equal",
    ]);
    let mut failures = 0;
    for model in &options.models {
        eprintln!("{model}: import");
        let raw = match import(&options.common, "cpu", options.measure, model) {
            Ok(raw) => raw,
            Err(error) => {
                failures += 1;
                eprintln!("{model}: {error:#}");
                table.failure(&[model, ""], &error);
                continue;
            }
        };
        for budget in &options.budgets {
            eprintln!("{model} {budget}: plan and run");
            match cell(options, model, &raw, budget) {
                Ok(row) => table.row(row),
                Err(error) => {
                    failures += 1;
                    eprintln!("{model} {budget}: {error:#}");
                    table.failure(&[model, budget], &error);
                }
            }
        }
    }
    publish(options.common.document.as_deref(), "models", &table.to_markdown())?;
    if failures > 0 {
        bail!("{failures} cells failed; see the table");
    }
    Ok(())
}

/// Imports a model once; the costs are measured in the same process as the recording.
pub fn import(common: &crate::Common, device: &str, measure: u32, model: &str) -> Result<String> {
    let pt = archive(&common.cache, model, device)?;
    let raw = common.cache.join(format!("{model}.mlir")).display().to_string();
    let pt = pt.display().to_string();
    let measure = measure.to_string();
    let mut arguments = vec![pt.as_str(), "--device", device, "--measure", &measure, "-o", &raw];
    // Or bits could not be compared: eager PyTorch itself has others every time.
    arguments.extend((device != "cpu").then_some("--deterministic"));
    checked("rk-import", &arguments)?;
    Ok(raw)
}

fn cell(options: &Options, model: &str, raw: &str, budget: &str) -> Result<Vec<String>> {
    let stem = raw.trim_end_matches(".mlir");
    let tag = budget.trim_end_matches('%');
    let (scheduled, step) = (format!("{stem}.{tag}.mlir"), format!("{stem}.{tag}.rkx"));
    let pass = format!("--rematerialize=budget={budget} {}", options.rematerialize);
    if let Err(planned) = step_file(&[raw, &pass], &scheduled, &step)? {
        // The pass names the op in front of the sentence; the sentence is what the table needs.
        let reason = planned.reason();
        let sentence = reason.find("no schedule").map_or(reason, |at| &reason[at..]);
        let mut row = vec![model.to_owned(), budget.to_owned(), format!("infeasible: {sentence}")];
        row.resize(10, String::new());
        return Ok(row);
    }
    let steps = options.steps.to_string();
    let ran = tool("rk-run", &[&step, "--check", "--steps", &steps, "--json"])?;
    let report: Value =
        serde_json::from_str(&ran.stdout).with_context(|| format!("rk-run: {}", ran.reason()))?;
    let plan = schedule_attributes(Path::new(&scheduled))?;
    let number =
        |key: &str| report[key].as_f64().with_context(|| format!("rk-run --json has no number {key}"));
    let (measured, limit) = (number("measured_peak_bytes")?, number("budget_bytes")?);
    let equal = report["bit_equal"].as_bool().context("rk-run --json has no bit_equal")?;
    if !equal || measured > limit {
        bail!("bit_equal {equal}, measured peak {measured} of {limit}");
    }
    Ok(vec![
        model.to_owned(),
        budget.to_owned(),
        plan.status,
        mib(limit),
        mib(number("planned_peak_bytes")?),
        mib(measured),
        format!("{:.2} %", plan.overhead),
        format!("{:.2} pp", plan.gap),
        format!("{:.2}", number("step_seconds")? / number("baseline_step_seconds")?),
        "yes".to_owned(),
    ])
}

struct Plan {
    status: String,
    overhead: f64,
    gap: f64,
}

/// Reads what the planner says of its plan from the attributes of the scheduled function.
fn schedule_attributes(path: &Path) -> Result<Plan> {
    let text = std::fs::read_to_string(path)?;
    let after = |key: &str| attribute(&text, key).with_context(|| path.display().to_string());
    let nanos = |key: &str| Ok::<f64, anyhow::Error>(after(key)?.parse()?);
    let (base, time, bound) = (nanos("rk.base_time")?, nanos("rk.time")?, nanos("rk.lower_bound")?);
    Ok(Plan {
        status: after("rk.status")?,
        overhead: 100.0 * (time - base) / base,
        gap: 100.0 * (time - bound.max(base)) / base,
    })
}

/// The value of an attribute in the text of a module.
///
/// # Errors
/// When there is none of this name.
pub fn attribute(text: &str, key: &str) -> Result<String> {
    let at = text.find(&format!("{key} = ")).with_context(|| format!("no attribute {key}"))?;
    let value = &text[at + key.len() + 3..];
    let end = value.find([',', '}', ' ', '\n']).unwrap_or(value.len());
    Ok(value[..end].trim_matches('"').to_owned())
}
