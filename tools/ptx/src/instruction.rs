//! What a parsed entry is: its parameters, its instructions, their operands.
//!
//! Source: PTX ISA, chapters 4 and 9. Not here: types ([`crate::types`]), and what each function computes.

use crate::compare::Comparison;
use crate::convert::Conversion;
use crate::float::How;
use crate::types::Type;
use crate::{float, integer};

/// A register that is written: its place and its width.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub register: u32,
    pub bits: u32,
}

/// Read-only registers, PTX ISA chapter 10. The index is 0, 1, 2 for x, y, z.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Special {
    Thread(usize),
    Block(usize),
    Threads(usize),
    Blocks(usize),
    Lane,
}

/// Where an operand comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Source {
    Register(u32),
    Number(u64),
    Special(Special),
}

/// A state space. `Generic` addresses are those of global memory, and windows for shared and local memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Shared,
    Local,
    Parameter,
}

/// Where a source lane comes from, PTX ISA 9.7.9.6.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Up,
    Down,
    Xor,
    Index,
}

/// What an instruction does.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    /// One result of up to four arguments.
    Compute {
        to: Target,
        function: Function,
        args: [Source; 4],
    },
    /// Two predicates: a comparison and its opposite.
    Compare {
        to: u32,
        opposite: u32,
        comparison: Comparison,
        args: [Source; 4],
    },
    /// One register from parts, the lowest first.
    Pack {
        to: Target,
        parts: Vec<Source>,
        bits: u32,
    },
    /// The parts of a register; those without a target are dropped.
    Unpack {
        parts: Vec<Option<Target>>,
        from: Source,
        bits: u32,
    },
    Load {
        space: Space,
        ty: Type,
        to: Vec<Option<Target>>,
        base: Source,
        offset: u64,
    },
    Store {
        space: Space,
        ty: Type,
        from: Vec<Source>,
        base: Source,
        offset: u64,
    },
    Branch(usize),
    Exit,
    Barrier,
    Shuffle {
        mode: Mode,
        to: Target,
        valid: Option<u32>,
        value: Source,
        by: Source,
        clamp: Source,
        mask: Source,
    },
}

/// What is computed from arguments alone.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Function {
    /// The low bits of the argument.
    Copy,
    /// An address plus this, for the windows of generic addresses.
    Offset(u64),
    /// The first or the second, by the predicate behind them.
    Select,
    Integer(integer::Operation, Type),
    Float(float::Operation, How),
    Compare(Comparison),
    Convert(Conversion),
}

impl Function {
    /// The result, or why there is none.
    pub fn of(self, [a, b, c, d]: [u64; 4]) -> Result<u64, &'static str> {
        Ok(match self {
            Self::Copy => a,
            Self::Offset(by) => a.wrapping_add(by),
            Self::Select if c != 0 => a,
            Self::Select => b,
            Self::Integer(operation, ty) => return operation.of(ty, [a, b, c, d]),
            Self::Float(operation, how) => operation.of(how, a, b, c),
            Self::Compare(comparison) => u64::from(comparison.of(a, b, c)),
            Self::Convert(conversion) => conversion.of(a),
        })
    }
}

/// One instruction.
#[derive(Clone, Debug)]
pub(crate) struct Instruction {
    pub line: usize,
    /// The predicate that must be set, or unset with `true`.
    pub guard: Option<(u32, bool)>,
    pub operation: Operation,
}

/// A parameter and where it lies among all.
#[derive(Clone, Debug)]
pub(crate) struct Parameter {
    pub name: String,
    pub offset: usize,
    pub bytes: usize,
}

/// A kernel.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub registers: usize,
    /// Bytes of shared memory of a block, and of local memory of a thread.
    pub shared: usize,
    pub local: usize,
    /// `.reqntid`: the only block that it may be launched with.
    pub required: Option<[u32; 3]>,
    /// `.maxntid`: the most threads of a block.
    pub most: Option<u64>,
    pub instructions: Vec<Instruction>,
}
