//! Writes DTR's log format: what [`crate::LogReader`] reads.
//!
//! Idea: one method per event of a run, named as in the format, so that online worlds and converters of graphs write the
//! same lines. Names are the caller's; the writer escapes them. Mutation is not here: to this core an in-place operator
//! is a call with fresh results, whose old arguments are released.
//! Source: docs/design/dtr.md, section 2. Not here: files (the caller's business).

use crate::tables::Output;
use crate::units::{Bytes, Nanos};
use serde_json::json;
use std::io::{self, Write};

/// Writes a log, line by line.
#[derive(Debug)]
pub struct LogWriter<W> {
    to: W,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log.
    ///
    /// # Errors
    /// As the writer says; so for all that follows.
    pub fn new(to: W) -> io::Result<Self> {
        let mut log = Self { to };
        log.annotate("START")?;
        Ok(log)
    }

    /// Marks a place: START or BACKWARD.
    ///
    /// # Errors
    /// As the writer says.
    pub fn annotate(&mut self, mark: &str) -> io::Result<()> {
        self.line(&json!({"INSTRUCTION": "ANNOTATE", "ANNOTATION": mark}))
    }

    /// A weight or an input.
    ///
    /// # Errors
    /// As the writer says.
    pub fn constant(&mut self, name: &str, size: Bytes) -> io::Result<()> {
        self.line(&json!({"INSTRUCTION": "CONSTANT", "NAME": name}))?;
        self.memory(name, size)
    }

    /// An operator call with its results. The size of a view says nothing and is written as 0.
    ///
    /// # Errors
    /// As the writer says.
    pub fn call(
        &mut self,
        operator: &str,
        time: Nanos,
        args: &[String],
        results: &[(String, Output)],
    ) -> io::Result<()> {
        let names: Vec<&str> = results.iter().map(|(name, _)| name.as_str()).collect();
        self.line(&json!({
            "INSTRUCTION": "CALL", "NAME": operator, "ARGS": args, "RESULT": names, "TIME": time.0.to_string(),
        }))?;
        for (name, output) in results {
            let (size, alias) = match *output {
                Output::Fresh(size) => (size, -1),
                Output::View(arg) => (Bytes(0), i64::from(arg)),
            };
            self.memory(name, size)?;
            self.line(&json!({"INSTRUCTION": "ALIAS", "NAME": name, "ALIAS": alias.to_string()}))?;
        }
        Ok(())
    }

    /// A name goes out of scope.
    ///
    /// # Errors
    /// As the writer says.
    pub fn release(&mut self, name: &str) -> io::Result<()> {
        self.line(&json!({"INSTRUCTION": "RELEASE", "NAME": name}))
    }

    /// Ends the log and hands the writer back.
    ///
    /// # Errors
    /// As the writer says.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }

    /// Writes out what is buffered.
    ///
    /// # Errors
    /// As the writer says.
    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn memory(&mut self, name: &str, size: Bytes) -> io::Result<()> {
        self.line(&json!({"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": size.0.to_string()}))
    }

    fn line(&mut self, line: &serde_json::Value) -> io::Result<()> {
        writeln!(self.to, "{line}")
    }
}
