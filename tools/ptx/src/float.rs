//! Floating-point arithmetic.
//!
//! Source: PTX ISA 9.7.3 (f32, f64) and 9.7.4 (half precision). A result that is no number is [`Format::nan`]; `.ftz` takes subnormal numbers
//! for zeros of their sign, `.sat` clamps to 0..1 and makes a NaN 0; -0 is less than +0 for `min` and `max`.
//!
//! # Approximations
//! The ISA bounds what the hardware gives, here is the correctly rounded value (of host functions in f64, good to far more bits than
//! f32 has). Code is right only if it is for every value within the bound:
//!
//! | instruction | bound (PTX ISA 8.x) |
//! |---|---|
//! | `rcp.approx.f32` | 1 unit in the last place |
//! | `sqrt.approx.f32` | relative 2^-23 |
//! | `rsqrt.approx.f32` | relative 2^-22.9 |
//! | `div.full.f32` | 2 units |
//! | `ex2.approx.f32` | 2 units |
//! | `lg2.approx.f32` | absolute 2^-22 between 0.5 and 2, relative 2^-22 elsewhere |
//! | `sin.approx.f32`, `cos.approx.f32` | absolute 2^-20.5 from -2π to 2π |
//! | `tanh.approx.f32` | relative 2^-11 |
//! | `rcp.approx.ftz.f64`, `rsqrt.approx.ftz.f64` | a start for Newton's iteration: the high 32 bits in, the high 32 bits out |
//!
//! Absent here: f16x2 and bf16x2, approximations in f16 and bf16, `div.approx` (which has no value for large divisors), division and roots in other modes than `.rn`, modes other than `.rn` in f64.

use crate::round::{Format, Rounding, odd_sum};
use crate::types::low;

/// An operation on floats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Add,
    Sub,
    Mul,
    Fma,
    Div,
    Sqrt,
    Reciprocal,
    ReciprocalSqrt,
    Neg,
    Abs,
    /// The sign of the first, the magnitude of the second.
    CopySign,
    Min,
    Max,
    Exp2,
    Log2,
    Sin,
    Cos,
    Tanh,
    /// `rcp.approx.ftz.f64`, of the high word only.
    GrossReciprocal,
    /// `rsqrt.approx.ftz.f64`.
    GrossReciprocalSqrt,
    /// `testp`: a predicate.
    Is(Class),
}

/// What `testp` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// The format and the modifiers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct How {
    pub format: Format,
    pub rounding: Rounding,
    /// `.ftz`
    pub flush: bool,
    /// `.sat`
    pub saturate: bool,
    /// `.NaN` of minimum and maximum: one NaN is enough.
    pub nan: bool,
}

impl How {
    /// A subnormal number as a zero, with `.ftz`.
    pub fn flushed(self, bits: u64) -> u64 {
        if self.flush && self.format.is_subnormal(bits) { bits & self.format.sign() } else { bits }
    }

    /// The end of every instruction that rounds.
    pub fn finished(self, bits: u64) -> u64 {
        let bits = self.flushed(bits);
        if !self.saturate {
            return bits;
        }
        let value = self.format.wide(bits);
        let value = if value.is_nan() { 0.0 } else { value.clamp(0.0, 1.0) };
        // Adding 0 makes -0 one, too.
        self.format.narrow(value + 0.0, Rounding::Nearest)
    }
}

impl Operation {
    /// The result, as the bits of the format.
    pub fn of(self, how: How, a: u64, b: u64, c: u64) -> u64 {
        let format = how.format;
        let [a, b, c] = [a, b, c].map(|bits| how.flushed(low(bits, format.bits())));
        let sign = format.sign();
        match self {
            Self::Neg => return a ^ sign,
            Self::Abs => return a & !sign,
            Self::CopySign => return a & sign | b & !sign,
            Self::Min => return extreme(how, a, b, true),
            Self::Max => return extreme(how, a, b, false),
            Self::Is(class) => return class.holds(format, a).into(),
            Self::GrossReciprocal => return gross(a, |x| 1.0 / x),
            Self::GrossReciprocalSqrt => return gross(a, |x| 1.0 / x.sqrt()),
            _ => {}
        }
        let [x, y, z] = [a, b, c].map(|bits| format.wide(bits));
        how.finished(match (format, how.rounding) {
            (Format::F64, _) => self.in_f64(x, y, z).to_bits(),
            (Format::F32, Rounding::Nearest) => self.in_f32(x as f32, y as f32, z as f32),
            _ => format.narrow(self.to_odd(x, y, z), how.rounding),
        })
    }

    fn in_f64(self, x: f64, y: f64, z: f64) -> f64 {
        match self {
            Self::Add => x + y,
            Self::Sub => x - y,
            Self::Mul => x * y,
            Self::Fma => x.mul_add(y, z),
            _ => self.to_odd(x, y, z),
        }
    }

    /// What the host does in one operation is rounded right; this is for speed.
    fn in_f32(self, x: f32, y: f32, z: f32) -> u64 {
        let value = match self {
            Self::Add => x + y,
            Self::Sub => x - y,
            Self::Mul => x * y,
            Self::Fma => x.mul_add(y, z),
            Self::Div => x / y,
            Self::Sqrt => x.sqrt(),
            _ => return Format::F32.narrow(self.to_odd(x.into(), y.into(), z.into()), Rounding::Nearest),
        };
        if value.is_nan() { Format::F32.nan() } else { value.to_bits().into() }
    }

    /// Of values of a narrow format: exact or rounded to odd, but for quotients, roots and functions, which are as good as f64.
    /// (One more rounding to the nearest does not harm quotients and roots: Figueroa, *When is double rounding innocuous?*, 1995.)
    fn to_odd(self, x: f64, y: f64, z: f64) -> f64 {
        match self {
            Self::Add => odd_sum(x, y),
            Self::Sub => odd_sum(x, -y),
            Self::Mul => x * y,
            Self::Fma => odd_sum(x * y, z),
            Self::Div => x / y,
            Self::Sqrt => x.sqrt(),
            Self::Reciprocal => 1.0 / x,
            Self::ReciprocalSqrt => 1.0 / x.sqrt(),
            Self::Exp2 => x.exp2(),
            Self::Log2 => x.log2(),
            Self::Sin => x.sin(),
            Self::Cos => x.cos(),
            Self::Tanh => x.tanh(),
            Self::Neg | Self::Abs | Self::CopySign | Self::Min | Self::Max => f64::NAN,
            Self::Is(_) | Self::GrossReciprocal | Self::GrossReciprocalSqrt => f64::NAN,
        }
    }
}

/// The smaller or the larger, PTX ISA 9.7.3.11 and 12.
fn extreme(how: How, a: u64, b: u64, smaller: bool) -> u64 {
    let format = how.format;
    let (x, y) = (format.wide(a), format.wide(b));
    match (x.is_nan(), y.is_nan()) {
        (true, true) => format.nan(),
        (true, false) | (false, true) if how.nan => format.nan(),
        (true, false) => b,
        (false, true) => a,
        _ => {
            let first_is_less = x < y || x == y && a & format.sign() != 0;
            if first_is_less == smaller { a } else { b }
        }
    }
}

/// A function of the high word of an f64, good to its 20 bits of fraction, PTX ISA 9.7.3.14 and 17.
fn gross(bits: u64, function: impl Fn(f64) -> f64) -> u64 {
    const HIGH: u64 = !0 << 32;
    let flushed = |bits: u64| if Format::F64.is_subnormal(bits) { bits & Format::F64.sign() } else { bits };
    let result = function(f64::from_bits(flushed(bits & HIGH)));
    if !result.is_finite() {
        return result.to_bits() & HIGH;
    }
    // A carry out of the fraction counts up the exponent.
    flushed((result.to_bits() + (1 << 31)) & HIGH)
}

impl Class {
    fn holds(self, format: Format, bits: u64) -> bool {
        let (value, magnitude) = (format.wide(bits), bits & !format.sign());
        match self {
            Self::Finite => value.is_finite(),
            Self::Infinite => value.is_infinite(),
            Self::Number => !value.is_nan(),
            Self::NotANumber => value.is_nan(),
            Self::Normal => value.is_finite() && magnitude != 0 && !format.is_subnormal(bits),
            Self::Subnormal => format.is_subnormal(bits),
        }
    }
}
