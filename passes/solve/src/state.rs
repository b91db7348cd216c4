//! A sequence of runs that changes: flat graphs, and timelines that know its time and memory after every change.
//!
//! Not here: what is changed, and why (`construct`, `improve`).

pub(crate) mod dense_timeline;
#[cfg(test)]
mod dense_timeline_tests;
pub mod edits;
pub(crate) mod flat_graph;
pub(crate) mod memory_pressure;
pub(crate) mod segment_tree;
pub(crate) mod slotted_timeline;
#[cfg(test)]
pub(crate) mod slotted_timeline_tests;
