//! What the online runtime says when a budget cannot be met.

use pyo3::create_exception;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rk_dtr::{Locked, Runtime, Stop};

use crate::online_values::Values;

create_exception!(
    rk,
    OverBudget,
    PyRuntimeError,
    "A budget cannot be met: (message, locked, wanted, in use)."
);

/// The Python error for why the core stopped.
pub fn stopped(py: Python<'_>, core: &Runtime<Values>, stop: Stop<PyErr>) -> PyErr {
    match stop {
        Stop::World(error) => error,
        Stop::Thrashed { .. } => PyRuntimeError::new_err(stop.to_string()),
        Stop::OutOfMemory { wanted, in_use, ref locked, .. } => {
            let name = |l: &Locked| {
                let call = core.call_of(l.tensor).index();
                let call = core.world().calls.get(call).and_then(Option::as_ref);
                let named = call.and_then(|call| call.bind(py).str().ok());
                (named.map_or("constant".to_owned(), |name| name.to_string()), l.bytes.0, l.pinned)
            };
            let largest: Vec<_> = locked.largest.iter().map(name).collect();
            OverBudget::new_err((stop.to_string(), largest, wanted.0, in_use.0))
        }
    }
}
