//! `cargo xtask new-pass NAME`: the files of a new pass, with the headings that tidy asks for, and a list of the rest.
//!
//! The skeleton refuses every module: a pass that does nothing would be green for ever.

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
        (format!("passes/rewrite/src/{module}.rs"), source(name)),
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

fn source(name: &str) -> String {
    let camel: String = name.split('-').map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    format!(
        "\
//! `--rk-{name}`: from `dataflow` to `dataflow`. One sentence that rustdoc and the page share.
//!
//! # Before and after
//! ```mlir
//! the IR that it reads
//! ==>
//! the IR that it writes
//! ```
//!
//! # How
//! Say by which idea, and where it comes from.
//!
//! # Contract
//! Needs `dataflow`, establishes `dataflow`: say what is true afterwards that was not before, and which laws hold again.
//!
//! # Not here
//! Say what it refuses or leaves to others. Every refusal is an error at an op.

use rk_dialect::diagnostic::{{Diagnostic, Failure}};
use rk_dialect::pass::{{PassContext, PassSpec}};

/// The pass.
pub static PASS: PassSpec = PassSpec {{
    name: \"{camel}\",
    argument: \"rk-{name}\",
    description: \"One sentence that --help shows\",
    options: &[],
    run: |cx| run(cx),
}};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {{
    let location = cx.module().location();
    Err(Diagnostic::error(location, \"rk-{name} has no edit yet\".to_owned()).into())
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
  2. passes/rewrite/src/lib.rs: `mod {module};`, and `register_pass(&{module}::PASS);` beside the others.
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
        let pass = Pass::parse("x.rs", &source("fold-views"))?;
        let place = pass.map(|pass| pass.example_places()[0].clone());
        assert_eq!(place.as_deref(), Some("lit-tests/passes/fold-views/example.mlir"));
        Ok(())
    }

    #[test]
    fn names_are_words_joined_by_dashes() {
        assert!(is_name("fold-views") && is_name("cse2"));
        assert!(["", "Fold", "fold_views", "fold-", "2fold", "../x"].iter().all(|name| !is_name(name)));
    }
}
