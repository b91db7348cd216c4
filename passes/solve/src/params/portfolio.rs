//! What is worth its time, and how the time is shared: portfolio, starts, race and proofs.

use super::part::{COUNT, SHARE, part};

part! {
    /// The strategies of a portfolio: when a step is worth it, and its share of the time left.
    Portfolio {
        /// The gap between plan and bound is large above one part in this many of the base time; newcomers are looked for above it.
        large_gap_parts: u64 = 200, COUNT;
        /// A plan is far from the bound above one part in this many of the base time; more orders and fewer proofs are tried above it.
        far_parts: u64 = 100, COUNT;
        /// Nodes up to which orders are annealed whenever the gap is large, and proofs are tried at rest.
        small_graph: usize = 500, COUNT;
        /// Moves of an annealing of the first round, per node: more take longer and find better orders.
        moves_per_node: u64 = 200, COUNT;
        /// Moves of such an annealing at most, where another order may pay.
        most_moves_for_orders: u64 = 100_000, COUNT;
        /// Moves of such an annealing at most, where it is only one more start.
        most_moves: u64 = 25_000, COUNT;
        /// Share of the time left for the bound by cuts before the race.
        cut_bound_share: f64 = 0.4, SHARE;
        /// Share of the time left for each look at cuts of smaller budgets or other nodes.
        cut_replays_share: f64 = 0.05, SHARE;
        /// Share of the time left for the bound in the given order, which is only reported.
        order_bound_share: f64 = 0.06, SHARE;
        /// Share of the time left for the best plan in orders in which nodes wait, once per plan at rest.
        postponed_replays_share: f64 = 0.1, SHARE;
        /// Share of the time left for the best cut in orders in which nodes wait.
        waiting_replays_share: f64 = 0.1, SHARE;
    }
}

part! {
    /// Starts of the race besides the first plan.
    Starts {
        /// Nodes on either side of the best one that are cut at: more give more starts.
        nodes_aside: usize = 3, COUNT;
        /// Those nodes lie one in this many parts of all nodes apart.
        node_strides: usize = 25, COUNT;
        /// Plans from cuts at those nodes that join the race.
        nearby_kept: usize = 8, COUNT;
        /// List schedules of which the best are annealed.
        list_schedules: usize = 40, COUNT;
        /// Annealed list schedules that are started from in small graphs.
        annealed_orders: usize = 4, COUNT;
        /// Iterations of local search in each order in which a node waits.
        waiting_iterations: u64 = 50, COUNT;
        /// Moves per node of the annealing that makes memory less full by order alone.
        order_moves_per_node: u64 = 20, COUNT;
        /// Moves of that annealing at least.
        order_least_moves: u64 = 10_000, COUNT;
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
