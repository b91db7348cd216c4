//! Why a pass failed, as an exit code for the tool around it.
//!
//! MLIR's drivers know one failure. A tool that plans must tell "proven infeasible" from "none found" and from bad input
//! (docs of `rk-opt`), so the pass leaves its reason here and the main function of the tool picks it up.

use std::sync::atomic::{AtomicI32, Ordering};

/// The budget is proven infeasible.
pub const INFEASIBLE: i32 = 2;
/// No schedule was found in the time, and none was proven impossible.
pub const NONE_FOUND: i32 = 3;
/// An option of a pass cannot be understood.
pub const BAD_OPTION: i32 = 4;
/// The step is at a stage that the pass cannot start from.
pub const WRONG_STAGE: i32 = 5;

static CODE: AtomicI32 = AtomicI32::new(0);

/// Leaves a reason. The first one counts.
pub fn set(code: i32) {
    let _ = CODE.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
}

/// The reason left by a pass, if one was.
pub fn code() -> Option<i32> {
    Some(CODE.load(Ordering::Relaxed)).filter(|&code| code != 0)
}
