//! Attributes of the dialect as Rust values: stage, cost, layout, and the arguments of an ATen call.

use crate::raw::{Attr, Ctx, Value};

/// The contract that a step satisfies; `dialect/td/Dialect.td` says what each means.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Stage {
    /// As recorded.
    Raw = 0,
    /// Values only.
    Dataflow = 1,
    /// One real computation per node.
    Simplified = 2,
    /// Equivalent blocks known as such.
    Blocks = 3,
    /// Every node has a cost.
    Costed = 4,
    /// Runs, re-runs and drops.
    Scheduled = 5,
    /// Kernel launches at byte offsets.
    Lowered = 6,
}

impl Stage {
    /// In order.
    pub const ALL: [Self; 7] = [
        Self::Raw,
        Self::Dataflow,
        Self::Simplified,
        Self::Blocks,
        Self::Costed,
        Self::Scheduled,
        Self::Lowered,
    ];

    /// As it is written in the IR.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Raw => "raw",
            Self::Dataflow => "dataflow",
            Self::Simplified => "simplified",
            Self::Blocks => "blocks",
            Self::Costed => "costed",
            Self::Scheduled => "scheduled",
            Self::Lowered => "lowered",
        }
    }

    /// `#rk.stage<...>`.
    pub fn attr(self, ctx: Ctx<'_>) -> Attr<'_> {
        Attr::stage(ctx, self as u32)
    }

    /// Reads `#rk.stage<...>`.
    pub fn of(attr: Attr<'_>) -> Option<Self> {
        attr.as_stage().and_then(|number| Self::ALL.get(number).copied())
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// What one run takes, as `#rk.cost<1200 ns, workspace 8192 B>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Nanoseconds.
    pub time: u64,
    /// Bytes that are needed only while it runs.
    pub workspace: u64,
}

impl Cost {
    /// `#rk.cost<...>`. Numbers beyond 2^63 - 1 become that.
    pub fn attr(self, ctx: Ctx<'_>) -> Attr<'_> {
        let clamped = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Attr::cost(ctx, clamped(self.time), clamped(self.workspace))
    }

    /// Reads `#rk.cost<...>`.
    pub fn of(attr: Attr<'_>) -> Option<Self> {
        let (time, workspace) = attr.as_cost()?;
        Some(Self { time: u64::try_from(time).ok()?, workspace: u64::try_from(workspace).ok()? })
    }
}

/// One argument of an ATen call, in schema order.
#[derive(Clone, Debug, PartialEq)]
pub enum Arg<'c> {
    /// An SSA value.
    Value(Value<'c>),
    /// Not given.
    None,
    /// An integer; also enumerations such as dtypes, by their number.
    Int(i64),
    /// A float.
    Float(f64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(String),
    /// A list of arguments.
    List(Vec<Arg<'c>>),
}

impl<'c> Arg<'c> {
    /// The attribute that stands for it in `args`, with its SSA values appended to `operands` in order.
    pub fn attr(&self, ctx: Ctx<'c>, operands: &mut Vec<Value<'c>>) -> Attr<'c> {
        match self {
            Self::Value(value) => {
                operands.push(*value);
                Attr::unit(ctx)
            }
            Self::None => Attr::none(ctx),
            Self::Int(value) => Attr::i64(ctx, *value),
            Self::Float(value) => Attr::f64(ctx, *value),
            Self::Bool(value) => Attr::bool(ctx, *value),
            Self::Str(value) => Attr::string(ctx, value),
            Self::List(elements) => {
                let elements: Vec<_> = elements.iter().map(|element| element.attr(ctx, operands)).collect();
                Attr::array(ctx, &elements)
            }
        }
    }

    /// Reads one element of `args`; each `unit` takes the next operand. `None` if the attribute is no argument, or no
    /// operand is left.
    pub fn of(attr: Attr<'c>, operands: &mut dyn Iterator<Item = Value<'c>>) -> Option<Self> {
        if attr.is_unit() {
            return operands.next().map(Self::Value);
        }
        if attr.is_none_argument() {
            return Some(Self::None);
        }
        if let Some(elements) = attr.as_array() {
            return elements
                .into_iter()
                .map(|element| Self::of(element, operands))
                .collect::<Option<_>>()
                .map(Self::List);
        }
        (attr.as_bool().map(Self::Bool))
            .or_else(|| attr.as_i64().map(Self::Int))
            .or_else(|| attr.as_f64().map(Self::Float))
            .or_else(|| attr.as_str().map(|text| Self::Str(text.to_owned())))
    }

    /// The SSA values in it, in order.
    pub fn values(&self) -> Vec<Value<'c>> {
        match self {
            Self::Value(value) => vec![*value],
            Self::List(elements) => elements.iter().flat_map(Self::values).collect(),
            _ => Vec::new(),
        }
    }
}
