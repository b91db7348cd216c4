//! The executor: runs a step's program on a table of tensors, and measures it.
//!
//! # Lowered steps
//!
//! A step with a layout runs in one arena ([`rk_torch::Arena`]): its values, workspaces and saved states lie at planned
//! addresses, gradients in a space behind it, and no tensor is allocated anywhere else while it runs; those that are, are
//! counted. The peak is what the allocator saw in the arena, so it cannot exceed it. Making an executor of such a step runs it once on
//! the heap, to learn which request of a kernel becomes which result, and puts buffers, inputs and the generator back. The results of a step
//! lie in the arena, too: they hold until the next run.
//!
//! Not here: decisions (see `prepare`), where arguments come from (see `model`), comparison (see `compare`).

mod graph;
mod train;

use std::collections::BTreeMap;

use rk_step::queue::Pace;
use rk_step::{
    GENERATOR_BYTES, Instr, LaunchSchedule, MemoryAccount, OutputRole, Role, Slot, Step, TensorSpec,
    memory_account,
};
use rk_torch::{Arena, Device, Parked, Running, Slots, memory};
use tch::Tensor;

use self::graph::Gpu;
use crate::action::Segment;
use crate::cuda::{self, Driver};
use crate::error::RuntimeError;
use crate::execution::{Execution, Places, Progress};
use crate::kernels::Kernels;
use crate::measured::Measured;
use crate::prepare::{Prepare, prepare};
use crate::timing::Clock;
use crate::{arguments, placed, streams, tensors};

/// A step ready to run, with its arguments.
pub struct Executor {
    step: Step,
    pub(crate) device: Device,
    pub(crate) slots: Slots,
    segments: Vec<Segment>,
    kept: Vec<usize>,
    account: MemoryAccount,
    /// Does the allocator see generator states, or a GPU's arena, which counts as a whole, have places for them that stay empty?
    states_are_counted: bool,
    parked: Option<Parked>,
    arena: Option<Arena>,
    /// What a lowered step queues.
    schedule: Option<LaunchSchedule>,
    /// Positions in the program in the order of execution, when it is another one.
    order: Option<Vec<usize>>,
    /// The GPU that a lowered step runs on.
    gpu: Option<Gpu>,
    /// By output, the gradients of all runs since [`Executor::run`], when there were several.
    accumulated: BTreeMap<usize, Tensor>,
    /// Times every segment while it is there.
    clock: Option<Clock>,
    /// Behind the segments, whose launches point into it.
    _kernels: Option<Kernels>,
}

/// Which part of a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All of it.
    Whole,
    /// All of it, in pieces that are captured if they can be.
    Recording,
    /// All of it again, as it was recorded.
    Replaying,
    /// What comes before the caller's part, and the views among what the caller gets.
    Forward,
    /// What comes after it.
    Backward,
}

impl Executor {
    /// Prepares the step on `device` with these arguments, one per `step.args`, whose storage it will share.
    ///
    /// # Errors
    /// When an argument is not what the step was made for, an operator does not exist or an argument of it does not fit its schema,
    /// named with instruction and node; when the step waits for its caller in the middle ([`crate::SplitStep`] runs those).
    pub fn new(step: Step, args: &[Tensor], device: Device) -> Result<Self, RuntimeError> {
        if step.interruption().is_some() {
            let message = "the step is interrupted by its caller, who computes the loss: only the program that it was compiled in can run it";
            return Err(RuntimeError::Model(message.into()));
        }
        arguments::check(&step, args, device)?;
        let mut executor = Self::unbound(step, 0, device)?;
        executor.bind(args)?;
        executor.rehearse()?;
        Ok(executor)
    }

    /// The step on `device` without its arguments. The caller of an interrupted step gets the first `handed_out` results in its middle.
    ///
    /// # Errors
    /// As [`Executor::new`].
    pub(crate) fn unbound(step: Step, handed_out: usize, device: Device) -> Result<Self, RuntimeError> {
        let account = memory_account(&step)?;
        let kernels = Kernels::load(&step, device)?;
        let Prepare { segments, slots, kept } = prepare(&step, kernels.as_ref(), handed_out)?;
        let mut slots = Slots::new(slots)?;
        for (i, constant) in step.constants.iter().enumerate() {
            slots.set(step.args.len() + i, &tensors::constant(constant, device.to_tch())?)?;
        }
        let before = memory::read(device)?.current;
        let state = device.generator_state()?;
        let mut states_are_counted = memory::read(device)?.current > before;
        drop(state);
        let (mut arena, mut schedule, mut gpu) = (None, None, None);
        if let Some(layout) = &step.layout {
            let launches = LaunchSchedule::of(&step, layout)?;
            launches.check()?;
            arena = Some(placed::arena(&step, layout, &launches, device)?);
            if device != Device::Cpu {
                states_are_counted = true;
                gpu = Some(Gpu::new(Driver::new(device, launches.streams)?, &launches));
            }
            schedule = Some(launches);
        }
        Ok(Self {
            step,
            device,
            slots,
            segments,
            kept,
            account,
            states_are_counted,
            parked: None,
            arena,
            schedule,
            order: None,
            gpu,
            accumulated: BTreeMap::new(),
            clock: None,
            _kernels: kernels,
        })
    }

    /// Binds arguments that have been checked.
    pub(crate) fn bind(&mut self, args: &[Tensor]) -> Result<(), RuntimeError> {
        args.iter().enumerate().try_for_each(|(i, arg)| Ok(self.slots.set(i, arg)?))
    }

    /// Runs a lowered step once on the heap, and puts back what it changed: inputs and buffers, parameters that are not
    /// trained, the generator. (Nothing but an optimizer writes to a trainable parameter: autograd forbids it.)
    pub(crate) fn rehearse(&mut self) -> Result<(), RuntimeError> {
        let Some(mut arena) = self.arena.take() else { return Ok(()) };
        let generator = self.device.generator_state()?;
        let mut before = Vec::new();
        for (index, arg) in self.step.args.iter().enumerate() {
            if arg.role != (Role::Parameter { trainable: true })
                && let Some(tensor) = self.slots.get(index)?
            {
                let copy = tensor.f_detach()?.copy();
                before.push((tensor, copy));
            }
        }
        let resident = memory::read(self.device)?.current;
        // The copies were queued on the caller's stream, the step has its own.
        self.device.synchronize()?;
        let rehearsed = arena.enter(true).map_err(Into::into).and_then(|mut running| {
            if self.step.interruption().is_none() {
                return self
                    .execute(Part::Whole, resident, Progress::default(), Some(&mut running), None)
                    .map(drop);
            }
            let progress = Progress::default();
            let (_, progress) = self.execute(Part::Forward, resident, progress, Some(&mut running), None)?;
            self.put_tangents(&self.made_up_tangents()?)?;
            self.execute(Part::Backward, resident, progress, Some(&mut running), None).map(drop)
        });
        self.arena = Some(arena);
        self.gpu.as_mut().map_or(Ok(()), |gpu| gpu.driver.make_current(None))?;
        self.let_go(rehearsed.is_err())?;
        rehearsed?;
        self.clear_results()?;
        let _no_grad = tch::no_grad_guard();
        for (mut tensor, copy) in before {
            // Only what was written: a tensor whose elements share bytes cannot be copied into.
            if !tensor.f_equal(&copy)? {
                tensor.f_copy_(&copy)?;
            }
        }
        Ok(self.device.set_generator_state(&generator)?)
    }

    /// From now on the streams of a lowered step run at this pace, as a device might. Values are the same at any pace, the peak is
    /// not: launches that may overlap keep their values at the same time, all within the arena.
    ///
    /// # Errors
    /// When the step is not lowered, and so has no streams, or runs on a GPU.
    pub fn set_pace(&mut self, pace: Pace) -> Result<(), RuntimeError> {
        let Some(schedule) = self.schedule.as_ref().filter(|_| self.gpu.is_none()) else {
            let only = "streams are emulated on the CPU only";
            let lacks =
                if self.gpu.is_some() { only } else { "the step is not lowered, so it has no streams" };
            return Err(RuntimeError::Device(lacks.into()));
        };
        self.order = Some(streams::order(&self.step, schedule, pace)?);
        Ok(())
    }

    /// The step that runs.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Runs the step once. Its results stay until the next run.
    ///
    /// On a GPU a lowered step is queued launch by launch the first time, captured the second time, and replayed from then on; what draws
    /// random numbers or waits for the host is queued every time.
    ///
    /// # Errors
    /// When an operator fails, named with instruction and node. The values made so far are let go.
    pub fn run(&mut self) -> Result<Measured, RuntimeError> {
        self.accumulated.clear();
        self.run_again()
    }

    /// Runs the step again, and adds its gradients to those that are there, as autograd does.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn accumulate(&mut self) -> Result<Measured, RuntimeError> {
        let _no_grad = tch::no_grad_guard();
        let gradients: Vec<usize> = (0..self.step.outputs.len())
            .filter(|&i| self.step.outputs[i].role == OutputRole::Gradient)
            .collect();
        for &i in gradients.iter().filter(|_| self.accumulated.is_empty()).collect::<Vec<_>>() {
            // The next run writes over them.
            let own = self.output(i)?.map(|gradient| gradient.copy());
            self.accumulated.extend(own.map(|own| (i, own)));
        }
        let measured = self.run_again()?;
        for i in gradients {
            let new = self.slots.get(self.step.program.outputs[i].index())?;
            if let (Some(sum), Some(new)) = (self.accumulated.get_mut(&i), new) {
                let _ = sum.f_add_(&new)?;
            }
        }
        Ok(measured)
    }

    fn run_again(&mut self) -> Result<Measured, RuntimeError> {
        self.clear_results()?;
        if self.gpu.is_none() {
            return self.run_once(Part::Whole);
        }
        cuda::enter(self.device)?;
        // What was queued before the step, on streams of others, and what will be after it.
        self.device.synchronize()?;
        let measured = self.on_gpu();
        if let Some(gpu) = &mut self.gpu {
            gpu.driver.make_current(None)?;
        }
        let measured = measured?;
        self.device.synchronize()?;
        Ok(measured)
    }

    fn run_once(&mut self, part: Part) -> Result<Measured, RuntimeError> {
        let resident = memory::read(self.device)?.current;
        Ok(self.run_part(part, resident, Progress::default())?.0)
    }

    /// Runs a part of the step, with so many bytes allocated outside of it, from where it has come to.
    pub(crate) fn run_part(
        &mut self,
        part: Part,
        resident: u64,
        progress: Progress,
    ) -> Result<(Measured, Progress), RuntimeError> {
        let mut arena = self.arena.take();
        let base = arena.as_ref().map(Arena::base);
        let result = match &mut arena {
            Some(arena) => match arena.enter(false) {
                Ok(mut running) => self.execute(part, resident, progress, Some(&mut running), base),
                Err(error) => Err(error.into()),
            },
            None => self.execute(part, resident, progress, None, None),
        };
        self.arena = arena;
        self.let_go(result.is_err())?;
        result
    }

    /// The slots that the caller of an interrupted step fills.
    pub(crate) fn tangents(&self) -> &[Slot] {
        match self.step.interruption().map(|at| &self.step.program.instrs[at]) {
            Some(Instr::Run(run)) => &run.outputs,
            _ => &[],
        }
    }

    /// Gives an interrupted step what it waits for.
    pub(crate) fn put_tangents(&mut self, tangents: &[Tensor]) -> Result<(), RuntimeError> {
        let slots: Vec<usize> = self.tangents().iter().map(|slot| slot.index()).collect();
        slots.into_iter().zip(tangents).try_for_each(|(slot, tangent)| Ok(self.slots.set(slot, tangent)?))
    }

    /// What a tangent looks like, as the layout has it.
    pub(crate) fn tangent_spec(&self, slot: Slot) -> Option<&TensorSpec> {
        let places = self.step.layout.as_ref()?.places.iter();
        places.into_iter().find(|place| place.slot == slot)?.spec.as_ref()
    }

    /// Zeros in place of the caller's tangents.
    fn made_up_tangents(&self) -> Result<Vec<Tensor>, RuntimeError> {
        let zeros = |&slot: &Slot| {
            let spec = self.tangent_spec(slot).ok_or_else(|| {
                RuntimeError::Model("the step is not lowered, or does not say what its tangents are".into())
            })?;
            tensors::zeros(spec, self.device.to_tch())
        };
        self.tangents().iter().map(zeros).collect()
    }

    /// After a failure: lets the values made so far go, and puts the generator back.
    pub(crate) fn let_go(&mut self, failed: bool) -> Result<(), RuntimeError> {
        if failed {
            for slot in self.step.resident() as usize..self.slots.len() {
                self.slots.clear(slot)?;
            }
            if let Some(parked) = self.parked.take() {
                parked.put_back()?;
            }
        }
        Ok(())
    }

    /// Lets go of the results of the last run.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn clear_results(&mut self) -> Result<(), RuntimeError> {
        for &slot in &self.kept {
            self.slots.clear(slot)?;
        }
        Ok(())
    }

    fn execute(
        &mut self,
        part: Part,
        resident: u64,
        progress: Progress,
        arena: Option<&mut Running<'_>>,
        base: Option<usize>,
    ) -> Result<(Measured, Progress), RuntimeError> {
        let uncounted = if self.states_are_counted { 0 } else { GENERATOR_BYTES };
        let Self {
            step, device, slots, segments, kept, parked, account, schedule, order, gpu, clock, ..
        } = self;
        let placed = schedule.as_ref().zip(step.layout.as_ref()).zip(base);
        let places = placed.map(|((schedule, layout), arena)| {
            let gradients = arena + placed::gradient_offset(step, layout) as usize;
            let gradients = step.interruption().is_none().then_some(gradients);
            Places { schedule, arena, gradients }
        });
        let rehearses = arena.is_some() && base.is_none();
        let mut execution = Execution {
            step,
            device: *device,
            slots,
            segments,
            parked,
            account,
            arena,
            places,
            uncounted,
            resident,
            planned: order.is_none(),
            progress,
        };
        // Behind the program comes the epilogue, and behind that the views that the caller gets in the middle.
        let epilogue = step.program.instrs.len();
        let middle = step.interruption().unwrap_or(0);
        if let Some(clock) = clock {
            clock.begin();
        }
        let mut timed = |execution: &mut Execution<'_, '_>, at: usize| -> Result<(), RuntimeError> {
            execution.segment(at, None)?;
            if let Some(clock) = clock {
                clock.lap(at);
            }
            Ok(())
        };
        match (&*order, &*schedule, gpu) {
            (_, Some(schedule), Some(gpu)) => gpu.queue(&mut execution, schedule, part, rehearses, kept)?,
            _ if part == Part::Forward => {
                (0..middle).chain([epilogue + 1]).try_for_each(|at| execution.segment(at, None))?;
            }
            _ if part == Part::Backward => {
                (middle + 1..=epilogue).try_for_each(|at| execution.segment(at, None))?;
            }
            (Some(order), ..) if !rehearses => {
                order.iter().copied().chain([epilogue]).try_for_each(|at| timed(&mut execution, at))?;
            }
            _ => (0..=epilogue).try_for_each(|at| timed(&mut execution, at))?,
        }
        Ok(execution.end())
    }

    /// The tensor of result `i` of the step; `None` when it is undefined. A gradient is that of all runs that were added up.
    ///
    /// # Errors
    /// None for `i` in range.
    pub fn output(&self, i: usize) -> Result<Option<Tensor>, RuntimeError> {
        if let Some(sum) = self.accumulated.get(&i) {
            return Ok(Some(sum.shallow_clone()));
        }
        Ok(self.slots.get(self.step.program.outputs[i].index())?)
    }

    /// The tensor of argument `i`.
    ///
    /// # Errors
    /// None for `i` in range.
    pub fn arg(&self, i: usize) -> Result<Option<Tensor>, RuntimeError> {
        Ok(self.slots.get(i)?)
    }
}
