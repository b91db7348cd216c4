//! When the exact solution of a cut problem stops: at what is good enough, after so much work, or by the clock.

use std::time::Instant;

use crate::portfolio::clock::now;

/// When to stop.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Solutions at or above this many ticks are of no interest: a plan this good is known.
    pub cutoff: u64,
    /// A bound at or below this many ticks is of no interest: another cut has proven as much.
    pub floor: u64,
    /// A bound this many ticks below the best solution is as good as that.
    pub near: u64,
    /// So is one that is closer than one part in this many of the relaxation; 0 is none.
    pub parts: u64,
    /// The most subproblems.
    pub nodes: u64,
    /// The wall clock, if it counts.
    pub deadline: Option<Instant>,
}

impl Limits {
    /// Until it is solved.
    pub const NONE: Self =
        Self { cutoff: u64::MAX, floor: 0, near: 0, parts: 0, nodes: u64::MAX, deadline: None };

    /// When to stop preparing and to begin: after a quarter of the time.
    pub(crate) fn probing(&self) -> Option<Instant> {
        let start = now();
        self.deadline.map(|deadline| start + deadline.saturating_duration_since(start) / 4)
    }

    pub(crate) fn passed(&self, nodes: u64) -> bool {
        nodes >= self.nodes || self.deadline.is_some_and(|deadline| now() >= deadline)
    }
}
