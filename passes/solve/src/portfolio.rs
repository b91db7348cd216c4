//! A request while it is solved: what it asks, what is known, who works on it in which order, and what is answered.
//!
//! Not here: the methods themselves.

pub(crate) mod auto;
pub(crate) mod clock;
pub(crate) mod first_attempt;
pub(crate) mod incumbent;
pub(crate) mod memo;
pub(crate) mod min_feasible_budget;
pub(crate) mod pareto;
pub(crate) mod prove;
pub(crate) mod request;
pub(crate) mod solver;
pub(crate) mod starts;
pub(crate) mod worthwhile;
