//! The clock, which only stops: no decision but the end of a search depends on it.

use std::time::{Duration, Instant};

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    end: Option<Instant>,
}

impl Clock {
    /// Ends after `limit` from now. Limits beyond what the system can represent never end.
    pub(crate) fn new(limit: Duration) -> Self {
        let start = Instant::now();
        Self { start, end: start.checked_add(limit) }
    }

    pub(crate) fn expired(&self) -> bool {
        self.end.is_some_and(|end| Instant::now() >= end)
    }

    /// When it ends, if ever.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.end
    }

    /// Since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Until the end.
    pub(crate) fn left(&self) -> Duration {
        self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()))
    }

    /// The same with another time left.
    pub(crate) fn with_left(&self, left: Duration) -> Self {
        Self { start: self.start, end: Instant::now().checked_add(left) }
    }

    /// Ends after this share of what is left, at the latest.
    pub(crate) fn part(&self, share: f64) -> Self {
        Self::new(self.left().min(Duration::from_secs(1 << 30)).mul_f64(share.clamp(0.0, 1.0)))
    }
}
