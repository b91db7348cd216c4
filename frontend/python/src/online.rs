//! The online runtime for Python: which values stay and which are computed again is decided here, by `rk-dtr`; Python
//! runs operators and holds tensors.
//!
//! Idea: the runtime's world is Python's objects (`online_values`). Handles are what Python's managed tensors hold; when one
//! is dropped, which can happen at any time, the garbage collector's included, its tensor is put on a list that the next
//! entry works off.
//! Not here: torch, operators, autograd (`rk/online.py`).

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rk_dtr::{
    Bytes, CallId, Heuristic, Nanos, Online, Options, Output, Policy, Runtime, Scan, Stop, TensorId,
};

use crate::online_errors::stopped;
use crate::online_growth::{Growth, find_growth, grow};
use crate::online_values::{Log, Values, put};

type Dropped = Arc<Mutex<Vec<TensorId>>>;

/// Seconds of recomputation that are never called thrashing.
const GRACE: f64 = 10.0;

/// A reference of Python to a tensor.
#[pyclass(frozen, module = "rk._rk")]
pub struct Handle {
    tensor: TensorId,
    dropped: Dropped,
}

#[pymethods]
impl Handle {
    /// The tensor's id. Ids are given again once a tensor is forgotten.
    #[getter]
    fn id(&self) -> u32 {
        self.tensor.index() as u32
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner).push(self.tensor);
    }
}

/// One budget, one pool of managed tensors.
#[pyclass(module = "rk._rk")]
pub struct OnlineRuntime {
    core: Runtime<Values>,
    dropped: Dropped,
    /// What the outputs of an operator took the last time that it read so many bytes.
    sizes: HashMap<(i64, u64), u64>,
    /// Constants that the next call reads: held, so that they are not forgotten before it holds them itself.
    awaited: Vec<TensorId>,
    /// Nanoseconds in entries, and how many calls were recorded.
    inside: u64,
    recorded: u64,
    /// The share of the time since `started` that recomputation may take; more is thrashing.
    patience: f64,
    started: Instant,
    /// The number of the call that is recorded next.
    next: Option<u64>,
}

fn ids(tensors: &[u32]) -> Vec<TensorId> {
    tensors.iter().map(|&t| TensorId::new(t)).collect()
}

#[pymethods]
impl OnlineRuntime {
    #[new]
    #[pyo3(signature = (budget, heuristic, *, seed=0, patience=1.0, log=None, segments=false))]
    fn new(
        budget: Option<u64>,
        heuristic: &str,
        seed: u64,
        patience: f64,
        log: Option<PathBuf>,
        segments: bool,
    ) -> PyResult<Self> {
        let heuristic =
            heuristic.parse::<Heuristic>().map_err(|error| PyValueError::new_err(error.to_string()))?;
        if segments && !heuristic.weighs_segments() {
            let able = Heuristic::ALL.into_iter().filter(Heuristic::weighs_segments).map(|h| h.name());
            let able = able.collect::<Vec<_>>().join(", ");
            return Err(PyValueError::new_err(format!(
                "segments are not weighed by {heuristic}, but by {able}"
            )));
        }
        let options = Options {
            heuristic,
            policy: Policy::Eager,
            budget: budget.map_or(Bytes::UNLIMITED, Bytes),
            remat_limit: Nanos::UNLIMITED,
            scan: Scan::Pruned,
            seed,
            online: Online { segments, ..Online::ON },
        };
        let log = log.map(|path| Log::create(&path)).transpose()?;
        let world = Values { log, ..Values::default() };
        Ok(Self {
            core: Runtime::new(options, world),
            dropped: Dropped::default(),
            sizes: HashMap::new(),
            awaited: Vec::new(),
            inside: 0,
            recorded: 0,
            patience,
            started: Instant::now(),
            next: None,
        })
    }

    /// Holds arguments, makes room for what the operator's outputs took the last time, and returns the values. `exact`: what they
    /// will take, if that is known for sure; then the largest operand may pass the budget in place of them.
    #[pyo3(signature = (operator, args, exact=None))]
    fn begin<'py>(
        &mut self,
        py: Python<'py>,
        operator: i64,
        args: Vec<u32>,
        exact: Option<u64>,
    ) -> PyResult<Bound<'py, PyList>> {
        let (start, running) = (Instant::now(), self.core.world().running);
        self.drain()?;
        // What is only kept for the sake of what can be kept itself goes, now that the operator before is done.
        self.core.settle_heirs(self.most_kept());
        let args = ids(&args);
        let held = self.core.hold(&args);
        held.map_err(|stop| self.error(py, stop))?;
        let read = args.iter().map(|&a| self.core.bytes(a).0).sum();
        let expected = self.sizes.get(&(operator, read)).copied().unwrap_or(0);
        let room = match exact {
            Some(bytes) => self.core.make_room_for(Bytes(bytes)),
            None => self.core.make_room(Bytes(expected)),
        };
        if let Err(stop) = room {
            let error = self.error(py, stop);
            self.core.let_go(&args);
            return Err(error);
        }
        self.core.let_go(&std::mem::take(&mut self.awaited));
        let values = &self.core.world().values;
        let list = PyList::new(py, args.iter().map(|a| values[a.index()].as_ref()));
        self.count(start, running);
        list
    }

    /// Links a call that ran between [`Self::begin`] and now. `sizes`: bytes of a fresh output, or -1 - place of the argument
    /// that an output is a view of. `consumed`: tensors that were written in place, whose storages are now those of the
    /// first outputs. `keep`: outputs are not to be evicted, as long as all that is kept takes three quarters of the budget at most.
    #[expect(clippy::too_many_arguments, reason = "one crossing of the border per operator")]
    fn finish(
        &mut self,
        py: Python<'_>,
        operator: i64,
        args: Vec<u32>,
        replay: Py<PyAny>,
        values: Vec<Py<PyAny>>,
        sizes: Vec<i64>,
        nanos: u64,
        consumed: Vec<u32>,
        keep: bool,
    ) -> PyResult<Vec<Handle>> {
        let (start, running) = (Instant::now(), self.core.world().running);
        let args = ids(&args);
        let output = |&size: &i64| match u64::try_from(size) {
            Ok(bytes) => Output::Fresh(Bytes(bytes)),
            Err(_) => Output::View((-1 - size) as u32),
        };
        let outputs: Vec<Output> = sizes.iter().map(output).collect();
        let read = args.iter().map(|&a| self.core.bytes(a).0).sum();
        // What was overwritten was not made.
        let fresh = sizes.iter().filter_map(|&size| u64::try_from(size).ok());
        let made = fresh.skip(consumed.len()).sum();
        self.sizes.insert((operator, read), made);
        let call = self.core.record(Nanos(nanos), &args, &outputs);
        self.log_call(py, call, Nanos(nanos), &args, &outputs, &replay);
        let first = self.core.first_output(call).index();
        let world = self.core.world_mut();
        put(&mut world.calls, call.index(), replay);
        for (offset, value) in values.into_iter().enumerate() {
            put(&mut world.values, first + offset, value);
        }
        if self.core.segments().is_some() {
            // Views that move over to an overwritten storage are spelled by nobody.
            let number = self.next.take().unwrap_or(0);
            self.core.observe(call, number);
        }
        let handles = (first..first + sizes.len()).map(|t| self.handle(TensorId::new(t as u32))).collect();
        self.core.let_go(&args);
        self.core.overwrites(call, &ids(&consumed));
        self.recorded += 1;
        if keep {
            self.core.settle_outputs(call, self.most_kept());
        }
        self.count(start, running);
        self.is_thrashing().map_or(Ok(handles), |message| Err(PyRuntimeError::new_err(message)))
    }

    /// Links a call with one output of `size` bytes that has not run and will when somebody needs it.
    fn defer(&mut self, py: Python<'_>, args: Vec<u32>, replay: Py<PyAny>, size: u64) -> Handle {
        let (start, running) = (Instant::now(), self.core.world().running);
        let (args, outputs) = (ids(&args), [Output::Fresh(Bytes(size))]);
        let call = self.core.defer(&args, &outputs);
        self.log_call(py, call, Nanos(0), &args, &outputs, &replay);
        put(&mut self.core.world_mut().calls, call.index(), replay);
        let output = self.core.first_output(call);
        let values = &mut self.core.world_mut().values;
        values.resize_with(values.len().max(output.index() + 1), || None);
        self.recorded += 1;
        self.count(start, running);
        self.handle(output)
    }

    /// What the call reads that made a tensor.
    fn read_by(&self, tensor: u32) -> Vec<u32> {
        let call = self.core.call_of(TensorId::new(tensor));
        self.core.args_of(call).iter().map(|arg| arg.index() as u32).collect()
    }

    /// Keeps the new storages of the call that made a tensor, as `finish` does.
    fn keep(&mut self, tensor: u32) -> bool {
        self.core.settle_outputs(self.core.call_of(TensorId::new(tensor)), self.most_kept())
    }

    /// Whether a write to a tensor, by an operator that reads `args`, can become part of the call that made the tensor's
    /// storage, and what of.
    fn extendable(&mut self, py: Python<'_>, tensor: u32, args: Vec<u32>) -> PyResult<Option<Growth>> {
        self.drain()?;
        Ok(find_growth(py, &mut self.core, TensorId::new(tensor), &ids(&args)))
    }

    /// The write has run: `callable` is that of the whole call from now on. Ends [`Self::begin`].
    fn extend(
        &mut self,
        py: Python<'_>,
        tensor: u32,
        joined: Vec<u32>,
        callable: Py<PyAny>,
        nanos: u64,
        args: Vec<u32>,
    ) {
        let (start, running) = (Instant::now(), self.core.world().running);
        let args = ids(&args);
        let joined: Vec<CallId> = joined.into_iter().map(CallId::new).collect();
        grow(py, &mut self.core, TensorId::new(tensor), &joined, callable, Nanos(nanos), &args);
        self.core.let_go(&args);
        self.recorded += 1;
        self.count(start, running);
    }

    /// The number of the call that is recorded next: equal for equal operators, constants, shapes and strides.
    fn spell(&mut self, number: u64) {
        self.next = Some(number);
    }

    /// Ends [`Self::begin`] for an operator that failed, or made nothing to manage.
    fn abandon(&mut self, args: Vec<u32>) {
        self.next = None;
        self.core.let_go(&ids(&args));
    }

    /// The tensor made outside whose torch storage has this address, held until the next [`Self::begin`]. The call that
    /// reads it keeps the storage alive.
    fn constant(&mut self, py: Python<'_>, key: u64, size: u64) -> PyResult<u32> {
        let tensor = match self.core.world().constants.get(&key) {
            Some(&tensor) => {
                // In memory for good: this only holds it.
                self.core.hold(&[tensor]).map_err(|stop| self.error(py, stop))?;
                tensor
            }
            None => {
                let tensor = self.core.constant(Bytes(size)).map_err(|stop| self.error(py, stop))?;
                let world = self.core.world_mut();
                put(&mut world.values, tensor.index(), py.None());
                if let Some(log) = &mut world.log {
                    let name = log.name(tensor);
                    let result = log.writer.constant(&name, Bytes(size));
                    log.note(result);
                }
                world.constants.insert(key, tensor);
                world.keys.insert(tensor, key);
                tensor
            }
        };
        self.awaited.push(tensor);
        Ok(tensor.index() as u32)
    }

    /// Whether a call that may run again reads the tensor made outside whose torch storage has this address.
    fn constant_is_read(&mut self, key: u64) -> PyResult<bool> {
        self.drain()?;
        let constant = self.core.world().constants.get(&key).copied();
        Ok(constant.is_some_and(|constant| self.core.is_read(constant)))
    }

    /// The constant was overwritten: calls that read it are given a copy of its old value, which counts from now on.
    fn replace_constant(&mut self, key: u64, copy: Py<PyAny>, size: u64) {
        let world = self.core.world_mut();
        if let Some(tensor) = world.constants.remove(&key) {
            world.keys.remove(&tensor);
            put(&mut world.values, tensor.index(), copy);
            self.core.resize(tensor, Bytes(size));
        }
    }

    /// Gives a tensor its value and keeps it for good.
    fn settle(&mut self, py: Python<'_>, tensor: u32) -> PyResult<()> {
        self.core.settle(TensorId::new(tensor)).map_err(|stop| self.error(py, stop))
    }

    /// Settles these tensors, if all that is settled then takes no more than `share` of the budget; says whether.
    fn settle_all(&mut self, py: Python<'_>, tensors: Vec<u32>, share: f64) -> PyResult<bool> {
        self.drain()?;
        let (tensors, bytes) = self.core.unsettled(&ids(&tensors));
        let budget = self.core.options().budget;
        let all = self.core.settled_bytes().0 + bytes.0;
        if budget != Bytes::UNLIMITED && all as f64 > share * budget.0 as f64 {
            return Ok(false);
        }
        for tensor in tensors {
            self.core.settle(tensor).map_err(|stop| self.error(py, stop))?;
        }
        Ok(true)
    }

    /// Whether a settled tensor can be written to: no call that may run again reads its storage. If so, it is taken to be
    /// written to now. `alone`: nor are there other tensors in the storage.
    fn writable(&mut self, tensor: u32, alone: bool) -> PyResult<bool> {
        self.drain()?;
        let tensor = TensorId::new(tensor);
        let core = &mut self.core;
        let writable =
            core.is_settled(tensor) && !core.is_read(tensor) && (!alone || core.sharers(tensor) == [tensor]);
        if writable {
            core.lose_past(tensor);
        }
        Ok(writable)
    }

    /// Whether the tensor stays in memory for good.
    fn is_settled(&self, tensor: u32) -> bool {
        self.core.is_settled(TensorId::new(tensor))
    }

    /// The tensors that Python holds in the storage of this one.
    fn sharers(&mut self, tensor: u32) -> PyResult<Vec<u32>> {
        self.drain()?;
        Ok(self.core.sharers(TensorId::new(tensor)).into_iter().map(|t| t.index() as u32).collect())
    }

    /// Whether the tensor has its value now.
    fn has_value(&self, tensor: u32) -> bool {
        self.core.has_value(TensorId::new(tensor))
    }

    #[getter]
    fn budget(&self) -> Option<u64> {
        let Bytes(budget) = self.core.options().budget;
        (budget != u64::MAX).then_some(budget)
    }

    /// Obeys another budget from now on; `None` is no limit.
    fn set_budget(&mut self, py: Python<'_>, budget: Option<u64>) -> PyResult<()> {
        self.core.set_budget(budget.map_or(Bytes::UNLIMITED, Bytes));
        self.drain()?;
        self.core.trim().map_err(|stop| self.error(py, stop))
    }

    /// The books: bytes, counts, nanoseconds.
    fn statistics(&mut self) -> PyResult<HashMap<&'static str, u64>> {
        self.drain()?;
        let counters = self.core.counters();
        let [tensors, calls, storages] = self.core.in_use();
        let mut found = HashMap::from([
            ("memory_bytes", counters.memory.0),
            ("peak_bytes", counters.max_memory.0),
            ("pinned_bytes", self.core.settled_bytes().0),
            ("calls", self.recorded),
            ("evictions", counters.evictions),
            ("recomputations", counters.reruns),
            ("scores", counters.evals),
            ("compute_ns", counters.model.0),
            ("recompute_ns", counters.remat.0),
            ("decision_ns", self.inside),
            ("live_tensors", tensors as u64),
            ("live_calls", calls as u64),
            ("live_storages", storages as u64),
        ]);
        if let Some(segments) = self.core.segments() {
            found.extend([
                ("segment_calls", segments.covered),
                ("segment_instances", segments.instances),
                ("segment_classes", segments.classes),
                ("segment_plans", segments.plans),
                ("segment_evictions", segments.group_evictions),
                ("segment_replays", segments.replays),
            ]);
        }
        Ok(found)
    }

    /// Writes a mark (START, BACKWARD) to the log, if there is one.
    fn annotate(&mut self, mark: &str) {
        if let Some(log) = &mut self.core.world_mut().log {
            let result = log.writer.annotate(mark);
            log.note(result);
        }
    }

    /// Writes out what the log has buffered.
    fn flush_log(&mut self) -> PyResult<()> {
        self.drain()?;
        let Some(log) = &mut self.core.world_mut().log else { return Ok(()) };
        let result = log.writer.flush();
        log.note(result);
        log.failed.take().map_or(Ok(()), |error| Err(error.into()))
    }

    /// Starts the statistics anew.
    fn reset_statistics(&mut self) {
        self.core.reset_counters();
        (self.inside, self.recorded, self.started) = (0, 0, Instant::now());
    }
}

impl OnlineRuntime {
    fn handle(&self, tensor: TensorId) -> Handle {
        Handle { tensor, dropped: Arc::clone(&self.dropped) }
    }

    /// Works off the handles that were dropped since the last entry.
    fn drain(&mut self) -> PyResult<()> {
        loop {
            let dropped = std::mem::take(&mut *self.dropped.lock().unwrap_or_else(PoisonError::into_inner));
            if dropped.is_empty() {
                return Ok(());
            }
            for tensor in dropped {
                if let Some(log) = &mut self.core.world_mut().log {
                    log.release(tensor);
                }
                // Only banishing computes anything here.
                self.core.release(tensor).map_err(|stop| Python::attach(|py| self.error(py, stop)))?;
            }
        }
    }

    /// What all kept values may take.
    fn most_kept(&self) -> Bytes {
        Bytes(self.core.options().budget.0 / 4 * 3)
    }

    fn is_thrashing(&self) -> Option<String> {
        let (spent, all) = (self.core.counters().remat.0 as f64 * 1e-9, self.started.elapsed().as_secs_f64());
        (spent > GRACE && self.patience < 1.0 && spent > self.patience * all).then(|| {
            format!(
                "thrashing: {spent:.1} s of the last {all:.1} s went into recomputation; raise the budget"
            )
        })
    }

    fn log_call(
        &mut self,
        py: Python<'_>,
        call: CallId,
        took: Nanos,
        args: &[TensorId],
        outputs: &[Output],
        replay: &Py<PyAny>,
    ) {
        let first = self.core.first_output(call).index() as u32;
        let Some(log) = &mut self.core.world_mut().log else { return };
        let operator = replay.bind(py).str().map_or_else(|_| String::new(), |name| name.to_string());
        let args: Vec<String> = args.iter().map(|&a| log.known(a)).collect();
        let name =
            |(place, &output): (usize, &Output)| (log.name(TensorId::new(first + place as u32)), output);
        let results: Vec<_> = outputs.iter().enumerate().map(name).collect();
        let result = log.writer.call(&operator, took, &args, &results);
        log.note(result);
    }

    fn count(&mut self, start: Instant, running: u64) {
        let replayed = self.core.world().running - running;
        self.inside += (start.elapsed().as_nanos() as u64).saturating_sub(replayed);
    }

    fn error(&self, py: Python<'_>, stop: Stop<PyErr>) -> PyErr {
        stopped(py, &self.core, stop)
    }
}
