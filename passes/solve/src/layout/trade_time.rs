//! Other runs for the sake of a layout: a plan that takes as long, or a little longer, and packs.
//!
//! Where memory is nearly full all the time, a layout needs room that no order of the same runs leaves. Which runs there are was decided
//! for the peak alone; of all plans that take about as long, most are full at fewer steps. So what is lowered next is the sum over all
//! steps of what is above [`SHARE`] of the peak, within a given time ([`crate::improve::annealing::memory_objective`]), and a layout is searched for what
//! that ends in ([`crate::layout::reorder`]).
//!
//! The time that is given first is the longer, the more the layout at hand is off; where that is little, other runs of the same time come
//! first. It is twice as much again, up to all that is allowed, until a layout is found, each time by another seed and by turns from what
//! the one before ended in; then half-way between what failed and what did not, as often as there is time: what failed once need not fail with
//! another seed. Walks are free until one gains nothing, as happens where
//! little time may be spent, and on a leash from then on or, within the same time, from the first on.
//!
//! Everything is counted, the clock only stops.

use rk_plan::arena::pack_with;
use rk_plan::{Bytes, Time, judge};

use crate::improve::annealing::Annealing;
use crate::improve::annealing::memory_objective::{Walk, Within};
use crate::layout::reorder::compact;
use crate::portfolio::clock::Clock;
use crate::portfolio::request::{Addresses, Plan, Request};
use crate::state::flat_graph::{FlatGraph, from_sequence, to_sequence};

/// Memory above this share of the peak counts as full, in per mille.
const SHARE: u128 = 900;
/// Moves of an annealing, times nodes.
const MOVES_PER_NODE: u64 = 400;
/// Moves of an annealing, at least and at most.
const MOVES: (u64, u64) = (200_000, 400_000);
/// So often doubled from the first attempt to the longest: there may be no time for more than one.
const SHORTER: u64 = 2;
/// An arena that is off by one in so many gets all the time that is allowed.
const OFF: f64 = 50.0;
/// An arena that would get less than this share of what is allowed gets none at first.
const LITTLE: f64 = 0.3;
/// The time for other runs grows by one in so many parts of what is allowed, at least.
const LEAST: u64 = 64;
/// The time for each layout is one in so many of all.
const PARTS: u32 = 4;
/// Memory that is less full by less than one in so many is as full.
const HARDLY: i128 = 20;
/// Times closer than one in so many of what is allowed are not told apart.
const FINE: u64 = 16;
/// Seeds of one plan's layouts.
const SEEDS: u64 = 64;

/// What plans have to keep to.
pub(crate) struct Relief<'a> {
    pub(crate) request: &'a Request<'a>,
    pub(crate) addresses: Addresses,
    /// They take no more than this, or than the plan at hand.
    pub(crate) most: Time,
    /// How often the least time is looked for, each time with other seeds.
    pub(crate) passes: u32,
}

impl Relief<'_> {
    /// A plan whose arena is as low as `goal`, a function of the peak, from one whose arena is not. If there is none, that one, or another
    /// of its time in a lower arena.
    pub(crate) fn plan(&self, plan: Plan, goal: impl Fn(Bytes) -> Bytes, clock: &Clock) -> Plan {
        let low_enough =
            |plan: &Plan| plan.arena.as_ref().is_some_and(|arena| arena.size <= goal(arena.lower_bound));
        let off = plan.height().0 as f64 / goal(plan.trace.peak).0.max(1) as f64 - 1.0;
        let own = plan.trace.time.0;
        let more = self.most.0.saturating_sub(own);
        let share = (off * OFF).min(1.0);
        let (first, mut walk) = match share < LITTLE {
            true => (0, Walk::RestartToBest),
            false => ((more as f64 * share) as u64, Walk::Free),
        };
        let mut target = own + first;
        let least = (more / LEAST).max(1);
        let (mut failed, mut best, mut last) = (own, plan.clone(), None::<Plan>);
        let part = clock.left() / PARTS;
        let most = (MOVES_PER_NODE * self.request.graph.len() as u64).clamp(MOVES.0, MOVES.1);
        let moves = |attempt: u64| most >> SHORTER.saturating_sub(attempt);
        let mut passes = 0;
        for attempt in 0.. {
            if clock.expired() {
                break;
            }
            let seed = self.request.seed.wrapping_add(attempt * SEEDS);
            let request = Request { seed, ..self.request.clone() };
            // By turns what was eased before goes on from there, and be it to another layout.
            let before = last.take().filter(|last| attempt % 2 == 1 && last.trace.time.0 <= target);
            let from = before.as_ref().unwrap_or(&plan);
            let eased = self
                .eased(
                    &request,
                    (walk, moves(attempt)),
                    from,
                    (Time(target), Time(target - own)),
                    &goal,
                    clock,
                )
                .or(before);
            let hopeless = eased.is_none();
            if hopeless && walk == Walk::Free {
                walk = Walk::RestartToBest;
                continue;
            }
            if let Some(eased) = eased {
                let (peak, clock) = (eased.trace.peak, Clock::new(part.min(clock.left())));
                let found = compact(&request, eased, &[], self.addresses, peak, &goal, &clock);
                let (time, height) = (found.trace.time.0, found.height());
                tracing::debug!(
                    attempt,
                    target,
                    time,
                    height = height.0,
                    peak = found.trace.peak.0,
                    "relieved"
                );
                if low_enough(&found) || (time <= own && height < best.height() && !low_enough(&best)) {
                    best = found.clone();
                }
                last = Some(found).filter(|found| !low_enough(found));
            }
            if hopeless || last.is_some() {
                failed = failed.max(target);
            }
            if !low_enough(&best) {
                if hopeless && target == own + more {
                    break;
                }
                target = own + more.min((2 * (target - own)).max(least));
                continue;
            }
            let time = best.trace.time.0;
            if time.saturating_sub(failed) <= more / FINE {
                // What failed may do with another seed.
                passes += 1;
                failed = own;
            }
            if passes == self.passes || time <= own + more / FINE {
                break;
            }
            target = failed + (time - failed) / 2;
        }
        best
    }

    /// A plan of at most a given time whose memory is less full, packed as it is; `None` if it is hardly less.
    fn eased(
        &self,
        request: &Request,
        (walk, moves): (Walk, u64),
        plan: &Plan,
        (most, spent): (Time, Time),
        goal: impl Fn(Bytes) -> Bytes,
        clock: &Clock,
    ) -> Option<Plan> {
        let graph = request.graph;
        let signed = |bytes: u128| i64::try_from(bytes).unwrap_or(i64::MAX);
        let model = FlatGraph::new(graph);
        let roof = request.budget.max(plan.trace.peak);
        let full = signed(u128::from(plan.trace.peak.0) * SHARE / 1000);
        let mut annealing = Annealing::new(
            &model,
            &from_sequence(&plan.sequence),
            full,
            request.seed,
            &request.params.annealing,
        );
        let before = annealing.best_excess;
        let room = |peak: i64| signed(goal(Bytes(u64::try_from(peak).unwrap_or(0))).0.into());
        annealing.lower_memory(
            moves,
            walk,
            Within { most: most.0, spent: spent.0, roof: signed(roof.0.into()) },
            room,
            clock,
            &request.params.easing,
        );
        tracing::debug!(full, before, after = annealing.best_excess, "eased");
        if before - annealing.best_excess <= before / HARDLY {
            return None;
        }
        let sequence = to_sequence(&annealing.best);
        let trace = judge(graph, &sequence).ok().filter(|trace| trace.peak <= roof)?;
        let arena = pack_with(graph, &sequence, &trace, self.addresses.alignment, 0);
        Some(Plan { sequence, trace, solver: plan.solver, arena: Some(arena) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rk_plan::arena::check_no_overlap;
    use rk_plan::{Graph, base_trace};

    use super::*;
    use crate::portfolio::clock::counted;
    use crate::synthetic::{Family, graph};
    use crate::{Solver, solve};

    /// A plan for two thirds of the given order's peak, packed as it is.
    fn packed(graph: &Graph) -> Option<(Bytes, Plan)> {
        let budget = Bytes(base_trace(graph).peak.0 / 3 * 2);
        let request = Request { solver: Solver::Greedy, ..Request::new(graph, budget) };
        let plan = solve(&request).plan?;
        let arena = pack_with(graph, &plan.sequence, &plan.trace, Bytes(1), 0);
        Some((budget, Plan { arena: Some(arena), ..plan }))
    }

    const ADDRESSES: Addresses = Addresses { alignment: Bytes(1), effort: 100_000 };

    #[test]
    fn other_runs_lower_an_arena_within_the_time_that_is_allowed() {
        let near = |peak: Bytes| Bytes(peak.0 / 100 * 101);
        let mut lowered = 0;
        for seed in 0..8 {
            let graph = graph(Family::Layered, 60, seed);
            let Some((budget, plan)) = packed(&graph) else { continue };
            let request = Request::new(&graph, budget);
            for more in [0, graph.total_time().0 / 20] {
                let most = Time(plan.trace.time.0 + more);
                let relief = Relief { request: &request, addresses: ADDRESSES, most, passes: 2 };
                // As long as a second is where nothing else runs.
                let found = counted::time(Duration::from_micros(20), || {
                    relief.plan(plan.clone(), near, &Clock::new(Duration::from_secs(1)))
                });
                assert_eq!(judge(&graph, &found.sequence), Ok(found.trace.clone()));
                assert!(found.trace.time <= most && found.trace.peak <= budget, "seed {seed}");
                let (before, arena) = (plan.height(), found.arena.expect("packed"));
                assert_eq!(check_no_overlap(&arena), Ok(()));
                let reached = arena.size <= near(arena.lower_bound);
                assert!(
                    reached || (found.trace.time <= plan.trace.time && arena.size <= before),
                    "seed {seed}"
                );
                lowered += usize::from(reached);
            }
        }
        assert!(lowered > 4, "{lowered}");
    }
}
