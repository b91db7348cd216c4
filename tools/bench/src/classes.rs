//! What equal blocks are worth: counts by saturation and by text, measuring, planning, and what finding them costs.
//!
//! Four tables of docs/benchmarks-classes.md, on networks of `examples/repeated.py` and, for planning, made-up ones. Every number is printed by a tool or read
//! from its output; two numbers that are compared were taken one after the other.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::report::{Table, publish};
use crate::toolbox::{Finished, python, tool};

mod planning;

/// Which table.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Blocks and classes, by saturation and by text.
    Counts,
    /// One call per class against every call.
    Measuring,
    /// Once per class and refined against the whole graph.
    Planning,
    /// Seconds of `--rk-anonymize` over depth.
    Cost,
}

#[derive(clap::Args)]
pub struct Options {
    /// The tables to make; all by default.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["counts", "measuring", "planning", "cost"])]
    tables: Vec<Which>,
    /// Networks of examples/repeated.py, instead of each table's own list.
    #[arg(long, value_delimiter = ',')]
    models: Vec<String>,
    /// Budgets of the table of planning.
    #[arg(long, value_delimiter = ',', default_value = "60%")]
    budgets: Vec<String>,
    /// Time limit of both planners.
    #[arg(long, default_value = "10s")]
    time_limit: String,
    /// Timed repeats in the table of measuring.
    #[arg(long, default_value_t = 5)]
    measure: u32,
    #[command(flatten)]
    common: crate::Common,
}

const COUNTS: &str = "gpt2-4,gpt2-8,gpt2-24,gpt2-96,transformer-24,transformer-24-styled,resnet101,bottlenecks-23-styled,mixer-12,\
                      mixer-12-styled,regnet_x_32gf,bert-12,vit-12,t5,convnext_tiny,swin_t,efficientnet_b0,\
                      mobilenet_v3_large,densenet121,googlenet,unet,transformer,lstm";
const MEASURING: &str = "gpt2-4,gpt2-24,gpt2-48,resnet101,efficientnet_b0,densenet121";
const PLANNING: &str = "gpt2-4,gpt2-24,gpt2-96,bert-12,resnet101,mixer-12,densenet121,\
                        made-up:transformer-2000-3,made-up:bottleneck-2000-5,made-up:residual-4000-2,made-up:mobilenet-1500-4";
const COST: &str = "gpt2-6,gpt2-12,gpt2-24,gpt2-48,gpt2-96,gpt2-192,resnet-101,resnet-497,resnet-1001";

pub fn run(options: &Options) -> Result<()> {
    for which in &options.tables {
        let (name, own) = match which {
            Which::Counts => ("classes-counts", COUNTS),
            Which::Measuring => ("classes-measuring", MEASURING),
            Which::Planning => ("classes-planning", PLANNING),
            Which::Cost => ("classes-cost", COST),
        };
        let own = || own.split(',').map(|model| model.trim().to_owned()).collect();
        let models: Vec<String> = if options.models.is_empty() { own() } else { options.models.clone() };
        let table = match which {
            Which::Counts => counts(options, &models),
            Which::Measuring => measuring(options, &models),
            Which::Planning => planning::table(options, &models),
            Which::Cost => cost(options, &models),
        };
        publish(options.common.document.as_deref(), name, &table?.to_markdown())?;
    }
    Ok(())
}

/// A finished process that succeeded.
fn succeeded(done: Finished, what: &str) -> Result<Finished> {
    if done.code != 0 {
        bail!("{what}: {}", done.reason());
    }
    Ok(done)
}

/// The step of a network at stage raw, made once per cache, with times from the model.
fn raw(options: &Options, model: &str) -> Result<PathBuf> {
    let archive = archive(options, model)?;
    let raw = archive.with_extension("mlir");
    if !raw.exists() {
        eprintln!("{model}: import");
        let arguments = [archive.as_os_str(), OsStr::new("-o"), raw.as_os_str()];
        succeeded(tool("rk-import", &arguments)?, "rk-import")?;
    }
    Ok(raw)
}

fn archive(options: &Options, model: &str) -> Result<PathBuf> {
    let folder = options.common.cache.join("classes");
    std::fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{model}.pt"));
    if !path.exists() {
        eprintln!("{model}: trace");
        let arguments = [OsStr::new("examples/repeated.py"), OsStr::new(model), path.as_os_str()];
        succeeded(python(&arguments)?, "examples/repeated.py")?;
    }
    Ok(path)
}

/// Runs `--rk-anonymize` and gives what it and the clock of passes say.
fn anonymized(raw: &Path) -> Result<Finished> {
    let arguments = [
        raw.as_os_str(),
        OsStr::new("--rk-dataflow"),
        OsStr::new("--rk-simplify"),
        OsStr::new("--rk-anonymize"),
        OsStr::new("--remarks-filter=anonymize"),
        OsStr::new("--mlir-timing"),
        OsStr::new("--mlir-timing-display=list"),
        OsStr::new("-o"),
        OsStr::new("/dev/null"),
    ];
    succeeded(tool("rk-opt", &arguments)?, "rk-opt")
}

/// A number of a remark: `classes=3`.
fn metric(text: &str, key: &str) -> Result<String> {
    let wanted = format!(", {key}=");
    let at = text.find(&wanted).with_context(|| format!("rk-opt says nothing of {key}"))?;
    Ok(text[at + wanted.len()..].chars().take_while(|letter| letter.is_ascii_alphanumeric()).collect())
}

/// Seconds of a pass: `0.1500 (  4.7%)  Anonymize`.
fn seconds(text: &str, pass: &str) -> Result<f64> {
    let line = text.lines().find(|line| line.trim_end().ends_with(&format!("  {pass}")));
    let line = line.with_context(|| format!("rk-opt did not time {pass}"))?;
    Ok(line.split_whitespace().next().unwrap_or_default().parse()?)
}

fn counts(options: &Options, models: &[String]) -> Result<Table> {
    let mut table = Table::new([
        "network",
        "blocks",
        "classes",
        "by text",
        "forward classes",
        "by text",
        "classes of cost",
        "nodes",
        "classes of nodes",
    ]);
    for model in models {
        let said = anonymized(&raw(options, model)?)?.stderr;
        let keys = [
            "blocks",
            "classes",
            "classes_by_text",
            "forward_classes",
            "forward_classes_by_text",
            "cost_classes",
            "nodes",
            "node_classes",
        ];
        let numbers: Result<Vec<String>> = keys.iter().map(|key| metric(&said, key)).collect();
        table.row([vec![model.clone()], numbers?].concat());
    }
    Ok(table)
}

/// Times of all calls in the text of a step, in nanoseconds.
fn times(path: &Path) -> Result<Vec<f64>> {
    let text = std::fs::read_to_string(path)?;
    let numbers = text.split("cost <").skip(1).map(|rest| rest.split(' ').next().unwrap_or_default().parse());
    Ok(numbers.collect::<Result<_, _>>()?)
}

fn measuring(options: &Options, models: &[String]) -> Result<Table> {
    let mut table = Table::new([
        "network",
        "calls",
        "measured",
        "every call, s",
        "per class, s",
        "ratio",
        "step by every call, ms",
        "per class, ms",
        "apart in classes of nodes",
    ]);
    for model in models {
        eprintln!("{model}: measure");
        let archive = archive(options, model)?;
        let repeats = options.measure.to_string();
        let import = |out: &Path, more: &[&str]| -> Result<(f64, f64, Vec<f64>, String)> {
            let mut arguments = vec![archive.as_os_str(), OsStr::new("--measure"), OsStr::new(&repeats)];
            arguments.extend(more.iter().map(OsStr::new));
            arguments.extend([OsStr::new("-o"), out.as_os_str()]);
            let said = succeeded(tool("rk-import", &arguments)?, "rk-import")?.stderr;
            let line = said.lines().find_map(|line| line.strip_prefix("rk-import: measured "));
            let words: Vec<&str> = line.context("rk-import measured nothing")?.split(' ').collect();
            let annotated = [
                out.as_os_str(),
                OsStr::new("--rk-dataflow"),
                OsStr::new("--rk-simplify"),
                OsStr::new("--rk-anonymize"),
                OsStr::new("--rk-annotate-cost"),
                OsStr::new("--remarks-filter=annotate-cost"),
                OsStr::new("-o"),
                OsStr::new("/dev/null"),
            ];
            let said = succeeded(tool("rk-opt", &annotated)?, "rk-opt")?.stderr;
            let at = said.find("moved_percent=").context("rk-opt says nothing of moved_percent")?;
            let moved =
                said[at + 14..].chars().take_while(|letter| letter.is_ascii_digit() || *letter == '.');
            Ok((words[0].parse()?, words[4].parse()?, times(out)?, moved.collect()))
        };
        let (_, all, every, apart) = import(&archive.with_extension("every.mlir"), &["--measure-all"])?;
        let (timed, per_class, equal, apart_per_class) =
            import(&archive.with_extension("measured.mlir"), &[])?;
        let milliseconds = |times: &[f64]| times.iter().sum::<f64>() / 1e6;
        table.row(vec![
            model.clone(),
            every.len().to_string(),
            timed.to_string(),
            format!("{all:.3}"),
            format!("{per_class:.3}"),
            format!("1/{:.0}", all / per_class),
            format!("{:.1}", milliseconds(&every)),
            format!("{:.1}", milliseconds(&equal)),
            format!("{apart} % → {apart_per_class} %"),
        ]);
    }
    Ok(table)
}

fn cost(options: &Options, models: &[String]) -> Result<Table> {
    let mut table =
        Table::new(["network", "calls", "nodes", "terms", "blocks", "seconds", "µs per call", "saturated"]);
    for model in models {
        let raw = raw(options, model)?;
        let calls = std::fs::read_to_string(&raw)?.matches("rk.aten \"").count();
        let mut runs = Vec::new();
        for _ in 0..3 {
            let said = anonymized(&raw)?.stderr;
            runs.push((seconds(&said, "Anonymize")?, said));
        }
        runs.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (time, said) = &runs[1];
        table.row(vec![
            model.clone(),
            calls.to_string(),
            metric(said, "nodes")?,
            metric(said, "terms")?,
            metric(said, "blocks")?,
            format!("{time:.3}"),
            format!("{:.1}", 1e6 * time / calls as f64),
            metric(said, "saturated")?,
        ]);
    }
    Ok(table)
}
