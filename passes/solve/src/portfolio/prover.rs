//! Closing the gap by proof: a search over states for small graphs at loose budgets, and a chain of cuts below the plan at hand, where
//! CBC has a chance.
//!
//! Both go on from step to step where the one before ended. What is played out is a start for the local search, and often already the
//! optimum. When that is worth its time is asked in [`crate::portfolio::prove`].

use rk_plan::{Graph, Time, working_set};

use crate::bound::a_star::{Found, MOST_NODES, States};
use crate::bound::disjunctive_branching::Branches;
use crate::bound::{CHAINED, order_free_below};
use crate::construct::greedy::greedy;
use crate::improve::lns::Solution;
use crate::params::Proofs;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::request::enough_of_a_bound;
use crate::portfolio::solver::Solver;

/// Searches for a proof, to go on with.
pub(crate) struct Prover<'m> {
    graph: &'m Graph,
    params: &'m Proofs,
    /// The search over states, where there is one, and the work that it may do next.
    states: Option<(States, u64)>,
    /// The chains of cuts, likewise.
    branches: Option<Branches<'m>>,
}

impl<'m> Prover<'m> {
    pub(crate) fn new(graph: &'m Graph, params: &'m Proofs) -> Self {
        Self { graph, params, states: None, branches: None }
    }

    /// What a proof in a share of the time left plays out, repaired.
    pub(crate) fn starts(&mut self, task: &mut Incumbent, share: f64) -> Vec<Solution> {
        let mut starts = Vec::new();
        for nodes in self.prove(task, share) {
            let seed = task.request.seed;
            if let Some(best) = greedy(&task.model, &nodes, task.budget, seed, 2, &task.clock) {
                task.offer(&best.nodes, Solver::Cut);
                starts.push(best);
            }
        }
        starts
    }

    /// Raises the bound of a task in a share of the time left; offers what the chain plays out, and returns those sequences that are
    /// over budget.
    fn prove(&mut self, task: &mut Incumbent, share: f64) -> Vec<Vec<u32>> {
        let graph = self.graph;
        self.by_states(task);
        if task.is_settled() || graph.len() > CHAINED {
            return Vec::new();
        }
        let known = task.best_cost().map(|cost| enough_of_a_bound(Time(cost), Time(task.base_time)));
        let clock = task.clock.part(share);
        let mut bound = order_free_below(graph, task.request.budget, known, clock.left());
        if !bound.is_infeasible() && known.is_none_or(|known| bound.time < known) {
            let new = || Branches::new(graph, task.request.budget, bound.node);
            let mut branches = self.branches.take().unwrap_or_else(new);
            bound.raise_by(&mut branches, known, task.programs(clock.left()));
            self.branches = Some(branches);
        }
        if bound.is_infeasible() {
            task.prove_infeasible(bound.node);
            return Vec::new();
        }
        task.raise_bound(bound.time);
        let sequences: Vec<Vec<u32>> =
            bound.sequences.iter().map(crate::state::flat_graph::from_sequence).collect();
        sequences.iter().for_each(|nodes| task.offer(nodes, Solver::Cut));
        sequences
    }

    /// Goes on with the search over states, four times as long as before.
    fn by_states(&mut self, task: &mut Incumbent) {
        let Some(known) = task.best_cost().filter(|_| !task.is_settled()) else { return };
        // Tight budgets are out of its reach.
        if (known - task.base_time).saturating_mul(self.params.states_overhead_parts) > task.base_time {
            return;
        }
        let (mut states, looks) = match self.states.take() {
            Some(earlier) => earlier,
            None => match States::new(self.graph, &task.model, task.request.budget) {
                Some(states) => (states, self.params.states_first_looks),
                None => return,
            },
        };
        go_on(task, &mut states, looks, &task.clock.part(self.params.states_share));
        self.states = Some((states, looks.saturating_mul(4)));
    }
}

/// The search over states alone, from the plan at hand, until it ends or the clock stops it.
pub(crate) fn by_states_alone(task: &mut Incumbent) {
    match States::new(task.request.graph, &task.model, task.request.budget) {
        Some(mut states) if !task.is_settled() => {
            task.exhausted = false;
            let clock = task.clock;
            go_on(task, &mut states, u64::MAX, &clock);
        }
        Some(_) => {}
        None => {
            tracing::warn!(
                nodes = task.model.len(),
                most = MOST_NODES,
                "too large for the search over states"
            )
        }
    }
}

fn go_on(task: &mut Incumbent, states: &mut States, looks: u64, clock: &Clock) {
    let base = task.base_time;
    let known = task.best_cost().map_or(u64::MAX, |known| known - base);
    let found = states.run(known, looks, clock);
    if let Some(nodes) = states.plan() {
        task.offer(&nodes, Solver::States);
    }
    tracing::debug!(?found, work = ?states.work(), milliseconds = task.clock.elapsed().as_millis() as u64, "states");
    match (found, task.best_cost()) {
        (Found::Proved, Some(best)) => task.raise_bound(Time(best)),
        (Found::Proved, None) => task.prove_infeasible(working_set(task.request.graph).1),
        (Found::Bound(due), _) => task.raise_bound(Time(base.saturating_add(due))),
    }
}
