//! Views of the ops that move values between device and host memory.

use crate::raw::{Op, Value};
use crate::view::view;

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
