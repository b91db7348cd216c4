//! What the executor does, instruction by instruction.
//!
//! Not here: how a program becomes that ([`crate::prepare`]), and how it is done ([`crate::execution`]).

use rk_torch::{Launch, Prepared};

use crate::cuda;

/// What the executor does; slots are indices into the table.
pub(crate) enum Action {
    /// Runs an operator.
    Call(Prepared),
    /// Runs a generated kernel on the CPU.
    Launch(Launch),
    /// Queues a generated kernel on a GPU.
    Kernel(cuda::Kernel),
    /// Lets `to` share what `from` holds.
    Share { from: usize, to: usize },
    /// Lets go of what a slot holds.
    Clear(usize),
    /// Saves the generator's state there.
    Save(usize),
    /// Sets the generator to the state in this slot, and parks its own.
    Replay(usize),
    /// Puts the parked state back.
    PutBack,
}

/// The actions of one instruction, and what is known about it beforehand.
pub(crate) struct Segment {
    /// Position in the program; one past its end for the epilogue.
    pub instr: usize,
    /// In order. Calls carry nothing else, their place is found by counting when one fails.
    pub actions: Vec<Action>,
    /// Is this a run, or the epilogue, whose peak is measured? Then which launch of the arena.
    pub launch: Option<usize>,
    /// How the bytes of live values whose storage becomes a gradient change by this instruction.
    pub gradient_bytes: i64,
    /// How the number of saved generator states changes.
    pub states: i64,
}
