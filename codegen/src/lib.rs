//! From IR to what machines run: a step at stage `simplified` or later as a step file, as JSON, as a drawing.
//!
//! | module | what it makes |
//! |---|---|
//! | [`to_step()`] | the executable kernel sequence for `rk-run` ([`rk_step::Step`]), with addresses when it is lowered |
//! | [`to_json()`] | the module as data, for scripts |
//! | [`to_dot()`] | the module as a graph, for Graphviz |
//!
//! Nodes that `--rk-fuse` marked get a generated kernel in the step file (module `kernels`).
//!
//! **Absent here:** decisions. What runs when was decided by `--rematerialize`; a step that is not scheduled is
//! translated as it stands, every node once.

mod body;
mod groups;
mod kernels;
pub mod to_dot;
pub mod to_json;
pub mod to_step;

pub use to_dot::to_dot;
pub use to_json::to_json;
pub use to_step::to_step;
