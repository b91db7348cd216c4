//! What a step says of its plan: the attributes of its function, each by one name and with one type.
//!
//! Passes fill a [`PlanSummary`] and write it, and whoever reports on a step reads one. What the numbers mean is in docs/ir.md.
//!
//! They are attributes of their own, `rk.peak = 4096 : i64`, and not parameters of one `#rk.plan<...>`: a step has those that its plan has, a newer
//! tool's file may have more, and scripts find each by its name in the text. What a typed attribute would check is checked here.
//!
//! Not here: attributes of the module (`recorded`).

use crate::raw::Op;
use crate::step::StepOp;
use crate::typed::{BYTES, NANOSECONDS, RATE, TEXT, typed_attributes};

const PLACES: &str = "an array<i64: ...> of places in the arena";

typed_attributes! {
    /// What a step says of its plan; `None` is what it does not say.
    PlanSummary {
        "rk.budget" budget: u64, BYTES, "Bytes that the plan may use on the device.";
        "rk.peak" peak: u64, BYTES, "Bytes that it uses.";
        "rk.base_peak" base_peak: u64, BYTES, "Bytes that the step uses in its own order, without recomputation.";
        "rk.resident" resident: u64, BYTES, "Bytes that are there before the step begins.";
        "rk.time" time: u64, NANOSECONDS, "Nanoseconds of the plan.";
        "rk.base_time" base_time: u64, NANOSECONDS, "Nanoseconds of all nodes once.";
        "rk.lower_bound" lower_bound: u64, NANOSECONDS, "Nanoseconds that no plan within the budget is below: proven.";
        "rk.bound_kind" bound_kind: String, TEXT, "The class of schedules that the bound speaks of.";
        "rk.status" status: String, TEXT, "How good the plan is.";
        "rk.solver" solver: String, TEXT, "Who found it.";
        "rk.arena" arena: u64, BYTES, "Bytes of the arena.";
        "rk.gradients" gradients: u64, BYTES, "Bytes of the space for gradients.";
        "rk.target" target: String, TEXT, "The device that the step is lowered for.";
        "rk.chip" chip: String, TEXT, "The GPU that its kernels are compiled for.";
        "rk.stall" stall: u64, NANOSECONDS, "Nanoseconds that runs wait for transfers.";
        "rk.host_peak" host_peak: u64, BYTES, "Bytes in host memory.";
        "rk.host_budget" host_budget: u64, BYTES, "Bytes that the plan may use there.";
        "rk.bandwidth" bandwidth: u64, RATE, "Bytes per second of a transfer.";
        "rk.latency" latency: u64, NANOSECONDS, "Nanoseconds of a transfer besides.";
        "rk.offsets" offsets: Vec<i64>, PLACES, "The places of a scheduled step in the arena. Without them the step is packed.";
    }
}

impl PlanSummary {
    /// The name of the attribute with the layout.
    pub const OFFSETS: &'static str = "rk.offsets";

    /// Reads it.
    pub fn of(step: StepOp<'_>) -> Self {
        Self::of_op(step.op())
    }

    /// Writes it. What the step said of another plan is gone.
    pub fn write(&self, step: StepOp<'_>) {
        self.write_on(step.op());
    }

    /// What is wrong with an attribute of an op, if it is one of these.
    pub(crate) fn wrong_on(op: Op<'_>, name: &str, attribute: crate::raw::Attr<'_>) -> Option<String> {
        if name == Self::OFFSETS {
            if StepOp::of(op).is_none_or(|step| step.stage() != crate::attrs::Stage::Scheduled) {
                return Some(format!("'{name}' stands on a step at stage scheduled"));
            }
            let offsets = attribute.as_i64s().unwrap_or_default();
            if let Some((at, offset)) = offsets.iter().enumerate().find(|(_, offset)| **offset < 0) {
                return Some(format!("'{name}' holds places in the arena, number {at} is {offset}"));
            }
        }
        Self::wrong(name, attribute)
    }
}
