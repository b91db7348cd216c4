//! Child processes: shown while they run, or captured; never with a standard input to wait for.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

/// A command as a person would type it; cargo by its name, not by where its toolchain lies.
pub fn line(command: &Command) -> String {
    let program = command.get_program();
    let program = if Path::new(program).ends_with("cargo") { OsStr::new("cargo") } else { program };
    let words = std::iter::once(program).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./,:%+@".contains(c);
    if !word.is_empty() && word.chars().all(plain) { word.into_owned() } else { format!("'{word}'") }
}

/// Runs a command whose output goes straight to the terminal, as it comes.
///
/// # Errors
/// When it cannot start or does not exit with 0; the message holds the command.
pub fn show(command: &mut Command) -> Result<()> {
    let line = line(command);
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot start `{line}`"))?;
    if !status.success() {
        bail!("`{line}` failed ({status})");
    }
    Ok(())
}

/// Runs a command and returns its standard output.
///
/// # Errors
/// When it cannot start or does not exit with 0; the message holds the command and what it said.
pub fn capture(command: &mut Command) -> Result<String> {
    let line = line(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{line}`"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("`{line}` failed ({}): {}", output.status, said.trim());
    }
    String::from_utf8(output.stdout).with_context(|| format!("`{line}` printed no UTF-8"))
}

/// Whether a command starts and exits with 0; what it prints is thrown away.
pub fn succeeds(command: &mut Command) -> bool {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// A duration for people: `0.4 s`, `12 s`, `3 min 05 s`.
pub fn seconds(duration: Duration) -> String {
    let whole = duration.as_secs();
    match whole {
        0..10 => format!("{:.1} s", duration.as_secs_f64()),
        10..60 => format!("{whole} s"),
        _ => format!("{} min {:02} s", whole / 60, whole % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_typed() {
        let mut command = Command::new("rk-opt");
        command.args(["x.mlir", "--rematerialize=budget=2GiB solver=cut"]);
        assert_eq!(line(&command), "rk-opt x.mlir '--rematerialize=budget=2GiB solver=cut'");
    }

    #[test]
    fn a_failing_command_is_named_with_what_it_said() {
        let error =
            capture(Command::new("sh").args(["-c", "echo gone >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("gone") && error.contains("exit status: 3"), "{error}");
    }

    #[test]
    fn durations_are_for_people() {
        let of = |millis| seconds(Duration::from_millis(millis));
        assert_eq!([of(420), of(12_900), of(185_000)], ["0.4 s", "12 s", "3 min 05 s"]);
    }
}
