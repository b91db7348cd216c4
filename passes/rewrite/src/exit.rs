//! Why a pass failed, as an exit code for the tool around it.
//!
//! MLIR's drivers know one failure. A tool that plans must tell "proven infeasible" from "none found" and from bad input
//! (docs of `rk-opt`), so the pass leaves its reason here and the main function of the tool picks it up. A program that runs
//! the pass in its own process, more than once, also finds the numbers of an unmet budget, and takes both away.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};

use rk_plan::Bytes;

/// The budget is proven infeasible.
pub const INFEASIBLE: i32 = 2;
/// No schedule was found in the time, and none was proven impossible.
pub const NONE_FOUND: i32 = 3;
/// An option of a pass cannot be understood.
pub const BAD_OPTION: i32 = 4;
/// The step is at a stage that the pass cannot start from, or has transfers, which it cannot hold.
pub const WRONG_STAGE: i32 = 5;

/// A budget that no schedule met. All numbers in the scope that the budget was given in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unmet {
    /// What was asked for.
    pub budget: Bytes,
    /// The smallest budget known to be feasible.
    pub smallest: Option<Bytes>,
    /// Nothing below can work.
    pub impossible_below: Bytes,
    /// The node that holds the peak.
    pub holder: String,
    /// All of it, as a sentence.
    pub message: String,
}

static CODE: AtomicI32 = AtomicI32::new(0);
static UNMET: Mutex<Option<Unmet>> = Mutex::new(None);

/// Leaves a reason. The first one counts.
pub fn set(code: i32) {
    let _ = CODE.compare_exchange(0, code, Ordering::Relaxed, Ordering::Relaxed);
}

/// The reason left by a pass, if one was.
pub fn code() -> Option<i32> {
    Some(CODE.load(Ordering::Relaxed)).filter(|&code| code != 0)
}

/// Leaves the numbers of an unmet budget.
pub(crate) fn set_unmet(unmet: Unmet) {
    *UNMET.lock().unwrap_or_else(PoisonError::into_inner) = Some(unmet);
}

/// Takes away what the passes left, so that the next one starts afresh.
pub fn take() -> (Option<i32>, Option<Unmet>) {
    let unmet = UNMET.lock().unwrap_or_else(PoisonError::into_inner).take();
    let code = CODE.swap(0, Ordering::Relaxed);
    (Some(code).filter(|&code| code != 0), unmet)
}
