//! The symbols of `cc/shim.h`, which documents each.

use std::ffi::{c_char, c_void};

/// `at::Tensor*`, the handle of the tch crate.
pub type RawTensor = *mut c_void;

/// One argument or result in preorder (`RkCell`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    pub tag: u32,
    pub len: u32,
    pub payload: u64,
}

pub const NONE: u32 = 0;
pub const TENSOR: u32 = 1;
pub const SLOT: u32 = 2;
pub const INT: u32 = 3;
pub const FLOAT: u32 = 4;
pub const BOOL: u32 = 5;
pub const STR: u32 = 6;
pub const LIST: u32 = 7;

macro_rules! opaque {
    ($($name:ident),*) => { $(
        #[repr(C)]
        pub struct $name { _private: [u8; 0] }
    )* };
}
opaque!(Op, Call, RawSlots, RawArchive, RawStep, RawArena, RawParked, RawStreams, RawWatch);

/// The place of one result of a launch (`RkPlace`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawPlace {
    pub bytes: i64,
    pub offset: i64,
    pub slot: i32,
}

/// Bytes `from..to` of an arena (`RkGap`).
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawGap {
    pub from: i64,
    pub to: i64,
}

type Status = *const c_char;

/// A generated kernel: rows `begin..end` of its outermost dimension, on the storages at these addresses.
pub type KernelFn = unsafe extern "C" fn(*const *mut c_void, i64, i64);

unsafe extern "C" {
    pub fn rk_string_free(text: *const c_char);
    pub fn rk_torch_version() -> *const c_char;

    pub fn rk_op_find(name: *const c_char, overload: *const c_char, out: *mut *mut Op) -> Status;
    pub fn rk_op_schema(op: *const Op, out: *mut *const c_char) -> Status;
    pub fn rk_op_call(
        op: *const Op,
        args: *const Cell,
        n: usize,
        out: *mut *const Cell,
        out_n: *mut usize,
    ) -> Status;
    pub fn rk_call_new(
        op: *const Op,
        args: *const Cell,
        n: usize,
        outs: *const i32,
        n_outs: usize,
        grad_mode: bool,
        out: *mut *mut Call,
    ) -> Status;
    pub fn rk_call_run(call: *const Call, slots: *mut RawSlots) -> Status;
    pub fn rk_call_free(call: *mut Call);

    pub fn rk_slots_new(n: usize) -> *mut RawSlots;
    pub fn rk_slots_free(slots: *mut RawSlots);
    pub fn rk_slots_set(slots: *mut RawSlots, i: usize, tensor: RawTensor) -> Status;
    pub fn rk_slots_get(slots: *const RawSlots, i: usize, out: *mut RawTensor) -> Status;
    pub fn rk_slots_clear(slots: *mut RawSlots, i: usize) -> Status;
    pub fn rk_addresses(
        slots: *const RawSlots,
        buffers: *const i32,
        n: usize,
        layouts: *const i64,
        out: *mut *mut c_void,
    ) -> Status;
    pub fn rk_launch(
        kernel: KernelFn,
        slots: *const RawSlots,
        buffers: *const i32,
        n: usize,
        layouts: *const i64,
        rows: i64,
        grain: i64,
    ) -> Status;
    pub fn rk_slots_copy(slots: *mut RawSlots, from: usize, to: usize) -> Status;

    pub fn rk_memory_install() -> Status;
    pub fn rk_memory_read(current: *mut i64, peak: *mut i64, count: *mut i64);
    pub fn rk_memory_reset_peak(leaving: i64);

    pub fn rk_arena_new(bytes: usize, kind: i32, index: i32, out: *mut *mut RawArena) -> Status;
    pub fn rk_arena_base(arena: *const RawArena) -> *mut c_void;
    pub fn rk_arena_free(arena: *mut RawArena);
    pub fn rk_arena_run(
        arena: *mut RawArena,
        outputs: *const RawPlace,
        n: usize,
        gaps: *const RawGap,
        m: usize,
    ) -> Status;
    pub fn rk_arena_enter(arena: *mut RawArena, rehearse: bool) -> Status;
    pub fn rk_arena_leave(arena: *mut RawArena);
    pub fn rk_arena_begin(arena: *mut RawArena, run: usize) -> Status;
    pub fn rk_arena_end(arena: *mut RawArena, slots: *mut RawSlots) -> Status;
    pub fn rk_arena_counts(
        arena: *mut RawArena,
        placed: *mut i64,
        outside: *mut i64,
        moved: *mut i64,
        left: *mut i64,
    );
    pub fn rk_arena_handle(arena: *mut RawArena, of: RawTensor, owns: bool, out: *mut RawTensor) -> Status;

    pub fn rk_streams_new(index: i32, n: usize, out: *mut *mut RawStreams) -> Status;
    pub fn rk_streams_free(streams: *mut RawStreams);
    pub fn rk_streams_handle(streams: *const RawStreams, i: usize, out: *mut *mut c_void) -> Status;
    pub fn rk_streams_follow(streams: *mut RawStreams) -> Status;
    pub fn rk_streams_use(streams: *mut RawStreams, i: i32) -> Status;

    pub fn rk_seed(kind: i32, index: i32, seed: u64) -> Status;
    pub fn rk_watch_new(out: *mut *mut RawWatch) -> Status;
    pub fn rk_watch_workspace(
        watch: *mut RawWatch,
        kept: *const RawTensor,
        n: usize,
        leaving: *const RawTensor,
        m: usize,
        out: *mut i64,
    ) -> Status;
    pub fn rk_watch_free(watch: *mut RawWatch);
    pub fn rk_generator_get(kind: i32, index: i32, out: *mut RawTensor) -> Status;
    pub fn rk_generator_set(kind: i32, index: i32, state: RawTensor) -> Status;
    pub fn rk_generator_park(kind: i32, index: i32, out: *mut *mut RawParked) -> Status;
    pub fn rk_generator_unpark(kind: i32, index: i32, parked: *const RawParked) -> Status;
    pub fn rk_parked_free(parked: *mut RawParked);
    pub fn rk_settings_read(kind: i32, index: i32, out: *mut *const c_char) -> Status;
    pub fn rk_settings_apply(kind: i32, index: i32, wanted: *const c_char) -> Status;
    pub fn rk_cuda_load(folder: *const c_char, devices: *mut i32) -> Status;
    pub fn rk_device_synchronize(kind: i32, index: i32) -> Status;
    pub fn rk_cuda_memory(index: i32, current: *mut i64, peak: *mut i64) -> Status;
    pub fn rk_cuda_reset_peak(index: i32) -> Status;
    pub fn rk_cuda_cached(index: i32, out: *mut i64) -> Status;
    pub fn rk_threads(set: i32, out: *mut i32) -> Status;

    pub fn rk_bytes_free(bytes: *mut u8);
    pub fn rk_archive_load(path: *const c_char, kind: i32, index: i32, out: *mut *mut RawArchive) -> Status;
    pub fn rk_archive_free(archive: *mut RawArchive);
    pub fn rk_archive_describe(archive: *const RawArchive, out: *mut *mut u8, n: *mut usize) -> Status;
    pub fn rk_archive_tensor(archive: *const RawArchive, i: usize, out: *mut RawTensor) -> Status;
    pub fn rk_pickle_load(
        path: *const c_char,
        names: *mut *mut *const c_char,
        tensors: *mut *mut RawTensor,
        n: *mut usize,
    ) -> Status;

    pub fn rk_step_new(
        archive: *mut RawArchive,
        inputs: *const RawTensor,
        n: usize,
        loss: i32,
        output: i64,
        out: *mut *mut RawStep,
    ) -> Status;
    pub fn rk_step_free(step: *mut RawStep);
    pub fn rk_step_run(step: *mut RawStep, accumulate: bool) -> Status;
    pub fn rk_step_result(
        step: *const RawStep,
        i: usize,
        role: *mut i32,
        name: *mut *const c_char,
        out: *mut RawTensor,
    ) -> Status;
    pub fn rk_step_clear(step: *mut RawStep) -> Status;
    pub fn rk_step_record(
        step: *mut RawStep,
        repeats: i32,
        every_call: bool,
        out: *mut *mut u8,
        n: *mut usize,
    ) -> Status;
}
