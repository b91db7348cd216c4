//! Integer arithmetic, logic and shifts.
//!
//! Source: PTX ISA 9.7.1 (integer arithmetic) and 9.7.8 (logic and shift).
//!
//! Absent here: carries (`addc`), `mul24`, `lop3`, SIMD video instructions.

use crate::types::{Type, low, signed};

/// An operation on integers; the type says width and sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    /// The low half of the product.
    MulLow,
    /// The high half.
    MulHigh,
    /// All of it, twice as wide.
    MulWide,
    MadLow,
    MadHigh,
    MadWide,
    Div,
    Rem,
    Abs,
    Neg,
    Min,
    Max,
    And,
    Or,
    Xor,
    Not,
    /// 1 for 0, else 0.
    LogicalNot,
    ShiftLeft,
    ShiftRight,
    CountOnes,
    CountZeros,
    Reverse,
    /// Bytes of two registers by the selectors of a third.
    Permute,
    /// A field at b of c bits.
    Extract,
    /// a into b, at c, d bits.
    Insert,
    /// The high word of b:a shifted left by c, which wraps or clamps.
    FunnelLeft {
        wraps: bool,
    },
    /// The low word of b:a shifted right.
    FunnelRight {
        wraps: bool,
    },
}

impl Operation {
    /// The result in the low bits. Arguments may have more bits than the type.
    ///
    /// # Errors
    /// A division by zero, which PTX leaves undefined.
    pub fn of(self, ty: Type, [a, b, c, d]: [u64; 4]) -> Result<u64, &'static str> {
        let bits = ty.bits;
        // The number that an argument is, extended to 64 bits by its sign or by zeros: the low bits of sums and products are the same.
        let number = |value: u64| if ty.is_signed() { signed(value, bits) as u64 } else { low(value, bits) };
        let exact = |value: u64| {
            i128::from(number(value)) - if ty.is_signed() && signed(value, bits) < 0 { 1 << 64 } else { 0 }
        };
        let is_less = |a: u64, b: u64| exact(a) < exact(b);
        let result = match self {
            Self::Add => a.wrapping_add(b),
            Self::Sub => a.wrapping_sub(b),
            Self::MulLow => a.wrapping_mul(b),
            Self::MulWide => number(a).wrapping_mul(number(b)),
            Self::MulHigh => high(exact(a), exact(b), bits),
            Self::MadLow => a.wrapping_mul(b).wrapping_add(c),
            Self::MadHigh => high(exact(a), exact(b), bits).wrapping_add(c),
            // The addend is as wide as the result.
            Self::MadWide => number(a).wrapping_mul(number(b)).wrapping_add(c),
            Self::Div | Self::Rem if low(b, bits) == 0 => return Err("a division by zero is undefined"),
            Self::Div => (exact(a) / exact(b)) as u64,
            Self::Rem => (exact(a) % exact(b)) as u64,
            Self::Abs => signed(a, bits).unsigned_abs(),
            Self::Neg => a.wrapping_neg(),
            Self::Min => {
                if is_less(a, b) {
                    a
                } else {
                    b
                }
            }
            Self::Max => {
                if is_less(a, b) {
                    b
                } else {
                    a
                }
            }
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Not => !a,
            Self::LogicalNot => u64::from(low(a, bits) == 0),
            // Amounts beyond the width are those of the width.
            Self::ShiftLeft => a.checked_shl(low(b, 32) as u32).unwrap_or(0),
            Self::ShiftRight if ty.is_signed() => (signed(a, bits) >> low(b, 32).min(63)) as u64,
            Self::ShiftRight => low(a, bits).checked_shr(low(b, 32) as u32).unwrap_or(0),
            Self::CountOnes => low(a, bits).count_ones().into(),
            Self::CountZeros => u64::from(low(a, bits).leading_zeros() + bits - 64),
            Self::Reverse => a.reverse_bits() >> (64 - bits),
            Self::Permute => permuted(a, b, c).into(),
            Self::Extract => extracted(ty, a, low(b, 8) as u32, low(c, 8) as u32),
            Self::Insert => inserted(bits, a, b, low(c, 8) as u32, low(d, 8) as u32),
            Self::FunnelLeft { wraps } => (low(a, 32) | low(b, 32) << 32) >> (32 - amount(wraps, c)),
            Self::FunnelRight { wraps } => (low(a, 32) | low(b, 32) << 32) >> amount(wraps, c),
        };
        let wide = matches!(self, Self::MulWide | Self::MadWide);
        Ok(low(result, if wide { 2 * bits } else { bits }))
    }
}

/// By how much a funnel of 32 bits shifts.
fn amount(wraps: bool, by: u64) -> u64 {
    if wraps { by & 31 } else { low(by, 32).min(32) }
}

/// The high half of a product; of unsigned 64-bit numbers it does not fit i128.
fn high(a: i128, b: i128, bits: u32) -> u64 {
    if a >= 0 && b >= 0 { ((a as u128 * b as u128) >> bits) as u64 } else { ((a * b) >> bits) as u64 }
}

/// `prmt` in its default mode, PTX ISA 9.7.9.7: each nibble selects a byte, its top bit the byte's sign eight times.
fn permuted(a: u64, b: u64, selectors: u64) -> u32 {
    let bytes = low(a, 32) | low(b, 32) << 32;
    (0..4).fold(0, |result, place| {
        let selector = selectors >> (4 * place) & 0xf;
        let byte = (bytes >> (8 * (selector & 7))) as u8;
        let byte = if selector & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        result | u32::from(byte) << (8 * place)
    })
}

/// `bfe`, PTX ISA 9.7.1.19: what lies beyond the top is the sign, or zero.
fn extracted(ty: Type, a: u64, at: u32, length: u32) -> u64 {
    let top = ty.bits - 1;
    let bit = |place: u32| a >> place & 1;
    let sign = if !ty.is_signed() || length == 0 { 0 } else { bit((at + length - 1).min(top)) };
    (0..ty.bits).fold(0, |result, place| {
        let inside = place < length && at + place <= top;
        result | (if inside { bit(at + place) } else { sign }) << place
    })
}

/// `bfi`, PTX ISA 9.7.1.20.
fn inserted(bits: u32, a: u64, b: u64, at: u32, length: u32) -> u64 {
    (0..length)
        .take_while(|place| at + place < bits)
        .fold(low(b, bits), |result, place| result & !(1 << (at + place)) | (a >> place & 1) << (at + place))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(operation: Operation, ty: &str, args: &[u64]) -> u64 {
        let mut all = [0; 4];
        all[..args.len()].copy_from_slice(args);
        operation.of(Type::of(ty).expect("a type"), all).expect("defined")
    }

    #[test]
    fn arithmetic_wraps_at_the_width() {
        assert_eq!(of(Operation::Add, "s32", &[0xffff_ffff, 2]), 1);
        assert_eq!(of(Operation::Sub, "u16", &[1, 2]), 0xffff);
        assert_eq!(of(Operation::MulLow, "s64", &[u64::MAX, u64::MAX]), 1);
        assert_eq!(of(Operation::MulHigh, "u64", &[u64::MAX, u64::MAX]), u64::MAX - 1);
        assert_eq!(of(Operation::MulHigh, "s64", &[u64::MAX, 5]), u64::MAX);
        assert_eq!(of(Operation::MulHigh, "s64", &[1 << 63, 1 << 63]), 1 << 62);
        assert_eq!(of(Operation::MulHigh, "u32", &[0xffff_ffff, 0xffff_ffff]), 0xffff_fffe);
        assert_eq!(of(Operation::MulWide, "s32", &[0xffff_ffff, 2]), u64::MAX - 1);
        assert_eq!(of(Operation::MulWide, "u32", &[0xffff_ffff, 2]), 0x1_ffff_fffe);
        assert_eq!(of(Operation::MadWide, "u16", &[0xffff, 0xffff, 0x1_0000]), 0xffff_0001);
        assert_eq!(of(Operation::Div, "s32", &[0xffff_fff9, 2]), 0xffff_fffd, "-7 / 2 is -3");
        assert_eq!(of(Operation::Rem, "s32", &[0xffff_fff9, 2]), 0xffff_ffff);
        assert_eq!(of(Operation::Div, "u32", &[0xffff_fff9, 2]), 0x7fff_fffc);
        assert_eq!(of(Operation::Min, "s16", &[0xffff, 1]), 0xffff);
        assert_eq!(of(Operation::Min, "u16", &[0xffff, 1]), 1);
        assert!(Operation::Rem.of(Type::of("u64").expect("a type"), [1, 0, 0, 0]).is_err());
    }

    #[test]
    fn shifts_clamp() {
        assert_eq!(of(Operation::ShiftLeft, "b32", &[1, 31]), 0x8000_0000);
        assert_eq!(of(Operation::ShiftLeft, "b32", &[1, 32]), 0);
        assert_eq!(of(Operation::ShiftLeft, "b64", &[1, 200]), 0);
        assert_eq!(of(Operation::ShiftRight, "s32", &[0x8000_0000, 99]), 0xffff_ffff);
        assert_eq!(of(Operation::ShiftRight, "u32", &[0x8000_0000, 32]), 0);
        assert_eq!(of(Operation::FunnelLeft { wraps: true }, "b32", &[0x8000_0001, 0x10, 33]), 0x21);
        assert_eq!(of(Operation::FunnelLeft { wraps: false }, "b32", &[7, 0x10, 33]), 7);
        assert_eq!(of(Operation::FunnelRight { wraps: true }, "b32", &[0x10, 1, 4]), 0x1000_0001);
    }

    #[test]
    fn bits_and_bytes() {
        assert_eq!(of(Operation::CountZeros, "b32", &[1]), 31);
        assert_eq!(of(Operation::CountZeros, "b64", &[0]), 64);
        assert_eq!(of(Operation::Reverse, "b32", &[1]), 0x8000_0000);
        assert_eq!(of(Operation::Permute, "b32", &[0x3322_1100, 0x7766_5544, 0x7130]), 0x7711_3300);
        assert_eq!(of(Operation::Permute, "b32", &[0x80, 0, 0x8888]), 0xffff_ffff);
        assert_eq!(of(Operation::Extract, "u32", &[0xabcd_ef01, 8, 8]), 0xef);
        assert_eq!(of(Operation::Extract, "s32", &[0xabcd_ef01, 8, 8]), 0xffff_ffef);
        assert_eq!(of(Operation::Extract, "u32", &[0xabcd_ef01, 28, 8]), 0xa);
        assert_eq!(of(Operation::Insert, "b32", &[0x5, 0xffff_ffff, 4, 4]), 0xffff_ff5f);
        assert_eq!(of(Operation::LogicalNot, "b32", &[0]), 1);
        assert_eq!(of(Operation::Not, "b16", &[0]), 0xffff);
    }
}
