//! Streams of a GPU, shared with torch: what operators and generated kernels are queued on.

use std::ffi::c_void;

use crate::device::Device;
use crate::error::{Error, Result, check};
use crate::ffi;

/// Some streams of one GPU, from torch's pool.
#[derive(Debug)]
pub struct Streams {
    raw: *mut ffi::RawStreams,
}

// SAFETY: handles of the driver, which may be used from any thread; which stream is current belongs to a thread, and is set anew
// by whoever runs a step.
unsafe impl Send for Streams {}

impl Streams {
    /// `count` different streams of an opened device.
    ///
    /// # Errors
    /// When the device is no GPU.
    pub fn new(device: Device, count: u32) -> Result<Self> {
        let Device::Cuda(index) = device else { return Err(Error::new("the CPU has no streams")) };
        let mut raw = std::ptr::null_mut();
        // SAFETY: a plain out-parameter.
        unsafe { check(ffi::rk_streams_new(index, count as usize, &mut raw))? };
        Ok(Self { raw })
    }

    /// The driver's handle (`CUstream`).
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn handle(&self, stream: u32) -> Result<*mut c_void> {
        let mut out = std::ptr::null_mut();
        // SAFETY: the streams are alive.
        unsafe { check(ffi::rk_streams_handle(self.raw, stream as usize, &mut out))? };
        Ok(out)
    }

    /// From now on stream 0 is the one that is current in this thread, and the one that will be so again.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn follow(&mut self) -> Result<()> {
        // SAFETY: the streams are alive.
        unsafe { check(ffi::rk_streams_follow(self.raw)) }
    }

    /// Operators of this thread go to this stream from now on; `None`: to the one before.
    ///
    /// # Errors
    /// When there is no such stream.
    pub fn make_current(&mut self, stream: Option<u32>) -> Result<()> {
        let number = stream.map_or(-1, |stream| stream as i32);
        // SAFETY: the streams are alive.
        unsafe { check(ffi::rk_streams_use(self.raw, number)) }
    }
}

impl Drop for Streams {
    fn drop(&mut self) {
        // SAFETY: made by rk_streams_new, freed once.
        unsafe { ffi::rk_streams_free(self.raw) }
    }
}
