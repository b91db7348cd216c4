//! rk-simrd as a library, so that its tests reach what the commands are made of.
//!
//! Not here: the simulation itself (crate `rk-dtr`), planning (crate `rk-solve`).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod cell;
mod cli;
mod figures;
mod graph;
mod plan;
mod plot;
mod read;
mod run;
mod step;
mod timing;
mod write;

pub use cell::{Cell, Model, Task};
pub use cli::{Cli, Command, FigureArgs, PlanArgs, RecordArgs, RunArgs, RuntimeName, ScanName, TimingArgs};
pub use figures::{Experiment, experiment};
pub use graph::{Converted, Views, graph_of, write_log};
pub use plan::{Row, plan, record};
pub use read::{find_logs, model_name, read_log};
pub use run::run;
pub use step::read_graph;
pub use timing::timing;
