//! What the online runtime knows of Python's objects: the runtime's world.
//!
//! Idea: a tensor's value is a plain torch tensor, a call is a callable that computes the values of its outputs from those of
//! its arguments, and an eviction drops the references to values, with no word to Python.
//! Not here: when anything runs or is dropped (`rk-dtr`), the entries of Python (`online`).

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::time::Instant;

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyList;
use rk_dtr::{CallId, LogWriter, Nanos, Output, Run, StorageId, TensorId, World};

/// What Python knows of tensors and calls, by their ids.
#[derive(Debug, Default)]
pub struct Values {
    pub values: Vec<Option<Py<PyAny>>>,
    pub calls: Vec<Option<Py<PyAny>>>,
    /// Constants by the address of their torch storage, which lives as long as they do.
    pub constants: HashMap<u64, TensorId>,
    pub keys: HashMap<TensorId, u64>,
    /// Nanoseconds in [`World::run`].
    pub running: u64,
    pub log: Option<Log>,
}

/// What happens, in DTR's log format.
#[derive(Debug)]
pub struct Log {
    pub writer: LogWriter<BufWriter<File>>,
    /// Names by tensor: ids are given again, names are not.
    names: Vec<Option<String>>,
    named: u64,
    /// The first error, told at the next entry that can tell.
    pub failed: Option<io::Error>,
}

impl Log {
    /// A log in a new file.
    pub fn create(path: &Path) -> io::Result<Self> {
        let writer = LogWriter::new(BufWriter::new(File::create(path)?))?;
        Ok(Self { writer, names: Vec::new(), named: 0, failed: None })
    }

    pub fn name(&mut self, tensor: TensorId) -> String {
        self.named += 1;
        let name = format!("t{}", self.named);
        put(&mut self.names, tensor.index(), name.clone());
        name
    }

    pub fn known(&self, tensor: TensorId) -> String {
        self.names.get(tensor.index()).cloned().flatten().unwrap_or_default()
    }

    /// A call whose result lies where its first argument does and is dropped at once.
    pub fn passing(&mut self, operator: &str, took: Nanos, args: &[String]) -> io::Result<()> {
        self.named += 1;
        let name = format!("t{}", self.named);
        self.writer.call(operator, took, args, &[(name.clone(), Output::View(0))])?;
        self.writer.release(&name)
    }

    pub fn note(&mut self, result: io::Result<()>) {
        if let (Err(error), None) = (result, &self.failed) {
            self.failed = Some(error);
        }
    }

    pub fn release(&mut self, tensor: TensorId) {
        let name = self.known(tensor);
        let result = self.writer.release(&name);
        self.note(result);
    }
}

pub fn put<T>(table: &mut Vec<Option<T>>, index: usize, value: T) {
    if index >= table.len() {
        table.resize_with(index + 1, || None);
    }
    table[index] = Some(value);
}

impl World for Values {
    type Error = PyErr;

    fn run(&mut self, run: &Run<'_>) -> PyResult<Nanos> {
        let start = Instant::now();
        Python::attach(|py| {
            let args = PyList::new(py, run.args.iter().map(|a| self.values[a.index()].as_ref()))?;
            let call = self.calls.get(run.call.index()).and_then(Option::as_ref);
            let call = call.ok_or_else(|| PyRuntimeError::new_err("a call without an operator"))?;
            let outputs = call.bind(py).call1((args,))?;
            for (offset, output) in outputs.try_iter()?.enumerate() {
                let joined = offset.checked_sub(run.outputs).and_then(|place| run.joined.get(place));
                let index = joined.map_or(run.first_output.index() + offset, |tensor| tensor.index());
                let slot = &mut self.values[index];
                // What is in memory already stays: others may share its buffer.
                let output = output?.unbind();
                slot.get_or_insert(output);
            }
            PyResult::Ok(())
        })?;
        let took = start.elapsed().as_nanos() as u64;
        self.running += took;
        Ok(Nanos(took))
    }

    fn evict(&mut self, _: StorageId, tensors: impl Iterator<Item = TensorId>) {
        for tensor in tensors {
            self.values[tensor.index()] = None;
        }
    }

    fn forget(&mut self, call: CallId, outputs: impl Iterator<Item = TensorId>) {
        if let Some(call) = self.calls.get_mut(call.index()) {
            *call = None;
        }
        for tensor in outputs {
            self.values[tensor.index()] = None;
            if let Some(key) = self.keys.remove(&tensor) {
                self.constants.remove(&key);
                if let Some(log) = &mut self.log {
                    log.release(tensor);
                }
            }
        }
    }
}
