//! `rk-bench yardstick`: plans of some four hundred cells, kept as rows, and the comparison of two such files.
//!
//! A cell is a graph, a budget and a time limit. `measure` plans each with `rk-plan`, in a fixed order, and writes one row of CSV per cell; rows that the
//! file has are not measured again, so that a run that was interrupted goes on. `compare` says what a change did to each family of graphs, and fails
//! where plans became worse. The file that changes are held against, and how to make another, is explained in docs/results.md.
//!
//! Not here: any weighing of one cell against another. A family is a mean of its cells.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use rk_vocabulary::write_output;

mod cells;
mod compare;
mod measure;
mod rows;

pub use cells::shared;
pub use measure::{code, machine};

#[derive(clap::Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(clap::Subcommand)]
enum Action {
    /// Plan every cell that the file has no row of.
    Measure(Measure),
    /// Set the rows of two files side by side; the exit status is 1 where the second is worse.
    Compare(Compare),
}

#[derive(clap::Args)]
struct Measure {
    /// The rows; the file is made, or gone on with.
    #[arg(long, default_value = "target/bench/yardstick.csv")]
    rows: PathBuf,
    /// Time limits in seconds.
    #[arg(long, value_delimiter = ',', default_value = "0.2,1,3,10")]
    limits: Vec<String>,
    /// Families of graphs; all by default.
    #[arg(long, value_delimiter = ',')]
    families: Vec<String>,
    /// Where graphs are unpacked for `rk-plan`.
    #[arg(long, default_value = "target/bench")]
    cache: PathBuf,
}

#[derive(clap::Args)]
struct Compare {
    /// The rows before the change.
    before: PathBuf,
    /// The rows after it.
    after: PathBuf,
    /// Cells of the first file may be missing in the second.
    #[arg(long)]
    part: bool,
}

pub fn run(options: &Options) -> Result<()> {
    match &options.action {
        Action::Measure(options) => measure::run(options),
        Action::Compare(options) => {
            let (before, after) = (rows::Rows::read(&options.before)?, rows::Rows::read(&options.after)?);
            let comparison = compare::Comparison::of(&before, &after);
            write_output(Path::new("-"), comparison.to_markdown().as_bytes())?;
            let complaints = comparison.complaints(options.part);
            if !complaints.is_empty() {
                bail!("worse than {}:\n  {}", options.before.display(), complaints.join("\n  "));
            }
            Ok(())
        }
    }
}
