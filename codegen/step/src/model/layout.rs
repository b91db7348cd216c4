//! Addresses in a step file: where every value of a lowered step lies, and what each launch may use besides.
//!
//! Not here: what makes them a layout ([`crate::layout`]).

use serde::{Deserialize, Serialize};

use super::{Slot, TensorSpec};

/// What an offset counts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Space {
    /// All that the step allocates.
    Arena,
    /// The gradient buffers, which outlive the step.
    Gradients,
}

/// Addresses of a lowered step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Layout {
    /// What the launches are for: `cpu` or `cuda`.
    pub target: String,
    /// The GPU that generated kernels are compiled for, such as `sm_90`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chip: Option<String>,
    /// Bytes of the arena.
    pub arena_bytes: u64,
    /// Bytes of the gradient space.
    pub gradient_bytes: u64,
    /// The place of every slot that a run assigns, in order of the slots.
    pub places: Vec<Place>,
    /// One per run, in order of execution.
    pub launches: Vec<Launch>,
}

/// The place of one value.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Place {
    /// Whose.
    pub slot: Slot,
    /// What `offset` counts from.
    pub space: Space,
    /// The first byte, a multiple of the step's alignment.
    pub offset: u64,
    /// Bytes, not rounded; 0 for an undefined tensor.
    pub bytes: u64,
    /// Type of the tensor; `None` for an undefined one and for a generator state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec: Option<TensorSpec>,
}

/// What a run may use besides its operands and results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Launch {
    /// Position of the run in the program.
    pub instr: u32,
    /// Offset of the workspace in the arena.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub workspace_offset: u64,
    /// Bytes of the workspace.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub workspace_bytes: u64,
    /// The stream that it is queued on.
    #[serde(default, skip_serializing_if = "is_zero_stream")]
    pub stream: u32,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_zero_stream(number: &u32) -> bool {
    *number == 0
}
