//! Launches of generated kernels: rows divided among libtorch's own threads, addresses taken from the slots.

use crate::error::{Result, check};
use crate::ffi;
use crate::prepared::Slots;

/// A generated kernel: rows `begin..end` of its outermost dimension, on the storages at these addresses.
pub type KernelFn = unsafe extern "C" fn(*const *mut std::ffi::c_void, i64, i64);

/// Elements that one thread should have at least: below, starting it costs more than it saves (ATen's own grain).
const GRAIN: i64 = 32_768;

/// A kernel with its slots bound.
#[derive(Debug)]
pub struct Launch {
    kernel: KernelFn,
    buffers: Vec<i32>,
    layouts: Vec<i64>,
    rows: i64,
    grain: i64,
}

impl Launch {
    /// Binds a kernel to slots. `layouts` has for each of them: element type (`c10::ScalarType`), number of dimensions, sizes,
    /// strides.
    ///
    /// # Safety
    /// `kernel` must stay loaded, and on tensors of these layouts it must touch nothing else than their elements.
    pub unsafe fn new(kernel: KernelFn, buffers: &[(usize, Vec<i64>)], rows: i64, row_elements: i64) -> Self {
        let layouts = buffers.iter().flat_map(|(_, layout)| layout.iter().copied()).collect();
        let buffers = buffers.iter().map(|(slot, _)| *slot as i32).collect();
        Self { kernel, buffers, layouts, rows, grain: (GRAIN / row_elements.max(1)).max(1) }
    }

    /// Runs the kernel on `slots`.
    ///
    /// # Errors
    /// When a slot does not exist or holds a tensor of another layout.
    pub fn run(&self, slots: &mut Slots) -> Result<()> {
        let (buffers, layouts) = (self.buffers.as_ptr(), self.layouts.as_ptr());
        let count = self.buffers.len();
        // SAFETY: the constructor's caller; the shim checks slots and layouts.
        unsafe {
            check(ffi::rk_launch(self.kernel, slots.raw(), buffers, count, layouts, self.rows, self.grain))
        }
    }
}
