//! A recorded operator as the roofline model of [`rk_vocabulary::roofline`] reads it, for when nothing was measured.

use rk_torch::{Argument, Device, RecordedOp, Recording, TensorType, ValueNumber};
use rk_vocabulary::roofline::{Call, Roofline, Truth};

/// Nanoseconds of one run of `op`. Calls that only make views take no time.
pub fn nanos(op: &RecordedOp, recording: &Recording, device: Device) -> u64 {
    let view = op.writes.is_empty() && !op.aliases.is_empty() && op.aliases.iter().all(Option::is_some);
    if view {
        return 0;
    }
    let machine = match device {
        Device::Cpu => Roofline::CPU,
        Device::Cuda(_) => Roofline::GPU,
    };
    let moved = op.operands.iter().chain(&op.results).filter_map(|&value| recording.type_of(value));
    let sizes = |values: &[ValueNumber]| {
        values.iter().map(|&value| recording.type_of(value).map(|of| of.sizes.clone())).collect()
    };
    let call = Call {
        operator: op.name.split('.').nth(1).unwrap_or_default(),
        operands: sizes(&op.operands),
        results: sizes(&op.results),
        args: op.args.iter().map(truth).collect(),
    };
    machine.nanos(moved.map(bytes).sum(), call.operations())
}

fn bytes(value: &TensorType) -> f64 {
    value.sizes.iter().product::<i64>() as f64 * value.dtype.bytes() as f64
}

fn truth(argument: &Argument) -> Truth {
    match argument {
        Argument::Bool(value) => Truth::One(*value),
        Argument::List(elements) => {
            Truth::List(elements.iter().map(|element| *element == Argument::Bool(true)).collect())
        }
        _ => Truth::Other,
    }
}
