//! Blocks one after another, and in each the threads one after another, until they wait.
//!
//! A thread runs to its end, to a barrier or to a shuffle; `wait` says when it goes on.
//!
//! Source: PTX ISA chapter 3 (machine model), 5.1 (state spaces).

use crate::compare::Comparison;
use crate::instruction::{Entry, Instruction, Operation, Source, Space, Special, Target};
use crate::memory::{LOCAL, Memory, SHARED, read, write};
use crate::races::{Access, Races};
use crate::types::{Type, low, signed};
use crate::{Error, Place};

/// Threads of a warp.
pub(crate) const WARP: usize = 32;

/// More instructions than any thread of a test needs: half a minute.
const MOST_STEPS: u64 = 1 << 30;

/// What uninitialized shared and local memory holds: as a float tiny and negative, as an address outside of everything.
const UNKNOWN: u8 = 0xaa;

/// Runs a grid.
///
/// # Errors
/// As [`Module::launch`](crate::Module::launch).
pub(crate) fn launch(
    entry: &Entry,
    grid: [u32; 3],
    block: [u32; 3],
    parameters: &[u64],
    memory: &mut Memory,
) -> Result<(), Error> {
    let threads: u64 = block.iter().map(|&n| u64::from(n)).product();
    let refuse = |message: String| Err(Error::Launch(format!("{:?}: {message}", entry.name)));
    if grid.contains(&0) || grid[0] > i32::MAX as u32 || grid[1].max(grid[2]) > 65_535 {
        return refuse(format!("a grid of {grid:?} blocks"));
    }
    if threads == 0 || threads > 1024 || block[2] > 64 {
        return refuse(format!("a block of {block:?} threads"));
    }
    if entry.required.is_some_and(|required| required != block)
        || entry.most.is_some_and(|most| threads > most)
    {
        return refuse(format!("is not made for blocks of {block:?} threads"));
    }
    if parameters.len() != entry.parameters.len() {
        return refuse(format!("{} parameters instead of {}", parameters.len(), entry.parameters.len()));
    }
    let bytes = entry.parameters.last().map_or(0, |last| last.offset + last.bytes);
    let mut given = vec![0; bytes];
    for (parameter, value) in entry.parameters.iter().zip(parameters) {
        let bytes = value.to_le_bytes();
        let Some(bytes) = bytes.get(..parameter.bytes) else {
            return refuse(format!(
                "parameter {:?} of {} bytes is no number",
                parameter.name, parameter.bytes
            ));
        };
        given[parameter.offset..][..parameter.bytes].copy_from_slice(bytes);
    }
    let count = threads as usize;
    let mut run = Run {
        entry,
        grid,
        block,
        parameters: given,
        races: memory.watched.then(Races::default),
        memory,
        threads: vec![Thread { at: 0, steps: 0, state: State::Ready }; count],
        registers: vec![0; count * entry.registers],
        shared: vec![UNKNOWN; entry.shared],
        local: vec![UNKNOWN; entry.local * count],
        number: 0,
        epoch: 0,
        place: [0; 3],
    };
    for z in 0..grid[2] {
        for y in 0..grid[1] {
            for x in 0..grid[0] {
                run.place = [x, y, z];
                run.block()?;
            }
        }
    }
    Ok(())
}

/// A launch under way.
pub(crate) struct Run<'a> {
    pub entry: &'a Entry,
    grid: [u32; 3],
    block: [u32; 3],
    parameters: Vec<u8>,
    memory: &'a Memory,
    races: Option<Races>,
    pub threads: Vec<Thread>,
    /// Of all threads, one behind the other; so is local memory.
    registers: Vec<u64>,
    shared: Vec<u8>,
    local: Vec<u8>,
    /// Of the current block: how many came before it, how many barriers it met, its place in the grid.
    number: u32,
    pub epoch: u32,
    place: [u32; 3],
}

/// Where a thread is.
#[derive(Clone, Copy)]
pub(crate) struct Thread {
    /// The instruction that is next, or that it waits in.
    pub at: usize,
    steps: u64,
    pub state: State,
}

/// What a thread can do next.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum State {
    Ready,
    Barrier,
    Shuffle,
    Done,
}

impl Run<'_> {
    /// One block from its beginning to the end of all its threads.
    fn block(&mut self) -> Result<(), Error> {
        self.number += 1;
        self.epoch = 0;
        self.threads.fill(Thread { at: 0, steps: 0, state: State::Ready });
        self.registers.fill(0);
        self.shared.fill(UNKNOWN);
        self.local.fill(UNKNOWN);
        if let Some(races) = &mut self.races {
            races.forget(SHARED, self.shared.len() as u64);
        }
        loop {
            for thread in 0..self.threads.len() {
                if self.threads[thread].state == State::Ready {
                    self.advance(thread)?;
                }
            }
            if self.exchange()? {
                continue;
            }
            if self.threads.iter().all(|thread| thread.state == State::Done) {
                return Ok(());
            }
            self.meet()?;
        }
    }

    pub fn thread_place(&self, thread: usize) -> Place {
        Place { block: self.place, thread: thread_in(self.block, thread) }
    }

    /// What a thread must not do at an instruction.
    pub fn undefined(&self, thread: usize, at: usize, message: String) -> Error {
        let instruction = self.entry.instructions.get(at).or(self.entry.instructions.last());
        let line = instruction.map_or(0, |instruction| instruction.line);
        Error::Undefined { line, place: self.thread_place(thread), message }
    }

    /// Runs a thread until it waits or ends.
    fn advance(&mut self, thread: usize) -> Result<(), Error> {
        let instructions = &self.entry.instructions;
        let mut at = self.threads[thread].at;
        let state = loop {
            let Some(Instruction { line, guard, operation }) = instructions.get(at) else {
                return Err(self.undefined(thread, at, "runs past the end".into()));
            };
            let steps = &mut self.threads[thread].steps;
            *steps += 1;
            if *steps == MOST_STEPS {
                let message = format!("has not ended after {MOST_STEPS} instructions");
                return Err(self.undefined(thread, at, message));
            }
            if guard.is_some_and(|(predicate, negated)| (self.register(thread, predicate) != 0) == negated) {
                at += 1;
                continue;
            }
            let mut next = at + 1;
            match operation {
                Operation::Compute { to, function, args } => {
                    let args = args.map(|arg| self.value(thread, arg));
                    let result = function.of(args).map_err(|why| self.undefined(thread, at, why.into()))?;
                    self.set(thread, *to, result);
                }
                Operation::Compare { to, opposite, comparison, args } => {
                    let [a, b, c, _] = args.map(|arg| self.value(thread, arg));
                    let other = Comparison { opposite: true, ..*comparison };
                    self.set(thread, Target { register: *to, bits: 1 }, comparison.of(a, b, c).into());
                    self.set(thread, Target { register: *opposite, bits: 1 }, other.of(a, b, c).into());
                }
                Operation::Pack { to, parts, bits } => {
                    let whole = parts
                        .iter()
                        .rev()
                        .fold(0, |whole, &part| whole << bits | low(self.value(thread, part), *bits));
                    self.set(thread, *to, whole);
                }
                Operation::Unpack { parts, from, bits } => {
                    let whole = self.value(thread, *from);
                    for (index, part) in parts.iter().enumerate() {
                        let value = low(whole >> (index as u32 * bits), *bits);
                        part.iter().for_each(|&part| self.set(thread, part, value));
                    }
                }
                Operation::Load { space, ty, to, base, offset } => {
                    let address = self.value(thread, *base).wrapping_add(*offset);
                    let start = self.locate(thread, *line, *space, address, ty.bytes() * to.len(), false)?;
                    for (index, target) in to.iter().enumerate() {
                        // SAFETY: `locate` has checked all these bytes.
                        let value = unsafe { read(start.add(index * ty.bytes()), ty.bytes()) };
                        target.iter().for_each(|&target| self.set(thread, target, extended(*ty, value)));
                    }
                }
                Operation::Store { space, ty, from, base, offset } => {
                    let address = self.value(thread, *base).wrapping_add(*offset);
                    let bytes = ty.bytes() * from.len();
                    let start = self.locate(thread, *line, *space, address, bytes, true)?;
                    for (index, &source) in from.iter().enumerate() {
                        let value = self.value(thread, source);
                        // SAFETY: `locate` has checked that all these bytes may be written.
                        unsafe { write(start.add(index * ty.bytes()), ty.bytes(), value) };
                    }
                }
                Operation::Branch(target) => next = *target,
                Operation::Exit => break State::Done,
                Operation::Barrier => break State::Barrier,
                Operation::Shuffle { .. } => break State::Shuffle,
            }
            at = next;
        };
        self.threads[thread].at = at;
        self.threads[thread].state = state;
        Ok(())
    }

    fn register(&self, thread: usize, register: u32) -> u64 {
        self.registers[thread * self.entry.registers + register as usize]
    }

    pub fn value(&self, thread: usize, source: Source) -> u64 {
        match source {
            Source::Register(register) => self.register(thread, register),
            Source::Number(number) => number,
            Source::Special(special) => u64::from(match special {
                Special::Thread(axis) => self.thread_place(thread).thread[axis],
                Special::Block(axis) => self.place[axis],
                Special::Threads(axis) => self.block[axis],
                Special::Blocks(axis) => self.grid[axis],
                Special::Lane => (thread % WARP) as u32,
            }),
        }
    }

    pub fn set(&mut self, thread: usize, to: Target, value: u64) {
        self.registers[thread * self.entry.registers + to.register as usize] = low(value, to.bits);
    }

    /// Checks an access, and returns where its bytes lie.
    fn locate(
        &mut self,
        thread: usize,
        line: usize,
        space: Space,
        address: u64,
        bytes: usize,
        writes: bool,
    ) -> Result<*mut u8, Error> {
        let (block, place) = (self.block, self.place);
        let refuse = |why| {
            let kind = if writes { "store" } else { "load" };
            let place = Place { block: place, thread: thread_in(block, thread) };
            Err(Error::Access { line, place, kind, address, bytes, why })
        };
        if !address.is_multiple_of(bytes as u64) {
            return refuse("is misaligned");
        }
        let window = 1 << 32;
        let (space, at) = match space {
            Space::Generic if (SHARED..SHARED + window).contains(&address) => {
                (Space::Shared, address - SHARED)
            }
            Space::Generic if (LOCAL..LOCAL + window).contains(&address) => (Space::Local, address - LOCAL),
            Space::Generic => (Space::Global, address),
            other => (other, address),
        };
        let inside = |size: usize| at.checked_add(bytes as u64).is_some_and(|end| end <= size as u64);
        let (start, shadow) = match space {
            Space::Global | Space::Generic => match self.memory.check(at, bytes as u64, writes) {
                Ok(changes) => (at as *mut u8, changes.then_some(at)),
                Err(why) => return refuse(why),
            },
            Space::Shared if inside(self.shared.len()) => {
                (self.shared[at as usize..].as_mut_ptr(), Some(SHARED + at))
            }
            Space::Local if inside(self.entry.local) => {
                (self.local[thread * self.entry.local + at as usize..].as_mut_ptr(), None)
            }
            Space::Parameter if inside(self.parameters.len()) => {
                (self.parameters[at as usize..].as_mut_ptr(), None)
            }
            _ => return refuse("is outside of this memory"),
        };
        if let (Some(races), Some(shadow)) = (&mut self.races, shadow) {
            let who = Access { block: self.number, thread: thread as u32, epoch: self.epoch };
            if let Err((address, other)) = races.touch(who, shadow, bytes as u64, writes) {
                let (place, other) = (self.thread_place(thread), self.accessor(other));
                return Err(Error::Race { line, place, address, other });
            }
        }
        Ok(start)
    }

    /// Who an access was made by.
    fn accessor(&self, access: Access) -> Place {
        let thread = self.thread_place(access.thread as usize).thread;
        let (number, [x, y, _]) = (access.block - 1, self.grid);
        Place { block: [number % x, number / x % y, number / (x * y)], thread }
    }
}

/// The coordinates of a thread in its block.
fn thread_in([x, y, _]: [u32; 3], thread: usize) -> [u32; 3] {
    let thread = thread as u32;
    [thread % x, thread / x % y, thread / (x * y)]
}

/// What a load puts into a register that is wider: the sign of a signed type, else zeros.
fn extended(ty: Type, value: u64) -> u64 {
    if ty.is_signed() { signed(value, ty.bits) as u64 } else { value }
}
