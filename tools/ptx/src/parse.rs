//! Text to entries: directives, parameters, variables.
//!
//! Source: PTX ISA chapters 4 (syntax), 5 (variables) and 11 (directives).
//!
//! Absent here: functions and calls, initialized variables, debug information, branch tables.

mod body;

use std::collections::HashMap;

use crate::Error;
use crate::instruction::{Entry, Parameter, Space};
use crate::token::{Token, tokens};
use crate::types::Type;

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

/// An error at a line.
pub(crate) fn fail<T>(line: usize, message: &str) -> Result<T, Error> {
    Err(Error::Text { line, message: message.to_owned() })
}

/// The text that is left, and what it has declared.
pub(crate) struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    pub at: usize,
    /// Variables and parameters: their space and offset.
    pub symbols: HashMap<&'a str, (Space, u64)>,
    /// Bytes of shared memory so far, of local memory of the current entry.
    shared: usize,
    local: usize,
}

impl<'a> Parser<'a> {
    pub fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.at).copied()
    }

    pub fn next(&mut self) -> Result<Token<'a>, Error> {
        let token = self.peek().ok_or_else(|| Error::Text {
            line: self.tokens.last().map_or(1, |last| last.line),
            message: "the text ends too early".into(),
        })?;
        self.at += 1;
        Ok(token)
    }

    pub fn eat(&mut self, text: &str) -> bool {
        let is = self.peek().is_some_and(|token| token.text == text);
        self.at += usize::from(is);
        is
    }

    pub fn expect(&mut self, text: &str) -> Result<(), Error> {
        let token = self.next()?;
        if token.text == text {
            Ok(())
        } else {
            fail(token.line, &format!("{text:?} expected, {:?} found", token.text))
        }
    }

    pub fn word(&mut self) -> Result<Token<'a>, Error> {
        let token = self.next()?;
        let is = token.text.starts_with(|c: char| c.is_ascii_alphanumeric() || "_$%.\"".contains(c));
        if is {
            Ok(token)
        } else {
            fail(token.line, &format!("a name or a number expected, {:?} found", token.text))
        }
    }

    pub fn number(&mut self) -> Result<usize, Error> {
        let token = self.word()?;
        match literal(token.text) {
            Some(number) if number <= u64::from(u32::MAX) => Ok(number as usize),
            _ => fail(token.line, &format!("a count expected, {:?} found", token.text)),
        }
    }

    pub fn ty(&mut self) -> Result<Type, Error> {
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
    pub fn variable(&mut self) -> Result<(), Error> {
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
        let (instructions, registers) = body::read(self)?;
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
}

/// Integers, and floats by their bits, PTX ISA 4.5.
pub(crate) fn literal(text: &str) -> Option<u64> {
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
