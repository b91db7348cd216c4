//! What a page says of a plan, as whoever planned gives it.

use rk_plan::{Bytes, Graph, Time, Transfer};

/// A plan, and what is said of it.
pub struct Report<'a> {
    /// What is planned.
    pub graph: &'a Graph,
    /// What had to fit.
    pub budget: Bytes,
    /// The time of the plan; with transfers, the makespan.
    pub time: Time,
    /// No plan takes less.
    pub lower_bound: Time,
    /// For which plans that holds: `order_free`, `fixed_order` or `optimal`; empty for a bound that needs no proof.
    pub bound_kind: &'a str,
    /// `optimal` or `feasible`; empty where nobody said.
    pub status: &'a str,
    /// Who found the plan; empty where nobody said.
    pub solver: &'a str,
    /// Bytes that are there before the step, where that is known.
    pub resident: Option<Bytes>,
    /// The transfers of the plan.
    pub transfers: &'a [Transfer],
    /// What each node calls, in words; may be empty.
    pub operators: &'a [String],
}
