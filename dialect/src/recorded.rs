//! What a module says of the recording that its steps are made from: the device, its settings, its alignment, the source of its costs.
//!
//! Importers write most of it as text. Not here: `rk.source`, the archive, which only step files repeat (`rk_codegen::to_step`).

use crate::raw::Op;
use crate::typed::{BYTES, TEXT, typed_attributes};

typed_attributes! {
    /// What a module says of its recording; `None` is what it does not say.
    Recorded {
        "rk.device" device: String, TEXT, "The device that it was recorded on.";
        "rk.settings" settings: String, TEXT, "Global state of libtorch that decides which kernels run.";
        "rk.alignment" alignment: u64, BYTES, "To how many bytes its allocator rounds sizes up.";
        "rk.cost_model" cost_model: String, TEXT, "Where the times of nodes come from: `measured` or `roofline`.";
    }
}

impl Recorded {
    /// Reads it.
    pub fn of(module: Op<'_>) -> Self {
        Self::of_op(module)
    }

    /// Writes it.
    pub fn write(&self, module: Op<'_>) {
        self.write_on(module);
    }
}

/// To how many bytes sizes are rounded up: `rk.alignment` of the module, 64 without it (c10's alignment on the CPU).
pub fn alignment(module: Op<'_>) -> u64 {
    Recorded::of(module).alignment.filter(|&bytes| bytes > 0).unwrap_or(64)
}

/// The device that a module was recorded on: `rk.device`, `cpu` without it.
pub fn device(module: Op<'_>) -> String {
    Recorded::of(module).device.unwrap_or_else(|| "cpu".to_owned())
}
