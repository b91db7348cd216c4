//! The one error type: what libtorch said, or what we refuse ourselves.

use crate::ffi;
use std::ffi::{CStr, CString, c_char};

/// An error of libtorch or of this crate, with a text for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    message: String,
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The text.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl From<tch::TchError> for Error {
    fn from(error: tch::TchError) -> Self {
        Self::new(error.to_string())
    }
}

/// Turns the status of a shim function into a result and frees the text.
///
/// # Safety
/// `status` is NULL or a string made by the shim, which is not used afterwards.
pub(crate) unsafe fn check(status: *const c_char) -> Result<()> {
    if status.is_null() {
        return Ok(());
    }
    Err(Error::new(unsafe { take_string(status) }))
}

/// Copies and frees a string made by the shim.
///
/// # Safety
/// As for [`check`]; `text` is not NULL.
pub(crate) unsafe fn take_string(text: *const c_char) -> String {
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().trim_end().to_owned();
    unsafe { ffi::rk_string_free(text) };
    copy
}

/// A C string; a NUL inside is an error rather than a panic.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(format!("'{}' contains a NUL character", text.escape_debug())))
}
