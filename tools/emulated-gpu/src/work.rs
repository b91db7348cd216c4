//! What a stream does: a function of the emulated torch device, or a kernel in PTX. It may run any number of times, once per replay.

use std::ffi::{CStr, c_char, c_void};

use crate::memory::Memory;

type Run = Box<dyn Fn(&[Memory]) -> Result<(), String> + Send + Sync>;

pub struct Work {
    pub name: String,
    /// What it takes.
    pub nanos: u64,
    run: Run,
}

/// A closure of C++ with what it owns. `run` gives null, or a text that stays valid until the next call on that thread.
struct Foreign {
    run: unsafe extern "C" fn(*mut c_void) -> *const c_char,
    free: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
}

// SAFETY: it is run by one thread at a time, under the driver's lock.
unsafe impl Send for Foreign {}
// SAFETY: as above.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        // SAFETY: made by the caller of `Work::foreign`, freed once.
        unsafe { (self.free)(self.data) }
    }
}

impl Work {
    pub fn new(
        name: String,
        nanos: u64,
        run: impl Fn(&[Memory]) -> Result<(), String> + Send + Sync + 'static,
    ) -> Self {
        Self { name, nanos, run: Box::new(run) }
    }

    pub fn foreign(
        name: String,
        nanos: u64,
        run: unsafe extern "C" fn(*mut c_void) -> *const c_char,
        free: unsafe extern "C" fn(*mut c_void),
        data: *mut c_void,
    ) -> Self {
        let closure = Foreign { run, free, data };
        Self::new(name, nanos, move |_| {
            let closure = &closure;
            // SAFETY: the data is alive as long as the closure.
            let failed = unsafe { (closure.run)(closure.data) };
            if failed.is_null() {
                return Ok(());
            }
            // SAFETY: a text by contract.
            Err(unsafe { CStr::from_ptr(failed) }.to_string_lossy().into_owned())
        })
    }

    pub fn run(&self, memory: &[Memory]) -> Result<(), String> {
        (self.run)(memory)
    }
}
