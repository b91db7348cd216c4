//! Layer norm over trailing dimensions, and its gradient by its input, as steps over rows (`rows.rs`): a row is what is normalized.
//!
//! The forward call has three results: the output, and per row the mean and the reciprocal standard deviation.
//!
//! # Numerics
//! f32 (f64 for f64), one rounding for each step, and one more for each result in f16 or bf16. With u = 2^-24 (2^-53), n elements x in a row, m their mean, r = 1/sqrt(v + eps) for their
//! variance v, A = Σ|x|/n, R² = Σx²/n, z = (x - m) r, h = g · weight:
//!
//! | result | steps | from the exact value, at most |
//! |---|---|---|
//! | mean | Σ x / n | e = (n + 8) u A |
//! | rstd | 1 / sqrt(Σ (x - mean)² / n + eps) | p r, where p = (n + 10) u / 2 + e² r² / 2 |
//! | output | (x - mean) · rstd · weight + bias | \|weight\| (r e + \|z\| (p + 4 u)) + 2 u (\|weight z\| + \|bias\|) |
//! | gradient | rstd · (h - Σ h / n - z · Σ h z / n) | (n + 12) u r (\|h\| + Σ\|h\| / n + \|z\| Σ\|h z\| / n) |
//!
//! A sum errs as in `sum.rs`. A mean that is off by e adds e² to the variance and nothing of first order, because Σ (x - m) = 0; the
//! root halves what is relative. In the gradient mean and rstd are given, so a z has two roundings.
//!
//! ATen's own results: its variance comes from running means, which adds 4 n u r² R sqrt(v) to p (Chan, Golub and LeVeque, *Algorithms for
//! Computing the Sample Variance*, 1983, table 1: n u times the condition number R / sqrt(v), with 4 for its tree of vectors);
//! its output is x r - m r, which adds 3 u r (\|x\| + \|m\|) to r e; its gradient is r h + b x + c with b = (m Σ h - Σ h x) r³ / n and
//! c = - b m - r Σ h / n, which is within (n + 16) u (r \|h\| + (\|x\| + \|m\|) (\|m\| Σ\|h\| + Σ\|h x\|) r³ / n + r Σ\|h\| / n).
//! The two differ by the sum of both bounds, as long as no square overflows. A row with a NaN or an infinity has a mean that is not finite
//! (perhaps an infinity here where it is a NaN there); all else of it is NaN.
//!
//! In f16 and bf16 ATen does the same in f32 and rounds each result once, mean and rstd to the type of the weight, which is that of the
//! input or f32 (which of them a call has, its types say); its gradient starts from what was rounded, and so does ours.
//!
//! Not here: the gradients of weight and bias, which are sums over the other dimensions than the row's; rows without elements.

use super::body::{Meaning, Reader};
use super::layout::Source;
use super::{Element, Formula};
use crate::attrs::Arg;
use crate::ops::AtenOp;
use crate::raw::Value;
use crate::types::Tensor;

/// Difference of two steps.
const MINUS: Formula = Formula::Add { alpha: -1.0 };
const PLUS: Formula = Formula::Add { alpha: 1.0 };

impl<'c> Reader<'c> {
    /// Reads a layer norm or its gradient; `false` when it is none that a kernel makes.
    ///
    /// # Errors
    /// As for other calls: an operand that is not found in this space, a second call on rows.
    pub(super) fn norm(&mut self, call: AtenOp<'c>) -> Result<bool, String> {
        let operator = call.operator();
        let backward = match operator {
            "aten.native_layer_norm.default" => false,
            "aten.native_layer_norm_backward.default" => true,
            _ => return Ok(false),
        };
        let args = call.args();
        let tensor = |index: usize| match args.get(index) {
            Some(Arg::Value(value)) => Some(*value),
            _ => None,
        };
        let x = if backward { 1 } else { 0 };
        let Some(shape) = tensor(x).and_then(|value| Tensor::of(value.ty())).map(|tensor| tensor.shape)
        else {
            return Ok(false);
        };
        let inner = match args.get(x + 1) {
            Some(Arg::List(list)) if !list.is_empty() && list.len() <= shape.len() => list.len(),
            _ => return Ok(false),
        };
        let count: i64 = shape[shape.len() - inner..].iter().product();
        // An optional argument that is given is a tensor. All are of one type; of f16 and bf16 some may be f32.
        let tensors: &[usize] = if backward { &[0, 1, 3, 4, 5] } else { &[0, 2, 3] };
        let Some(element) = tensor(x).and_then(element_of).filter(|one| one.is_float()) else {
            return Ok(false);
        };
        let wide = if element.is_reduced() { Element::F32 } else { element };
        let fits = |value| element_of(value).is_some_and(|one| one == element || one == wide);
        let results = call.op().results().into_iter().take(if backward { 1 } else { 3 });
        let mut given = tensors.iter().filter_map(|&index| tensor(index)).chain(results);
        if count == 0 || !given.all(fits) {
            return Ok(false);
        }
        let only_input = match args.get(7) {
            Some(Arg::List(mask)) => mask.as_slice() == [Arg::Bool(true), Arg::Bool(false), Arg::Bool(false)],
            _ => false,
        };
        if backward && !only_input {
            return Err(format!("'{operator}' has gradients of weight or bias"));
        }
        let axes = (shape.len() - inner..shape.len()).collect();
        if self.row.replace((shape.clone(), axes)).is_some() {
            return Err(format!("'{operator}' is a second call on rows"));
        }
        let space = Space { shape, element: wide, count: count as f64 };
        if backward {
            let all = (tensor(0), tensor(1), tensor(3), tensor(4));
            let (Some(gradient), Some(x), Some(mean), Some(rstd)) = all else { return Ok(false) };
            let gradient = self.operand(gradient, &space, operator)?;
            let [x, mean, rstd] = [
                self.operand(x, &space, operator)?,
                self.operand(mean, &space, operator)?,
                self.operand(rstd, &space, operator)?,
            ];
            let weight = tensor(5).map(|value| self.operand(value, &space, operator)).transpose()?;
            let value = self.gradient(&space, [gradient, x, mean, rstd], weight);
            self.results(call, &space, &[(value, false)]);
        } else {
            let Some(Arg::Float(eps)) = args.get(4) else { return Err("no epsilon".into()) };
            let x = tensor(0).ok_or("no operand")?;
            let x = self.operand(x, &space, operator)?;
            let weight = tensor(2).map(|value| self.operand(value, &space, operator)).transpose()?;
            let bias = tensor(3).map(|value| self.operand(value, &space, operator)).transpose()?;
            let (output, mean, rstd) = self.normalized(&space, x, *eps, weight, bias);
            self.results(call, &space, &[(output, false), (mean, true), (rstd, true)]);
        }
        Ok(true)
    }

    /// Output, mean and reciprocal standard deviation.
    fn normalized(
        &mut self,
        space: &Space,
        x: Source,
        eps: f64,
        weight: Option<Source>,
        bias: Option<Source>,
    ) -> (Source, Source, Source) {
        let mut step = |formula, args: &[Source]| self.norm_step(space, formula, args);
        let count = Source::Number(space.count);
        let sum = step(Formula::RowSum, &[x]);
        let mean = step(Formula::Div, &[sum, count]);
        let centered = step(MINUS, &[x, mean]);
        let square = step(Formula::Square, &[centered]);
        let squares = step(Formula::RowSum, &[square]);
        let variance = step(Formula::Div, &[squares, count]);
        let shifted = step(PLUS, &[variance, Source::Number(eps)]);
        let rstd = step(Formula::Rsqrt, &[shifted]);
        let mut output = step(Formula::Mul, &[centered, rstd]);
        if let Some(weight) = weight {
            output = step(Formula::Mul, &[output, weight]);
        }
        if let Some(bias) = bias {
            output = step(PLUS, &[output, bias]);
        }
        (output, mean, rstd)
    }

    /// The gradient by the input.
    fn gradient(
        &mut self,
        space: &Space,
        [gradient, x, mean, rstd]: [Source; 4],
        weight: Option<Source>,
    ) -> Source {
        let mut step = |formula, args: &[Source]| self.norm_step(space, formula, args);
        let count = Source::Number(space.count);
        let centered = step(MINUS, &[x, mean]);
        let z = step(Formula::Mul, &[centered, rstd]);
        let h = match weight {
            Some(weight) => step(Formula::Mul, &[gradient, weight]),
            None => gradient,
        };
        let sum = step(Formula::RowSum, &[h]);
        let sum = step(Formula::Div, &[sum, count]);
        let product = step(Formula::Mul, &[h, z]);
        let products = step(Formula::RowSum, &[product]);
        let products = step(Formula::Div, &[products, count]);
        let along = step(Formula::Mul, &[z, products]);
        let rest = step(MINUS, &[h, sum]);
        let rest = step(MINUS, &[rest, along]);
        step(Formula::Mul, &[rest, rstd])
    }

    fn operand(&mut self, value: Value<'c>, space: &Space, operator: &str) -> Result<Source, String> {
        let source = self.source(value, &space.shape, operator)?;
        // What is reduced is a step.
        let element = element_of(value).unwrap_or(space.element);
        Ok(self.push(Formula::Copy, vec![source], element, space.element, &space.shape))
    }

    fn norm_step(&mut self, space: &Space, formula: Formula, args: &[Source]) -> Source {
        self.push(formula, args.to_vec(), space.element, space.element, &space.shape)
    }

    /// Says what the call's results are, rounded to their types: `true` for one number per row.
    fn results(&mut self, call: AtenOp<'c>, space: &Space, sources: &[(Source, bool)]) {
        for (value, &(mut source, of_row)) in call.op().results().into_iter().zip(sources) {
            let element = element_of(value).unwrap_or(space.element);
            if element != space.element {
                source = self.push(Formula::Copy, vec![source], space.element, element, &space.shape);
            }
            let Source::Step(step) = source else { unreachable!("a step was pushed") };
            let meaning = if of_row { Meaning::Row(step) } else { Meaning::Step(step, space.shape.clone()) };
            self.meanings.insert(value, meaning);
        }
    }
}

/// The element type of a tensor.
fn element_of(value: Value<'_>) -> Option<Element> {
    Tensor::of(value.ty()).and_then(|tensor| Element::of(tensor.element))
}

/// In what the steps of a norm are made.
struct Space {
    shape: Vec<i64>,
    element: Element,
    /// Elements of a row.
    count: f64,
}
