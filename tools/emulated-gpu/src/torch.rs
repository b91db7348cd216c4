//! The names under which libtorch_cuda has what rk looks up. They are defined here because only names from Rust leave a cdylib; each goes
//! on to its C++ twin, whose arguments and results of class type C++ passes by address.

use std::ffi::c_void;
use std::sync::atomic::AtomicPtr;

unsafe extern "C" {
    fn rk_torch_create(out: *mut c_void, allocate: *mut c_void, release: *mut c_void) -> *mut c_void;
}
// They throw, as torch's do.
unsafe extern "C-unwind" {
    fn rk_torch_change(allocator: *const c_void);
    fn rk_torch_sleep(cycles: i64);
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

/// `at::cuda::sleep`
#[unsafe(export_name = "_ZN2at4cuda5sleepEl")]
unsafe extern "C-unwind" fn sleep(cycles: i64) {
    // SAFETY: no preconditions.
    unsafe { rk_torch_sleep(cycles) }
}

/// `at::cuda::getDeviceProperties`. Of what it points to a name of 256 bytes comes first.
#[unsafe(export_name = "_ZN2at4cuda19getDevicePropertiesEa")]
extern "C" fn properties(_device: i8) -> *const c_void {
    const NAME: &[u8] = b"Emulated GPU";
    static PROPERTIES: [u8; 256] = {
        let mut bytes = [0; 256];
        let mut at = 0;
        while at < NAME.len() {
            bytes[at] = NAME[at];
            at += 1;
        }
        bytes
    };
    PROPERTIES.as_ptr().cast()
}
