//! Addresses for plans that were made for their logical peak.
//!
//! 1. Pack the best plan as it is, and others of the same time, until an arena is *near* its peak: at most a hundredth above.
//! 2. Else move its runs and buffers at once, and those of the others by turns ([`crate::layout::reorder`]).
//! 3. If that does not do, let others run again ([`crate::layout::trade_time`]), for a seventy-second of the time of all nodes once more at most. No
//!    plan that is proven to be the fastest by then is given away for that, and one with little left to prove for little.
//!
//! How long that takes is not known before. So who packs after a search keeps time for it ([`Spare`]): little where plans seem to pack by
//! themselves, and more if a look in the middle of the search shows that its best plan does not. A search whose time is over, or that found
//! no better plan for long, packs its best plan at once. If that is near in a part of the spare time, the search goes on in most of the rest,
//! and what it finds then is packed in what is left.
//!
//! A plan whose arena is near stands in for a faster one whose arena is not, if it takes little more: a seventy-second, and no more than what
//! the search has won since its first second, or than a five-hundredth for each second of the limit. So what is answered after longer is
//! slower only where nothing near was found before.

use std::time::Duration;

use rk_plan::{Bytes, Time};

use crate::layout::reorder::{MOST_RUNS, compact};
use crate::layout::trade_time::Relief;
use crate::portfolio::clock::Clock;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::request::{Addresses, Outcome, Plan, Progress, Request, Spare, Status};

/// The best plan of a search is packed for a look from this share of its time on.
const LOOK: f64 = 0.4;
/// It is not packed for a look before this long: in less there is hardly time for the search.
const LOOK_AFTER: Duration = Duration::from_secs(1);
/// What a look takes is less than one in so many parts of the time left.
const LOOKS: u32 = 10;
/// A search may as well pack when its best plan was found in the first of so many parts of its time so far.
const STALE: u32 = 3;
/// For a plan that is packed once more, so many times as long as packing took are kept.
const AGAIN: u32 = 2;
/// For a plan that is packed once more, this share of the spare time is kept, if it is more than [`AGAIN`] gives.
const KEPT: f64 = 0.15;

/// How often the least time of a plan that packs is looked for, if there is time.
const PASSES: u32 = 16;
/// The share of the time left in which a plan is packed in other orders of its runs, before others that take more time.
const FIRST: f64 = 0.2;
/// Seeds of the orders that are tried in what is left then begin here.
const SEEDS: u64 = 1 << 32;
/// What a plan may take more whose arena is near its peak where that of a faster one is not: one in so many parts of the time of all
/// nodes once at most.
const DEARER: u64 = 72;
/// What the search has won since this long is the most that such a plan may take more, or what [`CHEAP`] allows if that is more: else a
/// longer search would give a slower plan.
const SOON: Duration = Duration::from_secs(1);
/// One in so many parts of the time of all nodes once may be taken more for each [`SOON`] of the limit: who waits longer wants both a
/// fast plan and a layout, and that is looked for longer, too.
const CHEAP: u64 = 500;
/// Such a plan may take one in so many parts of what is not proven more, at most.
const UNPROVEN: u64 = 2;

/// What packing one plan of so many nodes takes, about; nothing to speak of below a thousand. Who packs after solving leaves
/// this much of a time limit.
pub fn packing_time(nodes: usize) -> Duration {
    /// Per 2^20 pairs of nodes.
    const PER_PAIRS: Duration = Duration::from_millis(3);
    PER_PAIRS.saturating_mul(u32::try_from(nodes.saturating_pow(2) >> 20).unwrap_or(u32::MAX))
}

/// The largest arena that is near a peak: a hundredth above it.
pub(crate) fn near(peak: Bytes) -> Bytes {
    Bytes(peak.0.saturating_add(peak.0 / 100))
}

pub(crate) fn is_near(plan: &Plan) -> bool {
    plan.arena.as_ref().is_some_and(|arena| arena.size <= near(arena.lower_bound))
}

/// Packs the plan of an answer that was made for the logical peak, if it is not packed yet: as it is, and where that is not near its
/// peak, for at most `limit` in other orders of its runs.
pub fn with_addresses(request: &Request, outcome: Outcome, addresses: Addresses, limit: Duration) -> Outcome {
    request.timekeeping.keep(|| packed_within(request, outcome, addresses, limit))
}

fn packed_within(request: &Request, outcome: Outcome, addresses: Addresses, limit: Duration) -> Outcome {
    let Some(plan) = &outcome.plan else { return outcome };
    let early = outcome.early.clone();
    if let Some(same) = early.clone().filter(|early| early.trace.time == plan.trace.time) {
        return Outcome { plan: Some(same), ..outcome };
    }
    // What packed early stands in for a faster plan, too, and nothing slower is looked for.
    let stand_in = early.filter(is_near);
    let most = affordable(request, plan.trace.time, outcome.lower_bound, &outcome.progress);
    let most = stand_in.as_ref().map_or(most, |early| most.min(early.trace.time));
    let found = placed(request, plan, &outcome.others, most, addresses, &Clock::new(limit));
    let most = worth_it(request, found.trace.time, &outcome.progress);
    let Some(early) = stand_in.filter(|early| !is_near(&found) && early.trace.time <= most) else {
        return Outcome { plan: Some(found), ..outcome };
    };
    tracing::info!(time = early.trace.time.0, faster = found.trace.time.0, "the faster plan does not pack");
    let mut outcome = Outcome { plan: Some(early), ..outcome };
    outcome.unsettle(Status::Feasible);
    outcome
}

/// The time of a plan that may stand in for a faster one, as long as that is not proven to be the fastest.
fn affordable(request: &Request, fastest: Time, bound: Time, progress: &[Progress]) -> Time {
    let gap = fastest.0.saturating_sub(bound.0);
    worth_it(request, fastest, progress).min(Time(fastest.0.saturating_add(gap / UNPROVEN)))
}

/// The time for which an arena near its peak is worth more than the fastest plan.
fn worth_it(request: &Request, fastest: Time, progress: &[Progress]) -> Time {
    let total = request.graph.total_time().0;
    let soon = progress.iter().take_while(|step| step.at <= SOON).filter_map(|step| step.plan).last();
    let won = soon.map_or(u64::MAX, |soon| soon.0.saturating_sub(fastest.0));
    let spare = request.spare.map_or(Duration::ZERO, |spare| spare.time);
    let limit = request.time_limit.saturating_add(spare);
    let cheap = (total as f64 / CHEAP as f64 * limit.div_duration_f64(SOON).max(1.0)) as u64;
    Time(fastest.0.saturating_add(won.max(cheap).min(total / DEARER)))
}

/// A plan, another one of its time, or a slower one that takes less than `most`, with addresses.
fn placed(
    request: &Request,
    plan: &Plan,
    others: &[Plan],
    most: Time,
    addresses: Addresses,
    clock: &Clock,
) -> Plan {
    let pack = |plan: &Plan| addresses.pack(request.graph, plan.clone());
    let mut best = pack(plan);
    let mut alternatives = Vec::new();
    for other in others.iter().filter(|other| other.trace.time == plan.trace.time) {
        if is_near(&best) || clock.expired() {
            break;
        }
        let mut other = pack(other);
        if other.height() < best.height() || is_near(&other) {
            std::mem::swap(&mut best, &mut other);
        }
        alternatives.push(other);
    }
    let floor = best.trace.peak;
    let time = best.trace.time;
    if best.sequence.0.len() > MOST_RUNS || most <= time {
        return compact(request, best, &alternatives, addresses, floor, near, clock);
    }
    let best = compact(request, best, &alternatives, addresses, floor, near, &clock.part(FIRST));
    if is_near(&best) || clock.expired() {
        return best;
    }
    let best = (Relief { request, addresses, most, passes: PASSES }).plan(best, near, clock);
    if best.trace.time > time {
        tracing::info!(time = best.trace.time.0, faster = time.0, "the faster plan does not pack");
    }
    // There may be no other runs for so little time.
    let request = Request { seed: request.seed.wrapping_add(SEEDS), ..request.clone() };
    compact(&request, best, &alternatives, addresses, floor, near, clock)
}

/// Looks, in the second half of a search, whether its best plan packs as it is, and if not leaves more time for addresses: that the given
/// order packs does not tell for sure. The clock of the search from then on, if it is another one.
pub(crate) fn leave_more(task: &mut Incumbent) -> Option<Clock> {
    let Spare { time, more, addresses } = task.spare.filter(|spare| !spare.more.is_zero())?;
    let plan = task.plan.as_ref().filter(|_| task.has_plan())?;
    if task.early.as_ref().is_some_and(|early| early.trace.time == plan.trace.time) {
        return None;
    }
    let (elapsed, left) = (task.clock.elapsed(), task.clock.left());
    let too_early = elapsed < (elapsed + left).mul_f64(LOOK) || (elapsed < LOOK_AFTER && !time.is_zero());
    if too_early || left < packing_time(task.model.len()) * LOOKS {
        return None;
    }
    let packed = addresses.pack(task.request.graph, plan.clone());
    if is_near(&packed) {
        task.early = Some(packed);
        return None;
    }
    let more = more.min(left);
    tracing::debug!(height = packed.height().0, peak = packed.trace.peak.0, ?more, "looked");
    let spare = Spare { time: time + more, more: Duration::ZERO, addresses };
    task.spare = (!time.is_zero()).then_some(spare);
    Some(task.clock.with_left(left - more))
}

/// Whether the best plan of a search that goes on should be packed now: no better one was found for long, and there is more time for
/// addresses than for the rest of the search.
pub(crate) fn is_time_to_pack(task: &Incumbent) -> bool {
    task.spare.is_some_and(|spare| spare.time >= task.clock.left()) && task.is_stale(STALE)
}

/// The share of the time left until that is so, if no better plan is found; all of it, if nothing is to be packed.
pub(crate) fn share_until_packing(task: &Incumbent) -> f64 {
    let Some(spare) = task.spare.filter(|_| task.has_plan()) else { return 1.0 };
    let left = task.clock.left();
    let wait = task.stale_in(STALE).max(left.saturating_sub(spare.time));
    wait.min(left).div_duration_f64(left.max(Duration::from_nanos(1)))
}

/// Packs the best plan of a search whose time is over, or that found no better one for long, in all the time there is. Until when the
/// search may go on, if it may.
pub(crate) fn pack_early(task: &mut Incumbent) -> Option<Clock> {
    let Spare { time, addresses, .. } = task.spare.take().filter(|spare| !spare.time.is_zero())?;
    let plan = task.plan.as_ref()?;
    let clock = Clock::new(time + task.clock.left());
    let early = placed(
        task.request,
        plan,
        task.others(),
        affordable(task.request, plan.trace.time, task.goal(), task.progress()),
        addresses,
        &clock,
    );
    // One that was near at a look may stand in for it.
    let worth_it = worth_it(task.request, early.trace.time, task.progress());
    let looked = task.early.take().filter(|looked| !is_near(&early) && looked.trace.time <= worth_it);
    let early = looked.unwrap_or(early);
    let took = clock.elapsed();
    let left = clock.left().checked_sub((took * AGAIN).max(time.mul_f64(KEPT))).filter(|_| is_near(&early));
    tracing::debug!(?took, ?left, near = is_near(&early), "packed early");
    task.early = Some(early);
    Some(task.clock.with_left(left?))
}

#[cfg(test)]
mod tests {
    use rk_plan::arena::Arena;
    use rk_plan::{Graph, base_trace};

    use super::*;
    use crate::portfolio::clock::counted;
    use crate::synthetic::{Family, graph};
    use crate::{Solver, solve};

    /// A moment for the search, and a minute for addresses: it ends with its proof in between.
    #[test]
    fn a_search_whose_plan_packs_goes_on() {
        let graph = graph(Family::Residual, 150, 31);
        let budget = Bytes(base_trace(&graph).peak.0 / 100 * 60);
        let addresses = Addresses::within(Bytes(64), Duration::from_secs(1));
        let short = Request { time_limit: Duration::from_millis(30), ..Request::new(&graph, budget) };
        let stopped = solve(&short);
        let spare = Some(Spare { time: Duration::from_secs(60), more: Duration::ZERO, addresses });
        let request = Request { spare, ..short };
        let found = solve(&request);
        assert_eq!((stopped.status, found.status), (Status::Feasible, Status::Optimal));
        assert!(found.early.is_some());
        let placed = with_addresses(&request, found, addresses, Duration::from_secs(5));
        assert!(placed.plan.is_some_and(|plan| is_near(&plan)));
    }

    #[test]
    fn a_stale_search_packs_if_there_is_more_time_for_addresses_than_left() {
        let graph = graph(Family::Residual, 60, 1);
        let addresses = Addresses::within(Bytes(64), Duration::from_secs(1));
        let [minute, hour] = [60, 3600].map(Duration::from_secs);
        let spare = |time| Some(Spare { time, more: Duration::ZERO, addresses });
        // The given order fits at once, or nothing does.
        let (fits, none) = (base_trace(&graph).peak, Bytes(1));
        for (budget, spare, time) in [
            (fits, spare(hour), true),
            (fits, spare(minute / 2), false),
            (fits, None, false),
            (none, spare(hour), false),
        ] {
            let request = Request { time_limit: minute, spare, ..Request::new(&graph, budget) };
            let (packs, share) = counted::time(LOOK, || {
                let task = Incumbent::new(&request);
                counted::pass(task.clock.elapsed() * STALE);
                (is_time_to_pack(&task), share_until_packing(&task))
            });
            assert_eq!(packs, time);
            assert!((share == 0.0) == time && share <= 1.0, "{share}");
        }
        let request = Request { time_limit: minute, spare: spare(hour), ..Request::new(&graph, fits) };
        let stale = counted::time(LOOK, || Incumbent::new(&request).is_stale(u32::MAX));
        assert!(!stale, "it was found just now");
    }

    /// What a look at the clock takes.
    const LOOK: Duration = Duration::from_nanos(100);

    /// The given order of a graph, within its own peak.
    fn given(graph: &Graph, time: Duration, more: Duration) -> Request<'_> {
        let addresses = Addresses { alignment: Bytes(1), effort: 0 };
        let spare = Some(Spare { time, more, addresses });
        Request { spare, time_limit: Duration::from_secs(60), ..Request::new(graph, base_trace(graph).peak) }
    }

    #[test]
    fn a_search_leaves_more_time_if_its_plan_does_not_pack() {
        let (packs, does_not) = (graph(Family::Residual, 60, 1), graph(Family::Layered, 300, 1));
        let hour = Duration::from_secs(3600);
        let look = |request: &Request, left: Duration| {
            counted::time(LOOK, || {
                let mut task = Incumbent::new(request);
                // Longer than a search has to go on before a look.
                task.clock = Clock::new(Duration::ZERO);
                counted::pass(Duration::from_millis(2));
                task.clock = task.clock.with_left(left);
                let clock = leave_more(&mut task);
                let spare = task.spare.map(|spare| (spare.time, spare.more));
                (clock.map(|clock| clock.left()), spare, task.early)
            })
        };
        let soon = Duration::from_millis(1);
        // Who asks packs himself: the search ends.
        let (left, spare, early) = look(&given(&does_not, Duration::ZERO, hour), soon);
        assert!(left == Some(Duration::ZERO) && spare.is_none() && early.is_none());
        // A plan that packs is kept, and nothing else changes.
        let (left, spare, early) = look(&given(&packs, Duration::ZERO, hour), soon);
        assert!(left.is_none() && spare == Some((Duration::ZERO, hour)));
        assert!(early.is_some_and(|early| is_near(&early)));
        // Not so early, neither in share nor, where the search packs, in seconds.
        assert!(look(&given(&does_not, Duration::ZERO, hour), hour).0.is_none());
        let (left, spare, _) = look(&given(&does_not, soon, hour), soon);
        assert!(left.is_none() && spare == Some((soon, hour)));
    }

    #[test]
    fn nearness_is_worth_what_a_search_has_won_and_more_the_longer_the_limit() {
        let graph = graph(Family::Residual, 60, 1);
        let request = Request { time_limit: SOON / 2, ..Request::new(&graph, Bytes(1)) };
        let total = graph.total_time().0;
        let step = |seconds, plan| Progress {
            at: Duration::from_secs(seconds),
            plan: Some(Time(plan)),
            bound: Time(0),
        };
        let own = 2 * total;
        let allowed = |progress: &[Progress]| worth_it(&request, Time(own), progress).0 - own;
        let won = total / 100;
        assert_eq!(allowed(&[step(0, own + 2 * won), step(1, own + won), step(2, own)]), won);
        assert_eq!(allowed(&[step(0, own + total), step(2, own)]), total / DEARER);
        assert_eq!(allowed(&[step(0, own)]), total / CHEAP);
        // There was none so soon.
        assert_eq!(allowed(&[step(2, own)]), total / DEARER);
        // With three times as long, of which two are for layouts.
        let addresses = Addresses { alignment: Bytes(1), effort: 0 };
        let spare = Some(Spare { time: 2 * SOON, more: Duration::ZERO, addresses });
        let longer = Request { time_limit: SOON, spare, ..request };
        let allowed = worth_it(&longer, Time(own), &[step(0, own)]).0 - own;
        assert!((3 * total / CHEAP).abs_diff(allowed) <= 1);
    }

    #[test]
    fn a_plan_that_was_packed_early_is_the_answer_if_a_faster_one_does_not_pack() {
        let graph = graph(Family::Layered, 300, 1);
        let budget = base_trace(&graph).peak;
        let addresses = Addresses { alignment: Bytes(1), effort: 0 };
        let request = Request { solver: Solver::KeepAll, ..Request::new(&graph, budget) };
        let mut outcome = solve(&request);
        let plan = outcome.plan.clone().expect("the budget is the peak");
        let found = placed(&request, &plan, &[], plan.trace.time, addresses, &Clock::new(Duration::ZERO));
        assert!(!is_near(&found), "it packs by itself");
        let slower = |arena: Option<Arena>| {
            let mut slower = Plan { arena, ..plan.clone() };
            slower.trace.time.0 += 1;
            slower
        };
        let near = found.arena.clone().map(|arena| Arena { size: arena.lower_bound, ..arena });
        let much_slower = |arena: Option<Arena>| {
            let mut slower = slower(arena);
            slower.trace.time.0 += graph.total_time().0 / DEARER;
            slower
        };
        let own = plan.trace.time.0;
        for (early, time) in
            [(slower(near.clone()), own + 1), (much_slower(near), own), (slower(found.arena), own)]
        {
            outcome.early = Some(early);
            let answer = with_addresses(&request, outcome.clone(), addresses, Duration::ZERO);
            assert_eq!(answer.plan.map(|plan| plan.trace.time.0), Some(time));
            assert_eq!(answer.status == Status::Optimal, time == plan.trace.time.0);
            // With time, nothing slower than what is near already is looked for.
            let answer = with_addresses(&request, outcome.clone(), addresses, Duration::from_millis(200));
            assert!(answer.plan.is_some_and(|plan| plan.trace.time.0 <= time));
        }
    }
}
