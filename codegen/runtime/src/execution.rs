//! One execution of a program: its segments in some order, with what they take.

use rk_step::launch_schedule::{LaunchSchedule, Queued, Region, Work};
use rk_step::{Instr, MemoryAccount, Step};
use rk_torch::{Buffers, Device, Parked, Running, Slots, memory};

use crate::action::{Action, Segment};
use crate::cuda::Driver;
use crate::error::RuntimeError;
use crate::measured::{Excess, Measured};

/// What an execution works on, and what it has measured so far.
pub(crate) struct Execution<'a, 'r> {
    pub step: &'a Step,
    pub device: Device,
    pub slots: &'a mut Slots,
    pub segments: &'a [Segment],
    pub parked: &'a mut Option<Parked>,
    pub account: &'a MemoryAccount,
    pub arena: Option<&'a mut Running<'r>>,
    /// Where kernels of a lowered step must find their tensors; `None` while it is rehearsed on the heap.
    pub places: Option<Places<'a>>,
    /// Bytes of a generator state that the allocator does not see.
    pub uncounted: u64,
    /// Bytes that were allocated before.
    pub resident: u64,
    /// Whether segments run in the order that the plan counted bytes for.
    pub planned: bool,
    pub progress: Progress,
}

/// What a lowered step's kernels are launched with.
pub(crate) struct Places<'a> {
    pub schedule: &'a LaunchSchedule,
    /// Address of the arena.
    pub arena: usize,
    /// Address of the gradient space; `None` where what it would hold leaves the step.
    pub gradients: Option<usize>,
}

#[derive(Clone, Default)]
pub(crate) struct Progress {
    gradient_bytes: i64,
    states: i64,
    peak: u64,
    peak_at: Option<usize>,
    excess: Option<(usize, u64)>,
}

impl Execution<'_, '_> {
    /// Executes the segment of an instruction, or of the epilogue behind them. On a GPU generated kernels go to `stream` of `driver`.
    ///
    /// # Errors
    /// When an operator fails, named with instruction and node.
    pub fn segment(&mut self, at: usize, gpu: Option<(&Driver, u32)>) -> Result<(), RuntimeError> {
        let Self { step, device, slots, segments, parked, account, arena, places, progress, .. } = self;
        let segment = &segments[at];
        if let Some(launch) = segment.launch {
            memory::reset_peak(*device)?;
            if let Some(arena) = arena {
                arena.begin(launch)?;
            }
        }
        for (k, action) in segment.actions.iter().enumerate() {
            let placed = |buffers: &Buffers, slots: &Slots| match (&*places, segment.launch) {
                (Some(places), Some(launch)) => places.check(launch, &buffers.addresses(slots)?),
                _ => Ok(()),
            };
            let done = match action {
                Action::Call(call) => call.run(slots),
                Action::Launch(launch) => placed(launch.buffers(), slots).and_then(|()| launch.run(slots)),
                Action::Kernel(kernel) => {
                    let (driver, stream) = gpu.ok_or_else(|| {
                        RuntimeError::Device(
                            "generated kernels for CUDA need a lowered step; run --rk-lower".into(),
                        )
                    })?;
                    placed(&kernel.buffers, slots).and_then(|()| {
                        driver.launch(kernel, slots, stream).map_err(|e| rk_torch::Error::new(e.to_string()))
                    })
                }
                Action::Clear(slot) => slots.clear(*slot),
                Action::Share { from, to } => slots.copy(*from, *to),
                Action::Save(slot) => device.generator_state().and_then(|s| slots.set(*slot, &s)),
                Action::Replay(slot) => replay(*device, slots, *slot, parked),
                Action::PutBack => parked.take().map_or(Ok(()), Parked::put_back),
            };
            done.map_err(|e| failed(step, segment, Some(k), e.message()))?;
        }
        progress.gradient_bytes += segment.gradient_bytes;
        progress.states += segment.states;
        if segment.launch.is_some() {
            if let Some(arena) = arena {
                arena.end(slots).map_err(|e| failed(step, segment, None, e.message()))?;
            }
            let seen = memory::read(*device)?.peak + progress.states.unsigned_abs() * self.uncounted;
            let used = seen.saturating_sub(self.resident + progress.gradient_bytes.unsigned_abs());
            if used > progress.peak {
                (progress.peak, progress.peak_at) = (used, Some(segment.instr));
            }
            let during =
                account.during.get(segment.instr).copied().filter(|_| self.planned).unwrap_or(u64::MAX);
            if used > during && progress.excess.is_none_or(|(_, by)| used - during > by) {
                progress.excess = Some((segment.instr, used - during));
            }
        }
        Ok(())
    }

    /// What was measured, and how far it has come: the second half of an interrupted step goes on from there.
    pub fn end(self) -> (Measured, Progress) {
        let Self { step, account, arena, progress, .. } = self;
        let measured = Measured {
            peak_bytes: progress.peak,
            peak_node: progress.peak_at.map_or(String::new(), |at| node_name(step, at)),
            resident_bytes: self.resident,
            excess: progress.excess.map(|(at, by)| Excess {
                node: node_name(step, at),
                planned_bytes: account.during[at],
                measured_bytes: account.during[at] + by,
            }),
            counts: arena.map(|arena| arena.counts()),
            queued: None,
        };
        (measured, progress)
    }
}

impl Places<'_> {
    /// Whether a kernel's tensors lie where the launch sequence has them. What it does not place (arguments) lies anywhere.
    fn check(&self, launch: usize, addresses: &[usize]) -> Result<(), rk_torch::Error> {
        let Some(Queued { work: Work::Kernel { parameters, symbol, .. }, .. }) =
            self.schedule.launches.get(launch)
        else {
            return Err(rk_torch::Error::new("the launch sequence has no kernel here"));
        };
        for (index, (parameter, &address)) in parameters.iter().zip(addresses).enumerate() {
            let base = match parameter.region {
                Region::Arena => Some(self.arena),
                Region::Gradients => self.gradients,
                Region::Resident(_) | Region::Generator => None,
            };
            let Some(base) = base else { continue };
            if address != base + parameter.offset as usize {
                let message = format!(
                    "parameter {index} of {symbol} is not at its planned offset {} of {:?}",
                    parameter.offset, parameter.region
                );
                return Err(rk_torch::Error::new(message));
            }
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

/// The first line that says something.
fn first_line(message: &str) -> String {
    let said = message.lines().map(str::trim).find(|line| !line.is_empty());
    said.unwrap_or("an error without a message").to_owned()
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
                    message: first_line(message),
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
        message: first_line(message),
    }
}
