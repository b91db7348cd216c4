//! One training step of an archive: run as eager PyTorch runs it, or recorded.

use crate::archive::Archive;
use crate::bytes::take_bytes;
use crate::error::{Error, ErrorKind, Result, check, take_string};
use crate::ffi;
use crate::inputs::on_device;
use crate::recording::Recording;
use std::fmt;
use std::str::FromStr;
use tch::Tensor;

/// What is differentiated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LossSpec {
    /// The sums of all floating outputs, added in order.
    Sum,
    /// The means of all floating outputs, added in order.
    Mean,
    /// This output, summed unless it is a scalar.
    Output(u32),
    /// Nothing: forward only.
    None,
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sum => f.write_str("sum"),
            Self::Mean => f.write_str("mean"),
            Self::Output(n) => write!(f, "output:{n}"),
            Self::None => f.write_str("none"),
        }
    }
}

impl FromStr for LossSpec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "sum" => Ok(Self::Sum),
            "mean" => Ok(Self::Mean),
            "none" => Ok(Self::None),
            _ => {
                text.strip_prefix("output:").and_then(|n| n.parse().ok()).map(Self::Output).ok_or_else(|| {
                    Error::of(ErrorKind::Loss, format!("loss '{text}' is none of sum, mean, output:N, none"))
                })
            }
        }
    }
}

/// Which calls of a recording are timed. The number of repeats counts after a warm-up; the median is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timing {
    /// None.
    None,
    /// One of each class of equal calls, on the spot; the others are given its time.
    Classes(u16),
    /// Every call, in repeated runs of the whole step.
    Calls(u16),
}

/// What a step returns.
#[derive(Debug)]
pub struct StepResults {
    /// The loss, unless [`LossSpec::None`].
    pub loss: Option<Tensor>,
    /// The outputs, by their path in the nested structure.
    pub outputs: Vec<(String, Tensor)>,
    /// The gradients, by parameter name; parameters without a gradient are left out.
    pub gradients: Vec<(String, Tensor)>,
}

/// The unmodified step of an archive: forward node by node, loss, backward by libtorch's autograd engine.
///
/// Buffers of the archive (running statistics) are changed in place by each run, as in eager. Nothing here
/// seeds a generator: call [`crate::Device::manual_seed`] where a step should start from a seed.
#[derive(Debug)]
pub struct EagerStep {
    // Declared first, so that it goes before the archive that it points to.
    raw: RawStepHandle,
    archive: Archive,
}

#[derive(Debug)]
struct RawStepHandle(*mut ffi::RawStep);

impl Drop for RawStepHandle {
    fn drop(&mut self) {
        // SAFETY: made by rk_step_new, freed once.
        unsafe { ffi::rk_step_free(self.0) }
    }
}

// SAFETY: owned by one thread at a time.
unsafe impl Send for EagerStep {}

impl EagerStep {
    /// A step of `archive` on `inputs`, which are moved to its device: one tensor per leaf of forward's arguments.
    ///
    /// # Errors
    /// [`ErrorKind::Inputs`] when there are too few or too many inputs.
    pub fn new(archive: Archive, inputs: &[Tensor], loss: LossSpec) -> Result<Self> {
        let inputs = on_device(inputs, archive.device())?;
        let pointers: Vec<ffi::RawTensor> = inputs.iter().map(|t| t.as_ptr() as ffi::RawTensor).collect();
        let (kind, output) = match loss {
            LossSpec::None => (0, 0),
            LossSpec::Sum => (1, 0),
            LossSpec::Mean => (2, 0),
            LossSpec::Output(n) => (3, i64::from(n)),
        };
        let mut raw = std::ptr::null_mut();
        // SAFETY: the step keeps its own references to the tensors and points to the archive, which we keep.
        unsafe {
            check(ffi::rk_step_new(
                archive.raw(),
                pointers.as_ptr(),
                pointers.len(),
                kind,
                output,
                &mut raw,
            ))?;
        }
        Ok(Self { raw: RawStepHandle(raw), archive })
    }

    /// The archive, whose tensors are the parameters and buffers of the step.
    pub fn archive(&self) -> &Archive {
        &self.archive
    }

    /// Runs the step. Gradients and results of the run before are let go first, so a peak that is reset before
    /// this call measures one step.
    ///
    /// # Errors
    /// [`ErrorKind::Inputs`] when the forward fails, [`ErrorKind::Loss`] when there is no loss to take.
    pub fn run(&mut self) -> Result<StepResults> {
        self.run_with(false)
    }

    /// Runs the step again; autograd adds its gradients to those that are there.
    ///
    /// # Errors
    /// As [`EagerStep::run`].
    pub fn accumulate(&mut self) -> Result<StepResults> {
        self.run_with(true)
    }

    fn run_with(&mut self, accumulate: bool) -> Result<StepResults> {
        // SAFETY: the step is alive, and so is its archive.
        unsafe { check(ffi::rk_step_run(self.raw.0, accumulate))? };
        let mut results = StepResults { loss: None, outputs: Vec::new(), gradients: Vec::new() };
        for i in 0.. {
            let (mut role, mut name, mut out) = (0, std::ptr::null(), std::ptr::null_mut());
            // SAFETY: name and handle are ours when the name is not null.
            let (name, tensor) = unsafe {
                check(ffi::rk_step_result(self.raw.0, i, &mut role, &mut name, &mut out))?;
                if name.is_null() {
                    break;
                }
                (take_string(name), Tensor::from_ptr(out.cast()))
            };
            match role {
                0 => results.loss = Some(tensor),
                1 => results.outputs.push((name, tensor)),
                _ => results.gradients.push((name, tensor)),
            }
        }
        Ok(results)
    }

    /// Lets the results and gradients of the last run go.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn clear(&mut self) -> Result<()> {
        // SAFETY: the step is alive.
        unsafe { check(ffi::rk_step_clear(self.raw.0)) }
    }

    /// Runs the step once under the recorder, and times its operators as asked.
    ///
    /// # Errors
    /// [`ErrorKind::Refused`] names the operator that cannot be imported, its module path and the reason;
    /// otherwise as [`EagerStep::run`].
    pub fn record(&mut self, timing: Timing) -> Result<Recording> {
        let (repeats, every_call) = match timing {
            Timing::None => (0, false),
            Timing::Classes(repeats) => (repeats, false),
            Timing::Calls(repeats) => (repeats, true),
        };
        // SAFETY: the step is alive, and so is its archive.
        let bytes = unsafe {
            take_bytes(|out, n| ffi::rk_step_record(self.raw.0, repeats.into(), every_call, out, n))?
        };
        Recording::decode(&bytes)
    }
}
