//! The names of instructions that compute one value from others, and the modifiers behind them.
//!
//! Every modifier must be taken by somebody, else the instruction is refused: what is not understood cannot be skipped by accident. `add`,
//! `sub` and `mul` of floats need their rounding, because without it an assembler may fuse them, and the result would be open.
//!
//! Source: PTX ISA 9.7.1 to 9.7.4 and 9.7.8.

use crate::float::{How, Operation as Float};
use crate::integer::Operation as Integer;
use crate::round::{Format, Rounding};
use crate::types::{Kind, Type};

/// What stands behind the name of an instruction, each modifier until somebody takes it.
pub(crate) struct Modifiers<'a>(pub Vec<&'a str>);

impl Modifiers<'_> {
    pub fn take(&mut self, word: &str) -> bool {
        let found = self.0.iter().position(|one| *one == word);
        found.map(|at| self.0.remove(at)).is_some()
    }

    pub fn one_of<T: Copy>(&mut self, words: &[(&str, T)]) -> Option<T> {
        words.iter().find(|(word, _)| self.take(word)).map(|(_, value)| *value)
    }

    /// All types, in their order.
    pub fn types(&mut self) -> Vec<Type> {
        let types = self.0.iter().filter_map(|word| Type::of(word)).collect();
        self.0.retain(|word| Type::of(word).is_none());
        types
    }

    /// The only type.
    pub fn ty(&mut self) -> Result<Type, String> {
        match *self.types() {
            [ty] => Ok(ty),
            _ => Err("one type is expected".into()),
        }
    }

    pub fn rounding(&mut self) -> Option<Rounding> {
        self.one_of(&[
            ("rn", Rounding::Nearest),
            ("rz", Rounding::Zero),
            ("rm", Rounding::Down),
            ("rp", Rounding::Up),
        ])
    }

    pub fn done(&self) -> Result<(), String> {
        if self.0.is_empty() { Ok(()) } else { Err(format!("{:?} is not understood", self.0.join("."))) }
    }
}

/// The operation on floats of this name, and how many arguments it has.
///
/// # Errors
/// It is none, or its rounding is missing or not understood.
pub(crate) fn float(
    name: &str,
    format: Format,
    modifiers: &mut Modifiers<'_>,
) -> Result<(Float, How, usize), String> {
    let (approximate, full) = (modifiers.take("approx"), modifiers.take("full"));
    let rounding = modifiers.rounding();
    let how = How {
        format,
        rounding: rounding.unwrap_or(Rounding::Nearest),
        flush: modifiers.take("ftz"),
        saturate: modifiers.take("sat"),
        nan: ["min", "max"].contains(&name) && modifiers.take("NaN"),
    };
    let double = format == Format::F64;
    // What may stand behind it: r any rounding, n to the nearest only, a an approximation, nothing for what is neither.
    let (operation, arity, kinds) = match name {
        "add" => (Float::Add, 2, "r"),
        "sub" => (Float::Sub, 2, "r"),
        "mul" => (Float::Mul, 2, "r"),
        "fma" | "mad" => (Float::Fma, 3, "r"),
        "div" => (Float::Div, 2, "na"),
        "sqrt" => (Float::Sqrt, 1, "na"),
        "rcp" if double && approximate && how.flush => (Float::GrossReciprocal, 1, "a"),
        "rcp" => (Float::Reciprocal, 1, "na"),
        "rsqrt" if double && approximate && how.flush => (Float::GrossReciprocalSqrt, 1, "a"),
        "rsqrt" => (Float::ReciprocalSqrt, 1, "a"),
        "ex2" => (Float::Exp2, 1, "a"),
        "lg2" => (Float::Log2, 1, "a"),
        "sin" => (Float::Sin, 1, "a"),
        "cos" => (Float::Cos, 1, "a"),
        "tanh" => (Float::Tanh, 1, "a"),
        "neg" => (Float::Neg, 1, ""),
        "abs" => (Float::Abs, 1, ""),
        "copysign" => (Float::CopySign, 2, ""),
        "min" => (Float::Min, 2, ""),
        "max" => (Float::Max, 2, ""),
        _ => return Err("is not understood".into()),
    };
    let given = match (rounding, approximate || full) {
        (Some(Rounding::Nearest), false) => kinds.contains(['r', 'n']),
        // In f64 the host rounds to the nearest only.
        (Some(_), false) => kinds.contains('r') && !double,
        (None, true) if double => {
            use Float::{GrossReciprocal, GrossReciprocalSqrt, ReciprocalSqrt};
            !full && matches!(operation, GrossReciprocal | GrossReciprocalSqrt | ReciprocalSqrt)
        }
        (None, true) => kinds.contains('a') && format == Format::F32 && full == (name == "div"),
        (None, false) => kinds.is_empty(),
        (Some(_), true) => false,
    };
    if given {
        Ok((operation, how, arity))
    } else {
        Err("has no rounding or another one than is understood".into())
    }
}

/// The operation on integers, or on predicates, of this name.
///
/// # Errors
/// It is none.
pub(crate) fn integer(
    name: &str,
    ty: Type,
    modifiers: &mut Modifiers<'_>,
) -> Result<(Integer, usize), String> {
    let part = modifiers.one_of(&[("lo", 0), ("hi", 1), ("wide", 2)]);
    let wraps = modifiers.one_of(&[("wrap", true), ("clamp", false)]);
    let known = match (name, part) {
        ("mul", Some(part)) => ([Integer::MulLow, Integer::MulHigh, Integer::MulWide][part], 2),
        ("mad", Some(part)) => ([Integer::MadLow, Integer::MadHigh, Integer::MadWide][part], 3),
        (_, Some(_)) => return Err("is not understood".into()),
        ("shf", None) => {
            let wraps = wraps.ok_or("wrap or clamp is expected")?;
            let left = modifiers.one_of(&[("l", true), ("r", false)]).ok_or("a direction is expected")?;
            (if left { Integer::FunnelLeft { wraps } } else { Integer::FunnelRight { wraps } }, 3)
        }
        ("add", None) => (Integer::Add, 2),
        ("sub", None) => (Integer::Sub, 2),
        ("div", None) => (Integer::Div, 2),
        ("rem", None) => (Integer::Rem, 2),
        ("abs", None) => (Integer::Abs, 1),
        ("neg", None) => (Integer::Neg, 1),
        ("min", None) => (Integer::Min, 2),
        ("max", None) => (Integer::Max, 2),
        ("and", None) => (Integer::And, 2),
        ("or", None) => (Integer::Or, 2),
        ("xor", None) => (Integer::Xor, 2),
        ("not", None) => (Integer::Not, 1),
        ("cnot", None) => (Integer::LogicalNot, 1),
        ("shl", None) => (Integer::ShiftLeft, 2),
        ("shr", None) => (Integer::ShiftRight, 2),
        ("popc", None) => (Integer::CountOnes, 1),
        ("clz", None) => (Integer::CountZeros, 1),
        ("brev", None) => (Integer::Reverse, 1),
        ("prmt", None) => (Integer::Permute, 3),
        ("bfe", None) => (Integer::Extract, 3),
        ("bfi", None) => (Integer::Insert, 4),
        _ => return Err("is not understood".into()),
    };
    if ty.kind == Kind::Predicate
        && !matches!(known.0, Integer::And | Integer::Or | Integer::Xor | Integer::Not)
    {
        return Err("is not for predicates".into());
    }
    if name != "shf" && wraps.is_some() {
        return Err("is not understood".into());
    }
    Ok(known)
}
