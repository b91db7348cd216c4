//! What a parsed entry is: types, operands, operations.
//!
//! Registers hold 64 bits, of which those above the register's width are zero. An instruction's type says how the bits are read:
//! registers of LLVM are untyped (`.b32` holds integers and floats).
//!
//! Source: PTX ISA, chapter 5 (state spaces, types) and 9.3 (type information for instructions).

/// How bits are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Predicate,
    /// Untyped.
    Bits,
    Unsigned,
    Signed,
    /// f16, f32, f64.
    Float,
    /// bf16.
    Brain,
}

/// A fundamental type; a predicate has one bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub kind: Kind,
    pub bits: u32,
}

impl Type {
    /// Reads `u32`, `bf16`, `pred` and so on, without their dot.
    pub fn of(name: &str) -> Option<Self> {
        let (kind, bits) = match name {
            "pred" => (Kind::Predicate, 1),
            "bf16" => (Kind::Brain, 16),
            _ => {
                let (kind, sizes): (_, &[u32]) = match name.as_bytes().first()? {
                    b'b' => (Kind::Bits, &[8, 16, 32, 64]),
                    b'u' => (Kind::Unsigned, &[8, 16, 32, 64]),
                    b's' => (Kind::Signed, &[8, 16, 32, 64]),
                    b'f' => (Kind::Float, &[16, 32, 64]),
                    _ => return None,
                };
                let bits = name[1..].parse().ok()?;
                (kind, *sizes.iter().find(|&&size| size == bits)?)
            }
        };
        Some(Self { kind, bits })
    }

    pub fn is_float(self) -> bool {
        matches!(self.kind, Kind::Float | Kind::Brain)
    }

    pub fn is_signed(self) -> bool {
        self.kind == Kind::Signed
    }

    pub fn bytes(self) -> usize {
        self.bits as usize / 8
    }
}

/// The low `bits` bits of a number.
pub(crate) fn low(value: u64, bits: u32) -> u64 {
    if bits >= 64 { value } else { value & ((1 << bits) - 1) }
}

/// The number that the low `bits` bits are in two's complement.
pub(crate) fn signed(value: u64, bits: u32) -> i64 {
    (value << (64 - bits)) as i64 >> (64 - bits)
}

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
        comparison: crate::compare::Comparison,
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
    Integer(crate::integer::Operation, Type),
    Float(crate::float::Operation, crate::float::How),
    Compare(crate::compare::Comparison),
    Convert(crate::convert::Conversion),
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
