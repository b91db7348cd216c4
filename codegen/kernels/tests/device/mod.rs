//! Launches of PTX on the CPU: storages at addresses of their own, far from each other, all accesses checked and races watched.

use rk_kernels::cuda::Ptx;
use rk_ptx::{Memory, Module};

/// Unused bytes around every storage, so that what runs out of one does not run into the next.
const GAP: usize = 1 << 16;

/// Every storage begins so far from a multiple of 256 that only its own elements are aligned: kernels are promised no more.
const ALIGNED: usize = 256;

/// What unwritten bytes of a result hold.
pub const UNWRITTEN: u8 = 0x5a;

/// A storage of the host: `bytes` with the size of one element, read only or not.
pub struct Storage {
    pub bytes: Vec<u8>,
    pub element: usize,
    pub writable: bool,
}

impl Storage {
    /// What a kernel reads.
    pub fn read(bytes: Vec<u8>, element: usize) -> Self {
        Self { bytes, element, writable: false }
    }

    /// Where a kernel writes so many bytes.
    pub fn write(bytes: usize, element: usize) -> Self {
        Self { bytes: vec![UNWRITTEN; bytes], element, writable: true }
    }
}

/// Launches a kernel, or `text` in place of its own, over these storages, one for each buffer of its signature. The writable ones hold
/// the results afterwards.
///
/// # Errors
/// Whatever rk-ptx refuses or finds.
pub fn launch(made: &Ptx, text: &str, storages: &mut [Storage]) -> Result<(), rk_ptx::Error> {
    let module = Module::parse(text)?;
    let total: usize = storages.iter().map(|one| one.bytes.len() + 2 * GAP).sum();
    let mut memory = vec![0u8; total + ALIGNED];
    let base = memory.as_mut_ptr();
    let (mut allowed, mut at, mut places) = (Memory::new(), GAP, Vec::new());
    allowed.watch_races();
    for storage in &*storages {
        let aligned = (base as usize + at).next_multiple_of(ALIGNED) - base as usize;
        let place = aligned + storage.element;
        memory[place..][..storage.bytes.len()].copy_from_slice(&storage.bytes);
        // SAFETY: the bytes are in `memory`, which is not touched during the launch and not moved before its end.
        unsafe { allowed.allow(base as u64 + place as u64, storage.bytes.len() as u64, storage.writable) };
        places.push(place);
        at = place + storage.bytes.len() + GAP;
    }
    let parameters: Vec<u64> =
        made.parameters.iter().map(|&buffer| base as u64 + places[buffer] as u64).collect();
    let three = |numbers: [i64; 3]| numbers.map(|number| u32::try_from(number).expect("a count"));
    module.launch(&made.entry, three(made.grid), three(made.block), &parameters, &mut allowed)?;
    for (storage, place) in storages.iter_mut().zip(places) {
        let bytes = storage.bytes.len();
        storage.bytes.copy_from_slice(&memory[place..][..bytes]);
    }
    Ok(())
}
