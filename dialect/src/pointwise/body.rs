//! A node whose body is pointwise, as one scalar program over one iteration space.
//!
//! Views of inputs become strides. A view of an intermediate that keeps its row-major order is a renaming if everything is
//! row-major: then the space is one line of elements. An operator that writes in place gives its operand a new meaning. A sum
//! may end the body.

use std::collections::HashMap;

use super::layout::{self, Layout, Source};
use super::sum::{self, Sum};
use super::{Element, Formula, Operand, Pointwise, Read, Reduction, Write};
use crate::ops::{AtenOp, NodeOp};
use crate::raw::Value;
use crate::types::Tensor;

/// One call: `formula` of the arguments, converted to `common` before and rounded to `element` afterwards.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The scalar function.
    pub formula: Formula,
    /// Its arguments.
    pub args: Vec<Source>,
    /// To what numeric arguments are converted.
    pub common: Element,
    /// Element type of the result.
    pub element: Element,
}

/// A pointwise body: for every index of `shape`, the steps in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Elementwise {
    /// The iteration space, from the outermost dimension; at least one. Neighbours that could be one are one.
    pub shape: Vec<i64>,
    /// What is loaded.
    pub reads: Vec<Read>,
    /// What is computed.
    pub steps: Vec<Step>,
    /// What is stored: one entry per output of the node.
    pub writes: Vec<Write>,
    /// With it, the only write gets the sum of its source over the innermost dimensions, in which it has stride 0.
    pub reduction: Option<Reduction>,
    /// With it, steps that reduce take the innermost dimensions, so many of them.
    pub row: Option<usize>,
}

/// The first name of a storage that operators have written to in place: what `%y = relu_(%x)` gives is `%x`.
pub fn storage(value: Value<'_>) -> Value<'_> {
    let mut name = value;
    while let Some((op, 0)) = name.producer()
        && let Some(call) = AtenOp::of(op).filter(|call| call.writes() == [0])
        && let Some(older) = call.op().operand(0)
    {
        name = older;
    }
    name
}

/// What a value of the body is.
#[derive(Clone, Debug)]
pub(super) enum Meaning {
    /// A view of an input.
    Input(Layout),
    /// The result of a step, with this shape.
    Step(usize, Vec<i64>),
    /// The result of a step that has one value per row.
    Row(usize),
    /// Fresh storage that nobody has written yet.
    Empty,
    /// The sum that ends the body.
    Sum,
}

impl Elementwise {
    /// Reads the body of a node.
    ///
    /// # Errors
    /// Why it is not one pointwise kernel, for people: the operator, or the layout.
    pub fn of(node: NodeOp<'_>) -> Result<Self, String> {
        let mut reader = Reader::default();
        let body = node.body().ok_or("it has no body")?;
        for (input, value) in body.arguments().into_iter().enumerate() {
            if let Some(tensor) = Tensor::of(value.ty())
                && let Some(element) = Element::of(tensor.element)
            {
                let Tensor { shape, strides, .. } = tensor;
                let layout = Layout { input, offset: 0, shape, strides, element };
                reader.meanings.insert(value, Meaning::Input(layout));
            }
        }
        if node.is_random() || node.is_once() {
            return Err("it has a side effect".into());
        }
        for call in node.calls() {
            reader.call(call)?;
        }
        reader.end(&node.yielded(), node.overwrites())
    }

    /// Whether a kernel of it gives ATen's bits on the CPU.
    pub fn is_exact(&self) -> bool {
        self.ulps() == 0 && self.inner() == 0
    }

    /// The largest distance from ATen's result in units in the last place of one step; 0 is bit-equal. For a sum there is no
    /// such number: its error is relative to what is summed, not to the result.
    pub fn ulps(&self) -> u32 {
        self.steps.iter().map(|step| step.formula.ulps()).max().unwrap_or(0)
    }

    /// How many of the innermost dimensions one result, or one row, is made of; 0 where every element is on its own.
    pub fn inner(&self) -> usize {
        self.reduction.map(|reduction| reduction.dims).or(self.row).unwrap_or(0)
    }

    /// How many numbers its longest sum has; 0 where nothing is reduced.
    pub fn terms(&self) -> u64 {
        match self.inner() {
            _ if self.reduction.is_some_and(|reduction| reduction.maximum) => 0,
            0 => 0,
            inner => self.shape[self.shape.len() - inner..].iter().product::<i64>().unsigned_abs(),
        }
    }

    /// Per step, whether its value is that of a whole row.
    pub fn of_rows(&self) -> Vec<bool> {
        let mut of_rows: Vec<bool> = Vec::new();
        for step in &self.steps {
            let whole = |source: &Source| match source {
                Source::Read(_) => false,
                Source::Step(index) => of_rows[*index],
                Source::Number(_) => true,
            };
            let of_row = step.formula.is_reduction() || (self.row.is_some() && step.args.iter().all(whole));
            of_rows.push(of_row);
        }
        of_rows
    }

    /// Number of elements of the iteration space.
    pub fn elements(&self) -> i64 {
        self.shape.iter().product()
    }
}

#[derive(Default)]
pub(super) struct Reader<'c> {
    pub(super) meanings: HashMap<Value<'c>, Meaning>,
    reads: Vec<Read>,
    /// The shape in which a read or a step was made.
    read_in: Vec<Vec<i64>>,
    pub(super) steps: Vec<Step>,
    pub(super) step_in: Vec<Vec<i64>>,
    /// The shape of what is taken row by row, and which of its dimensions are a row.
    pub(super) row: Option<(Vec<i64>, Vec<usize>)>,
    /// What is summed, in which shape.
    sum: Option<(Source, Vec<i64>, Sum<'c>)>,
}

impl<'c> Reader<'c> {
    fn call(&mut self, call: AtenOp<'c>) -> Result<(), String> {
        let operator = call.operator();
        if call.is_view() {
            return self.view(call);
        }
        if operator.starts_with("aten.empty") {
            self.meanings.extend(call.op().results().into_iter().map(|value| (value, Meaning::Empty)));
            return Ok(());
        }
        if let Some(sum) = sum::of(call) {
            let shape = Tensor::of(sum.operand.ty()).ok_or("no tensor")?.shape;
            let source = self.source(sum.operand, &shape, operator)?;
            if self.sum.replace((source, shape, sum)).is_some() {
                return Err(format!("'{operator}' is a second sum"));
            }
            self.meanings.extend(call.op().results().into_iter().map(|value| (value, Meaning::Sum)));
            return Ok(());
        }
        if self.rows(call)? || self.norm(call)? {
            return Ok(());
        }
        let pointwise =
            Pointwise::of(call).ok_or_else(|| format!("'{operator}' is not pointwise on these types"))?;
        if self.rounds_sum(call, &pointwise) {
            return Ok(());
        }
        let result = call.op().result(0).and_then(|value| Tensor::of(value.ty())).ok_or("no tensor")?;
        let mut args = Vec::new();
        for operand in &pointwise.operands {
            args.push(match operand {
                Operand::Number(number) => Source::Number(*number),
                Operand::Value(value) => self.source(*value, &result.shape, operator)?,
            });
        }
        let step = self.steps.len();
        self.steps.push(Step {
            formula: pointwise.formula,
            args,
            common: pointwise.common,
            element: pointwise.element,
        });
        self.step_in.push(result.shape.clone());
        let meaning = Meaning::Step(step, result.shape);
        if pointwise.in_place
            && let Some(operand) = call.op().operand(0)
        {
            let whole = storage(operand)
                .producer()
                .is_none_or(|(op, _)| AtenOp::of(op).is_some_and(|op| !op.is_view()));
            let viewed = operand.uses().into_iter().filter_map(|one| AtenOp::of(one.op));
            if !whole || viewed.filter(|user| user.op() != call.op()).any(AtenOp::is_view) {
                return Err(format!("'{operator}' writes to storage that has views"));
            }
            // Whoever has the same storage under another name sees the new content.
            self.meanings.insert(storage(operand), meaning);
        } else {
            self.meanings.extend(call.op().results().into_iter().map(|value| (value, meaning.clone())));
        }
        Ok(())
    }

    /// Whether a call only rounds the sum; then its result is the sum.
    fn rounds_sum(&mut self, call: AtenOp<'c>, pointwise: &Pointwise<'c>) -> bool {
        let (Formula::Copy, false, [Operand::Value(value)], Some((.., sum))) =
            (pointwise.formula, pointwise.in_place, &*pointwise.operands, &mut self.sum)
        else {
            return false;
        };
        let is_sum = matches!(self.meanings.get(&storage(*value)), Some(Meaning::Sum));
        if !is_sum || !sum.reduction.rounds_to(pointwise.element) {
            return false;
        }
        sum.reduction.result = pointwise.element;
        self.meanings.extend(call.op().results().into_iter().map(|value| (value, Meaning::Sum)));
        true
    }

    fn view(&mut self, call: AtenOp<'c>) -> Result<(), String> {
        let operator = call.operator();
        let base = call.op().operand(0).and_then(|value| self.meanings.get(&storage(value))).cloned();
        let result = call.op().result(0).filter(|_| call.op().result_count() == 1);
        let (Some(base), Some(result)) = (base, result) else {
            return Err(format!("'{operator}' makes a view that is not followed"));
        };
        let tensor = Tensor::of(result.ty()).ok_or("no tensor")?;
        let meaning = match base {
            Meaning::Input(layout) => layout.viewed(call, &tensor).map(Meaning::Input),
            Meaning::Step(step, _) => (call.operator_parts())
                .filter(|(_, name, _)| layout::is_reshape(name))
                .map(|_| Meaning::Step(step, tensor.shape)),
            Meaning::Row(_) | Meaning::Empty | Meaning::Sum => None,
        };
        let meaning = meaning.ok_or_else(|| format!("'{operator}' makes a view that is not followed"))?;
        self.meanings.insert(result, meaning);
        Ok(())
    }

    /// Where a value is found by a step over `space`.
    pub(super) fn source(
        &mut self,
        value: Value<'c>,
        space: &[i64],
        operator: &str,
    ) -> Result<Source, String> {
        match self.meanings.get(&storage(value)) {
            Some(Meaning::Input(layout)) => {
                let strides = layout.broadcast(space);
                let strides =
                    strides.ok_or_else(|| format!("'{operator}' does not broadcast its operand"))?;
                let (input, offset, element) = (layout.input, layout.offset, layout.element);
                let read = Read { input, offset, strides, element };
                let known = self.reads.iter().zip(&self.read_in).position(|(a, b)| *a == read && b == space);
                Ok(Source::Read(known.unwrap_or_else(|| {
                    self.reads.push(read);
                    self.read_in.push(space.to_vec());
                    self.reads.len() - 1
                })))
            }
            Some(Meaning::Step(step, shape)) if shape == space => Ok(Source::Step(*step)),
            Some(Meaning::Step(..)) => Err(format!("'{operator}' broadcasts an intermediate")),
            Some(Meaning::Row(_)) => Err(format!("'{operator}' reads what a row has one of")),
            Some(Meaning::Empty) => Err(format!("'{operator}' reads what nobody has written")),
            Some(Meaning::Sum) => Err(format!("'{operator}' reads a sum")),
            None => Err(format!("'{operator}' reads a value of another type")),
        }
    }

    fn end(mut self, yielded: &[Value<'c>], overwrites: Option<usize>) -> Result<Elementwise, String> {
        if let Some((source, shape, sum)) = self.sum.take() {
            return self.end_with_sum(yielded, overwrites, (source, &shape, sum));
        }
        let mut writes = Vec::new();
        let mut write_in = Vec::new();
        let mut of_row = Vec::new();
        for &value in yielded {
            let tensor = Tensor::of(value.ty()).ok_or("it yields no tensor")?;
            let (step, shape) = match (self.meanings.get(&storage(value)), &self.row) {
                (Some(Meaning::Step(step, shape)), _) => (*step, shape),
                // Its type has the row's dimensions, of size 1.
                (Some(Meaning::Row(step)), Some((shape, _))) => (*step, shape),
                _ => return Err("it yields what no step computes".into()),
            };
            let one = matches!(self.meanings.get(&storage(value)), Some(Meaning::Row(_)));
            let element = self.steps[step].element;
            if tensor.storage != tensor.elements() * element.bytes() || (!one && *shape != tensor.shape) {
                return Err("it yields a tensor with gaps".into());
            }
            write_in.push(shape.clone());
            writes.push(Write { source: Source::Step(step), strides: tensor.strides, element });
            of_row.push(one);
        }
        let space = write_in.first().cloned().ok_or("it yields nothing")?;
        let spaces = || self.read_in.iter().chain(&self.step_in).chain(&write_in);
        if self.row.is_some() && spaces().any(|shape| *shape != space) {
            return Err("its steps have different shapes".into());
        }
        let shape = if spaces().all(|shape| *shape == space) {
            space
        } else {
            // Views between the steps: fine where everything is one line of elements.
            let count: i64 = space.iter().product();
            let same = spaces().all(|shape| shape.iter().product::<i64>() == count);
            let rows = self.reads.iter().map(|read| &read.strides).zip(&self.read_in);
            let linear = |(strides, shape): (&Vec<i64>, &Vec<i64>)| layout::is_linear(shape, strides);
            let written = writes.iter().map(|write| &write.strides).zip(&write_in);
            if !same || !rows.chain(written).all(linear) {
                return Err("its steps have different shapes".into());
            }
            let line = |strides: &Vec<i64>| vec![i64::from(strides.iter().any(|&stride| stride != 0))];
            self.reads.iter_mut().for_each(|read| read.strides = line(&read.strides));
            writes.iter_mut().for_each(|write| write.strides = vec![1]);
            vec![count]
        };
        let rows = writes.iter_mut().map(|write| &mut write.strides);
        let mut rows: Vec<&mut Vec<i64>> =
            rows.chain(self.reads.iter_mut().map(|read| &mut read.strides)).collect();
        let (shape, row) = match self.row {
            Some(_) if shape.contains(&0) => {
                rows.iter_mut().for_each(|row| **row = vec![1, 1]);
                (vec![0, 1], Some(1))
            }
            // Rows become the innermost dimension, wherever their elements lie.
            Some((_, axes)) => {
                let kept: Vec<usize> = (0..shape.len()).filter(|axis| !axes.contains(axis)).collect();
                let mut tails: Vec<Vec<i64>> = rows.iter().map(|row| of(&axes, row)).collect();
                rows.iter_mut().for_each(|row| **row = of(&kept, row));
                // The writes come first. One number per row does not move along it.
                tails.iter_mut().zip(&of_row).filter(|(_, one)| **one).for_each(|(tail, _)| tail.fill(0));
                let length = layout::simplify(&of(&axes, &shape), &mut tails.iter_mut().collect::<Vec<_>>());
                if length.len() != 1 {
                    return Err("the dimensions of its rows are not one in memory".into());
                }
                let mut shape = layout::simplify(&of(&kept, &shape), &mut rows);
                shape.extend(length);
                rows.iter_mut().zip(tails).for_each(|(row, tail)| row.extend(tail));
                (shape, Some(1))
            }
            None => (layout::simplify(&shape, &mut rows), None),
        };
        // Nor where a row has one element.
        for (write, _) in writes.iter_mut().zip(of_row).filter(|(_, one)| *one) {
            if let Some(stride) = write.strides.last_mut() {
                *stride = 0;
            }
        }
        // An element that is overwritten must be read by the same index only, before it is written.
        let aside = |read: &&Read| read.offset != 0 || read.strides != writes[0].strides;
        if self.reads.iter().filter(|read| Some(read.input) == overwrites).find(aside).is_some() {
            return Err("it reads what it overwrites in another order".into());
        }
        Ok(Elementwise { shape, reads: self.reads, steps: self.steps, writes, reduction: None, row })
    }

    /// A body that yields nothing but a sum over dimensions of `space`. In the iteration space these are the innermost ones.
    fn end_with_sum(
        mut self,
        yielded: &[Value<'c>],
        overwrites: Option<usize>,
        (mut source, space, Sum { axes, reduction, .. }): (Source, &[i64], Sum<'c>),
    ) -> Result<Elementwise, String> {
        if self.row.is_some() {
            return Err("a sum behind rows".into());
        }
        let [value] = *yielded else { return Err("it yields more than a sum".into()) };
        if overwrites.is_some() || !matches!(self.meanings.get(&storage(value)), Some(Meaning::Sum)) {
            return Err("it yields something else than its sum".into());
        }
        let tensor = Tensor::of(value.ty()).ok_or("it yields no tensor")?;
        let element = reduction.result;
        if Element::of(tensor.element) != Some(element) {
            return Err("it yields its sum before it is rounded".into());
        }
        if tensor.storage != tensor.elements() * element.bytes() {
            return Err("it yields a tensor with gaps".into());
        }
        if self.read_in.iter().chain(&self.step_in).any(|shape| *shape != *space) {
            return Err("its steps have different shapes".into());
        }
        let kept: Vec<usize> = (0..space.len()).filter(|axis| !axes.contains(axis)).collect();
        if of(&axes, space).contains(&0) {
            // The sum of nothing: nothing is read.
            self.reads.clear();
            self.steps.clear();
            source = Source::Number(0.0);
        }
        // Kept and summed dimensions are simplified apart, because the former stay outside of the latter.
        // With keepdim the summed dimensions are still there, of size 1.
        let keeps = tensor.shape.len() == space.len();
        let stored = if keeps { of(&kept, &tensor.strides) } else { tensor.strides };
        let mut outer: Vec<Vec<i64>> = vec![stored];
        outer.extend(self.reads.iter().map(|read| of(&kept, &read.strides)));
        let mut shape = layout::simplify(&of(&kept, space), &mut outer.iter_mut().collect::<Vec<_>>());
        let mut inner: Vec<Vec<i64>> = self.reads.iter().map(|read| of(&axes, &read.strides)).collect();
        let summed = layout::simplify(&of(&axes, space), &mut inner.iter_mut().collect::<Vec<_>>());
        for (read, (outer, inner)) in self.reads.iter_mut().zip(outer[1..].iter().zip(inner)) {
            read.strides = [outer.as_slice(), &inner].concat();
        }
        let mut strides = outer.swap_remove(0);
        strides.resize(shape.len() + summed.len(), 0);
        let reduction = Some(Reduction { dims: summed.len(), ..reduction });
        shape.extend(summed);
        let writes = vec![Write { source, strides, element }];
        Ok(Elementwise { shape, reads: self.reads, steps: self.steps, writes, reduction, row: None })
    }
}

/// These dimensions of all.
fn of(axes: &[usize], all: &[i64]) -> Vec<i64> {
    axes.iter().map(|&axis| all[axis]).collect()
}
