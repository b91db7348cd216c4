//! What is worth its time for a task: the questions that starts, searches and proofs ask before they begin.
//!
//! Not here: how the time is then divided; each of them does that for itself.

use std::time::Duration;

use crate::construct::list_scheduling::list_schedules;
use crate::portfolio::incumbent::Incumbent;
use crate::state::slotted_timeline::SlottedTimeline;

/// Moves of an annealing of the first round, times nodes.
const MOVES_PER_NODE: u64 = 200;
/// Up to here annealing over the order takes a moment, and is tried whenever the gap is large.
const SMALL_GRAPH: usize = 500;
/// A plan is far from the bound if more than one part in this many of the base time lies between: 1 point.
const FAR: u64 = 100;
/// The gap between plan and bound is large above one part in this many of the base time: half a point.
const LARGE_GAP: u64 = 200;
/// Seconds of cuts per thousand nodes, with a reserve for slow machines: 1.5 s at 10,000 nodes.
const CUT_TIME_PER_NODE: Duration = Duration::from_micros(150);

/// More than half a percent of the base time between plan and bound, as a rule, or no plan.
pub(crate) fn gap_is_large(task: &Incumbent) -> bool {
    !gap_within(task, LARGE_GAP)
}

/// Whether a plan is far from the bound: by more than a point, as a rule, or there is none.
pub(crate) fn is_far(task: &Incumbent) -> bool {
    !gap_within(task, FAR)
}

/// Whether annealing over the order takes a moment, so that it is tried whenever the gap is large.
pub(crate) fn is_small(task: &Incumbent) -> bool {
    task.model.len() <= SMALL_GRAPH
}

/// Moves of an annealing of the first round, if nothing else limits them.
pub(crate) fn moves(task: &Incumbent) -> u64 {
    MOVES_PER_NODE * task.model.len() as u64
}

/// Whether there is a plan, at most one part in `parts` of the base time above the bound.
pub(crate) fn gap_within(task: &Incumbent, parts: u64) -> bool {
    let gap = task.best_cost().map(|cost| cost.saturating_sub(task.bound.0));
    gap.is_some_and(|gap| gap.saturating_mul(parts) <= task.base_time)
}

/// Whether a look at the cuts of a graph of this size can end in time: one flow in the whole network is not interrupted.
pub(crate) fn cuts_fit(task: &Incumbent) -> bool {
    task.clock.left() > CUT_TIME_PER_NODE.saturating_mul(u32::try_from(task.model.len()).unwrap_or(u32::MAX))
}

/// Whether a list schedule alone lowers the peak. The graph of a training step is a ladder, and hardly any order of it is better than
/// the given one.
pub(crate) fn lists_lower_the_peak(task: &Incumbent) -> bool {
    let peak = |order: &[u32]| SlottedTimeline::new(&task.model, order).peak();
    let base: Vec<u32> = (0..task.model.len() as u32).collect();
    let orders = list_schedules(&task.model, 5, task.request.seed, &task.clock);
    let least = orders.iter().map(|order| peak(order)).min().unwrap_or(i64::MAX);
    least < peak(&base) / 100 * 97
}
