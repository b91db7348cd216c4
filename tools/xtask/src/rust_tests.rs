//! The Rust tests, several programs at a time.
//!
//! cargo runs one test program after the other, and the long ones leave a processor idle: they are one test, or wait for
//! Python. So cargo only builds them and says where they are. What a program prints is shown when it ends, in one piece.
//! The examples of the documentation are one more program: cargo's own.
//! Not here: which tests there are; `cargo test --workspace` runs the same ones.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::process;

/// Programs that run at once, on as many processors or more: some start others that hold a gigabyte.
const AT_ONCE: usize = 4;

/// A test program, and what to call it.
struct Program {
    name: String,
    command: Command,
}

/// Builds and runs all tests.
///
/// # Errors
/// When the build or a test fails; the message names every program in which one did.
pub fn run(checkout: &Checkout) -> Result<()> {
    let all = ["--release", "--workspace", "--locked"];
    let mut build = checkout.cargo("test");
    build
        .args(all)
        .args(["--no-run", "--message-format", "json-render-diagnostics"])
        .stderr(Stdio::inherit());
    let mut programs = built(&process::capture(&mut build)?)?;
    let mut examples = checkout.cargo("test");
    examples.args(all).args(["--doc", "--no-fail-fast"]);
    programs.insert(0, Program { name: "the examples of the documentation".to_owned(), command: examples });
    let failed = run_all(programs)?;
    if failed.is_empty() { Ok(()) } else { bail!("tests failed in {}", failed.join(", ")) }
}

/// The test programs that cargo reports, by their names.
fn built(report: &str) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for line in report.lines() {
        let message: Value = serde_json::from_str(line).context("cargo reports no JSON")?;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (target, executable) = (&message["target"], text(&message["executable"]));
        if message["profile"]["test"] != true || executable.is_empty() {
            continue;
        }
        let manifest = PathBuf::from(text(&message["manifest_path"]));
        let folder = manifest.parent().context("a manifest lies in a folder")?;
        let source = PathBuf::from(text(&target["src_path"]));
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        let mut command = Command::new(executable);
        command.current_dir(folder).env("CARGO_MANIFEST_DIR", folder);
        // Threads of libtorch that spin while they wait would take ten times as long.
        command.env("OMP_WAIT_POLICY", "passive");
        let source = source.strip_prefix(folder).unwrap_or(&source).display();
        programs.push(Program { name: format!("{package}/{source}"), command });
    }
    programs.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(programs)
}

/// Runs programs side by side, the first ones first, and gives the names of those that failed.
fn run_all(programs: Vec<Program>) -> Result<Vec<String>> {
    let (waiting, failed) = (Mutex::new(programs.into_iter()), Mutex::new(Vec::new()));
    let next = || waiting.lock().expect("no panic").next();
    let work = || -> Result<()> {
        while let Some(Program { name, mut command }) = next() {
            let output =
                command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {name}"))?;
            let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned());
            println!("\n=== {name}\n{}{}", said[0].trim_start(), said[1]);
            if !output.status.success() {
                println!("{name} ended with {}", output.status);
                failed.lock().expect("no panic").push(name);
            }
        }
        Ok(())
    };
    thread::scope(|scope| {
        let count = thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
        let workers: Vec<_> = (0..count).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().expect("no panic"))
    })?;
    Ok(failed.into_inner().expect("no panic"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_programs_are_found_and_nothing_else() -> Result<()> {
        let artifact = |test: bool, executable: &str| {
            format!(
                "{{\"reason\": \"compiler-artifact\", \"manifest_path\": \"/r/passes/plan/Cargo.toml\", \"target\": \
                 {{\"src_path\": \"/r/passes/plan/tests/laws.rs\"}}, \"profile\": {{\"test\": {test}}}, \"executable\": {executable}}}\n"
            )
        };
        let report =
            [artifact(true, "\"/t/laws-1\""), artifact(false, "\"/t/rk-plan\""), artifact(false, "null")];
        let programs = built(&(report.concat() + "{\"reason\": \"build-finished\", \"success\": true}\n"))?;
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["plan/tests/laws.rs"]);
        assert!(built("no JSON").is_err());
        Ok(())
    }

    #[test]
    fn every_program_runs_and_those_that_fail_are_named() -> Result<()> {
        let programs = ["true", "false", "true", "false"]
            .map(|name| Program { name: name.to_owned(), command: Command::new(name) });
        assert_eq!(run_all(programs.into())?, ["false", "false"]);
        Ok(())
    }
}
