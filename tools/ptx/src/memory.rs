//! The bytes of the host that a launch may touch.
//!
//! Source: PTX ISA 5.1 (state spaces), 6.4.1 (alignment of operands), 9.7.9.20 (`cvta`). Global memory lies at its host addresses. A generic address is the same
//! number, and shared and local memory have windows in it that no host address is in.

/// Where shared memory begins among generic addresses; it and local memory have 4 GiB there.
pub(crate) const SHARED: u64 = 1 << 62;

/// Where a thread's local memory begins.
pub(crate) const LOCAL: u64 = 1 << 61;

/// Which bytes of the host a launch may read and write.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    ranges: Vec<Range>,
    pub(crate) watched: bool,
}

#[derive(Clone, Copy, Debug)]
struct Range {
    begin: u64,
    end: u64,
    write: bool,
}

impl Memory {
    /// Nothing may be touched.
    pub fn new() -> Self {
        Self::default()
    }

    /// Allows reading `bytes` bytes from `address` on, and with `write` writing them. An access must lie in one range.
    ///
    /// # Safety
    /// During every launch that is given this memory, all these bytes must be readable (and writable, with `write`), and nobody else may
    /// write (or read what is written).
    pub unsafe fn allow(&mut self, address: u64, bytes: u64, write: bool) {
        self.ranges.push(Range { begin: address, end: address.saturating_add(bytes), write });
    }

    /// From now on launches report races: two threads that touch the same byte of global or shared memory, one of them writing, with no
    /// barrier of their block between them. Takes memory (24 bytes for each byte that is touched and may be written) and time.
    pub fn watch_races(&mut self) {
        self.watched = true;
    }

    /// Whether the bytes may change during the launch.
    ///
    /// # Errors
    /// Says why the access is none of those allowed.
    pub(crate) fn check(&self, address: u64, bytes: u64, write: bool) -> Result<bool, &'static str> {
        let end = address.checked_add(bytes).ok_or("is beyond all memory")?;
        let (mut inside, mut granted, mut changes) = (false, false, false);
        for range in &self.ranges {
            if address >= range.begin && end <= range.end {
                inside = true;
                granted |= range.write || !write;
            }
            changes |= range.write && address < range.end && end > range.begin;
        }
        match (inside, granted) {
            (false, _) => Err("is outside of what is allowed"),
            (true, false) => Err("is read only"),
            (true, true) => Ok(changes),
        }
    }
}

/// Reads a number of `bytes` bytes, 1 to 8.
///
/// # Safety
/// The bytes must be readable.
pub(crate) unsafe fn read(address: *const u8, bytes: usize) -> u64 {
    let mut number = [0; 8];
    // SAFETY: the caller's, and `number` has eight bytes.
    unsafe { std::ptr::copy_nonoverlapping(address, number.as_mut_ptr(), bytes.min(8)) };
    u64::from_le_bytes(number)
}

/// Writes the low `bytes` bytes of a number.
///
/// # Safety
/// The bytes must be writable.
pub(crate) unsafe fn write(address: *mut u8, bytes: usize, number: u64) {
    // SAFETY: as above.
    unsafe { std::ptr::copy_nonoverlapping(number.to_le_bytes().as_ptr(), address, bytes.min(8)) };
}
