//! Comparisons (`setp`, `set` of predicates).
//!
//! Source: PTX ISA 9.7.5 (comparison and selection) and 5.3 of its operators. A NaN is unordered: plain tests are false with it, those with a `u` are true.

use std::cmp::Ordering;

use crate::round::Format;
use crate::types::{Type, low, signed};

/// Which orders satisfy a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Test {
    less: bool,
    equal: bool,
    greater: bool,
    unordered: bool,
}

/// What is done with the predicate behind the operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Combine {
    And,
    Or,
    Xor,
}

/// A comparison of two operands of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Comparison {
    pub test: Test,
    pub ty: Type,
    pub flush: bool,
    pub combine: Option<Combine>,
    /// The result of the test is turned before it is combined: the second predicate of a `setp`.
    pub opposite: bool,
    /// So is the predicate behind the operands.
    pub negated: bool,
}

impl Test {
    /// Reads `lt`, `geu`, `num` and so on. Integers have no unordered tests, floats no `lo`, `ls`, `hi`, `hs`.
    pub fn of(name: &str, ty: Type) -> Option<Self> {
        let test = |less, equal, greater, unordered| Some(Self { less, equal, greater, unordered });
        if ty.is_float() {
            match name {
                "num" => return test(true, true, true, false),
                "nan" => return test(false, false, false, true),
                "ltu" | "equ" | "gtu" | "leu" | "geu" | "neu" => {
                    return Some(Self { unordered: true, ..Self::of(&name[..2], ty)? });
                }
                _ => {}
            }
        }
        match name {
            "eq" => test(false, true, false, false),
            "ne" => test(true, false, true, false),
            "lt" => test(true, false, false, false),
            "le" => test(true, true, false, false),
            "gt" => test(false, false, true, false),
            "ge" => test(false, true, true, false),
            "lo" if !ty.is_float() => test(true, false, false, false),
            "ls" if !ty.is_float() => test(true, true, false, false),
            "hi" if !ty.is_float() => test(false, false, true, false),
            "hs" if !ty.is_float() => test(false, true, true, false),
            _ => None,
        }
    }
}

impl Comparison {
    /// Of two values, with a predicate.
    pub fn of(self, a: u64, b: u64, predicate: u64) -> bool {
        let bits = self.ty.bits;
        let order = match Format::of(self.ty) {
            Some(format) => {
                let value = |bits: u64| {
                    let flushed = self.flush && format.is_subnormal(bits);
                    if flushed { 0.0 } else { format.wide(low(bits, format.bits())) }
                };
                value(a).partial_cmp(&value(b))
            }
            None if self.ty.is_signed() => Some(signed(a, bits).cmp(&signed(b, bits))),
            None => Some(low(a, bits).cmp(&low(b, bits))),
        };
        let is = match order {
            Some(Ordering::Less) => self.test.less,
            Some(Ordering::Equal) => self.test.equal,
            Some(Ordering::Greater) => self.test.greater,
            None => self.test.unordered,
        };
        let (is, predicate) = (is != self.opposite, (predicate != 0) != self.negated);
        match self.combine {
            None => is,
            Some(Combine::And) => is && predicate,
            Some(Combine::Or) => is || predicate,
            Some(Combine::Xor) => is != predicate,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, ty: &str, a: u64, b: u64) -> bool {
        let ty = Type::of(ty).expect("a type");
        let test = Test::of(name, ty).expect("a test");
        Comparison { test, ty, flush: false, combine: None, opposite: false, negated: false }.of(a, b, 0)
    }

    #[test]
    fn a_nan_is_unordered() {
        let (one, nan) = (1f32.to_bits().into(), f32::NAN.to_bits().into());
        for (name, with_nan) in
            [("lt", false), ("ne", false), ("neu", true), ("geu", true), ("nan", true), ("num", false)]
        {
            assert_eq!(check(name, "f32", one, nan), with_nan, "{name}");
        }
        assert!(check("eq", "f32", 0, (-0f32).to_bits().into()) && check("le", "f16", 0xfc00, 0x3c00));
        assert!(check("gt", "bf16", 0x3f80, 0xff80) && !check("neu", "f64", 0, 1 << 63));
    }

    #[test]
    fn signs_are_those_of_the_type() {
        assert!(check("lt", "s32", 0xffff_ffff, 0) && !check("lt", "u32", 0xffff_ffff, 0));
        assert!(check("hi", "u16", 0xffff, 3) && check("eq", "b16", 0x1_0003, 3));
        assert!(Test::of("geu", Type { kind: crate::types::Kind::Signed, bits: 32 }).is_none());
    }
}
