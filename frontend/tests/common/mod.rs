//! The archives of `models.py`, made once per test binary.

// Each test binary compiles this file and uses a part of it.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The folder with the archives of these models (all when none is named; the first call of a binary decides), or
/// `None`, said aloud, when there is no Python with torch.
pub fn archives(names: &[&str]) -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let python = here.join("../.venv/bin/python");
        if !python.exists() {
            eprintln!("skipped: no {}; `cargo xtask setup` makes it", python.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut command = Command::new(python);
        command.arg(here.join("tests/models.py")).arg(folder.path()).args(names);
        // On a busy machine threads that spin while they wait cost ten times the work.
        let run = command.env("OMP_WAIT_POLICY", "passive").output().expect("python starts");
        assert!(run.status.success(), "models.py failed:\n{}", String::from_utf8_lossy(&run.stderr));
        Some(folder)
    });
    folder.as_ref().map(tempfile::TempDir::path)
}

/// The names of the archives that should import, in order.
pub fn good(folder: &Path) -> Vec<(String, PathBuf)> {
    let mut found: Vec<(String, PathBuf)> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("an entry").path())
        .filter_map(|path| {
            let name = path.file_name()?.to_str()?.strip_suffix(".pt")?.to_owned();
            (!name.ends_with(".inputs") && !name.starts_with("bad_")).then_some((name, path))
        })
        .collect();
    found.sort();
    found
}

/// Generators and the memory counter are global: tests that run steps take turns.
pub fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}
