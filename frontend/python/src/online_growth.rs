//! Writes in place that become part of the call that made what they write: between Python and the core's `extend`.
//!
//! Not here: when that may be (`rk-dtr`), what runs then (`rk/_online/sequence.py`).

use pyo3::prelude::*;
use rk_dtr::{CallId, Nanos, Runtime, TensorId};

use crate::online_values::{Values, put};

/// The callable of the call that made a storage, how many values it reads, which of its outputs the storage is, which of the
/// write's arguments lie in it, and the calls that become part of it beside, as (call, callable, values of its arguments).
pub type Growth = (Py<PyAny>, usize, usize, Vec<bool>, Vec<(u32, Py<PyAny>, Vec<Py<PyAny>>)>);

/// Whether a write to a tensor, by an operator that reads `args`, can become part of the call that made the tensor's storage.
pub fn find_growth(
    py: Python<'_>,
    core: &mut Runtime<Values>,
    tensor: TensorId,
    args: &[TensorId],
) -> Option<Growth> {
    let joined = core.extendable(tensor, args)?;
    let world = core.world();
    let callable = |call: CallId| Some(world.calls.get(call.index())?.as_ref()?.clone_ref(py));
    let value = |&tensor: &TensorId| Some(world.values[tensor.index()].as_ref()?.clone_ref(py));
    let reader = |call: CallId| {
        let values = core.args_of(call).iter().map(value).collect::<Option<Vec<_>>>()?;
        Some((call.index() as u32, callable(call)?, values))
    };
    let storage = core.storage_of(tensor);
    let (maker, output) = core.maker_of(storage);
    let inside = args.iter().map(|&arg| core.storage_of(arg) == storage).collect();
    let joined = joined.into_iter().map(reader).collect::<Option<Vec<_>>>()?;
    Some((callable(maker)?, core.args_of(maker).len(), output, inside, joined))
}

/// The write has run: `callable` is that of the whole call from now on.
pub fn grow(
    py: Python<'_>,
    core: &mut Runtime<Values>,
    tensor: TensorId,
    joined: &[CallId],
    callable: Py<PyAny>,
    took: Nanos,
    args: &[TensorId],
) {
    let call = core.extend(tensor, joined, took, args);
    let world = core.world_mut();
    if let Some(log) = &mut world.log {
        // The format has no writes that keep a buffer: this is a view that takes time and is dropped at once.
        let operator = callable.bind(py).call_method0("last_operator").and_then(|name| name.extract());
        let operator: String = operator.unwrap_or_default();
        let args: Vec<String> = std::iter::once(&tensor).chain(args).map(|&a| log.known(a)).collect();
        let result = log.passing(&operator, took, &args);
        log.note(result);
    }
    put(&mut world.calls, call.index(), callable);
}
