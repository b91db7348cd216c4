//! Reads what `cc/bytes.h` writes.

use crate::error::{Error, Result, check};
use crate::ffi;

/// A cursor over bytes of the shim; everything is checked, since a mismatch of versions should be an error.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self, n: usize) -> Result<&'a [u8]> {
        if n > self.rest.len() {
            return Err(Error::new("bytes from the shim are cut short"));
        }
        let (head, tail) = self.rest.split_at(n);
        self.rest = tail;
        Ok(head)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.take(N)?);
        Ok(out)
    }

    pub fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub fn flag(&mut self) -> Result<bool> {
        Ok(self.u8()? != 0)
    }

    pub fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_le_bytes(self.array()?))
    }

    pub fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    pub fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_le_bytes(self.array()?))
    }

    pub fn f64(&mut self) -> Result<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    pub fn text(&mut self) -> Result<String> {
        let n = self.u32()? as usize;
        Ok(String::from_utf8_lossy(self.take(n)?).into_owned())
    }

    pub fn raw(&mut self) -> Result<Vec<u8>> {
        let n = self.u64()? as usize;
        Ok(self.take(n)?.to_vec())
    }

    /// A list: its length, then each item by `item`.
    pub fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let n = self.u32()?;
        (0..n).map(|_| item(self)).collect()
    }
}

/// Calls a shim function that hands out a byte buffer, and copies the buffer.
///
/// # Safety
/// `fill` writes a buffer of the shim and its length, or fails.
pub(crate) unsafe fn take_bytes(
    fill: impl FnOnce(*mut *mut u8, *mut usize) -> *const std::ffi::c_char,
) -> Result<Vec<u8>> {
    let (mut out, mut n) = (std::ptr::null_mut(), 0);
    // SAFETY: where `fill` did not fail, the buffer is the shim's, of that length, and is freed after the copy.
    unsafe {
        check(fill(&mut out, &mut n))?;
        let copy = if n == 0 { Vec::new() } else { std::slice::from_raw_parts(out, n).to_vec() };
        ffi::rk_bytes_free(out);
        Ok(copy)
    }
}
