//! What a value is called in messages: as the user knows it.

use crate::ops::{AtenOp, BufferOp, LaunchOp, RunOp, StepOp};
use crate::raw::Value;
use crate::transfers;

/// The name of a value: the node that produces it (`layer1.0.conv1`; `bn1.1` for a second result, `drop.state` for a
/// generator), the module path and operator of an ATen call, the name of a parameter or input. What was fetched has the name of what
/// it is a copy of, and a copy in host memory that name and `.host`.
pub fn of(value: Value<'_>) -> String {
    if value.ty().is_host() && value.producer().is_some() {
        return format!("{}.host", of(transfers::origin(value)));
    }
    let value = transfers::origin(value);
    if let Some((op, number)) = value.producer() {
        if let Some(run) = RunOp::of(op) {
            let symbol = run.symbol();
            return match number {
                _ if value.ty().is_generator() => format!("{symbol}.state"),
                0 => symbol.to_owned(),
                _ => format!("{symbol}.{number}"),
            };
        }
        if let Some(call) = AtenOp::of(op) {
            let path = call.module_path();
            let name = call.operator_parts().map_or(call.operator(), |(_, name, _)| name);
            let dot = if path.is_empty() { "" } else { "." };
            return format!("{path}{dot}{name}");
        }
        if let Some(buffer) = BufferOp::of(op)
            && let Some((symbol, number)) = written_by(buffer)
        {
            return if number == 0 { symbol.to_owned() } else { format!("{symbol}.{number}") };
        }
        return op.location().name().unwrap_or(op.name()).to_owned();
    }
    if let Some((block, number)) = value.argument() {
        let step = block.parent().and_then(StepOp::of);
        if let Some(name) = step.and_then(|step| step.argument_name(number)) {
            return name.to_owned();
        }
        return format!("argument {number}");
    }
    value.to_string()
}

/// The symbol of the node that makes a value, as the result of a run or in a buffer.
pub fn symbol_behind(value: Value<'_>) -> Option<&str> {
    let (op, _) = transfers::origin(value).producer()?;
    let written = || written_by(BufferOp::of(op)?).map(|(symbol, _)| symbol);
    RunOp::of(op).map(RunOp::symbol).or_else(written)
}

/// The kernel that writes a buffer, and the number of the result.
pub(crate) fn written_by<'c>(buffer: BufferOp<'c>) -> Option<(&'c str, usize)> {
    let value = buffer.value()?;
    value.uses().into_iter().find_map(|used| {
        let launch = LaunchOp::of(used.op)?;
        let number = launch.outputs().into_iter().position(|output| output == value)?;
        Some((launch.symbol(), number))
    })
}
