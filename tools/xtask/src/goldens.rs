//! `lit` runs the golden tests of lit-tests/; `bless` rewrites golden files and snapshots from what the code does now.
//!
//! lit and FileCheck are Debian's, from llvm-22-tools. The tools under test are those of cargo's target folder: the
//! environment variable `RK_TOOLS` names it for lit-tests/lit.cfg.py, and `CARGO_TARGET_DIR` the folder above it.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::checkout::Checkout;
use crate::process;

const LIT: &str = "/usr/lib/llvm-22/bin/lit";

/// What the tests' RUN lines start or load: lit leaves out tests whose tools are not there, and calls the rest a success.
const TOOLS: [&str; 6] = ["librk.so", "rk-lsp-server", "rk-opt", "rk-plan", "rk-run", "rk-translate"];

#[derive(clap::Args, Default)]
pub struct LitOptions {
    /// Files or folders below lit-tests; without any, all
    paths: Vec<String>,
}

#[derive(clap::Args)]
pub struct BlessOptions {
    /// Only the tests of this package
    #[arg(short, long)]
    package: Option<String>,
}

/// Runs lit over `paths` and shows each test with its result.
///
/// # Errors
/// When lit or the tools are not there, or a test fails.
pub fn lit(checkout: &Checkout, options: &LitOptions) -> Result<()> {
    process::show(&mut lit_command(checkout, &options.paths)?)
}

/// Accepts what the tests produce: golden files of lit and of Rust tests (`RK_BLESS`), and insta's snapshots.
///
/// # Errors
/// When a test fails for another reason than its golden text.
pub fn bless(checkout: &Checkout, options: &BlessOptions) -> Result<()> {
    let mut tests = checkout.cargo("test");
    tests.args(["--release", "--no-fail-fast"]).envs([("RK_BLESS", "1"), ("INSTA_UPDATE", "always")]);
    match &options.package {
        Some(package) => tests.args(["--package", package]),
        None => tests.arg("--workspace"),
    };
    let rust = process::show(&mut tests);
    let golden = match options.package {
        Some(_) => Ok(()),
        None => process::show(lit_command(checkout, &[])?.env("RK_BLESS", "1")),
    };
    eprintln!("bless: read `git diff`: is every changed line an improvement? Say why in the commit.");
    rust.and(golden)
}

fn lit_command(checkout: &Checkout, paths: &[String]) -> Result<Command> {
    if !Path::new(LIT).exists() {
        bail!("{LIT} is not there; `cargo xtask setup` installs it");
    }
    let tools = checkout.binaries()?;
    let needed = if paths.is_empty() { &TOOLS[..] } else { &["rk-opt"] };
    let missing: Vec<_> = needed.iter().copied().filter(|tool| !tools.join(tool).exists()).collect();
    if !missing.is_empty() {
        let names = missing.join(", ");
        bail!("not built in {}: {names}; run: cargo build --release --workspace", tools.display());
    }
    let mut command = Command::new(LIT);
    command.current_dir(&checkout.root).arg("-v").env("RK_TOOLS", &tools);
    command.env("CARGO_TARGET_DIR", tools.parent().unwrap_or(&tools));
    if paths.is_empty() {
        command.arg("lit-tests");
    }
    command.args(paths);
    Ok(command)
}
