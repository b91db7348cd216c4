//! Planning per class of equal blocks: solved once, broadcast, judged in each place, refined.
//!
//! 1. *Solve*: the options of a block ([`crate::rockmate`]) are found once per class. Blocks are equal when their times, sizes
//!    and wiring are ([`crate::blocks::signature`]). `--rk-annotate-cost` gives equal nodes equal costs, so that blocks which
//!    stage `blocks` proved equal are equal here, even if their costs were measured one by one.
//! 2. *Broadcast*: the dynamic program over the chain chooses an option for every block, wherever it stands.
//! 3. *Judge*: what comes out is a sequence like any other, and [`Task::offer`] believes none of it.
//! 4. *Refine*: the same choice in every place leaves up to a block's worth of bytes unused, and blocks near the end of the
//!    forward part live shorter than those at its start. A local search from the broadcast plan uses this. It ends when a
//!    round gains next to nothing, so that the whole takes a fraction of what planning from nothing takes.
//!
//! Where there is no chain, there is one block, and this is greedy planning with a refinement.
//!
//! Source: Zhao et al., "Rockmate", ICML 2023, for 1 and 2. Not here: bounds; `auto` has them.

use crate::auto::first_attempt;
use crate::model::{Model, from_sequence};
use crate::rockmate::rockmate_stages;
use crate::rotor::by_chain;
use crate::search::Search;
use crate::solver::Solver;
use crate::task::Task;

/// Blocks of one and of two separators: a layer of a transformer is two. Larger ones choose little better, and the refinement finds
/// that too; their options take a time that grows with the square of the block.
const MERGES: [usize; 2] = [1, 2];
/// Nodes of a block, on average, beyond which it is not worth the while: long chains come merged already.
const LARGEST_BLOCK: usize = 64;
/// Iterations of the refinement per node before its gain is looked at, and the most of them.
const ROUND_PER_NODE: u64 = 4;
const LONGEST_ROUND: u64 = 2_000;
/// A round that gains less than this share of the base time is the last but [`PATIENCE`].
const LEAST_GAIN: u64 = 20_000;
/// Rounds in a row that may gain next to nothing.
const PATIENCE: u32 = 2;

/// Solve, broadcast, refine.
pub(crate) fn classes(task: &mut Task) {
    for merge in MERGES {
        let stages = rockmate_stages(task.request.graph, merge);
        let blocks = stages.len();
        tracing::info!(blocks, "chain with options");
        by_chain(task, stages, Solver::Classes);
        if 2 * task.model.len() > LARGEST_BLOCK * blocks {
            break;
        }
    }
    if task.plan.is_none() {
        first_attempt(task);
    }
    refine(task);
}

fn refine(task: &mut Task) {
    let Some(plan) = task.plan.as_ref().filter(|_| !task.is_settled()) else { return };
    let start = from_sequence(&plan.sequence);
    let (seed, budget, clock, goal) = (task.request.seed, task.budget, task.clock, task.goal().0);
    // Taken out, so that the search can borrow it while the task collects what it finds.
    let model = std::mem::replace(&mut task.model, Model::empty());
    let mut search = Search::new(&model, &start, budget, seed);
    let round = (ROUND_PER_NODE * model.len() as u64).min(LONGEST_ROUND);
    let mut idle = 0;
    let mut before = search.best.cost;
    while idle <= PATIENCE && !clock.expired() && !search.run(round, goal, &clock) {
        let gained = before - search.best.cost;
        tracing::info!(gained, iterations = search.iterations, "refined");
        idle = if gained < task.base_time / LEAST_GAIN { idle + 1 } else { 0 };
        before = search.best.cost;
    }
    task.offer(&search.best.nodes, Solver::Classes);
    task.exhausted = !clock.expired();
    task.model = model;
}
