//! What C++ calls: the verifier hooks. Each catches a panic and turns it into an error at the op, because a panic that
//! reaches C++ ends the process.

use std::panic::AssertUnwindSafe;

use mlir_sys::*;

use super::{Attr, Location, Op, emit, text};
use crate::diagnostic::Severity;
use crate::panics;
use crate::{verify_attrs, verify_ops};

/// Runs `check`; a panic becomes an error at `location`.
fn guarded(location: Location<'_>, check: impl FnOnce() -> bool) -> bool {
    panics::caught(AssertUnwindSafe(check)).unwrap_or_else(|message| {
        emit(location, Severity::Error, &format!("the verifier of rk panicked, a bug in rk: {message}"), &[]);
        false
    })
}

#[unsafe(no_mangle)]
extern "C" fn rkCallVerifyOp(op: MlirOperation) -> bool {
    let op = Op::from_raw(op);
    guarded(op.location(), || verify_ops::op(op))
}

#[unsafe(no_mangle)]
extern "C" fn rkCallVerifyCallee(run: MlirOperation, node: MlirOperation) -> bool {
    let run = Op::from_raw(run);
    guarded(run.location(), || verify_ops::callee(run, Op::from_nullable(node)))
}

#[unsafe(no_mangle)]
extern "C" fn rkCallVerifyAttribute(
    op: MlirOperation,
    place: u32,
    index: isize,
    name: MlirStringRef,
    attribute: MlirAttribute,
) -> bool {
    let op = Op::from_raw(op);
    // SAFETY: the name belongs to an identifier of the context.
    let name = unsafe { text(name) };
    let place = match place {
        1 => verify_attrs::Place::Argument(index.unsigned_abs()),
        2 => verify_attrs::Place::Result(index.unsigned_abs()),
        _ => verify_attrs::Place::Op,
    };
    guarded(op.location(), || verify_attrs::attribute(op, place, name, Attr::from_raw(attribute)))
}
