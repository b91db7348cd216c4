//! Time on the emulated device, in nanoseconds of its own: nothing here depends on how fast this machine is.

use std::sync::atomic::{AtomicU64, Ordering};

/// What the host needs to queue something. More than short work takes, as on a GPU: who measures work as it is queued sees the host.
pub const LATENCY: u64 = 5_000;

/// What a kernel takes, whatever it does.
pub const KERNEL: u64 = 2_000;

/// A moment that has come, at some time, or has not.
#[derive(Default)]
pub struct Moment(AtomicU64);

impl Moment {
    /// When it came.
    pub fn come(&self) -> Option<u64> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    pub fn set(&self, at: u64) {
        self.0.store(at + 1, Ordering::Relaxed);
    }
}
