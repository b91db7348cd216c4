//! The searches that race: rounds of the same number of iterations for each, after which the better half goes on for twice as long.
//!
//! The first round is the shorter the more nodes there are: what is won by looking at many starts for long does not grow with the graph,
//! and what an iteration takes does. Those that lose early wait, and come back when the winner is at rest.
//!
//! Source: Jamieson and Talwalkar, "Non-stochastic best arm identification", 2016, for the halving.

use crate::improve::lns::{Search, Solution};
use crate::params::Params;
use crate::portfolio::clock::counted;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::state::flat_graph::FlatGraph;

/// Searches, some of which wait for another chance.
pub(crate) struct Population<'m> {
    model: &'m FlatGraph,
    params: &'m Params,
    searches: Vec<Search<'m>>,
    benched: Vec<Search<'m>>,
    /// Iterations of each search in the first round.
    pub(crate) first_round: u64,
    /// Iterations of each search in the next round.
    pub(crate) iterations: u64,
}

impl<'m> Population<'m> {
    pub(crate) fn new(model: &'m FlatGraph, params: &'m Params) -> Self {
        let race = &params.race;
        let nodes = model.len().max(1) as u64;
        let first_round = (race.first_round * race.few_nodes.max(nodes) / (nodes * nodes)).clamp(20, 400);
        Self {
            model,
            params,
            searches: Vec::new(),
            benched: Vec::new(),
            first_round,
            iterations: first_round,
        }
    }

    /// How many search.
    pub(crate) fn len(&self) -> usize {
        self.searches.len()
    }

    /// The best plan of those that search; after a halving, of all.
    pub(crate) fn best(&self) -> Option<&Solution> {
        self.searches.first().map(|search| &search.best)
    }

    /// Adds a search.
    pub(crate) fn enter(&mut self, nodes: &[u32], budget: i64, seed: u64) {
        self.searches.push(Search::new(self.model, nodes, budget, seed, &self.params.local_search));
    }

    /// A round for all. The iterations that it stands for.
    pub(crate) fn run(&mut self, task: &mut Incumbent) -> u64 {
        let made = self.iterations.saturating_mul(self.searches.len() as u64);
        run_and_offer(task, &mut self.searches, self.iterations);
        made
    }

    /// Leaves the better half, and two of each cost at most; the rest waits, if it may come back. The next round is twice as long.
    pub(crate) fn halve(&mut self, may_come_back: bool) {
        let lost = halve(&mut self.searches);
        if may_come_back {
            self.benched.extend(lost);
        }
        self.iterations = self.iterations.saturating_mul(2);
    }

    /// Brings some of those that lost early back, for shorter rounds. Where there are none, the winner goes on in long ones.
    pub(crate) fn revive(&mut self) {
        let race = &self.params.race;
        let back = revived(&mut self.benched, self.searches[0].iterations / race.behind, race.revived);
        if !back.is_empty() {
            self.searches.extend(back);
            self.iterations = (self.iterations / race.behind).max(1);
        }
    }

    /// Adds searches from the best of some starts, which race among themselves first. How many.
    pub(crate) fn enter_best_of(&mut self, task: &mut Incumbent, starts: &[Solution]) -> usize {
        let searches = starts.iter().zip(task.request.seed..);
        let mut searches: Vec<Search> = searches
            .map(|(start, seed)| {
                Search::new(self.model, &start.nodes, task.budget, seed, &self.params.local_search)
            })
            .collect();
        let mut iterations = self.first_round;
        while searches.len() > self.params.race.newcomers {
            run_and_offer(task, &mut searches, iterations);
            halve(&mut searches);
            iterations *= 2;
        }
        let joined = searches.len();
        self.searches.extend(searches);
        joined
    }
}

/// The same number of iterations for every search. Each depends on its own seed only, so threads change nothing else.
fn run_and_offer(task: &mut Incumbent, searches: &mut [Search], iterations: u64) {
    let (goal, clock) = (task.enough(), task.clock);
    // Work is counted on this thread.
    let threads = if counted::is_on() { 1 } else { task.request.threads.clamp(1, 64) };
    for group in searches.chunks_mut(threads) {
        if let [search] = group {
            search.run(iterations, goal, &clock);
            continue;
        }
        std::thread::scope(|scope| {
            for search in group {
                scope.spawn(|| search.run(iterations, goal, &clock));
            }
        });
    }
    for search in searches {
        task.offer(&search.best.nodes, Solver::Local);
    }
}

/// Sorts by cost, and takes out what is not among the better half.
fn halve<'m>(searches: &mut Vec<Search<'m>>) -> Vec<Search<'m>> {
    searches.sort_by_key(|search| search.best.cost);
    let half = searches.len().div_ceil(2);
    thin(searches);
    searches.split_off(half.min(searches.len()))
}

/// Leaves two of each cost: searches that ended at one cost are nearly always at one plan. They are sorted by cost.
fn thin(searches: &mut Vec<Search>) {
    let costs: Vec<u64> = searches.iter().map(|search| search.best.cost).collect();
    let mut index = 0;
    searches.retain(|_| {
        index += 1;
        index < 3 || costs[index - 1] != costs[index - 3]
    });
}

/// The best of those that lost early, for when the winner is at rest: it may sit in a place with no way out.
fn revived<'m>(benched: &mut Vec<Search<'m>>, iterations: u64, most: usize) -> Vec<Search<'m>> {
    benched.sort_by_key(|search| (search.iterations > iterations, search.best.cost));
    let young = benched.partition_point(|search| search.iterations <= iterations);
    benched.drain(..young.min(most)).collect()
}

#[cfg(test)]
mod tests {
    use rk_plan::base_trace;

    use super::*;
    use crate::synthetic::{Family, graph};

    #[test]
    fn those_that_lost_early_come_back_best_first() {
        let graph = graph(Family::Vgg, 60, 0);
        let model = FlatGraph::new(&graph);
        let base: Vec<u32> = (0..model.len() as u32).collect();
        let budget = base_trace(&graph).peak.0 as i64;
        let params = Params::default();
        let behind = params.race.behind;
        let mut population = Population::new(&model, &params);
        population.benched = [(50, 9), (10, 7), (20, 5), (10, 6), (20, 8), (90, 1)]
            .map(|(iterations, cost)| {
                let mut search = Search::new(&model, &base, budget, 0, &params.local_search);
                (search.iterations, search.best.cost) = (iterations, cost);
                search
            })
            .into();
        let costs = |searches: &[Search]| searches.iter().map(|search| search.best.cost).collect::<Vec<_>>();
        assert_eq!(costs(&revived(&mut population.benched, 20, 3)), [5, 6, 7]);
        assert_eq!(costs(&revived(&mut population.benched, 20, 3)), [8]);
        assert!(revived(&mut population.benched, 20, 3).is_empty());
        population.enter(&base, budget, 0);
        (population.searches[0].iterations, population.iterations) = (50 * behind, 800);
        population.revive();
        assert_eq!(population.iterations, 800 / behind);
        assert_eq!((population.len(), population.benched.len()), (2, 1));
        // Nobody is left that is so far behind: rounds stay as long as they are.
        population.revive();
        assert_eq!((population.iterations, population.len()), (800 / behind, 2));
        assert_eq!(costs(&population.benched), [1]);
    }
}
