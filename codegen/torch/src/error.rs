//! The one error type: what libtorch said, or what we refuse ourselves.

use crate::ffi;
use std::ffi::{CStr, CString, c_char};

/// What went wrong; the tools choose their exit code by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    /// The file is not an archive that can be read.
    Archive,
    /// The forward fails on these inputs, or they do not fit its arguments.
    Inputs,
    /// An operator cannot be imported.
    Refused,
    /// The loss specification does not fit the model's outputs.
    Loss,
    /// Anything else.
    Other,
}

/// An error of libtorch or of this crate, with a text for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error with this text.
    pub fn new(message: impl Into<String>) -> Self {
        Self::of(ErrorKind::Other, message)
    }

    /// An error of this kind with this text.
    pub fn of(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// The kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
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
    // SAFETY: it is not NULL, so the caller's promise is that of `take_string`.
    let text = unsafe { take_string(status) };
    // The shim puts the kind in front (`RkKind`).
    let kind = match text.as_bytes().first() {
        Some(1) => ErrorKind::Archive,
        Some(2) => ErrorKind::Inputs,
        Some(3) => ErrorKind::Refused,
        Some(4) => ErrorKind::Loss,
        _ => return Err(Error::new(text)),
    };
    Err(Error::of(kind, &text[1..]))
}

/// Copies and frees a string made by the shim.
///
/// # Safety
/// As for [`check`]; `text` is not NULL.
pub(crate) unsafe fn take_string(text: *const c_char) -> String {
    // SAFETY: a string of the shim ends in a NUL.
    let copy = unsafe { CStr::from_ptr(text) }.to_string_lossy().trim_end().to_owned();
    // SAFETY: the shim made it, and nothing uses it any more.
    unsafe { ffi::rk_string_free(text) };
    copy
}

/// A C string; a NUL inside is an error rather than a panic.
pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(format!("'{}' contains a NUL character", text.escape_debug())))
}
