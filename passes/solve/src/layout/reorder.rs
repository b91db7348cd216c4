//! The same runs in another order, so that their buffers fit into a lower arena.
//!
//! A plan whose peak fits may still need a larger arena: sizes do not fit into the holes that others leave. Nothing has to run
//! once more for that: [`crate::layout::ejection_chain`] moves runs and buffers at once until the arena is low enough. The layout that it finds
//! belongs to the plan, which is passed on with it. Packing the order that it ends in by itself seldom finds one as low, but costs little
//! and is tried, too. Where sizes are nearly multiples of one number, the search counts in that.
//!
//! Everything is counted, the clock only stops. An arena is never farther off in the end. Not here: plans of another time ([`crate::layout::trade_time`], [`crate::layout::fit_budget`]).

use rk_plan::arena::{Arena, pack_to};
use rk_plan::{Bytes, Sequence, judge};

use crate::layout::ejection_chain::EjectionChain;
use crate::portfolio::clock::Clock;
use crate::portfolio::request::{Addresses, Plan, Request};
use crate::state::flat_graph::FlatGraph;

/// Larger plans are left alone: each placement looks at all buffers, and there is no time for enough of them.
pub(crate) const MOST_RUNS: usize = 16_000;
/// Attempts, each with a calm order, one after the other: from some of them layouts are found at once, from others never.
const STARTS: usize = 64;
/// Moves that calm the order before the first of them, so that it comes soon, and before the others.
const CALM: (u64, u64) = (12_500, 100_000);
/// For what grains are off the goal falls by one byte in so many, or by one step more.
const LOST: u64 = 200;
/// The share of the usual effort for packing each order as it is.
const PACKINGS: u64 = 4;

/// Lowers the arena of a plan to `goal`, a function of the peak, if that can be had in the time; or gives one of its `alternatives`, plans of
/// the same time, one that is off by less. All have their arenas; peaks do not fall below `floor`, unless they have.
pub(crate) fn compact(
    request: &Request,
    mut best: Plan,
    alternatives: &[Plan],
    addresses: Addresses,
    floor: Bytes,
    goal: impl Fn(Bytes) -> Bytes,
    clock: &Clock,
) -> Plan {
    let Some(bound) = best.arena.as_ref().map(|arena| arena.lower_bound) else { return best };
    let low_enough = |arena: &Arena| arena.size <= goal(arena.lower_bound);
    let limit = request.budget.max(best.trace.peak);
    let packed = |sequence: Sequence, origin: &Plan| packed(request, sequence, origin, addresses, &goal);
    let done = |best: &Plan| best.arena.as_ref().is_none_or(low_enough) || clock.expired();
    if best.sequence.0.len() > MOST_RUNS || done(&best) {
        return best;
    }
    let grain = best.arena.as_ref().map_or(addresses.alignment, Arena::grain);
    let model = FlatGraph::coarse(request.graph, addresses.alignment, grain);
    let limits = (floor, request.budget.max(bound));
    let origins: Vec<Plan> = std::iter::once(&best).chain(alternatives).cloned().collect();
    for (attempt, seed) in (request.seed..).take(STARTS).enumerate() {
        let chain = |from: &Plan| EjectionChain::new(request.graph, (&model, grain), from, limits, seed);
        // By turns a new order, calmed from that of each plan in turn, gets its chance, and the lowest layout so far goes on.
        let origin = &origins[attempt / 2 % origins.len()];
        let mut chain = if attempt % 2 == 0 {
            let calm = chain(origin).calm(if attempt == 0 { CALM.0 } else { CALM.1 }, clock);
            let Some(start) = packed(calm, origin) else { continue };
            tracing::debug!(seed, height = start.height().0, peak = start.trace.peak.0, "calmed");
            let chain = chain(&start);
            keep_nearer(&mut best, start, &goal);
            chain
        } else {
            chain(&best)
        };
        if done(&best) {
            break;
        }
        // Sizes in grains are a little off: then a peak may be above the limit, and what is low enough in grains may not be in
        // bytes. The goal falls by what is missing, a grain at least.
        let mut missing = 0;
        let found = loop {
            let reached = chain.lower(|peak| goal(Bytes(peak)).0.saturating_sub(missing), clock);
            let Some(found) = chain.plan(request.graph, origin) else { break None };
            let (height, peak) = (found.height().0, found.trace.peak.0);
            tracing::debug!(seed, reached, height, peak, missing, "compacted");
            if !reached || missing > origin.height().0 / LOST || done(&found) {
                break Some(found);
            }
            missing += height.saturating_sub(goal(found.trace.peak).0).max(grain.0);
        };
        let Some(found) = found.filter(|plan| plan.trace.peak <= limit) else { continue };
        // Where the search had too little time for its own layout, the packer may do better with its order.
        let again = packed(found.sequence.clone(), origin);
        keep_nearer(&mut best, found, &goal);
        again.into_iter().for_each(|plan| keep_nearer(&mut best, plan, &goal));
        if done(&best) {
            break;
        }
    }
    best
}

/// The runs as a plan like another one, packed; `None` if they are no such plan.
fn packed(
    request: &Request,
    sequence: Sequence,
    like: &Plan,
    Addresses { alignment, effort }: Addresses,
    goal: impl Fn(Bytes) -> Bytes,
) -> Option<Plan> {
    let trace = judge(request.graph, &sequence).ok().filter(|trace| trace.time == like.trace.time)?;
    let arena = pack_to(request.graph, &sequence, &trace, alignment, effort / PACKINGS, goal);
    let fits = trace.peak <= request.budget.max(like.trace.peak);
    fits.then_some(Plan { sequence, trace, solver: like.solver, arena: Some(arena) })
}

/// Keeps the one that is off by less; of two that are not off, or by as much, the lower one.
fn keep_nearer(best: &mut Plan, plan: Plan, goal: impl Fn(Bytes) -> Bytes) {
    let off = |plan: &Plan| plan.height().0.saturating_sub(goal(plan.trace.peak).0);
    if (off(&plan), plan.height()) < (off(best), best.height()) {
        *best = plan;
    }
}
