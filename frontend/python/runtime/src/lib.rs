//! `rk._rk_runtime`: lowered steps, run inside of Python on the libtorch that Python has loaded.
//!
//! It has no run path: the loader finds `libtorch_cpu.so` because torch is imported first. Tensors cross the border as handles on the
//! same tensors (`torch._C._aoti`), so nothing is copied, strides and storages are kept, and either side may let go first.
//!
//! **Absent here:** MLIR, planning, files. A step comes as the text of its file, made by `rk._rk`.
//! **Invariant:** all work runs without the interpreter's lock: an operator that is written in Python takes it.

mod border;

use std::sync::{Mutex, MutexGuard, PoisonError};

use border::{Handles, given, raised, taken};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use rk_runtime::{RuntimeError, SplitStep};
use rk_torch::{Counts, Device, Settings};

/// Lowered steps, run inside of Python.
#[pymodule]
mod _rk_runtime {
    #[pymodule_export]
    use super::{Machine, Watch, count_memory, memory, settings, torch_version};
}

/// The version of libtorch that this extension was compiled for. Another one has another layout of its objects.
#[pyfunction]
fn torch_version() -> String {
    rk_torch::torch_version()
}

/// libtorch's switches that decide which kernels run on a device, `name=value` with blanks between.
#[pyfunction]
fn settings(device: &str) -> PyResult<String> {
    let read = device.parse().and_then(Settings::read);
    read.map(|settings| settings.to_string())
        .map_err(|error: rk_torch::Error| PyRuntimeError::new_err(error.message().to_owned()))
}

/// From now on what PyTorch's allocator on the CPU hands out is counted.
#[pyfunction]
fn count_memory() -> PyResult<()> {
    rk_torch::memory::install().map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))
}

/// Bytes that are allocated on the CPU now, beyond what was before they were counted, and the most since the last call of this.
/// `leaving`: of what is there now, bytes that are about to be given back, and not in the most of the next call.
#[pyfunction]
#[pyo3(signature = (leaving=0))]
fn memory(leaving: u64) -> PyResult<(u64, u64)> {
    let read = rk_torch::memory::read(Device::Cpu).map(|reading| {
        rk_torch::memory::reset_peak_without(leaving);
        (reading.current, reading.peak)
    });
    read.map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))
}

/// One step with its arena: `forward` with the arguments, then `backward` with the gradients of its results.
///
/// Raises CompileError when the step cannot be run, ExecutionError when an operator fails.
#[pyclass(frozen)]
struct Machine {
    split_step: Mutex<SplitStep>,
    /// The names of the arguments, in order.
    #[pyo3(get)]
    arguments: Vec<String>,
    /// The names of the results: the first `handed_out` are those of `forward`, then come the tangents, then the gradients.
    #[pyo3(get)]
    results: Vec<String>,
    /// Positions of the arguments that `backward` reads.
    #[pyo3(get)]
    read_late: Vec<usize>,
    /// Bytes of the arena.
    #[pyo3(get)]
    arena_bytes: u64,
}

#[pymethods]
impl Machine {
    #[new]
    fn new(py: Python<'_>, step: &str, handed_out: usize) -> PyResult<Self> {
        let made = py.detach(|| {
            let step = rk_step::file::parse(step.as_bytes(), "the lowered step")?;
            SplitStep::new(step, handed_out, Device::Cpu)
        });
        let split_step = made.map_err(|error| raised(py, "CompileError", &error.to_string()))?;
        let step = split_step.step();
        Ok(Self {
            arguments: step.args.iter().map(|arg| arg.name.clone()).collect(),
            results: step.outputs.iter().map(|output| output.name.clone()).collect(),
            read_late: split_step.read_late(),
            arena_bytes: step.layout.as_ref().map_or(0, |layout| layout.arena_bytes),
            split_step: Mutex::new(split_step),
        })
    }

    /// Runs the first half; takes and gives handles of tensors.
    fn forward<'py>(&self, py: Python<'py>, arguments: Handles<'py>) -> PyResult<Handles<'py>> {
        let arguments = taken(&arguments)?;
        let run = move || self.split_step().forward(&arguments);
        given(py, done(py, py.detach(run))?)
    }

    /// Lets go of the arguments; `bring` gives back those that the second half reads.
    fn release(&self, py: Python<'_>) -> PyResult<()> {
        done(py, py.detach(|| self.split_step().release()))
    }

    /// Takes handles of the arguments that the second half reads, in the order of `read_late`.
    fn bring<'py>(&self, py: Python<'py>, late: Handles<'py>) -> PyResult<()> {
        let late = taken(&late)?;
        done(py, py.detach(move || self.split_step().bring(&late)))
    }

    /// Runs the second half, and gives handles of the gradients.
    fn backward<'py>(&self, py: Python<'py>, tangents: Handles<'py>) -> PyResult<Handles<'py>> {
        let tangents = taken(&tangents)?;
        let run = move || self.split_step().backward(&tangents);
        given(py, done(py, py.detach(run))?)
    }

    /// Lets go of what `forward` left behind: `backward` will not come.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        done(py, py.detach(|| self.split_step().abandon()))
    }

    /// Bytes of the arena that the last step used at most, and its allocations: in the arena, outside of it, results that were moved
    /// to their place, results that left the step.
    fn measured(&self, py: Python<'_>) -> (u64, u64, u64, u64, u64) {
        py.detach(|| {
            let split_step = self.split_step();
            let measured = split_step.measured();
            let Counts { placed, outside, moved, left } = measured.counts.unwrap_or_default();
            (measured.peak_bytes, placed, outside, moved, left)
        })
    }
}

/// Listens to PyTorch's allocator on the CPU, from its making on, for what a call needs besides its results.
#[pyclass(frozen)]
struct Watch(Mutex<Option<rk_torch::Watch>>);

#[pymethods]
impl Watch {
    #[new]
    fn new() -> PyResult<Self> {
        let watch =
            rk_torch::Watch::start().map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))?;
        Ok(Self(Mutex::new(Some(watch))))
    }

    /// Stops, and gives the bytes that the temporaries need in an arena; handles of the results that stay in it and of those that leave.
    fn workspace(&self, kept: Handles<'_>, leaving: Handles<'_>) -> PyResult<u64> {
        let (kept, leaving) = (taken(&kept)?, taken(&leaving)?);
        let watch = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let watch = watch.ok_or_else(|| PyRuntimeError::new_err("it has stopped already"))?;
        watch.workspace(&kept, &leaving).map_err(|error| PyRuntimeError::new_err(error.message().to_owned()))
    }
}

impl Machine {
    fn split_step(&self) -> MutexGuard<'_, SplitStep> {
        self.split_step.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn done<T>(py: Python<'_>, outcome: Result<T, RuntimeError>) -> PyResult<T> {
    outcome.map_err(|error| raised(py, "ExecutionError", &error.to_string()))
}
