//! Real archives: the recorded step on prepared calls equals eager autograd, bit by bit over three training steps.
//!
//! `RK_ARCHIVES=a.pt:b.pt` adds archives; each is then timed too.

#[path = "steps/recorded.rs"]
mod recorded;

use std::path::{Path, PathBuf};

use rk_runtime::{Check, Options, session};

fn archives() -> Vec<PathBuf> {
    std::env::var("RK_ARCHIVES")
        .unwrap_or_default()
        .split(':')
        .filter(|p| !p.is_empty())
        .map(Into::into)
        .collect()
}

#[test]
fn recorded_steps_equal_eager() {
    rk_torch::memory::install().unwrap();
    for path in archives() {
        let step = recorded::step(&path, 0);
        let ops = step.nodes[0].ops.len();
        let options = Options { steps: 3, check: Check::Before, repeat: 5, ..Options::default() };
        let report = session::run(step, Path::new("recorded.rkx"), &options).unwrap();
        eprintln!(
            "{}: {ops} operators, {:.2} ms against {:.2} ms eager, {:?} threads, peak {} eager {:?}",
            path.display(),
            report.step_seconds.unwrap_or(0.0) * 1e3,
            report.baseline_step_seconds.unwrap_or(0.0) * 1e3,
            report.threads,
            report.measured.peak_bytes,
            report.eager_peak_bytes,
        );
        let verdict = report.verdict.unwrap();
        assert_eq!(verdict.difference.as_ref().map(ToString::to_string), None);
        assert_eq!(verdict.steps, 3);
    }
}
