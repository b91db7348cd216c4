//! Calls that work on whole rows, one dimension of a tensor, as steps with sums and maxima of a row between them: softmax,
//! log-softmax, and what autograd makes of both.
//!
//! A step that reduces ([`Formula::RowSum`], [`Formula::RowMax`]) has one value for each row; so has every step that reads nothing
//! else but such values and numbers. Later steps may read both.
//!
//! # Numerics
//! Steps are made in f32 (f64 for f64) and only the result is rounded to f16 or bf16, as ATen does. With u = 2^-24 (2^-53), n elements
//! in a row and m their maximum:
//!
//! | call | steps | from the exact value, at most |
//! |---|---|---|
//! | `_softmax` | exp(x - m) / Σ exp(x - m) | (n + d + 8) u · y, d the largest difference m - x of a row that counts (up to 104) |
//! | `_log_softmax` | x - m - log Σ exp(x - m) | (n + d + 16) u + 2 u (m - x), absolute |
//! | `_softmax_backward_data` | g · y - y · Σ g · y | (n + 4) u · (\|g y\| + y Σ \|g y\|) |
//! | `_log_softmax_backward_data` | g - exp(y) · Σ g | (n + 8) u · (\|g\| + exp(y) Σ \|g\|) |
//!
//! (Sums as in `sum.rs`; the rest counts one rounding for each step.) ATen's own results are within the same bounds, with 16 u more where it
//! takes its quicker exponential, so the two differ by the sum of both. A maximum is exact and passes over a NaN, which makes the row NaN through the sum.
//! Of `_log_softmax` in f16 and bf16, with v = 2^-11 and 2^-8, ATen's own result over the last dimension may be v (1 + L) further away,
//! L = log Σ exp(x - m): it rounds the sum and its logarithm to that type, too. (A sum beyond f16 is an infinity there.)
//!
//! Not here: results in another element type than the operand's.

use super::body::{Meaning, Reader, Step};
use super::layout::Source;
use super::{Element, Formula};
use crate::attrs::Arg;
use crate::ops::AtenOp;
use crate::types::Tensor;

impl<'c> Reader<'c> {
    /// Reads a call that works on whole rows; `false` when it is none.
    ///
    /// # Errors
    /// As for other calls: an operand that is not found in this space.
    pub(super) fn rows(&mut self, call: AtenOp<'c>) -> Result<bool, String> {
        let operator = call.operator();
        let (backward, log) = match operator {
            "aten._softmax.default" => (false, false),
            "aten._log_softmax.default" => (false, true),
            "aten._softmax_backward_data.default" => (true, false),
            "aten._log_softmax_backward_data.default" => (true, true),
            _ => return Ok(false),
        };
        let result = call.op().result(0).and_then(|value| Tensor::of(value.ty())).ok_or("no tensor")?;
        let element = Element::of(result.element).filter(|element| element.is_float());
        let operands = if backward { 2 } else { 1 };
        let same = (0..operands).all(|index| {
            let operand = call.op().operand(index).and_then(|value| Tensor::of(value.ty()));
            operand.is_some_and(|operand| Element::of(operand.element) == element)
        });
        let rank = result.shape.len() as i64;
        let dim = match call.args().get(operands) {
            Some(Arg::Int(dim)) => usize::try_from(if *dim < 0 { dim + rank } else { *dim }).ok(),
            _ => None,
        };
        let (Some(element), true, Some(dim)) = (element, same, dim.filter(|&dim| dim < result.shape.len()))
        else {
            return Ok(false);
        };
        if call.op().operands().len() != operands
            || self.row.replace((result.shape.clone(), vec![dim])).is_some()
        {
            return Err(format!("'{operator}' is a second call on rows"));
        }
        let wide = if element.is_reduced() { Element::F32 } else { element };
        let mut operand = |index: usize| {
            let value = call.op().operand(index).ok_or("no operand")?;
            let source = self.source(value, &result.shape, operator)?;
            Ok::<_, String>(self.push(Formula::Copy, vec![source], element, wide, &result.shape))
        };
        let value = if backward {
            let (gradient, y) = (operand(0)?, operand(1)?);
            let mut step =
                |formula, args: &[Source]| self.push(formula, args.to_vec(), wide, wide, &result.shape);
            let minus = Formula::Add { alpha: -1.0 };
            if log {
                let sum = step(Formula::RowSum, &[gradient]);
                let power = step(Formula::Exp, &[y]);
                let part = step(Formula::Mul, &[power, sum]);
                step(minus, &[gradient, part])
            } else {
                let product = step(Formula::Mul, &[gradient, y]);
                let sum = step(Formula::RowSum, &[product]);
                let part = step(Formula::Mul, &[y, sum]);
                step(minus, &[product, part])
            }
        } else {
            let x = operand(0)?;
            let mut step =
                |formula, args: &[Source]| self.push(formula, args.to_vec(), wide, wide, &result.shape);
            let minus = Formula::Add { alpha: -1.0 };
            let most = step(Formula::RowMax, &[x]);
            let below = step(minus, &[x, most]);
            let power = step(Formula::Exp, &[below]);
            let sum = step(Formula::RowSum, &[power]);
            if log {
                let log = step(Formula::Log, &[sum]);
                step(minus, &[below, log])
            } else {
                step(Formula::Div, &[power, sum])
            }
        };
        let value = self.push(Formula::Copy, vec![value], wide, element, &result.shape);
        let Source::Step(step) = value else { return Err("no step".into()) };
        let results = call.op().results().into_iter();
        self.meanings.extend(results.map(|value| (value, Meaning::Step(step, result.shape.clone()))));
        Ok(true)
    }

    /// Another step.
    pub(super) fn push(
        &mut self,
        formula: Formula,
        args: Vec<Source>,
        common: Element,
        element: Element,
        shape: &[i64],
    ) -> Source {
        self.steps.push(Step { formula, args, common, element });
        self.step_in.push(shape.to_vec());
        Source::Step(self.steps.len() - 1)
    }
}
