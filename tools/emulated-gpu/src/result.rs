//! What a call of the driver's interface returns: numbers and names are CUDA's.

use std::ffi::CStr;

pub type Code = u32;

macro_rules! codes {
    ($($name:ident $constant:ident = $code:literal),* $(,)?) => {
        $(pub const $name: Code = $code;)*
        pub fn name(code: Code) -> Option<&'static CStr> {
            match code {
                $($code => CStr::from_bytes_with_nul(concat!(stringify!($constant), "\0").as_bytes()).ok(),)*
                _ => None,
            }
        }
    };
}

codes! {
    SUCCESS CUDA_SUCCESS = 0,
    INVALID_VALUE CUDA_ERROR_INVALID_VALUE = 1,
    OUT_OF_MEMORY CUDA_ERROR_OUT_OF_MEMORY = 2,
    NOT_INITIALIZED CUDA_ERROR_NOT_INITIALIZED = 3,
    INVALID_DEVICE CUDA_ERROR_INVALID_DEVICE = 101,
    INVALID_CONTEXT CUDA_ERROR_INVALID_CONTEXT = 201,
    INVALID_PTX CUDA_ERROR_INVALID_PTX = 218,
    INVALID_HANDLE CUDA_ERROR_INVALID_HANDLE = 400,
    ILLEGAL_STATE CUDA_ERROR_ILLEGAL_STATE = 401,
    NOT_FOUND CUDA_ERROR_NOT_FOUND = 500,
    NOT_READY CUDA_ERROR_NOT_READY = 600,
    LAUNCH_FAILED CUDA_ERROR_LAUNCH_FAILED = 719,
    CAPTURE_UNSUPPORTED CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    CAPTURE_INVALIDATED CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
    CAPTURE_MERGE CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
    CAPTURE_UNMATCHED CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
    CAPTURE_UNJOINED CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
    CAPTURE_ISOLATION CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
    CAPTURED_EVENT CUDA_ERROR_CAPTURED_EVENT = 907,
    CAPTURE_WRONG_THREAD CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
}

pub type Answer<T = ()> = Result<T, Code>;
