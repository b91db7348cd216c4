//! The local search and the annealings.

use super::part::{COUNT, FACTOR, SHARE, part};

part! {
    /// Ruin and recreate on the sequence.
    LocalSearch {
        /// Iterations of the first cycle; each cycle is twice as long and starts from the best plan.
        first_cycle: u64 = 1_000, COUNT;
        /// Share of the recompute cost by which a worse sequence is accepted at most, at the start of a cycle.
        tolerance: f64 = 0.02, SHARE;
        /// The same as a share of what the iteration took away; the lesser holds.
        ruined_tolerance: f64 = 0.1, SHARE;
        /// Share of the recompute cost by which a sequence may be dearer while it is repaired.
        detour: f64 = 0.03, SHARE;
        /// The same as a share of what the iteration took away; the lesser holds.
        ruined_detour: f64 = 0.3, SHARE;
        /// Recomputations in the window of one ruin at most, in large graphs.
        window_if_large: u64 = 20, COUNT;
        /// The same in small graphs, which need large ruins to leave a valley.
        window_if_small: u64 = 80, COUNT;
        /// Recomputations picked one by one in a ruin at most, in large graphs.
        picked_if_large: u64 = 8, COUNT;
        /// The same in small graphs.
        picked_if_small: u64 = 30, COUNT;
        /// Nodes from which on ruins are as small as they get.
        large_graph: u64 = 1_000, COUNT;
        /// Share of iterations that move runs earlier or later, too.
        shifting: f64 = 0.35, SHARE;
        /// Share of those moves that go later, to just before the first use.
        sinking: f64 = 0.7, SHARE;
        /// Share of repairs that bring runs forward.
        forward: f64 = 0.8, SHARE;
        /// Share of repairs that hold operands.
        hold: f64 = 0.8, SHARE;
    }
}

part! {
    /// Simulated annealing over order and recomputation.
    Annealing {
        /// Temperature at the start, in shares of the base time times nodes: higher forgets more of the start.
        hot: f64 = 1.0, FACTOR;
        /// Temperature at the end, in the same unit: lower settles more of it.
        cold: f64 = 0.02, FACTOR;
        /// How many times as hot every second annealing of an order is.
        second_heat: f64 = 4.0, FACTOR;
        /// Heat of an annealing from the best plan, as a multiple of the usual.
        reheat: f64 = 0.5, FACTOR;
        /// Weight of the bytes above the budget at first, as a share of the base time per budget and step.
        weight: f64 = 0.3, FACTOR;
        /// That weight at most.
        most_weight: f64 = 5.0, (1.0, 1e6);
        /// Share of the visited sequences that should fit: where fewer do, the weight grows.
        fitting: f64 = 0.2, SHARE;
        /// Factor by which the weight grows or falls per 256 moves.
        weight_step: f64 = 1.02, (1.0, 10.0);
        /// Places that a run goes alone at most.
        farthest: usize = 200, COUNT;
        /// Looks for a value to evict, or for a recomputation, before a move is given up.
        looks: usize = 40, COUNT;
        /// Looks for a step above the budget before any other is taken.
        looks_for_full_steps: usize = 8, COUNT;
        /// Runs that one move puts in at most.
        group: u32 = 12, COUNT;
        /// Likelihood that an operand that is gone runs again too, where it would fit to hold it.
        operand_if_it_fits: f64 = 0.05, SHARE;
        /// The same where it would not fit, divided by the length of the chain.
        operand_if_it_does_not: f64 = 0.3, SHARE;
    }
}

impl Annealing {
    /// What is hot enough differs from graph to graph, so annealings of orders take turns: multiples of the usual temperature.
    pub(crate) fn heats(&self) -> [f64; 2] {
        [1.0, self.second_heat]
    }
}

part! {
    /// Annealing of the best plan for memory that is less full.
    Easing {
        /// Moves per iteration of the round before.
        moves: u64 = 8, COUNT;
        /// Moves per node without which it is not tried.
        least_moves_per_node: u64 = 10, COUNT;
        /// Moves per node at most.
        most_moves_per_node: u64 = 100, COUNT;
        /// Memory counts as full above this many thousandths of the budget.
        full_per_mille: i64 = 900, (1.0, 1000.0);
        /// One part in this many of the base time may be spent on memory that is less full.
        spent_parts: u64 = 1_000, COUNT;
        /// Temperature of a free walk at first, in shares of the base time times nodes.
        free_heat: f64 = 0.2, FACTOR;
        /// Temperature of a walk that returns to the best sequence at first, as a share of what may be spent.
        returning_heat: f64 = 0.05, FACTOR;
        /// Share of the excess that is worth all that may be spent, at first.
        worth: f64 = 0.33, (1e-3, 1.0);
    }
}

part! {
    /// Annealing of the best plan for time.
    Reannealing {
        /// Moves per iteration of the round before.
        moves: u64 = 20, COUNT;
        /// Moves per node without which it is not tried.
        least_moves_per_node: u64 = 10, COUNT;
        /// Moves per node at most.
        most_moves_per_node: u64 = 300, COUNT;
        /// Heat of the first of three, which take turns, as a multiple of the usual.
        first_heat: f64 = 0.03, FACTOR;
        /// Heat of the second.
        second_heat: f64 = 0.1, FACTOR;
        /// Heat of the third.
        third_heat: f64 = 0.01, FACTOR;
    }
}
