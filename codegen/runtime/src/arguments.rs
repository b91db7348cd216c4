//! Whether tensors are what a step was made for, before anything runs: a generated kernel, a planned place and a plan of a device's
//! memory are all made for one element type, shape and layout.

use rk_step::{ElementType, Step, TensorSpec};
use rk_torch::Device;
use tch::Tensor;

use crate::error::RuntimeError;
use crate::tensors::kind;

/// Checks the arguments of a step: their number, devices, element types, shapes and strides.
///
/// # Errors
/// The first that differs, by its name, with what it is and what it should be.
pub fn check(step: &Step, args: &[Tensor], device: Device) -> Result<(), RuntimeError> {
    if args.len() != step.args.len() {
        let names: Vec<&str> = step.args.iter().map(|arg| arg.name.as_str()).take(8).collect();
        let more = if step.args.len() > names.len() { ", ..." } else { "" };
        return Err(RuntimeError::Model(format!(
            "{} arguments for a step with {}: {}{more}",
            args.len(),
            step.args.len(),
            names.join(", ")
        )));
    }
    for (index, (arg, tensor)) in step.args.iter().zip(args).enumerate() {
        fits(tensor, &arg.spec, device)
            .map_err(|wrong| RuntimeError::Model(format!("argument {index}, {:?}, {wrong}", arg.name)))?;
    }
    Ok(())
}

/// Whether a tensor is of this type and on this device. Strides of extents below 2 mean nothing, so any will do.
///
/// # Errors
/// What it is, and what it should be.
pub fn fits(tensor: &Tensor, spec: &TensorSpec, device: Device) -> Result<(), String> {
    let wanted = spelled(spec.dtype, &spec.shape);
    if !tensor.defined() {
        return Err(format!("is undefined, the step needs {wanted}"));
    }
    let found = tensor.f_kind().map_err(|e| format!("is of a type that no step has: {e}"))?;
    if tensor.device() != device.to_tch() {
        return Err(format!("is on {:?}, the step runs on {device}", tensor.device()));
    }
    if kind(spec.dtype).ok() != Some(found) || tensor.size() != spec.shape {
        let dims: Vec<String> = tensor.size().iter().map(ToString::to_string).collect();
        return Err(format!("is {found:?}[{}], the step needs {wanted}", dims.join(",")));
    }
    let (strides, planned) = (tensor.stride(), spec.full_strides());
    let differ = |(dim, (a, b)): (usize, (&i64, &i64))| spec.shape[dim] > 1 && a != b;
    if spec.elements() > 0 && strides.iter().zip(&planned).enumerate().any(differ) {
        return Err(format!(
            "is {wanted} with strides {strides:?}, the step was planned for strides {planned:?}"
        ));
    }
    Ok(())
}

/// `Float[8,3]`, as torch's bindings call the type.
fn spelled(dtype: ElementType, shape: &[i64]) -> String {
    let dims: Vec<String> = shape.iter().map(ToString::to_string).collect();
    let kind = kind(dtype).map_or_else(|_| format!("{dtype:?}"), |kind| format!("{kind:?}"));
    format!("{kind}[{}]", dims.join(","))
}
