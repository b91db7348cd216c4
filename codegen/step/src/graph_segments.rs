//! Which launches of a sequence a CUDA graph holds, and which are queued one by one each time.
//!
//! A graph repeats what was queued while a stream was captured. What a launch asks of the host is asked once, then, and launches that
//! draw random numbers ask where the generator stands, and move it on. So a sequence is cut at its draws: what lies between two of
//! them is captured, the draws are queued, and all pieces run one behind the other ([`LaunchSchedule::enqueue`]).
//!
//! Not here: that a launch waits for the host for another reason. Who captures finds out, and queues that piece, too.

use std::ops::Range;

use crate::launch_schedule::{LaunchSchedule, Queued, Region};

/// Fewer launches are queued with the draws around them. A guess, until a GPU has measured it: a graph saves the host all calls but one, and
/// costs an executable graph in memory, and a fork and a join of the streams on the device. Little depends on it: in a GPT-2 of two layers
/// with dropout there are 32, 9, 3, 12, 10, 3, 12 and 101 launches around its draws, so with 4 it would be six launches that are queued more.
const SHORTEST: usize = 3;

/// Launches that are queued together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphSegment {
    /// Their positions in the sequence.
    pub launches: Range<usize>,
    /// Whether a graph may hold them.
    pub captured: bool,
}

/// The pieces of a sequence, in order; one piece if nothing is drawn.
pub fn graph_segments(schedule: &LaunchSchedule) -> Vec<GraphSegment> {
    let draws = |launch: &Queued| launch.accesses.iter().any(|access| access.region == Region::Generator);
    cut(0..schedule.launches.len(), |launch| draws(&schedule.launches[launch]))
}

/// The pieces of these launches where some of them ask the host.
pub fn cut(launches: Range<usize>, asks: impl Fn(usize) -> bool) -> Vec<GraphSegment> {
    let (mut at, all) = (launches.start, launches.end);
    let mut pieces: Vec<GraphSegment> = Vec::new();
    while at < all {
        let draw = (at..all).find(|&launch| asks(launch)).unwrap_or(all);
        let captured = draw - at >= SHORTEST || draw - at == launches.len();
        let end = if captured { draw } else { all.min(draw + 1) };
        match pieces.last_mut().filter(|last| !captured && !last.captured) {
            Some(last) => last.launches.end = end,
            None => pieces.push(GraphSegment { launches: at..end, captured }),
        }
        at = end;
    }
    pieces
}
