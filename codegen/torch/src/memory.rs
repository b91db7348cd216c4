//! Bytes on the CPU, counted exactly, and on CUDA, as its caching allocator counts them.
//!
//! The counter sees every tensor that libtorch allocates on the CPU after [`install`], workspaces of operators
//! included, by requested bytes. It does not see tensors over foreign memory, nor what libraries below c10 keep
//! (oneDNN's primitive caches).

use crate::device::Device;
use crate::error::{Result, check};
use crate::ffi;

/// A reading of the counter; bytes as requested, not rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Bytes allocated and not yet freed.
    pub current: u64,
    /// The most bytes at once since the last [`reset_peak`].
    pub peak: u64,
}

/// Makes the counting allocator libtorch's CPU allocator, once per process. Call it before any tensor is made:
/// earlier tensors are not counted.
///
/// # Errors
/// When libtorch refuses.
pub fn install() -> Result<()> {
    // SAFETY: idempotent.
    unsafe { check(ffi::rk_memory_install()) }
}

/// Reads the counter of `device`.
///
/// # Errors
/// When the device is not there.
pub fn read(device: Device) -> Result<Reading> {
    let (mut current, mut peak, mut count) = (0, 0, 0);
    // SAFETY: plain out-parameters.
    unsafe {
        match device {
            Device::Cpu => ffi::rk_memory_read(&mut current, &mut peak, &mut count),
            Device::Cuda(index) => check(ffi::rk_cuda_memory(index, &mut current, &mut peak))?,
        }
    }
    Ok(Reading { current: current.max(0) as u64, peak: peak.max(0) as u64 })
}

/// Bytes that a GPU's allocator holds and nobody uses; 0 on the CPU, which holds none.
///
/// # Errors
/// When the device is not there.
pub fn cached(device: Device) -> Result<u64> {
    let Device::Cuda(index) = device else { return Ok(0) };
    let mut bytes = 0;
    // SAFETY: a plain out-parameter.
    unsafe { check(ffi::rk_cuda_cached(index, &mut bytes))? };
    Ok(bytes.max(0) as u64)
}

/// Sets the peak of `device` to its current level.
///
/// # Errors
/// When the device is not there.
pub fn reset_peak(device: Device) -> Result<()> {
    // SAFETY: no preconditions.
    unsafe {
        match device {
            Device::Cpu => {
                ffi::rk_memory_reset_peak(0);
                Ok(())
            }
            Device::Cuda(index) => check(ffi::rk_cuda_reset_peak(index)),
        }
    }
}

/// Sets the peak of the CPU to what will be there when `leaving` bytes have been given back, which they are about to be.
pub fn reset_peak_without(leaving: u64) {
    // SAFETY: no preconditions.
    unsafe { ffi::rk_memory_reset_peak(leaving.try_into().unwrap_or(i64::MAX)) }
}

/// The number of allocations that the CPU counter has seen.
pub fn allocations() -> u64 {
    let (mut current, mut peak, mut count) = (0, 0, 0);
    // SAFETY: plain out-parameters.
    unsafe { ffi::rk_memory_read(&mut current, &mut peak, &mut count) };
    count.max(0) as u64
}
