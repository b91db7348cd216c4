//! `rk-bench ablate`: what each parameter and each strategy of the planner is worth.
//!
//! Each parameter of [`rk_solve::Params`] is set to half and to twice its default, as near as is legal, and each strategy of the portfolio
//! is switched off, one at a time. `rk-plan` plans a set of cells with each such variant, and the overheads are set beside those of the
//! defaults. Limits count work, so that a variant gives the same plan on every machine; only programs of CBC are stopped by processor time.
//! Rows that the file has are not planned again, so that a run that was interrupted goes on.
//!
//! Not here: two parameters changed at a time. Where one makes up for another, both look idle.

mod rows;

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use rk_solve::{Params, strategies};
use rk_vocabulary::write_whole;
use serde_json::{Value, json};

use self::rows::{DEFAULTS, Effect, Row, Rows, Variant, markdown};
use crate::report::publish;
use crate::toolbox::tool;
use crate::yardstick::{code, shared};

#[derive(clap::Args)]
pub struct Options {
    /// Graphs of the folder, and budgets in percent of the peak.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "GRAPH:PERCENT",
        default_value = "MobileNet:40,MobileNet:30,RL100:75,RL100:70,U-Net:40,densenet121:40,gpt2_L24:40,gpt2_L4:30,layered100:50,layered100:40,unet_r2:30,resnet50:30"
    )]
    cells: Vec<Cell>,
    /// Seconds of work for a plan.
    #[arg(long, default_value = "0.3")]
    limit: String,
    /// Only parameters and strategies whose names begin so.
    #[arg(long, value_delimiter = ',', value_name = "PREFIX")]
    knobs: Vec<String>,
    /// Where the graphs are; by default the folder `shared` beside the checkout, or of `RK_SHARED`.
    #[arg(long, value_name = "DIR")]
    graphs: Option<PathBuf>,
    /// The rows; the file is made, or gone on with.
    #[arg(long, default_value = "target/bench/ablate.csv")]
    rows: PathBuf,
    /// The Markdown file whose table between `<!-- ablate -->` and `<!-- /ablate -->` is replaced; standard output without it.
    #[arg(long)]
    document: Option<PathBuf>,
}

/// A graph and a budget.
#[derive(Clone, Debug)]
struct Cell {
    graph: String,
    percent: u32,
}

impl FromStr for Cell {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let (graph, percent) = text.split_once(':').context("write GRAPH:PERCENT, such as gpt2_L4:40")?;
        let percent = percent.trim_end_matches('%');
        let percent = percent.parse().with_context(|| format!("{percent:?} is no percentage"))?;
        Ok(Self { graph: graph.into(), percent })
    }
}

pub fn run(options: &Options) -> Result<()> {
    let folder = options.graphs.clone().map_or_else(shared, Ok)?;
    let head = format!("code {}", code()?);
    let mut known = match options.rows.exists() {
        true => Rows::read(&options.rows)?,
        false => Rows { head: head.clone(), rows: Vec::new() },
    };
    if known.head != head {
        bail!("{} is of {:?}, not of {head:?}; name another file", options.rows.display(), known.head);
    }
    if let Some(parent) = options.rows.parent() {
        std::fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    }
    let variants = variants(&options.knobs);
    let bar = ProgressBar::new((variants.len() * options.cells.len()) as u64);
    bar.set_style(ProgressStyle::with_template("{pos} of {len} plans, {msg} [{bar:30}] {eta} left")?);
    for variant in &variants {
        bar.set_message(variant.knob.clone());
        for cell in &options.cells {
            let name = name(cell, &options.limit);
            if known.find(variant, &name).is_none() {
                let overhead = planned(&folder, cell, &options.limit, variant, &options.rows)?;
                known.rows.push(Row { variant: variant.clone(), cell: name, overhead });
                // An interrupted run leaves whole rows.
                write_whole(&options.rows, known.text().as_bytes())
                    .with_context(|| format!("cannot write {}", options.rows.display()))?;
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let cells: Vec<String> = options.cells.iter().map(|cell| name(cell, &options.limit)).collect();
    let effects = variants[1..].iter().map(|variant| Effect::of(&known, variant, &variants[0], &cells));
    let effects = effects.collect::<Option<_>>().context("a cell has no row")?;
    publish(options.document.as_deref(), "ablate", &markdown(effects))
}

fn name(cell: &Cell, limit: &str) -> String {
    format!("{} {}% {limit}s", cell.graph, cell.percent)
}

/// The defaults first, then both directions of each parameter, and each strategy.
fn variants(prefixes: &[String]) -> Vec<Variant> {
    let wanted = |name: &str| prefixes.is_empty() || prefixes.iter().any(|prefix| name.starts_with(prefix));
    let variant = |knob: &str, from: String, to: String| Variant { knob: knob.into(), from, to };
    let mut variants = vec![variant(DEFAULTS, String::new(), String::new())];
    for knob in Params::default().knobs().iter().filter(|knob| wanted(&knob.name)) {
        let scaled = [0.5, 2.0].into_iter().filter_map(|factor| knob.scaled(factor));
        variants.extend(scaled.map(|to| variant(&knob.name, knob.value.to_string(), to.to_string())));
    }
    // Strategies of other portfolios change nothing here.
    let rows = strategies().into_iter().map(|(name, _)| name).filter(|name| wanted(name));
    variants.extend(rows.map(|name| variant(name, "on".into(), "off".into())));
    variants
}

/// The parameters of a variant as a file for `rk-plan`.
fn params(variant: &Variant) -> Result<Value> {
    let (part, field) = variant.knob.split_once('.').context("a parameter without a part")?;
    let value: Value = serde_json::from_str(&variant.to)?;
    Ok(json!({part: {field: value}}))
}

/// The overhead of a plan in percent; none without a plan.
fn planned(folder: &Path, cell: &Cell, limit: &str, variant: &Variant, rows: &Path) -> Result<Option<f64>> {
    let graph = folder.join(format!("{}.json", cell.graph)).display().to_string();
    let (budget, limit) = (format!("{}%", cell.percent), format!("{limit}s"));
    let mut asked = vec![graph, "--budget".into(), budget, "--time-limit".into(), limit, "--json".into()];
    asked.extend(["--timekeeping", "work"].map(String::from));
    match variant.to.as_str() {
        "" => {}
        "off" => asked.extend(["--without".into(), variant.knob.clone()]),
        _ => {
            let file = rows.with_extension("json");
            write_whole(&file, params(variant)?.to_string().as_bytes())
                .with_context(|| format!("cannot write {}", file.display()))?;
            asked.extend(["--params".into(), file.display().to_string()]);
        }
    }
    let done = tool("rk-plan", &asked)?;
    // 2 and 3 are answers, too: nothing fits, and nothing was found.
    ensure!([0, 2, 3].contains(&done.code), "rk-plan {}: {}", asked.join(" "), done.reason());
    let report: Value = serde_json::from_str(&done.stdout).context("rk-plan --json")?;
    Ok(report.get("overhead_pct").and_then(Value::as_f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_variant_is_one_change_that_the_planner_accepts() {
        let variants = variants(&[]);
        assert_eq!(variants[0].knob, DEFAULTS);
        for variant in variants[1..].iter().filter(|variant| variant.to != "off") {
            let text = params(variant).expect("a parameter").to_string();
            let changed = Params::read(&text).unwrap_or_else(|error| panic!("{text}: {error}")).to_string();
            assert_eq!(changed, format!("{}={}", variant.knob, variant.to));
        }
        assert!(variants.iter().any(|variant| variant.knob == "race" && variant.to == "off"));
    }

    #[test]
    fn knobs_are_chosen_by_how_their_names_begin() {
        let knobs = |prefix: &str| variants(&[prefix.into()]).into_iter().map(|variant| variant.knob);
        assert_eq!(knobs("race.newc").collect::<Vec<_>>(), [DEFAULTS, "race.newcomers", "race.newcomers"]);
        assert_eq!(knobs("easi").next_back().as_deref(), Some("easing"));
    }

    #[test]
    fn a_cell_is_a_graph_and_a_percentage() {
        assert_eq!(name(&"gpt2_L4:40%".parse().expect("a cell"), "1"), "gpt2_L4 40% 1s");
        let error = |text: &str| text.parse::<Cell>().expect_err("no cell").to_string();
        assert_eq!(error("gpt2_L4"), "write GRAPH:PERCENT, such as gpt2_L4:40");
        assert_eq!(error("gpt2_L4:half"), "\"half\" is no percentage");
    }
}
