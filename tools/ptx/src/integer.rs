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
    pub fn of(self, ty: Type, args: [u64; 4]) -> Result<u64, &'static str> {
        let bits = ty.bits;
        // As numbers of 128 bits nothing overflows, and sign and zero extension are the same code.
        let number = |value: u64| -> i128 {
            if ty.is_signed() { signed(value, bits).into() } else { low(value, bits).into() }
        };
        let [a, b, c, _] = args.map(number);
        let [ra, rb, rc, rd] = args;
        let shift = low(rc, 32).min(64) as u32;
        let by = low(rb, 32) as u32;
        let result = match self {
            Self::Add => a + b,
            Self::Sub => a - b,
            Self::MulLow | Self::MulWide => a.wrapping_mul(b),
            Self::MulHigh => high(a, b, bits),
            Self::MadLow => a.wrapping_mul(b).wrapping_add(c),
            Self::MadHigh => high(a, b, bits) + c,
            // The addend is as wide as the result.
            Self::MadWide => {
                let wide =
                    if ty.is_signed() { signed(rc, 2 * bits).into() } else { i128::from(low(rc, 2 * bits)) };
                a * b + wide
            }
            Self::Div | Self::Rem if b == 0 => return Err("a division by zero is undefined"),
            Self::Div => a / b,
            Self::Rem => a % b,
            Self::Abs => a.abs(),
            Self::Neg => -a,
            Self::Min => a.min(b),
            Self::Max => a.max(b),
            Self::And => a & b,
            Self::Or => a | b,
            Self::Xor => a ^ b,
            Self::Not => !a,
            Self::LogicalNot => i128::from(low(ra, bits) == 0),
            // Amounts beyond the width are those of the width.
            Self::ShiftLeft => i128::from(low(ra, bits)) << by.min(bits),
            Self::ShiftRight => a >> by.min(bits),
            Self::CountOnes => low(ra, bits).count_ones().into(),
            Self::CountZeros => i128::from(low(ra, bits).leading_zeros() + bits - 64),
            Self::Reverse => i128::from(ra.reverse_bits() >> (64 - bits)),
            Self::Permute => permuted(ra, rb, rc).into(),
            Self::Extract => extracted(ty, ra, low(rb, 8) as u32, low(rc, 8) as u32),
            Self::Insert => inserted(bits, ra, rb, low(rc, 8) as u32, low(rd, 8) as u32),
            Self::FunnelLeft { wraps } => {
                let by = if wraps { rc as u32 & 31 } else { shift.min(32) };
                ((low(rb, 32) as u128) << 32 | low(ra, 32) as u128) as i128 >> (32 - by)
            }
            Self::FunnelRight { wraps } => {
                let by = if wraps { rc as u32 & 31 } else { shift.min(32) };
                ((low(rb, 32) as u128) << 32 | low(ra, 32) as u128) as i128 >> by
            }
        };
        let wide = matches!(self, Self::MulWide | Self::MadWide);
        Ok(low(result as u64, if wide { 2 * bits } else { bits }))
    }
}

/// The high half of a product; of unsigned 64-bit numbers it does not fit i128.
fn high(a: i128, b: i128, bits: u32) -> i128 {
    if a >= 0 && b >= 0 { ((a as u128 * b as u128) >> bits) as i128 } else { (a * b) >> bits }
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
fn extracted(ty: Type, a: u64, at: u32, length: u32) -> i128 {
    let top = ty.bits - 1;
    let bit = |place: u32| a >> place & 1;
    let sign = if !ty.is_signed() || length == 0 { 0 } else { bit((at + length - 1).min(top)) };
    (0..ty.bits).fold(0, |result, place| {
        let inside = place < length && at + place <= top;
        result | i128::from(if inside { bit(at + place) } else { sign }) << place
    })
}

/// `bfi`, PTX ISA 9.7.1.20.
fn inserted(bits: u32, a: u64, b: u64, at: u32, length: u32) -> i128 {
    (0..length)
        .take_while(|place| at + place < bits)
        .fold(low(b, bits), |result, place| result & !(1 << (at + place)) | (a >> place & 1) << (at + place))
        as i128
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
