//! Conversions (`cvt`).
//!
//! Source: PTX ISA 9.7.9.21. A float becomes the integer that its mode gives, clamped to what the type holds; a NaN becomes 0, but 1
//! and zeros behind it from f64 or to 64 bits. Without `.sat` an integer loses its high bits.
//!
//! Absent here: two values in one register (`f16x2`), `tf32`, formats of 8 bits and below, `.relu`.

use crate::float::How;
use crate::round::{Format, Rounding, odd_integer};
use crate::types::{Type, low, signed};

/// A conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Conversion {
    pub from: Type,
    pub to: Type,
    pub rounding: Rounding,
    /// `.rni` and the like, from a float to an integer of the same format; to integer types always.
    pub integral: bool,
    pub flush: bool,
    pub saturate: bool,
}

impl Conversion {
    /// The result; of a signed type with its sign in all higher bits, for registers that are wider.
    pub fn of(self, bits: u64) -> u64 {
        let bits = low(bits, self.from.bits);
        let value = match Format::of(self.from) {
            Some(format) => {
                let flushed = self.flush && format == Format::F32 && format.is_subnormal(bits);
                let value = format.wide(if flushed { bits & format.sign() } else { bits });
                let value = if self.integral { integral(value, self.rounding) } else { value };
                match Format::of(self.to) {
                    Some(to) => return self.float(to, value),
                    None => self.clamped(value),
                }
            }
            None => {
                let value: i128 =
                    if self.from.is_signed() { signed(bits, self.from.bits).into() } else { bits.into() };
                match Format::of(self.to) {
                    Some(Format::F64) => return (value as f64).to_bits(),
                    Some(to) => return self.float(to, odd_integer(value)),
                    None if self.saturate => {
                        let (least, most) = self.range();
                        value.clamp(least, most)
                    }
                    None => value,
                }
            }
        };
        let bits = low(value as u64, self.to.bits);
        if self.to.is_signed() { signed(bits, self.to.bits) as u64 } else { bits }
    }

    fn float(self, format: Format, value: f64) -> u64 {
        // Half-precision results have no `.ftz`.
        let flush = self.flush && format == Format::F32;
        let how = How { format, rounding: self.rounding, flush, saturate: self.saturate, nan: false };
        how.finished(format.narrow(value, self.rounding))
    }

    /// The least and the largest number of the integer type.
    fn range(self) -> (i128, i128) {
        let bits = self.to.bits;
        if self.to.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
    }

    fn clamped(self, value: f64) -> i128 {
        if value.is_nan() {
            let wide = self.from.bits == 64 || self.to.bits == 64;
            return if wide { 1 << (self.to.bits - 1) } else { 0 };
        }
        let (least, most) = self.range();
        (value as i128).clamp(least, most)
    }
}

fn integral(value: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::Nearest => value.round_ties_even(),
        Rounding::Zero => value.trunc(),
        Rounding::Down => value.floor(),
        Rounding::Up => value.ceil(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(to: &str, from: &str, rounding: Rounding, bits: u64) -> u64 {
        let ty = |name| Type::of(name).expect("a type");
        let (to, from) = (ty(to), ty(from));
        let integral = from.is_float() && !to.is_float();
        Conversion { from, to, rounding, integral, flush: false, saturate: false }.of(bits)
    }

    fn f32s(value: f32) -> u64 {
        value.to_bits().into()
    }

    #[test]
    fn floats_become_integers() {
        assert_eq!(check("s32", "f32", Rounding::Zero, f32s(-2.9)), -2i64 as u64);
        assert_eq!(check("s32", "f32", Rounding::Nearest, f32s(2.5)), 2);
        assert_eq!(check("u32", "f32", Rounding::Up, f32s(-5.0)), 0);
        assert_eq!(check("s32", "f32", Rounding::Zero, f32s(1e20)), i32::MAX as u64);
        assert_eq!(check("s32", "f32", Rounding::Zero, f32s(f32::NAN)), 0);
        assert_eq!(check("s64", "f64", Rounding::Zero, f64::NAN.to_bits()), 1 << 63);
        assert_eq!(check("u64", "f64", Rounding::Zero, 1e30f64.to_bits()), u64::MAX);
    }

    #[test]
    fn integers_become_floats_in_one_rounding() {
        // Through f64 this would be rounded twice, to the other side.
        let value = (1u64 << 60) + (1 << 36) + 1;
        assert_eq!(check("f32", "u64", Rounding::Nearest, value), f32s(value as f32));
        assert_eq!(check("f32", "s32", Rounding::Nearest, 0xffff_ffff), f32s(-1.0));
        assert_eq!(check("f32", "u32", Rounding::Zero, 0xffff_ffff), f32s(4294967040.0));
        assert_eq!(check("f16", "u32", Rounding::Nearest, 70_000), 0x7c00);
        assert_eq!(check("f64", "s64", Rounding::Nearest, u64::MAX), (-1f64).to_bits());
    }

    #[test]
    fn integers_are_extended_by_the_sign_of_their_source() {
        assert_eq!(check("s64", "s32", Rounding::Zero, 0x8000_0000), 0xffff_ffff_8000_0000);
        assert_eq!(check("u64", "u32", Rounding::Zero, 0x8000_0000), 0x8000_0000);
        assert_eq!(check("u16", "u32", Rounding::Zero, 0x12345), 0x2345);
        assert_eq!(check("s16", "s8", Rounding::Zero, 0x80), !0x7f);
    }

    #[test]
    fn floats_are_rounded_and_saturated() {
        assert_eq!(check("bf16", "f32", Rounding::Nearest, f32s(1.0 + 3.0 / 256.0)), 0x3f82);
        assert_eq!(check("f16", "f32", Rounding::Nearest, f32s(65520.0)), 0x7c00);
        assert_eq!(check("f32", "f64", Rounding::Down, 0.1f64.to_bits()), f32s(0.099999994));
        let f32 = Type::of("f32").expect("a type");
        let to = |bits, rounding, integral, saturate| {
            Conversion { from: f32, to: f32, rounding, integral, flush: true, saturate }.of(bits)
        };
        assert_eq!(to(f32s(2.5), Rounding::Nearest, true, false), f32s(2.0));
        assert_eq!(to(f32s(-0.3), Rounding::Up, true, false), f32s(-0.0));
        assert_eq!(to(f32s(7.0), Rounding::Nearest, false, true), f32s(1.0));
        assert_eq!(to(f32s(f32::NAN), Rounding::Nearest, false, true), 0);
        assert_eq!(to(f32s(-1e-40), Rounding::Nearest, false, false), f32s(-0.0));
    }
}
