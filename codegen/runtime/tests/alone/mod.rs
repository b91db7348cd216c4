//! One test at a time: the allocator's counter and the default generator belong to the process.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rk_torch::memory;

/// Holds the process for a test, with the counting allocator installed and one thread: tensors are tiny here, and on a busy machine
/// threads would wait for each other most of the time.
pub fn alone() -> MutexGuard<'static, ()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let guard = LOCK.lock().unwrap_or_else(PoisonError::into_inner);
    memory::install().unwrap();
    rk_torch::set_threads(1).unwrap();
    guard
}
