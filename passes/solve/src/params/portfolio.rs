//! The portfolio: starts, race and proofs.

use super::part::{COUNT, SHARE, part};

part! {
    /// Starts of the race besides the first plan.
    Starts {
        /// Nodes around the best cut that are cut at, too, lie one in this many parts of all nodes apart.
        node_strides: usize = 25, COUNT;
    }
}

part! {
    /// The race of local searches: rounds, after which the better half goes on for twice as long.
    Race {
        /// Iterations of each search in the first round, times nodes: more compare starts better, and leave less time for the best.
        first_round: u64 = 25_000, COUNT;
        /// Nodes below which the first round is longer, in proportion.
        few_nodes: u64 = 320, COUNT;
        /// Searches that lost early and come back when the only one left is at rest.
        revived: usize = 3, COUNT;
        /// A search has lost early that has made at most one in this many of the iterations of the one left.
        behind: u64 = 4, COUNT;
        /// Searches that join from each kind of late starts.
        newcomers: usize = 2, COUNT;
        /// Searches left at which the best plan is annealed too.
        few_left: usize = 4, COUNT;
    }
}

part! {
    /// Proofs between rounds of the race.
    Proofs {
        /// Share of the time left for a proof.
        share: f64 = 0.2, SHARE;
        /// The same where the plan is far from the bound, so that the time is worth more in the race.
        far_share: f64 = 0.08, SHARE;
        /// The same where no better plan was found since the last proof.
        at_rest_share: f64 = 0.7, SHARE;
        /// A proof is due when rounds are this many times as long as at the last one.
        longer_rounds: u64 = 8, COUNT;
        /// Rounds without gain that call for a proof sooner, in small graphs.
        idle_rounds: u32 = 2, COUNT;
        /// Iterations of a round at least, as which the last one counts for that.
        least_iterations: u64 = 200, COUNT;
        /// Share of the time left for the search over states.
        states_share: f64 = 0.25, SHARE;
        /// Looks at the clock of the search over states when it is first tried; each time after it is four times as many.
        states_first_looks: u64 = 50_000, COUNT;
        /// The search over states is tried where the overhead is at most one part in this many of the base time.
        states_overhead_parts: u64 = 50, COUNT;
    }
}
