//! `rk-simrd timing`: how long the simulator takes, as a table in Markdown.
//!
//! Idea: what the acceptance bar measures, on one thread: each run alone (median of some repetitions), reading apart.
//! Wall clock, so that numbers from a shared machine are upper limits.

use crate::cell::{Cell, Model, Task};
use crate::cli::TimingArgs;
use crate::read::find_logs;
use anyhow::Result;
use rk_dtr::{Heuristic, Policy, Scan};
use std::io::Write;
use std::time::Instant;

/// Times the seven heuristics over ten ratios on every log.
///
/// # Errors
/// If a log is bad or the output is closed.
pub fn timing(args: &TimingArgs, output: &mut impl Write) -> Result<()> {
    let heuristics = Heuristic::of_the_paper();
    write!(output, "| log | read and baseline |")?;
    heuristics.iter().try_for_each(|h| write!(output, " {h} |"))?;
    writeln!(output, "\n|---|--:|{}", "--:|".repeat(heuristics.len()))?;
    let mut total = 0.0;
    for path in find_logs(&args.logs)? {
        let start = Instant::now();
        let model = Model::read(&path)?;
        let reading = start.elapsed().as_secs_f64();
        total += reading;
        write!(output, "| {} | {:.1} ms |", model.name, reading * 1e3)?;
        for &heuristic in heuristics {
            let times: Vec<f64> =
                (1..=10).map(|tenth| median(&model, heuristic, tenth, args.repeat)).collect();
            let (sum, slowest) = (times.iter().sum::<f64>(), times.iter().copied().fold(0.0, f64::max));
            total += sum;
            write!(output, " {:.1} ({:.1}) |", sum * 1e3, slowest * 1e3)?;
        }
        writeln!(output)?;
    }
    writeln!(
        output,
        "\nMilliseconds for the ratios 0.1 to 1.0 together (the slowest of them); all together {total:.2} s."
    )?;
    Ok(output.flush()?)
}

fn median(model: &Model, heuristic: Heuristic, tenth: u32, repeat: u32) -> f64 {
    let ratio = f64::from(tenth) / 10.0;
    let task = Task { policy: Policy::Eager, heuristic, ratio, seed: 0, scan: Scan::Pruned, segments: false };
    let mut times: Vec<f64> = (0..repeat).map(|_| Cell::run(model, task).wall_s).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
