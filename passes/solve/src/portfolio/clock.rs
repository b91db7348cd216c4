//! The clock, which ends searches, and of whose time each of them gets a part. Within a search nothing depends on it.
//!
//! It is the system's, or it counts work: then time passes by a fixed amount with every look at the clock and stands still in
//! between, so that the same request ends with the same plan on every machine and under any load.

use std::time::{Duration, Instant};

/// The time now: the system's, except where time is [`counted`].
pub(crate) fn now() -> Instant {
    counted::now().unwrap_or_else(Instant::now)
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

    /// The same after work that was done without a look: where work is counted, it counts as so much.
    pub(crate) fn expired_after(&self, work: Duration) -> bool {
        counted::pass(work);
        self.expired()
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

/// Time as a count of looks at the clock, of the thread that asks for it. Child processes do not count it.
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

    /// Whether time is counted on this thread.
    pub(crate) fn is_on() -> bool {
        TIME.get().is_some()
    }

    /// Does a job in counted time; inside of another one, in that one's.
    pub(crate) fn time<T>(look: Duration, job: impl FnOnce() -> T) -> T {
        /// A job that panics leaves the system's time behind, too.
        struct End(Option<(Instant, Duration)>);
        impl Drop for End {
            fn drop(&mut self) {
                TIME.set(self.0);
            }
        }
        let before = TIME.get();
        if before.is_some() {
            return job();
        }
        let _end = End(before);
        TIME.set(Some((Instant::now(), look)));
        job()
    }

    /// Lets counted time pass, where time is counted.
    pub(crate) fn pass(duration: Duration) {
        if let Some((now, look)) = TIME.get() {
            TIME.set(Some((now + duration, look)));
        }
    }
}
