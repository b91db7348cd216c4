//! Memory of an emulated GPU: a range of addresses that the host may not touch. Only while the device works is it open, so a host that
//! reads or writes it without a copy ends with a fault at that instruction.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_void};
use std::ops::Range;

const NONE: c_int = 0;
const READ_WRITE: c_int = 3;
const PRIVATE_ANONYMOUS_UNRESERVED: c_int = 0x02 | 0x20 | 0x4000;
/// As cuMemAlloc aligns on a real GPU.
const ALIGNMENT: usize = 512;
/// What fresh memory holds: floats are NaN, integers negative.
const POISON: u8 = 0xff;

unsafe extern "C" {
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        prot: c_int,
        flags: c_int,
        file: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn mprotect(at: *mut c_void, bytes: usize, prot: c_int) -> c_int;
}

pub struct Memory {
    base: usize,
    bytes: usize,
    /// Address and size of what is allocated.
    blocks: BTreeMap<usize, usize>,
    /// One past the highest byte that was ever allocated: the rest is never touched.
    top: usize,
}

impl Memory {
    pub fn new(bytes: usize) -> Self {
        let bytes = bytes.next_multiple_of(4096);
        // SAFETY: a new mapping.
        let base = unsafe { mmap(std::ptr::null_mut(), bytes, NONE, PRIVATE_ANONYMOUS_UNRESERVED, -1, 0) };
        // MAP_FAILED is -1: then there are no bytes to give.
        let bytes = if base as isize == -1 { 0 } else { bytes };
        Self { base: base as usize, bytes, blocks: BTreeMap::new(), top: base as usize }
    }

    pub fn total(&self) -> usize {
        self.bytes
    }

    pub fn free_bytes(&self) -> usize {
        self.bytes - self.blocks.values().sum::<usize>()
    }

    /// The lowest hole that takes `bytes`.
    pub fn allocate(&mut self, bytes: usize) -> Option<usize> {
        let bytes = bytes.max(1).next_multiple_of(ALIGNMENT);
        let mut at = self.base;
        for (&block, &size) in &self.blocks {
            if block - at >= bytes {
                break;
            }
            at = block + size;
        }
        if at + bytes > self.base + self.bytes {
            return None;
        }
        self.blocks.insert(at, bytes);
        self.top = self.top.max(at + bytes);
        self.set_open(true);
        // SAFETY: the block is inside of the mapping, which is open.
        unsafe { std::ptr::write_bytes(at as *mut u8, POISON, bytes) };
        self.set_open(false);
        Some(at)
    }

    pub fn free(&mut self, address: usize) -> bool {
        self.blocks.remove(&address).is_some()
    }

    /// The block that this address lies in.
    pub fn block(&self, address: usize) -> Option<Range<usize>> {
        let (&from, &bytes) = self.blocks.range(..=address).next_back()?;
        (address < from + bytes).then_some(from..from + bytes)
    }

    /// Whether the memory can be touched from now on.
    pub fn set_open(&self, open: bool) {
        if self.top > self.base {
            let bytes = (self.top - self.base).next_multiple_of(4096);
            // SAFETY: a part of the mapping.
            unsafe { mprotect(self.base as *mut c_void, bytes, if open { READ_WRITE } else { NONE }) };
        }
    }
}
