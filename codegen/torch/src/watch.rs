//! The workspace of a call, as an arena needs it: what the call asks of the CPU's allocator beside its results, packed.
//!
//! The packer is the arena's, so that what was enough for the one is enough for the other.

use crate::error::{Result, check};
use crate::ffi;
use crate::memory;
use tch::Tensor;

/// Listens to the CPU's allocator from its making on. One at a time in a process.
#[derive(Debug)]
pub struct Watch {
    raw: *mut ffi::RawWatch,
}

// SAFETY: plain data on the C++ side, guarded there while it listens.
unsafe impl Send for Watch {}

impl Watch {
    /// Starts listening.
    ///
    /// # Errors
    /// When somebody else listens.
    pub fn start() -> Result<Self> {
        memory::install()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: a plain out-parameter.
        unsafe { check(ffi::rk_watch_new(&mut raw))? };
        Ok(Self { raw })
    }

    /// Stops, and gives the bytes that the temporaries need beside the `kept` results, whose places may be used until they are asked
    /// for. Results that are `leaving` have no place in the arena.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn workspace(self, kept: &[Tensor], leaving: &[Tensor]) -> Result<u64> {
        let raw = |tensors: &[Tensor]| -> Vec<ffi::RawTensor> {
            tensors.iter().map(|tensor| tensor.as_ptr() as ffi::RawTensor).collect()
        };
        let (kept, leaving) = (raw(kept), raw(leaving));
        let mut bytes = 0;
        // SAFETY: the tensors outlive the call, which reads their addresses.
        unsafe {
            let (n, m) = (kept.len(), leaving.len());
            check(ffi::rk_watch_workspace(self.raw, kept.as_ptr(), n, leaving.as_ptr(), m, &mut bytes))?;
        }
        Ok(u64::try_from(bytes).unwrap_or(0))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // SAFETY: made by rk_watch_new, freed once.
        unsafe { ffi::rk_watch_free(self.raw) }
    }
}
