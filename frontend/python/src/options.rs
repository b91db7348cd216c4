//! Options as people write them: budgets and spans of time, read by the grammar of the command lines.
//!
//! Not here: which options there are, and `auto` (`rk._plan.options`).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rk_plan::Budget;
use rk_plan::transfer::Rate;
use rk_vocabulary::parse_span;

use crate::errors::OptionError;

/// A budget as the planner reads it: digits, or a share such as `62.5%`, from bytes, "2GiB", "500MB", "62.5 %". `name` is the option
/// that it is given for.
///
/// Raises OptionError, also for a share above 100%: a step takes no more than its peak.
#[pyfunction]
#[pyo3(signature = (text, name="budget"))]
pub fn budget(text: &str, name: &str) -> PyResult<String> {
    match text.parse::<Budget>() {
        Ok(Budget::Bytes(bytes)) => Ok(bytes.0.to_string()),
        Ok(Budget::Fraction { .. }) => Ok(text.split_whitespace().collect()),
        Err(error) => Err(OptionError::new_err(error.about(name))),
    }
}

/// The bytes of a budget that cannot be a share: "2GiB", "500MB", or bytes.
///
/// Raises ValueError.
#[pyfunction]
pub fn budget_bytes(text: &str) -> PyResult<u64> {
    match text.parse::<Budget>() {
        Ok(Budget::Bytes(bytes)) => Ok(bytes.0),
        Ok(Budget::Fraction { .. }) => Err(PyValueError::new_err(format!(
            "budget {text:?}: a fraction of what? An online runtime does not know the peak; give bytes"
        ))),
        Err(error) => Err(PyValueError::new_err(error.to_string())),
    }
}

/// The bytes a second of a bandwidth as people write it, "25GB/s" or "12.5 GiB/s". `name` is the option that it is given for.
///
/// Raises OptionError.
#[pyfunction]
pub fn rate(text: &str, name: &str) -> PyResult<u64> {
    let read: Result<Rate, _> = text.parse();
    read.map(|rate| rate.0).map_err(|error| OptionError::new_err(format!("{name}: {error}")))
}

/// The seconds of a span of time as people write it: "10s", "500ms", "2m", "1h", or a number of seconds.
///
/// Raises OptionError, also for no time at all.
#[pyfunction]
pub fn seconds(text: &str, name: &str) -> PyResult<f64> {
    let span = parse_span(text).map_err(|error| OptionError::new_err(format!("{name} {error}")))?;
    if span.is_zero() {
        return Err(OptionError::new_err(format!(
            "{name} '{text}' is no time at all; leave it out, or give more"
        )));
    }
    Ok(span.as_secs_f64())
}
