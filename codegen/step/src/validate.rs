//! Whether a step file makes sense: its form here, in `node_form` and in `program_form`, its schedule before the judge of `rk-plan`.
//!
//! The judge has judged the schedule already, before it was written; this protects the executor from a damaged or hand-edited file.
//! After [`validate`] no index of the step is out of range and no slot is read while it is empty.
//!
//! | law | who finds it broken |
//! |---|---|
//! | S1 | form: every slot is assigned before it is used; judge: it is live |
//! | S2 | form: a drop names no resident; judge: a live value |
//! | S3 | judge: what the step does not return is dropped before it is produced again, and by the end |
//! | S4 | judge: `again` after a first run; form: with the same operands, a random node with the state that its first run saved |
//! | S5 | judge: every node runs, one with `once` once, draws and updates of the model's state for the first time in their order |
//! | S6 | judge: what is overwritten is the step's own, not read otherwise, not returned, and as large as what takes its place; [`crate::layout`]: whose address is the same |
//! | S7 | [`crate::layout`], where there are addresses |
//! | S9 | nobody: the file does not say what is lent |
//!
//! Form is what has to hold for a program to be a schedule of a graph at all ([`crate::judged`] says how it becomes one). The verifier of
//! the dialect proves the laws on the IR in its own way, and the executor's counts (`rk-run`) are a third proof.
//!
//! Not here: budgets, bits (S8).

use crate::error::Invalid;
use crate::judged::judged_peak;
use crate::model::{Data, Step, TensorSpec};
use crate::node_form::node_form;
use crate::program_form::program_form;

/// Checks a whole step, and names the first thing that is wrong.
///
/// # Errors
/// [`Invalid`] with place and culprit.
pub fn validate(step: &Step) -> Result<(), Invalid> {
    if step.alignment == 0 || !step.alignment.is_power_of_two() {
        return Err(Invalid::at("alignment", format!("{} is not a power of two", step.alignment)));
    }
    if !(step.device == "cpu" || step.device == "cuda" || step.device.starts_with("cuda:")) {
        return Err(Invalid::at("device", format!("{:?} is neither cpu nor cuda", step.device)));
    }
    for (i, arg) in step.args.iter().enumerate() {
        spec(&arg.spec, || format!("args[{i}] {:?}", arg.name))?;
    }
    for (i, constant) in step.constants.iter().enumerate() {
        let place = || format!("constants[{i}] {:?}", constant.name);
        spec(&constant.spec, place)?;
        let (hex, elements) = match &constant.data {
            Data::Splat(hex) => (hex, 1),
            Data::Hex(hex) => (hex, constant.spec.elements()),
        };
        let digits = elements.saturating_mul(constant.spec.dtype.bytes()).saturating_mul(2);
        if hex.len() as u64 != digits || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            let message = format!("needs {digits} hexadecimal digits of data, has {} characters", hex.len());
            return Err(Invalid::at(place(), message));
        }
    }
    node_form(step)?;
    kernels(step)?;
    crate::kernel::validate(step)?;
    program_form(step)?;
    judged_peak(step)?;
    let Some(layout) = &step.layout else { return Ok(()) };
    for (i, place) in layout.places.iter().enumerate() {
        if let Some(given) = &place.spec {
            spec(given, || format!("layout.places[{i}] {}", step.slot_name(place.slot)))?;
        }
    }
    crate::layout::check(step, layout)
}

fn spec(spec: &TensorSpec, place: impl Fn() -> String) -> Result<(), Invalid> {
    if let Some(size) = spec.shape.iter().find(|s| **s < 0) {
        return Err(Invalid::at(place(), format!("has a negative size {size}")));
    }
    let strides = spec.full_strides();
    if strides.len() != spec.shape.len() {
        return Err(Invalid::at(
            place(),
            format!("has {} sizes but {} strides", spec.shape.len(), strides.len()),
        ));
    }
    if let Some(stride) = strides.iter().find(|s| **s < 0) {
        return Err(Invalid::at(place(), format!("has a negative stride {stride}")));
    }
    let needed = TensorSpec { storage_bytes: None, ..spec.clone() }.bytes();
    if needed > i64::MAX as u64 / 4 || spec.shape.iter().try_fold(1i64, |a, &b| a.checked_mul(b)).is_none() {
        return Err(Invalid::at(place(), "is too large"));
    }
    if spec.bytes() < needed {
        return Err(Invalid::at(place(), format!("needs {needed} bytes of storage, has {}", spec.bytes())));
    }
    Ok(())
}

fn kernels(step: &Step) -> Result<(), Invalid> {
    for (i, node) in step.nodes.iter().enumerate() {
        for given in node.kernel.iter().flat_map(|kernel| kernel.inputs.iter().chain(&kernel.outputs)) {
            spec(given, || format!("nodes[{i}] {:?}: kernel", node.name))?;
        }
    }
    Ok(())
}
