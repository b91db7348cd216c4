//! The launch sequence of a lowered step: what is queued, on which stream, with which addresses, and behind what it must wait.
//!
//! A device runs one stream in order and two streams in any order, unless one waits for an event of the other. The sequence is
//! made so that every such order computes what the program computes: two launches that touch a byte, one of them to write it,
//! keep the order of the program ([`LaunchSchedule::of`] puts the waits, [`LaunchSchedule::check`] proves it by other means). Bytes are
//! those of the arena, so reuse of a dead value's place is ordered like any other write, and no layout is needed for streams.
//!
//! It knows nothing of CUDA: [`crate::queue`] hands it to whatever has streams, a GPU or the emulation of one.

use crate::error::Invalid;
use crate::kernel::Geometry;
use crate::layout::{Layout, Space};
use crate::model::{Instr, Run, Slot, Step};

/// Memory that a launch may touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Region {
    /// The arena.
    Arena,
    /// The gradient space.
    Gradients,
    /// The tensor of an argument or a constant.
    Resident(Slot),
    /// The state of the default generator.
    Generator,
}

/// Bytes that a launch reads or writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// Where.
    pub region: Region,
    /// The first byte.
    pub from: u64,
    /// One past the last byte.
    pub to: u64,
    /// Whether it may be written.
    pub writes: bool,
}

impl Access {
    /// Whether the order of the two matters.
    pub fn conflicts(&self, other: &Access) -> bool {
        (self.writes || other.writes)
            && self.region == other.region
            && self.from < other.to
            && other.from < self.to
    }
}

/// Where a parameter of a kernel points: the first byte of the tensor's storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// In which memory.
    pub region: Region,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// What a launch runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    /// The ATen calls of the node, through the dispatcher.
    Library,
    /// A generated kernel.
    Kernel {
        /// Its name in the library of the step.
        symbol: String,
        /// Blocks and threads; `None` on the CPU, where rows are divided among threads.
        geometry: Option<Geometry>,
        /// Its parameters, in order.
        parameters: Vec<Address>,
    },
}

/// One launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// Position of the run in the program.
    pub instr: usize,
    /// The stream that it is queued on.
    pub stream: u32,
    /// Launches of other streams, by their position in the sequence, whose events it waits for. At most one per stream.
    pub waits: Vec<usize>,
    /// Whether an event is recorded behind it: somebody waits for it.
    pub records: bool,
    /// What it runs.
    pub work: Work,
    /// What it touches.
    pub accesses: Vec<Access>,
}

/// The launches of a step, in the order in which they are queued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchSchedule {
    /// Number of streams.
    pub streams: u32,
    /// In order.
    pub launches: Vec<Queued>,
}

impl LaunchSchedule {
    /// The sequence of a valid step with this layout.
    ///
    /// # Errors
    /// More streams than launches.
    pub fn of(step: &Step, layout: &Layout) -> Result<Self, Invalid> {
        let places = Places::of(step, layout);
        let mut launches = Vec::with_capacity(layout.launches.len());
        for launch in &layout.launches {
            let instr = launch.instr as usize;
            let Some(Instr::Run(run)) = step.program.instrs.get(instr) else { continue };
            let mut accesses = places.accesses(run);
            if launch.workspace_bytes > 0 {
                let (from, to) = (launch.workspace_offset, launch.workspace_offset + launch.workspace_bytes);
                accesses.push(Access { region: Region::Arena, from, to, writes: true });
            }
            let (stream, work) = (launch.stream, places.work(run));
            launches.push(Queued { instr, stream, waits: vec![], records: false, work, accesses });
        }
        let schedule = Self::ordered(launches);
        if schedule.streams as usize > schedule.launches.len().max(1) {
            let message = format!("{} streams for {} launches", schedule.streams, schedule.launches.len());
            return Err(Invalid { place: "layout.launches".into(), message });
        }
        Ok(schedule)
    }

    /// Launches in program order, with the waits that they need; those that they have are forgotten.
    pub fn ordered(launches: Vec<Queued>) -> Self {
        let streams = launches.iter().map(|one| one.stream + 1).max().unwrap_or(1);
        let mut schedule = Self { streams, launches };
        schedule.launches.iter_mut().for_each(|one| one.records = false);
        schedule.order();
        schedule
    }

    /// Puts the waits: for each launch, from its predecessor backwards, whatever it conflicts with and is not behind already.
    fn order(&mut self) {
        // Per launch and stream, how many launches of the sequence are done on that stream before it begins.
        let mut done: Vec<Vec<usize>> = Vec::with_capacity(self.launches.len());
        let mut last: Vec<Option<usize>> = vec![None; self.streams as usize];
        for at in 0..self.launches.len() {
            let stream = self.launches[at].stream as usize;
            let mut known = last[stream].map_or_else(|| vec![0; last.len()], |before| done[before].clone());
            known[stream] = at;
            let mut waits = Vec::new();
            for before in (0..at).rev() {
                let other = &self.launches[before];
                if before < known[other.stream as usize] {
                    continue;
                }
                let conflict = |a: &Access| other.accesses.iter().any(|b| a.conflicts(b));
                if self.launches[at].accesses.iter().any(conflict) {
                    waits.push(before);
                    known
                        .iter_mut()
                        .zip(&done[before])
                        .for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
                    known[other.stream as usize] = before + 1;
                }
            }
            waits.sort_unstable();
            waits.iter().for_each(|&before| self.launches[before].records = true);
            self.launches[at].waits = waits;
            done.push(known);
            last[stream] = Some(at);
        }
    }

    /// For each launch the set of launches that are done before it begins, by streams and events alone.
    fn before(&self) -> Vec<Vec<bool>> {
        let mut sets: Vec<Vec<bool>> = Vec::with_capacity(self.launches.len());
        for (at, launch) in self.launches.iter().enumerate() {
            let mut set = vec![false; at];
            let previous = self.launches[..at].iter().rposition(|one| one.stream == launch.stream);
            for &one in launch.waits.iter().chain(&previous) {
                set[one] = true;
                set.iter_mut().zip(&sets[one]).for_each(|(mine, theirs)| *mine |= theirs);
            }
            sets.push(set);
        }
        sets
    }

    /// Whether every order of execution that streams and events allow computes the same. (S7 for streams: what may run at the same
    /// time shares no byte that is written.)
    ///
    /// # Errors
    /// Two launches that race, or one that waits for what has not been queued.
    pub fn check(&self) -> Result<(), Invalid> {
        let refuse = |at: usize, message: String| {
            Err(Invalid { place: format!("program[{}]", self.launches[at].instr), message })
        };
        for (at, launch) in self.launches.iter().enumerate() {
            if launch.stream >= self.streams
                || launch.waits.iter().any(|&one| one >= at || !self.launches[one].records)
            {
                return refuse(at, "waits for an event that nobody has recorded".into());
            }
        }
        for (at, set) in self.before().iter().enumerate() {
            for (one, _) in set.iter().enumerate().filter(|(_, ordered)| !**ordered) {
                let other = &self.launches[one];
                for a in &self.launches[at].accesses {
                    if let Some(b) = other.accesses.iter().find(|b| a.conflicts(b)) {
                        let (from, to) = (a.from.max(b.from), a.to.min(b.to));
                        let message = format!(
                            "S7: races with program[{}] on another stream for bytes {from}..{to} of {:?}",
                            other.instr, a.region
                        );
                        return refuse(at, message);
                    }
                }
            }
        }
        Ok(())
    }

    /// For each launch, whether another one may run at the same time.
    pub fn accompanied(&self) -> Vec<bool> {
        let mut accompanied = vec![false; self.launches.len()];
        if self.streams > 1 {
            for (at, set) in self.before().iter().enumerate() {
                for (one, _) in set.iter().enumerate().filter(|(_, ordered)| !**ordered) {
                    (accompanied[at], accompanied[one]) = (true, true);
                }
            }
        }
        accompanied
    }
}

/// Where slots lie.
struct Places<'a> {
    step: &'a Step,
    /// By slot: address and bytes.
    of: Vec<Option<(Address, u64)>>,
}

impl<'a> Places<'a> {
    fn of(step: &'a Step, layout: &Layout) -> Self {
        let mut of = vec![None; step.program.slots as usize];
        let specs = step.args.iter().map(|arg| &arg.spec).chain(step.constants.iter().map(|one| &one.spec));
        for (slot, spec) in specs.enumerate() {
            let region = Region::Resident(Slot(slot as u32));
            of[slot] = Some((Address { region, offset: 0 }, spec.bytes()));
        }
        for place in &layout.places {
            let region = match place.space {
                Space::Arena => Region::Arena,
                Space::Gradients => Region::Gradients,
            };
            of[place.slot.index()] = Some((Address { region, offset: place.offset }, place.bytes));
        }
        Self { step, of }
    }

    fn access(&self, slot: Slot, writes: bool) -> Option<Access> {
        let (address, bytes) = self.of[slot.index()].filter(|(_, bytes)| *bytes > 0)?;
        let (from, to) = (address.offset, address.offset + bytes);
        Some(Access { region: address.region, from, to, writes })
    }

    /// What a run touches besides its workspace.
    fn accesses(&self, run: &Run) -> Vec<Access> {
        let node = &self.step.nodes[run.node.index()];
        // State of the model that the calls change. A call may name it through a view: then it could be any input.
        let mut changed = vec![false; run.inputs.len()];
        for call in node.ops.iter().filter(|_| !run.again) {
            for &position in &call.effects {
                call.args[position as usize].for_each_value(
                    &mut |local| match changed.get_mut(local as usize) {
                        Some(input) => *input = true,
                        None => changed.fill(true),
                    },
                );
            }
        }
        if node.once {
            changed.fill(true);
        }
        let overwritten = node.overwrites.filter(|_| run.overwrite);
        let inputs = run.inputs.iter().enumerate().filter_map(|(index, &slot)| {
            self.access(slot, changed[index] || overwritten == Some(index as u32))
        });
        let made = run.outputs.iter().chain(&run.state_out).filter_map(|&slot| self.access(slot, true));
        let replayed = run.state_in.and_then(|slot| self.access(slot, false));
        let draws = node.random || run.state_in.is_some() || run.state_out.is_some();
        let generator = Access { region: Region::Generator, from: 0, to: 1, writes: true };
        inputs.chain(made).chain(replayed).chain(draws.then_some(generator)).collect()
    }

    fn work(&self, run: &Run) -> Work {
        let node = &self.step.nodes[run.node.index()];
        let Some(kernel) = &node.kernel else { return Work::Library };
        let launch = kernel.launch(run.overwrite);
        let address = |slot: Slot| {
            self.of[slot.index()].map_or(Address { region: Region::Arena, offset: 0 }, |(address, _)| address)
        };
        Work::Kernel {
            symbol: launch.symbol.clone(),
            geometry: launch.geometry,
            parameters: launch.buffers.iter().map(|buffer| address(buffer.slot(run))).collect(),
        }
    }
}
