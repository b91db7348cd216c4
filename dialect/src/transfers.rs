//! The transfers of a step between device and host memory, and the way from a copy to what it is a copy of.
//!
//! Not here: views of the ops ([`crate::ops`]), the laws S10 and S11 (`verify_transfers`), bytes and time (`--rk-verify-schedule`).

use crate::diagnostic::Diagnostic;
use crate::ops::{StepOp, Transfer};
use crate::raw::Value;

/// The result of a run, or whatever else no transfer makes, that a value is a copy of: itself, if it was never moved. What transfers
/// make has the same bits.
pub fn origin(value: Value<'_>) -> Value<'_> {
    let mut value = value;
    // A ring of transfers is no IR that MLIR accepts, but messages about it are made before MLIR says so.
    for _ in 0..1_000 {
        let transfer = value.producer().and_then(|(op, _)| Transfer::of(op));
        match transfer.and_then(Transfer::from) {
            Some(source) => value = source,
            None => break,
        }
    }
    value
}

/// The refusal of whoever cannot hold transfers, if the step has some: they are named, and never left out silently.
pub fn refused<'c>(step: StepOp<'c>, who: &str) -> Option<Diagnostic<'c>> {
    let all = of(step);
    let first = all.first()?.op().location();
    let count = if let [_] = all[..] { "a transfer".to_owned() } else { format!("{} transfers", all.len()) };
    let message = format!(
        "'{}' has {count} between device and host memory, which {who} cannot hold; plan it again without offload: --rematerialize=budget=...",
        step.symbol()
    );
    Some(Diagnostic::error(step.op().location(), message).note(first, "the first transfer is here"))
}

/// The transfers of a step, in order.
pub fn of(step: StepOp<'_>) -> Vec<Transfer<'_>> {
    step.body().ops().into_iter().filter_map(Transfer::of).collect()
}
