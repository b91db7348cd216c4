//! The same runs in another order, so that their buffers pack into a lower arena.
//!
//! A plan whose peak fits may still need a larger arena: sizes do not fit into the holes that others leave. Nothing has to run
//! once more for that: [`crate::joint`] moves runs and buffers at once until the arena is low enough. The order that it
//! ends in is packed once more by itself, since a plan is passed on as a sequence and an effort, and whoever packs it
//! (`rk_plan::arena::pack_with`) has to find the same layout; where that packing is too high, the goal is lowered.
//!
//! Everything is counted, the clock only stops. The arena never grows. Not here: plans of another time ([`crate::packed`]).

use rk_plan::Bytes;
use rk_plan::arena::{Arena, pack_with};

use crate::clock::Clock;
use crate::joint::Joint;
use crate::model::Model;
use crate::request::{Addresses, Plan, Request};

/// Larger plans are left alone: they are steps of training, which pack by themselves.
const MOST_RUNS: usize = 3000;
/// Goals, each lower than the one before by what the packing missed.
const GOALS: u32 = 6;
/// The share of the time for looking; the last packings take theirs too.
const LOOKING: f64 = 0.8;

/// What a layout has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Found again by whoever packs the sequence with the same effort.
    Repeatable,
    /// Any; if it is not found again, its effort is 0.
    Any,
}

/// Lowers the arena of a plan to `goal`, a function of the peak, if that can be had in the time. The plan has its arena.
pub(crate) fn compact(
    request: &Request,
    plan: Plan,
    addresses: Addresses,
    layout: Layout,
    goal: impl Fn(Bytes) -> Bytes,
    clock: &Clock,
) -> Plan {
    let Addresses { alignment, effort } = addresses;
    let low = |arena: &Arena| arena.size <= goal(arena.lower_bound);
    let small = plan.sequence.0.len() <= MOST_RUNS;
    let Some(arena) = plan.arena.clone().filter(|arena| small && !low(arena)) else { return plan };
    let model = Model::aligned(request.graph, alignment);
    let most = i64::try_from(request.budget.max(arena.lower_bound).0).unwrap_or(i64::MAX);
    let mut joint = Joint::new(request.graph, &model, &plan, &arena, most, request.seed);
    let (mut best, mut lowest) = (plan.clone(), arena.size);
    let mut missed = 0;
    let looking = clock.part(LOOKING);
    for round in 0..GOALS {
        let reached = joint.lower(|peak| goal(Bytes(peak)).0.saturating_sub(missed), &looking);
        let Some(found) = joint.plan(request.graph, &plan).filter(|found| found.trace.peak <= request.budget)
        else {
            break;
        };
        let again = pack_with(request.graph, &found.sequence, &found.trace, alignment, effort);
        missed = missed.saturating_add(again.size.0.saturating_sub(goal(again.lower_bound).0));
        let (height, packed) = (found.arena.as_ref().map_or(0, |arena| arena.size.0), again.size.0);
        tracing::debug!(round, reached, height, packed, peak = found.trace.peak.0, "compacted");
        let done = low(&again);
        let repeated = Plan { arena: Some(again), ..found.clone() };
        for candidate in [Some(found).filter(|_| layout == Layout::Any), Some(repeated)].into_iter().flatten()
        {
            let size = candidate.arena.as_ref().map_or(lowest, |arena| arena.size);
            if size < lowest || (size == lowest && low_enough(&candidate, &goal)) {
                (best, lowest) = (candidate, size);
            }
        }
        if done || !reached || low_enough(&best, &goal) || looking.expired() {
            break;
        }
    }
    best
}

fn low_enough(plan: &Plan, goal: &impl Fn(Bytes) -> Bytes) -> bool {
    plan.arena.as_ref().is_some_and(|arena| arena.size <= goal(arena.lower_bound))
}
