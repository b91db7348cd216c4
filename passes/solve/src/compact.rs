//! The same runs in another order, so that their buffers pack into a lower arena.
//!
//! A plan whose peak fits may still need a larger arena: sizes do not fit into the holes that others leave. Nothing has to run
//! once more for that: [`crate::joint`] moves runs and buffers at once until the arena is low enough. The order that it
//! ends in is packed once more by itself, since a plan is passed on as a sequence and an effort, and whoever packs it
//! (`rk_plan::arena::pack_with`) has to find the same layout; where that packing is too high, the goal is lowered.
//!
//! Everything is counted, the clock only stops. The arena never grows. Not here: plans of another time ([`crate::packed`]).

use rk_plan::arena::pack_with;
use rk_plan::{Bytes, Sequence, judge};

use crate::clock::Clock;
use crate::joint::Joint;
use crate::model::Model;
use crate::request::{Addresses, Plan, Request};

/// Larger plans are left alone: they are steps of training, which pack by themselves.
const MOST_RUNS: usize = 3000;
/// Goals, each lower than the one before by what the packing missed.
const GOALS: u32 = 6;
/// Calm orders to begin with, one after the other: from some of them layouts are found at once, from others never.
const STARTS: usize = 64;
/// The share of the time for looking; the last packings take theirs too.
const LOOKING: f64 = 0.9;
/// Moves that calm the order before, and the share of the time for them.
const CALM: (u64, f64) = (100_000, 0.3);

/// What a layout has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// Found again by whoever packs the sequence with the same effort.
    Repeatable,
    /// Any; if it is not found again, its effort is 0.
    Any,
}

/// Lowers the arena of a plan to `goal`, a function of the peak, if that can be had in the time. The plan has its arena; its peak
/// does not fall below `floor`, unless it has.
pub(crate) fn compact(
    request: &Request,
    mut best: Plan,
    addresses: Addresses,
    layout: Layout,
    floor: Bytes,
    goal: impl Fn(Bytes) -> Bytes,
    clock: &Clock,
) -> Plan {
    let Some(arena) = best.arena.as_ref().filter(|arena| arena.size > goal(arena.lower_bound)) else {
        return best;
    };
    if best.sequence.0.len() > MOST_RUNS {
        return best;
    }
    let model = Model::aligned(request.graph, addresses.alignment);
    let limits = (floor, request.budget.max(arena.lower_bound));
    let looking = clock.part(LOOKING);
    let origin = best.clone();
    for seed in (request.seed..).take(STARTS) {
        let mut joint = Joint::new(request.graph, &model, &origin, limits, seed);
        let calm = joint.calm(CALM.0, &looking.part(CALM.1));
        let Some(start) = packed(request, calm, &origin, addresses) else { break };
        tracing::debug!(seed, height = height(&start).0, peak = start.trace.peak.0, "calmed");
        let mut joint = Joint::new(request.graph, &model, &start, limits, seed);
        keep_lower(&mut best, start);
        let mut missed = 0;
        for _ in 0..GOALS {
            if low_enough(&best, &goal) || looking.expired() {
                return best;
            }
            let reached = joint.lower(|peak| goal(Bytes(peak)).0.saturating_sub(missed), &looking);
            let Some(found) = joint.plan(request.graph, &best) else { break };
            let again = packed(request, found.sequence.clone(), &found, addresses);
            tracing::debug!(seed, reached, height = height(&found).0, peak = found.trace.peak.0, "compacted");
            if layout == Layout::Any {
                keep_lower(&mut best, found);
            }
            let Some(again) = again else { break };
            missed = missed.saturating_add(height(&again).0.saturating_sub(goal(again.trace.peak).0));
            keep_lower(&mut best, again);
            if !reached {
                break;
            }
        }
    }
    best
}

/// The runs as a plan like another one, packed; `None` if they are no such plan.
fn packed(request: &Request, sequence: Sequence, like: &Plan, addresses: Addresses) -> Option<Plan> {
    let trace = judge(request.graph, &sequence).ok().filter(|trace| trace.time == like.trace.time)?;
    let arena = pack_with(request.graph, &sequence, &trace, addresses.alignment, addresses.effort);
    let fits = trace.peak <= request.budget.max(like.trace.peak);
    fits.then_some(Plan { sequence, trace, solver: like.solver, arena: Some(arena) })
}

fn height(plan: &Plan) -> Bytes {
    plan.arena.as_ref().map_or(Bytes(u64::MAX), |arena| arena.size)
}

/// Of arenas of one size the later one is kept: its layout can be found again.
fn keep_lower(best: &mut Plan, plan: Plan) {
    if height(&plan) <= height(best) {
        *best = plan;
    }
}

fn low_enough(plan: &Plan, goal: &impl Fn(Bytes) -> Bytes) -> bool {
    plan.arena.as_ref().is_some_and(|arena| arena.size <= goal(arena.lower_bound))
}
