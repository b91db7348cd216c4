//! What the command lines of the tools share: `--man` prints a man page, `--completions SHELL` a script for a shell.
//!
//! Both are made from what `--help` is made from, so they cannot say anything else. They are answered before the command line is
//! read, because a tool's own arguments need not be there.
//! Not here: any argument of a tool, and any exit code.

use std::ffi::OsString;
use std::io::Write;

use clap::{Arg, ArgAction, Command, Parser, value_parser};
use clap_complete::Shell;

/// Reads the command line of a tool, after `--man` and `--completions` were answered.
///
/// # Errors
/// As [`Parser::try_parse`]; `--help` and `--version` are such errors.
pub fn try_parse<T: Parser>() -> Result<T, clap::Error> {
    answer(&T::command());
    let mut matches = with_manners(T::command()).try_get_matches()?;
    T::from_arg_matches_mut(&mut matches)
}

/// The same, and exits as clap does when the command line is wrong.
pub fn parse<T: Parser>() -> T {
    try_parse().unwrap_or_else(|error| error.exit())
}

/// Prints the man page or the completions and exits, if that is all that is asked for.
pub fn answer(command: &Command) {
    let asked: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(text) = answer_to(&asked, command) {
        // A reader that has seen enough is no failure.
        let _ = std::io::stdout().write_all(&text);
        std::process::exit(0);
    }
}

fn answer_to(asked: &[OsString], command: &Command) -> Option<Vec<u8>> {
    let words: Vec<&str> = asked.iter().filter_map(|word| word.to_str()).collect();
    let mut command = with_manners(command.clone());
    let mut text = Vec::new();
    match words[..] {
        ["--man"] => clap_mangen::Man::new(command).render(&mut text).ok()?,
        ["--completions", shell] => {
            let name = command.get_name().to_owned();
            clap_complete::generate(shell.parse::<Shell>().ok()?, &mut command, name, &mut text);
        }
        _ => return None,
    }
    Some(text)
}

/// The command with the two options in its help.
pub fn with_manners(command: Command) -> Command {
    let man = Arg::new("man").long("man").action(ArgAction::SetTrue).exclusive(true);
    let completions = Arg::new("completions").long("completions").value_name("SHELL").exclusive(true);
    command
        .arg(man.help("Print the man page"))
        .arg(completions.value_parser(value_parser!(Shell)).help("Print what a shell completes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Parser)]
    #[command(name = "rk-example", version, after_help = "Examples:\n  rk-example graph.json")]
    struct Example {
        /// The graph
        #[arg(long)]
        graph: String,
    }

    fn asked(words: &[&str]) -> Option<String> {
        let words: Vec<OsString> = words.iter().map(Into::into).collect();
        answer_to(&words, &<Example as clap::CommandFactory>::command())
            .map(|text| String::from_utf8_lossy(&text).into_owned())
    }

    #[test]
    fn a_man_page_has_options_and_examples() {
        let page = asked(&["--man"]).unwrap_or_default();
        assert!(page.contains(".TH rk-example") && page.contains("graph.json"), "{page}");
    }

    #[test]
    fn every_shell_gets_completions() {
        for shell in ["bash", "zsh", "fish"] {
            let script = asked(&["--completions", shell]).unwrap_or_default();
            assert!(script.contains("rk-example") && script.contains("graph"), "{shell}: {script}");
        }
    }

    /// What is not such a question, or names no shell, is left to clap.
    #[test]
    fn everything_else_is_the_tools() {
        assert_eq!(
            [asked(&["--completions", "abacus"]), asked(&["--graph", "--man"]), asked(&[])],
            [None, None, None]
        );
    }
}
