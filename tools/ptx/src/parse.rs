//! Text to entries: directives, parameters, variables, registers with their scopes, labels.
//!
//! Source: PTX ISA chapters 4 (syntax), 5 (variables) and 11 (directives).
//!
//! Absent here: functions and calls, initialized variables, debug information, branch tables.

use std::collections::HashMap;

use crate::Error;
use crate::decode::{self, Operand};
use crate::token::{Token, tokens};
use crate::types::{Entry, Instruction, Operation, Parameter, Source, Space, Special, Target, Type};

/// Reads a module.
///
/// # Errors
/// [`Error::Text`].
pub(crate) fn module(text: &str) -> Result<Vec<Entry>, Error> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, symbols: HashMap::new(), shared: 0, local: 0 };
    let mut entries: Vec<Entry> = Vec::new();
    while let Some(token) = parser.peek() {
        match token.text {
            ".version" | ".target" | ".address_size" => {
                parser.at += 1;
                let value = parser.word()?;
                if token.text == ".address_size" && value.text != "64" {
                    return fail(value.line, "only addresses of 64 bits are understood");
                }
                while parser.eat(",") {
                    parser.word()?;
                }
            }
            ".visible" | ".weak" => parser.at += 1,
            ".entry" => {
                parser.at += 1;
                let entry = parser.entry()?;
                if entries.iter().any(|one| one.name == entry.name) {
                    return fail(token.line, &format!("a second entry {:?}", entry.name));
                }
                entries.push(entry);
            }
            ".shared" => parser.variable()?,
            other => return fail(token.line, &format!("{other:?} is not understood here")),
        }
    }
    Ok(entries)
}

fn fail<T>(line: usize, message: &str) -> Result<T, Error> {
    Err(Error::Text { line, message: message.to_owned() })
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    /// Variables and parameters: their space and offset.
    symbols: HashMap<&'a str, (Space, u64)>,
    /// Bytes of shared memory so far, of local memory of the current entry.
    shared: usize,
    local: usize,
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
    fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    fn next(&mut self) -> Result<Token<'a>, Error> {
        let token = self.peek().ok_or_else(|| Error::Text {
            line: self.tokens.last().map_or(1, |last| last.line),
            message: "the text ends too early".into(),
        })?;
        self.at += 1;
        Ok(token)
    }

    fn eat(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|token| token.text == text);
        self.at += usize::from(is);
        is
    }

    fn expect(&mut self, text: &str) -> Result<(), Error> {
        let token = self.next()?;
        if token.text == text {
            Ok(())
        } else {
            fail(token.line, &format!("{text:?} expected, {:?} found", token.text))
        }
    }

    fn word(&mut self) -> Result<Token<'a>, Error> {
        let token = self.next()?;
        let is = token.text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_$%.\"".contains(c));
        if is {
            Ok(token)
        } else {
            fail(token.line, &format!("a name or a number expected, {:?} found", token.text))
        }
    }

    fn number(&mut self) -> Result<usize, Error> {
        let token = self.word()?;
        match literal(token.text) {
            Some(number) if number <= u64::from(u32::MAX) => Ok(number as usize),
            _ => fail(token.line, &format!("a count expected, {:?} found", token.text)),
        }
    }

    fn ty(&mut self) -> Result<Type, Error> {
        let token = self.word()?;
        let ty = token.text.strip_prefix('.').and_then(Type::of);
        ty.map_or_else(|| fail(token.line, &format!("{:?} is no type", token.text)), Ok)
    }

    /// `.align` and its number, if it is there.
    fn align(&mut self) -> Result<Option<usize>, Error> {
        if !self.eat(".align") {
            return Ok(None);
        }
        let line = self.peek().map_or(1, |token| token.line);
        match self.number()? {
            align if align.is_power_of_two() => Ok(Some(align)),
            _ => fail(line, "an alignment is a power of two"),
        }
    }

    /// `name` or `name[n]`, of elements of a type: its bytes.
    fn extent(&mut self, ty: Type) -> Result<(Token<'a>, usize), Error> {
        let name = self.word()?;
        let mut bytes = ty.bytes();
        if self.eat("[") {
            bytes *= self.number()?;
            self.expect("]")?;
        }
        Ok((name, bytes))
    }

    /// `.shared` or `.local` memory without initial values.
    fn variable(&mut self) -> Result<(), Error> {
        let space = if self.next()?.text == ".shared" { Space::Shared } else { Space::Local };
        let align = self.align()?;
        let ty = self.ty()?;
        let (name, bytes) = self.extent(ty)?;
        self.expect(";")?;
        let used = if space == Space::Shared { &mut self.shared } else { &mut self.local };
        let offset = used.next_multiple_of(align.unwrap_or(ty.bytes()).max(1));
        *used = offset + bytes;
        self.define(name, space, offset)
    }

    fn define(&mut self, name: Token<'a>, space: Space, offset: usize) -> Result<(), Error> {
        match self.symbols.insert(name.text, (space, offset as u64)) {
            None => Ok(()),
            Some(_) => fail(name.line, &format!("a second {:?}", name.text)),
        }
    }

    fn entry(&mut self) -> Result<Entry, Error> {
        let name = self.word()?;
        let mut parameters: Vec<Parameter> = Vec::new();
        if self.eat("(") && !self.eat(")") {
            loop {
                let parameter = self.parameter(&parameters)?;
                parameters.push(parameter);
                if !self.eat(",") {
                    break;
                }
            }
            self.expect(")")?;
        }
        let (mut required, mut most) = (None, None);
        while !self.eat("{") {
            let directive = self.next()?;
            match directive.text {
                ".maxntid" => most = Some(self.extents()?.into_iter().map(u64::from).product()),
                ".reqntid" => required = Some(self.extents()?),
                // How many registers and blocks there may be at once has no meaning here.
                ".minnctapersm" | ".maxnreg" => _ = self.number()?,
                other => return fail(directive.line, &format!("{other:?} is not understood at an entry")),
            }
        }
        self.local = 0;
        let (instructions, registers) = self.body()?;
        self.symbols.retain(|_, (space, _)| *space == Space::Shared);
        let (shared, local) = (self.shared, self.local);
        Ok(Entry {
            name: name.text.to_owned(),
            parameters,
            registers: registers as usize,
            shared,
            local,
            required,
            most,
            instructions,
        })
    }

    fn extents(&mut self) -> Result<[u32; 3], Error> {
        let mut extents = [1; 3];
        for (index, extent) in extents.iter_mut().enumerate() {
            if index == 0 || self.eat(",") {
                *extent = self.number()? as u32;
            }
        }
        Ok(extents)
    }

    fn parameter(&mut self, before: &[Parameter]) -> Result<Parameter, Error> {
        self.expect(".param")?;
        let mut align = self.align()?;
        let ty = self.ty()?;
        if self.eat(".ptr") {
            // What is said of what it points to (a state space, an alignment) is a promise to the assembler.
            while self
                .peek()
                .is_some_and(|token| [".global", ".shared", ".local", ".const"].contains(&token.text))
            {
                self.at += 1;
            }
            self.align()?;
        }
        align = align.or(self.align()?);
        let (name, bytes) = self.extent(ty)?;
        let end = before.last().map_or(0, |last| last.offset + last.bytes);
        let offset = end.next_multiple_of(align.unwrap_or(ty.bytes()).max(1));
        self.define(name, Space::Parameter, offset)?;
        Ok(Parameter { name: name.text.to_owned(), offset, bytes })
    }

    /// Statements up to the closing brace, which is read.
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

/// Integers, and floats by their bits, PTX ISA 4.5.
fn literal(text: &str) -> Option<u64> {
    let of = |prefixes: [&str; 2], digits: usize| {
        let rest = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix))?;
        (rest.len() == digits).then(|| u64::from_str_radix(rest, 16).ok())?
    };
    of(["0f", "0F"], 8).or_else(|| of(["0d", "0D"], 16)).or_else(|| {
        let (digits, radix) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
            Some(rest) => (rest, 16),
            None => (text, 10),
        };
        u64::from_str_radix(digits.strip_suffix('U').unwrap_or(digits), radix).ok()
    })
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
