//! rk-simrd: DTR's simulator. `rk-simrd --help` lists the commands.

use anyhow::Result;
use rk_simrd::{Cli, Command, Experiment, FigureArgs};
use std::io::{BufWriter, Write as _, stdout};
use std::process::ExitCode;

fn main() -> ExitCode {
    match dispatch(&rk_cli::parse::<Cli>().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if rk_cli::is_closed_pipe(error.as_ref()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("rk-simrd: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: &Command) -> Result<()> {
    match command {
        Command::Run(args) => rk_simrd::run(args, &mut BufWriter::new(stdout().lock())),
        Command::Record(args) => rk_simrd::record(args, &mut BufWriter::new(stdout().lock())),
        Command::Plan(args) => rk_simrd::plan(args, &mut stdout().lock()),
        Command::Timing(args) => rk_simrd::timing(args, &mut stdout().lock()),
        Command::Pareto(args) => figure(Experiment::Pareto, args),
        Command::Ablation(args) => figure(Experiment::Ablation, args),
        Command::Banishing(args) => figure(Experiment::Banishing, args),
        Command::Accesses(args) => figure(Experiment::Accesses, args),
    }
}

fn figure(experiment: Experiment, args: &FigureArgs) -> Result<()> {
    for path in rk_simrd::experiment(experiment, args)? {
        writeln!(stdout(), "{}", path.display())?;
    }
    Ok(())
}
