//! The memory of a lowered step: one mapping, in which torch's own requests are served at planned addresses.
//!
//! `cc/arena.cpp` says how a request is recognized, and why this is done in the allocator and not by out= variants.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::device::Device;
use crate::error::{Error, Result, check};
use crate::ffi::{self, RawGap, RawPlace};
use crate::memory;
use crate::prepared::Slots;
use tch::Tensor;

/// Where one result of a launch goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Bytes of its storage; 0: an undefined or empty tensor, which has no place.
    pub bytes: u64,
    /// Offset of its first byte; `None`: it leaves the step, and whoever gets it owns it.
    pub offset: Option<u64>,
    /// The slot that holds it when the launch is done.
    pub slot: usize,
}

/// What happened while a step ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests that were served in the arena.
    pub placed: u64,
    /// Requests of the whole process that were not.
    pub outside: u64,
    /// Results that were made elsewhere and moved to their place.
    pub moved: u64,
    /// Results that left the step.
    pub left: u64,
}

/// Memory of a lowered step. Tensors in it may outlive it; what they hold is valid until the step runs again.
#[derive(Debug)]
pub struct Arena {
    raw: *mut ffi::RawArena,
}

// SAFETY: all of its state is guarded by a lock on the C++ side.
unsafe impl Send for Arena {}

/// Requests carry no name of the step that they belong to, so one step runs at a time.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl Arena {
    /// Maps `bytes` bytes of the CPU, which are committed when they are first touched, or allocates them on a GPU, at once.
    ///
    /// # Errors
    /// When there is too little memory, with what is needed.
    pub fn new(bytes: u64, device: Device) -> Result<Self> {
        memory::install()?;
        let size = usize::try_from(bytes)
            .map_err(|_| Error::new(format!("{bytes} bytes are more than this machine can address")))?;
        let mut raw = std::ptr::null_mut();
        let (kind, index) = device.raw();
        // SAFETY: a plain out-parameter.
        unsafe { check(ffi::rk_arena_new(size, kind, index, &mut raw))? };
        Ok(Self { raw })
    }

    /// The address of its first byte.
    pub fn base(&self) -> usize {
        // SAFETY: the arena is alive.
        unsafe { ffi::rk_arena_base(self.raw) as usize }
    }

    /// Declares the next launch: its results, and the bytes that are free while it runs, in order of preference.
    ///
    /// # Errors
    /// When memory is exhausted.
    pub fn add_launch(&mut self, results: &[Place], free: &[Range<u64>]) -> Result<()> {
        let place = |p: &Place| RawPlace {
            bytes: p.bytes as i64,
            offset: p.offset.map_or(-1, |offset| offset as i64),
            slot: p.slot as i32,
        };
        let places: Vec<RawPlace> = results.iter().map(place).collect();
        let gap = |range: &Range<u64>| RawGap { from: range.start as i64, to: range.end as i64 };
        let gaps: Vec<RawGap> = free.iter().map(gap).collect();
        // SAFETY: both lists outlive the call, which copies them.
        unsafe {
            check(ffi::rk_arena_run(self.raw, places.as_ptr(), places.len(), gaps.as_ptr(), gaps.len()))
        }
    }

    /// From now on the requests of this thread are served here; when `rehearse`, they go to the heap and are only watched.
    /// Waits while another step runs.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn enter(&mut self, rehearse: bool) -> Result<Running<'_>> {
        let alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: no other step is running, as the lock says.
        unsafe { check(ffi::rk_arena_enter(self.raw, rehearse))? };
        Ok(Running { arena: self, _alone: alone })
    }
}

impl Arena {
    /// A tensor of its own over what `tensor` has in the arena, which stays until the last of these is gone; `tensor` itself if it
    /// lies elsewhere.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn handle(&self, tensor: &Tensor) -> Result<Tensor> {
        self.another(tensor, true)
    }

    fn another(&self, tensor: &Tensor, owns: bool) -> Result<Tensor> {
        let mut out = std::ptr::null_mut();
        // SAFETY: arena and tensor outlive the call; a handle that is given out is owned by us.
        unsafe {
            check(ffi::rk_arena_handle(self.raw, tensor.as_ptr() as ffi::RawTensor, owns, &mut out))?;
            Ok(Tensor::from_ptr(out.cast()))
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: made by rk_arena_new, let go once; the C++ side waits for the last tensor.
        unsafe { ffi::rk_arena_free(self.raw) }
    }
}

/// A step that is running in its arena; it ends when this is dropped.
#[derive(Debug)]
pub struct Running<'a> {
    arena: &'a mut Arena,
    _alone: MutexGuard<'static, ()>,
}

impl Running<'_> {
    /// Launch number `launch` begins.
    ///
    /// # Errors
    /// When there is no such launch.
    pub fn begin(&mut self, launch: usize) -> Result<()> {
        // SAFETY: the arena is alive.
        unsafe { check(ffi::rk_arena_begin(self.arena.raw, launch)) }
    }

    /// The launch has ended: its results are in their places from here on.
    ///
    /// # Errors
    /// When a result has another size than planned, or the launch keeps temporaries.
    pub fn end(&mut self, slots: &mut Slots) -> Result<()> {
        // SAFETY: both are alive.
        unsafe { check(ffi::rk_arena_end(self.arena.raw, slots.raw())) }
    }

    /// The same bytes again, in a tensor that keeps none of them: it is valid as long as the arena, and asks nobody to free it.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn alias(&self, tensor: &Tensor) -> Result<Tensor> {
        self.arena.another(tensor, false)
    }

    /// What happened since the step was entered.
    pub fn counts(&self) -> Counts {
        let (mut placed, mut outside, mut moved, mut left) = (0, 0, 0, 0);
        // SAFETY: plain out-parameters.
        unsafe { ffi::rk_arena_counts(self.arena.raw, &mut placed, &mut outside, &mut moved, &mut left) };
        let count = |number: i64| u64::try_from(number).unwrap_or(0);
        Counts { placed: count(placed), outside: count(outside), moved: count(moved), left: count(left) }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // SAFETY: the arena is alive, and was entered.
        unsafe { ffi::rk_arena_leave(self.arena.raw) }
    }
}
