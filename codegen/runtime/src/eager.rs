//! The step before the rewrite: forward and autograd of the archive, as eager PyTorch runs them.

use std::path::Path;

use rk_step::{OutputRole, Role, Source, Step};
use rk_torch::{
    Archive, Device, EagerStep, InputSpec, LossSpec, Operator, StepResults, Value, load_tensors, memory,
    on_device,
};
use tch::Tensor;

use crate::error::RuntimeError;
use crate::stepper::{Results, Stepper};
use crate::tensors;

/// An archive with its inputs, ready to run as it is.
pub struct Eager {
    step: EagerStep,
    /// Names of the step's input arguments, with the tensors that forward is given.
    inputs: Vec<(String, Tensor)>,
    device: Device,
    results: Option<StepResults>,
}

impl Eager {
    /// Loads the archive onto `device`, and the inputs from their file or made as the importer made them.
    ///
    /// # Errors
    /// When the archive or the file of inputs cannot be read, or there are more or fewer inputs than the step has.
    pub fn load(
        step: &Step,
        source: &Source,
        path: &Path,
        inputs_file: Option<&Path>,
        device: Device,
    ) -> Result<Self, RuntimeError> {
        let model = |e: rk_torch::Error| RuntimeError::Model(e.message().to_owned());
        let archive = Archive::load(path, device).map_err(model)?;
        let tensors = match inputs_file {
            Some(file) => in_order(load_tensors(file).map_err(model)?, archive.arguments()),
            None => made(source)?,
        };
        let names: Vec<&str> =
            step.args.iter().filter(|a| a.role == Role::Input).map(|a| a.name.as_str()).collect();
        let tensors = on_device(&tensors, device)?;
        // A tensor that is given twice is one argument of the step.
        let mut distinct: Vec<&Tensor> = Vec::new();
        for tensor in &tensors {
            let same = |other: &&Tensor| other.data_ptr() == tensor.data_ptr() && tensor.numel() > 0;
            if !distinct.iter().any(same) {
                distinct.push(tensor);
            }
        }
        if names.len() != distinct.len() {
            let message = format!(
                "{}: {} inputs are recorded, but the step has {}",
                path.display(),
                distinct.len(),
                names.len()
            );
            return Err(RuntimeError::Model(message));
        }
        let distinct = distinct.into_iter().map(Tensor::shallow_clone);
        let inputs = names.into_iter().map(str::to_owned).zip(distinct).collect();
        let loss: LossSpec = source.loss.parse().map_err(model)?;
        let eager = EagerStep::new(archive, &tensors, loss).map_err(model)?;
        Ok(Self { step: eager, inputs, device, results: None })
    }

    /// Copies of inputs, parameters and buffers, in the order and with the layout of the step's arguments.
    ///
    /// # Errors
    /// When the archive has no tensor of that name, or one of another type.
    pub fn arguments(&self, step: &Step) -> Result<Vec<Tensor>, RuntimeError> {
        step.args
            .iter()
            .map(|arg| {
                let tensor = self.state(&arg.name)?.ok_or_else(|| {
                    RuntimeError::Model(format!("the archive has no parameter or buffer {:?}", arg.name))
                })?;
                tensors::laid_out(&arg.spec, &tensor, self.device.to_tch()).map_err(|e| match e {
                    RuntimeError::Model(m) => {
                        RuntimeError::Model(format!("{:?} of the archive {m}", arg.name))
                    }
                    other => other,
                })
            })
            .collect()
    }
}

/// As the importer orders them: a dict whose keys are forward's arguments is put in their order, anything else keeps
/// its own.
fn in_order(mut tensors: Vec<(String, Tensor)>, arguments: &[String]) -> Vec<Tensor> {
    let belongs = |name: &str, argument: &str| {
        name.strip_prefix(argument).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let place = |name: &str| arguments.iter().position(|argument| belongs(name, argument));
    if tensors.iter().all(|(name, _)| place(name).is_some()) {
        tensors.sort_by_key(|(name, _)| place(name));
    }
    tensors.into_iter().map(|(_, tensor)| tensor).collect()
}

/// Inputs from their specifications and the seed.
fn made(source: &Source) -> Result<Vec<Tensor>, RuntimeError> {
    let make = |(i, text): (usize, &String)| text.parse::<InputSpec>()?.make(source.seed, i as u64);
    source
        .inputs
        .iter()
        .enumerate()
        .map(make)
        .collect::<Result<_, _>>()
        .map_err(|e: rk_torch::Error| RuntimeError::Model(e.message().to_owned()))
}

impl Stepper for Eager {
    fn title(&self) -> &'static str {
        "eager PyTorch"
    }

    fn run(&mut self) -> Result<u64, RuntimeError> {
        self.clear()?;
        let resident = memory::read(self.device)?.current;
        memory::reset_peak(self.device)?;
        self.results = Some(self.step.run()?);
        Ok(memory::read(self.device)?.peak.saturating_sub(resident))
    }

    fn accumulate(&mut self) -> Result<u64, RuntimeError> {
        self.results = None;
        let resident = memory::read(self.device)?.current;
        memory::reset_peak(self.device)?;
        self.results = Some(self.step.accumulate()?);
        Ok(memory::read(self.device)?.peak.saturating_sub(resident))
    }

    fn results(&self) -> Result<Results, RuntimeError> {
        let Some(results) = &self.results else { return Ok(Vec::new()) };
        let named = |role: OutputRole, list: &[(String, Tensor)]| -> Results {
            list.iter().map(|(name, t)| (role, name.clone(), Some(t.shallow_clone()))).collect()
        };
        let mut all: Results = Vec::new();
        all.extend(
            results.loss.iter().map(|t| (OutputRole::Loss, "loss".to_owned(), Some(t.shallow_clone()))),
        );
        all.extend(named(OutputRole::Output, &results.outputs));
        all.extend(named(OutputRole::Gradient, &results.gradients));
        Ok(all)
    }

    fn state(&self, name: &str) -> Result<Option<Tensor>, RuntimeError> {
        if let Some((_, tensor)) = self.inputs.iter().find(|(n, _)| n == name) {
            return Ok(Some(tensor.shallow_clone()));
        }
        let attributes = self.step.archive().attributes();
        match attributes.iter().position(|a| a.name == name || a.aliases.iter().any(|alias| alias == name)) {
            Some(i) => Ok(Some(self.step.archive().tensor(i)?)),
            None => Ok(None),
        }
    }

    fn update(&mut self, lr: f64) -> Result<(), RuntimeError> {
        let Some(results) = &self.results else { return Ok(()) };
        let add = Operator::find("aten.add_.Tensor")?;
        for (name, gradient) in &results.gradients {
            if let Some(parameter) = self.state(name)? {
                add.call(&[Value::Tensor(parameter), gradient.into(), Value::Float(-lr)])?;
            }
        }
        Ok(())
    }

    fn clear(&mut self) -> Result<(), RuntimeError> {
        self.results = None;
        Ok(self.step.clear()?)
    }
}
