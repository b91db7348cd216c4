//! Reading and writing step files.
//!
//! The file is JSON: `{"format": "rk-step", "version": 6, "rk": "0.1.0", "sha256": "…", "step": {...}}`, where `step` is
//! [`Step`] and the checksum is that of the whole file with zeros in its own place, so that no flipped bit goes unseen.
//! Long lists have one element per line, so that a person can read it, `diff` works, and an error's line number
//! means something. Reading parses the header first: a file of another version is refused by its version, not by
//! whatever field changed. Writing goes to a temporary file in the same folder which then takes the name, so a
//! reader never sees half a file.

use std::io::Read as _;
use std::path::Path;

use rk_vocabulary::write_whole;
use serde::Deserialize;
use serde_json::Value as Json;
use serde_json::error::Category;
use sha2::{Digest as _, Sha256};

use crate::error::{Invalid, StepError};
use crate::model::Step;
use crate::model::code;
use crate::validate::validate;

/// Value of the key `format` in every step file.
pub const FORMAT: &str = "rk-step";

/// Version of the format that this build reads and writes.
///
/// 2: a checksum; addresses of lowered steps. 3: equal code stands in it once.
/// 4: kernels for CUDA. 5: how near kernels are to their calls. 6: settings of libtorch.
pub const VERSION: u64 = 6;

/// What stands before the checksum.
const SEAL: &str = "\n\"sha256\": \"";
/// Hexadecimal digits of the checksum.
const DIGITS: usize = 64;

#[derive(Deserialize)]
struct Header {
    format: Option<String>,
    version: Option<u64>,
    rk: Option<String>,
}

#[derive(Deserialize)]
struct Body {
    step: Step,
}

/// Reads and validates a step file; `-` is standard input.
///
/// # Errors
/// [`StepError`]: unreadable, truncated, foreign, of another version, with a broken field, or with content that
/// [`validate`] refuses.
pub fn read(path: &Path) -> Result<Step, StepError> {
    let shown = path.display().to_string();
    let mut text = Vec::new();
    let read = match path.to_str() {
        Some("-") => std::io::stdin().read_to_end(&mut text).map(drop),
        _ => std::fs::read(path).map(|found| text = found),
    };
    read.map_err(|source| StepError::Io { path: shown.clone(), source })?;
    parse(&text, &shown)
}

/// Reads and validates the text of a step file; `path` is for messages only.
///
/// # Errors
/// As [`read`].
pub fn parse(text: &[u8], path: &str) -> Result<Step, StepError> {
    let foreign = |why: &str| StepError::Foreign { path: path.into(), why: why.into() };
    if text.iter().all(u8::is_ascii_whitespace) {
        return Err(foreign("it is empty"));
    }
    let header: Header = serde_json::from_slice(text).map_err(|e| match e.classify() {
        Category::Eof => StepError::Truncated { path: path.into(), line: e.line() },
        _ if text.starts_with(b"{\n\"format\": \"rk-step\"") && !is_sealed(text) => {
            StepError::Damaged { path: path.into() }
        }
        _ if text.starts_with(b"{\n\"format\": \"rk-step\"") => field::<Header>(path, text, &e),
        _ => foreign("it is not a JSON object"),
    })?;
    if header.format.as_deref() != Some(FORMAT) {
        return Err(foreign(&format!("it has no \"format\": \"{FORMAT}\"")));
    }
    let found = header.version.ok_or_else(|| foreign("it has no version number"))?;
    if found != VERSION {
        let rk = header.rk.unwrap_or_else(|| "of unknown version".into());
        return Err(StepError::Version { path: path.into(), found, expected: VERSION, rk });
    }
    if !is_sealed(text) {
        return Err(StepError::Damaged { path: path.into() });
    }
    let Body { mut step } = serde_json::from_slice(text).map_err(|e| field::<Body>(path, text, &e))?;
    let invalid = |invalid| StepError::Invalid { path: path.into(), invalid };
    code::resolve(&mut step).map_err(invalid)?;
    validate(&step).map_err(invalid)?;
    Ok(step)
}

/// Validates a step and writes it atomically.
///
/// # Errors
/// [`StepError::Invalid`] for a step that [`read`] would refuse, [`StepError::Io`] when the folder cannot be written.
pub fn write(step: &Step, path: &Path) -> Result<(), StepError> {
    let shown = path.display().to_string();
    validate(step).map_err(|invalid| StepError::Invalid { path: shown.clone(), invalid })?;
    let text = print(step).map_err(|e| StepError::Invalid {
        path: shown.clone(),
        invalid: Invalid { place: "step".into(), message: format!("cannot be written as JSON: {e}") },
    })?;
    write_whole(path, text.as_bytes()).map_err(|source| StepError::Io { path: shown, source })
}

/// The text of the file: one line per field, one per element of a long list.
///
/// # Errors
/// None for a step that validates; serde's otherwise.
pub fn print(step: &Step) -> Result<String, serde_json::Error> {
    let mut out = format!(
        "{{\n\"format\": \"{FORMAT}\",\n\"version\": {VERSION},\n\"rk\": \"{}\",{SEAL}{}\",\n\"step\": ",
        env!("CARGO_PKG_VERSION"),
        "0".repeat(DIGITS),
    );
    let mut json = serde_json::to_value(step)?;
    code::share(&mut json);
    print_json(&json, "", &mut out)?;
    out.push_str("\n}\n");
    Ok(seal(&out))
}

/// The text with its checksum brought up to date: for tools that edit the text of a step file. A text without a place for a
/// checksum is given back as it is.
pub fn seal(text: &str) -> String {
    match place_of_seal(text.as_bytes()) {
        Some(at) => format!("{}{}{}", &text[..at], checksum(text.as_bytes(), at), &text[at + DIGITS..]),
        None => text.to_owned(),
    }
}

/// Where the checksum begins: in the header, which is not searched far.
fn place_of_seal(text: &[u8]) -> Option<usize> {
    let head = &text[..text.len().min(1024)];
    let at = head.windows(SEAL.len()).position(|window| window == SEAL.as_bytes())? + SEAL.len();
    let digits = text.get(at..at + DIGITS)?;
    digits.iter().all(u8::is_ascii_hexdigit).then_some(at)
}

/// SHA-256 of the text with zeros in place of the digits at `at`.
fn checksum(text: &[u8], at: usize) -> String {
    let mut hasher = Sha256::new();
    hasher.update(&text[..at]);
    hasher.update([b'0'; DIGITS]);
    hasher.update(&text[at + DIGITS..]);
    format!("{:x}", hasher.finalize())
}

fn is_sealed(text: &[u8]) -> bool {
    place_of_seal(text).is_some_and(|at| text[at..at + DIGITS] == *checksum(text, at).as_bytes())
}

/// Objects at the first two levels have one field per line, lists in them one element per line; the rest is compact.
fn print_json(json: &Json, key: &str, out: &mut String) -> Result<(), serde_json::Error> {
    match json {
        Json::Object(map) if matches!(key, "" | "plan" | "source" | "program" | "layout") => {
            out.push('{');
            for (i, (name, value)) in map.iter().enumerate() {
                out.push_str(if i == 0 { "\n" } else { ",\n" });
                out.push_str(&format!("{}: ", serde_json::to_string(name)?));
                print_json(value, name, out)?;
            }
            out.push('}');
        }
        Json::Array(items)
            if matches!(
                key,
                "args" | "constants" | "nodes" | "instrs" | "epilogue" | "outputs" | "places" | "launches"
            ) =>
        {
            let lines = items.iter().any(Json::is_object);
            out.push('[');
            for (i, item) in items.iter().enumerate() {
                out.push_str(if i > 0 { "," } else { "" });
                out.push_str(if lines { "\n" } else { "" });
                out.push_str(&serde_json::to_string(item)?);
            }
            out.push(']');
        }
        other => out.push_str(&serde_json::to_string(other)?),
    }
    Ok(())
}

/// What serde says of a file, which is read again for the way to the field: reading keeps none, for most files are sound.
fn field<'a, T: Deserialize<'a>>(path: &str, text: &'a [u8], e: &serde_json::Error) -> StepError {
    if e.is_eof() {
        return StepError::Truncated { path: path.into(), line: e.line() };
    }
    let message = e.to_string();
    // serde_json appends the position, which our error has in front.
    let message = message.split(" at line ").next().unwrap_or(&message);
    let again = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_slice(text));
    let message = match again.err().map(|again| again.path().to_string()) {
        Some(way) if way != "." => format!("{way}: {message}"),
        _ => message.to_string(),
    };
    StepError::Field { path: path.into(), line: e.line(), column: e.column(), message }
}
