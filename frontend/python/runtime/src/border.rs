//! Tensors and errors across the border.
//!
//! A handle is a capsule around a pointer to an `at::Tensor`, as `torch._C._aoti` makes and takes them. Whoever gets one owns it.

use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use tch::Tensor;

/// A list of capsules; None for a result that is not defined.
pub type Handles<'py> = Vec<Option<Bound<'py, PyAny>>>;

/// The tensors behind handles, which are used up.
///
/// # Errors
/// When one is no handle; those before it are let go.
pub fn taken(handles: &[Option<Bound<'_, PyAny>>]) -> PyResult<Vec<Tensor>> {
    let take = |handle: &Option<Bound<'_, PyAny>>| {
        let Some(handle) = handle else { return Err(PyTypeError::new_err("None is no handle of a tensor")) };
        // SAFETY: a check of the type and the name of the capsule; an exception is set where the pointer is null.
        let pointer = unsafe { pyo3::ffi::PyCapsule_GetPointer(handle.as_ptr(), std::ptr::null()) };
        if pointer.is_null() {
            return Err(PyErr::fetch(handle.py()));
        }
        // SAFETY: torch made it with `new at::Tensor`, which is what tch's handles are, and gave it to us.
        Ok(unsafe { Tensor::from_ptr(pointer.cast()) })
    };
    handles.iter().map(take).collect()
}

/// Handles of tensors, for `alloc_tensors_by_stealing_from_void_ptrs`.
///
/// # Errors
/// When there is no memory.
pub fn given(py: Python<'_>, tensors: Vec<Option<Tensor>>) -> PyResult<Handles<'_>> {
    let give = |tensor: Option<Tensor>| {
        let Some(mut tensor) = tensor else { return Ok(None) };
        let pointer = tensor.as_mut_ptr();
        // Python frees it from here on.
        std::mem::forget(tensor);
        // SAFETY: the pointer is not null; a new reference or an exception comes back.
        unsafe {
            let capsule = pyo3::ffi::PyCapsule_New(pointer.cast(), std::ptr::null(), None);
            Bound::from_owned_ptr_or_err(py, capsule).map(Some)
        }
    };
    tensors.into_iter().map(give).collect()
}

/// An exception of the package by its name in `rk.errors`. What an operator that is written in Python has raised is its cause.
pub fn raised(py: Python<'_>, name: &str, text: &str) -> PyErr {
    let cause = PyErr::take(py);
    let said = cause.as_ref().map(|cause| format!("{text}: {cause}"));
    let text = said.as_deref().unwrap_or(text).trim_end_matches([' ', ':']);
    let made = py.import("rk.errors").and_then(|errors| errors.getattr(name)?.call1((text,)));
    let error = made.map_or_else(|_| PyRuntimeError::new_err(text.to_owned()), PyErr::from_value);
    error.set_cause(py, cause);
    error
}
