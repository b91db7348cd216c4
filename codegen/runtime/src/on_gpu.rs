//! An execution whose launches are queued on the streams of a GPU.

use std::ops::Range;

use rk_step::launch_schedule::Queued;
use rk_step::queue::Event;
use rk_step::{Instr, LaunchSchedule, Queue, Run, Step};
use tch::Tensor;

use crate::cuda::Driver;
use crate::error::RuntimeError;
use crate::execution::{Execution, Progress};

/// The execution with the driver that it queues on.
pub(crate) struct OnGpu<'p, 'a, 'r> {
    pub execution: &'p mut Execution<'a, 'r>,
    pub driver: &'p mut Driver,
    /// Position in the program of what comes next.
    pub next: usize,
    /// Whether to wait for every launch: on the heap torch's allocator gives memory of one stream to another.
    pub one_by_one: bool,
}

/// How far an execution has come, to begin again from there. Tensors do not own what they show, so that places become free as they would.
pub(crate) struct Moment {
    next: usize,
    progress: Progress,
    tensors: Vec<(usize, Tensor)>,
}

impl Queue for OnGpu<'_, '_, '_> {
    type Error = RuntimeError;

    fn wait(&mut self, stream: u32, event: Event) -> Result<(), RuntimeError> {
        self.driver.wait(stream, event)
    }

    fn launch(&mut self, _: usize, queued: &Queued) -> Result<(), RuntimeError> {
        self.driver.make_current(Some(queued.stream))?;
        // Handles are dropped in program order, on the host: places are ordered by events, not by handles.
        while self.next <= queued.instr {
            self.execution.segment(self.next, Some((self.driver, queued.stream)))?;
            self.next += 1;
        }
        if self.one_by_one {
            self.execution.device.synchronize()?;
        }
        Ok(())
    }

    fn record(&mut self, stream: u32, event: Event) -> Result<(), RuntimeError> {
        self.driver.record(stream, event)
    }
}

impl OnGpu<'_, '_, '_> {
    /// Does what is left of the program, which needs no stream, up to segment `end`.
    ///
    /// # Errors
    /// As [`Execution::segment`].
    pub fn rest(&mut self, end: usize) -> Result<(), RuntimeError> {
        self.driver.make_current(Some(0))?;
        while self.next < end {
            self.execution.segment(self.next, None)?;
            self.next += 1;
        }
        Ok(())
    }

    /// What these launches find in the slots when they begin, apart from arguments and constants, which stay there.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn found(
        &self,
        schedule: &LaunchSchedule,
        launches: Range<usize>,
    ) -> Result<Vec<(usize, Tensor)>, RuntimeError> {
        let step = self.execution.step;
        let read = runs(step, schedule, launches).flat_map(|run| &run.inputs).map(|slot| slot.index());
        let mut read: Vec<usize> = read.filter(|&slot| slot >= step.resident() as usize).collect();
        read.sort_unstable();
        read.dedup();
        self.tensors(read)
    }

    /// Which of these launches read what earlier ones have left in the host's memory: attention leaves there where its mask began in the
    /// random sequence, when it is not captured, and its backward call looks at the number when it is queued.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn of_the_host(
        &self,
        schedule: &LaunchSchedule,
        launches: Range<usize>,
    ) -> Result<Vec<usize>, RuntimeError> {
        let found = self.found(schedule, launches.clone())?;
        let host: Vec<usize> = found.iter().filter(|(_, t)| on_host(t)).map(|(slot, _)| *slot).collect();
        let reads = |&launch: &usize| {
            let mut read =
                runs(self.execution.step, schedule, launch..launch + 1).flat_map(|run| &run.inputs);
            read.any(|slot| host.contains(&slot.index()))
        };
        Ok(launches.filter(reads).collect())
    }

    /// Lets go of what these launches have made on the GPU, which is known by its address: the program's own drops may be in a graph.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn let_go(&mut self, schedule: &LaunchSchedule, launches: Range<usize>) -> Result<(), RuntimeError> {
        for slot in runs(self.execution.step, schedule, launches).flat_map(|run| &run.outputs) {
            if self.execution.slots.get(slot.index())?.is_some_and(|tensor| !on_host(&tensor)) {
                self.execution.slots.clear(slot.index())?;
            }
        }
        Ok(())
    }

    /// The tensors in these slots, in handles that own nothing.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn tensors(
        &self,
        slots: impl IntoIterator<Item = usize>,
    ) -> Result<Vec<(usize, Tensor)>, RuntimeError> {
        let mut tensors = Vec::new();
        for slot in slots {
            let Some(tensor) = self.execution.slots.get(slot)? else { continue };
            tensors.push(match &self.execution.arena {
                Some(arena) => (slot, arena.alias(&tensor)?),
                None => (slot, tensor),
            });
        }
        Ok(tensors)
    }

    /// How far it has come.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn moment(&self) -> Result<Moment, RuntimeError> {
        let tensors = self.tensors(self.execution.step.resident() as usize..self.execution.slots.len())?;
        Ok(Moment { next: self.next, progress: self.execution.progress.clone(), tensors })
    }

    /// Goes back to where it was. What has been queued since must not have run.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn go_back(&mut self, to: Moment) -> Result<(), RuntimeError> {
        for slot in self.execution.step.resident() as usize..self.execution.slots.len() {
            self.execution.slots.clear(slot)?;
        }
        self.put(&to.tensors)?;
        self.next = to.next;
        self.execution.progress = to.progress;
        Ok(())
    }

    /// Puts tensors into their slots.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn put(&mut self, tensors: &[(usize, Tensor)]) -> Result<(), RuntimeError> {
        tensors.iter().try_for_each(|(slot, tensor)| Ok(self.execution.slots.set(*slot, tensor)?))
    }

    /// Puts tensors that were found there into their slots again. What is in the host's memory by now is this run's, and stays.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn put_again(&mut self, found: &[(usize, Tensor)]) -> Result<(), RuntimeError> {
        for (slot, tensor) in found {
            if !self.execution.slots.get(*slot)?.is_some_and(|now| on_host(&now)) {
                self.execution.slots.set(*slot, tensor)?;
            }
        }
        Ok(())
    }
}

fn on_host(tensor: &Tensor) -> bool {
    tensor.device() == tch::Device::Cpu
}

fn runs<'a>(
    step: &'a Step,
    schedule: &'a LaunchSchedule,
    launches: Range<usize>,
) -> impl Iterator<Item = &'a Run> {
    schedule.launches[launches].iter().filter_map(|queued| match &step.program.instrs[queued.instr] {
        Instr::Run(run) => Some(run),
        Instr::Drop(_) => None,
    })
}
