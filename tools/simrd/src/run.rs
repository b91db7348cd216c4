//! `rk-simrd run`: one log, heuristics times ratios, one line per run.

use crate::cell::{Cell, Model, Task};
use crate::cli::RunArgs;
use anyhow::{Result, bail};
use rk_dtr::{Heuristic, Policy};
use std::io::Write;

/// Runs the cartesian product, heuristics in the outer loop, and writes each result as soon as it is there.
///
/// # Errors
/// If the log is bad, the runtime does not support a heuristic, or the output is closed.
pub fn run(args: &RunArgs, output: &mut impl Write) -> Result<()> {
    let policy = Policy::from(args.runtime);
    let heuristics =
        args.heuristics.iter().map(|name| name.parse()).collect::<Result<Vec<Heuristic>, _>>()?;
    if let Some(heuristic) = heuristics.iter().find(|&&h| !policy.supports(h)) {
        let supported = Heuristic::ALL.into_iter().filter(|&h| policy.supports(h)).map(|h| h.name());
        let supported = supported.collect::<Vec<_>>().join(", ");
        bail!("the {policy} runtime does not support {heuristic}; it supports {supported}");
    }
    if let Some(heuristic) = heuristics.iter().find(|h| args.segments && !h.weighs_segments()) {
        let able = Heuristic::ALL.into_iter().filter(Heuristic::weighs_segments).map(|h| h.name());
        bail!("segments are not weighed by {heuristic}; they are by {}", able.collect::<Vec<_>>().join(", "));
    }
    if args.segments && policy != Policy::Eager {
        bail!("the {policy} runtime knows no segments");
    }
    let model = Model::read(&args.log)?;
    if !args.json {
        writeln!(output, "{HEADER}")?;
    }
    for heuristic in heuristics {
        for &ratio in &args.ratios {
            let task = Task {
                policy,
                heuristic,
                ratio,
                seed: args.seed,
                scan: args.scan.into(),
                segments: args.segments,
            };
            let cell = Cell::run(&model, task);
            if args.json {
                writeln!(output, "{}", serde_json::to_string(&cell)?)?;
            } else {
                writeln!(output, "{}", line(&cell))?;
            }
        }
    }
    Ok(output.flush()?)
}

const HEADER: &str = "heuristic              ratio  status    overhead      remat ns        clock ns       peak bytes      \
    evals";

fn line(cell: &Cell) -> String {
    let overhead = cell.overhead.map_or("-".to_owned(), |o| format!("{o:.6}"));
    let Cell { heuristic, ratio, status, remat, clock, max_memory, evals, .. } = cell;
    format!(
        "{heuristic:21} {ratio:6}  {status:8}  {overhead:>8} {remat:>13} {clock:>15} {max_memory:>16} {evals:>10}"
    )
}
