//! Panics that are caught at the border to C++, with their message and place instead of Rust's report.

use std::cell::{Cell, RefCell};
use std::panic::{self, UnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether this thread is inside [`caught`].
    static INSIDE: Cell<bool> = const { Cell::new(false) };
    /// What the last panic on this thread said, and where.
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

static HOOK: Once = Once::new();

/// Runs `work`; a panic in it comes back as its message and source line, and is not printed.
/// Panics elsewhere are reported as before.
pub(crate) fn caught<T>(work: impl FnOnce() -> T + UnwindSafe) -> Result<T, String> {
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if INSIDE.get() {
                let place = info.location().map(|place| format!("{}:{}: ", place.file(), place.line()));
                let payload = info.payload();
                let message = (payload.downcast_ref::<&str>().copied())
                    .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
                    .unwrap_or("no message");
                LAST.set(place.unwrap_or_default() + message);
            } else {
                previous(info);
            }
        }));
    });
    let outer = INSIDE.replace(true);
    let result = panic::catch_unwind(work);
    INSIDE.set(outer);
    result.map_err(|_| LAST.take())
}
