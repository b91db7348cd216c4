//! The executor: runs a step's program on a table of tensors, and measures it.
//!
//! # What `peak_bytes` means
//!
//! Scope `activations`, defined here and nowhere else:
//!
//! > the maximum over all runs of (the allocator's peak while the run's actions execute, minus the bytes that
//! > were allocated when the step began, minus the bytes of gradients produced before or in this run), where saved
//! > generator states count as allocated whether or not the allocator sees them.
//!
//! Workspaces are included, because the allocator sees them. Results of the previous step are let go before the
//! step begins. While a random node runs again the executor parks the generator's own state, which is no tensor.
//!
//! # Lowered steps
//!
//! A step with a layout runs in one arena ([`rk_torch::Arena`]): its values, workspaces and saved states lie at planned
//! addresses, gradients in a space behind it, and no tensor is allocated anywhere else while it runs; those that are, are
//! counted. The peak is what the allocator saw in the arena, so it cannot exceed it. Making a machine of such a step runs it once on
//! the heap, to learn which request of a kernel becomes which result, and puts buffers, inputs and the generator back. The results of a step
//! lie in the arena, too: they hold until the next run. On a GPU addresses are not used yet: values come from torch's caching
//! allocator there.
//!
//! Not here: decisions (see `prepare`), where arguments come from (see `model`), comparison (see `compare`).

use rk_step::{Account, Instr, OutputRole, Role, Step, account};
use rk_torch::{Arena, Counts, Device, Operator, Parked, Prepared, Running, Slots, Value, memory};
use tch::Tensor;

use crate::error::RuntimeError;
use crate::kernels::Kernels;
use crate::prepare::{Action, Prepare, Segment, prepare};
use crate::{placed, tensors};

/// What one step took.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Measured {
    /// The measured peak, scope `activations` (see the module's documentation).
    pub peak_bytes: u64,
    /// The node that holds the peak.
    pub peak_node: String,
    /// Bytes that were allocated when the step began.
    pub resident_bytes: u64,
    /// The run that exceeds its planned bytes most, if one does.
    pub excess: Option<Excess>,
    /// Allocations of a lowered step, counted by the allocator; `None` for a step without addresses.
    pub counts: Option<Counts>,
}

/// A run that needed more bytes than planned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Excess {
    /// Name of the node.
    pub node: String,
    /// Planned bytes while it runs.
    pub planned_bytes: u64,
    /// Measured bytes while it runs.
    pub measured_bytes: u64,
}

/// A step ready to run, with its arguments.
pub struct Machine {
    step: Step,
    device: Device,
    slots: Slots,
    segments: Vec<Segment>,
    kept: Vec<usize>,
    account: Account,
    /// Does the allocator see generator states?
    states_are_counted: bool,
    parked: Option<Parked>,
    arena: Option<Arena>,
    /// Behind the segments, whose launches point into it.
    _kernels: Option<Kernels>,
}

impl Machine {
    /// Prepares the step on `device` with these arguments, one per `step.args`, whose storage it will share.
    ///
    /// # Errors
    /// When an operator does not exist or an argument does not fit its schema, named with instruction and node.
    pub fn new(step: Step, args: &[Tensor], device: Device) -> Result<Self, RuntimeError> {
        if args.len() != step.args.len() {
            let message = format!("{} arguments for a step with {}", args.len(), step.args.len());
            return Err(RuntimeError::Model(message));
        }
        let account = account(&step)?;
        let kernels = Kernels::load(&step)?;
        let Prepare { segments, slots, kept } = prepare(&step, kernels.as_ref())?;
        let mut slots = Slots::new(slots)?;
        for (i, arg) in args.iter().enumerate() {
            slots.set(i, arg)?;
        }
        for (i, constant) in step.constants.iter().enumerate() {
            slots.set(args.len() + i, &tensors::constant(constant, device.to_tch())?)?;
        }
        let before = memory::read(device)?.current;
        let state = device.generator_state()?;
        let states_are_counted = memory::read(device)?.current > before;
        drop(state);
        let addresses = step.layout.as_ref().filter(|_| device == Device::Cpu);
        let arena = addresses.map(|layout| placed::arena(&step, layout)).transpose()?;
        let parked = None;
        let mut machine = Self {
            step,
            device,
            slots,
            segments,
            kept,
            account,
            states_are_counted,
            parked,
            arena,
            _kernels: kernels,
        };
        machine.rehearse()?;
        Ok(machine)
    }

    /// Runs a lowered step once on the heap, and puts back what it changed: inputs and buffers, parameters that are not
    /// trained, the generator. (Nothing but an optimizer writes to a trainable parameter: autograd forbids it.)
    fn rehearse(&mut self) -> Result<(), RuntimeError> {
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
        let rehearsed = arena.enter(true).map_err(Into::into);
        let rehearsed = rehearsed.and_then(|mut running| self.run_segments(resident, Some(&mut running)));
        self.arena = Some(arena);
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

    /// The step that runs.
    pub fn step(&self) -> &Step {
        &self.step
    }

    /// Runs the step once. Its results stay until the next run.
    ///
    /// # Errors
    /// When an operator fails, named with instruction and node. The values made so far are let go.
    pub fn run(&mut self) -> Result<Measured, RuntimeError> {
        self.clear_results()?;
        let resident = memory::read(self.device)?.current;
        let mut arena = self.arena.take();
        let result = match &mut arena {
            Some(arena) => match arena.enter(false) {
                Ok(mut running) => self.run_segments(resident, Some(&mut running)),
                Err(error) => Err(error.into()),
            },
            None => self.run_segments(resident, None),
        };
        self.arena = arena;
        self.let_go(result.is_err())?;
        result
    }

    /// After a failure: lets the values made so far go, and puts the generator back.
    fn let_go(&mut self, failed: bool) -> Result<(), RuntimeError> {
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

    fn run_segments(
        &mut self,
        resident: u64,
        mut arena: Option<&mut Running<'_>>,
    ) -> Result<Measured, RuntimeError> {
        let Self { step, device, slots, segments, parked, account, .. } = self;
        let uncounted = if self.states_are_counted { 0 } else { step.generator_bytes() };
        let mut measured = Measured { resident_bytes: resident, ..Measured::default() };
        let (mut peak, mut peak_at) = (0u64, None);
        let mut excess: Option<(usize, u64)> = None;
        let mut launch = 0;
        for segment in segments.iter() {
            if segment.measured {
                memory::reset_peak(*device)?;
                if let Some(arena) = &mut arena {
                    arena.begin(launch)?;
                }
            }
            for (k, action) in segment.actions.iter().enumerate() {
                let done = match action {
                    Action::Call(call) => call.run(slots),
                    Action::Launch(launch) => launch.run(slots),
                    Action::Clear(slot) => slots.clear(*slot),
                    Action::Share { from, to } => slots.copy(*from, *to),
                    Action::Save(slot) => device.generator_state().and_then(|s| slots.set(*slot, &s)),
                    Action::Replay(slot) => replay(*device, slots, *slot, parked),
                    Action::PutBack => parked.take().map_or(Ok(()), Parked::put_back),
                };
                done.map_err(|e| failed(step, segment, Some(k), e.message()))?;
            }
            if segment.measured {
                if let Some(arena) = &mut arena {
                    arena.end(slots).map_err(|e| failed(step, segment, None, e.message()))?;
                    launch += 1;
                }
                let seen = memory::read(*device)?.peak + segment.states * uncounted;
                let aside = resident + segment.gradient_bytes;
                let used = seen.saturating_sub(aside);
                if used > peak {
                    (peak, peak_at) = (used, Some(segment.instr));
                }
                let planned = account.during.get(segment.instr).copied().unwrap_or(u64::MAX);
                if used > planned && excess.is_none_or(|(_, by)| used - planned > by) {
                    excess = Some((segment.instr, used - planned));
                }
            }
        }
        measured.counts = arena.map(|arena| arena.counts());
        measured.peak_bytes = peak;
        measured.peak_node = peak_at.map_or(String::new(), |i| node_name(step, i));
        measured.excess = excess.map(|(i, by)| Excess {
            node: node_name(step, i),
            planned_bytes: account.during[i],
            measured_bytes: account.during[i] + by,
        });
        Ok(measured)
    }

    /// The tensor of result `i` of the step; `None` when it is undefined.
    ///
    /// # Errors
    /// None for `i` in range.
    pub fn output(&self, i: usize) -> Result<Option<Tensor>, RuntimeError> {
        Ok(self.slots.get(self.step.program.outputs[i].index())?)
    }

    /// The tensor of argument `i`.
    ///
    /// # Errors
    /// None for `i` in range.
    pub fn arg(&self, i: usize) -> Result<Option<Tensor>, RuntimeError> {
        Ok(self.slots.get(i)?)
    }

    /// One step of gradient descent on the trainable parameters: `param.add_(grad, alpha=-lr)`.
    ///
    /// # Errors
    /// When a gradient does not fit its parameter.
    pub fn update(&mut self, lr: f64) -> Result<(), RuntimeError> {
        let add = Operator::find("aten.add_.Tensor")?;
        for (output, slot) in self.step.outputs.iter().zip(&self.step.program.outputs) {
            if output.role != OutputRole::Gradient || self.slots.get(slot.index())?.is_none() {
                continue;
            }
            let arg = self.step.args.iter().position(|a| {
                a.role == Role::Parameter { trainable: true }
                    && (a.name == output.name || a.aliases.contains(&output.name))
            });
            let Some(arg) = arg else { continue };
            let args = [Value::Slot(arg), Value::Slot(slot.index()), Value::Float(-lr)];
            Prepared::new(add, &args, &[None])?.run(&mut self.slots)?;
        }
        Ok(())
    }
}

fn replay(
    device: Device,
    slots: &Slots,
    slot: usize,
    parked: &mut Option<Parked>,
) -> Result<(), rk_torch::Error> {
    let state = slots.get(slot)?.ok_or_else(|| rk_torch::Error::new("the saved generator state is gone"))?;
    *parked = Some(device.park_generator()?);
    device.set_generator_state(&state)
}

fn node_name(step: &Step, instr: usize) -> String {
    match step.program.instrs.get(instr) {
        Some(Instr::Run(run)) => step.nodes[run.node.index()].name.clone(),
        _ => "epilogue".into(),
    }
}

/// The error of a failing action, with the operator's name when the action is a call of the body; without an action, the
/// error of the whole launch.
fn failed(step: &Step, segment: &Segment, action: Option<usize>, message: &str) -> RuntimeError {
    let until = action.map_or(0, |action| action + 1);
    let calls = segment.actions[..until].iter().filter(|a| matches!(a, Action::Call(_))).count();
    let ops = match step.program.instrs.get(segment.instr) {
        Some(Instr::Run(run)) => {
            let node = &step.nodes[run.node.index()];
            if let Some(kernel) = &node.kernel {
                return RuntimeError::Execution {
                    place: format!(
                        "program[{}] {:?}: kernel {}",
                        segment.instr, node.name, kernel.aside.symbol
                    ),
                    message: message.lines().next().unwrap_or_default().to_owned(),
                };
            }
            let cloned = usize::from(node.overwrites.is_some() && !run.overwrite);
            node.ops.get(calls.wrapping_sub(1 + cloned))
        }
        _ => step.program.epilogue.get(calls.wrapping_sub(1)),
    };
    let op = ops.map_or(String::new(), |call| format!(": {}", call.op));
    RuntimeError::Execution {
        place: format!("program[{}] {:?}{op}", segment.instr, node_name(step, segment.instr)),
        message: message.lines().next().unwrap_or_default().to_owned(),
    }
}
