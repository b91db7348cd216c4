//! A benchmark table: every graph of a folder at many budgets, beside the best known results.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rk_plan::Budget;

use crate::{Arguments, load, plan};

/// What `best_known.csv` says about one cell: the first row of a graph and a budget, and its bound if it is order-free.
struct Known {
    fraction: String,
    best: String,
    bound: String,
}

/// Prints the table; rows appear as they are solved.
pub fn print(folder: &Path, arguments: &Arguments, out: &mut impl Write) -> Result<()> {
    let known = read_known(&folder.join("best_known.csv"))?;
    writeln!(
        out,
        "| graph (n) | budget | best known | its bound | overhead % | bound % | gap | status | s | arena/peak |"
    )?;
    writeln!(out, "|---|---|---|---|---|---|---|---|---|---|")?;
    for path in graphs(folder)? {
        let graph = load(&path)?;
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let percents = ["0.9", "0.8", "0.7", "0.6", "0.5", "0.4", "0.3"];
        let plain = |fraction: &&str| Known {
            fraction: (*fraction).into(),
            best: String::new(),
            bound: String::new(),
        };
        let usual: Vec<Known> = percents.iter().map(plain).collect();
        for cell in known.get(&stem).unwrap_or(&usual) {
            let budget = Budget::parse_with_fractions(&cell.fraction).context("budget in best_known.csv")?;
            let report = plan(&graph, budget, arguments)?;
            let overhead = report.overhead().map_or("-".into(), |overhead| format!("{overhead:.4}"));
            let gap = report
                .overhead()
                .map_or("-".into(), |overhead| format!("{:.4}", (overhead - report.bound()).max(0.0)));
            let arena =
                report.arena.as_ref().zip(report.outcome.plan.as_ref()).map(|(arena, plan)| {
                    format!("{:.4}", arena.size.0 as f64 / plan.trace.peak.0.max(1) as f64)
                });
            writeln!(
                out,
                "| {} ({}) | {} | {} | {} | {overhead} | {:.4} | {gap} | {} | {:.3} | {} |",
                graph.name(),
                graph.len(),
                cell.fraction,
                cell.best,
                cell.bound,
                report.bound(),
                report.status(),
                report.elapsed.as_secs_f64(),
                arena.unwrap_or("-".into()),
            )?;
            out.flush()?;
        }
    }
    Ok(())
}

fn graphs(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Rows by graph, in the order of the file. A missing file is an empty table.
fn read_known(path: &Path) -> Result<BTreeMap<String, Vec<Known>>> {
    let mut known: BTreeMap<String, Vec<Known>> = BTreeMap::new();
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(known) };
    for line in text.lines().skip(1) {
        let fields: Vec<&str> = line.splitn(10, ',').collect();
        let [graph, _, fraction, _, _, _, best, bound, kind, _] = fields[..] else { continue };
        let cells = known.entry(graph.to_string()).or_default();
        if cells.iter().all(|cell| cell.fraction != fraction) {
            let bound = if kind == "fixed_order" { "" } else { bound };
            cells.push(Known { fraction: fraction.into(), best: best.into(), bound: bound.into() });
        }
    }
    Ok(known)
}
