//! Plans whose buffers have addresses: which order, which runs and which places let a plan fit into an arena.
//!
//! Not here: the packing of given lifetimes (`rk_plan::arena`).

pub(crate) mod assign_addresses;
pub(crate) mod ejection_chain;
pub(crate) mod fit_budget;
pub(crate) mod free_space;
pub(crate) mod packing;
pub(crate) mod reorder;
pub(crate) mod trade_time;
