//! The inner loop of every search by itself: change a sequence, look at its peak, take the change back.
//!
//! For benchmarks (an edit against a full replay by the judge) and tests; a search chooses its edits with more care.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, Sequence, Time};

use crate::state::flat_graph::{FlatGraph, from_sequence};
use crate::state::slotted_timeline::SlottedTimeline;

/// A legal sequence, ready for edits.
pub struct Edits {
    model: FlatGraph,
    nodes: Vec<u32>,
}

impl Edits {
    /// Prepares a legal sequence.
    pub fn new(graph: &Graph, sequence: &Sequence) -> Self {
        Self { model: FlatGraph::new(graph), nodes: from_sequence(sequence) }
    }

    /// Runs `count` random nodes once more at random places, one at a time; calls `each` with the changed sequence's peak and
    /// time, and takes the run away again.
    pub fn run(&self, count: usize, seed: u64, mut each: impl FnMut(Bytes, Time)) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut timeline = SlottedTimeline::new(&self.model, &self.nodes);
        for _ in 0..count {
            let node = random.random_range(0..self.model.len() as u32);
            let first = timeline.runs(node)[0];
            let place = timeline.previous_used(random.random_range(first + 1..=timeline.last_slot() + 1));
            if self.model.once[node as usize] || place == first {
                continue;
            }
            if timeline.reserve(place, 1) {
                // All slots have moved, but no run has changed.
                timeline.commit();
                continue;
            }
            let free = timeline.room_before(place);
            timeline.insert(node, free);
            each(Bytes(timeline.peak().unsigned_abs()), Time(timeline.cost()));
            timeline.rollback();
        }
    }
}

#[cfg(test)]
mod tests {
    use rk_plan::{base_trace, working_set};

    use super::*;
    use crate::synthetic::{Family, graph};

    #[test]
    fn one_more_run_costs_its_time_and_may_let_a_value_rest() {
        let graph = graph(Family::Residual, 200, 3);
        let base = base_trace(&graph);
        let edits = Edits::new(&graph, &Sequence::base(&graph));
        let (mut count, mut lower) = (0, 0);
        edits.run(2000, 7, |peak, time| {
            assert!(peak >= working_set(&graph).0 && time > base.time);
            count += 1;
            lower += usize::from(peak < base.peak);
        });
        assert!(count > 1200 && lower > 0, "{count} {lower}");
    }
}
