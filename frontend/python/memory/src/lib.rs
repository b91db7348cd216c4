//! `rk._rk_memory`: the bytes that PyTorch allocates on the CPU, counted, whatever the version of torch.
//!
//! It takes from libtorch the interface of c10's allocators alone, whose layout is the same in every version that the package
//! was tested with (`rk/_torch.py`); the package asks for those versions before it loads this. Where `rk._rk_runtime` runs, that
//! one counts: it knows what a step's arena serves.
//!
//! **Absent here:** tensors, operators, steps.

use pyo3::prelude::*;

/// The bytes that PyTorch allocates on the CPU.
#[pymodule]
mod _rk_memory {
    #[pymodule_export]
    use super::{count_memory, memory};
}

unsafe extern "C" {
    fn rk_counter_install();
    fn rk_counter_read(now: *mut i64, most: *mut i64, leaving: i64);
}

/// From now on what PyTorch's allocator on the CPU hands out is counted.
#[pyfunction]
fn count_memory() {
    // SAFETY: idempotent, and it only sets c10's allocator.
    unsafe { rk_counter_install() }
}

/// Bytes that are allocated on the CPU now, beyond what was before they were counted, and the most since the last call of this.
/// `leaving`: of what is there now, bytes that are about to be given back, and not in the most of the next call.
#[pyfunction]
#[pyo3(signature = (leaving=0))]
fn memory(leaving: u64) -> (u64, u64) {
    let (mut now, mut most) = (0, 0);
    // SAFETY: plain out-parameters.
    unsafe { rk_counter_read(&mut now, &mut most, leaving.try_into().unwrap_or(i64::MAX)) }
    (now.max(0) as u64, most.max(0) as u64)
}
