//! Launches of generated kernels: rows divided among libtorch's own threads, addresses taken from the slots.

use crate::error::{Result, check};
use crate::ffi::{self, KernelFn};
use crate::prepared::Slots;

/// Elements that one thread should have at least: below, starting it costs more than it saves (ATen's own grain).
const GRAIN: i64 = 32_768;

/// Tensors of a launch: slots, and the layouts that the kernel was made for.
#[derive(Debug)]
pub struct Buffers {
    slots: Vec<i32>,
    layouts: Vec<i64>,
}

impl Buffers {
    /// For each slot its layout: element type (`c10::ScalarType`), number of dimensions, sizes, strides.
    pub fn new(buffers: &[(usize, Vec<i64>)]) -> Self {
        let layouts = buffers.iter().flat_map(|(_, layout)| layout.iter().copied()).collect();
        Self { slots: buffers.iter().map(|(slot, _)| *slot as i32).collect(), layouts }
    }

    /// Where their elements lie now.
    ///
    /// # Errors
    /// When a slot does not exist or holds a tensor of another layout.
    pub fn addresses(&self, slots: &Slots) -> Result<Vec<usize>> {
        let mut out = vec![std::ptr::null_mut(); self.slots.len()];
        let (buffers, layouts) = (self.slots.as_ptr(), self.layouts.as_ptr());
        // SAFETY: `out` is as long as the list of buffers, and every one of them has its layout.
        unsafe { check(ffi::rk_addresses(slots.raw_ref(), buffers, out.len(), layouts, out.as_mut_ptr()))? };
        Ok(out.into_iter().map(|address| address as usize).collect())
    }
}

/// A kernel for the CPU with its slots bound.
#[derive(Debug)]
pub struct Launch {
    kernel: KernelFn,
    buffers: Buffers,
    rows: i64,
    grain: i64,
}

impl Launch {
    /// Binds a kernel to tensors.
    ///
    /// # Safety
    /// `kernel` must stay loaded, and on tensors of these layouts it must touch nothing else than their elements.
    pub unsafe fn new(kernel: KernelFn, buffers: Buffers, rows: i64, row_elements: i64) -> Self {
        Self { kernel, buffers, rows, grain: (GRAIN / row_elements.max(1)).max(1) }
    }

    /// What it is bound to.
    pub fn buffers(&self) -> &Buffers {
        &self.buffers
    }

    /// Runs the kernel on `slots`.
    ///
    /// # Errors
    /// When a slot does not exist or holds a tensor of another layout.
    pub fn run(&self, slots: &mut Slots) -> Result<()> {
        let (buffers, layouts) = (self.buffers.slots.as_ptr(), self.buffers.layouts.as_ptr());
        let count = self.buffers.slots.len();
        // SAFETY: the constructor's caller; the shim checks slots and layouts.
        unsafe {
            check(ffi::rk_launch(self.kernel, slots.raw(), buffers, count, layouts, self.rows, self.grain))
        }
    }
}
