//! Views of the ops of stage `lowered`: places, launches, copies of random state.

use super::RunOp;
use crate::raw::{Attr, Op, Value};
use crate::view::view;

view! {
    /// `rk.buffer`: a place for one value.
    BufferOp = "rk.buffer"
}
view! {
    /// `rk.launch`: one kernel launch.
    LaunchOp = "rk.launch"
}
view! {
    /// `rk.save_state`: copies the generator's state into a buffer.
    SaveStateOp = "rk.save_state"
}
view! {
    /// `rk.load_state`: sets the generator to the state in a buffer.
    LoadStateOp = "rk.load_state"
}

/// What an offset counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// All that the step allocates: `rk.arena` bytes.
    Arena,
    /// The gradient buffers, which outlive the step: `rk.gradients` bytes.
    Gradients,
    /// The generator's own state while a random kernel runs again.
    Parking,
}

impl Space {
    /// In order.
    pub const ALL: [Self; 3] = [Self::Arena, Self::Gradients, Self::Parking];

    /// As it is written in the IR.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Arena => "arena",
            Self::Gradients => "gradients",
            Self::Parking => "parking",
        }
    }

    /// Reads a space.
    pub fn of(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|space| space.as_str() == text)
    }
}

impl<'c> BufferOp<'c> {
    /// What the offset counts from; `None` for a name that the verifier refuses.
    pub fn space(self) -> Option<Space> {
        self.op().get("space").and_then(Attr::as_str).and_then(Space::of)
    }

    /// The first byte.
    pub fn offset(self) -> u64 {
        self.op()
            .get("offset")
            .and_then(Attr::as_i64)
            .and_then(|bytes| u64::try_from(bytes).ok())
            .unwrap_or(0)
    }

    /// The value that lies there.
    pub fn value(self) -> Option<Value<'c>> {
        self.op().result(0)
    }

    /// Bytes of the value, not rounded.
    pub fn bytes(self) -> u64 {
        self.value().and_then(|value| value.ty().bytes()).unwrap_or(0)
    }

    /// The buffer that a value is.
    pub fn behind(value: Value<'c>) -> Option<Self> {
        value.producer().and_then(|(op, _)| Self::of(op))
    }
}

impl<'c> LaunchOp<'c> {
    /// The symbol of the kernel, without the `@`.
    pub fn symbol(self) -> &'c str {
        self.op().get("kernel").and_then(Attr::as_symbol).unwrap_or_default()
    }

    /// Whether it is a second or later launch of its kernel.
    pub fn is_again(self) -> bool {
        self.op().get("again").is_some()
    }

    /// Whether the first written buffer is the storage of the operand that the kernel overwrites.
    pub fn is_overwrite(self) -> bool {
        self.op().get("overwrite").is_some()
    }

    /// How many of the operands are read.
    fn reads(self) -> usize {
        let written = self.op().get("writes").and_then(Attr::as_i64).unwrap_or(0);
        self.op().operand_count().saturating_sub(usize::try_from(written).unwrap_or(0))
    }

    /// What it reads.
    pub fn inputs(self) -> Vec<Value<'c>> {
        self.op().operands().into_iter().take(self.reads()).collect()
    }

    /// Where it writes.
    pub fn outputs(self) -> Vec<Value<'c>> {
        self.op().operands().into_iter().skip(self.reads()).collect()
    }

    /// Offset in the arena and bytes of its workspace.
    pub fn workspace(self) -> Option<(u64, u64)> {
        let both = self.op().get("workspace").and_then(Attr::as_i64s)?;
        let number = |index: usize| both.get(index).and_then(|&value: &i64| u64::try_from(value).ok());
        Some((number(0)?, number(1)?))
    }

    /// The stream that it is queued on.
    pub fn stream(self) -> u32 {
        self.op()
            .get("stream")
            .and_then(Attr::as_i64)
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(0)
    }
}

impl<'c> SaveStateOp<'c> {
    /// The buffer.
    pub fn state(self) -> Option<Value<'c>> {
        self.op().operand(0)
    }
}

impl<'c> LoadStateOp<'c> {
    /// The buffer.
    pub fn state(self) -> Option<Value<'c>> {
        self.op().operand(0)
    }
}

/// One execution of a node, at whatever stage: an `rk.run`, or an `rk.launch`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Execution<'c> {
    /// Values in, values out.
    Run(RunOp<'c>),
    /// Places in, places out.
    Launch(LaunchOp<'c>),
}

impl<'c> Execution<'c> {
    /// A view of the op, if it executes a node.
    pub fn of(op: Op<'c>) -> Option<Self> {
        RunOp::of(op).map(Self::Run).or_else(|| LaunchOp::of(op).map(Self::Launch))
    }

    /// The op itself.
    pub fn op(self) -> Op<'c> {
        match self {
            Self::Run(run) => run.op(),
            Self::Launch(launch) => launch.op(),
        }
    }

    /// The symbol of the node, without the `@`.
    pub fn symbol(self) -> &'c str {
        match self {
            Self::Run(run) => run.symbol(),
            Self::Launch(launch) => launch.symbol(),
        }
    }

    /// Whether it is a second or later run.
    pub fn is_again(self) -> bool {
        match self {
            Self::Run(run) => run.is_again(),
            Self::Launch(launch) => launch.is_again(),
        }
    }

    /// Whether it hands the storage of the node's `overwrites` operand over to the first result.
    pub fn is_overwrite(self) -> bool {
        match self {
            Self::Run(run) => run.is_overwrite(),
            Self::Launch(launch) => launch.is_overwrite(),
        }
    }

    /// Operands of the node, without a generator state.
    pub fn inputs(self) -> Vec<Value<'c>> {
        match self {
            Self::Run(run) => run.inputs(),
            Self::Launch(launch) => launch.inputs(),
        }
    }

    /// Results of the node, without a generator state: values, or the buffers that hold them.
    pub fn outputs(self) -> Vec<Value<'c>> {
        match self {
            Self::Run(run) => run.outputs(),
            Self::Launch(launch) => launch.outputs(),
        }
    }
}
