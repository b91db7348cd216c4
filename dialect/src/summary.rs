//! What a step says of its plan: the attributes of its function, each by one name and with one type.
//!
//! Passes fill a [`PlanSummary`] and write it, and whoever reports on a step reads one. Not here: attributes of the module (`rk.device`,
//! `rk.alignment`, ...), and what the numbers mean, which docs/ir.md says.

use crate::raw::{Attr, Op};
use crate::step::StepOp;

macro_rules! plan_summary {
    ($($name:literal $field:ident: $type:ty, $what:literal;)+) => {
        /// What a step says of its plan; `None` is what it does not say.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct PlanSummary {
            $(#[doc = $what] pub $field: Option<$type>,)+
        }

        impl PlanSummary {
            /// The names of the attributes, in the order in which reports have them.
            pub const NAMES: [&'static str; [$($name),+].len()] = [$($name),+];

            /// Reads it.
            pub fn of(step: StepOp<'_>) -> Self {
                Self { $($field: step.op().get($name).and_then(<$type>::read),)+ }
            }

            /// Writes it. What the step said of another plan is gone.
            pub fn write(&self, step: StepOp<'_>) {
                $(match &self.$field {
                    Some(value) => step.op().set($name, value.attr(step.op())),
                    None => _ = step.op().unset($name),
                })+
            }

            /// Whether the attribute is one of these, and a number.
            pub(crate) fn is_number(name: &str) -> bool {
                $((name == $name && <$type>::IS_NUMBER))||+
            }
        }
    };
}

plan_summary! {
    "rk.budget" budget: u64, "Bytes that the plan may use on the device.";
    "rk.peak" peak: u64, "Bytes that it uses.";
    "rk.base_peak" base_peak: u64, "Bytes that the step uses in its own order, without recomputation.";
    "rk.resident" resident: u64, "Bytes that are there before the step begins.";
    "rk.time" time: u64, "Nanoseconds of the plan.";
    "rk.base_time" base_time: u64, "Nanoseconds of all nodes once.";
    "rk.lower_bound" lower_bound: u64, "Nanoseconds that no plan within the budget is below: proven.";
    "rk.bound_kind" bound_kind: String, "The class of schedules that the bound speaks of.";
    "rk.status" status: String, "How good the plan is.";
    "rk.solver" solver: String, "Who found it.";
    "rk.arena" arena: u64, "Bytes of the arena.";
    "rk.gradients" gradients: u64, "Bytes of the space for gradients.";
    "rk.target" target: String, "The device that the step is lowered for.";
    "rk.chip" chip: String, "The GPU that its kernels are compiled for.";
    "rk.stall" stall: u64, "Nanoseconds that runs wait for transfers.";
    "rk.host_peak" host_peak: u64, "Bytes in host memory.";
    "rk.host_budget" host_budget: u64, "Bytes that the plan may use there.";
    "rk.bandwidth" bandwidth: u64, "Bytes per second of a transfer.";
    "rk.latency" latency: u64, "Nanoseconds of a transfer besides.";
    "rk.offsets" offsets: Vec<i64>, "The places of a scheduled step in the arena. Without them the step is packed.";
}

/// How a value stands in the IR.
trait Datum: Sized {
    const IS_NUMBER: bool = false;

    fn read(attribute: Attr<'_>) -> Option<Self>;

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c>;
}

/// Numbers beyond 2^63 - 1 become that.
impl Datum for u64 {
    const IS_NUMBER: bool = true;

    fn read(attribute: Attr<'_>) -> Option<Self> {
        attribute.as_i64().and_then(|number| Self::try_from(number).ok())
    }

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c> {
        Attr::i64(op.context(), i64::try_from(*self).unwrap_or(i64::MAX))
    }
}

impl Datum for String {
    fn read(attribute: Attr<'_>) -> Option<Self> {
        attribute.as_str().map(str::to_owned)
    }

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c> {
        Attr::string(op.context(), self)
    }
}

impl Datum for Vec<i64> {
    fn read(attribute: Attr<'_>) -> Option<Self> {
        attribute.as_i64s()
    }

    fn attr<'c>(&self, op: Op<'c>) -> Attr<'c> {
        Attr::i64s(op.context(), self)
    }
}
