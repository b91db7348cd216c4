//! Kernels in PTX, interpreted (rk-ptx). A kernel may touch the blocks of memory that its parameters point into, and nothing else.

use std::sync::Arc;

use rk_ptx::Module;

use crate::memory::Memory;

/// A kernel of a loaded module.
#[derive(Clone)]
pub struct Function {
    pub module: Arc<Module>,
    pub entry: String,
    /// Whose context it was loaded in.
    pub device: usize,
    /// Bytes of its parameters.
    pub parameters: Vec<usize>,
}

impl Function {
    pub fn run(
        &self,
        grid: [u32; 3],
        block: [u32; 3],
        parameters: &[u64],
        memory: &[Memory],
    ) -> Result<(), String> {
        let mut blocks: Vec<_> =
            parameters.iter().filter_map(|&address| memory[self.device].block(address as usize)).collect();
        blocks.sort_unstable_by_key(|block| block.start);
        blocks.dedup();
        let mut allowed = rk_ptx::Memory::new();
        for block in blocks {
            // SAFETY: memory of the device, which is open, and nobody else works on it meanwhile.
            unsafe { allowed.allow(block.start as u64, block.len() as u64, true) };
        }
        self.module
            .launch(&self.entry, grid, block, parameters, &mut allowed)
            .map_err(|error| error.to_string())
    }
}
