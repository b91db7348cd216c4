//! Attributes of the dialect on ops of other dialects: `rk.stage` on a function, `rk.role` on its arguments and results, and the
//! tables of `summary` and `recorded`. A stage `scheduled` also has the laws of `verify` checked.
//!
//! An unknown `rk.` name is accepted, so that a newer tool's file can still be read.

use crate::attrs::Stage;
use crate::diagnostic::Diagnostic;
use crate::loans::LENT;
use crate::ops::{KERNEL, StepOp};
use crate::raw::{Attr, Op};
use crate::recorded::Recorded;
use crate::step::{ALIASES, NAME, ROLE, STAGE, TRAINABLE};
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
        (STAGE, Some(step)) if step.stage() == Stage::Scheduled => verify::schedule(step),
        (STAGE, Some(step)) if step.stage() == Stage::Lowered => verify_lowered::step(step),
        _ => true,
    }
}

/// What is wrong with an attribute of an op.
fn on_op(op: Op<'_>, name: &str, attribute: Attr<'_>) -> Option<String> {
    if name == STAGE {
        if Stage::of(attribute).is_none() {
            return Some(format!("'{STAGE}' is a #rk.stage<...>, not {attribute}"));
        }
        if op.name() != "func.func" {
            return Some(format!("'{STAGE}' stands on a func.func, not on '{}'", op.name()));
        }
    }
    if name == KERNEL && !(op.name() == "rk.node" && attribute.is_unit()) {
        return Some(format!("'{KERNEL}' has no value and stands on an rk.node"));
    }
    PlanSummary::wrong_on(op, name, attribute).or_else(|| Recorded::wrong(name, attribute))
}

/// What is wrong with an attribute of an argument or a result.
fn role(what: &str, roles: &[&str], name: &str, attribute: Attr<'_>) -> Option<String> {
    match name {
        ROLE if attribute.as_str().is_none_or(|role| !roles.contains(&role)) => {
            Some(format!("{what}: '{ROLE}' is one of {}, not {attribute}", roles.join(", ")))
        }
        NAME if attribute.as_str().is_none() => {
            Some(format!("{what}: '{NAME}' is a string, not {attribute}"))
        }
        LENT if !attribute.is_unit() => Some(format!("{what}: '{LENT}' has no value")),
        TRAINABLE if !attribute.is_unit() => Some(format!("{what}: '{TRAINABLE}' has no value")),
        ALIASES
            if attribute.as_array().is_none_or(|names| names.iter().any(|name| name.as_str().is_none())) =>
        {
            Some(format!("{what}: '{ALIASES}' is a list of strings, not {attribute}"))
        }
        _ => None,
    }
}
