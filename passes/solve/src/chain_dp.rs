//! Dynamic programs along a chain of blocks: rotor's and Rockmate's, on blocks of any size, and plans per class of equal blocks.
//!
//! Not here: graphs without separators, which have no chain.

pub mod blocks;
pub(crate) mod classes;
pub(crate) mod coarse;
pub(crate) mod rcsp;
pub mod rockmate;
pub mod rotor;
pub mod save_budgets;
