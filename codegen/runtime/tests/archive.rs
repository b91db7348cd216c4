//! Real archives: the recorded step on prepared calls equals eager autograd, bit by bit over three training steps.
//!
//! The archives are those of the importer's tests; `RK_ARCHIVES=a.pt:b.pt` takes others instead.

mod recorded;

use std::path::{Path, PathBuf};
use std::process::Command;

use rk_runtime::{Check, Options, session};

/// The archives, and the folder that holds them until the test ends.
fn archives() -> (Vec<PathBuf>, Option<tempfile::TempDir>) {
    if let Ok(given) = std::env::var("RK_ARCHIVES") {
        return (given.split(':').map(Into::into).collect(), None);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        eprintln!("skipped: no {}; `cargo xtask setup` makes it", python.display());
        return (vec![], None);
    }
    let folder = tempfile::tempdir().unwrap();
    let run =
        Command::new(python).arg(root.join("frontend/tests/models.py")).arg(folder.path()).output().unwrap();
    assert!(run.status.success(), "models.py failed:\n{}", String::from_utf8_lossy(&run.stderr));
    let mut found: Vec<PathBuf> = std::fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(".pt") && !name.ends_with(".inputs.pt") && !name.starts_with("bad_")
        })
        .collect();
    found.sort();
    (found, Some(folder))
}

#[test]
fn recorded_steps_equal_eager() {
    rk_torch::memory::install().unwrap();
    rk_torch::set_threads(1).unwrap();
    let (archives, _folder) = archives();
    for path in archives {
        let step = recorded::step(&path, 0);
        let ops = step.nodes[0].ops.len();
        let options = Options { steps: 3, check: Check::Before, repeat: 5, ..Options::default() };
        let report = session::run(step, Path::new("recorded.rkx"), &options).unwrap();
        eprintln!(
            "{}: {ops} operators, {:.2} ms against {:.2} ms eager, peak {} bytes",
            path.display(),
            report.step_seconds.unwrap_or(0.0) * 1e3,
            report.baseline_step_seconds.unwrap_or(0.0) * 1e3,
            report.measured.peak_bytes,
        );
        let verdict = report.verdict.unwrap();
        assert_eq!(verdict.difference.as_ref().map(ToString::to_string), None, "{}", path.display());
        assert_eq!(verdict.steps, 3);
    }
}
