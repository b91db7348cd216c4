//! A request while it is solved: what it asks, what is known, who works on it in which order, and what is answered.
//!
//! Not here: the methods themselves.

pub(crate) mod auto;
pub(crate) mod blackboard;
pub(crate) mod bounding;
pub(crate) mod clock;
pub(crate) mod first_attempt;
pub(crate) mod incumbent;
pub(crate) mod late_starts;
pub(crate) mod memo;
pub(crate) mod min_feasible_budget;
pub(crate) mod neighbours;
pub(crate) mod pareto;
pub(crate) mod prove;
pub(crate) mod prover;
pub(crate) mod request;
pub(crate) mod scheduler;
pub(crate) mod smaller_portfolios;
pub(crate) mod solver;
pub(crate) mod starts;
pub(crate) mod strategy;
pub(crate) mod switches;
pub(crate) mod worthwhile;
