//! A lowered step in somebody else's program: it runs until its outputs are there, hands them over, and goes on when their gradients
//! come back (docs/ir.md, "Steps that the caller interrupts").
//!
//! Between the two halves its values lie in its arena, and nobody else's requests do. What leaves the step, outputs and gradients, is
//! allocated on the heap when it is made: the caller may keep it, and the next step does not write over it. Arguments and tangents are
//! the caller's own tensors, so buffers are updated in place.
//!
//! On a GPU it is one more user of the caller's current stream: launches are queued there, or on streams that fork from it and join it again
//! before a half ends, and nobody waits for them. What leaves the step is torch's own memory of that stream. A caller who goes on
//! on another stream must let it wait, as for any operator; the arena sees to itself, whatever stream the next call comes on. Nothing is captured:
//! arguments, tangents and results lie elsewhere each time. The first call rehearses, and waits for the device.
//!
//! Not here: the border to the caller's language, several steps at once (each has its own state).

use rk_step::model::{Slot, TANGENTS};
use rk_step::{ArgValue, Instr, Step, TensorSpec};
use rk_torch::{Counts, Device, Settings, memory};
use tch::Tensor;

use crate::arguments;
use crate::cuda;
use crate::error::RuntimeError;
use crate::execution::Progress;
use crate::executor::{Executor, Part};
use crate::measured::Measured;
use crate::tensors::laid_out;

/// A step that its caller interrupts.
pub struct SplitStep {
    executor: Executor,
    /// The results that the caller gets in the middle: the first ones.
    handed_out: usize,
    rehearsed: bool,
    between: Option<Between>,
    measured: Measured,
}

/// What is known between the halves.
struct Between {
    progress: Progress,
    /// Bytes of this step when the first half ended, those of what left it included.
    live: u64,
    counts: Counts,
}

/// The argument that stands for everything outside of the step (docs/ir.md). It orders calls, and no operator takes it.
const OUTSIDE: &str = "outside";

/// The step without that argument at its operators.
fn without_the_world(mut step: Step) -> Step {
    let Some(outside) = step.args.iter().position(|arg| arg.name == OUTSIDE && arg.spec.elements() == 0)
    else {
        return step;
    };
    for instr in &step.program.instrs {
        let Instr::Run(run) = instr else { continue };
        let local = run.inputs.iter().position(|slot| slot.index() == outside);
        let Some(local) = local.and_then(|local| u32::try_from(local).ok()) else { continue };
        for call in step.nodes[run.node.index()].ops.iter_mut().filter(|call| call.op != TANGENTS) {
            call.args.retain(|arg| *arg != ArgValue::Value(local));
            let count = call.args.len();
            call.effects.retain(|&position| (position as usize) < count);
        }
    }
    step
}

/// A tensor with the strides that the step expects: itself, or a copy where it is of the right type and laid out otherwise. Autograd
/// promises no strides, nor do those who put away what is saved.
fn fitting(spec: &TensorSpec, tensor: &Tensor, device: Device) -> Result<Tensor, String> {
    match arguments::fits(tensor, spec, device) {
        Ok(()) => Ok(tensor.shallow_clone()),
        Err(_) if tensor.device() == device.to_tch() => {
            laid_out(spec, tensor, device.to_tch()).map_err(|wrong| wrong.to_string())
        }
        Err(wrong) => Err(wrong),
    }
}

impl SplitStep {
    /// Prepares a lowered step on a device, and makes its arena there. The first `handed_out` results are those of the first half.
    ///
    /// # Errors
    /// When it is not lowered, not interrupted, or for another device; when libtorch's settings are not those that it was planned
    /// under; when an operator does not exist, or memory is short.
    pub fn new(step: Step, handed_out: usize, device: Device) -> Result<Self, RuntimeError> {
        memory::install()?;
        let refuse = |what: &str| Err(RuntimeError::Model(format!("the step {what}")));
        if step.interruption().is_none() {
            return refuse("has no middle in which its caller gets the outputs");
        }
        if step.layout.is_none() {
            return refuse("has no addresses; run --rk-lower");
        }
        let kind = |name: &str| name.split(':').next().unwrap_or_default().to_owned();
        if kind(&device.to_string()) != kind(&step.device) {
            let message = format!("the step is for {}, and was asked to run on {device}", step.device);
            return Err(RuntimeError::Device(message));
        }
        device.open().map_err(|error| RuntimeError::Device(error.message().to_owned()))?;
        // They are the caller's, who has to keep them as they were.
        let settings = step.settings.as_deref().map(Settings::parse);
        let others = settings.map_or(Ok(vec![]), |settings| settings.differences(device))?;
        if !others.is_empty() {
            let message = format!("the step was planned for other kernels: {}", others.join(", "));
            return Err(RuntimeError::Device(message));
        }
        let _inside = cuda::inside(device)?;
        let executor = Executor::unbound(without_the_world(step), handed_out, device)?;
        Ok(Self { executor, handed_out, rehearsed: false, between: None, measured: Measured::default() })
    }

    /// Positions of the arguments that the second half reads. They must not change until it has run, but for those that it
    /// reads as the caller leaves them (S9). State that a second run leaves alone is not read.
    pub fn read_late(&self) -> Vec<usize> {
        let step = self.executor.step();
        let mut found: Vec<Slot> = Vec::new();
        for instr in &step.program.instrs[step.interruption().unwrap_or(0)..] {
            let Instr::Run(run) = instr else { continue };
            for call in step.nodes[run.node.index()].ops.iter().filter(|call| call.op != TANGENTS) {
                let left_out =
                    |place: usize| run.again && call.effects.iter().any(|&at| at as usize == place);
                for (_, arg) in call.args.iter().enumerate().filter(|(place, _)| !left_out(*place)) {
                    // Locals behind the inputs are made in the node.
                    arg.for_each_value(&mut |local| found.extend(run.inputs.get(local as usize).copied()));
                }
            }
        }
        let mut found: Vec<usize> = found.iter().map(|slot| slot.index()).collect();
        found.retain(|&slot| slot < step.args.len());
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Runs the first half on these arguments, and gives the outputs. The first time the whole step is rehearsed before, with zeros
    /// for tangents; that leaves no trace.
    ///
    /// # Errors
    /// When an argument does not fit, or an operator fails, named with instruction and node; when the second half of an earlier run
    /// is still to come.
    pub fn forward(&mut self, args: &[Tensor]) -> Result<Vec<Option<Tensor>>, RuntimeError> {
        if self.between.is_some() {
            return Err(RuntimeError::Model("the backward half of an earlier step is still to come".into()));
        }
        arguments::check(self.executor.step(), args, self.executor.device)?;
        let _inside = cuda::inside(self.executor.device)?;
        self.executor.bind(args)?;
        let begun = self.executor.arrive();
        let outputs = begun.and_then(|()| self.first_half());
        let left = self.executor.leave();
        let outputs = outputs.and_then(|outputs| left.map(|()| outputs));
        if outputs.is_err() {
            self.abandon()?;
        }
        outputs
    }

    fn first_half(&mut self) -> Result<Vec<Option<Tensor>>, RuntimeError> {
        if !self.rehearsed {
            self.executor.rehearse()?;
            self.rehearsed = true;
        }
        let resident = memory::read(self.executor.device)?.current;
        let (measured, progress) = self.executor.run_part(Part::Forward, resident, Progress::default())?;
        let live = memory::read(self.executor.device)?.current.saturating_sub(resident);
        let counts = measured.counts.unwrap_or_default();
        self.between = Some(Between { progress, live, counts });
        self.measured = self.executor.with_arena(measured);
        // Another handle on the same storage: what the caller does to its tensor (a history, a hook) is not ours.
        let outputs = (0..self.handed_out).map(|i| match self.executor.output(i)? {
            Some(output) => Ok(Some(output.f_detach()?)),
            None => Ok(None),
        });
        outputs.collect()
    }

    /// Lets go of the arguments between the halves: the caller gives those that the second half reads back by [`SplitStep::bring`].
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn release(&mut self) -> Result<(), RuntimeError> {
        (0..self.executor.step().args.len()).try_for_each(|arg| Ok(self.executor.slots.clear(arg)?))
    }

    /// Takes the arguments that the second half reads, in the order of [`SplitStep::read_late`]: those of the first half, or copies of them,
    /// which may have other strides.
    ///
    /// # Errors
    /// When their number differs, or the type of one, which is named.
    pub fn bring(&mut self, late: &[Tensor]) -> Result<(), RuntimeError> {
        let places = self.read_late();
        if places.len() != late.len() {
            let message = format!("{} arguments for a second half that reads {}", late.len(), places.len());
            return Err(RuntimeError::Model(message));
        }
        let device = self.executor.device;
        for (place, tensor) in places.into_iter().zip(late) {
            let arg = &self.executor.step().args[place];
            let fitting = fitting(&arg.spec, tensor, device)
                .map_err(|wrong| RuntimeError::Model(format!("argument {place}, {:?}, {wrong}", arg.name)))?;
            self.executor.slots.set(place, &fitting)?;
        }
        Ok(())
    }

    /// Runs the second half on the gradients of the outputs, and gives the gradients: the results behind those of the first
    /// half and the tangents. Nothing of the step is kept.
    ///
    /// # Errors
    /// As [`SplitStep::forward`]; when there was no first half.
    pub fn backward(&mut self, tangents: &[Tensor]) -> Result<Vec<Option<Tensor>>, RuntimeError> {
        let Some(between) = self.between.take() else {
            return Err(RuntimeError::Model(
                "there is no forward half to go on from: its values are gone".into(),
            ));
        };
        let _inside = cuda::inside(self.executor.device)?;
        let begun = self.executor.arrive();
        let results = begun.and_then(|()| self.second_half(tangents, between));
        let left = self.executor.leave();
        self.abandon()?;
        results.and_then(|results| left.map(|()| results))
    }

    fn second_half(
        &mut self,
        tangents: &[Tensor],
        between: Between,
    ) -> Result<Vec<Option<Tensor>>, RuntimeError> {
        let slots = self.executor.tangents();
        if slots.len() != tangents.len() {
            let message = format!("{} tangents for a step with {}", tangents.len(), slots.len());
            return Err(RuntimeError::Model(message));
        }
        let mut ready = Vec::with_capacity(slots.len());
        for (index, (&slot, tangent)) in slots.iter().zip(tangents).enumerate() {
            let Some(spec) = self.executor.tangent_spec(slot) else { continue };
            ready.push(
                fitting(spec, tangent, self.executor.device)
                    .map_err(|wrong| RuntimeError::Model(format!("tangent {index} {wrong}")))?,
            );
        }
        self.executor.put_tangents(&ready)?;
        drop(ready);
        // Whatever else the caller has allocated since counts as there before.
        let resident = memory::read(self.executor.device)?.current.saturating_sub(between.live);
        let (mut measured, _) = self.executor.run_part(Part::Backward, resident, between.progress)?;
        if let Some(counts) = &mut measured.counts {
            counts.placed += between.counts.placed;
            counts.outside += between.counts.outside;
            counts.moved += between.counts.moved;
            counts.left += between.counts.left;
        }
        self.measured = self.executor.with_arena(measured);
        let first = self.handed_out + self.executor.tangents().len();
        (first..self.executor.step().outputs.len()).map(|i| self.executor.output(i)).collect()
    }

    /// Lets go of everything that belongs to a run: its second half will not come.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn abandon(&mut self) -> Result<(), RuntimeError> {
        self.between = None;
        self.executor.let_go(true)?;
        self.release()
    }

    /// Whether the second half of a run is still to come.
    pub fn is_interrupted(&self) -> bool {
        self.between.is_some()
    }

    /// What the last run took. The peak is that of the arena; what left the step is not in it.
    pub fn measured(&self) -> &Measured {
        &self.measured
    }

    /// The step.
    pub fn step(&self) -> &Step {
        self.executor.step()
    }
}

impl Drop for SplitStep {
    fn drop(&mut self) {
        // Torch takes the arena back for the stream that it was made on, which need not be the one that works in it. Nobody could be told.
        let _ = self.executor.device.synchronize();
    }
}
