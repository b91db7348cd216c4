//! What the strategies of a portfolio leave for each other, besides the best plan and bound, which stand in the [`Incumbent`].
//!
//! Each field says who writes it and who reads it. What one strategy alone needs is not here: it lies in that strategy.

use rk_plan::Graph;

use crate::bound::CutSolution;
use crate::improve::lns::Solution;
use crate::improve::population::Population;
use crate::params::Params;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::prover::Prover;
use crate::portfolio::worthwhile::{is_far, lists_lower_the_peak, moves};
use crate::state::flat_graph::FlatGraph;

/// Moves of an annealing of the first round at most, where another order may pay and where it is only one more start.
const MOVES: (u64, u64) = (100_000, 25_000);
/// A round stalls that gains less than one part in this many of the base time.
const LEAST_GAIN: u64 = 10_000;
/// No round stalls before this many were made; each is as long as all before.
const LEAST_ROUNDS: u32 = 5;

/// What one portfolio has in common.
pub(crate) struct Blackboard<'m> {
    pub(crate) model: &'m FlatGraph,
    /// The searches that race: strategies that find starts add to it, the race runs it, halving thins it.
    pub(crate) population: Population<'m>,
    /// The last round of the race: the race writes it, and [`crate::portfolio::strategy::When`] reads it.
    pub(crate) round: Round,
    /// The race has found the clock at its end, and no packing has given it more time.
    pub(crate) time_is_over: bool,
    /// From the bound by cuts to the replays.
    pub(crate) cuts: Cuts,
    /// An order to build starts on besides the given one: from order-annealing, given up by the replays where it does not help.
    pub(crate) other_order: Option<Vec<u32>>,
    /// Moves of an annealing that competes with the searches; none where another order does not pay. The race decides on it.
    pub(crate) rivalry: Option<u64>,
    /// Searches for proofs, which proofs and the search for any plan go on with.
    pub(crate) prover: Prover<'m>,
    order_matters: Option<bool>,
}

/// What good cuts say.
#[derive(Default)]
pub(crate) struct Cuts {
    /// What they hold, best first, for the replays.
    pub(crate) held: Vec<CutSolution>,
    /// The first of them once it was replayed, for orders in which nodes wait.
    pub(crate) best: Option<CutSolution>,
    /// The node of the best cut.
    pub(crate) at: Option<u32>,
}

/// The last round of the race.
#[derive(Default)]
pub(crate) struct Round {
    /// Rounds so far.
    pub(crate) count: u32,
    /// It was made in this sweep through the table.
    pub(crate) is_fresh: bool,
    /// Iterations of all searches together.
    pub(crate) made: u64,
    /// Ticks that the best plan won in it.
    gained: u64,
    /// Rounds without gain in a row, this one included.
    pub(crate) idle: u32,
    /// A late start has joined after it.
    pub(crate) has_late: bool,
}

impl Round {
    /// The number of the last round, from zero.
    pub(crate) fn index(&self) -> u32 {
        self.count.saturating_sub(1)
    }

    /// Counts a round.
    pub(crate) fn close(&mut self, made: u64, before: Option<u64>, after: Option<u64>) {
        let after = after.unwrap_or(u64::MAX);
        let gained = before.map_or(u64::MAX, |before| before.saturating_sub(after));
        let idle = if gained == 0 { self.idle + 1 } else { 0 };
        *self = Self { count: self.count + 1, is_fresh: true, made, gained, idle, has_late: false };
    }

    /// It gained nothing.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.idle > 0
    }

    /// It gained next to nothing, though it was as long as all before.
    pub(crate) fn is_stalled(&self, base_time: u64) -> bool {
        self.count > LEAST_ROUNDS && self.gained < base_time / LEAST_GAIN
    }
}

impl<'m> Blackboard<'m> {
    pub(crate) fn new(graph: &'m Graph, model: &'m FlatGraph, params: &'m Params) -> Self {
        Self {
            model,
            population: Population::new(model, params),
            round: Round::default(),
            time_is_over: false,
            cuts: Cuts::default(),
            other_order: None,
            rivalry: None,
            prover: Prover::new(graph, &params.proofs),
            order_matters: None,
        }
    }

    /// Adds starts to the race, each with a seed of its own.
    pub(crate) fn enter_starts<'s>(
        &mut self,
        task: &Incumbent,
        starts: impl IntoIterator<Item = &'s Solution>,
    ) {
        for start in starts {
            let seed = task.request.seed.wrapping_add(self.population.len() as u64);
            self.population.enter(&start.nodes, task.budget, seed);
        }
    }

    /// Adds starts that took longer to make: once the race is on, the best of them after rounds of their own.
    pub(crate) fn enter_late(&mut self, task: &mut Incumbent, starts: &[Solution]) {
        if self.round.count == 0 {
            return self.enter_starts(task, starts);
        }
        self.round.has_late |= self.population.enter_best_of(task, starts) > 0;
    }

    /// Adds a plan that was found during the race.
    pub(crate) fn enter(&mut self, task: &Incumbent, nodes: &[u32]) {
        self.population.enter(nodes, task.budget, task.request.seed);
    }

    /// Whether annealing over the order pays: a list schedule alone lowers the peak, or nothing else had found a plan when that was
    /// asked first.
    pub(crate) fn order_matters(&mut self, task: &Incumbent) -> bool {
        *self.order_matters.get_or_insert_with(|| !task.has_plan() || lists_lower_the_peak(task))
    }

    /// Moves of an annealing of the first round.
    pub(crate) fn moves(&mut self, task: &Incumbent) -> u64 {
        let pays = self.order_matters(task) && is_far(task);
        moves(task).min(if pays { MOVES.0 } else { MOVES.1 })
    }
}
