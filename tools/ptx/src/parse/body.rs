//! The statements of an entry: registers with their scopes, labels, instructions with their operands.
//!
//! Source: PTX ISA 4.3 (statements), 6.4 (operands), 9.2 (predicated execution), chapter 10 (special registers).

use std::collections::HashMap;

use super::{Parser, fail, literal};
use crate::Error;
use crate::decode::{self, Operand};
use crate::instruction::{Instruction, Operation, Source, Special, Target};

/// Statements up to the closing brace, which is read. Returns the instructions, and how many registers they use.
///
/// # Errors
/// [`Error::Text`].
pub(crate) fn read(parser: &mut Parser<'_>) -> Result<(Vec<Instruction>, u32), Error> {
    parser.body()
}

/// What is known inside of an entry.
struct Body<'a> {
    /// Registers by name, innermost scope last.
    scopes: Vec<HashMap<String, Target>>,
    registers: u32,
    /// Labels in the order in which they are first named, and where they stand.
    labels: Vec<(&'a str, usize, Option<usize>)>,
    instructions: Vec<Instruction>,
}

impl<'a> Parser<'a> {
    fn body(&mut self) -> Result<(Vec<Instruction>, u32), Error> {
        let mut body =
            Body { scopes: vec![HashMap::new()], registers: 0, labels: vec![], instructions: vec![] };
        while !body.scopes.is_empty() {
            let token = self.next()?;
            match token.text {
                "{" => body.scopes.push(HashMap::new()),
                "}" => _ = body.scopes.pop(),
                ".reg" => self.registers(&mut body)?,
                ".shared" | ".local" => {
                    self.at -= 1;
                    self.variable()?;
                }
                ".pragma" => {
                    let what = self.word()?;
                    if what.text != "\"nounroll\"" {
                        return fail(what.line, &format!(".pragma {} is not understood", what.text));
                    }
                    self.expect(";")?;
                }
                label if self.eat(":") => {
                    let (index, here) = (body.label(label, token.line), body.instructions.len());
                    if body.labels[index].2.replace(here).is_some() {
                        return fail(token.line, &format!("a second label {label:?}"));
                    }
                }
                other if other.starts_with('.') => {
                    return fail(token.line, &format!("{other:?} is not understood here"));
                }
                _ => {
                    self.at -= 1;
                    let instruction = self.instruction(&mut body)?;
                    body.instructions.push(instruction);
                }
            }
        }
        if let Some((name, line, _)) = body.labels.iter().find(|(.., place)| place.is_none()) {
            return fail(*line, &format!("{name:?} is no register, no variable and no label"));
        }
        for instruction in &mut body.instructions {
            if let Operation::Branch(target) = &mut instruction.operation {
                *target = body.labels[*target].2.unwrap_or_default();
            }
        }
        Ok((body.instructions, body.registers))
    }

    /// `.reg .b32 %r<79>;` or `.reg .b32 tmp;`
    fn registers(&mut self, body: &mut Body<'a>) -> Result<(), Error> {
        let ty = self.ty()?;
        loop {
            let name = self.word()?;
            let names: Vec<String> = if self.eat("<") {
                let count = self.number()?;
                self.expect(">")?;
                (0..count).map(|index| format!("{}{index}", name.text)).collect()
            } else {
                vec![name.text.to_owned()]
            };
            for name in names {
                let register = body.registers;
                body.registers += 1;
                let scope = body.scopes.last_mut().expect("inside of a body");
                scope.insert(name, Target { register, bits: ty.bits });
            }
            if !self.eat(",") {
                return self.expect(";");
            }
        }
    }

    fn instruction(&mut self, body: &mut Body<'a>) -> Result<Instruction, Error> {
        let mut guard = None;
        if self.eat("@") {
            let negated = self.eat("!");
            let name = self.word()?;
            match body.register(name.text) {
                Some(Target { register, bits: 1 }) => guard = Some((register, negated)),
                _ => return fail(name.line, &format!("{:?} is no predicate", name.text)),
            }
        }
        let mnemonic = self.word()?;
        let mut operands = Vec::new();
        while !self.eat(";") {
            if !operands.is_empty() {
                self.expect(",")?;
            }
            operands.push(self.operand(body)?);
        }
        let operation = decode::operation(mnemonic.text, operands).map_err(|message| Error::Text {
            line: mnemonic.line,
            message: format!("{}: {message}", mnemonic.text),
        })?;
        Ok(Instruction { line: mnemonic.line, guard, operation })
    }

    fn operand(&mut self, body: &mut Body<'a>) -> Result<Operand, Error> {
        if self.eat("{") {
            let mut parts = vec![self.operand(body)?];
            while self.eat(",") {
                parts.push(self.operand(body)?);
            }
            self.expect("}")?;
            return Ok(Operand::Vector(parts));
        }
        if self.eat("[") {
            let base = self.operand(body)?;
            let mut offset = 0u64;
            if self.eat("+") || self.peek().is_some_and(|token| token.text == "-") {
                offset = self.signed()?;
            }
            self.expect("]")?;
            return Ok(Operand::Address(Box::new(base), offset));
        }
        if self.eat("!") {
            let name = self.word()?;
            return match body.register(name.text) {
                Some(Target { register, bits: 1 }) => Ok(Operand::Negated(register)),
                _ => fail(name.line, &format!("{:?} is no predicate", name.text)),
            };
        }
        if self
            .peek()
            .is_some_and(|token| token.text == "-" || token.text.starts_with(|c: char| c.is_ascii_digit()))
        {
            return Ok(Operand::Value(Source::Number(self.signed()?)));
        }
        let word = self.word()?;
        if word.text == "_" {
            return Ok(Operand::Sink);
        }
        if let Some(register) = body.register(word.text) {
            if self.eat("|") {
                let name = self.word()?;
                return match body.register(name.text) {
                    Some(second) => Ok(Operand::Pair(register, second)),
                    None => fail(name.line, &format!("{:?} is no register", name.text)),
                };
            }
            return Ok(Operand::Register(register));
        }
        if let Some(special) = special(word.text) {
            return Ok(Operand::Value(special));
        }
        if let Some(&(space, offset)) = self.symbols.get(word.text) {
            return Ok(Operand::Symbol(space, offset));
        }
        if word.text.starts_with(['%', '.']) {
            return fail(word.line, &format!("{:?} is not understood", word.text));
        }
        Ok(Operand::Label(body.label(word.text, word.line)))
    }

    /// A number that may have a minus.
    fn signed(&mut self) -> Result<u64, Error> {
        let minus = self.eat("-");
        let token = self.word()?;
        match literal(token.text) {
            Some(number) => Ok(if minus { number.wrapping_neg() } else { number }),
            None => fail(token.line, &format!("{:?} is no number", token.text)),
        }
    }
}

impl<'a> Body<'a> {
    fn register(&self, name: &str) -> Option<Target> {
        self.scopes.iter().rev().find_map(|scope| scope.get(name)).copied()
    }

    fn label(&mut self, name: &'a str, line: usize) -> usize {
        let known = self.labels.iter().position(|(known, ..)| *known == name);
        known.unwrap_or_else(|| {
            self.labels.push((name, line, None));
            self.labels.len() - 1
        })
    }
}

/// Special registers, PTX ISA chapter 10.
fn special(name: &str) -> Option<Source> {
    if name == "WARP_SZ" {
        return Some(Source::Number(32));
    }
    if name == "%laneid" {
        return Some(Source::Special(Special::Lane));
    }
    let (name, axis) = name.strip_prefix('%')?.split_once('.')?;
    let axis = ["x", "y", "z"].iter().position(|one| *one == axis)?;
    Some(Source::Special(match name {
        "tid" => Special::Thread(axis),
        "ctaid" => Special::Block(axis),
        "ntid" => Special::Threads(axis),
        "nctaid" => Special::Blocks(axis),
        _ => return None,
    }))
}
