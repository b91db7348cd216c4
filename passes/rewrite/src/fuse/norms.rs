//! The backward call of a layer norm, taken apart: three results that one kernel cannot make become three nodes.
//!
//! The gradient by the input is a loop over rows, those of weight and bias are sums over the other dimensions, in f32 where the tensors are
//! f16 or bf16, and rounded at the end. The calls of the new nodes are ATen's, so the step still runs without kernels; then they take longer
//! than the call that they replace.

use std::collections::{BTreeSet, HashMap, HashSet};

use rk_dialect::attrs::Arg;
use rk_dialect::create::{self, AtenCall, NewNode, NewRun};
use rk_dialect::ops::{self, AtenOp, NodeOp, RunOp, StepOp};
use rk_dialect::pointwise::Elementwise;
use rk_dialect::{At, Eraser, Op, Tensor, Type, Value};

use crate::dataflow::map_values;

/// What the symbols of the new nodes end in.
pub(super) const PARTS: [&str; 3] = ["input", "weight", "bias"];

/// Takes apart what can be, but for those nodes, and returns the symbols of those that were.
pub(super) fn split<'c>(
    step: StepOp<'c>,
    module: Op<'c>,
    apart: &BTreeSet<String>,
    eraser: &Eraser<'c>,
) -> Vec<String> {
    let nodes = ops::nodes_by_symbol(module);
    let runs = step.body().ops().into_iter().filter_map(RunOp::of);
    let found: Vec<_> =
        runs.filter_map(|run| nodes.get(run.symbol()).map(|&(_, node)| (run, node))).collect();
    let wanted = found.into_iter().filter(|(_, node)| !apart.contains(node.symbol()));
    let split = wanted.filter_map(|(run, node)| {
        let symbol = node.symbol().to_owned();
        split_one(run, node, eraser).map(|()| symbol)
    });
    split.collect()
}

/// The tensors of a call, as arguments of its node.
struct Tensors<'c> {
    gradient: Value<'c>,
    x: Value<'c>,
    mean: Value<'c>,
    rstd: Value<'c>,
    weight: Value<'c>,
}

/// `None`, and nothing changed, when it is no such node or its parts are no kernels.
fn split_one<'c>(run: RunOp<'c>, node: NodeOp<'c>, eraser: &Eraser<'c>) -> Option<()> {
    let calls = node.calls();
    let (&call, views) = calls.split_last()?;
    if !views.iter().all(|view| view.is_view()) {
        return None;
    }
    if call.operator() != "aten.native_layer_norm_backward.default" || node.yielded() != call.op().results() {
        return None;
    }
    let args = call.args();
    let tensor = |index: usize| match args.get(index) {
        Some(Arg::Value(value)) => Some(*value),
        _ => None,
    };
    let of = Tensors {
        gradient: tensor(0)?,
        x: tensor(1)?,
        mean: tensor(3)?,
        rstd: tensor(4)?,
        weight: tensor(5)?,
    };
    let Some(Arg::List(sizes)) = args.get(2) else { return None };
    let [whole, weight, bias]: [Value<'c>; 3] = call.op().results().try_into().ok()?;
    let leading = of.x.ty().shape()?.len().checked_sub(sizes.len())? as i64;
    // What the calls between yield has the layout of their operands.
    let dense = of.x.ty() == whole.ty() && of.gradient.ty() == whole.ty();
    if !dense || leading == 0 || args.get(7) != Some(&mask([true; 3])) {
        return None;
    }
    let dims = Arg::List((0..leading).map(Arg::Int).collect());
    let backward = node.is_backward();
    let one = |operator: &str, args: Vec<Arg<'c>>, results: Vec<Type<'c>>| AtenCall {
        operator: operator.into(),
        args,
        results,
        backward,
        ..AtenCall::default()
    };
    let sum = |value: Value<'c>, ty: Type<'c>| {
        let args = vec![Arg::Value(value), dims.clone(), Arg::Bool(false), Arg::None];
        one("aten.sum.dim_IntList", args, vec![ty])
    };
    let part = |suffix: &str,
                inputs: &[Value<'c>],
                fill: &dyn Fn(&[Value<'c>], At<'c>) -> Option<Value<'c>>| {
        let mut roots: Vec<Value<'c>> = inputs.iter().map(|&value| root(value)).collect();
        let mut seen = HashSet::new();
        roots.retain(|value| seen.insert(*value));
        let new = NewNode {
            symbol: format!("{}.{suffix}", node.symbol()),
            inputs: roots.iter().map(|value| value.ty()).collect(),
            backward,
            ..NewNode::default()
        };
        let made = new.insert(At::Before(node.op()), node.op().location());
        let body = made.body()?;
        let mut known: HashMap<Value<'c>, Value<'c>> = roots.iter().copied().zip(body.arguments()).collect();
        let given = inputs.iter().map(|&value| copied(value, &mut known, At::End(body)));
        let result = fill(&given.collect::<Option<Vec<_>>>()?, At::End(body))?;
        create::yield_(&[result], At::End(body), node.op().location());
        Some((made, roots, result.ty()))
    };
    let at = node.op().location();
    let made = |call: AtenCall<'c>, into: At<'c>| call.insert(into, at).op().result(0);
    let inputs = [of.gradient, of.x, of.mean, of.rstd, of.weight];
    let by_input = part(PARTS[0], &inputs, &|given, into| {
        let mut call = AtenCall::of(call);
        for (index, value) in [0, 1, 3, 4, 5].into_iter().zip(given) {
            call.args[index] = Arg::Value(*value);
        }
        (call.args[6], call.args[7]) = (Arg::None, mask([true, false, false]));
        call.cost = None;
        made(call, into)
    })?;
    // In another element type, if it has not got that one.
    let converted = |value: Value<'c>, element: Type<'c>, into: At<'c>| {
        let tensor = Tensor::of(value.ty())?;
        if tensor.element == element {
            return Some(value);
        }
        let ty = Tensor {
            element,
            storage: tensor.storage / tensor.element.element_bytes()? * element.element_bytes()?,
            ..tensor
        }
        .ty()?;
        let code = element.element_type()?.torch_code();
        made(one("aten._to_copy.default", vec![Arg::Value(value), Arg::Int(code)], vec![ty]), into)
    };
    let element = |value: Value<'c>| Tensor::of(value.ty()).map(|tensor| tensor.element);
    let reduced = element(of.x)?.element_bytes() == Some(2);
    let wide = if reduced { Type::scalar(element(of.x)?.context(), "f32")? } else { element(of.x)? };
    let summed = |value: Value<'c>, result: Value<'c>, into: At<'c>| {
        let same = element(value)?;
        let total = Tensor {
            element: same,
            storage: Tensor::of(result.ty())?.elements() * same.element_bytes()?,
            ..Tensor::of(result.ty())?
        };
        let total = made(sum(value, total.ty()?), into)?;
        converted(total, element(result)?, into)
    };
    let by_weight = part(PARTS[1], &inputs[..4], &|given, into| {
        let given: Vec<Value<'c>> =
            given.iter().map(|&value| converted(value, wide, into)).collect::<Option<_>>()?;
        let ty = given[1].ty();
        let values = |a: Value<'c>, b: Value<'c>| vec![Arg::Value(a), Arg::Value(b)];
        let mut minus = values(given[1], given[2]);
        minus.push(Arg::Int(1));
        let centered = made(one("aten.sub.Tensor", minus, vec![ty]), into)?;
        let z = made(one("aten.mul.Tensor", values(centered, given[3]), vec![ty]), into)?;
        let product = made(one("aten.mul.Tensor", values(given[0], z), vec![ty]), into)?;
        summed(product, weight, into)
    })?;
    let by_bias = part(PARTS[2], &inputs[..1], &|given, into| {
        // A sum is made in f32 and rounded once in any case.
        let same = element(given[0]) == element(bias);
        summed(if same { given[0] } else { converted(given[0], wide, into)? }, bias, into)
    })?;
    let parts = [by_input, by_weight, by_bias];
    if parts.iter().any(|(part, ..)| Elementwise::of(*part).is_err()) {
        parts.iter().for_each(|(part, ..)| eraser.erase(part.op()));
        return None;
    }
    let arguments = node.body()?.arguments();
    let given = run.inputs();
    for ((part, inputs, ty), old) in parts.into_iter().zip(run.outputs()) {
        if old.uses().is_empty() {
            eraser.erase(part.op());
            continue;
        }
        part.set_kernel();
        let place = |value: &Value<'c>| arguments.iter().position(|one| one == value);
        let operands: Vec<Value<'c>> = inputs.iter().filter_map(place).map(|index| given[index]).collect();
        let new =
            NewRun { symbol: part.symbol().to_owned(), operands, results: vec![ty], ..NewRun::default() };
        let new = new.insert(At::Before(run.op()), run.op().location());
        old.replace_all_uses(*new.outputs().first()?);
    }
    eraser.erase(run.op());
    eraser.erase(node.op());
    Some(())
}

/// The argument of the node that a tensor is a view of.
fn root(value: Value<'_>) -> Value<'_> {
    let mut base = value;
    while let Some((op, _)) = base.producer()
        && let Some(operand) = op.operand(0)
    {
        base = operand;
    }
    base
}

/// The same view of an argument of the new node.
fn copied<'c>(value: Value<'c>, known: &mut HashMap<Value<'c>, Value<'c>>, at: At<'c>) -> Option<Value<'c>> {
    if let Some(known) = known.get(&value) {
        return Some(*known);
    }
    let (op, index) = value.producer()?;
    let base = copied(op.operand(0)?, known, at)?;
    let mut call = AtenCall::of(AtenOp::of(op)?);
    map_values(&mut call.args, &mut |_| base);
    let made = call.insert(at, op.location()).op().result(index)?;
    known.insert(value, made);
    Some(made)
}

fn mask<'c>(of: [bool; 3]) -> Arg<'c> {
    Arg::List(of.into_iter().map(Arg::Bool).collect())
}
