//! A lower bound on the makespan of every schedule with transfers: the cut problem with a third choice.
//!
//! Take any node `c` and the step at which it runs first, as in [`crate::bound::cut`]. A value that is needed behind it is on the
//! device then, or is made again later, or *waits in host memory*. What waits left the device before `c` began, and comes back
//! when `c` has ended; both took an engine its time. So the third choice adds one thing to the cut problem: as much room as can
//! have left by then and can come back in what is left.
//!
//! Let `F` be the time of the nodes that run before `c` in every schedule, `G` that of those which run after it in every schedule, and
//! `E` that of the others. If `c` begins at `F + E + x`, or before that for `x = 0`, then with the time `R` of what runs again
//! behind `c`
//!
//! ```text
//! Z >= (time of all nodes once) + x + R
//! R >= the cut problem of c in M + min(H, out(F + E + x), back(Z - F - c))       M, H: budgets of device and host
//! ```
//!
//! where `out` and `back` are the bytes that the engines move in a time. *Why:* with `x = 0`, runs alone take so long. Otherwise what
//! follows the beginning of `c` is `c`, `G`, `R`, and of `E` what has not run before; and what has run before is less than
//! `F + E` by that much. `Z` stands for the best plan on the right: a schedule that is no better needs no bound.
//!
//! `x` is not known, but the second line falls with `x`. On an interval from `a` to `b` the makespan is therefore at least
//! the time of all nodes, `a`, and the cut problem with the room for `b`. The interval whose bound is the least is halved again and again; the bound
//! of `c` is the least of all intervals, and that of the graph is the best over `c`.
//!
//! It assumes copies that overlap at best completely, values that can be split between the device and host memory, and no latency.

use std::time::{Duration, Instant};

use rk_plan::{Bytes, Graph, Host, NodeId, Time, base_trace};

use crate::bound::branch_and_bound::solve;
use crate::bound::cut::Cutter;
use crate::bound::cut_selection::scan;
use crate::bound::limits::Limits;
use crate::portfolio::clock::now;

/// Nodes that are cut at.
const CUTS: usize = 4;
/// The best of these, whose intervals are halved.
const HALVED: usize = 2;
/// How often.
const HALVINGS: usize = 10;
/// Each cut problem gets one part in this many of the time that is left.
const PARTS: u32 = 6;
/// Subproblems per cut before it is left with what is proven.
const SUBPROBLEMS: u64 = 50_000;
/// A cut is solved well enough at one part in this many of what is between the bound and the best plan.
const COARSE: u64 = 32;

/// The best bound that can be had in a time, given the makespan of the best plan.
pub(super) fn bound(graph: &Graph, budget: Bytes, host: &Host, known: Option<Time>, limit: Duration) -> Time {
    let total = graph.total_time();
    let Some(known) = known.filter(|&known| known > total) else { return total };
    let deadline = now().checked_add(limit);
    let mut bound = Bound { graph, budget, host, known, deadline, cutter: Cutter::new(graph), best: 0 };
    let peak = bound.place(NodeId::from_index(base_trace(graph).peak_step));
    let ranked = scan(graph, budget + peak.waiting(&bound, 0), now().checked_add(limit / 3));
    let mut places: Vec<Place> = Vec::new();
    for promise in ranked.iter().take(CUTS) {
        if deadline.is_some_and(|deadline| now() >= deadline) {
            break;
        }
        let mut place = bound.place(promise.at);
        let all = bound.interval(&mut place, 0, bound.slack());
        place.intervals.push(all);
        bound.best = bound.best.max(place.bound());
        places.push(place);
    }
    places.sort_by_key(|place| std::cmp::Reverse(place.bound()));
    for place in places.iter_mut().take(HALVED) {
        for _ in 0..HALVINGS {
            if bound.best >= bound.slack() || deadline.is_some_and(|deadline| now() >= deadline) {
                break;
            }
            bound.halve(place);
            bound.best = bound.best.max(place.bound());
        }
    }
    total + Time(bound.best)
}

struct Bound<'a> {
    graph: &'a Graph,
    budget: Bytes,
    host: &'a Host,
    known: Time,
    deadline: Option<Instant>,
    cutter: Cutter<'a>,
    /// Ticks beyond the time of all nodes that are proven.
    best: u64,
}

/// A node that is cut at.
struct Place {
    at: NodeId,
    /// `F`.
    before: u64,
    /// `E`.
    between: u64,
    /// Time of the node.
    own: u64,
    intervals: Vec<Interval>,
}

/// Schedules in which the node begins so late.
#[derive(Clone, Copy)]
struct Interval {
    from: u64,
    to: u64,
    /// What runs again at least.
    again: u64,
}

impl Place {
    /// Ticks beyond the time of all nodes that the cut proves.
    fn bound(&self) -> u64 {
        self.intervals.iter().map(|interval| interval.from + interval.again).min().unwrap_or(0)
    }

    /// The most bytes that can wait while the node runs if it begins at `F + E + x`.
    fn waiting(&self, bound: &Bound, x: u64) -> Bytes {
        let left = Time(bound.known.0.saturating_sub(self.before + self.own));
        let out = bound.host.offload.moved_in(Time(self.before + self.between + x));
        let both = away(bound.host, Time(bound.known.0.saturating_sub(self.own)));
        out.min(bound.host.fetch.moved_in(left)).min(both)
    }
}

impl Bound<'_> {
    /// Ticks between the time of all nodes and the best plan.
    fn slack(&self) -> u64 {
        self.known.0 - self.graph.total_time().0
    }

    fn place(&mut self, at: NodeId) -> Place {
        self.cutter.look_at(at);
        let own = self.graph.node(at).time.0;
        let (mut before, mut after) = (0, 0);
        for (id, node) in self.graph.node_ids().zip(self.graph.nodes()).filter(|(id, _)| *id != at) {
            before += if self.cutter.is_before(id) { node.time.0 } else { 0 };
            after += if self.cutter.is_after(id) { node.time.0 } else { 0 };
        }
        let between = self.graph.total_time().0 - before - after - own;
        Place { at, before, between, own, intervals: Vec::new() }
    }

    fn interval(&mut self, place: &mut Place, from: u64, to: u64) -> Interval {
        let cut = self.cutter.cut(place.at, self.budget + place.waiting(self, to));
        let most = self.slack() - from;
        if cut.is_trivial() {
            return Interval { from, to, again: 0 };
        }
        let start = now();
        let limits = Limits {
            cutoff: most,
            floor: self.best.saturating_sub(from),
            near: (self.slack() - self.best) / COARSE,
            nodes: SUBPROBLEMS,
            deadline: self.deadline.map(|end| start + end.saturating_duration_since(start) / PARTS),
            ..Limits::NONE
        };
        // Without a solution there is no schedule that is better than the plan.
        Interval { from, to, again: solve(&cut, limits).bound.unwrap_or(most).min(most) }
    }

    fn halve(&mut self, place: &mut Place) {
        let least = (0..place.intervals.len())
            .min_by_key(|&index| place.intervals[index].from + place.intervals[index].again);
        let Some(whole) = least.map(|index| place.intervals.swap_remove(index)) else { return };
        let middle = whole.from.midpoint(whole.to);
        let mut left = self.interval(place, whole.from, middle);
        left.again = left.again.max(whole.again);
        place.intervals.push(left);
        place.intervals.push(Interval { from: middle, ..whole });
    }
}

/// The most bytes that can wait in host memory at one run of a schedule with this makespan, and come back.
pub(super) fn away(host: &Host, makespan: Time) -> Bytes {
    // The time is split where both engines can move as much; rounding up to the next tick is on the safe side.
    let (mut low, mut high) = (0, makespan.0);
    while low < high {
        let middle = low + (high - low) / 2;
        if host.offload.moved_in(Time(middle)) >= host.fetch.moved_in(Time(makespan.0 - middle)) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    // At the split the one that has more time moves no less than either does at the best split.
    let most =
        host.offload.moved_in(Time(low)).min(host.fetch.moved_in(Time(makespan.0 - low.saturating_sub(1))));
    host.budget.map_or(most, |budget| most.min(budget))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::portfolio::request::{Request, Timekeeping};
    use crate::synthetic::{self, Family};
    use crate::transfers::solve_with_transfers;
    use rk_plan::Engine;

    /// Told of a worse plan than the one there is, the bound has to stay below that one all the same.
    #[test]
    fn no_plan_is_below_a_bound_that_does_not_know_it() {
        let (mut above, mut near) = (0, 0);
        for (seed, family) in (0..).zip(Family::ALL) {
            let graph = synthetic::graph(family, 50, seed);
            let base = base_trace(&graph);
            for (percent, share) in [(70, 4), (50, 2), (50, 20)] {
                let engine = Engine {
                    bytes: base.peak.0.div_ceil(share),
                    ticks: base.time.0.max(1),
                    latency: Time(0),
                };
                let host = Host { offload: engine, fetch: engine, budget: None };
                let budget = Bytes(base.peak.0 * percent / 100);
                let limit = Duration::from_millis(200);
                let request = Request {
                    time_limit: limit,
                    timekeeping: Timekeeping::Work,
                    ..Request::new(&graph, budget)
                };
                let Some(plan) = solve_with_transfers(&request, &host).plan else { continue };
                let makespan = plan.trace.makespan;
                for worse in [1, makespan.0 / 50, makespan.0 / 4] {
                    let known = Some(makespan + Time(worse));
                    let below = bound(&graph, budget, &host, known, Duration::from_secs(9));
                    assert!(below <= makespan, "{family} {percent} {share}: {below:?} over {makespan:?}");
                    above += usize::from(below > graph.total_time());
                    near += usize::from(below.0 + makespan.0 / 50 > makespan.0 && below > graph.total_time());
                }
            }
        }
        assert!(above > 20 && near > 8, "{above} {near}");
    }

    #[test]
    fn no_split_of_the_time_lets_more_away() {
        let engine = |bytes, ticks| Engine { bytes, ticks, latency: Time(0) };
        for (out, back) in [((1, 1), (1, 1)), ((3, 2), (1, 1)), ((1, 3), (7, 2)), ((5, 1), (1, 9))] {
            let host = Host { offload: engine(out.0, out.1), fetch: engine(back.0, back.1), budget: None };
            for makespan in 0..40 {
                let at = |t| host.offload.moved_in(Time(t)).min(host.fetch.moved_in(Time(makespan - t)));
                let best = (0..=makespan).map(at).max().unwrap_or_default();
                assert!(away(&host, Time(makespan)) >= best, "{host:?} {makespan}");
            }
            assert_eq!(away(&Host { budget: Some(Bytes(2)), ..host }, Time(1000)), Bytes(2));
        }
    }
}
