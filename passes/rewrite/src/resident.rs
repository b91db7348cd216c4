//! What is in memory before a step starts, and stays: arguments, constants, gradient buffers.

use std::collections::HashSet;

use rk_dialect::ops::{ConstantOp, StepOp};
use rk_dialect::{Op, Value};
use rk_plan::Bytes;

use crate::views;

/// Bytes of arguments, constants and gradients of a step, each rounded up to the module's alignment: what scope `total`
/// adds to scope `activations`.
pub fn bytes(step: StepOp<'_>, module: Op<'_>) -> Bytes {
    let alignment = crate::alignment(module);
    let constants = step.body().ops().into_iter().filter_map(ConstantOp::of);
    let mut seen: HashSet<Value<'_>> = HashSet::new();
    let gradients = step.returned().into_iter().enumerate();
    let gradients = gradients.filter(|(index, _)| step.result_role(*index) == Some("gradient"));
    let values = step.arguments().into_iter();
    let values = values.chain(constants.flat_map(|constant| constant.op().results()));
    let values = values.chain(gradients.map(|(_, value)| views::base(value)));
    let sizes = values.filter(|value| seen.insert(*value)).filter_map(|value| value.ty().bytes());
    Bytes(sizes.map(|bytes| bytes.next_multiple_of(alignment)).sum())
}
