//! What `rk-opt --help` prints: three examples and the passes of rk with their options.
//!
//! MLIR's driver lists twelve hundred options, almost all of them LLVM's; `--help-list` prints those. The page is made of the
//! passes' own descriptions, and so are the man page and the completions.
//! Not here: reading the command line, which is MLIR's.

use std::ffi::OsString;
use std::fmt::Write as _;

use clap::{Arg, Command};
use rk_dialect::pass::PassSpec;

const EXAMPLES: &str = "\
Examples:
  rk-opt step.mlir --rematerialize --budget=60% -o planned.mlir      plan a step
  rk-opt step.mlir --rematerialize=\"budget=2GiB solver=cut\" | rk-opt - --rk-lower -o lowered.mlir
  rk-opt step.mlir --rematerialize --budget=60% --mlir-print-ir-after-all    every stage on the way

Every option of mlir-opt works; --help-list prints all of them.
Exit status: 0 done, 1 refused, 2 the budget is proven infeasible, 3 no schedule was found in the time, 4 the value of \
an option is not understood, 5 a step at a stage that cannot be planned, 6 the output cannot be written.";

/// Whether help is asked for.
pub fn is_wanted(command: &[OsString]) -> bool {
    command.iter().skip(1).any(|argument| argument == "--help" || argument == "-help" || argument == "-h")
}

/// The command line as clap would describe it.
pub fn command() -> Command {
    let input = Arg::new("input").value_name("STEP.mlir").default_value("-");
    let output = Arg::new("output").short('o').value_name("OUT.mlir").default_value("-");
    let budget = Arg::new("budget").long("budget").value_name("B").require_equals(true);
    Command::new("rk-opt")
        .version(env!("CARGO_PKG_VERSION"))
        .about("MLIR's optimizer driver with the passes of rk")
        .override_usage("rk-opt [STEP.mlir] [PASSES] [OPTIONS] [-o OUT.mlir]")
        .after_help(EXAMPLES)
        .next_line_help(true)
        .arg(input.help("A module with a step; `-` is standard input"))
        .arg(output.help("Where to write; a file appears whole or not at all"))
        .arg(
            budget.help(
                "What the option `budget` of every pass holds unless it is given: 2GiB, 500MB, bytes, 60%",
            ),
        )
        .args(rk_rewrite::PASSES.map(pass))
}

fn pass(spec: &'static PassSpec) -> Arg {
    let mut help = spec.description.to_owned();
    for option in spec.options {
        let default =
            if option.default.is_empty() { String::new() } else { format!(" [{}]", option.default) };
        // Writing to a string cannot fail.
        let _ = write!(help, "\n  {}={default} {}", option.name, option.help);
    }
    let pass = Arg::new(spec.argument).long(spec.argument).num_args(0..=1).require_equals(true);
    pass.value_name("\"OPTION=VALUE ...\"").help(help).help_heading("Passes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pass_and_option_has_its_line() {
        let text = command().render_help().to_string();
        for spec in rk_rewrite::PASSES {
            assert!(text.contains(&format!("--{}", spec.argument)), "{}", spec.argument);
            for option in spec.options {
                assert!(
                    text.contains(&format!("  {}=", option.name)),
                    "{} of {}",
                    option.name,
                    spec.argument
                );
            }
        }
        command().debug_assert();
    }

    #[test]
    fn help_is_asked_for_as_llvm_spells_it_too() {
        let asked = |word: &str| is_wanted(&["rk-opt".into(), word.into()]);
        assert!(asked("--help") && asked("-help") && asked("-h") && !asked("--help-list"));
    }
}
