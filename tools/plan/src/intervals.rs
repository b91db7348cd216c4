//! `--schedule` and `--intervals`: the plan as files for other tools.
//!
//! An interval is a time during which something is in memory: what Moccasin (ICML 2023) calls a retention interval, in the columns of MiniMalloc's
//! instances, so that `--pack` and other packers read it. Time counts runs; `upper` is the first run without. A value that is made again has
//! an interval for each time, and what a kernel needs while it runs has one of its own. Sizes at any run add up to the memory of the plan.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result};
use rk_plan::Graph;
use rk_report::Timeline;
use rk_vocabulary::write_output;

use crate::report::Report;

/// Writes the ids of the nodes in order of execution; without a plan, says so.
pub fn schedule(file: &Path, report: &Report) -> Result<()> {
    let text = report.schedule().map(|ids| format!("{{\"schedule\": {ids:?}}}\n"));
    written(file, text, "schedule")
}

/// Writes the intervals of the plan; without a plan, says so.
pub fn intervals(file: &Path, graph: &Graph, report: &Report) -> Result<()> {
    let plan = report.outcome.plan.as_ref();
    let timeline = plan.map(|plan| Timeline::of(graph, &plan.sequence, &plan.trace));
    written(file, timeline.as_ref().map(rows), "plan")
}

fn written(file: &Path, text: Option<String>, what: &str) -> Result<()> {
    match text {
        Some(text) => {
            write_output(file, text.as_bytes()).with_context(|| format!("cannot write {}", file.display()))
        }
        None => {
            // The answer says why.
            eprintln!("rk-plan: no {what}, so {} is not written", file.display());
            Ok(())
        }
    }
}

fn rows(timeline: &Timeline) -> String {
    let mut text = String::from("id,lower,upper,size\n");
    let mut times: HashMap<&str, usize> = HashMap::new();
    for life in &timeline.lives {
        let time = times.entry(&life.name).or_default();
        *time += 1;
        // A comma would end the column.
        let name = life.name.replace(", ", ".").replace([',', '\n'], ";");
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name}#{time},{},{},{}", life.first, life.last + 1, life.bytes.0);
    }
    text
}
