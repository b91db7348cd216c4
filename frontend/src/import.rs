//! The import itself: archive and inputs, one recorded step, text.

use crate::print::{Source, print_module};
use rk_torch::{
    Archive, Device, EagerStep, Error, ErrorKind, InputSpec, LossSpec, Result, Settings, Timing, element_of,
    load_tensors, memory, tch,
};
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tch::Tensor;

/// Where the inputs of the step come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputSource {
    /// Shapes and types that the archive was traced with, numbers from the seed.
    Traced,
    /// These shapes and types, numbers from the seed.
    Specs(Vec<InputSpec>),
    /// The tensors of a `torch.save` file.
    File(PathBuf),
}

/// What to import, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImportOptions {
    /// The archive of `torch.jit.trace`.
    pub archive: PathBuf,
    /// What the text says that the archive is: its path, as the user gave it.
    pub archive_name: String,
    /// The inputs.
    pub inputs: InputSource,
    /// The loss.
    pub loss: LossSpec,
    /// Where the step runs.
    pub device: Device,
    /// What is timed; nothing leaves the time to the roofline model.
    pub measure: Timing,
    /// Whether kernels are taken that give the same bits every time, and operators without such refused.
    pub deterministic: bool,
    /// Seed of the inputs and of the generator.
    pub seed: u64,
}

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Imported {
    /// The module at stage raw.
    pub text: String,
    /// Recorded operators.
    pub ops: usize,
    /// Of these, in the backward pass.
    pub backward_ops: usize,
    /// Operators that were timed, and what that took. The others have the time of an equal one, or of the model.
    pub timed: (u32, Duration),
}

/// Runs the step once under the recorder, measures what is to be measured, and prints it.
/// `progress` is told what is going on. The same options give the same text, but for measured times.
///
/// # Errors
/// By [`Error::kind`]: `Archive` when the file cannot be read, `Inputs` when the forward does not accept the
/// inputs, `Loss` when there is no such loss, `Refused` when an operator cannot be imported.
pub fn import(options: &ImportOptions, progress: &mut dyn FnMut(&str)) -> Result<Imported> {
    memory::install()?;
    options.device.open()?;
    options.device.pin()?;
    if options.deterministic {
        options.device.determine()?;
    }
    progress(&format!("loading {}", options.archive_name));
    let sha256 = file_digest(&options.archive)?;
    let archive = Archive::load(&options.archive, options.device)?;
    let (inputs, specs) = inputs(options, &archive)?;
    let mut source = Source {
        archive: options.archive_name.clone(),
        sha256,
        loss: options.loss.to_string(),
        seed: options.seed,
        inputs: specs.iter().map(InputSpec::to_string).collect(),
        inputs_file: None,
        device: options.device,
        measured: options.measure != Timing::None,
        settings: Settings::read(options.device)?,
    };
    if let InputSource::File(path) = &options.inputs {
        source.inputs_file = Some((path.display().to_string(), file_digest(path)?));
    }
    progress(match options.measure {
        Timing::None => "recording one step",
        _ => "recording one step and measuring it",
    });
    let traced: Vec<String> = archive.traced_inputs().iter().map(InputSpec::to_string).collect();
    let mut step =
        EagerStep::new(archive, &inputs, options.loss).map_err(|e| explain(e, &source.inputs, &traced))?;
    options.device.manual_seed(options.seed)?;
    let recording = step.record(options.measure).map_err(|e| explain(e, &source.inputs, &traced))?;
    progress(&format!("printing {} operators", recording.ops.len()));
    let text = print_module(&recording, &source)?;
    let backward_ops = recording.ops.iter().filter(|op| op.backward).count();
    Ok(Imported { text, ops: recording.ops.len(), backward_ops, timed: (recording.timed, recording.timing) })
}

/// Adds the inputs to an error that is about them.
fn explain(error: Error, given: &[String], traced: &[String]) -> Error {
    if error.kind() != ErrorKind::Inputs {
        return error;
    }
    let traced =
        if traced.is_empty() { String::new() } else { format!("; it was traced with {}", traced.join(" ")) };
    let first_line = error.message().lines().next().unwrap_or_default().to_owned();
    Error::of(error.kind(), format!("the trace does not accept {}: {first_line}{traced}", given.join(" ")))
}

/// The input tensors in the order of forward's arguments, with their specifications.
fn inputs(options: &ImportOptions, archive: &Archive) -> Result<(Vec<Tensor>, Vec<InputSpec>)> {
    let specs = match &options.inputs {
        InputSource::Specs(specs) => specs.clone(),
        InputSource::Traced => {
            let specs = archive.traced_inputs().to_vec();
            if specs.is_empty() && !archive.arguments().is_empty() {
                let why = "the archive does not say what it was traced with; give --input for each of";
                return Err(Error::of(
                    ErrorKind::Inputs,
                    format!("{why} {}", archive.arguments().join(", ")),
                ));
            }
            specs
        }
        InputSource::File(path) => {
            let tensors = in_order(load_tensors(path)?, archive.arguments());
            let specs = tensors.iter().map(spec_of).collect::<Result<Vec<_>>>()?;
            return Ok((tensors, specs));
        }
    };
    let tensors: Result<Vec<Tensor>> =
        (0..).zip(&specs).map(|(i, spec)| spec.make(options.seed, i)).collect();
    Ok((tensors?, specs))
}

/// A dict whose keys are forward's arguments is put in their order; anything else keeps its own.
fn in_order(tensors: Vec<(String, Tensor)>, arguments: &[String]) -> Vec<Tensor> {
    let belongs = |name: &str, argument: &str| {
        name == argument || name.strip_prefix(argument).is_some_and(|rest| rest.starts_with('.'))
    };
    let place = |name: &str| arguments.iter().position(|argument| belongs(name, argument));
    let mut tensors = tensors;
    if tensors.iter().all(|(name, _)| place(name).is_some()) {
        tensors.sort_by_key(|(name, _)| place(name));
    }
    tensors.into_iter().map(|(_, tensor)| tensor).collect()
}

fn spec_of(tensor: &Tensor) -> Result<InputSpec> {
    Ok(InputSpec::new(element_of(tensor.f_kind()?)?, tensor.size()))
}

/// The SHA-256 of a file, in hex.
fn file_digest(path: &Path) -> Result<String> {
    let fail = |error| Error::of(ErrorKind::Archive, format!("{} cannot be read: {error}", path.display()));
    let mut file = std::fs::File::open(path).map_err(fail)?;
    let mut hasher = Sha256::new();
    std::io::copy(&mut file, &mut hasher).map_err(fail)?;
    Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}
