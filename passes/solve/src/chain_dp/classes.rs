//! Planning per class of equal blocks: solved once, broadcast, judged in each place, refined.
//!
//! 1. *Solve*: the ways through a block, and through short runs of blocks, are found once per class ([`crate::chain_dp::rcsp`]). Blocks are
//!    equal when their times, sizes and wiring are ([`crate::chain_dp::blocks::signature`]). `--rk-annotate-cost` gives equal nodes equal
//!    costs, so that blocks which stage `blocks` proved equal are equal here, even if their costs were measured one by one.
//! 2. *Broadcast*: one walk along the chain chooses a way for every block, wherever it stands.
//! 3. *Judge*: what comes out is a sequence like any other, and [`Incumbent::offer`] believes none of it. The walk counts with a
//!    little caution, so it is made for a few budgets around the one asked for; what overshoots is repaired.
//! 4. *Refine*: the race of [`crate::portfolio::smaller_portfolios`] from these plans, from cuts of the whole graph, which see across
//!    blocks, and from coarse chains ([`super::coarse`]), which come back to a block more than once. One look at all nodes ranks the
//!    cuts and is a bound; the best ones are then solved with less and less room. It ends when as many iterations gain next to nothing
//!    as had been made before, and the plan is at most 0.1 points of overhead above the bound.
//!
//! Where fewer than half of the nodes stand in blocks that occur again, there is nothing to broadcast, and the whole graph is
//! planned as by `auto`.
//!
//! Source: Zhao et al., "Rockmate", ICML 2023, for 1 and 2.

use std::collections::BTreeMap;

use rk_plan::{Bytes, NodeId, Time, base_trace, judge};

use crate::bound::{held_at, order_free_below};
use crate::chain_dp::blocks::{Block, chain, signature};
use crate::chain_dp::coarse::{BLOCKS, coarse_starts};
use crate::chain_dp::rcsp::BlockOptions;
use crate::construct::greedy::greedy;
use crate::improve::lns::Solution;
use crate::portfolio::auto::auto;
use crate::portfolio::first_attempt::first_attempt;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::scheduler::{run, run_from};
use crate::portfolio::smaller_portfolios::refine;
use crate::portfolio::solver::Solver;
use crate::portfolio::starts::replayed;
use crate::portfolio::worthwhile::cuts_fit;
use crate::state::flat_graph::from_sequence;

/// Budgets of the walk, in per mille of the one that would fill the memory. What a plan overshoots is repaired.
const BUDGETS: [u64; 4] = [1000, 985, 1015, 1030];
/// Budgets of the cuts, in per mille of the one asked for: what a cut overlooks needs some room.
const ROOMS: [u64; 4] = [1000, 990, 970, 930];
/// Nodes that are cut at: where the given order needs most, and those whose bound is best.
const CUTS: usize = 3;
/// Starts that are refined; those of one cost are one plan, or as good as.
const FEW: usize = 4;
/// The part of the time left in which all nodes are looked at.
const SCAN: f64 = 0.4;

/// Solve, broadcast, refine.
pub(crate) fn classes(task: &mut Incumbent) {
    let chain = chain(task.request.graph);
    let repeated = repeated(task, &chain);
    tracing::info!(blocks = chain.len(), repeated, nodes = task.model.len(), "chain");
    if 2 * repeated < task.model.len() {
        return run(task, auto(&task.request.params));
    }
    first_attempt(task);
    let mut starts = broadcast(task, &chain);
    starts.extend(cuts(task));
    starts.extend(coarse_starts(task, 0..BLOCKS.len()));
    starts.sort_by_key(|start| start.cost);
    starts.dedup_by_key(|start| start.cost);
    starts.truncate(FEW);
    if !task.is_settled() {
        run_from(task, &starts, refine(&task.request.params));
    }
}

/// Nodes of blocks that are not alone in their class.
fn repeated(task: &Incumbent, chain: &[Block]) -> usize {
    let mut classes: BTreeMap<Vec<u64>, Vec<usize>> = BTreeMap::new();
    for block in chain {
        let nodes = block.forward.len() + block.backward.len();
        classes.entry(signature(task.request.graph, block)).or_default().push(nodes);
    }
    classes.values().filter(|members| members.len() > 1).flatten().sum()
}

/// Plans by walks along the chain, repaired.
fn broadcast(task: &mut Incumbent, chain: &[Block]) -> Vec<Solution> {
    let (graph, clock) = (task.request.graph, task.clock);
    let ways = BlockOptions::new(graph, chain, task.request.save_budgets, &clock);
    tracing::info!(classes = ways.classes(), milliseconds = clock.elapsed().as_millis() as u64, "ways");
    let asked = task.request.budget.0;
    // How much of its budget a walk uses: operands that are overwritten and gradients that go early make it less.
    let used = ways.fastest(Bytes(asked)).and_then(|sequence| judge(graph, &sequence).ok());
    let used = used.map_or(asked, |trace| trace.peak.0.clamp(asked / 2, asked));
    let mut starts = Vec::new();
    for share in BUDGETS {
        if clock.expired() {
            break;
        }
        let budget =
            u128::from(asked) * u128::from(asked) / u128::from(used.max(1)) * u128::from(share) / 1000;
        let Some(sequence) = ways.fastest(Bytes(u64::try_from(budget).unwrap_or(u64::MAX))) else { continue };
        let nodes = from_sequence(&sequence);
        if let Some(best) = greedy(&task.model, &nodes, task.budget, task.request.seed, 1, &clock) {
            let milliseconds = clock.elapsed().as_millis() as u64;
            tracing::info!(share, time = best.cost, milliseconds, "walk");
            task.offer(&best.nodes, Solver::Classes);
            starts.push(best);
        }
    }
    starts
}

/// Plans that hold what is best held while a node runs: unlike ways, which end with their block. Raises the bound.
fn cuts(task: &mut Incumbent) -> Vec<Solution> {
    let (graph, clock) = (task.request.graph, task.clock);
    if !cuts_fit(task) {
        return Vec::new();
    }
    let (budget, known) = (task.request.budget, task.best_cost().map(Time));
    let bound = order_free_below(graph, budget, known, clock.left().mul_f64(SCAN));
    if bound.is_infeasible() {
        task.prove_infeasible(bound.node);
        return Vec::new();
    }
    task.raise_bound(bound.time);
    let mut starts: Vec<Solution> = bound.starts.iter().filter_map(|set| replayed(task, set)).collect();
    let mut nodes: Vec<NodeId> = bound.starts.iter().map(|set| set.at).collect();
    nodes.insert(0, NodeId::from_index(base_trace(graph).peak_step));
    nodes.dedup();
    nodes.truncate(CUTS);
    for (&node, share) in nodes.iter().flat_map(|node| ROOMS.map(|share| (node, share))) {
        if clock.expired() || task.is_settled() {
            break;
        }
        for set in held_at(graph, Bytes(budget.0 / 1000 * share), node, clock.left()) {
            starts.extend(replayed(task, &set));
        }
    }
    tracing::info!(milliseconds = clock.elapsed().as_millis() as u64, "cuts");
    starts
}
