//! rk-simrd as a library, so that its tests reach what the commands are made of.
//!
//! Not here: the simulation itself (crate `rk-dtr`).

#![forbid(unsafe_code)]
#![warn(missing_docs)]

mod read;

pub use read::{find_logs, model_name, read_log};
