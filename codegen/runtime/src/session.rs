//! One call of `rk-run`: find the model, run the step, check it, time it, report.

use std::path::{Path, PathBuf};

use rk_step::queue::Pace;
use rk_step::{Instr, Nearness, Step, disjoint_layout, original};
use rk_torch::{Device, Settings, memory};
use tch::Tensor;

use crate::archive;
use crate::check::{Other, Training, Verdict, side_by_side, train};
use crate::eager::Eager;
use crate::error::RuntimeError;
use crate::executor::Executor;
use crate::measured::Measured;
use crate::rounds::rounds;
use crate::stepper::{Program, Stepper};
use crate::tensors;
use crate::timing::{self, median, median_ratio};

/// Against what the bits are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Check {
    /// Not at all.
    None,
    /// Against the step before the rewrite: eager PyTorch with real autograd when the step has an archive, else the
    /// original order of the nodes. With kernels that do not make ATen's bits, against the original order with the same
    /// kernels; how far it is from the former is then measured.
    Before,
    /// Against all of them.
    All,
}

/// What to do with a step.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Where; `None`: the device of the step.
    pub device: Option<String>,
    /// Training steps with updates.
    pub steps: usize,
    /// Learning rate of the updates.
    pub lr: f64,
    /// Runs per training step, whose gradients are added up before the update; at least 1.
    pub accumulate: usize,
    /// Whether to compare bits, and with what.
    pub check: Check,
    /// Another archive than the recorded one.
    pub model: Option<PathBuf>,
    /// Steps before timing, on top of the training steps.
    pub warmup: usize,
    /// Timed steps; 0: no times.
    pub repeat: usize,
    /// Whether nodes with a generated kernel run it; without, they run their ATen calls, which may take more memory.
    pub kernels: bool,
    /// Another order for the streams of a lowered step on the CPU (`Executor::set_pace`).
    pub pace: Option<Pace>,
    /// Seed of synthesized arguments and of the generator; `None`: the recorded seed, 0 without a source.
    pub seed: Option<u64>,
    /// Another step with the same arguments, which is timed in turns with this one.
    pub beside: Option<Step>,
    /// Whether every node is timed, too, while the steps are.
    pub times: bool,
}

impl Default for Options {
    fn default() -> Self {
        let (device, model, seed) = (None, None, None);
        Self {
            device,
            steps: 1,
            lr: 1e-3,
            accumulate: 1,
            check: Check::None,
            model,
            warmup: 1,
            repeat: 3,
            kernels: true,
            pace: None,
            seed,
            beside: None,
            times: false,
        }
    }
}

/// What came out.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// Where it ran.
    pub device: String,
    /// Threads of libtorch.
    pub threads: usize,
    /// The largest reading of all steps.
    pub measured: Measured,
    /// How near the kernels are to their calls, as stated; `None`: the same bits.
    pub nearness: Option<Nearness>,
    /// Number of second runs in the program.
    pub reruns: usize,
    /// Median seconds of a step; `None` when nothing was timed.
    pub step_seconds: Option<f64>,
    /// The step before the rewrite: `eager` or `original`; `None` without a check.
    pub baseline: Option<&'static str>,
    /// Its median seconds.
    pub baseline_step_seconds: Option<f64>,
    /// Median of the ratios of neighbouring steps, this one to the baseline.
    pub step_over_baseline: Option<f64>,
    /// The same to the step beside it.
    pub step_over_beside: Option<f64>,
    /// What the nodes take here over what they take in the step beside it, each counted once, with its time as in `times`.
    pub nodes_over_beside: Option<f64>,
    /// Nanoseconds of the nodes, as a text ([`timing::to_text`]).
    pub times: Option<String>,
    /// Measured peak of the original order, in the same scope as the step's.
    pub baseline_peak_bytes: Option<u64>,
    /// Bytes that eager PyTorch allocates on top of what is there before, gradients included.
    pub eager_peak_bytes: Option<u64>,
    /// Result of the comparison; `None` without a check.
    pub verdict: Option<Verdict>,
}

/// The device of a step, opened.
///
/// # Errors
/// When it is not there, or of another kind than the one that the step was recorded on: its kernels and costs
/// are those of that kind.
pub fn open(step: &Step, wanted: Option<&str>) -> Result<Device, RuntimeError> {
    let fail = |e: rk_torch::Error| RuntimeError::Device(e.message().to_owned());
    let device: Device = wanted.unwrap_or(&step.device).parse().map_err(fail)?;
    let kind = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
    if kind(&device.to_string()) != kind(&step.device) {
        return Err(RuntimeError::Device(format!(
            "the step was recorded on {}, not on {device}; import it again with --device {}",
            step.device,
            kind(&device.to_string())
        )));
    }
    device.open().map_err(fail)?;
    Ok(device)
}

/// Sets libtorch as it was when the step's costs were measured, and says what cannot be set and is not as it was.
fn settle(step: &Step, device: Device) -> Result<(), RuntimeError> {
    let Some(settings) = &step.settings else { return Ok(()) };
    for difference in Settings::parse(settings).apply(device)? {
        tracing::warn!(
            "not as when the step was measured, so kernels and workspaces may be others: {difference}"
        );
    }
    Ok(())
}

/// Runs the step of `step_file` as `options` say.
///
/// # Errors
/// [`RuntimeError`]; a difference in bits is not an error but part of the report.
pub fn run(step: Step, step_file: &Path, options: &Options) -> Result<Report, RuntimeError> {
    let device = open(&step, options.device.as_deref())?;
    settle(&step, device)?;
    let step = if options.kernels { step } else { step.without_kernels() };
    memory::install()?;
    let seed = options.seed.or(step.source.as_ref().map(|s| s.seed)).unwrap_or(0);
    let checked = options.check != Check::None;

    let mut eager = match &step.source {
        Some(source) => {
            let path = archive::find(source, step_file, options.model.as_deref())?;
            let inputs = archive::inputs_file(source, step_file)?;
            Some(Eager::load(&step, source, &path, inputs.as_deref(), device)?)
        }
        None => None,
    };
    let start = || -> Result<Vec<Tensor>, RuntimeError> {
        match &eager {
            Some(eager) => eager.arguments(&step),
            None => tensors::synthesize(&step, seed, device.to_tch()),
        }
    };
    let mut ours = Program::new("itself", Executor::new(step.clone(), &start()?, device)?);
    options.pace.map_or(Ok(()), |pace| ours.executor.set_pace(pace))?;
    let before = |title, nodes: Step| -> Result<Program, RuntimeError> {
        let program = original(&nodes)?;
        // On a GPU generated kernels are launched at addresses, on the CPU an allocator is one thing less in common with the plan.
        let before = match device {
            Device::Cuda(_) if nodes.library.is_some() => disjoint_layout(&nodes)?,
            _ => Step { program, layout: None, ..nodes },
        };
        Ok(Program::new(title, Executor::new(before, &start()?, device)?))
    };
    let mut original = checked.then(|| before("the original order", step.without_kernels())).transpose()?;
    let near = step.nearness();
    let mut same_kernels = (near.is_some() && checked)
        .then(|| before("the original order with the same kernels", step.clone()))
        .transpose()?;
    let beside = options.beside.as_ref().filter(|_| options.repeat > 0);
    let beside = beside.map(|step| if options.kernels { step.clone() } else { step.without_kernels() });
    let mut beside = match beside {
        Some(step) => {
            let arguments = match &eager {
                Some(eager) => eager.arguments(&step)?,
                None => tensors::synthesize(&step, seed, device.to_tch())?,
            };
            Some(Program::new("the step beside it", Executor::new(step, &arguments, device)?))
        }
        None => None,
    };
    // What the nodes with kernels take without them.
    let mut calls = match options.times && step.library.is_some() {
        true => Some(Program::new("its calls", Executor::new(step.without_kernels(), &start()?, device)?)),
        false => None,
    };
    // Only a check runs eager PyTorch; otherwise its model must not lie in memory.
    eager = eager.filter(|_| checked);

    device.manual_seed(seed)?;
    let mut report = Report {
        device: device.to_string(),
        threads: rk_torch::threads()?,
        measured: Measured::default(),
        nearness: near,
        reruns: step.program.instrs.iter().filter(|i| matches!(i, Instr::Run(r) if r.again)).count(),
        step_seconds: None,
        baseline: None,
        baseline_step_seconds: None,
        step_over_baseline: None,
        step_over_beside: None,
        nodes_over_beside: None,
        times: None,
        baseline_peak_bytes: None,
        eager_peak_bytes: None,
        verdict: None,
    };
    {
        let training = Training { steps: options.steps, lr: options.lr, runs: options.accumulate };
        let mut others: Vec<Other<'_>> = Vec::new();
        if let Some(stepper) = &mut same_kernels {
            others.push(Other { stepper, equal: true });
        }
        let (equal, without_archive) = (near.is_none(), eager.is_none());
        if let Some(stepper) = &mut eager {
            others.push(Other { stepper, equal });
        }
        if let Some(stepper) = original.as_mut().filter(|_| without_archive || options.check == Check::All) {
            others.push(Other { stepper, equal });
        }
        if others.is_empty() {
            train(&mut ours, training)?;
        } else {
            report.verdict = Some(side_by_side(&step, &mut ours, others, training, device)?);
        }
    }
    // Its arguments must not lie in memory while the others are measured.
    drop(same_kernels);
    if let Some(original) = &mut original {
        ours.clear()?;
        if let Some(eager) = &mut eager {
            report.eager_peak_bytes = Some(eager.run()?);
            eager.clear()?;
        }
        report.baseline_peak_bytes = Some(original.run()?);
        original.clear()?;
    }
    if options.repeat > 0 {
        for program in [&mut calls, &mut beside].into_iter().flatten() {
            program.continue_from(&ours)?;
        }
        // A step has a stream of its own.
        device.synchronize()?;
        let clocked = [Some(&mut ours), calls.as_mut(), beside.as_mut()];
        for program in clocked.into_iter().flatten().filter(|_| options.times) {
            program.executor.start_clock()?;
        }
        let mut lanes: Vec<&mut dyn Stepper> = vec![&mut ours];
        match (&mut eager, &mut original) {
            (Some(eager), _) => {
                report.baseline = Some("eager");
                lanes.push(eager);
            }
            (None, Some(original)) => {
                report.baseline = Some("original");
                lanes.push(original);
            }
            (None, None) => {}
        }
        let baseline = lanes.get(1).map(|_| 1);
        lanes.extend(calls.as_mut().map(|calls| calls as &mut dyn Stepper));
        if let Some(beside) = &mut beside {
            lanes.push(beside);
        }
        let seconds = rounds(&mut lanes, options.warmup, options.repeat, device)?;
        let over = |lane: usize| seconds.get(lane).map(|theirs| median_ratio(&seconds[0], theirs));
        report.step_seconds = Some(median(seconds[0].clone()));
        report.baseline_step_seconds = baseline.map(|lane| median(seconds[lane].clone()));
        report.step_over_baseline = baseline.and_then(over);
        report.step_over_beside = options.beside.as_ref().and_then(|_| over(seconds.len() - 1));
        let nodes = |program: &mut Program| {
            program
                .executor
                .stop_clock()
                .map(|clock| clock.nodes(program.executor.step()))
                .unwrap_or_default()
        };
        if options.times {
            let calls = calls.as_mut().map(nodes).unwrap_or_default();
            let times = nodes(&mut ours);
            report.nodes_over_beside =
                beside.as_mut().map(nodes).and_then(|beside| timing::nodes_over(&times, &beside));
            report.times = Some(timing::to_text(&step, &times, &calls, &report.device, report.threads));
        }
    }
    report.measured = ours.measured;
    Ok(report)
}
