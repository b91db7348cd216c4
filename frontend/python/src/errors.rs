//! What failed, as exceptions of the package, each with a message that stands alone: PyTorch wraps it and shows no more.

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rk_dialect::diagnostic::{Reported, Severity};
use rk_rewrite::exit;

create_exception!(rk, RkError, PyRuntimeError, "Every error that rk raises.");
create_exception!(rk, OptionError, RkError, "An option is unknown, or its value cannot be understood.");
create_exception!(
    rk,
    BudgetError,
    RkError,
    "No schedule within the budget. `smallest_bytes`: the smallest budget known to be feasible, or None; `lower_bound_bytes`: \
     nothing below can work, which may say no more than that the budget cannot; `budget_bytes`: what was asked for; `holder`: the operator that holds the peak."
);
create_exception!(
    rk,
    CompileError,
    RkError,
    "The step cannot be compiled; a bug in rk unless the message says otherwise."
);

/// Why there is no result.
pub enum Refusal {
    /// The numbers of a budget that was not met, and the text.
    Budget(Box<exit::Unmet>, String),
    /// An option was refused.
    Option(String),
    /// Anything else.
    Other(String),
}

impl Refusal {
    /// What a pipeline reported, with the reason that a pass left behind.
    pub fn of(reported: &[Reported]) -> Self {
        let errors = reported.iter().filter(|one| one.severity == Severity::Error);
        let text = errors.map(told).collect::<Vec<_>>().join("\n");
        let (code, unmet) = exit::take();
        match (code, unmet) {
            (_, Some(unmet)) => Self::Budget(Box::new(unmet), text),
            (Some(exit::BAD_OPTION), None) => Self::Option(text),
            _ => Self::Other(text),
        }
    }

    /// The exception to raise.
    pub fn into_exception(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Budget(unmet, text) => {
                let error = BudgetError::new_err(text);
                let value = error.value(py);
                let set = || -> PyResult<()> {
                    value.setattr("budget_bytes", unmet.budget.0)?;
                    value.setattr("smallest_bytes", unmet.smallest.map(|bytes| bytes.0))?;
                    value.setattr("lower_bound_bytes", unmet.impossible_below.0)?;
                    value.setattr("holder", &unmet.holder)
                };
                set().map_or_else(|failed| failed, |()| error)
            }
            Self::Option(text) => OptionError::new_err(text),
            Self::Other(text) => CompileError::new_err(text),
        }
    }
}

/// An error with its notes; where it happened is in the names that the text uses.
fn told(error: &Reported) -> String {
    let notes = error.notes.iter().map(|note| format!("; {}", note.message));
    std::iter::once(error.message.clone()).chain(notes).collect()
}
