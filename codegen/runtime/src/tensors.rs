//! Tensors from their description: arguments and constants with the layout that the step expects.

use rk_step::{Constant, Data, ElementType, Role, Step, TensorSpec};
use rk_torch::InputSpec;
use tch::{Device, Kind, Tensor};

use crate::error::RuntimeError;

/// tch's name of an element type.
///
/// # Errors
/// For the types that tch has no name for: a step may compute with them, and takes none of its arguments or tangents in them.
pub fn kind(dtype: ElementType) -> Result<Kind, RuntimeError> {
    rk_torch::kind(dtype).ok_or_else(|| {
        RuntimeError::Model(format!("a tensor of {dtype:?} cannot come into a step from outside"))
    })
}

/// A fresh tensor with these strides and this much storage, filled from `content` (same shape, any layout).
///
/// # Errors
/// When the element type or the shape differs, with both named; when torch refuses.
pub fn laid_out(spec: &TensorSpec, content: &Tensor, device: Device) -> Result<Tensor, RuntimeError> {
    let expected = kind(spec.dtype)?;
    if content.kind() != expected || content.size() != spec.shape {
        return Err(RuntimeError::Model(format!(
            "is {:?}{:?}, but the step expects {expected:?}{:?}",
            content.kind(),
            content.size(),
            spec.shape
        )));
    }
    let options = (expected, device);
    let mut out = if spec.strides.is_none() && spec.storage_bytes.is_none() {
        Tensor::f_empty(&spec.shape, options)?
    } else {
        let elements = spec.bytes().div_ceil(spec.dtype.bytes());
        let storage = Tensor::f_zeros([elements as i64], options)?;
        storage.f_as_strided(&spec.shape, spec.full_strides(), 0)?
    };
    let _no_grad = tch::no_grad_guard();
    out.f_copy_(&content.f_detach()?)?;
    Ok(out)
}

/// A tensor of zeros with this shape and these strides.
///
/// # Errors
/// When torch refuses.
pub fn zeros(spec: &TensorSpec, device: Device) -> Result<Tensor, RuntimeError> {
    let elements = spec.bytes().div_ceil(spec.dtype.bytes());
    let storage = Tensor::f_zeros([elements as i64], (kind(spec.dtype)?, device))?;
    Ok(storage.f_as_strided(&spec.shape, spec.full_strides(), 0)?)
}

/// The tensor of a constant.
///
/// # Errors
/// When torch refuses. The data of a valid step always fits.
pub fn constant(constant: &Constant, device: Device) -> Result<Tensor, RuntimeError> {
    let spec = &constant.spec;
    let (hex, shape) = match &constant.data {
        Data::Splat(hex) => (hex, vec![1i64; spec.shape.len()]),
        Data::Hex(hex) => (hex, spec.shape.clone()),
    };
    let digit = |d: u8| (d as char).to_digit(16).unwrap_or(0) as u8;
    let bytes: Vec<u8> = hex.as_bytes().chunks_exact(2).map(|d| digit(d[0]) << 4 | digit(d[1])).collect();
    let tensor = Tensor::f_from_data_size(&bytes, &shape, kind(spec.dtype)?)?;
    laid_out(spec, &tensor.f_expand(&spec.shape, false)?, device)
}

/// Arguments for a step without an archive, from the step's shapes and `seed`; they are the same on every machine.
/// Floats are normal numbers of spread 0.5, those of buffers lie above 0.5 (a variance must be positive), integers
/// and truth values are 0 or 1 (always valid as indices).
///
/// # Errors
/// When torch refuses.
pub fn synthesize(step: &Step, seed: u64, device: Device) -> Result<Vec<Tensor>, RuntimeError> {
    let make = |(i, arg): (usize, &rk_step::Arg)| {
        let content = InputSpec::new(arg.spec.dtype, arg.spec.shape.clone()).make(seed, i as u64)?;
        let content = match arg.role {
            _ if !arg.spec.dtype.is_float() => content,
            Role::Buffer => {
                content.f_mul_scalar(0.5)?.f_abs()?.f_add_scalar(0.5)?.f_to_kind(kind(arg.spec.dtype)?)?
            }
            _ => content.f_mul_scalar(0.5)?,
        };
        laid_out(&arg.spec, &content, device)
    };
    step.args.iter().enumerate().map(make).collect()
}
