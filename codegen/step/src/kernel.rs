//! Generated kernels of a step as a whole: how near they are, the step without them, and whether each fits its node.
//!
//! Not here: how they stand in the file ([`crate::model::kernel`]), loading and calling (see `rk-runtime`).

pub use crate::model::kernel::{Buffer, Geometry, Kernel, Launch, Library, Nearness, Ptx};

use crate::error::Invalid;
use crate::model::{Node, Step};

impl Step {
    /// How near the kernels of this step are to their calls, at worst; `None`: all of them make the same bits.
    pub fn nearness(&self) -> Option<Nearness> {
        let stated = self.nodes.iter().filter_map(|node| node.kernel.as_ref()?.nearness);
        stated.reduce(|a, b| Nearness { ulps: a.ulps.max(b.ulps), terms: a.terms.max(b.terms) })
    }

    /// The same step without generated kernels: every node runs its ATen calls. Addresses go, too: they were planned for the
    /// kernels, which have no intermediates.
    pub fn without_kernels(&self) -> Step {
        let mut step = self.clone();
        if step.library.take().is_some() {
            step.layout = None;
        }
        step.nodes.iter_mut().for_each(|node| node.kernel = None);
        step
    }
}

/// Checks the library and the kernel of every node.
pub(crate) fn validate(step: &Step) -> Result<(), Invalid> {
    let at = |place: &str, message: String| Err(Invalid { place: place.to_owned(), message });
    if let Some(library) = &step.library {
        let digits =
            library.elf.len().is_multiple_of(2) && library.elf.bytes().all(|b| b.is_ascii_hexdigit());
        match (step.device.starts_with("cuda"), library.ptx.is_empty()) {
            (false, true) if digits && library.elf.starts_with("7f454c46") => {}
            (false, true) => return at("library", "is no shared object in hexadecimal".into()),
            (true, false) if library.elf.is_empty() && library.level.starts_with("sm_") => {}
            _ => return at("library", format!("is not for {}", step.device)),
        }
    }
    for (index, node) in step.nodes.iter().enumerate() {
        let Some(kernel) = &node.kernel else { continue };
        let place = format!("nodes[{index}] {:?}: kernel", node.name);
        if let Err(message) = kernel_of(step, node, kernel) {
            return at(&place, message);
        }
    }
    Ok(())
}

fn kernel_of(step: &Step, node: &Node, kernel: &Kernel) -> Result<(), String> {
    let Some(library) = &step.library else { return Err("the step has no library".into()) };
    if kernel.inputs.len() != node.inputs as usize || kernel.outputs.len() != node.outputs.len() {
        return Err("has other inputs or outputs than the node".into());
    }
    let rows = kernel.rows.checked_mul(kernel.row_elements).filter(|&elements| elements <= i64::MAX as u64);
    if rows.is_none() {
        return Err("has too many rows".into());
    }
    if node.random || node.once || kernel.in_place.is_some() != node.overwrites.is_some() {
        return Err("does not fit what the node overwrites or draws".into());
    }
    let cuda = step.device.starts_with("cuda");
    for launch in std::iter::once(&kernel.aside).chain(&kernel.in_place) {
        if launch.symbol.is_empty() || launch.symbol.contains('\0') {
            return Err("has no symbol".into());
        }
        let threads = |of: &Geometry| {
            let block = of.block.iter().map(|&n| u64::from(n)).product::<u64>();
            of.grid.iter().all(|&n| n > 0) && (1..=1024).contains(&block)
        };
        if launch.geometry.is_some() != cuda || !launch.geometry.as_ref().is_none_or(threads) {
            return Err(format!("launches {:?} with threads that {} has not", launch.symbol, step.device));
        }
        if cuda && !library.ptx.iter().any(|one| one.symbol == launch.symbol) {
            return Err(format!("launches {:?}, which is not in the library", launch.symbol));
        }
        for buffer in &launch.buffers {
            let known = match buffer {
                Buffer::Input(index) => (*index as usize) < kernel.inputs.len(),
                Buffer::Output(index) => (*index as usize) < kernel.outputs.len(),
            };
            if !known {
                return Err(format!("launches {:?} with {buffer:?}, which the node has not", launch.symbol));
            }
        }
    }
    Ok(())
}
