//! Search from a plan to a better one: large neighbourhoods, annealing over order and recomputation, and races among searches.
//!
//! Not here: first plans (`construct`), and proofs that nothing is better (`bound`).

pub(crate) mod annealing;
pub(crate) mod any_plan;
pub(crate) mod easing;
pub(crate) mod lns;
pub(crate) mod order_annealing;
pub(crate) mod population;
pub(crate) mod racing;
pub(crate) mod reannealing;
pub(crate) mod rivals;
