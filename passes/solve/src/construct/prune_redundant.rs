//! Delete-clean: take recomputations away while the sequence stays within the budget.
//!
//! They are visited by time × random(0.5, 1.5), dearest first. Deleting a run stretches the older instances of its
//! outputs up to their next uses and lets go of operands that were held for it; a range maximum tells most hopeless cases
//! apart before the timeline is touched. Source: docs/design/planner.md, 4.4.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::state::slotted_timeline::SlottedTimeline;

/// Deletes what it can among the second and later runs of `nodes`; returns whether anything went.
pub(crate) fn prune(
    timeline: &mut SlottedTimeline,
    budget: i64,
    nodes: &mut Vec<u32>,
    random: &mut ChaCha8Rng,
) -> bool {
    nodes.sort_unstable();
    nodes.dedup();
    let mut order: Vec<(f64, u32)> = nodes
        .iter()
        .filter(|&&node| timeline.runs(node).len() > 1)
        .map(|&node| (timeline.model.time[node as usize] as f64 * random.random_range(0.5..1.5), node))
        .collect();
    order.sort_unstable_by(|one, other| other.0.total_cmp(&one.0).then(one.1.cmp(&other.1)));
    let mut any = false;
    for (_, node) in order {
        let mut run = timeline.runs(node).len();
        while run > 1 {
            run -= 1;
            // Deleting may take other runs of the same node along.
            if run < timeline.runs(node).len() && can_go(timeline, budget, node, run) {
                any |= try_delete(timeline, budget, node, run);
            }
        }
    }
    any
}

/// All nodes that run more than once.
pub(crate) fn recomputed(timeline: &SlottedTimeline) -> Vec<u32> {
    (0..timeline.model.len() as u32).filter(|&node| timeline.runs(node).len() > 1).collect()
}

/// Whether a run may be spared within the budget, as far as a look at the memory in between tells.
pub(crate) fn can_go(timeline: &SlottedTimeline, budget: i64, node: u32, run: usize) -> bool {
    let model = timeline.model;
    let slot = timeline.runs(node)[run];
    let released = model.reads.row(node).iter().filter(|&&value| {
        let newest = timeline.newest(model.producer[value as usize], slot);
        newest.is_some_and(|newest| timeline.end(value, newest) == slot)
    });
    let released: i64 = released.map(|&value| model.bytes[value as usize]).sum();
    model.writes.row(node).iter().all(|&value| {
        let end = timeline.end(value, run - 1);
        let unread = timeline.end(value, run) == slot;
        unread
            || timeline.tree().most_in(end + 1, slot - 1) + model.bytes[value as usize] - released <= budget
    })
}

/// Takes a run away, and what dies with it, if no step is above `most` then.
pub(crate) fn try_delete(timeline: &mut SlottedTimeline, most: i64, node: u32, run: usize) -> bool {
    let mark = timeline.mark();
    let slot = timeline.runs(node)[run];
    timeline.delete_with_dead(node, slot);
    // Without the new run the older instance may have become useful; if not, it is dead as well.
    let fits = timeline.peak() <= most;
    if !fits {
        timeline.rollback_to(mark);
    }
    fits
}
