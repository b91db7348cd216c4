//! Generated kernels of a step: loading the library, and one launch per run.
//!
//! On the CPU the library is a shared object, on a GPU its driver compiles PTX (`cuda`). The library is machine code from the step file, so a step file is trusted like a program. It is refused on a CPU that lacks
//! an instruction set it was made for, before anything runs.
//!
//! Not here: the choice between a kernel and the ATen calls of a node (a step with kernels uses them;
//! [`Step::without_kernels`] is the other one).

use std::io::Write as _;

use rk_step::kernel::{Buffer, Library};
use rk_step::{Node, Run, Step, TensorSpec};
use rk_torch::{Buffers, Device, KernelFn, Launch, Operator, Prepared, Value};

use crate::cuda::{self, Modules};

use crate::action::Action;
use crate::error::RuntimeError;

/// A loaded library of kernels. Launches made from it must not outlive it.
pub(crate) enum Kernels {
    /// Machine code.
    Cpu(libloading::Library),
    /// PTX, compiled by the driver for this device.
    Cuda(Modules, Device),
}

impl Kernels {
    /// Loads the library of a step, if it has one.
    ///
    /// # Errors
    /// When this CPU is not one that the code was made for, or the system refuses to load it.
    pub fn load(step: &Step, device: Device) -> Result<Option<Self>, RuntimeError> {
        let Some(library) = &step.library else { return Ok(None) };
        if let Device::Cuda(_) = device {
            return Ok(Some(Self::Cuda(Modules::load(library, device)?, device)));
        }
        if let Some(missing) = missing(library) {
            return Err(RuntimeError::Device(format!(
                "the generated kernels of the step are for {}, this CPU lacks {missing}; --kernels off runs without them",
                library.level
            )));
        }
        let refused = |error: &dyn std::fmt::Display| {
            RuntimeError::Device(format!("the generated kernels cannot be loaded: {error}"))
        };
        let mut file = tempfile::Builder::new().suffix(".so").tempfile().map_err(|e| refused(&e))?;
        file.write_all(&library.bytes()).map_err(|e| refused(&e))?;
        // SAFETY: rk-kernels makes libraries without initializers. The file may go once it is mapped.
        let library = unsafe { libloading::Library::new(file.path()) }.map_err(|e| refused(&e))?;
        Ok(Some(Self::Cpu(library)))
    }

    /// The actions of one run of a node with a kernel: fresh outputs, or the overwritten operand as output 0, and the launch.
    ///
    /// # Errors
    /// Operator or symbol, and what is wrong with it.
    pub fn actions(&self, node: &Node, run: &Run) -> Result<Vec<Action>, (String, String)> {
        let Some(kernel) = &node.kernel else { return Ok(Vec::new()) };
        let mut actions = Vec::new();
        let taken = node.overwrites.filter(|_| run.overwrite).map(|input| run.inputs[input as usize].index());
        let launch = kernel.launch(taken.is_some());
        let device = match self {
            Self::Cpu(_) => Device::Cpu,
            Self::Cuda(_, device) => *device,
        };
        for (index, (spec, slot)) in kernel.outputs.iter().zip(&run.outputs).enumerate() {
            actions.push(match taken.filter(|_| index == 0) {
                Some(from) => Action::Share { from, to: slot.index() },
                None => allocation(spec, slot.index(), device)
                    .map_err(|e| ("aten.empty_strided.default".to_owned(), e.message().to_owned()))?,
            });
        }
        let buffer = |buffer: &Buffer| match buffer {
            Buffer::Input(index) => {
                (run.inputs[*index as usize].index(), layout(&kernel.inputs[*index as usize]))
            }
            Buffer::Output(index) => {
                (run.outputs[*index as usize].index(), layout(&kernel.outputs[*index as usize]))
            }
        };
        let buffers: Vec<(usize, Vec<i64>)> = launch.buffers.iter().map(buffer).collect();
        let buffers = Buffers::new(&buffers);
        let refused = |message: String| (launch.symbol.clone(), message);
        actions.push(match self {
            // SAFETY: the symbols of the library are kernels of this type, made for these layouts.
            Self::Cpu(library) => Action::Launch(unsafe {
                let symbol = library.get::<KernelFn>(launch.symbol.as_bytes());
                let symbol = symbol.map_err(|e| refused(e.to_string()))?;
                Launch::new(*symbol, buffers, kernel.rows as i64, kernel.row_elements as i64)
            }),
            Self::Cuda(modules, _) => Action::Kernel(cuda::Kernel {
                function: modules.function(&launch.symbol).map_err(|e| refused(e.to_string()))?,
                geometry: launch.geometry.ok_or_else(|| refused("says nothing of its threads".into()))?,
                buffers,
            }),
        });
        actions.extend(taken.map(Action::Clear));
        Ok(actions)
    }
}

/// Makes an output with its strides.
fn allocation(spec: &TensorSpec, slot: usize, device: Device) -> Result<Action, rk_torch::Error> {
    let list = |numbers: &[i64]| Value::List(numbers.iter().copied().map(Value::Int).collect());
    let (shape, strides) = (list(&spec.shape), list(&spec.full_strides()));
    let op = Operator::find("aten.empty_strided.default")?;
    let args = [
        shape,
        strides,
        Value::Int(spec.dtype.torch_code()),
        Value::None,
        Value::Str(device.to_string()),
        Value::None,
    ];
    Prepared::new(op, &args, &[Some(slot)]).map(Action::Call)
}

/// Element type, dimensions, sizes and strides in one row.
fn layout(spec: &TensorSpec) -> Vec<i64> {
    let head = [spec.dtype.torch_code(), spec.shape.len() as i64];
    head.into_iter().chain(spec.shape.iter().copied()).chain(spec.full_strides()).collect()
}

/// What this CPU lacks to run the library.
#[cfg(target_arch = "x86_64")]
fn missing(library: &Library) -> Option<&'static str> {
    match library.level.as_str() {
        "x86-64-v3" => [
            ("AVX2", is_x86_feature_detected!("avx2")),
            ("FMA", is_x86_feature_detected!("fma")),
            ("F16C", is_x86_feature_detected!("f16c")),
            ("BMI2", is_x86_feature_detected!("bmi2")),
        ]
        .into_iter()
        .find_map(|(name, there)| (!there).then_some(name)),
        _ => Some("that architecture"),
    }
}

/// What this CPU lacks to run the library.
#[cfg(not(target_arch = "x86_64"))]
fn missing(library: &Library) -> Option<&'static str> {
    (library.level != "generic").then_some("that architecture")
}
