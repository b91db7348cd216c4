//! `cargo xtask`: set-up, tests and housekeeping of this checkout; without an argument it lists its verbs.
//!
//! It builds on a machine that has a Rust toolchain and nothing else, because it is what installs the rest. That is
//! why it depends on no crate of ours and starts cargo, Python and lit as child processes.
//! Not here: anything a user of rk needs at run time.

mod checkout;
mod crate_graph;
mod demo;
mod drawing;
mod goldens;
mod manual;
mod new_pass;
mod nightly;
mod notices;
mod passes_page;
mod process;
mod python;
mod release;
mod rust_tests;
mod setup;
mod smoke;
mod suite;
mod tidy;
mod torch_versions;
mod wheel;

use anyhow::Result;
use clap::{CommandFactory, Parser, Subcommand};

use checkout::Checkout;

/// Set-up, tests and housekeeping of rk.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Subcommand)]
enum Verb {
    /// Install what is missing: Debian packages and the Python environment .venv
    Setup(setup::Options),
    /// Set up, then run every test; this is what CI calls
    Test(suite::Options),
    /// Set up, build, and take a ResNet-18 and a GPT-2 through import, plan, lower and run
    Demo(demo::Options),
    /// Search for faults for some minutes with generated programs and PyTorch's own samples
    Nightly(nightly::Options),
    /// Run the Python tests with every version of torch, and write the table of docs/torch-versions.md
    Matrix(torch_versions::MatrixOptions),
    /// Build the Python package and make it importable in .venv
    Python,
    /// Build the one wheel that needs torch and nothing else
    Wheel(wheel::Options),
    /// Try the wheel in fresh environments without Rust, and write what came of it into docs/torch-versions.md
    Smoke(smoke::Options),
    /// Go through the list of what a release needs, with the wheel freshly installed
    Release(release::Options),
    /// Run the lit tests with the tools as they are built
    Lit(goldens::LitOptions),
    /// Rewrite golden files and snapshots; read `git diff` before committing
    Bless(goldens::BlessOptions),
    /// Write the pages of the manual that come from sources: passes, Python API, command lines, dialect
    Docs(passes_page::Options),
    /// Build the manual under docs as a site; a broken link is an error
    Manual(manual::Options),
    /// Write the tables of docs/benchmarks-gpu.md from what `python -m gpu_suite` measured
    GpuTables(python::GpuTablesOptions),
    /// Write the skeleton of a pass, and say what to add where
    NewPass(new_pass::Options),
    /// Check what no compiler checks: headers, sizes, examples, laws, licences
    Tidy,
    /// Check the arrows between the crates against docs/architecture.md
    CrateGraph,
}

fn main() -> std::process::ExitCode {
    let result = match Cli::parse().verb {
        Some(verb) => run(verb),
        None => Cli::command().print_help().map_err(Into::into),
    };
    match result {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            std::process::ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    let checkout = Checkout::find()?;
    match verb {
        Verb::Setup(options) => setup::with_torch(&checkout, &options),
        Verb::Test(options) => suite::run(&checkout, &options),
        Verb::Demo(options) => demo::run(&checkout, &options),
        Verb::Nightly(options) => nightly::run(&checkout, &options),
        Verb::Matrix(options) => torch_versions::matrix(&checkout, &options),
        Verb::Python => setup::run(&checkout).and_then(|()| python::install(&checkout)),
        Verb::Wheel(options) => setup::run(&checkout).and_then(|()| wheel::run(&checkout, &options)),
        Verb::Smoke(options) => smoke::run(&checkout, &options),
        Verb::Release(options) => release::run(&checkout, &options),
        Verb::Lit(options) => goldens::lit(&checkout, &options),
        Verb::Bless(options) => goldens::bless(&checkout, &options),
        Verb::Docs(options) => {
            passes_page::run(&checkout, &options)?;
            python::reference(&checkout, options.check)
        }
        Verb::Manual(options) => manual::run(&checkout, &options),
        Verb::GpuTables(options) => python::gpu_tables(&checkout, &options),
        Verb::NewPass(options) => new_pass::run(&checkout, &options),
        Verb::Tidy => tidy::run(&checkout),
        Verb::CrateGraph => crate_graph::run(&checkout),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every verb has its line in the list that `cargo xtask` prints.
    #[test]
    fn every_verb_says_what_it_does() {
        let command = Cli::command();
        command.clone().debug_assert();
        for verb in command.get_subcommands() {
            assert!(verb.get_about().is_some(), "`{}` has no description", verb.get_name());
        }
    }
}
