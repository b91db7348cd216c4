//! `cargo xtask new-pass NAME`: the files of a new pass, with the headings that tidy asks for, and a list of the rest.
//!
//! The skeleton refuses every function it is given, at the function: a pass that does nothing would be green for ever.

use anyhow::{Result, bail};

use crate::checkout::Checkout;

#[derive(clap::Args)]
pub struct Options {
    /// The name without `rk-`, in lower case with dashes: fold-views
    name: String,
}

/// Writes the skeleton.
///
/// # Errors
/// When the name is no good or one of the files exists; nothing is written then.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    let name = options.name.strip_prefix("rk-").unwrap_or(&options.name);
    if !is_name(name) {
        bail!("`{name}` is no name for a pass: lower-case words joined by dashes, like fold-views");
    }
    let module = name.replace('-', "_");
    let lit = format!("lit-tests/passes/{name}");
    let files = [
        (format!("passes/rewrite/src/{module}.rs"), source(name, &module)),
        (format!("{lit}/example.mlir"), example(name)),
        (format!("{lit}/invalid.mlir"), invalid(name)),
    ];
    for (file, _) in &files {
        if checkout.path(file).exists() {
            bail!("{file} is there already");
        }
    }
    for (file, text) in &files {
        checkout.write(file, text)?;
        println!("wrote {file}");
    }
    println!("{}", what_is_left(name, &module));
    Ok(())
}

fn is_name(name: &str) -> bool {
    let word = |word: &str| {
        word.starts_with(|c: char| c.is_ascii_lowercase())
            && word.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.split('-').all(word)
}

fn source(name: &str, module: &str) -> String {
    format!(
        "\
//! # rk-{name}: one sentence that --help, rustdoc and the page share
//!
//! What it does  Say what is true of the IR afterwards that was not before.
//! Why           Say who needs that.
//! Stages        dataflow ==> dataflow
//! Limits        Say what it refuses; every refusal is an error at an op.
//! Example       lit-tests/passes/{name}/example.mlir

use melior::ir::operation::OperationRef;

/// Runs the pass on one function.
///
/// # Errors
/// For now always: the edit is not written.
pub fn {module}(_function: OperationRef<'_, '_>) -> Result<(), String> {{
    Err(\"rk-{name} has no edit yet\".to_owned())
}}
"
    )
}

fn example(name: &str) -> String {
    format!(
        "\
// Write input and expected output by hand, run it, and watch it fail.
// RUN: rk-opt %s --rk-{name} | FileCheck %s

// CHECK-LABEL: func.func @example
// CHECK: the first line that the pass changes
func.func @example(%x: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {{rk.stage = #rk.stage<dataflow>}} {{
  return %x : tensor<8x16xf32>
}}
"
    )
}

fn invalid(name: &str) -> String {
    format!(
        "\
// One case per refusal.
// RUN: rk-opt %s --rk-{name} -split-input-file -verify-diagnostics

// expected-error @+1 {{{{the reason, the number that failed and the number that would do}}}}
func.func @refused(%x: tensor<8x16xf32>) -> tensor<8x16xf32> attributes {{rk.stage = #rk.stage<raw>}} {{
  return %x : tensor<8x16xf32>
}}
"
    )
}

fn what_is_left(name: &str, module: &str) -> String {
    format!(
        "
What is left (docs/contributing.md has the eight steps):
  1. passes/rewrite/src/{module}.rs: fill in the headings, then the edit.
  2. passes/rewrite/src/lib.rs: `mod {module};`, and its line in the list of passes with name and options.
     If it belongs to the pipeline: its place there, with a comment that says why it stands there.
  3. {LIT}/{name}/example.mlir and invalid.mlir: input and expectation by hand; see both fail.
  4. If it weighs anything: a pure function in passes/plan or passes/solve, with its own tests.
  5. cargo xtask lit {LIT}/{name} && cargo xtask docs && cargo xtask tidy",
        LIT = "lit-tests/passes"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::passes_page::Pass;

    #[test]
    fn the_skeleton_has_every_heading() -> Result<()> {
        let pass = Pass::parse("x.rs", &source("fold-views", "fold_views"))?;
        assert_eq!(
            pass.map(|pass| pass.example().to_owned()),
            Some("lit-tests/passes/fold-views/example.mlir".to_owned())
        );
        Ok(())
    }

    #[test]
    fn names_are_words_joined_by_dashes() {
        assert!(is_name("fold-views") && is_name("cse2"));
        assert!(["", "Fold", "fold_views", "fold-", "2fold", "../x"].iter().all(|name| !is_name(name)));
    }
}
