//! `cargo xtask nightly`: searches for faults for some minutes, with the campaigns of `frontend/python/campaigns`.
//!
//! Each night looks at other programs: the first seed is made of the day, and printed, so that a finding can be had again.
//! What is found is written as scripts that stand by themselves. Not here: what is looked for, and how it is judged.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::{process, python, setup};

/// Campaigns by the names of their modules, and whether they draw from seeds; all know `--minutes` and `--out`.
const CAMPAIGNS: [(&str, bool); 3] = [("programs", true), ("opinfo", false), ("chaos", false)];
/// Seeds of a night; more programs than that no machine tries in one.
const SEEDS_OF_A_DAY: u64 = 100_000;

#[derive(clap::Args)]
pub struct Options {
    /// How long each campaign goes on
    #[arg(long, default_value_t = 10)]
    minutes: u32,
    /// The first seed; without it, one that the day gives
    #[arg(long)]
    start: Option<u64>,
    /// Processes at once
    #[arg(long, default_value_t = 1)]
    jobs: u32,
    /// Where results and scripts go; `nightly` in the target folder without it
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Builds the package, and runs every campaign for some minutes.
///
/// # Errors
/// When the build fails, or a campaign has found something.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    setup::run(checkout)?;
    python::install(checkout)?;
    let start = match options.start {
        Some(seed) => seed,
        None => day()? * SEEDS_OF_A_DAY,
    };
    let release = checkout.binaries()?;
    let target = release.parent().context("the target folder has no parent")?;
    let out = options.out.clone().unwrap_or_else(|| target.join("nightly"));
    let mut found = Vec::new();
    for (name, draws) in CAMPAIGNS.iter().filter(|(name, _)| is_there(checkout, name)) {
        eprintln!(
            "\n=== {name}: {} minutes{}",
            options.minutes,
            if *draws { format!(" from seed {start}") } else { String::new() }
        );
        let mut command = campaign(checkout, name, &out.join(name));
        command.args(["--minutes", &options.minutes.to_string()]);
        if *draws {
            command.args(["--start", &start.to_string(), "--jobs", &options.jobs.to_string()]);
        }
        if let Err(error) = process::show(&mut command) {
            eprintln!("error: {error:#}");
            found.push(*name);
        }
    }
    if !found.is_empty() {
        bail!("findings of {}, see {}", found.join(" and "), out.display());
    }
    Ok(())
}

fn is_there(checkout: &Checkout, name: &str) -> bool {
    let folder = checkout.path("frontend/python/campaigns");
    folder.join(format!("{name}.py")).exists() || folder.join(name).join("__main__.py").exists()
}

fn campaign(checkout: &Checkout, name: &str, out: &Path) -> Command {
    let mut command = Command::new(checkout.python());
    command.args(["-m", &format!("campaigns.{name}"), "--out"]).arg(out);
    command
        .current_dir(checkout.path("frontend/python"))
        .env("PYTHONPATH", checkout.path("frontend/python/python"));
    command
}

/// Days since 1970.
fn day() -> Result<u64> {
    Ok(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_secs() / 86_400)
}
