//! `cargo xtask release`: whether this checkout can be released, as a list of checks; the last one installs the wheel.
//!
//! Not here: uploading anything, the tests of the checkout, which CI runs, and what a user's first minute is (`smoke`).

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::checkout::Checkout;
use crate::setup::{self, beside};
use crate::smoke::{self, Torch};
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
            Ok(wheel) => smoke::try_out(checkout, wheel, &Torch::OfTheTests(version.clone())).map(drop),
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
