//! `rk._rk`: the extension module of the Python package rk.
//!
//! Python reads PyTorch's graphs and writes PyTorch's graphs; in between a step is MLIR text, and everything that is decided
//! about it happens here, by the same passes and the same planner as in `rk-opt`.
//!
//! | module | holds |
//! |---|---|
//! | `compile` | text in, passes run, a schedule or text out |
//! | `errors` | what failed, as exceptions of the package |
//! | `instances` | which plan each call of a compiled graph runs |
//! | `online` | the online runtime: which values stay, for models whose graph changes every step |
//! | `online_errors` | what is said when a budget cannot be met |
//! | `online_growth` | writes in place that become part of the call that made what they write |
//! | `online_values` | Python's tensors and operators, as that runtime sees them |
//! | `options` | budgets and spans of time as people write them |
//! | `plan` | the planner alone, on a graph as JSON, and what the judge says of memory |
//!
//! **Absent here:** torch. The extension is linked to no libtorch, so one wheel serves every build of it.
//! **Invariant:** no panic and no abort reaches the interpreter; all long work runs without its lock.

mod compile;
mod errors;
mod instances;
mod online;
mod online_errors;
mod online_growth;
mod online_values;
mod options;
mod plan;

use pyo3::prelude::*;

/// The compiler behind the package rk: MLIR text in, schedules out.
#[pymodule]
mod _rk {
    #[pymodule_export]
    use crate::compile::{checkpoint, rematerialize, roofline, run_passes, solvers, translate, version};
    #[pymodule_export]
    use crate::errors::{BudgetError, CompileError, OptionError, RkError};
    #[pymodule_export]
    use crate::instances::{calls_report, choose};
    #[pymodule_export]
    use crate::online::{Handle, OnlineRuntime};
    #[pymodule_export]
    use crate::online_errors::OverBudget;
    #[pymodule_export]
    use crate::options::{budget, budget_bytes, rate, seconds};
    #[pymodule_export]
    use crate::plan::{memory, plan, report};
}

/// Runs `work` without the interpreter's lock; a panic in it becomes an exception that asks for a report.
fn detached<T: Send>(
    py: Python<'_>,
    work: impl FnOnce() -> Result<T, errors::Refusal> + Send,
) -> PyResult<T> {
    let outcome = py.detach(|| std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)));
    match outcome {
        Ok(done) => done.map_err(|refusal| refusal.into_exception(py)),
        Err(_) => Err(errors::CompileError::new_err(
            "rk itself failed (a panic); this is a bug in rk, not in the model",
        )),
    }
}
