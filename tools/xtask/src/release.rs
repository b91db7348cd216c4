//! `cargo xtask release`: whether this checkout can be released, as a list of checks; the last one installs the wheel.
//!
//! The smoke test is a user's first minute: a fresh environment without Rust on its path, the wheel, a torch, the first example of
//! the README, and the tools. It runs with the oldest and the newest torch. To save gigabytes, torch comes from the environments
//! that the tests use; everything of rk comes from the wheel, which is asked.
//! Not here: uploading anything, and the tests of the checkout, which CI runs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::checkout::Checkout;
use crate::setup::{self, beside};
use crate::{process, wheel};

#[derive(clap::Args)]
pub struct Options {
    /// Check this wheel instead of building one
    #[arg(long)]
    wheel: Option<PathBuf>,
    /// Versions of torch for the smoke test; without it, the oldest and the newest
    #[arg(long, value_delimiter = ',')]
    torch: Vec<String>,
}

/// Runs the checks, and prints what came of each.
///
/// # Errors
/// When one of them failed.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    setup::run(checkout)?;
    let mut list = vec![
        ("the checkout has no changes", clean(checkout)),
        ("CHANGELOG.md has a section for the version", changelog(checkout)),
    ];
    let built = match &options.wheel {
        Some(wheel) => wheel.canonicalize().context("the wheel is not there"),
        None => wheel::build(checkout, None),
    };
    let versions = if options.torch.is_empty() { ends(checkout)? } else { options.torch.clone() };
    for version in versions {
        let outcome = match &built {
            Ok(wheel) => smoke(checkout, wheel, &version),
            Err(_) => Err(anyhow::anyhow!("there is no wheel")),
        };
        list.push((
            "the wheel, freshly installed, runs the README's example",
            outcome.with_context(|| format!("torch {version}")),
        ));
    }
    list.insert(2, ("the wheel is built, named, audited, and holds its licences", built.map(drop)));
    let mut failed = 0;
    for (claim, outcome) in &list {
        match outcome {
            Ok(()) => println!("  yes  {claim}"),
            Err(error) => {
                failed += 1;
                println!("  NO   {claim}: {error:#}");
            }
        }
    }
    println!("  then: push, wait for CI, tag v{}, upload the wheel", env!("CARGO_PKG_VERSION"));
    if failed == 0 { Ok(()) } else { bail!("{failed} of {} checks failed", list.len()) }
}

/// The oldest and the newest version of torch.
fn ends(checkout: &Checkout) -> Result<Vec<String>> {
    let mut versions = beside::versions(checkout)?;
    let newest = versions.pop().context("there is no version of torch")?;
    versions.truncate(1);
    versions.push(newest);
    Ok(versions)
}

fn clean(checkout: &Checkout) -> Result<()> {
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "status", "--porcelain"]).current_dir(checkout.path("."));
    let changes = process::capture(&mut git)?;
    ensure!(changes.is_empty(), "{} files changed", changes.lines().count());
    Ok(())
}

fn changelog(checkout: &Checkout) -> Result<()> {
    let heading = format!("## {}", env!("CARGO_PKG_VERSION"));
    let text = checkout.read("CHANGELOG.md")?;
    ensure!(text.lines().any(|line| line == heading), "no line `{heading}`");
    Ok(())
}

/// Installs the wheel into a fresh environment beside one version of torch, and uses it.
fn smoke(checkout: &Checkout, wheel: &Path, version: &str) -> Result<()> {
    let torch = beside::interpreter(checkout, version)?;
    let folder = std::env::temp_dir().join(format!("rk-smoke-{}-{version}", std::process::id()));
    let outcome = used(checkout, wheel, &torch, &folder);
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn used(checkout: &Checkout, wheel: &Path, torch: &Path, folder: &Path) -> Result<()> {
    process::show(Command::new(torch).args(["-m", "venv", "--clear", "--without-pip"]).arg(folder))?;
    let python = folder.join("bin/python");
    let site = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let own = process::capture(Command::new(&python).args(["-c", site]))?;
    let others =
        "import sys; print(*(path for path in sys.path if path.endswith('site-packages')), sep='\\n')";
    let others = process::capture(Command::new(torch).args(["-I", "-c", others]))?;
    std::fs::write(Path::new(own.trim()).join("torch.pth"), others)?;
    let mut pip = Command::new(&python);
    pip.args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-input",
        "--no-deps",
        "--no-index",
        "--ignore-installed",
    ]);
    process::show(pip.arg(wheel).current_dir(folder))?;
    // Neither cargo nor LLVM nor this checkout is in reach.
    let alone = |program: &Path| {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", folder.join("bin")).env("HOME", folder).current_dir(folder);
        command
    };
    let readme = checkout.read("README.md")?;
    let example = readme.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.context("README.md has no example")?;
    let ask = format!(
        "{example}\nimport rk\nassert loss.isfinite() and model[0][0].weight.grad is not None\n\
         print(rk.__file__, rk.__version__, torch.__version__)\n"
    );
    let said = process::capture(alone(&python).args(["-I", "-c", &ask]))?;
    let place = said.lines().last().unwrap_or_default();
    let here = folder.to_string_lossy();
    let version = env!("CARGO_PKG_VERSION");
    ensure!(place.starts_with(&*here) && place.contains(version), "rk is not that of the wheel: {place}");
    for tool in ["rk-opt", "rk-plan", "rk-simrd"] {
        let said = process::capture(alone(&folder.join("bin").join(tool)).arg("--version"))?;
        ensure!(said.contains(version), "{tool} --version says {}", said.trim());
    }
    eprintln!("release: the wheel works: {place}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_has_its_section() -> Result<()> {
        changelog(&Checkout::find()?)
    }

    #[test]
    fn the_ends_are_two_versions() -> Result<()> {
        let found = ends(&Checkout::find()?)?;
        assert!(found.len() == 2 && found[0] != found[1], "{found:?}");
        Ok(())
    }
}
