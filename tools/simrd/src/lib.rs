//! rk-simrd as a library, so that its tests reach what the commands are made of.
//!
//! Not here: the simulation itself (crate `rk-dtr`).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cell;
mod cli;
mod figures;
mod plot;
mod read;
mod run;
mod timing;
mod write;

pub use cell::{Cell, Model, Task};
pub use cli::{Cli, Command, FigureArgs, RunArgs, RuntimeName, ScanName, TimingArgs};
pub use figures::{Experiment, experiment};
pub use read::{find_logs, model_name, read_log};
pub use run::run;
pub use timing::timing;
