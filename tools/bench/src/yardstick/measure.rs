//! Plans cells with `rk-plan`, as a user would, and keeps a row of each.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use rk_plan::json;
use rk_vocabulary::write_whole;
use serde_json::Value;

use super::Measure;
use super::cells::{Problem, problems};
use super::rows::{Key, Row, Rows};
use crate::toolbox::tool;

pub fn run(options: &Measure) -> Result<()> {
    let problems = problems(&options.families)?;
    let head = vec![format!("code {}", code()?), format!("machine {}", machine())];
    let mut known = match options.rows.exists() {
        true => Rows::read(&options.rows)?,
        false => Rows { head: head.clone(), rows: Vec::new() },
    };
    if known.head != head {
        bail!("{} is of {:?}, not of {head:?}; name another file", options.rows.display(), known.head);
    }
    fs::create_dir_all(&options.cache)?;
    let cells: usize = problems.iter().map(|problem| problem.budgets.len() * options.limits.len()).sum();
    let mut done = 0;
    for problem in &problems {
        let path = unpacked(problem, &options.cache)?;
        for &budget in &problem.budgets {
            for limit in &options.limits {
                let key = Key {
                    family: problem.family.clone(),
                    graph: problem.graph.name().to_owned(),
                    budget,
                    limit: limit.clone(),
                };
                done += 1;
                if known.find(&key).is_some() {
                    continue;
                }
                let row = planned(&path, key)?;
                eprintln!("{done} of {cells}: {} {budget}% {limit}s {}", row.key.graph, row.status);
                known.rows.push(row);
                // An interrupted run leaves whole rows.
                write_whole(&options.rows, known.text().as_bytes())
                    .with_context(|| format!("cannot write {}", options.rows.display()))?;
            }
        }
    }
    Ok(())
}

/// The graph as a file that `rk-plan` reads.
fn unpacked(problem: &Problem, cache: &Path) -> Result<PathBuf> {
    let path = cache.join(format!("{}-{}.json", problem.family, problem.graph.name()));
    fs::write(&path, json::write(&problem.graph))
        .with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn planned(graph: &Path, key: Key) -> Result<Row> {
    let (graph, budget, limit) =
        (graph.display().to_string(), format!("{}%", key.budget), format!("{}s", key.limit));
    let done = tool("rk-plan", &[&graph, "--budget", &budget, "--time-limit", &limit, "--json"])?;
    // 2 and 3 are answers, too: nothing fits, and nothing was found.
    ensure!([0, 2, 3].contains(&done.code), "rk-plan {graph} {budget}: {}", done.reason());
    let report: BTreeMap<String, Value> = serde_json::from_str(&done.stdout).context("rk-plan --json")?;
    let number = |key: &str| report.get(key).and_then(Value::as_f64);
    let needed = |key: &str| number(key).with_context(|| format!("rk-plan --json has no {key}"));
    let arena = number("arena_bytes").zip(number("peak_bytes")).map(|(arena, peak)| arena / peak.max(1.0));
    Ok(Row {
        key,
        nodes: needed("n")? as usize,
        status: report.get("status").and_then(Value::as_str).context("rk-plan --json has no status")?.into(),
        first: number("first_plan_seconds").map(|seconds| seconds * 1e3),
        overhead: number("overhead_pct"),
        bound: needed("lower_bound_pct")?,
        arena,
        seconds: needed("solve_seconds")?,
    })
}

/// The commit, and whether files differ from it.
///
/// # Errors
/// When git does not say.
pub fn code() -> Result<String> {
    let described = Command::new("git")
        .args(["describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"])
        .output()
        .context("cannot start git")?;
    ensure!(described.status.success(), "git describe: {}", String::from_utf8_lossy(&described.stderr));
    Ok(String::from_utf8_lossy(&described.stdout).trim().to_owned())
}

/// The processor, and how many of it this run may use.
pub fn machine() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let named = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let name = named.map_or("unknown processor", |(_, name)| name.trim());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{name}, {cores} of its cores")
}
