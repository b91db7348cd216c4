//! `rk-bench offload-graphs`: recomputation alone, transfers alone and both, on graphs in files.
//!
//! Two tables. One has a row for each graph, link and budget: extra time of the three in percent of the time of all nodes, the
//! bound for both, and the gap to it in points. The other has the smallest budget that each of the three meets, in percent of the
//! peak, found by halving: what is met at some budget is taken to be met at larger ones.
//!
//! It asks `rk-plan`, as a user would. `python -m benchmarks.graphs` writes graphs of large networks.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::report::{Table, publish};
use crate::toolbox::tool;

#[derive(clap::Args)]
pub struct Options {
    /// Graphs as `rk-plan` reads them.
    #[arg(required = true)]
    graphs: Vec<PathBuf>,
    /// Budgets in percent of the peak.
    #[arg(long, value_delimiter = ',', default_value = "80,60,40,20")]
    budgets: Vec<u32>,
    /// Links.
    #[arg(long, value_delimiter = ',', default_value = "25GB/s,50GB/s")]
    bandwidths: Vec<String>,
    /// Seconds for a plan.
    #[arg(long, default_value = "5")]
    limit: String,
    /// Seconds for a plan in search of the smallest budgets; without it there is no such table.
    #[arg(long)]
    smallest: Option<String>,
    /// The Markdown file whose tables between `<!-- NAME -->` and `<!-- /NAME -->` are replaced; standard output without it.
    #[arg(long)]
    document: Option<PathBuf>,
}

/// The keys of the times of the three.
const THREE: [&str; 3] = ["recomputation_alone_time", "transfers_alone_time", "time"];

pub fn run(options: &Options) -> Result<()> {
    let mut table = Table::new([
        "graph",
        "nodes",
        "link",
        "budget %",
        "recomputation",
        "transfers",
        "both",
        "bound",
        "gap",
        "transfers of both",
    ]);
    for graph in &options.graphs {
        for bandwidth in &options.bandwidths {
            for &budget in &options.budgets {
                let row = row(graph, bandwidth, budget, &options.limit)?;
                eprintln!("{}", row.join(" "));
                table.row(row);
            }
        }
    }
    publish(options.document.as_deref(), "offload-graphs", &table.to_markdown())?;
    let Some(limit) = &options.smallest else { return Ok(()) };
    let mut table = Table::new(["graph", "link", "recomputation %", "transfers %", "both %"]);
    for graph in &options.graphs {
        for bandwidth in &options.bandwidths {
            let mut row = vec![name(graph), bandwidth.clone()];
            for key in THREE {
                row.push(smallest(graph, bandwidth, key, limit)?.to_string());
            }
            eprintln!("{}", row.join(" "));
            table.row(row);
        }
    }
    publish(options.document.as_deref(), "offload-smallest", &table.to_markdown())
}

fn name(graph: &std::path::Path) -> String {
    graph.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

fn planned(graph: &std::path::Path, bandwidth: &str, budget: u32, limit: &str) -> Result<Value> {
    let (graph, budget, limit) = (graph.display().to_string(), format!("{budget}%"), format!("{limit}s"));
    let link = ["--offload", "--bandwidth", bandwidth];
    let asked = [&graph, "--budget", &budget, "--time-limit", &limit, "--json"];
    let done = tool("rk-plan", &[&asked[..], &link[..]].concat())?;
    // 2 and 3 are answers, too: nothing fits, and nothing was found.
    ensure!([0, 2, 3].contains(&done.code), "rk-plan {graph} {budget}: {}", done.reason());
    serde_json::from_str(&done.stdout).context("rk-plan --json")
}

fn row(graph: &std::path::Path, bandwidth: &str, budget: u32, limit: &str) -> Result<Vec<String>> {
    let report = planned(graph, bandwidth, budget, limit)?;
    let number = |key: &str| report.get(key).and_then(Value::as_f64);
    let base = number("base_time").context("rk-plan --json has no base_time")?;
    let percent = |key: &str| number(key).map(|time| (time / base - 1.0) * 100.0);
    let text = |number: Option<f64>| number.map_or("–".to_owned(), |number| format!("{number:.2}"));
    let (both, bound) = (percent("time"), number("lower_bound_pct"));
    let [alone, moved, _] = THREE.map(percent);
    for other in [alone, moved].into_iter().flatten() {
        ensure!(both.is_some_and(|both| both <= other), "{}: slower than one of the two alone", name(graph));
    }
    let transfers = report.get("transfers").and_then(Value::as_array).map_or(0, Vec::len);
    Ok(vec![
        name(graph),
        number("n").unwrap_or_default().to_string(),
        bandwidth.to_owned(),
        budget.to_string(),
        text(alone),
        text(moved),
        text(both),
        text(bound.filter(|_| both.is_some())),
        text(both.zip(bound).map(|(both, bound)| both - bound)),
        transfers.to_string(),
    ])
}

fn smallest(graph: &std::path::Path, bandwidth: &str, key: &str, limit: &str) -> Result<u32> {
    let (mut low, mut high) = (0, 100);
    while high - low > 1 {
        let middle = u32::midpoint(low, high);
        let met = planned(graph, bandwidth, middle, limit)?.get(key).is_some_and(Value::is_number);
        if met { high = middle } else { low = middle }
    }
    Ok(high)
}
