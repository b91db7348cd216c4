//! First plans: from an order, from what a cut holds, from rules that evict, and from nothing but the graph.
//!
//! Not here: what makes a plan better once it is there (`improve`).

pub(crate) mod baseline;
pub(crate) mod checkpoint;
pub(crate) mod depth_first_order;
pub mod dtr;
pub(crate) mod gap_eviction;
pub(crate) mod greedy;
pub(crate) mod list_scheduling;
pub(crate) mod postponed_replay;
pub(crate) mod prune_redundant;
pub(crate) mod replay;
