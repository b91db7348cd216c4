//! Plans whose *addresses* fit: law S7 speaks of the arena, and a packing can miss a budget that the logical peak meets.
//!
//! 1. Solve for the logical peak, and pack the plan. If its arena is within the budget, that is the answer.
//! 2. Look for a layout and another order of its runs at once ([`crate::layout::reorder`]), then do the same with those of the other plans
//!    that the search met, fastest first, whose peak leaves as much room as the layout before would have needed.
//! 3. Give that plan other runs, for as little more time as a layout within the budget needs ([`crate::layout::trade_time`]).
//! 4. Search again for smaller peaks, from what is there: less by more than the overshoot, then half-way between what did and what did not
//!    help. Such a search is short, because what nearly fits is at hand ([`solve_nearby`]).
//! 5. If none fits, repair greedily for somewhat smaller peaks, so that there is a plan at all: from the given order, because what
//!    is repaired from a tight plan is as hard to pack as that.
//! 6. Lower the arena of the plan that fits, if it is more than a hundredth above its peak.
//!
//! Where that takes luck, all of it is done in a fourth of the time first, so that four times as much time never gives a worse plan.
//!
//! A plan keeps the layout that was found for it: packing its runs again would seldom find one as low. Bounds are those of the
//! logical peak, which no arena beats. How the time is shared depends on the given order: where that packs without loss, as steps
//! of training do, nearly all of it goes to the first attempt, unless a look at its best plan shows that this one does not; elsewhere the
//! room that a layout needs has to be found out first.
//!
//! Source: docs/design/planner.md, section 11.

use std::time::Duration;

use rk_plan::arena::{pack_with, packs_at_once};
use rk_plan::{Bytes, Graph, Sequence, Time, base_trace, judge};

use crate::layout::assign_addresses::{is_near, near, packing_time};
use crate::layout::reorder::{MOST_RUNS, compact};
use crate::layout::trade_time::Relief;
use crate::portfolio::clock::Clock;
use crate::portfolio::request::{Addresses, Outcome, Plan, Request, Spare, Status, Stop};
use crate::{solve_logical, solve_nearby};

/// Attempts after the first.
const ATTEMPTS: u32 = 12;
/// The share of the time left for the search of an attempt.
const ATTEMPT_TIME: f64 = 0.5;
/// The share of the time left for a search from plans of a budget near by.
const NEARBY_TIME: f64 = 0.2;
/// The share of the time left in which what was found near by is packed, before a plan fits and after.
const NEARBY_COMPACTING: (f64, f64) = (0.3, 0.4);
/// As long as none fits, the budget is less by the overshoot and one in so many bytes of that more; twice as much with each attempt.
const MARGIN: u64 = 4;
/// The share of the time of the first attempt, where the given order packs without loss and where it does not.
const FIRST: (f64, f64) = (0.75, 0.2);
/// The share of the time of an attempt that is whole in itself, where the given order packs with loss.
const EARLIER: f64 = 0.25;
/// An attempt that is whole in itself takes this long at least.
const SHORT: Duration = Duration::from_millis(20);
/// Larger graphs are taken to pack well without a look.
const PROBED: usize = 3000;
/// The share of the time left in which a plan is packed in other orders of its runs: after a first search that is to find out how much
/// room is needed, and after the others.
const COMPACTING: (f64, f64) = (0.1, 0.5);
/// The share of the time left for other runs of a plan that does not fit.
const RELIEVING: f64 = 0.3;
/// What other runs may take more where nothing fits yet: one in so many parts of the time of all nodes once.
const DEAREST: u64 = 10;
/// Arenas larger than the budget by more than one in so many are not packed in other orders.
const HOPELESS: u64 = 5;
/// Budgets of quick attempts, in per mille.
const RESERVES: [u64; 3] = [980, 940, 880];
/// The share of the time of each quick attempt.
const RESERVE_TIME: f64 = 0.02;
/// Layouts of graphs that do not pack by themselves lose one in so many bytes, about.
const LOST: u64 = 33;
/// The share of the time that is kept to pack a plan that fits more closely.
const LOWERING: f64 = 0.1;
/// Budgets closer than one in so many are not told apart.
const FINE: u64 = 400;

/// Whether the given order packs without loss, as steps of training do, and a plan that is made in a moment nearly so. Then others do, too,
/// nearly always. The steps of a recurrent layer run in an order that packs, and what is left of their small values in a plan does not.
pub fn packs_easily(request: &Request, addresses: Addresses) -> bool {
    let graph = request.graph;
    if graph.len() > PROBED {
        return true;
    }
    let base = Sequence::base(graph);
    if !packs_at_once(graph, &base, &base_trace(graph), addresses.alignment, addresses.effort) {
        return false;
    }
    quick(request, request.budget).is_none_or(|plan| is_near(&addresses.pack(graph, plan)))
}

/// A plan for the logical peak that is made in a moment, if there is one.
fn quick(request: &Request, budget: Bytes) -> Option<Plan> {
    let time_limit = request.time_limit.mul_f64(RESERVE_TIME);
    let solver = crate::Solver::Greedy;
    solve_logical(&Request { budget, solver, time_limit, addresses: None, ..request.clone() }).plan
}

/// Plans a step so that its arena is within the budget.
pub(crate) fn solve(request: &Request, addresses: Addresses) -> Outcome {
    let clock = Clock::new(request.time_limit);
    let easy = packs_easily(request, addresses);
    by(request, addresses, easy, clock)
}

fn by(request: &Request, addresses: Addresses, easy: bool, clock: Clock) -> Outcome {
    let mut packer = Packer { request, addresses, easy, clock, smallest: None, reached: Bytes(0) };
    let earlier = packer.earlier();
    // Without a plan it is the smallest budget that counts, which more time may find.
    let settled = |earlier: &&Outcome| earlier.why_stopped == Stop::Proved && earlier.plan.is_some();
    if let Some(settled) = earlier.as_ref().filter(settled) {
        return settled.clone();
    }
    let left = packer.clock.left();
    let share = if packer.easy { FIRST.0 } else { FIRST.1 };
    let share = (left - packing_time(request.graph.len()).min(left / 2)).mul_f64(share);
    let spare = packer.easy.then_some(Spare { time: Duration::ZERO, more: share, addresses });
    let mut first = solve_logical(&Request { time_limit: share, spare, ..packer.logical() });
    let found =
        first.smallest.clone().and_then(|runs| Plan::judged(request.graph, runs, crate::Solver::Greedy));
    if first.plan.is_none()
        && earlier.as_ref().is_none_or(|earlier| earlier.plan.is_none())
        && (packer.easy || first.status != Status::Unknown || first.why_stopped != Stop::TimeLimit)
    {
        found.into_iter().for_each(|plan| drop(packer.pack(plan)));
        return packer.with_smallest(first);
    }
    let wanted = first.plan.clone();
    packer.easy &= wanted.clone().is_none_or(|wanted| is_near(&packer.pack(wanted)));
    let starts =
        request.starts.iter().filter_map(|(solver, runs)| Plan::judged(request.graph, runs.clone(), *solver));
    let mut starts: Vec<Plan> = starts.collect();
    starts.sort_by_key(|plan| plan.trace.time);
    let mut best = packer.take(&mut first, if packer.easy { COMPACTING.1 } else { COMPACTING.0 }, None);
    best = faster(best, packer.first_that_fits(starts, None));
    if let Some(earlier) = earlier {
        earlier.smallest_placed.into_iter().for_each(|plan| drop(packer.noted(plan)));
        best = faster(best, earlier.plan);
    }
    best = packer.relieved(wanted.as_ref(), best);
    best = packer.closer(&mut first, wanted.clone(), best);
    best = best.or_else(|| packer.repaired(wanted.as_ref()));
    if best.is_none() {
        found.into_iter().for_each(|plan| drop(packer.pack(plan)));
    }
    let best = best.map(|plan| packer.lowered(plan));
    let status = match &best {
        Some(plan) if plan.trace.time <= first.lower_bound && first.status == Status::Optimal => {
            Status::Optimal
        }
        Some(_) => Status::Feasible,
        None => Status::Unknown,
    };
    first.unsettle(status);
    packer.with_smallest(Outcome { plan: best, ..first })
}

fn faster(one: Option<Plan>, other: Option<Plan>) -> Option<Plan> {
    one.into_iter().chain(other).min_by_key(|plan| plan.trace.time)
}

struct Packer<'a> {
    request: &'a Request<'a>,
    addresses: Addresses,
    /// The given order packs without loss.
    easy: bool,
    clock: Clock,
    /// The plan with the least arena.
    smallest: Option<Plan>,
    /// The arena of the fastest plan of the last attempt.
    reached: Bytes,
}

impl<'a> Packer<'a> {
    /// What a fourth of the time is enough for, where it takes luck to fit: so four times as much time is never worse.
    fn earlier(&self) -> Option<Outcome> {
        let time_limit = self.request.time_limit.mul_f64(EARLIER);
        let worth_it = !self.easy && time_limit > SHORT;
        worth_it.then(|| {
            let request = Request { time_limit, ..self.request.clone() };
            by(&request, self.addresses, self.easy, Clock::new(time_limit))
        })
    }

    /// The request, with the budget for the logical peak.
    fn logical(&self) -> Request<'a> {
        Request { addresses: None, ..self.request.clone() }
    }

    /// Repaired greedily for somewhat less than the peak that was wanted. Takes milliseconds, which are spent even if the time is
    /// over: a poor plan is better than none.
    fn repaired(&mut self, wanted: Option<&Plan>) -> Option<Plan> {
        let peak = wanted.map_or(self.request.budget, |plan| plan.trace.peak).min(self.request.budget);
        RESERVES.into_iter().find_map(|per_mille| {
            quick(self.request, Bytes(peak.0 / 1000 * per_mille))
                .and_then(|plan| self.first_that_fits(vec![plan], None))
        })
    }

    /// Searches for faster plans that fit between the largest logical budget whose plan does, and the smallest whose plan does not.
    fn closer(
        &mut self,
        first: &mut Outcome,
        mut wanted: Option<Plan>,
        mut best: Option<Plan>,
    ) -> Option<Plan> {
        let most = self.request.budget.0;
        let (mut low, mut high) = (None::<u64>, None::<u64>);
        match (&best, &wanted) {
            (Some(plan), Some(wanted)) if plan.trace.time <= wanted.trace.time => low = Some(most),
            // What was repaired fits by chance and says nothing about the peak that there is room for.
            (_, Some(wanted)) => high = Some(most.min(wanted.trace.peak.0)),
            (_, None) => {
                high = Some(most);
                self.reached = Bytes(most.saturating_add(most / LOST));
            }
        }
        for attempt in 0..ATTEMPTS {
            let settled = best.as_ref().is_some_and(|plan| plan.trace.time <= first.lower_bound);
            // As long as none fits, none has to be packed more closely.
            let kept = if best.is_some() { self.kept() } else { Duration::ZERO };
            let left = self.clock.left().saturating_sub(kept);
            if settled || left.is_zero() {
                break;
            }
            let budget = match (low, high) {
                (_, None) if self.easy || first.why_stopped != Stop::TimeLimit => break,
                (_, None) => most,
                (Some(low), Some(high)) => low + (high - low) / 2,
                (None, Some(high)) => {
                    let overshoot = self.reached.0.saturating_sub(most).max(most / FINE);
                    let reserve = (overshoot + overshoot / MARGIN).saturating_mul(1 << attempt);
                    // Not below what is known to be too little: half-way there instead.
                    let least = first.proven_infeasible_below.0.min(high);
                    high - reserve.min((high - least) / 2)
                }
            };
            let close = low.zip(high).is_some_and(|(low, high)| high.saturating_sub(low) <= most / FINE);
            if close || high == Some(budget) {
                break;
            }
            tracing::info!(attempt, budget, "once more");
            type Solve = fn(&Request) -> Outcome;
            let (solve, searching, packing): (Solve, f64, f64) = match low {
                _ if budget == most || wanted.is_none() => (solve_logical, ATTEMPT_TIME, COMPACTING.1),
                None => (solve_nearby, NEARBY_TIME, NEARBY_COMPACTING.0),
                Some(_) => (solve_nearby, NEARBY_TIME, NEARBY_COMPACTING.1),
            };
            let mut outcome = solve(&Request {
                budget: Bytes(budget),
                time_limit: left.mul_f64(searching),
                starts: best.iter().chain(&wanted).map(|plan| (plan.solver, plan.sequence.clone())).collect(),
                ..self.logical()
            });
            let planned = outcome.plan.clone();
            if budget == most {
                first.learn(&outcome);
                wanted = planned.clone().or(wanted);
            }
            let known = best.as_ref().map(|best| best.trace.time);
            best = faster(best, self.take(&mut outcome, packing, known));
            // What fits need not be the plan that was meant, but another of the same search.
            match planned {
                Some(plan) if best.as_ref().is_none_or(|best| best.trace.time > plan.trace.time) => {
                    high = Some(budget.min(plan.trace.peak.0));
                }
                _ => low = Some(budget),
            }
        }
        best
    }

    /// The plan that was wanted with other runs, in an arena that fits, if that is faster than what is known.
    fn relieved(&mut self, wanted: Option<&Plan>, best: Option<Plan>) -> Option<Plan> {
        let small = |wanted: &&Plan| wanted.sequence.0.len() <= MOST_RUNS;
        let Some(wanted) = wanted.filter(small) else { return best };
        let dearest = wanted.trace.time.0.saturating_add(self.request.graph.total_time().0 / DEAREST);
        let most = best.as_ref().map_or(dearest, |best| best.trace.time.0.saturating_sub(1));
        if most <= wanted.trace.time.0 {
            return best;
        }
        let budget = self.request.budget;
        let plan = self.pack(wanted.clone());
        if plan.height() <= budget {
            return faster(best, Some(plan));
        }
        let relief =
            Relief { request: &self.logical(), addresses: self.addresses, most: Time(most), passes: 1 };
        let found = relief.plan(plan, |_| budget, &self.clock.part(RELIEVING));
        let found = self.noted(found);
        if found.height() <= budget { faster(best, Some(found)) } else { best }
    }

    /// A plan that fits, in a lower arena if its own is more than a hundredth above the peak: others want memory, too.
    fn lowered(&self, plan: Plan) -> Plan {
        let (floor, clock) = (plan.trace.peak, Clock::new(self.kept().min(self.clock.left())));
        compact(self.request, plan, &[], self.addresses, floor, near, &clock)
    }

    /// The time that is kept for that.
    fn kept(&self) -> Duration {
        self.request.time_limit.mul_f64(LOWERING)
    }
}

impl Packer<'_> {
    fn pack(&mut self, plan: Plan) -> Plan {
        let packed = self.addresses.pack(self.request.graph, plan);
        self.noted(packed)
    }

    fn noted(&mut self, plan: Plan) -> Plan {
        if self.smallest.as_ref().is_none_or(|least| plan.height() < least.height()) {
            self.smallest = Some(plan.clone());
        }
        plan
    }

    fn with_smallest(self, outcome: Outcome) -> Outcome {
        Outcome {
            smallest_found: self.smallest.as_ref().map(Plan::height),
            smallest_placed: self.smallest,
            ..outcome
        }
    }

    /// The fastest plan of an outcome whose arena fits, if one is faster than what is known.
    fn take(&mut self, outcome: &mut Outcome, share: f64, known: Option<Time>) -> Option<Plan> {
        let mut plans: Vec<Plan> = outcome.plan.take().into_iter().collect();
        plans.append(&mut outcome.others);
        plans.retain(|plan| known.is_none_or(|known| plan.trace.time < known));
        self.first_that_fits(plans, Some(share))
    }

    /// The first of several plans whose arena fits, with its arena; in whatever order of its runs, if time is given for that.
    fn first_that_fits(&mut self, plans: Vec<Plan>, compacting: Option<f64>) -> Option<Plan> {
        let budget = self.request.budget;
        // A larger peak than this was not worth other orders in the attempt before, and when time is short, not even a look: a plan that
        // fits as it is may stand behind a faster one that does not.
        let mut most = Bytes(u64::MAX);
        let mut looking: Option<Clock> = None;
        for (index, plan) in plans.into_iter().enumerate() {
            // The first is always looked at, so that a late plan is not lost.
            if index > 0 && self.clock.expired() {
                break;
            }
            let hopeful = plan.trace.peak <= most;
            if !hopeful && looking.as_ref().is_none_or(Clock::expired) {
                continue;
            }
            let mut plan = self.pack(plan);
            let over = plan.height().0.saturating_sub(budget.0);
            if let Some(share) = compacting.filter(|_| hopeful && over > 0 && over <= budget.0 / HOPELESS) {
                let clock = self.clock.part(share);
                let lower = compact(self.request, plan, &[], self.addresses, Bytes(0), |_| budget, &clock);
                plan = self.noted(lower);
                let lost = plan.height().0.saturating_sub(budget.0);
                most = Bytes(plan.trace.peak.0.saturating_sub(lost));
                looking = Some(self.clock.part(share));
            }
            if index == 0 && compacting.is_some() {
                self.reached = plan.height();
            }
            if plan.height() <= budget {
                return Some(plan);
            }
        }
        None
    }
}

impl Plan {
    /// The bytes of its arena; more than there can be without one.
    pub(crate) fn height(&self) -> Bytes {
        self.arena.as_ref().map_or(Bytes(u64::MAX), |arena| arena.size)
    }

    fn judged(graph: &Graph, sequence: Sequence, solver: crate::Solver) -> Option<Self> {
        let trace = judge(graph, &sequence).ok()?;
        Some(Self { sequence, trace, solver, arena: None })
    }
}

/// The arena of a judged sequence, as packed for a request with addresses.
pub(crate) fn arena_of(request: &Request, runs: &Sequence, trace: &rk_plan::Trace) -> Bytes {
    request.addresses.map_or(trace.peak, |Addresses { alignment, effort }| {
        pack_with(request.graph, runs, trace, alignment, effort).size
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portfolio::clock::counted;
    use crate::synthetic::{Family, graph};

    /// What a look at the clock takes in tests whose time is counted: about what it takes a search.
    const LOOK: Duration = Duration::from_micros(20);

    /// A gated recurrent layer and its backward pass.
    fn recurrent(steps: usize) -> Graph {
        let mut text = String::from("x 12KiB 9; h0 768 1");
        for t in 1..=steps {
            let last = t - 1;
            text +=
                &format!("; gates{t}(x, h{last}) 768 9; reset{t}(gates{t}) 768 1; update{t}(gates{t}) 768 1");
            text += &format!("; new{t}(gates{t}, reset{t}) 768 1; h{t}(new{t}, update{t}, h{last}) 768 1");
        }
        text += &format!("; dh{steps}(h{steps}) 768 1");
        for t in (1..=steps).rev() {
            let last = t - 1;
            text +=
                &format!("; dn{t}(dh{t}, update{t}) 768 1; du{t}(dh{t}, new{t}, h{last}, update{t}) 768 1");
            text += &format!(
                "; dr{t}(dn{t}, new{t}, reset{t}) 768 1; dg{t}(dn{t}, du{t}, dr{t}, reset{t}) 768 2"
            );
            text += &format!("; dw{t}(dg{t}, x, h{last}) 64 9; dh{last}(dh{t}, dg{t}, update{t}) 768 9");
        }
        rk_plan::text::read(&text).unwrap()
    }

    #[test]
    fn plans_may_be_hard_to_pack_where_the_given_order_is_not() {
        let graph = recurrent(12);
        let base = base_trace(&graph);
        let addresses = Addresses::within(Bytes(64), Duration::from_secs(3));
        assert!(packs_at_once(&graph, &Sequence::base(&graph), &base, addresses.alignment, addresses.effort));
        let easy =
            |percent| packs_easily(&Request::new(&graph, Bytes(base.peak.0 * percent / 100)), addresses);
        assert!(easy(100) && !easy(60));
    }

    #[test]
    fn a_plan_that_does_not_fit_gets_other_runs_that_do() {
        let (mut tight, mut fitting) = (0, 0);
        for seed in 0..8 {
            let graph = graph(Family::Layered, 60, seed);
            let addresses = Addresses { alignment: Bytes(1), effort: 0 };
            let third = Bytes(base_trace(&graph).peak.0 / 3);
            let request =
                Request { time_limit: Duration::from_secs(2), ..Request::new(&graph, Bytes(2 * third.0)) };
            let Some(wanted) = quick(&request, request.budget) else { continue };
            let height = pack_with(&graph, &wanted.sequence, &wanted.trace, addresses.alignment, 0).size;
            // A hundredth less than it needs as it is, unless the peak does not allow that.
            let request = Request { budget: Bytes(height.0 / 100 * 99).max(wanted.trace.peak), ..request };
            if request.budget >= height {
                continue;
            }
            tight += 1;
            let packer = || Packer {
                request: &request,
                addresses,
                easy: false,
                clock: Clock::new(request.time_limit),
                smallest: None,
                reached: Bytes(0),
            };
            let found = counted::time(LOOK, || packer().relieved(Some(&wanted), None));
            let dearest = wanted.trace.time.0 + graph.total_time().0 / DEAREST;
            if let Some(found) = found {
                assert!(found.height() <= request.budget && found.trace.time.0 <= dearest, "seed {seed}");
                assert_eq!(judge(&graph, &found.sequence), Ok(found.trace));
                fitting += 1;
            }
            // Nothing is faster than a plan of the same time that fits.
            let known = counted::time(LOOK, || packer().relieved(Some(&wanted), Some(wanted.clone())));
            assert_eq!(known.map(|plan| plan.sequence), Some(wanted.sequence), "seed {seed}");
        }
        assert!(tight >= 4 && 2 * fitting > tight, "{fitting} of {tight}");
    }
}
