//! Prepared calls: arguments are converted once, a run is one call across the border.
//!
//! The tensors of a step live in [`Slots`], a table on the C++ side. A prepared call names the slots it reads
//! and the slots that take its results, so a run moves no tensor handles through Rust.

use crate::error::{Error, Result, check};
use crate::ffi::{self, Cell};
use crate::operator::Operator;
use crate::value::{Value, encode};
use tch::Tensor;

/// The tensors of a running step, by index. A slot may be empty (undefined).
#[derive(Debug)]
pub struct Slots {
    raw: *mut ffi::RawSlots,
    len: usize,
}

// SAFETY: a table of reference-counted handles; `&mut self` is needed to change it.
unsafe impl Send for Slots {}

impl Slots {
    /// `len` empty slots.
    ///
    /// # Errors
    /// When memory is exhausted.
    pub fn new(len: usize) -> Result<Self> {
        // SAFETY: no preconditions.
        let raw = unsafe { ffi::rk_slots_new(len) };
        if raw.is_null() {
            return Err(Error::new(format!("no memory for {len} slots")));
        }
        Ok(Self { raw, len })
    }

    /// The number of slots.
    pub fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn raw(&mut self) -> *mut ffi::RawSlots {
        self.raw
    }

    pub(crate) fn raw_ref(&self) -> *const ffi::RawSlots {
        self.raw
    }

    /// Whether there are no slots at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a reference to `tensor` into `slot`; what was there is let go.
    ///
    /// # Errors
    /// When the slot does not exist.
    pub fn set(&mut self, slot: usize, tensor: &Tensor) -> Result<()> {
        // SAFETY: the tensor outlives the call; the shim checks the index.
        unsafe { check(ffi::rk_slots_set(self.raw, slot, tensor.as_ptr() as ffi::RawTensor)) }
    }

    /// A handle to the tensor in `slot`; `None` when the slot is empty or undefined.
    ///
    /// # Errors
    /// When the slot does not exist.
    pub fn get(&self, slot: usize) -> Result<Option<Tensor>> {
        let mut out = std::ptr::null_mut();
        // SAFETY: a handle that is given out is owned by us.
        unsafe {
            check(ffi::rk_slots_get(self.raw, slot, &mut out))?;
            Ok((!out.is_null()).then(|| Tensor::from_ptr(out.cast())))
        }
    }

    /// Lets the reference in `slot` go: this is what frees memory.
    ///
    /// # Errors
    /// When the slot does not exist.
    pub fn clear(&mut self, slot: usize) -> Result<()> {
        // SAFETY: the shim checks the index.
        unsafe { check(ffi::rk_slots_clear(self.raw, slot)) }
    }

    /// Lets `to` share the tensor of `from`.
    ///
    /// # Errors
    /// When a slot does not exist.
    pub fn copy(&mut self, from: usize, to: usize) -> Result<()> {
        // SAFETY: the shim checks the indices.
        unsafe { check(ffi::rk_slots_copy(self.raw, from, to)) }
    }
}

impl Drop for Slots {
    fn drop(&mut self) {
        // SAFETY: made by rk_slots_new, freed once.
        unsafe { ffi::rk_slots_free(self.raw) }
    }
}

/// An operator call with its arguments converted.
#[derive(Debug)]
pub struct Prepared {
    raw: *mut ffi::Call,
}

// SAFETY: immutable after construction.
unsafe impl Send for Prepared {}
// SAFETY: likewise.
unsafe impl Sync for Prepared {}

impl Prepared {
    /// Prepares `op` with `args` in schema order; tensors are named by [`Value::Slot`] (a [`Value::Tensor`] is
    /// held by the call for its whole life). `results` names the slot of each tensor result, with `Tensor[]`
    /// results flattened; `None` discards it. Kernels see the grad mode of a training step's forward.
    ///
    /// # Errors
    /// When an argument does not fit the schema.
    pub fn new(op: Operator, args: &[Value], results: &[Option<usize>]) -> Result<Self> {
        Self::with_grad_mode(op, args, results, true)
    }

    /// As [`Prepared::new`], with the grad mode that the call was recorded in: on for a forward operator of a step
    /// with a loss, off in backward and in a step without a loss. Nothing is differentiated either way, but some
    /// kernels (oneDNN's LSTM) keep a workspace for backward only when it is on.
    ///
    /// # Errors
    /// When an argument does not fit the schema.
    pub fn with_grad_mode(
        op: Operator,
        args: &[Value],
        results: &[Option<usize>],
        grad_mode: bool,
    ) -> Result<Self> {
        let mut cells: Vec<Cell> = Vec::with_capacity(args.len());
        args.iter().for_each(|arg| encode(arg, &mut cells));
        let outs: Vec<i32> = results.iter().map(|slot| slot.map_or(-1, |slot| slot as i32)).collect();
        let mut raw = std::ptr::null_mut();
        // SAFETY: the cells borrow from `args`, which outlives the call.
        unsafe {
            let (n, n_outs) = (cells.len(), outs.len());
            check(ffi::rk_call_new(op.raw, cells.as_ptr(), n, outs.as_ptr(), n_outs, grad_mode, &mut raw))?;
        }
        Ok(Self { raw })
    }

    /// Runs the call on `slots`, without autograd.
    ///
    /// # Errors
    /// When a slot does not exist or the operator fails; result slots then hold what they held.
    pub fn run(&self, slots: &mut Slots) -> Result<()> {
        // SAFETY: both handles are alive.
        unsafe { check(ffi::rk_call_run(self.raw, slots.raw)) }
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        // SAFETY: made by rk_call_new, freed once.
        unsafe { ffi::rk_call_free(self.raw) }
    }
}
