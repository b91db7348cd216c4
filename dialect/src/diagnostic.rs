//! Errors, warnings and remarks at a location, with notes.
//!
//! A [`Diagnostic`] is a value: a function that refuses returns it, and whoever knows that it is final reports it. The
//! same function can then be asked "would this be legal?" without printing anything.

use crate::raw::{Location, emit, emit_remark};

/// How grave it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Nothing can be made of this.
    Error,
    /// Probably not what was meant.
    Warning,
    /// Worth knowing.
    Remark,
    /// Attached to one of the others.
    Note,
}

/// A message at a location, with notes at others. Does nothing until [`Diagnostic::report`].
#[derive(Clone, Debug)]
#[must_use = "a diagnostic is not printed until it is reported or returned from a pass"]
pub struct Diagnostic<'c> {
    severity: Severity,
    location: Location<'c>,
    message: String,
    notes: Vec<(Location<'c>, String)>,
}

impl<'c> Diagnostic<'c> {
    /// An error.
    pub fn error(location: Location<'c>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Error, location, message: message.into(), notes: Vec::new() }
    }

    /// A warning.
    pub fn warning(location: Location<'c>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(location, message) }
    }

    /// A remark, printed always. For numbers that tools read use [`Remark`].
    pub fn remark(location: Location<'c>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Remark, ..Self::error(location, message) }
    }

    /// The same with one more note.
    pub fn note(mut self, location: Location<'c>, message: impl Into<String>) -> Self {
        self.notes.push((location, message.into()));
        self
    }

    /// The same as a warning: it does not stop anything.
    pub fn into_warning(self) -> Self {
        Self { severity: Severity::Warning, ..self }
    }

    /// What it says, without notes.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Hands it to MLIR, which prints it with the source line.
    pub fn report(self) {
        emit(self.location, self.severity, &self.message, &self.notes);
    }
}

/// Why a pass failed.
#[derive(Debug)]
pub enum Failure<'c> {
    /// What is to be reported.
    Because(Box<Diagnostic<'c>>),
    /// It has been reported already, for example by a pipeline that this pass ran.
    Reported,
}

impl Failure<'_> {
    /// Reports what is not reported yet.
    pub fn report(self) {
        match self {
            Self::Because(diagnostic) => diagnostic.report(),
            Self::Reported => {}
        }
    }
}

impl<'c> From<Diagnostic<'c>> for Failure<'c> {
    fn from(diagnostic: Diagnostic<'c>) -> Self {
        Self::Because(Box::new(diagnostic))
    }
}

/// Which kind of optimization remark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum RemarkKind {
    /// An optimization was applied.
    Passed = 0,
    /// A profitable one was found and not applied.
    Missed = 1,
    /// One was tried in vain.
    Failed = 2,
    /// Numbers without a verdict.
    Analysis = 3,
}

/// An optimization remark: shown with `--remarks-filter=CATEGORY`, written with `--remark-format=yaml
/// --remarks-output-file=F`, otherwise silent.
#[derive(Clone, Debug)]
pub struct Remark<'a> {
    /// Applied, missed, failed, or a number.
    pub kind: RemarkKind,
    /// Such as `rematerialize`.
    pub category: &'a str,
    /// Such as `peak`.
    pub name: &'a str,
    /// One sentence.
    pub message: &'a str,
    /// Numbers by name.
    pub metrics: &'a [(&'a str, String)],
}

impl Remark<'_> {
    /// Hands it to MLIR.
    pub fn report(&self, location: Location<'_>) {
        emit_remark(location, self);
    }
}

/// A diagnostic that MLIR reported while a tool listened ([`crate::Context::reporting`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported {
    /// How grave it is.
    pub severity: Severity,
    /// Where, as MLIR writes it (`step.mlir:4:11`).
    pub location: String,
    /// What.
    pub message: String,
    /// Its notes.
    pub notes: Vec<Reported>,
}

impl Reported {
    pub(crate) fn error(location: &str, message: &str) -> Self {
        Self {
            severity: Severity::Error,
            location: location.to_owned(),
            message: message.to_owned(),
            notes: Vec::new(),
        }
    }
}

impl std::fmt::Display for Reported {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
            Severity::Note => "note",
        };
        write!(formatter, "{}: {severity}: {}", self.location, self.message)?;
        self.notes.iter().try_for_each(|note| write!(formatter, "\n{note}"))
    }
}
