//! Sums, means and maxima over some dimensions, as the last call of a pointwise body: the trailing ones, as in a norm, the leading ones, as
//! in the gradient of a bias, or any others. A sum in f32 may be rounded to f16 or bf16 behind it.
//!
//! # Numerics
//! A kernel adds in f32 (f64 for f64), in an order that is fixed for one kernel and not specified, and rounds once at the end;
//! what is summed was rounded before, as ATen would have stored it. ATen's order depends on the CPU's vectors and on threads, so
//! nobody can be bit-equal to it everywhere. With u = 2^-24 (2^-53 for f64), each of the two orders is within
//! n u / (1 - n u) · Σ|x| of the exact sum of n numbers, as long as no partial sum overflows (Higham, *Accuracy and Stability of
//! Numerical Algorithms*, 2nd edition, equation 4.4, with n for n - 1). They differ by twice that at most, and by the last
//! rounding: half a unit in the last place each. A mean divides by n, which adds a rounding. A NaN stays one; so do infinities.
//!
//! A maximum (`amax`, `max`) is that of ATen, a NaN if there is one; where a zero is the largest, its sign is not specified, as in ATen.
//!
//! Not here: integers, means in f16 and bf16, anything else behind the sum; positions of maxima.

use super::Element;
use crate::attrs::Arg;
use crate::ops::AtenOp;
use crate::raw::Value;
use crate::types::Tensor;

/// What a kernel does with the elements of the innermost dimensions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduction {
    /// How many dimensions of the iteration space are summed, from the innermost; at least one.
    pub dims: usize,
    /// The sum is divided by this.
    pub divisor: Option<f64>,
    /// Element type of what is summed.
    pub element: Element,
    /// Element type of the result.
    pub result: Element,
    /// The largest number counts instead of the sum.
    pub maximum: bool,
}

impl Reduction {
    /// In what the sum is made.
    pub fn accumulator(&self) -> Element {
        if self.element.is_reduced() { Element::F32 } else { self.element }
    }

    /// Whether the result may be rounded to this type in one step: only what was not rounded before.
    pub(super) fn rounds_to(&self, element: Element) -> bool {
        self.element == Element::F32 && self.result == Element::F32 && element.is_reduced() && !self.maximum
    }
}

/// A sum that a call makes.
#[derive(Clone, Debug)]
pub(super) struct Sum<'c> {
    pub operand: Value<'c>,
    /// Which dimensions of the operand are summed, in order.
    pub axes: Vec<usize>,
    pub reduction: Reduction,
}

/// `sum`, `mean`, `amax` or `max`; `None` when it is not one of a floating point tensor, in its own element type.
pub(super) fn of(call: AtenOp<'_>) -> Option<Sum<'_>> {
    let (space, name, overload) = call.operator_parts()?;
    let (mean, maximum) = match (space, name, overload) {
        ("aten", "sum", "dim_IntList" | "default") => (false, false),
        ("aten", "mean", "dim" | "default") => (true, false),
        ("aten", "amax" | "max", "default") => (false, true),
        _ => return None,
    };
    let operand = call.op().operand(0)?;
    let tensor = Tensor::of(operand.ty())?;
    let element = Element::of(tensor.element).filter(|element| element.is_float())?;
    let result = call.op().result(0).filter(|_| call.op().result_count() == 1)?;
    if Element::of(Tensor::of(result.ty())?.element) != Some(element) || (mean && element.is_reduced()) {
        return None;
    }
    let rank = tensor.shape.len();
    let args = call.args();
    let listed = match args.get(1) {
        Some(Arg::List(list)) if (overload != "default" || name == "amax") && !list.is_empty() => {
            list.as_slice()
        }
        // Without dimensions, over all of them.
        Some(Arg::List(_) | Arg::None) | None => &[],
        // The element type of `default`, which is the operand's.
        Some(_) if overload == "default" => &[],
        Some(_) => return None,
    };
    let index = |arg: &Arg<'_>| match arg {
        Arg::Int(dim) => usize::try_from(if *dim < 0 { dim + rank as i64 } else { *dim }).ok(),
        _ => None,
    };
    let mut axes = listed.iter().map(index).collect::<Option<Vec<_>>>()?;
    axes.sort_unstable();
    if axes.is_empty() {
        axes = (0..rank).collect();
    }
    axes.dedup();
    if axes.is_empty() || axes.last().is_some_and(|&last| last >= rank) {
        return None;
    }
    let count: i64 = axes.iter().map(|&axis| tensor.shape[axis]).product();
    if maximum && count == 0 {
        return None;
    }
    let divisor = mean.then_some(count as f64);
    let reduction = Reduction { dims: axes.len(), divisor, element, result: element, maximum };
    Some(Sum { operand, axes, reduction })
}
