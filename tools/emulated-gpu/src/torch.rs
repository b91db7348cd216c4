//! The names under which libtorch_cuda has what rk looks up. They are defined here because only names from Rust leave a cdylib; each goes
//! on to its C++ twin, whose arguments and results of class type C++ passes by address.

use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

unsafe extern "C" {
    fn rk_torch_create(out: *mut c_void, allocate: *mut c_void, release: *mut c_void) -> *mut c_void;
}
// It throws, as torch's does.
unsafe extern "C-unwind" {
    fn rk_torch_change(allocator: *const c_void);
}

/// `c10::cuda::CUDACachingAllocator::allocator`, a `std::atomic<CUDAAllocator*>`.
#[unsafe(export_name = "_ZN3c104cuda20CUDACachingAllocator9allocatorE")]
static ALLOCATOR: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

#[unsafe(no_mangle)]
extern "C" fn rk_torch_current() -> *const AtomicPtr<c_void> {
    &ALLOCATOR
}

/// `createCustomAllocator`
#[unsafe(export_name = "_ZN5torch4cuda22CUDAPluggableAllocator21createCustomAllocatorESt8functionIFPvmiP11CUstream_stEES2_IFvS3_miS5_EE")]
unsafe extern "C" fn create(out: *mut c_void, allocate: *mut c_void, release: *mut c_void) -> *mut c_void {
    // SAFETY: the caller's, by the convention of C++.
    unsafe { rk_torch_create(out, allocate, release) }
}

/// `changeCurrentAllocator`
#[unsafe(export_name = "_ZN5torch4cuda22CUDAPluggableAllocator22changeCurrentAllocatorERKSt10shared_ptrIN3c104cuda20CUDACachingAllocator13CUDAAllocatorEE")]
unsafe extern "C-unwind" fn change(allocator: *const c_void) {
    // SAFETY: the caller's.
    unsafe { rk_torch_change(allocator) }
}
