//! Pointwise ATen operators as scalar functions, and how exactly a generated kernel reproduces them.
//!
//! [`Pointwise::of`] reads one call; [`Elementwise::of`] reads the body of a node in which every call is pointwise.
//!
//! # Numerics
//! A step computes in f32 for f32, f16 and bf16, in f64 for f64, and rounds its result to the element type of the call, to
//! nearest even, also where the next step is in the same kernel. Nothing but a sum is reassociated, and a multiplication and an addition
//! become one only where the table says `fma`: there libtorch, compiled with contraction, does the same on every CPU with FMA.
//!
//! | operators | function | against ATen on the CPU |
//! |---|---|---|
//! | `add`, `sub`, `rsub` | a + b if alpha is 1, else `fma(alpha, b, a)` | equal |
//! | `mul`, `div`, `neg`, `abs`, `reciprocal` | as IEEE 754 has them | equal |
//! | `rsqrt` | 1 / sqrt(x), both rounded (f32, f64) | equal |
//! | `pow` with 2 or 3 | x·x, (x·x)·x (f32, f64) | equal |
//! | `relu` | 0 if x < 0, else x: keeps NaN and -0 | equal |
//! | `threshold_backward` | 0 if x <= threshold, else the gradient | equal |
//! | `where`, `masked_fill`, `eq ne lt le gt ge`, `logical_not`, `bitwise_and/or` of booleans | | equal |
//! | `_to_copy`, `copy_`, `clone` | rounding to nearest even | equal |
//! | `sigmoid_backward` | (g · (1 - y)) · y (f32, f64) | equal |
//! | `sqrt` | rounded correctly; MKL's, in libtorch, is not (f32, f64) | 1 ulp |
//! | `exp`, `tanh`, `sigmoid` | in f32 polynomials, 1, 2 and 3 ulp from the exact value; in f64 libm's or libdevice's | 4 ulp |
//! | `_softmax`, `_log_softmax` and their `_backward_data`, of one dimension | as one loop after the other over a row | see `rows.rs` |
//! | `native_layer_norm`, and its gradient by the input | as above | see `norm.rs` |
//! | `sum`, `mean`, as the last call | in any order, in f32 or f64 (`sum.rs`) | 2 n u / (1 - n u) · Σ\|x\| |
//! | `amax`, `max`, as the last call | | equal, but for the sign of a zero |
//!
//! *Equal* is bit for bit, except in a NaN: its sign and payload are not specified, as in ATen, where they depend on whether an
//! element falls into the vectorized part of a loop. The others are only for those who ask (`exact=false`).
//!
//! Not in the table, because ATen's own bits depend on the layout of the operands (contracted where its loop is vectorized, not
//! elsewhere): `tanh_backward`. `rsub` of a number is f32 and f64 only: ATen rounds the number to f16 and bf16 first.
//!
//! On CUDA the same functions are generated: the PTX gives the same bits as the CPU's machine code, where no sum, no logarithm and no function of
//! libdevice is in it. What ATen's kernels do there (division by a number as a multiplication, contraction) was not measured:
//! equality with ATen is claimed for the CPU only.
//!
//! # Not here
//! Arithmetic on integers and complex numbers; promotion between element types, except from booleans and of 0-dim operands.

mod body;
mod layout;
mod norm;
mod rows;
mod sum;
#[cfg(test)]
mod tests;

pub use body::{Elementwise, Step, storage};
pub use layout::{Read, Source, Write};
pub use sum::Reduction;

use rk_vocabulary::ElementType;

use crate::attrs::Arg;
use crate::ops::AtenOp;
use crate::raw::{Type, Value};
use crate::types::Tensor;

/// Declares the element types that kernels know, by their names in the vocabulary.
macro_rules! kernel_elements {
    ($($name:ident)+) => {
        /// Element types that kernels load and store: those of the vocabulary that every processor computes with.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the names of docs/ir.md")]
        pub enum Element {
            $($name,)+
        }

        impl Element {
            /// What kernels call this type; `None` for complex numbers and for what only some devices compute with.
            pub fn of(ty: Type<'_>) -> Option<Self> {
                match ty.element_type()? {
                    $(ElementType::$name => Some(Self::$name),)+
                    _ => None,
                }
            }

            fn element_type(self) -> ElementType {
                match self {
                    $(Self::$name => ElementType::$name,)+
                }
            }
        }
    };
}

kernel_elements! { Bool U8 I8 I16 I32 I64 F16 Bf16 F32 F64 }

impl Element {
    /// Whether it is a floating point number.
    pub fn is_float(self) -> bool {
        self.element_type().is_float()
    }

    /// Whether arithmetic on it is done in f32 and rounded.
    pub fn is_reduced(self) -> bool {
        matches!(self, Self::F16 | Self::Bf16)
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        self.element_type().bytes()
    }
}

/// A comparison of two numbers; with a NaN only `Ne` holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names of the operators")]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

/// A scalar function of the arguments a, b, c in schema order. The module's table says what each computes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs, reason = "the names of the operators")]
pub enum Formula {
    /// a + alpha · b.
    Add {
        alpha: f64,
    },
    /// b + alpha · a.
    ReverseAdd {
        alpha: f64,
    },
    Mul,
    Div,
    Neg,
    Abs,
    Reciprocal,
    Rsqrt,
    Square,
    Cube,
    Relu,
    ThresholdBackward {
        threshold: f64,
    },
    /// b where a is true, else c.
    Select,
    /// c where b is true, else a.
    Fill,
    Compare(Comparison),
    /// Of a boolean.
    Not,
    /// Of booleans.
    And,
    /// Of booleans.
    Or,
    /// Rounds to the result's element type.
    Copy,
    SigmoidBackward,
    Sqrt,
    Exp,
    Tanh,
    Sigmoid,
    /// Only inside of calls on rows.
    Log,
    /// Of a row; see `rows.rs`.
    RowSum,
    /// Of a row, of what is no NaN.
    RowMax,
}

impl Formula {
    /// Whether it takes a whole row.
    pub fn is_reduction(self) -> bool {
        matches!(self, Self::RowSum | Self::RowMax)
    }

    /// The largest distance from ATen's result on the CPU in units in the last place; 0 is bit-equal.
    pub fn ulps(self) -> u32 {
        match self {
            Self::Sqrt => 1,
            Self::Exp | Self::Tanh | Self::Sigmoid | Self::Log => 4,
            _ => 0,
        }
    }

    /// Whether ATen computes it on f16 and bf16 in one rounding, as a kernel does.
    fn on_reduced(self) -> bool {
        !matches!(
            self,
            Self::Rsqrt
                | Self::Reciprocal
                | Self::Square
                | Self::Cube
                | Self::SigmoidBackward
                | Self::ReverseAdd { .. }
        ) && self.ulps() == 0
            && !matches!(self, Self::Add { alpha } if alpha.abs() != 1.0)
    }
}

/// An operand of a pointwise call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Operand<'c> {
    /// A tensor.
    Value(Value<'c>),
    /// A number of the call.
    Number(f64),
}

/// A pointwise call.
#[derive(Clone, Debug, PartialEq)]
pub struct Pointwise<'c> {
    /// What it computes.
    pub formula: Formula,
    /// Its arguments.
    pub operands: Vec<Operand<'c>>,
    /// Element type to which numeric operands are converted first.
    pub common: Element,
    /// Element type of the result.
    pub element: Element,
    /// It writes the result to its first operand.
    pub in_place: bool,
}

impl<'c> Pointwise<'c> {
    /// Reads a call; `None` when it is not in the table, for these element types.
    pub fn of(call: AtenOp<'c>) -> Option<Self> {
        let result = call.op().result(0).filter(|_| call.op().result_count() == 1)?;
        if call.is_random() || !call.effects().is_empty() {
            return None;
        }
        let (space, name, overload) = call.operator_parts()?;
        let in_place = call.writes() == [0];
        if space != "aten" || !(in_place || call.writes().is_empty()) {
            return None;
        }
        let (formula, args) = formula(name.strip_suffix('_').unwrap_or(name), overload, &call.args())?;
        let element = Element::of(Tensor::of(result.ty())?.element)?;
        let (conditions, numeric) = split(formula, &args);
        let of_value = |operand: &Operand<'c>| match operand {
            Operand::Value(value) => {
                Tensor::of(value.ty()).map(|t| (Element::of(t.element), t.shape.is_empty()))
            }
            Operand::Number(_) => None,
        };
        if conditions
            .iter()
            .any(|one| of_value(one).is_none_or(|(element, _)| element != Some(Element::Bool)))
        {
            return None;
        }
        let tensors: Vec<(Element, bool)> = (numeric.iter().copied())
            .filter_map(of_value)
            .map(|(element, scalar)| Some((element?, scalar)))
            .collect::<Option<_>>()?;
        let common = match formula {
            Formula::Copy => tensors.first()?.0,
            Formula::Compare(_) => tensors.iter().find(|(_, scalar)| !scalar).or(tensors.first())?.0,
            _ => element,
        };
        // What is promoted: 0-dim operands of another float type, and booleans. Both exactly as ATen, but for f16 and bf16,
        // where ATen keeps the precision of a 0-dim operand in some kernels and not in others.
        let has_dims = tensors.iter().any(|(_, scalar)| !scalar);
        let fits = |&(one, scalar): &(Element, bool)| {
            one == common
                || (one == Element::Bool && common.is_float())
                || (scalar && has_dims && one.is_float() && common.is_float() && !common.is_reduced())
        };
        let numbers = numeric.iter().any(|operand| matches!(operand, Operand::Number(_)));
        let allowed = match formula {
            Formula::Compare(_) => !(common.is_reduced() && numbers),
            Formula::Copy => element.is_float() || common == element || common == Element::Bool,
            Formula::Select | Formula::Fill => true,
            Formula::Not | Formula::And | Formula::Or => common == Element::Bool,
            _ => common.is_float() && (formula.on_reduced() || !common.is_reduced()),
        };
        (allowed && tensors.iter().all(fits)).then_some(Self {
            formula,
            operands: args,
            common,
            element,
            in_place,
        })
    }
}

/// The conditions among the operands, and the numbers.
fn split<'a, 'c>(formula: Formula, args: &'a [Operand<'c>]) -> (Vec<&'a Operand<'c>>, Vec<&'a Operand<'c>>) {
    let condition = match formula {
        Formula::Select => Some(0),
        Formula::Fill => Some(1),
        _ => None,
    };
    let (conditions, numeric): (Vec<_>, Vec<_>) =
        args.iter().enumerate().partition(|(index, _)| Some(*index) == condition);
    let second = |list: Vec<(usize, &'a Operand<'c>)>| list.into_iter().map(|(_, operand)| operand).collect();
    (second(conditions), second(numeric))
}

/// The scalar function of an operator and its tensor or number operands, from its arguments in schema order.
fn formula<'c>(name: &str, overload: &str, args: &[Arg<'c>]) -> Option<(Formula, Vec<Operand<'c>>)> {
    let operand = |index: usize| match args.get(index)? {
        Arg::Value(value) => Some(Operand::Value(*value)),
        other => number(other).map(Operand::Number),
    };
    let given = |index: usize, default: f64| match args.get(index) {
        None | Some(Arg::None) => Some(default),
        Some(arg) => number(arg),
    };
    let operands = |count: usize| (0..count).map(operand).collect::<Option<Vec<_>>>();
    let comparison = match name {
        "eq" => Some(Comparison::Eq),
        "ne" => Some(Comparison::Ne),
        "lt" => Some(Comparison::Lt),
        "le" => Some(Comparison::Le),
        "gt" => Some(Comparison::Gt),
        "ge" => Some(Comparison::Ge),
        _ => None,
    };
    if let Some(comparison) = comparison {
        return Some((Formula::Compare(comparison), operands(2)?));
    }
    Some(match (name, overload) {
        ("add", "Tensor" | "Scalar") => (Formula::Add { alpha: given(2, 1.0)? }, operands(2)?),
        ("sub", "Tensor" | "Scalar") => (Formula::Add { alpha: -given(2, 1.0)? }, operands(2)?),
        ("rsub", "Tensor" | "Scalar") => (Formula::ReverseAdd { alpha: -given(2, 1.0)? }, operands(2)?),
        ("mul", "Tensor" | "Scalar") => (Formula::Mul, operands(2)?),
        ("div", "Tensor" | "Scalar") => (Formula::Div, operands(2)?),
        ("neg", "default") => (Formula::Neg, operands(1)?),
        ("abs", "default") => (Formula::Abs, operands(1)?),
        ("reciprocal", "default") => (Formula::Reciprocal, operands(1)?),
        ("rsqrt", "default") => (Formula::Rsqrt, operands(1)?),
        ("pow", "Tensor_Scalar") => match given(1, 0.0)? {
            2.0 => (Formula::Square, operands(1)?),
            3.0 => (Formula::Cube, operands(1)?),
            _ => return None,
        },
        ("relu", "default") => (Formula::Relu, operands(1)?),
        ("threshold_backward", "default") => {
            (Formula::ThresholdBackward { threshold: given(2, 0.0)? }, operands(2)?)
        }
        ("where", "self" | "ScalarSelf" | "ScalarOther" | "Scalar") => (Formula::Select, operands(3)?),
        ("masked_fill", "Scalar" | "Tensor") => (Formula::Fill, operands(3)?),
        ("logical_not" | "bitwise_not", "default") => (Formula::Not, operands(1)?),
        ("bitwise_and" | "logical_and", "Tensor" | "default") => (Formula::And, operands(2)?),
        ("bitwise_or" | "logical_or", "Tensor" | "default") => (Formula::Or, operands(2)?),
        // Behind the tensor come dtype, layout, memory format: the result's type says what they amount to.
        ("_to_copy" | "clone", "default") => (Formula::Copy, operands(1)?),
        ("copy", "default") => (Formula::Copy, vec![operand(1)?]),
        ("sigmoid_backward", "default") => (Formula::SigmoidBackward, operands(2)?),
        ("sqrt", "default") => (Formula::Sqrt, operands(1)?),
        ("exp", "default") => (Formula::Exp, operands(1)?),
        ("tanh", "default") => (Formula::Tanh, operands(1)?),
        ("sigmoid", "default") => (Formula::Sigmoid, operands(1)?),
        _ => return None,
    })
}

/// A number of a call. Integers beyond 2^53 are none, because a double would not hold them.
fn number(arg: &Arg<'_>) -> Option<f64> {
    match arg {
        Arg::Int(value) => (value.unsigned_abs() < 1 << 53).then_some(*value as f64),
        Arg::Float(value) => Some(*value),
        Arg::Bool(value) => Some(f64::from(u8::from(*value))),
        _ => None,
    }
}
