//! A roofline model of an operator's time, for when nothing was measured.
//!
//! time = launch + max(bytes moved / bandwidth, operations / throughput). Operations are counted for
//! convolutions, matrix products and fused attention, with two per multiply-add; everything else is taken to be
//! bound by memory. The constants describe a middling machine: the model ranks operators, it does not predict
//! seconds. Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.

use rk_torch::{Argument, Device, RecordedOp, Recording, TensorType};

/// What a device can do.
struct Machine {
    /// Bytes per second from memory.
    bandwidth: f64,
    /// Floating operations per second in dense linear algebra.
    throughput: f64,
    /// Seconds that any call costs.
    launch: f64,
}

/// Two desktop cores.
const CPU: Machine = Machine { bandwidth: 20e9, throughput: 100e9, launch: 1e-6 };
/// A data-centre GPU in tf32.
const CUDA: Machine = Machine { bandwidth: 2e12, throughput: 100e12, launch: 4e-6 };

/// Nanoseconds of one run of `op`. Calls that only make views take no time.
pub fn nanos(op: &RecordedOp, recording: &Recording, device: Device) -> u64 {
    let view = op.writes.is_empty() && !op.aliases.is_empty() && op.aliases.iter().all(Option::is_some);
    if view {
        return 0;
    }
    let machine = match device {
        Device::Cpu => CPU,
        Device::Cuda(_) => CUDA,
    };
    let bytes: f64 =
        op.operands.iter().chain(&op.results).filter_map(|&value| recording.type_of(value)).map(bytes).sum();
    let work = operations(op, recording).unwrap_or(0.);
    let seconds = machine.launch + (bytes / machine.bandwidth).max(work / machine.throughput);
    (seconds * 1e9).round() as u64
}

fn elements(value: &TensorType) -> f64 {
    value.sizes.iter().product::<i64>() as f64
}

fn bytes(value: &TensorType) -> f64 {
    elements(value) * value.dtype.bytes() as f64
}

/// Floating operations of the operators that are worth counting; `None` for all others.
fn operations(op: &RecordedOp, recording: &Recording) -> Option<f64> {
    let operand = |i: usize| recording.type_of(*op.operands.get(i)?);
    let result = |i: usize| recording.type_of(*op.results.get(i)?);
    let base = op.name.split('.').nth(1)?;
    match base {
        "convolution"
        | "_convolution"
        | "convolution_overrideable"
        | "mkldnn_convolution"
        | "cudnn_convolution" => convolution(result(0)?, operand(0)?, operand(1)?, op),
        "convolution_backward" => {
            let wanted = match op.args.last() {
                Some(Argument::List(mask)) => {
                    mask.iter().take(2).filter(|m| **m == Argument::Bool(true)).count()
                }
                _ => 2,
            };
            Some(convolution(operand(0)?, operand(1)?, operand(2)?, op)? * wanted as f64)
        }
        "mm" | "bmm" => Some(2. * elements(operand(0)?) * *operand(1)?.sizes.last()? as f64),
        "addmm" | "baddbmm" => Some(2. * elements(operand(1)?) * *operand(2)?.sizes.last()? as f64),
        name if name.starts_with("_scaled_dot_product") => {
            let backward = name.ends_with("_backward");
            // Backward reads the gradient first; it makes five products where forward makes two.
            let first = usize::from(backward);
            let (query, key) = (operand(first)?, operand(first + 1)?);
            let keys = *key.sizes.iter().rev().nth(1)? as f64;
            Some(elements(query) * keys * if backward { 10. } else { 4. })
        }
        _ => None,
    }
}

/// Each output element (each input element when transposed) meets every weight of one filter.
fn convolution(output: &TensorType, input: &TensorType, weight: &TensorType, op: &RecordedOp) -> Option<f64> {
    let filter = elements(weight) / (*weight.sizes.first()?).max(1) as f64;
    // `transposed` is the only truth value among the first eight arguments of every convolution.
    let transposed = op.args.iter().take(8).any(|arg| *arg == Argument::Bool(true));
    Some(2. * filter * elements(if transposed { input } else { output }))
}
