//! One line of a log: JSON to a checked value that borrows from the text.
//!
//! Idea: before START a line only has to be an object of a known kind; after it, every key that its kind needs must
//! be there with a value that makes sense alone. Keys come in any order and unknown ones are ignored.
//! Source: docs/design/dtr.md, section 2. Not here: what lines mean together (see `log`).

use crate::program::TooLarge;
use serde::Deserialize;
use serde::de::{self, Deserializer, Visitor};
use std::borrow::Cow;
use std::fmt;

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Not a JSON object with values of the right types.
    #[error("not a log line: {0}")]
    Json(String),
    /// No such instruction.
    #[error("unknown instruction '{0}'")]
    Instruction(String),
    /// A key that the instruction needs is not there.
    #[error("{instruction} without {key}")]
    Missing {
        /// The kind of the line.
        instruction: &'static str,
        /// What it lacks.
        key: &'static str,
    },
    /// A number that is not one, is negative, or is too large.
    #[error("{key} must be a whole number of at least 0, not '{value}'")]
    Number {
        /// Where it stands.
        key: &'static str,
        /// What stands there.
        value: String,
    },
    /// A name that no earlier line defines.
    #[error("undefined tensor '{0}'")]
    Undefined(String),
    /// A view of, or a write to, an argument that is not there.
    #[error("{key} {index} is out of range: the call has {args} arguments")]
    Range {
        /// ALIAS or MUTATE.
        key: &'static str,
        /// The index as written.
        index: String,
        /// How many arguments there are.
        args: usize,
    },
    /// The description of a constant or a call is interrupted.
    #[error("expected {expected}, found {found}")]
    Order {
        /// What the lines before call for.
        expected: String,
        /// What stands here.
        found: String,
    },
    /// A call without results, or an in-place one that writes nothing.
    #[error("{0} makes nothing")]
    NoResult(&'static str),
    /// Nothing counts before START, and it never came.
    #[error("the log ends without {{\"INSTRUCTION\":\"ANNOTATE\",\"ANNOTATION\":\"START\"}}")]
    NoStart,
    /// More than the simulator is made for.
    #[error(transparent)]
    TooLarge(#[from] TooLarge),
}

pub(crate) type Text<'a> = Cow<'a, str>;

/// A line that makes sense alone.
#[derive(Debug)]
pub(crate) enum Line<'a> {
    Start,
    /// BACKWARD and other annotations; before START any line but that one.
    Other,
    Constant {
        name: Text<'a>,
    },
    Memory {
        name: Text<'a>,
        size: u64,
    },
    Alias {
        name: Text<'a>,
        index: i64,
    },
    Call {
        operator: Text<'a>,
        args: Vec<Text<'a>>,
        results: Vec<Text<'a>>,
        time: u64,
    },
    Mutate {
        operator: Text<'a>,
        args: Vec<Text<'a>>,
        written: Vec<i64>,
        time: u64,
    },
    Copy {
        dst: Text<'a>,
        src: Text<'a>,
    },
    CopyFrom {
        dst: Text<'a>,
        src: Text<'a>,
    },
    Release {
        name: Text<'a>,
    },
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start | Self::Other => f.write_str("ANNOTATE"),
            Self::Constant { name } => write!(f, "CONSTANT of '{name}'"),
            Self::Memory { name, .. } => write!(f, "MEMORY of '{name}'"),
            Self::Alias { name, .. } => write!(f, "ALIAS of '{name}'"),
            Self::Call { .. } => f.write_str("CALL"),
            Self::Mutate { .. } => f.write_str("MUTATE"),
            Self::Copy { .. } => f.write_str("COPY"),
            Self::CopyFrom { .. } => f.write_str("COPY_FROM"),
            Self::Release { .. } => f.write_str("RELEASE"),
        }
    }
}

/// A string that borrows from the line unless it has escapes. `Cow` alone would always copy inside an `Option`.
struct Word<'a>(Text<'a>);

/// A decimal string, or a JSON integer, which the reference accepts as well.
struct Number<'a>(Text<'a>);

struct Words;
struct Numbers;

macro_rules! visits_strings {
    ($what:literal) => {
        type Value = Cow<'de, str>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str($what)
        }

        fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Cow::Borrowed(text))
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Cow::Owned(text.to_owned()))
        }
    };
}

impl<'de> Visitor<'de> for Words {
    visits_strings!("a string");
}

impl<'de> Visitor<'de> for Numbers {
    visits_strings!("a number as a string");

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Cow::Owned(number.to_string()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Word<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(Words).map(Word)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Number<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Numbers).map(Number)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
struct Fields<'a> {
    #[serde(borrow)]
    instruction: Option<Word<'a>>,
    #[serde(borrow)]
    name: Option<Word<'a>>,
    #[serde(borrow)]
    memory: Option<Number<'a>>,
    #[serde(borrow)]
    alias: Option<Number<'a>>,
    #[serde(borrow)]
    time: Option<Number<'a>>,
    #[serde(borrow)]
    dst: Option<Word<'a>>,
    #[serde(borrow)]
    src: Option<Word<'a>>,
    #[serde(borrow)]
    annotation: Option<Word<'a>>,
    #[serde(borrow)]
    args: Option<Vec<Word<'a>>>,
    #[serde(borrow)]
    result: Option<Vec<Word<'a>>>,
    mutate: Option<Vec<i64>>,
}

/// Reads one line. Before START (`started` is false), kinds are checked and nothing else.
pub(crate) fn parse(text: &[u8], started: bool) -> Result<Line<'_>, Reason> {
    // The parser would also take the values of an object as an array.
    if !text.trim_ascii_start().starts_with(b"{") {
        return Err(Reason::Json("expected an object in braces".to_owned()));
    }
    let fields: Fields<'_> = serde_json::from_slice(text).map_err(|e| json_reason(&e))?;
    let kind = need(fields.instruction, "a line", "INSTRUCTION")?;
    let known = ["CONSTANT", "MEMORY", "CALL", "ALIAS", "MUTATE", "COPY", "COPY_FROM", "RELEASE", "ANNOTATE"];
    let Some(kind) = known.into_iter().find(|&known| known == kind) else {
        return Err(Reason::Instruction(kind.into_owned()));
    };
    if kind == "ANNOTATE" {
        let annotation = need(fields.annotation, kind, "ANNOTATION")?;
        return Ok(if annotation == "START" { Line::Start } else { Line::Other });
    }
    if !started {
        return Ok(Line::Other);
    }
    let missing = |key| Reason::Missing { instruction: kind, key };
    Ok(match kind {
        "CONSTANT" => Line::Constant { name: need(fields.name, kind, "NAME")? },
        "MEMORY" => {
            let size = natural(fields.memory.ok_or(missing("MEMORY"))?, "MEMORY")?;
            Line::Memory { name: need(fields.name, kind, "NAME")?, size }
        }
        "ALIAS" => {
            let Number(value) = fields.alias.ok_or(missing("ALIAS"))?;
            let wrong = |_| Reason::Number { key: "ALIAS", value: clip(&value) };
            let index = value.parse().map_err(wrong)?;
            Line::Alias { name: need(fields.name, kind, "NAME")?, index }
        }
        "CALL" => Line::Call {
            operator: operator(fields.name),
            args: texts(fields.args.ok_or(missing("ARGS"))?),
            results: texts(fields.result.ok_or(missing("RESULT"))?),
            time: natural(fields.time.ok_or(missing("TIME"))?, "TIME")?,
        },
        "MUTATE" => Line::Mutate {
            operator: operator(fields.name),
            args: texts(fields.args.ok_or(missing("ARGS"))?),
            written: fields.mutate.ok_or(missing("MUTATE"))?,
            time: natural(fields.time.ok_or(missing("TIME"))?, "TIME")?,
        },
        "RELEASE" => Line::Release { name: need(fields.name, kind, "NAME")? },
        _ => {
            let (dst, src) = (need(fields.dst, kind, "DST")?, need(fields.src, kind, "SRC")?);
            if kind == "COPY" { Line::Copy { dst, src } } else { Line::CopyFrom { dst, src } }
        }
    })
}

fn need<'a>(
    word: Option<Word<'a>>,
    instruction: &'static str,
    key: &'static str,
) -> Result<Text<'a>, Reason> {
    Ok(word.ok_or(Reason::Missing { instruction, key })?.0)
}

/// The name of an operator says nothing about what a run costs, so that it may be missing.
fn operator(word: Option<Word<'_>>) -> Text<'_> {
    word.map_or(Cow::Borrowed(""), |word| word.0)
}

fn texts(words: Vec<Word<'_>>) -> Vec<Text<'_>> {
    words.into_iter().map(|word| word.0).collect()
}

fn natural(Number(value): Number<'_>, key: &'static str) -> Result<u64, Reason> {
    value.parse().map_err(|_| Reason::Number { key, value: clip(&value) })
}

/// Garbage can be long; a message should not be.
fn clip(text: &str) -> String {
    text.chars().take(40).collect()
}

/// The parser counts lines itself and is given one at a time: only its column says something.
fn json_reason(error: &serde_json::Error) -> Reason {
    let text = error.to_string().replace(" at line 1 column ", ", column ");
    Reason::Json(text.chars().take(200).collect())
}
