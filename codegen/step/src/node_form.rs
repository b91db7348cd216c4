//! The form of a node: its body is a list of calls, each over locals that are defined in front of it.
//!
//! Not here: whether an operator of that name exists (see `rk-runtime`), generated kernels ([`crate::kernel`]).

use crate::error::Invalid;
use crate::model::{Call, Step};

/// More inputs than any sensible node has: a damaged number must not ask for all memory.
const MOST_INPUTS: u32 = 1 << 20;

/// Checks every node.
///
/// # Errors
/// The first that is no list of calls over its own locals.
pub(crate) fn node_form(step: &Step) -> Result<(), Invalid> {
    for (i, node) in step.nodes.iter().enumerate() {
        let place = format!("nodes[{i}] {:?}", node.name);
        if node.inputs > MOST_INPUTS {
            return Err(Invalid::at(place, format!("{} inputs are more than {MOST_INPUTS}", node.inputs)));
        }
        let mut defined = vec![true; node.inputs as usize];
        for (k, call) in node.ops.iter().enumerate() {
            let place = || format!("{place}: ops[{k}] {:?}", call.op);
            check_call(call, &mut defined, "local", place)?;
        }
        for (k, output) in node.outputs.iter().enumerate() {
            if !defined.get(output.local.index()).copied().unwrap_or(false) {
                let message = format!("output {k} is local {}, which no call defines", output.local.0);
                return Err(Invalid::at(place, message));
            }
        }
        if let Some(k) = node.overwrites {
            if k >= node.inputs {
                return Err(Invalid::at(
                    place,
                    format!("overwrites input {k}, but it has {} inputs", node.inputs),
                ));
            }
            if node.outputs.is_empty() {
                return Err(Invalid::at(place, format!("overwrites input {k} but yields nothing")));
            }
        }
    }
    Ok(())
}

/// Reads must be defined; results must be new. `defined` grows as results are defined.
pub(crate) fn check_call(
    call: &Call,
    defined: &mut Vec<bool>,
    kind: &str,
    place: impl Fn() -> String,
) -> Result<(), Invalid> {
    if call.op.split('.').count() != 3 || call.op.split('.').any(str::is_empty) {
        return Err(Invalid::at(place(), "is not of the form namespace.name.overload"));
    }
    for (a, arg) in call.args.iter().enumerate() {
        let mut bad = None;
        arg.for_each_value(&mut |v| {
            if !defined.get(v as usize).copied().unwrap_or(false) {
                bad = bad.or(Some(v));
            }
        });
        if let Some(v) = bad {
            return Err(Invalid::at(
                place(),
                format!("argument {a} reads {kind} {v}, which is not defined there"),
            ));
        }
    }
    if let Some(e) = call.effects.iter().find(|e| **e as usize >= call.args.len()) {
        return Err(Invalid::at(place(), format!("effects names argument {e} of {}", call.args.len())));
    }
    // Locals are dense in any sensible file; the limit keeps a damaged one from asking for all memory.
    let limit = defined.len() + 4096;
    for r in call.results.iter().flatten() {
        let r = *r as usize;
        if r >= limit {
            return Err(Invalid::at(place(), format!("result {kind} {r} is far out of range")));
        }
        if defined.get(r).copied().unwrap_or(false) {
            return Err(Invalid::at(place(), format!("result {kind} {r} is defined already")));
        }
        if r >= defined.len() {
            defined.resize(r + 1, false);
        }
        defined[r] = true;
    }
    Ok(())
}
