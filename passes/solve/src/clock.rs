//! The clock, which only stops: no decision but the end of a search depends on it.

use std::time::{Duration, Instant};

/// The time now: the system's, except in a test whose time is [`counted`].
pub(crate) fn now() -> Instant {
    #[cfg(test)]
    if let Some(now) = counted::now() {
        return now;
    }
    Instant::now()
}

/// A deadline.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
    end: Option<Instant>,
}

impl Clock {
    /// Ends after `limit` from now. Limits beyond what the system can represent never end.
    pub(crate) fn new(limit: Duration) -> Self {
        let start = now();
        Self { start, end: start.checked_add(limit) }
    }

    pub(crate) fn expired(&self) -> bool {
        self.end.is_some_and(|end| now() >= end)
    }

    /// When it ends, if ever.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.end
    }

    /// Since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    /// Until the end.
    pub(crate) fn left(&self) -> Duration {
        self.end.map_or(Duration::MAX, |end| end.saturating_duration_since(now()))
    }

    /// The same with another time left.
    pub(crate) fn with_left(&self, left: Duration) -> Self {
        Self { start: self.start, end: now().checked_add(left) }
    }

    /// Ends after this share of what is left, at the latest.
    pub(crate) fn part(&self, share: f64) -> Self {
        Self::new(self.left().min(Duration::from_secs(1 << 30)).mul_f64(share.clamp(0.0, 1.0)))
    }
}

/// Time for tests: it passes by a fixed amount with every look at the clock and stands still in between, so that what a
/// test sees does not depend on what else the machine does. Of the thread that asks for it, and not of child processes.
#[cfg(test)]
pub(crate) mod counted {
    use std::cell::Cell;
    use std::time::{Duration, Instant};

    thread_local!(static TIME: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) });

    /// The counted time, if time is counted; the look takes its time.
    pub(super) fn now() -> Option<Instant> {
        let (now, look) = TIME.get()?;
        TIME.set(Some((now + look, look)));
        Some(now)
    }

    /// Does a job in counted time.
    pub(crate) fn time<T>(look: Duration, job: impl FnOnce() -> T) -> T {
        TIME.set(Some((Instant::now(), look)));
        let result = job();
        TIME.set(None);
        result
    }

    /// Lets counted time pass.
    pub(crate) fn pass(duration: Duration) {
        let (now, look) = TIME.get().expect("time is counted");
        TIME.set(Some((now + duration, look)));
    }
}
