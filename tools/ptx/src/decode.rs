//! One instruction: its mnemonic with all modifiers, and its operands, to an [`Operation`].
//!
//! Source: PTX ISA 9.7, whose sections the modules of the functions name; 9.7.5 (comparison), 9.7.9 (data movement), 9.7.12 (control flow), 9.7.13 (barriers).

use crate::compare::{Combine, Comparison, Test};
use crate::convert::Conversion;
use crate::float::{Class, How, Operation as Float};
use crate::instruction::{Function, Mode, Operation, Source, Space, Target};
use crate::integer::Operation as Integer;
use crate::memory::{LOCAL, SHARED};
use crate::mnemonic::{Modifiers, float, integer};
use crate::round::{Format, Rounding};
use crate::types::{Kind, Type};

/// An operand as it is written.
#[derive(Clone, Debug)]
pub(crate) enum Operand {
    Register(Target),
    /// `!%p`
    Negated(u32),
    /// `a|b`
    Pair(Target, Target),
    /// A number or a special register.
    Value(Source),
    /// A variable or a parameter: its offset.
    Symbol(Space, u64),
    /// `_`
    Sink,
    Vector(Vec<Operand>),
    /// `[base+offset]`
    Address(Box<Operand>, u64),
    Label(usize),
}

type Decoded<T> = Result<T, String>;

/// The operands, from the first to the last.
struct Operands(std::vec::IntoIter<Operand>);

impl Operands {
    fn next(&mut self) -> Decoded<Operand> {
        self.0.next().ok_or_else(|| "an operand is missing".into())
    }

    /// A register of exactly this width.
    fn target(&mut self, bits: u32) -> Decoded<Target> {
        match self.next()? {
            Operand::Register(target) if target.bits == bits => Ok(target),
            Operand::Register(target) => Err(format!("writes {bits} bits to a register of {}", target.bits)),
            _ => Err("a register is expected".into()),
        }
    }

    fn source(&mut self) -> Decoded<Source> {
        source(&self.next()?)
    }

    fn done(mut self) -> Decoded<()> {
        if self.0.next().is_none() { Ok(()) } else { Err("has too many operands".into()) }
    }
}

fn source(operand: &Operand) -> Decoded<Source> {
    match operand {
        Operand::Register(target) => Ok(Source::Register(target.register)),
        Operand::Value(value) => Ok(*value),
        // The address of a variable, in its own space.
        Operand::Symbol(_, offset) => Ok(Source::Number(*offset)),
        _ => Err("a register or a number is expected".into()),
    }
}

const NONE: Source = Source::Number(0);

/// Reads an instruction.
///
/// # Errors
/// Says what is not understood.
pub(crate) fn operation(mnemonic: &str, operands: Vec<Operand>) -> Decoded<Operation> {
    let mut words = mnemonic.split('.');
    let name = words.next().unwrap_or_default();
    let mut modifiers = Modifiers(words.collect());
    let mut operands = Operands(operands.into_iter());
    let made = one(name, &mut modifiers, &mut operands)?;
    modifiers.done()?;
    operands.done()?;
    Ok(made)
}

fn one(name: &str, modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    match name {
        "mov" => moved(modifiers, operands),
        "cvta" => {
            let to = modifiers.take("to");
            let window = match space(modifiers) {
                Space::Shared => SHARED,
                Space::Local => LOCAL,
                Space::Global => 0,
                other => return Err(format!("{other:?} addresses are not converted")),
            };
            let by = if to { window.wrapping_neg() } else { window };
            let bits = modifiers.ty()?.bits;
            compute(operands, bits, Function::Offset(by), 1)
        }
        "ld" | "st" => access(name == "ld", modifiers, operands),
        "cvt" => conversion(modifiers, operands),
        "setp" => comparison(modifiers, operands),
        "selp" => {
            let bits = modifiers.ty()?.bits;
            compute(operands, bits, Function::Select, 3)
        }
        "bra" => {
            // `.uni` says that all threads take it, which needs no care here.
            modifiers.take("uni");
            match operands.next()? {
                Operand::Label(label) => Ok(Operation::Branch(label)),
                _ => Err("a label is expected".into()),
            }
        }
        "ret" | "exit" => Ok(Operation::Exit),
        "bar" | "barrier" => {
            modifiers.take("cta");
            modifiers.take("aligned");
            if !modifiers.take("sync") || modifiers.take("warp") {
                return Err("only `sync` of a whole block is understood".into());
            }
            // Which of the 16 it is does not matter: all threads must be at the same instruction.
            match operands.next()? {
                Operand::Value(Source::Number(_)) => Ok(Operation::Barrier),
                _ => Err("the number of a barrier is expected".into()),
            }
        }
        "shfl" => shuffle(modifiers, operands),
        "testp" => {
            let class = modifiers.one_of(&[
                ("finite", Class::Finite),
                ("infinite", Class::Infinite),
                ("number", Class::Number),
                ("notanumber", Class::NotANumber),
                ("normal", Class::Normal),
                ("subnormal", Class::Subnormal),
            ]);
            let class = class.ok_or("a class is expected")?;
            let format = Format::of(modifiers.ty()?).ok_or("a float is expected")?;
            let how = How { format, rounding: Rounding::Nearest, flush: false, saturate: false, nan: false };
            compute(operands, 1, Function::Float(Float::Is(class), how), 1)
        }
        _ => arithmetic(name, modifiers, operands),
    }
}

/// Target and arguments of what computes one value.
fn compute(operands: &mut Operands, bits: u32, function: Function, arity: usize) -> Decoded<Operation> {
    let to = operands.target(bits)?;
    let mut args = [NONE; 4];
    for arg in args.iter_mut().take(arity) {
        *arg = operands.source()?;
    }
    Ok(Operation::Compute { to, function, args })
}

fn space(modifiers: &mut Modifiers<'_>) -> Space {
    let spaces = [
        ("global", Space::Global),
        ("shared", Space::Shared),
        ("shared::cta", Space::Shared),
        ("local", Space::Local),
        ("param", Space::Parameter),
    ];
    modifiers.one_of(&spaces).unwrap_or(Space::Generic)
}

fn moved(modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    let bits = modifiers.ty()?.bits;
    let (first, second) = (operands.next()?, operands.next()?);
    match (first, second) {
        (Operand::Vector(parts), from) => {
            let parts = parts.iter().map(part).collect::<Decoded<Vec<_>>>()?;
            Ok(Operation::Unpack { bits: bits / parts.len() as u32, parts, from: source(&from)? })
        }
        (Operand::Register(to), Operand::Vector(parts)) if to.bits == bits => {
            let parts = parts.iter().map(source).collect::<Decoded<Vec<_>>>()?;
            Ok(Operation::Pack { to, bits: bits / parts.len() as u32, parts })
        }
        (Operand::Register(to), from) if to.bits == bits => {
            Ok(Operation::Compute { to, function: Function::Copy, args: [source(&from)?, NONE, NONE, NONE] })
        }
        _ => Err(format!("a register of {bits} bits is expected")),
    }
}

fn part(operand: &Operand) -> Decoded<Option<Target>> {
    match operand {
        Operand::Register(target) => Ok(Some(*target)),
        Operand::Sink => Ok(None),
        _ => Err("registers are expected".into()),
    }
}

/// `ld` and `st`, PTX ISA 9.7.9.8 and 11.
fn access(load: bool, modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    let space = space(modifiers);
    // `.weak` is the default; the others speak of caches, and of accesses that are not to be merged.
    for hint in ["weak", "volatile", "ca", "cg", "cs", "lu", "cv", "wb", "wt"] {
        modifiers.take(hint);
    }
    if load && space == Space::Global {
        modifiers.take("nc");
    }
    let count = modifiers.one_of(&[("v2", 2), ("v4", 4)]);
    let ty = modifiers.ty()?;
    if ty.kind == Kind::Predicate {
        return Err("predicates are not in memory".into());
    }
    let address = |operand: Operand| match operand {
        Operand::Address(base, offset) => match *base {
            Operand::Symbol(of, at) if of == space => Ok((Source::Number(at), offset)),
            Operand::Symbol(of, _) => Err(format!("an address in {of:?} memory is used in {space:?} memory")),
            Operand::Register(Target { register, bits: 32 | 64 }) => Ok((Source::Register(register), offset)),
            Operand::Value(Source::Number(number)) => Ok((Source::Number(number), offset)),
            _ => Err("no address".into()),
        },
        _ => Err("an address is expected".into()),
    };
    let vector = |operand: Operand| match (count, operand) {
        (Some(count), Operand::Vector(parts)) if parts.len() == count => Ok(parts),
        (None, Operand::Vector(_)) | (Some(_), _) => {
            Err("as many registers as it says are expected".to_owned())
        }
        (None, one) => Ok(vec![one]),
    };
    if load {
        let to = vector(operands.next()?)?.iter().map(part).collect::<Decoded<Vec<_>>>()?;
        if to.iter().flatten().any(|target| target.bits < ty.bits) {
            return Err("loads more bits than the register has".into());
        }
        let (base, offset) = address(operands.next()?)?;
        Ok(Operation::Load { space, ty, to, base, offset })
    } else {
        let (base, offset) = address(operands.next()?)?;
        let from = vector(operands.next()?)?.iter().map(source).collect::<Decoded<Vec<_>>>()?;
        if space == Space::Parameter {
            return Err("parameters are read only".into());
        }
        Ok(Operation::Store { space, ty, from, base, offset })
    }
}

/// `cvt`, PTX ISA 9.7.9.21.
fn conversion(modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    let [to, from] = *modifiers.types() else { return Err("two types are expected".into()) };
    let whole = modifiers.one_of(&[
        ("rni", Rounding::Nearest),
        ("rzi", Rounding::Zero),
        ("rmi", Rounding::Down),
        ("rpi", Rounding::Up),
    ]);
    let rounding = modifiers.rounding();
    let narrows = to.is_float() && (!from.is_float() || from.bits > to.bits);
    let narrows = narrows || from.bits == to.bits && from.is_float() && to.is_float() && from.kind != to.kind;
    let to_integer = from.is_float() && !to.is_float();
    if rounding.is_some() != narrows {
        return Err("a rounding mode is expected where a float loses bits, and nowhere else".into());
    }
    if to_integer && whole.is_none() || whole.is_some() && !from.is_float() {
        return Err("a rounding mode to integers is expected, and for floats only".into());
    }
    if to == (Type { kind: Kind::Float, bits: 64 }) && rounding.is_some_and(|mode| mode != Rounding::Nearest)
    {
        return Err("f64 is rounded to the nearest only".into());
    }
    let conversion = Conversion {
        from,
        to,
        rounding: rounding.or(whole).unwrap_or(Rounding::Nearest),
        integral: whole.is_some(),
        flush: modifiers.take("ftz"),
        saturate: modifiers.take("sat"),
    };
    // The register may be wider than an integer.
    let target = match operands.next()? {
        Operand::Register(target) if target.bits == to.bits => target,
        Operand::Register(target) if target.bits > to.bits && !to.is_float() => target,
        _ => return Err(format!("a register of {} bits is expected", to.bits)),
    };
    let args = [operands.source()?, NONE, NONE, NONE];
    Ok(Operation::Compute { to: target, function: Function::Convert(conversion), args })
}

/// `setp`, PTX ISA 9.7.5.2.
fn comparison(modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    let ty = modifiers.ty()?;
    let combine = modifiers.one_of(&[("and", Combine::And), ("or", Combine::Or), ("xor", Combine::Xor)]);
    let flush = modifiers.take("ftz");
    let [name] = *modifiers.0 else { return Err("one comparison is expected".into()) };
    let test = Test::of(name, ty).ok_or_else(|| format!("{name:?} is no comparison of this type"))?;
    modifiers.0.clear();
    let to = operands.next()?;
    let mut args = [operands.source()?, operands.source()?, NONE, NONE];
    let mut negated = false;
    if combine.is_some() {
        args[2] = match operands.next()? {
            Operand::Negated(register) => {
                negated = true;
                Source::Register(register)
            }
            other => source(&other)?,
        };
    }
    let comparison = Comparison { test, ty, flush, combine, opposite: false, negated };
    let function = Function::Compare(comparison);
    match to {
        Operand::Register(to @ Target { bits: 1, .. }) => Ok(Operation::Compute { to, function, args }),
        Operand::Pair(Target { register: to, bits: 1 }, Target { register: opposite, bits: 1 }) => {
            Ok(Operation::Compare { to, opposite, comparison, args })
        }
        _ => Err("a predicate is expected".into()),
    }
}

/// `shfl.sync`, PTX ISA 9.7.9.6.
fn shuffle(modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    if !modifiers.take("sync") {
        return Err("only shuffles with `sync` are understood".into());
    }
    let modes = [("up", Mode::Up), ("down", Mode::Down), ("bfly", Mode::Xor), ("idx", Mode::Index)];
    let mode = modifiers.one_of(&modes).ok_or("a mode is expected")?;
    if modifiers.ty()?.bits != 32 {
        return Err("shuffles move 32 bits".into());
    }
    let (to, valid) = match operands.next()? {
        Operand::Register(to @ Target { bits: 32, .. }) => (to, None),
        Operand::Pair(to @ Target { bits: 32, .. }, Target { register, bits: 1 }) => (to, Some(register)),
        _ => return Err("a register of 32 bits is expected".into()),
    };
    let mut next = || operands.source();
    Ok(Operation::Shuffle { mode, to, valid, value: next()?, by: next()?, clamp: next()?, mask: next()? })
}

/// All that has one type and computes one value from up to four.
fn arithmetic(name: &str, modifiers: &mut Modifiers<'_>, operands: &mut Operands) -> Decoded<Operation> {
    let ty = modifiers.ty().map_err(|_| "is not understood")?;
    match Format::of(ty) {
        Some(format) => {
            let (operation, how, arity) = float(name, format, modifiers)?;
            compute(operands, format.bits(), Function::Float(operation, how), arity)
        }
        None => {
            let (operation, arity) = integer(name, ty, modifiers)?;
            let bits = match operation {
                Integer::MulWide | Integer::MadWide => 2 * ty.bits,
                Integer::CountOnes | Integer::CountZeros => 32,
                _ => ty.bits,
            };
            compute(operands, bits, Function::Integer(operation, ty), arity)
        }
    }
}
