//! A node's body as calls over numbered locals, and the types of tensors as the step file spells them.

use std::collections::HashMap;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{AtenOp, NodeOp};
use rk_dialect::{Arg, Location, Tensor, Type, Value};
use rk_step::{ArgValue, Call, Local, Node, NodeOutput, TensorSpec};

/// A node: its inputs are locals `0..inputs`, then come the results of its calls.
pub fn node<'c>(node: NodeOp<'c>) -> Result<Node, Diagnostic<'c>> {
    let mut locals: HashMap<Value<'c>, u32> = HashMap::new();
    let arguments = node.body().map(|body| body.arguments()).unwrap_or_default();
    let inputs = arguments.len() as u32;
    locals.extend(arguments.into_iter().zip(0..));
    let mut ops = Vec::new();
    for call in node.calls() {
        let made = call_over(call, &mut |value| locals.get(&value).copied())?;
        let mut results = Vec::new();
        for result in call.op().results() {
            let local = locals.len() as u32;
            locals.insert(result, local);
            results.push(Some(local));
        }
        ops.push(Call { results, ..made });
    }
    let outputs = node.yielded().into_iter().map(|value| NodeOutput {
        local: Local(locals.get(&value).copied().unwrap_or(u32::MAX)),
        bytes: value.ty().bytes().unwrap_or(0),
    });
    let cost = node.cost().unwrap_or_default();
    Ok(Node {
        name: node.symbol().to_owned(),
        inputs,
        ops,
        outputs: outputs.collect(),
        overwrites: node.overwrites().map(|index| index as u32),
        random: node.is_random(),
        once: node.is_once(),
        backward: node.is_backward(),
        time_ns: cost.time,
        workspace_bytes: cost.workspace,
        kernel: None,
    })
}

/// A call whose values are numbered by `number`; its results are left to the caller.
///
/// # Errors
/// A value that has no number: it is defined outside.
pub fn call_over<'c>(
    call: AtenOp<'c>,
    number: &mut dyn FnMut(Value<'c>) -> Option<u32>,
) -> Result<Call, Diagnostic<'c>> {
    let mut missing = None;
    let mut numbered = |value: Value<'c>| {
        number(value).unwrap_or_else(|| {
            missing = Some(value);
            u32::MAX
        })
    };
    let args = call.args();
    let values: Vec<ArgValue> = args.iter().map(|arg| argument(arg, &mut numbered)).collect();
    if let Some(value) = missing {
        let message = format!("'{}' reads '{}' from outside", call.operator(), rk_dialect::names::of(value));
        return Err(Diagnostic::error(call.op().location(), message));
    }
    let effects = positions(&args, &call.effects());
    Ok(Call { op: call.operator().to_owned(), args: values, results: Vec::new(), effects })
}

/// The schema positions of operands.
fn positions(args: &[Arg<'_>], operands: &[usize]) -> Vec<u32> {
    let mut found = Vec::new();
    let mut operand = 0;
    for (position, arg) in args.iter().enumerate() {
        let count = arg.values().len();
        if (operand..operand + count).any(|index| operands.contains(&index)) {
            found.push(position as u32);
        }
        operand += count;
    }
    found
}

fn argument<'c>(arg: &Arg<'c>, number: &mut dyn FnMut(Value<'c>) -> u32) -> ArgValue {
    match arg {
        Arg::Value(value) => ArgValue::Value(number(*value)),
        Arg::None => ArgValue::None,
        Arg::Int(value) => ArgValue::Int(*value),
        Arg::Float(value) => ArgValue::Float(*value),
        Arg::Bool(value) => ArgValue::Bool(*value),
        Arg::Str(text) => ArgValue::Str(text.clone()),
        Arg::List(elements) => {
            ArgValue::List(elements.iter().map(|element| argument(element, number)).collect())
        }
    }
}

/// A tensor type as the step file spells it.
///
/// # Errors
/// A type that is no static tensor of a known element type.
pub fn spec<'c>(ty: Type<'c>, at: Location<'c>) -> Result<TensorSpec, Diagnostic<'c>> {
    let refuse = || Diagnostic::error(at, format!("{ty} is not a tensor that a step file can hold"));
    let tensor = Tensor::of(ty).ok_or_else(refuse)?;
    let dtype = tensor.element.element_type().ok_or_else(refuse)?;
    let plain = tensor.strides == rk_dialect::types::row_major(&tensor.shape);
    let spanned = TensorSpec {
        dtype,
        shape: tensor.shape,
        strides: (!plain).then_some(tensor.strides),
        storage_bytes: None,
    };
    let storage_bytes = (spanned.bytes() != tensor.storage).then_some(tensor.storage);
    Ok(TensorSpec { storage_bytes, ..spanned })
}
