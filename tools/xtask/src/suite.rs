//! `cargo xtask test`: every check there is, in the order in which a failure is cheapest to learn of.
//!
//! All steps build with the release profile, and the build step builds the tests too: so the build scripts (C++ shims,
//! bindings) run once for all of them, and `cargo test` finds everything compiled.
//! Output is passed on as it comes. A failing step does not stop the others, except those that need its result.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use crate::checkout::Checkout;
use crate::{crate_graph, goldens, process, python, rust_tests, setup, tidy, torch_versions};

#[derive(clap::Args)]
pub struct Options {
    /// Only these steps, for example `--only clippy,lit`; without it, all
    #[arg(long, value_delimiter = ',', value_parser = STEPS.map(|step| step.name))]
    only: Vec<String>,
    /// Run the Python tests with this version of torch, and nothing else, for example `--torch 2.15.0`
    #[arg(long, conflicts_with = "only")]
    torch: Option<String>,
}

struct Step {
    name: &'static str,
    /// What the step shows, one line.
    claim: &'static str,
    run: fn(&Checkout) -> Result<()>,
    /// Runs built tools, so without a build it would judge old ones.
    needs_build: bool,
}

const STEPS: [Step; 10] = [
    Step { name: "fmt", claim: "the code is formatted", run: fmt, needs_build: false },
    Step { name: "crate-graph", claim: "the arrows are as drawn", run: crate_graph::run, needs_build: false },
    Step { name: "tidy", claim: "what no compiler checks", run: tidy::run, needs_build: false },
    Step { name: "build", claim: "tools, plugin and tests compile", run: build, needs_build: false },
    Step { name: "clippy", claim: "no lint complains", run: clippy, needs_build: false },
    Step {
        name: "tests",
        claim: "unit, snapshot and end-to-end tests",
        run: rust_tests::run,
        needs_build: true,
    },
    Step { name: "rustdoc", claim: "the documentation builds", run: rustdoc, needs_build: false },
    Step { name: "lit", claim: "IR in, IR or diagnostic out", run: lit, needs_build: true },
    Step {
        name: "python",
        claim: "torch.compile(model, backend=\"rk\")",
        run: python::test,
        needs_build: true,
    },
    Step {
        name: "newest-torch",
        claim: "the core of it with the newest torch",
        run: torch_versions::test_newest,
        needs_build: true,
    },
];

/// What is compiled: all targets, but `--all-targets` would make a test program of every one that can be a benchmark, too,
/// and those with `test = false` have no tests.
const TARGETS: [&str; 6] = ["--lib", "--bins", "--examples", "--tests", "--bench", "*"];

enum Outcome {
    Passed,
    Failed(anyhow::Error),
    /// The build that it needs failed.
    NotRun,
}

/// Sets up, runs the steps, and prints what came of each.
///
/// # Errors
/// When a step failed; the summary before it names all that did.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    for component in ["fmt", "clippy"] {
        if !process::succeeds(checkout.cargo(component).arg("--version")) {
            bail!("this toolchain has no `cargo {component}`; run: rustup component add rustfmt clippy");
        }
    }
    setup::run(checkout)?;
    if let Some(version) = &options.torch {
        return torch_versions::test(checkout, version);
    }
    let start = Instant::now();
    let chosen = |step: &&Step| options.only.is_empty() || options.only.iter().any(|name| name == step.name);
    let mut results: Vec<(&Step, Outcome, Duration)> = Vec::new();
    for step in STEPS.iter().filter(chosen) {
        let no_build = results.iter().any(|(done, outcome, _)| done.name == "build" && !outcome.passed());
        eprintln!("\n=== {}: {}", step.name, step.claim);
        let began = Instant::now();
        let outcome = if step.needs_build && no_build {
            eprintln!("not run, because the build failed");
            Outcome::NotRun
        } else {
            match (step.run)(checkout) {
                Ok(()) => Outcome::Passed,
                Err(error) => {
                    eprintln!("error: {error:#}");
                    Outcome::Failed(error)
                }
            }
        };
        let took = began.elapsed();
        eprintln!("=== {}: {} in {}", step.name, outcome.word(), process::seconds(took));
        results.push((step, outcome, took));
    }
    println!("\nsummary ({}):", process::seconds(start.elapsed()));
    for (step, outcome, took) in &results {
        println!("  {:<12} {:<8} {:>14}", step.name, outcome.word(), process::seconds(*took));
    }
    let failed: Vec<&str> =
        results.iter().filter(|(_, outcome, _)| !outcome.passed()).map(|(step, ..)| step.name).collect();
    if failed.is_empty() {
        println!("all {} steps passed", results.len());
        return Ok(());
    }
    for (step, outcome, _) in &results {
        if let Outcome::Failed(error) = outcome {
            // The first line: the rest has been shown where it happened.
            let message = format!("{error:#}");
            println!("{}: {}", step.name, message.lines().next().unwrap_or_default());
        }
    }
    bail!("failed: {}; one step alone: cargo xtask test --only {}", failed.join(", "), failed[0])
}

impl Outcome {
    fn passed(&self) -> bool {
        matches!(self, Self::Passed)
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed(_) => "FAILED",
            Self::NotRun => "not run",
        }
    }
}

fn cargo(checkout: &Checkout, verb: &str, arguments: &[&str]) -> Command {
    let mut command = checkout.cargo(verb);
    command.args(["--release", "--workspace", "--locked"]).args(arguments);
    command
}

fn fmt(checkout: &Checkout) -> Result<()> {
    process::show(checkout.cargo("fmt").args(["--all", "--check"]))
}

fn build(checkout: &Checkout) -> Result<()> {
    // With the tests, because dev-dependencies may switch features on: without, what depends on them is built twice.
    process::show(&mut cargo(checkout, "build", &TARGETS))
}

fn clippy(checkout: &Checkout) -> Result<()> {
    process::show(cargo(checkout, "clippy", &TARGETS).args(["--", "-D", "warnings"]))
}

fn rustdoc(checkout: &Checkout) -> Result<()> {
    process::show(cargo(checkout, "doc", &["--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))
}

fn lit(checkout: &Checkout) -> Result<()> {
    goldens::lit(checkout, &goldens::LitOptions::default())
}
