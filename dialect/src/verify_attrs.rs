//! Attributes of the dialect on ops of other dialects: `rk.stage` on a function, `rk.role` on its arguments and results.
//! A stage `scheduled` also has the laws of `verify` checked.
//!
//! Not here: attributes that only reports read (`rk.solver`, `rk.importer`, ...). An unknown `rk.` name is accepted, so that a
//! newer tool's file can still be read.

use crate::attrs::Stage;
use crate::diagnostic::Diagnostic;
use crate::loans::LENT;
use crate::ops::StepOp;
use crate::raw::{Attr, Op};
use crate::summary::PlanSummary;
use crate::{verify, verify_lowered};

/// Where an attribute stands.
pub(crate) enum Place {
    Op,
    Argument(usize),
    Result(usize),
}

/// Roles of a step's arguments.
const ARGUMENT_ROLES: [&str; 3] = ["input", "parameter", "buffer"];
/// Roles of a step's results.
const RESULT_ROLES: [&str; 3] = ["loss", "output", "gradient"];

/// Checks one attribute; false after an error was reported.
pub(crate) fn attribute(op: Op<'_>, place: Place, name: &str, attribute: Attr<'_>) -> bool {
    let refused = match place {
        Place::Op => on_op(op, name, attribute),
        Place::Argument(index) => role(&format!("argument {index}"), &ARGUMENT_ROLES, name, attribute),
        Place::Result(index) => role(&format!("result {index}"), &RESULT_ROLES, name, attribute),
    };
    if let Some(message) = refused {
        Diagnostic::error(op.location(), message).report();
        return false;
    }
    match (name, StepOp::of(op)) {
        ("rk.stage", Some(step)) if step.stage() == Stage::Scheduled => verify::schedule(step),
        ("rk.stage", Some(step)) if step.stage() == Stage::Lowered => verify_lowered::step(step),
        _ => true,
    }
}

/// What is wrong with an attribute of an op.
fn on_op(op: Op<'_>, name: &str, attribute: Attr<'_>) -> Option<String> {
    if name == "rk.stage" {
        if Stage::of(attribute).is_none() {
            return Some(format!("'rk.stage' is a #rk.stage<...>, not {attribute}"));
        }
        if op.name() != "func.func" {
            return Some(format!("'rk.stage' stands on a func.func, not on '{}'", op.name()));
        }
    }
    if name == "rk.kernel" && !(op.name() == "rk.node" && attribute.is_unit()) {
        return Some("'rk.kernel' has no value and stands on an rk.node".to_owned());
    }
    if name == "rk.offsets" {
        if StepOp::of(op).is_none_or(|step| step.stage() != Stage::Scheduled) {
            return Some("'rk.offsets' stands on a step at stage scheduled".to_owned());
        }
        let offsets = attribute.as_i64s();
        if let Some((at, offset)) = offsets.iter().flatten().enumerate().find(|(_, offset)| **offset < 0) {
            return Some(format!("'rk.offsets' holds places in the arena, number {at} is {offset}"));
        }
        if offsets.is_none() {
            return Some(format!(
                "'rk.offsets' is an array<i64: ...> of places in the arena, not {attribute}"
            ));
        }
    }
    let is_number = name == "rk.alignment" || PlanSummary::is_number(name);
    if is_number && attribute.as_i64().is_none_or(|number| number < 0) {
        return Some(format!(
            "'{name}' is a number of {} (i64, not negative), not {attribute}",
            if name == "rk.bandwidth" { "bytes per second" } else { "bytes or nanoseconds" }
        ));
    }
    None
}

/// What is wrong with an attribute of an argument or a result.
fn role(what: &str, roles: &[&str], name: &str, attribute: Attr<'_>) -> Option<String> {
    match name {
        "rk.role" if attribute.as_str().is_none_or(|role| !roles.contains(&role)) => {
            Some(format!("{what}: 'rk.role' is one of {}, not {attribute}", roles.join(", ")))
        }
        "rk.name" if attribute.as_str().is_none() => {
            Some(format!("{what}: 'rk.name' is a string, not {attribute}"))
        }
        LENT if !attribute.is_unit() => Some(format!("{what}: '{LENT}' has no value")),
        "rk.trainable" if !attribute.is_unit() => Some(format!("{what}: 'rk.trainable' has no value")),
        "rk.aliases"
            if attribute.as_array().is_none_or(|names| names.iter().any(|name| name.as_str().is_none())) =>
        {
            Some(format!("{what}: 'rk.aliases' is a list of strings, not {attribute}"))
        }
        _ => None,
    }
}
