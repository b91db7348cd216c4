//! `rk-lsp-server`: the language server of MLIR with the dialect rk: names, definitions, and the laws of a schedule as
//! live errors in an editor.
//!
//! The command line is MLIR's own; `--help`, `--version`, `--man` and `--completions` are answered here, in terms of what an editor needs.

use clap::{Arg, Command};

const EXAMPLES: &str = "\
Examples:
  vim.lsp.start({ name = \"rk\", cmd = { \"rk-lsp-server\" } })     Neovim, for files of the type mlir
  \"mlir.server_path\": \"rk-lsp-server\"                          Visual Studio Code, with the extension MLIR

An editor starts it and talks to it over standard input and output. Every option of mlir-lsp-server works; --help-list prints all of them.";

/// The command line as clap would describe it.
fn command() -> Command {
    let log = Arg::new("log").long("log").value_name("LEVEL").require_equals(true);
    let log = log.value_parser(["error", "info", "verbose"]).default_value("info");
    Command::new("rk-lsp-server")
        .version(concat!(env!("CARGO_PKG_VERSION"), " (LLVM ", env!("LLVM_VERSION"), ")"))
        .about("The language server of MLIR with the dialect rk")
        .after_help(EXAMPLES)
        .arg(log.help("What it writes to standard error"))
        .arg(Arg::new("pretty").long("pretty").num_args(0).help("Indent the JSON that it writes"))
}

fn main() {
    let asked = std::env::args().nth(1).unwrap_or_default();
    match asked.as_str() {
        // A reader that has seen enough is no failure.
        "--help" | "-help" | "-h" => drop(rk_cli::with_manners(command()).print_help()),
        "--version" | "-version" | "-V" => print!("{}", command().render_version()),
        _ => {
            rk_cli::answer(&command());
            std::process::exit(rk_dialect::lsp_server_main());
        }
    }
}
