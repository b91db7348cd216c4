//! What the command lines of the tools share: `--man` prints a man page, `--completions SHELL` a script for a shell, and a reader of
//! the output that has seen enough is no failure.
//!
//! Man page and script are made from what `--help` is made from, so they cannot say anything else. They are answered before the command line is
//! read, because a tool's own arguments need not be there.
//! Not here: any argument of a tool, and any exit code.

use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};

use clap::{Arg, ArgAction, Command, Parser, value_parser};
use clap_complete::Shell;

/// Reads the command line of a tool, after `--man` and `--completions` were answered.
///
/// # Errors
/// As [`Parser::try_parse`]; `--help` and `--version` are such errors.
pub fn try_parse<T: Parser>() -> Result<T, clap::Error> {
    answer_known(&T::command());
    let mut matches = with_manners(T::command()).try_get_matches()?;
    T::from_arg_matches_mut(&mut matches)
}

/// The same, and exits as clap does when the command line is wrong.
pub fn parse<T: Parser>() -> T {
    try_parse().unwrap_or_else(|error| error.exit())
}

/// Prints the man page or the completions and exits, if that is all that is asked for. For tools whose command line is read by
/// somebody else, who does not know these options: a shell without completions is refused here, with exit code 1.
pub fn answer(command: &Command) {
    answer_known(command);
    if std::env::args_os().nth(1).is_some_and(|word| word == "--completions")
        && let Err(error) = with_manners(command.clone()).try_get_matches()
    {
        let _ = error.print();
        std::process::exit(1);
    }
}

/// Whether a tool failed because whoever reads its output has seen enough.
pub fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(one) = cause {
        if one.downcast_ref::<io::Error>().is_some_and(|one| one.kind() == io::ErrorKind::BrokenPipe) {
            return true;
        }
        cause = one.source();
    }
    false
}

fn answer_known(command: &Command) {
    let asked: Vec<OsString> = std::env::args_os().skip(1).collect();
    if let Some(text) = answer_to(&asked, command) {
        // A reader that has seen enough is no failure.
        let _ = io::stdout().write_all(&text);
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

    #[derive(Debug)]
    struct Behind(io::Error);

    impl std::fmt::Display for Behind {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("the output cannot be written")
        }
    }

    impl Error for Behind {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            Some(&self.0)
        }
    }

    #[test]
    fn a_closed_pipe_is_found_behind_other_errors() {
        let pipe = || io::Error::from(io::ErrorKind::BrokenPipe);
        assert!(is_closed_pipe(&pipe()));
        assert!(is_closed_pipe(&Behind(pipe())));
        assert!(!is_closed_pipe(&io::Error::from(io::ErrorKind::NotFound)));
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
