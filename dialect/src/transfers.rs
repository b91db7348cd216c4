//! Views of the ops that move values between device and host memory, and the way from a copy to what it is a copy of.
//!
//! Not here: the laws S10 and S11 (`verify_transfers`), bytes and time (`--rk-verify-schedule`).

use crate::diagnostic::Diagnostic;
use crate::ops::{StepOp, view};
use crate::raw::{Op, Value};
use crate::verify_transfers;

view! {
    /// `rk.offload`: starts to copy a value to host memory.
    OffloadOp = "rk.offload"
}
view! {
    /// `rk.fetch`: starts to copy a value from host memory back to the device.
    FetchOp = "rk.fetch"
}
view! {
    /// `rk.wait`: the point at which a transfer must have ended.
    WaitOp = "rk.wait"
}

impl<'c> OffloadOp<'c> {
    /// The value on the device.
    pub fn value(self) -> Option<Value<'c>> {
        self.op().operand(0)
    }

    /// The copy in host memory.
    pub fn copy(self) -> Option<Value<'c>> {
        self.op().result(0)
    }
}

impl<'c> FetchOp<'c> {
    /// The copy in host memory.
    pub fn copy(self) -> Option<Value<'c>> {
        self.op().operand(0)
    }

    /// The value on the device.
    pub fn value(self) -> Option<Value<'c>> {
        self.op().result(0)
    }
}

impl<'c> WaitOp<'c> {
    /// What the transfer makes that is waited for.
    pub fn value(self) -> Option<Value<'c>> {
        self.op().operand(0)
    }

    /// The transfer; `None` for a value that no transfer makes, which the verifier refuses.
    pub fn transfer(self) -> Option<Transfer<'c>> {
        Transfer::of(self.value()?.producer()?.0)
    }
}

/// The start of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer<'c> {
    /// From the device to host memory.
    Offload(OffloadOp<'c>),
    /// From host memory to the device.
    Fetch(FetchOp<'c>),
}

impl<'c> Transfer<'c> {
    /// A view of the op, if it starts a transfer.
    pub fn of(op: Op<'c>) -> Option<Self> {
        OffloadOp::of(op).map(Self::Offload).or_else(|| FetchOp::of(op).map(Self::Fetch))
    }

    /// The op itself.
    pub fn op(self) -> Op<'c> {
        match self {
            Self::Offload(offload) => offload.op(),
            Self::Fetch(fetch) => fetch.op(),
        }
    }

    /// What it reads.
    pub fn from(self) -> Option<Value<'c>> {
        self.op().operand(0)
    }

    /// What it makes.
    pub fn made(self) -> Option<Value<'c>> {
        self.op().result(0)
    }
}

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

/// Checks S10 and S11 of a scheduled step, as MLIR's verifier does; a pass asks before it trusts what it has written.
///
/// # Errors
/// The first violation.
pub fn check(step: StepOp<'_>) -> Result<(), Diagnostic<'_>> {
    verify_transfers::check(step)
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
