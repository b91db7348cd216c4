//! What rk itself costs, as ratios to eager PyTorch measured in the same run (medians).
//!
//! Importing against a training step, the passes without the solver on a step of a thousand ops, and `rk-run`
//! without rematerialization against the same training step in Python.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::report::{Table, publish};
use crate::toolbox::{archive, checked, python, tool};

#[derive(clap::Args)]
pub struct Options {
    /// Models, as named by examples/models.py.
    #[arg(long, value_delimiter = ',', default_value = "resnet18,resnet50,gpt2_4")]
    models: Vec<String>,
    /// Timed repeats of each measurement; the median counts.
    #[arg(long, default_value_t = 25)]
    repeat: u32,
    #[command(flatten)]
    common: crate::Common,
}

pub fn run(options: &Options) -> Result<()> {
    let mut table = Table::new([
        "model",
        "eager step (Python)",
        "import",
        "import − 3 s, in eager steps",
        "passes without solver",
        "rk-run step",
        "rk-run / eager",
    ]);
    for model in &options.models {
        eprintln!("{model}");
        let pt = archive(&options.common.cache, model, "cpu")?.display().to_string();
        let repeat = options.repeat.to_string();
        let eager = python(&["examples/models.py", model, "--time-eager", &repeat])?;
        let eager: f64 =
            eager.stdout.trim().parse().with_context(|| format!("eager {model}: {}", eager.reason()))?;
        let raw = options.common.cache.join(format!("{model}.ratio.mlir")).display().to_string();
        let import = checked("rk-import", &[&pt, "-o", &raw])?.wall.as_secs_f64();
        let scheduled = options.common.cache.join(format!("{model}.ratio.keep.mlir")).display().to_string();
        let passes =
            checked("rk-opt", &[&raw, "--rematerialize=budget=100% solver=keep-all", "-o", &scheduled])?;
        let passes = passes.wall.as_secs_f64();
        let step = scheduled.replace(".mlir", ".rkx");
        checked("rk-translate", &[&scheduled, "--to", "step", "-o", &step])?;
        let ran = tool("rk-run", &[&step, "--repeat", &repeat, "--json"])?;
        let report: Value =
            serde_json::from_str(&ran.stdout).with_context(|| format!("rk-run: {}", ran.reason()))?;
        let own = report["step_seconds"].as_f64().context("rk-run --json has no step_seconds")?;
        table.row(vec![
            model.clone(),
            format!("{eager:.3} s"),
            format!("{import:.2} s"),
            format!("{:.2}", (import - 3.0).max(0.0) / eager),
            format!("{passes:.2} s"),
            format!("{own:.3} s"),
            format!("{:.2}", own / eager),
        ]);
    }
    publish(options.common.document.as_deref(), "ratios", &table.to_markdown())
}
