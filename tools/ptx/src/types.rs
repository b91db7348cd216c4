//! Types of PTX: how the bits of a register are read.
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
