//! What can be wrong with a step file. Each error is one line that names the culprit.

/// Why a step file was refused or could not be written.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The file ends before the step does.
    #[error("{path}: the file ends early, at line {line}: it is truncated")]
    Truncated {
        /// The file.
        path: String,
        /// Last line.
        line: usize,
    },
    /// The file is something else.
    #[error("{path}: not a step file ({why}); `rk-translate --to step` writes one")]
    Foreign {
        /// The file.
        path: String,
        /// How it shows.
        why: String,
    },
    /// The file was written for another version of the format.
    #[error(
        "{path}: step format version {found} (written by rk {rk}), but this rk reads version {expected}; translate the step again"
    )]
    Version {
        /// The file.
        path: String,
        /// Version in the file.
        found: u64,
        /// Version that this build reads.
        expected: u64,
        /// Which rk wrote it.
        rk: String,
    },
    /// The content does not match the checksum.
    #[error(
        "{path}: the file is damaged: its content does not match its checksum; copy it again, or translate the step again"
    )]
    Damaged {
        /// The file.
        path: String,
    },
    /// A field has the wrong type, is missing, or is unknown.
    #[error("{path}:{line}:{column}: {message}")]
    Field {
        /// The file.
        path: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// What is wrong.
        message: String,
    },
    /// The file reads well but makes no sense.
    #[error("{path}: {invalid}")]
    Invalid {
        /// The file.
        path: String,
        /// The first thing that is wrong.
        invalid: Invalid,
    },
}

/// The first thing that is wrong with a step's content.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {message}")]
pub struct Invalid {
    /// Where: `nodes[3] "relu": ops[0] "aten.relu.default"`, `program[12]`.
    pub place: String,
    /// What: complete, with the value's name; begins with the law's label where a law is broken.
    pub message: String,
}

impl Invalid {
    pub(crate) fn at(place: impl Into<String>, message: impl Into<String>) -> Self {
        Self { place: place.into(), message: message.into() }
    }
}
