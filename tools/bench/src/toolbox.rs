//! The tools as processes: found beside this binary, timed, their last words kept for the error message.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// One finished process.
pub struct Finished {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
    pub wall: Duration,
}

impl Finished {
    /// The last non-empty line of standard error: the tool's own one-line reason.
    pub fn reason(&self) -> &str {
        let errors = |line: &&str| line.contains("error");
        let lines = || self.stderr.lines().filter(|line| !line.trim().is_empty());
        lines().find(errors).or_else(|| lines().next_back()).unwrap_or("no message")
    }
}

/// The folder of this binary, where cargo puts the other tools too.
fn folder() -> Result<PathBuf> {
    let own = std::env::current_exe()?;
    Ok(own.parent().context("this binary has no folder")?.to_owned())
}

/// Runs one of rk's tools; a non-zero exit is an answer, not an error.
pub fn tool<S: AsRef<OsStr>>(name: &str, arguments: &[S]) -> Result<Finished> {
    finish(Command::new(folder()?.join(name)).args(arguments), name)
}

/// Runs one of rk's tools, whose failure is ours.
///
/// # Errors
/// Its name and its last words.
pub fn checked<S: AsRef<OsStr>>(name: &str, arguments: &[S]) -> Result<Finished> {
    let done = tool(name, arguments)?;
    if done.code != 0 {
        bail!("{name}: {}", done.reason());
    }
    Ok(done)
}

/// Runs `rk-opt` on these arguments and writes the step file of what it made; what `rk-opt` said when it proved that no schedule fits the budget.
///
/// # Errors
/// Any other failure.
pub fn step_file(arguments: &[&str], made: &str, step: &str) -> Result<std::result::Result<(), Finished>> {
    let planned = tool("rk-opt", &[arguments, &["-o", made]].concat())?;
    match planned.code {
        0 => {}
        2 => return Ok(Err(planned)),
        _ => bail!("rk-opt: {}", planned.reason()),
    }
    checked("rk-translate", &[made, "--to", "step", "-o", step])?;
    Ok(Ok(()))
}

/// The same with the planner's log on standard error.
pub fn talking_tool<S: AsRef<OsStr>>(name: &str, arguments: &[S]) -> Result<Finished> {
    let mut command = Command::new(folder()?.join(name));
    finish(command.args(arguments).env("RK_LOG", "rk_solve=info").env("NO_COLOR", "1"), name)
}

/// Runs the project's Python with `arguments`.
pub fn python<S: AsRef<OsStr>>(arguments: &[S]) -> Result<Finished> {
    finish(Command::new(".venv/bin/python").args(arguments), ".venv/bin/python")
}

fn finish(command: &mut Command, name: &str) -> Result<Finished> {
    let start = Instant::now();
    let output =
        command.output().with_context(|| format!("cannot start {name}; is it built? (cargo xtask setup)"))?;
    Ok(Finished {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        wall: start.elapsed(),
    })
}

/// The traced archive of a model of examples/models.py, made once per cache.
pub fn archive(cache: &Path, model: &str, device: &str) -> Result<PathBuf> {
    std::fs::create_dir_all(cache)?;
    let name = if device == "cpu" { model.to_owned() } else { format!("{model}.{device}") };
    let path = cache.join(format!("{name}.pt"));
    if !path.exists() {
        let script = ["examples/models.py", "--device", device, model].map(OsStr::new);
        let made = python(&[&script[..], &[path.as_os_str()]].concat())?;
        if made.code != 0 {
            bail!("examples/models.py {model}: {}", made.reason());
        }
    }
    Ok(path)
}
