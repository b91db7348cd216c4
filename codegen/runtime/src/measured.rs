//! What was measured of a step.
//!
//! # What `peak_bytes` means
//!
//! Scope `activations`, defined here and nowhere else:
//!
//! > the maximum over all runs of (the allocator's peak while the run's actions execute, minus the bytes that
//! > were allocated when the step began, minus the bytes of gradients produced before or in this run), where saved
//! > generator states count as allocated whether or not the allocator sees them.
//!
//! So a gradient is left out for the whole run that makes it: where a kernel's temporaries are gone before the gradient is
//! allocated, the peak is understated by as much as its bytes. An arena has room for both.
//!
//! Workspaces are included, because the allocator sees them. Results of the previous step are let go before the
//! step begins. While a random node runs again the executor parks the generator's own state, which is no tensor.

use rk_torch::Counts;

/// What one step took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measured {
    /// The measured peak, scope `activations` (see the module's documentation).
    pub peak_bytes: u64,
    /// The node that holds the peak.
    pub peak_node: String,
    /// Bytes that were allocated when the step began.
    pub resident_bytes: u64,
    /// The run that exceeds its planned bytes most, if one does.
    pub excess: Option<Excess>,
    /// Allocations of a lowered step, counted by the allocator; `None` for a step without addresses.
    pub counts: Option<Counts>,
    /// How a lowered step was queued on its GPU; `None` elsewhere.
    pub queued: Option<Queueing>,
}

/// How the launches of a step came to the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queueing {
    /// Graphs that were launched.
    pub graphs: usize,
    /// Launches that are in them.
    pub captured: usize,
    /// Launches that were queued one by one.
    pub launches: usize,
}

/// A run that needed more bytes than planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// Name of the node.
    pub node: String,
    /// Planned bytes while it runs.
    pub planned_bytes: u64,
    /// Measured bytes while it runs.
    pub measured_bytes: u64,
}
