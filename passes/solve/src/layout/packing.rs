//! Packing during a search, as a strategy: how it is done stands in [`crate::layout::assign_addresses`].

use std::ops::ControlFlow;

use crate::layout::assign_addresses::{is_time_to_pack, leave_more, pack_early};
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::strategy::Strategy;

/// Looks whether the best plan packs, and leaves time for that; packs it when the time is over or nothing better was found for long. If
/// that takes a part of the time for it, the search has the rest.
pub(crate) struct Packing;

impl Strategy for Packing {
    fn name(&self) -> &'static str {
        "packing"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        if let Some(shorter) = leave_more(task) {
            task.clock = shorter;
        }
        if board.time_is_over || task.clock.expired() || is_time_to_pack(task) {
            let Some(longer) = pack_early(task) else { return ControlFlow::Break(()) };
            task.clock = longer;
            board.time_is_over = false;
        }
        ControlFlow::Continue(())
    }
}
