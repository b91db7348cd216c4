//! Executes PTX on the CPU, for tests: what LLVM's NVPTX back end emits for generated kernels (sm_80, sm_90).
//!
//! [`Module::parse`] reads the text, [`Module::launch`] runs every thread of a grid against host memory. All that a GPU would leave
//! undefined or silently do is an error with its line and thread: an access outside of what the caller [allowed](Memory::allow),
//! a misaligned one, a write to what is read-only, a barrier that not all threads meet, a shuffle from a lane that is not there, and, if
//! [asked for](Memory::watch_races), two threads that touch the same byte without a barrier between them when one of them writes. An
//! instruction, modifier or directive that is not understood is an error at parsing, never skipped.
//!
//! ```
//! let text = ".version 8.0 .target sm_80 .address_size 64
//!     .visible .entry twice(.param .u64 p) {
//!       .reg .b32 %r<3>; .reg .b64 %rd<4>;
//!       ld.param.b64 %rd1, [p];
//!       mov.u32 %r1, %tid.x;
//!       mul.wide.u32 %rd2, %r1, 4;
//!       add.s64 %rd3, %rd1, %rd2;
//!       ld.global.b32 %r2, [%rd3];
//!       add.rn.f32 %r2, %r2, %r2;
//!       st.global.b32 [%rd3], %r2;
//!       ret; }";
//! let mut data = [1.5f32, 2.0, -3.0];
//! let mut memory = rk_ptx::Memory::new();
//! // SAFETY: `data` outlives the launch, and nobody else looks at it meanwhile.
//! unsafe { memory.allow(data.as_mut_ptr() as u64, 12, true) };
//! let module = rk_ptx::Module::parse(text)?;
//! module.launch("twice", [1, 1, 1], [3, 1, 1], &[data.as_ptr() as u64], &mut memory)?;
//! assert_eq!(data, [3.0, 4.0, -6.0]);
//! assert!(module.launch("twice", [1, 1, 1], [4, 1, 1], &[data.as_ptr() as u64], &mut memory).is_err());
//! # Ok::<(), rk_ptx::Error>(())
//! ```
//!
//! | module | what it does |
//! |---|---|
//! | `token`, `parse`, `body` | text to entries: directives, variables; registers with their scopes, labels, operands |
//! | `decode`, `mnemonic` | a name with its modifiers and operands to one operation |
//! | `types` | types, operations, what an entry is |
//! | `integer`, `float`, `round`, `convert`, `compare` | what one instruction computes |
//! | `execute`, `wait` | blocks and threads; barriers and shuffles |
//! | `memory`, `races` | the bytes that may be touched, and by whom they were |
//!
//! # Semantics
//! NVIDIA's *Parallel Thread Execution ISA* (8.x); the modules name its chapters. Arithmetic with a rounding (`.rn`) is exact to the
//! bit, subnormal numbers and signed zeros included. What the ISA leaves open is chosen so: an f32, f16 or bf16 result that is no number is the canonical NaN (all bits but the sign), in f64 it is
//! what the host makes. Instructions with `.approx` give the correctly rounded value, where the hardware is within a stated bound of it: see `float`.
//!
//! # Threads
//! One after another, each until it meets a barrier or a shuffle: an order that a GPU is free to take, the same every time. So a
//! missing barrier may go unnoticed in the results, and is found by watching races.
//!
//! **Absent here:** time, caches, the memory model beyond races (fences, weak and strong accesses), atomics, calls, textures, tensor cores, matrix
//! instructions, f16x2 arithmetic. No crate that is shipped uses this one.

#![warn(missing_docs)]

mod compare;
mod convert;
mod decode;
mod execute;
mod float;
mod instruction;
mod integer;
mod memory;
mod mnemonic;
mod parse;
mod races;
mod round;
mod token;
mod types;
mod wait;

pub use memory::Memory;

use instruction::Entry;

/// A module of PTX whose entries can be launched.
#[derive(Clone, Debug)]
pub struct Module {
    entries: Vec<Entry>,
}

impl Module {
    /// Reads a module.
    ///
    /// # Errors
    /// [`Error::Text`] for what is no PTX or not understood.
    pub fn parse(text: &str) -> Result<Self, Error> {
        Ok(Self { entries: parse::module(text)? })
    }

    /// The names of all entries, in the order of the text.
    pub fn entries(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().map(|entry| entry.name.as_str())
    }

    /// How many bytes each parameter of an entry takes.
    ///
    /// # Errors
    /// [`Error::NoEntry`].
    pub fn parameters(&self, entry: &str) -> Result<Vec<usize>, Error> {
        Ok(self.entry(entry)?.parameters.iter().map(|parameter| parameter.bytes).collect())
    }

    /// Runs all threads of a grid to their end. `parameters` are one number each: the low bytes of it are the parameter.
    ///
    /// # Errors
    /// [`Error::Launch`] for a launch that no GPU would take; otherwise the first thread that did what it must not.
    /// Memory then holds what was written until there.
    pub fn launch(
        &self,
        entry: &str,
        grid: [u32; 3],
        block: [u32; 3],
        parameters: &[u64],
        memory: &mut Memory,
    ) -> Result<(), Error> {
        execute::launch(self.entry(entry)?, grid, block, parameters, memory)
    }

    fn entry(&self, name: &str) -> Result<&Entry, Error> {
        self.entries.iter().find(|entry| entry.name == name).ok_or_else(|| Error::NoEntry(name.into()))
    }
}

/// A thread of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// `%ctaid`.
    pub block: [u32; 3],
    /// `%tid`.
    pub thread: [u32; 3],
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "thread {:?} of block {:?}", self.thread, self.block)
    }
}

/// Why a module cannot be read or a launch went wrong. Lines count from 1.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The text is no PTX, or more of it than is understood here.
    #[error("line {line}: {message}")]
    Text {
        /// Of the text.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The module has no such entry.
    #[error("the module has no entry {0:?}")]
    NoEntry(String),
    /// Grid, block or parameters are not what the entry or a GPU can take.
    #[error("{0}")]
    Launch(String),
    /// A thread touched what it must not.
    #[error("line {line}: {place}: {kind} of {bytes} bytes at {address:#x}: {why}")]
    Access {
        /// Of the instruction.
        line: usize,
        /// Who.
        place: Place,
        /// `load` or `store`.
        kind: &'static str,
        /// As the thread has it; offsets for shared memory.
        address: u64,
        /// How many.
        bytes: usize,
        /// What is wrong with it.
        why: &'static str,
    },
    /// Two threads touched the same byte, one of them wrote, and nothing orders them.
    #[error("line {line}: {place}: race at {address:#x} with {other}")]
    Race {
        /// Of the instruction.
        line: usize,
        /// Who came second, here.
        place: Place,
        /// The first such byte.
        address: u64,
        /// Who came first.
        other: Place,
    },
    /// A barrier, a shuffle or arithmetic that is undefined, or a thread that does not end.
    #[error("line {line}: {place}: {message}")]
    Undefined {
        /// Of the instruction.
        line: usize,
        /// Who.
        place: Place,
        /// What is wrong.
        message: String,
    },
}
