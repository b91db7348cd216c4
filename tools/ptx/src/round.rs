//! Rounding to the formats of PTX, in every mode.
//!
//! A result of a narrow format is first computed in f64, rounded to odd: the exact value, or the neighbour whose last bit is set. As f64
//! has two bits more than twice those of f32, f16 and bf16, rounding that once more gives what one rounding of the exact value would.
//!
//! Source: Boldo and Melquiond, *Emulation of FMA and correctly rounded sums: proved algorithms using rounding to odd*, IEEE
//! Transactions on Computers 57(4), 2008; PTX ISA 9.7.3 for the modes.

use crate::types::{Kind, Type};

/// A binary format below f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    F16,
    Bf16,
    F32,
    F64,
}

/// `.rn`, `.rz`, `.rm`, `.rp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rounding {
    Nearest,
    Zero,
    Down,
    Up,
}

impl Format {
    /// Of a float type.
    pub fn of(ty: Type) -> Option<Self> {
        match (ty.kind, ty.bits) {
            (Kind::Brain, 16) => Some(Self::Bf16),
            (Kind::Float, 16) => Some(Self::F16),
            (Kind::Float, 32) => Some(Self::F32),
            (Kind::Float, 64) => Some(Self::F64),
            _ => None,
        }
    }

    /// Bits of the stored fraction, and the exponent of the smallest normal number.
    fn shape(self) -> (i32, i32) {
        match self {
            Self::F16 => (10, -14),
            Self::Bf16 => (7, -126),
            Self::F32 => (23, -126),
            Self::F64 => (52, -1022),
        }
    }

    pub fn bits(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    pub fn sign(self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// The bits of infinity.
    pub fn infinity(self) -> u64 {
        let fraction = self.shape().0 as u32;
        (self.sign() - 1) >> fraction << fraction
    }

    /// What results that are no number are, in PTX but for f64: all bits but the sign.
    pub fn nan(self) -> u64 {
        match self {
            Self::F64 => f64::NAN.to_bits(),
            narrow => narrow.sign() - 1,
        }
    }

    /// The value, exactly.
    pub fn wide(self, bits: u64) -> f64 {
        match self {
            Self::F64 => f64::from_bits(bits),
            Self::F32 => f32::from_bits(bits as u32).into(),
            Self::Bf16 => f32::from_bits((bits as u32) << 16).into(),
            Self::F16 => {
                let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
                let (exponent, fraction) = (bits >> 10 & 0x1f, (bits & 0x3ff) as f64);
                sign * match exponent {
                    0 => fraction * 2f64.powi(-24),
                    0x1f if fraction == 0.0 => f64::INFINITY,
                    0x1f => f64::NAN,
                    normal => (fraction + 1024.0) * 2f64.powi(normal as i32 - 25),
                }
            }
        }
    }

    /// Whether the bits are a subnormal number.
    pub fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = bits & (self.sign() - 1);
        magnitude != 0 && magnitude < 1 << self.shape().0
    }

    /// The bits of a value that is exact or rounded to odd. What is too large becomes infinity, or the largest number in modes that round
    /// towards zero.
    pub fn narrow(self, value: f64, rounding: Rounding) -> u64 {
        if self == Self::F64 {
            return value.to_bits();
        }
        let sign = if value.is_sign_negative() { self.sign() } else { 0 };
        if value.is_nan() {
            return self.nan();
        }
        if value.is_infinite() {
            return sign | self.infinity();
        }
        let (fraction, least) = self.shape();
        let magnitude = value.abs();
        // The weight of the last bit; below the smallest normal number it stays the same. No f64 that is subnormal is above half of it.
        let exponent = ((magnitude.to_bits() >> 52) as i32 - 1023).max(least);
        let scaled = magnitude * 2f64.powi(fraction - exponent);
        let mut units = scaled.floor();
        let rest = scaled - units;
        let away = match rounding {
            Rounding::Nearest => rest > 0.5 || rest == 0.5 && units % 2.0 == 1.0,
            Rounding::Zero => false,
            Rounding::Down => sign != 0 && rest > 0.0,
            Rounding::Up => sign == 0 && rest > 0.0,
        };
        units += f64::from(u8::from(away));
        // The hidden bit, and a carry out of the fraction, count up the exponent by themselves.
        let result = units as u64 + (((exponent - least) as u64) << fraction);
        if result < self.infinity() {
            return sign | result;
        }
        let stays = match rounding {
            Rounding::Nearest => false,
            Rounding::Zero => true,
            Rounding::Down => sign == 0,
            Rounding::Up => sign != 0,
        };
        sign | if stays { self.infinity() - 1 } else { self.infinity() }
    }
}

/// `a + b` rounded to odd.
pub(crate) fn odd_sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if !sum.is_finite() {
        return sum;
    }
    // Knuth's exact error of the sum: no overflow can follow, the numbers come from narrow formats.
    let b_part = sum - a;
    let error = (a - (sum - b_part)) + (b - b_part);
    odd(sum, error)
}

/// An integer rounded to odd.
pub(crate) fn odd_integer(value: i128) -> f64 {
    let near = value as f64;
    odd(near, (value - near as i128) as f64)
}

/// The nearest f64 of a value and what is missing, as rounding to odd has it.
fn odd(near: f64, error: f64) -> f64 {
    let even = near.to_bits() & 1 == 0;
    if error == 0.0 || !even {
        return near;
    }
    if (error > 0.0) == (near > 0.0) {
        f64::from_bits(near.to_bits() + 1)
    } else {
        f64::from_bits(near.to_bits() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    fn numbers(count: usize) -> impl Iterator<Item = f64> {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(1);
        (0..count).map(move |_| {
            let exponent = rng.random_range(-160..140);
            let digits = rng.random_range(1..=53);
            let fraction = rng.random::<u64>() >> 11 >> (53 - digits) << (53 - digits);
            let sign = if rng.random() { 1.0 } else { -1.0 };
            sign * fraction as f64 * 2f64.powi(exponent - 52)
        })
    }

    #[test]
    fn f32_is_rounded_as_the_host_does() {
        for value in
            numbers(1_000_000).chain([0.0, -0.0, f64::INFINITY, f64::MAX, 3.4028235677973366e38, 1e-46])
        {
            let ours = Format::F32.narrow(value, Rounding::Nearest);
            assert_eq!(ours, u64::from((value as f32).to_bits()), "{value:e}");
        }
    }

    #[test]
    fn every_narrow_number_is_itself_and_what_lies_between_has_neighbours() {
        for format in [Format::F16, Format::Bf16] {
            for bits in 0..format.infinity() {
                let (low, high) = (format.wide(bits), format.wide(bits + 1));
                let middle = if high.is_finite() {
                    (low + high) / 2.0
                } else {
                    low + (low - format.wide(bits - 1)) / 2.0
                };
                let even = bits + (bits & 1);
                for sign in [1.0, -1.0] {
                    let bit = if sign > 0.0 { 0 } else { format.sign() };
                    let to = |value: f64, rounding| format.narrow(value * sign, rounding) ^ bit;
                    for mode in [Rounding::Nearest, Rounding::Zero, Rounding::Down, Rounding::Up] {
                        assert_eq!(to(low, mode), bits);
                    }
                    let next = |value: f64| f64::from_bits(value.to_bits() + 1);
                    let before = |value: f64| f64::from_bits(value.to_bits() - 1);
                    assert_eq!(to(middle, Rounding::Nearest), even, "ties to even at {middle:e}");
                    assert_eq!(to(before(middle), Rounding::Nearest), bits);
                    assert_eq!(to(next(middle), Rounding::Nearest), bits + 1);
                    assert_eq!(to(middle, Rounding::Zero), bits);
                    let (down, up) = if sign > 0.0 { (bits, bits + 1) } else { (bits + 1, bits) };
                    assert_eq!((to(middle, Rounding::Down), to(middle, Rounding::Up)), (down, up));
                }
            }
        }
        assert_eq!(Format::F16.narrow(f64::NAN, Rounding::Nearest), 0x7fff);
        assert_eq!(Format::F16.narrow(1e9, Rounding::Zero), 0x7bff);
    }

    #[test]
    fn sums_are_rounded_to_odd() {
        assert_eq!(odd_sum(1.0, 1e-300), 1.0 + f64::EPSILON);
        assert_eq!(odd_sum(1.0, -1e-300), 1.0 - f64::EPSILON / 2.0);
        assert_eq!(odd_sum(-1.0, -1e-300), -1.0 - f64::EPSILON);
        assert_eq!(odd_sum(1.5, 2.0), 3.5);
        assert_eq!(odd_integer((1 << 60) + 1), (1u64 << 60) as f64 * (1.0 + f64::EPSILON));
    }
}
