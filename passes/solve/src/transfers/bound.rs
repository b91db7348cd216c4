//! A lower bound on the makespan of every schedule with transfers.
//!
//! Let a schedule have the makespan `Z`. At any run, what waits in host memory and is used later left the device before, and comes
//! back behind. Both took its engine at least as long as its bytes take, so these are no more than `B Z / 2`, with `B` bytes per
//! tick (and for two different engines, what both can have moved in shares of `Z` that add up to it). So the same
//! runs without transfers have a peak of at most `M + B Z / 2`, and take at least `L(M + B Z / 2)`, where `L` bounds
//! recomputation alone. Runs are part of the makespan:
//!
//! ```text
//! Z >= L(M + min(H, B Z / 2))        M, H: budgets of device and host
//! ```
//!
//! For any `Z` that is tried, a makespan of at most `Z` is therefore at least `L`, and every other is more than `Z`: the
//! bound is `min(L, Z + 1)`, which needs no property of `L` but that it bounds. Trials halve the interval between the time of all nodes once and
//! the best plan. It assumes copies that overlap at best completely, and no latency; waits are not seen.

use std::time::Duration;

use rk_plan::{Bytes, Graph, Host, Time};

use crate::bound::order_free_below;

/// Trials.
const TRIALS: u32 = 5;

/// The best bound that can be had in a time, given the makespan of the best plan.
pub(super) fn bound(graph: &Graph, budget: Bytes, host: &Host, known: Option<Time>, limit: Duration) -> Time {
    let total = graph.total_time();
    let Some(known) = known else { return total };
    let (mut low, mut high) = (total, known);
    let mut proven = total;
    for trial in 0..TRIALS {
        // The first asks whether anything is better than the plan.
        let makespan = match trial {
            0 => Time(known.0.saturating_sub(1)),
            _ => Time(low.0 + (high.0 - low.0) / 2),
        };
        if makespan < total || proven >= high {
            break;
        }
        let away = away(host, makespan);
        let bound = order_free_below(graph, budget + away, Some(known), limit / TRIALS);
        let least =
            if bound.is_infeasible() { makespan + Time(1) } else { bound.time.min(makespan + Time(1)) };
        proven = proven.max(least);
        if least > makespan {
            low = makespan + Time(1);
        } else {
            high = makespan;
        }
        if low >= high {
            break;
        }
    }
    proven
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
    use rk_plan::Engine;

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
