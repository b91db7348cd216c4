//! DTR's log format: one JSON object per line, read line by line into a program.
//!
//! Idea: the reader is fed lines and owns no file, so that plain, compressed and live logs go through one door and
//! memory follows the content of the log, not its size. In-place operators become pure ones here, names disappear,
//! and whatever is wrong is said at its line.
//! Source: docs/design/dtr.md, sections 2 and 3. Not here: JSON of one line (see `line`), files (the tool's business).

use crate::line::{self, Line, Reason};
use crate::program::{Builder, Program, Step};
use crate::tables::Output;
use crate::units::{Bytes, Nanos, TensorId};
use std::collections::HashMap;

/// What is wrong with a log, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {reason}")]
pub struct LogError {
    /// The line, from 1; the last one if the log ends too early.
    pub line: u64,
    /// What is wrong with it.
    pub reason: Reason,
}

/// A constant or a call whose description goes on in the next lines.
#[derive(Debug)]
enum Pending {
    Constant(String),
    Call {
        operator: u32,
        cost: Nanos,
        args: Vec<TensorId>,
        results: Vec<String>,
        outputs: Vec<Output>,
        size: Option<Bytes>,
    },
}

/// Reads a log.
#[derive(Debug, Default)]
pub struct LogReader {
    builder: Builder,
    /// Position of a name in `bound`: in order of first appearance. Only looked up, never iterated.
    names: HashMap<String, usize>,
    bound: Vec<TensorId>,
    /// Per tensor the references that its names hold.
    live: Vec<i64>,
    /// Numbers of operators, by name, from 1.
    operators: HashMap<String, u32>,
    pending: Option<Pending>,
    started: bool,
    lines: u64,
}

impl LogReader {
    /// A reader at the beginning of a log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the next line, with or without its line break. Blank lines say nothing.
    ///
    /// # Errors
    /// [`LogError`]; the reader must not be used any more.
    pub fn line(&mut self, text: &[u8]) -> Result<(), LogError> {
        self.lines += 1;
        if text.iter().all(u8::is_ascii_whitespace) {
            return Ok(());
        }
        let result = line::parse(text, self.started).and_then(|line| self.take(line));
        result.map_err(|reason| LogError { line: self.lines, reason })
    }

    /// The whole program: what the last lines still hold is wanted in memory at the end.
    ///
    /// # Errors
    /// [`LogError`], if the log ends too early.
    pub fn finish(mut self) -> Result<Program, LogError> {
        let result = self.end();
        result.map_err(|reason| LogError { line: self.lines, reason })?;
        Ok(self.builder.finish())
    }

    fn end(&mut self) -> Result<(), Reason> {
        if let Some(pending) = &self.pending {
            return Err(Reason::Order {
                expected: expectation(pending),
                found: "the end of the log".to_owned(),
            });
        }
        if !self.started {
            return Err(Reason::NoStart);
        }
        for &tensor in &self.bound {
            if self.live[tensor.index()] > 0 {
                self.builder.step(Step::Pin(tensor))?;
            }
        }
        Ok(())
    }

    fn take(&mut self, line: Line<'_>) -> Result<(), Reason> {
        if !self.started {
            self.started = matches!(line, Line::Start);
            return Ok(());
        }
        if let Some(pending) = self.pending.take() {
            return self.go_on(pending, &line);
        }
        match line {
            Line::Start | Line::Other => Ok(()),
            Line::Constant { name } => {
                self.pending = Some(Pending::Constant(name.into_owned()));
                Ok(())
            }
            Line::Call { operator, args, results, time } => {
                let args = args.iter().map(|name| self.tensor(name)).collect::<Result<_, _>>()?;
                let results: Vec<_> = results.into_iter().map(|name| name.into_owned()).collect();
                if results.is_empty() {
                    return Err(Reason::NoResult("CALL"));
                }
                let cost = Nanos(time);
                let (operator, outputs) = (self.operator(&operator), Vec::new());
                self.pending = Some(Pending::Call { operator, cost, args, results, outputs, size: None });
                Ok(())
            }
            Line::Mutate { operator, args, written, time } => {
                let operator = self.operator(&format!("{operator} {written:?}"));
                self.mutate(operator, &args, &written, Nanos(time))
            }
            Line::Copy { dst, src } => {
                let tensor = self.tensor(&src)?;
                self.bind(&dst, tensor);
                self.live[tensor.index()] += 1;
                Ok(self.builder.step(Step::Get(tensor))?)
            }
            Line::CopyFrom { dst, src } => {
                let (old, tensor) = (self.tensor(&dst)?, self.tensor(&src)?);
                self.live[old.index()] -= 1;
                self.live[tensor.index()] += 1;
                self.bind(&dst, tensor);
                self.builder.step(Step::Release(old))?;
                Ok(self.builder.step(Step::Get(tensor))?)
            }
            Line::Release { name } => {
                let Ok(tensor) = self.tensor(&name) else { return Ok(()) };
                self.live[tensor.index()] -= 1;
                Ok(self.builder.step(Step::Release(tensor))?)
            }
            Line::Memory { .. } | Line::Alias { .. } => {
                Err(Reason::Order { expected: "an instruction".to_owned(), found: line.to_string() })
            }
        }
    }

    /// Takes a line of the description of a constant or a call.
    fn go_on(&mut self, pending: Pending, line: &Line<'_>) -> Result<(), Reason> {
        let disorder = Reason::Order { expected: expectation(&pending), found: line.to_string() };
        match (pending, line) {
            (Pending::Constant(constant), Line::Memory { name, size }) if *name == constant => {
                let tensor = self.builder.call(Nanos(0), &[], &[Output::Fresh(Bytes(*size))])?;
                self.builder.step(Step::Pin(tensor))?;
                self.live.push(1);
                self.bind(&constant, tensor);
            }
            (
                Pending::Call { operator, cost, args, results, outputs, size: None },
                Line::Memory { name, size },
            ) if *name == results[outputs.len()] => {
                let size = Some(Bytes(*size));
                self.pending = Some(Pending::Call { operator, cost, args, results, outputs, size });
            }
            (
                Pending::Call { operator, cost, args, results, mut outputs, size: Some(size) },
                Line::Alias { name, index },
            ) if *name == results[outputs.len()] => {
                outputs.push(match u32::try_from(*index) {
                    Ok(arg) if (arg as usize) < args.len() => Output::View(arg),
                    Err(_) if *index == -1 => Output::Fresh(size),
                    _ => {
                        let (index, args) = (index.to_string(), args.len());
                        return Err(Reason::Range { key: "ALIAS", index, args });
                    }
                });
                if outputs.len() < results.len() {
                    let size = None;
                    self.pending = Some(Pending::Call { operator, cost, args, results, outputs, size });
                    return Ok(());
                }
                let first = self.builder.call_of(operator, cost, &args, &outputs)?;
                for (offset, name) in results.iter().enumerate() {
                    self.live.push(1);
                    self.bind(name, TensorId(first.0 + offset as u32));
                }
            }
            _ => return Err(disorder),
        }
        Ok(())
    }

    /// An in-place call is a pure one that makes whole new storages, to which the written names then belong.
    fn mutate(
        &mut self,
        operator: u32,
        names: &[line::Text<'_>],
        written: &[i64],
        cost: Nanos,
    ) -> Result<(), Reason> {
        let args: Vec<_> = names.iter().map(|name| self.tensor(name)).collect::<Result<_, _>>()?;
        let mut places = Vec::with_capacity(written.len());
        for &index in written {
            let place = usize::try_from(index).ok().filter(|&place| place < args.len());
            let range = || Reason::Range { key: "MUTATE", index: index.to_string(), args: args.len() };
            places.push(place.ok_or_else(range)?);
        }
        if places.is_empty() {
            return Err(Reason::NoResult("MUTATE"));
        }
        let outputs: Vec<_> =
            places.iter().map(|&place| Output::Fresh(self.builder.storage_bytes(args[place]))).collect();
        let first = self.builder.call_of(operator, cost, &args, &outputs)?;
        for (offset, &place) in places.iter().enumerate() {
            let old = self.tensor(&names[place])?;
            self.live.push(1);
            self.bind(&names[place], TensorId(first.0 + offset as u32));
            self.live[old.index()] -= 1;
            self.builder.step(Step::Release(old))?;
        }
        Ok(())
    }

    fn operator(&mut self, name: &str) -> u32 {
        if let Some(&known) = self.operators.get(name) {
            return known;
        }
        let number = self.operators.len() as u32 + 1;
        self.operators.insert(name.to_owned(), number);
        number
    }

    fn tensor(&self, name: &str) -> Result<TensorId, Reason> {
        let place = self.names.get(name).ok_or_else(|| Reason::Undefined(name.to_owned()))?;
        Ok(self.bound[*place])
    }

    /// A name that is bound again keeps its place.
    fn bind(&mut self, name: &str, tensor: TensorId) {
        match self.names.get(name) {
            Some(&place) => self.bound[place] = tensor,
            None => {
                self.names.insert(name.to_owned(), self.bound.len());
                self.bound.push(tensor);
            }
        }
    }
}

fn expectation(pending: &Pending) -> String {
    match pending {
        Pending::Constant(name) => format!("MEMORY of '{name}'"),
        Pending::Call { results, outputs, size: None, .. } => {
            format!("MEMORY of '{}'", results[outputs.len()])
        }
        Pending::Call { results, outputs, .. } => format!("ALIAS of '{}'", results[outputs.len()]),
    }
}
