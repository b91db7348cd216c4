//! Chains of views: from a value to the base whose storage it shares, and the same chain built elsewhere.

use std::collections::HashMap;

use rk_dialect::create::AtenCall;
use rk_dialect::ops::AtenOp;
use rk_dialect::{At, Block, Value};

use crate::dataflow::map_values;

/// The view operator that makes a value, if one does.
pub fn view_of(value: Value<'_>) -> Option<AtenOp<'_>> {
    value.producer().and_then(|(op, _)| AtenOp::of(op)).filter(|call| call.is_view())
}

/// The value at the start of the chain of views that ends in `value`; itself when it is no view.
pub fn base(value: Value<'_>) -> Value<'_> {
    let mut base = value;
    while let Some((op, result)) = base.producer() {
        let Some(up) = AtenOp::of(op).filter(|call| call.is_view()).and_then(|call| call.base_of(result))
        else {
            break;
        };
        base = up;
    }
    base
}

/// Everything that the chain of views of `value` reads: its base, and other operands of its view operators.
pub fn roots<'c>(value: Value<'c>, into: &mut Vec<Value<'c>>) {
    match view_of(value) {
        Some(call) => call.op().operands().into_iter().for_each(|operand| roots(operand, into)),
        None if !into.contains(&value) => into.push(value),
        None => {}
    }
}

/// Builds the chain of views of `value` at the end of `body`, where `known` holds what values are called there: roots to
/// begin with, and every view once it is built.
pub fn rebuild<'c>(
    value: Value<'c>,
    known: &mut HashMap<Value<'c>, Value<'c>>,
    body: Block<'c>,
) -> Value<'c> {
    if let Some(&inside) = known.get(&value) {
        return inside;
    }
    let Some(call) = view_of(value) else { return value };
    let mut new = AtenCall::of(call);
    map_values(&mut new.args, &mut |operand| rebuild(operand, known, body));
    let made = new.insert(At::End(body), call.op().location());
    known.extend(call.op().results().into_iter().zip(made.op().results()));
    known.get(&value).copied().unwrap_or(value)
}
