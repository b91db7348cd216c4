//! Starts of the local search that are made before it: plans that are far from each other.
//!
//! - what cuts hold, played out in the given order and in an annealed one ([`crate::improve::order_annealing`]): a moment each
//! - coarse chains ([`crate::chain_dp::coarse`])
//!
//! What a start costs says little about what the search makes of it, so there are many. Those that take longer to make are in
//! [`crate::portfolio::late_starts`].

use std::ops::{ControlFlow, Range};
use std::time::Duration;

use rk_plan::{Bytes, NodeId};

use crate::bound::{CutSolution, held_at, roughly_held_at};
use crate::chain_dp::coarse::{BLOCKS, coarse_starts};
use crate::construct::greedy::greedy;
use crate::construct::replay::replay;
use crate::improve::lns::Solution;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::{cuts_fit, gap_is_large};

/// So many plans from cuts at nodes around the best one are worth a search.
const NEARBY_KEPT: usize = 8;
/// So many nodes on either side of the best one are cut at.
const ASIDE: usize = 3;
/// The most that the cuts at one smaller budget may take.
const LONGEST: Duration = Duration::from_secs(2);
/// The budgets of cuts at nodes around the best one, in per mille.
const ROOMS: [u64; 4] = [1000, 970, 930, 880];
/// Chains of the first starts; the others are late.
const CHAINS: usize = 2;

/// Adds replays of what cuts hold to the race. Each look at other cuts, at smaller budgets or at nodes around the best one, has its share
/// of the time left.
pub(crate) struct CutReplays;

impl Strategy for CutReplays {
    fn name(&self) -> &'static str {
        "cut-replays"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, share: f64) -> ControlFlow<()> {
        let starts = held_starts(task, board, share);
        board.enter_starts(task, &starts);
        ControlFlow::Continue(())
    }
}

/// Adds plans from chains of blocks to the race.
pub(crate) struct CoarseChains {
    name: &'static str,
    which: Range<usize>,
}

impl CoarseChains {
    /// Chains of few large blocks.
    pub(crate) fn coarse() -> Self {
        Self { name: "coarse-chains", which: 0..CHAINS }
    }

    /// The other sizes.
    pub(crate) fn finer() -> Self {
        Self { name: "finer-chains", which: CHAINS..BLOCKS.len() }
    }
}

impl Strategy for CoarseChains {
    fn name(&self) -> &'static str {
        self.name
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let starts = coarse_starts(task, self.which.clone());
        board.enter_late(task, &starts);
        ControlFlow::Continue(())
    }
}

/// Replays of the held sets of the bound, and of cuts at slightly smaller budgets: a cut sees one instant only, and the
/// repair of what it overlooks costs less when some bytes are left.
fn held_starts(task: &mut Incumbent, board: &mut Blackboard, share: f64) -> Vec<Solution> {
    let mut sets = std::mem::take(&mut board.cuts.held);
    sets.truncate(4);
    let at = sets.first().map(|set| set.at);
    board.cuts.best = sets.first().cloned();
    let mut starts = Vec::new();
    for per_mille in [10, 30, 70, 0] {
        let given: Vec<Solution> = sets.iter().filter_map(|set| replayed(task, set)).collect();
        starts.extend(replayed_in_other_order(task, board, &sets, &given));
        starts.extend(given);
        if per_mille == 0 || task.is_settled() || !cuts_fit(task) || !worth_it(task) {
            break;
        }
        let budget = Bytes(task.request.budget.0 / 1000 * (1000 - per_mille));
        let time = task.clock.left().mul_f64(share).min(LONGEST);
        sets = at.map_or_else(Vec::new, |at| held_at(task.request.graph, budget, at, time));
    }
    if let Some(at) = at.filter(|_| gap_is_large(task) && worth_it(task)) {
        starts.extend(nearby_cuts(task, board, at, share));
    }
    starts
}

/// Where not one cut fits, more of the same will not, as far as there is an answer without them.
pub(crate) fn worth_it(task: &Incumbent) -> bool {
    task.has_plan() || task.plan.is_none()
}

/// The best of many replays of rounded cuts, at nodes around one and with less and less room. What a cut overlooks decides how much
/// of it is left in the end, and to try is cheaper than to tell.
fn nearby_cuts(task: &mut Incumbent, board: &Blackboard, at: NodeId, share: f64) -> Vec<Solution> {
    let params = &task.request.params.starts;
    let (graph, last) = (task.request.graph, task.model.len() - 1);
    let (clock, stride) = (task.clock.part(share), task.model.len() / params.node_strides);
    let mut found = Vec::new();
    for steps in 0..=2 * ASIDE {
        let node = NodeId::from_index((at.index() + steps * stride).saturating_sub(ASIDE * stride).min(last));
        for share in ROOMS {
            if clock.expired() {
                break;
            }
            let set = roughly_held_at(graph, Bytes(task.request.budget.0 / 1000 * share), node);
            let Some(set) = set else { continue };
            found.extend(replayed(task, &set));
            found.extend(board.other_order.as_ref().and_then(|order| replayed_in(task, order, &set)));
        }
    }
    found.sort_by_key(|best| best.cost);
    found.dedup_by_key(|best| best.cost);
    found.truncate(NEARBY_KEPT);
    found
}

/// A plan that holds what a cut holds.
pub(crate) fn replayed(task: &mut Incumbent, set: &CutSolution) -> Option<Solution> {
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    replayed_in(task, &base, set)
}

fn replayed_in(task: &mut Incumbent, order: &[u32], set: &CutSolution) -> Option<Solution> {
    let nodes = replay(&task.model, order, set.at.0, &evicted(task, set));
    let best = greedy(&task.model, &nodes, task.budget, task.request.seed, 2, &task.clock)?;
    task.offer(&best.nodes, Solver::Cut);
    Some(best)
}

/// The same in the other order, which is given up if it brings nothing better than the given one did.
fn replayed_in_other_order(
    task: &mut Incumbent,
    board: &mut Blackboard,
    sets: &[CutSolution],
    given: &[Solution],
) -> Vec<Solution> {
    let Some(order) = board.other_order.take() else { return Vec::new() };
    let starts: Vec<Solution> = sets.iter().filter_map(|set| replayed_in(task, &order, set)).collect();
    let least = |starts: &[Solution]| starts.iter().map(|best| best.cost).min().unwrap_or(u64::MAX);
    board.other_order = (least(&starts) < least(given)).then_some(order);
    starts
}

/// The outputs of what runs again, except those that are held nevertheless.
pub(crate) fn evicted(task: &Incumbent, set: &CutSolution) -> Vec<u32> {
    let graph = task.request.graph;
    let outputs = set.again.iter().flat_map(|&node| graph.node(node).writes.iter());
    let evicted = outputs.filter(|value| set.held.binary_search(value).is_err());
    evicted.map(|value| task.model.index[value.index()]).collect()
}
