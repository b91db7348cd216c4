//! Finding the archive that a step was recorded from, and making sure that it is that one.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use rk_step::Source;
use sha2::{Digest, Sha256};

use crate::error::RuntimeError;

/// The archive of a step: `model` if given, else `source.archive`, looked up from the current folder and then from
/// the folder of the step file. An archive with another hash is refused, unless `model` names it: then the caller
/// wants other weights, and only gets a warning.
///
/// # Errors
/// When there is no such file, with all places that were tried; when it is another archive.
pub fn find(source: &Source, step_file: &Path, model: Option<&Path>) -> Result<PathBuf, RuntimeError> {
    let path = match model {
        Some(path) if path.is_file() => path.to_path_buf(),
        Some(path) => return Err(RuntimeError::Model(format!("{}: no such archive", path.display()))),
        None => {
            let lost = |tried| {
                RuntimeError::Model(format!(
                    "{}: the archive that it was recorded from is missing (tried {tried}); --model M.pt says where it is",
                    step_file.display()
                ))
            };
            locate(&source.archive, step_file).map_err(lost)?
        }
    };
    let found = sha256(&path)?;
    if !found.eq_ignore_ascii_case(&source.sha256) {
        let message = format!(
            "{}: not the archive that the step was recorded from (SHA-256 {}…, recorded {}…)",
            path.display(),
            found.get(..12).unwrap_or(&found),
            source.sha256.get(..12).unwrap_or(&source.sha256)
        );
        if model.is_none() {
            return Err(RuntimeError::Model(format!(
                "{message}; import it again, or say --model to use it anyway"
            )));
        }
        tracing::warn!("{message}; used because --model names it");
    }
    Ok(path)
}

/// The recorded file of inputs, if the step has one, looked up like the archive.
///
/// # Errors
/// When it is not there, with all places that were tried; when it is another file.
pub fn inputs_file(source: &Source, step_file: &Path) -> Result<Option<PathBuf>, RuntimeError> {
    let Some(file) = &source.inputs_file else { return Ok(None) };
    let path = locate(file, step_file).map_err(|tried| {
        let step_file = step_file.display();
        RuntimeError::Model(format!("{step_file}: the file with its inputs is missing (tried {tried})"))
    })?;
    match &source.inputs_sha256 {
        Some(recorded) if !sha256(&path)?.eq_ignore_ascii_case(recorded) => Err(RuntimeError::Model(
            format!("{}: not the inputs that the step was recorded with; import it again", path.display()),
        )),
        _ => Ok(Some(path)),
    }
}

/// A file as recorded: from the current folder, then from the folder of the step file; the error lists both.
fn locate(recorded: &str, step_file: &Path) -> Result<PathBuf, String> {
    let here = PathBuf::from(recorded);
    let beside = step_file.parent().unwrap_or(Path::new("")).join(recorded);
    if here.is_file() {
        Ok(here)
    } else if beside.is_file() {
        Ok(beside)
    } else if beside == here {
        Err(recorded.to_owned())
    } else {
        Err(format!("{recorded}, {}", beside.display()))
    }
}

/// SHA-256 of a file, 64 hexadecimal digits.
///
/// # Errors
/// When the file cannot be read.
pub fn sha256(path: &Path) -> Result<String, RuntimeError> {
    let io = |e: std::io::Error| RuntimeError::Model(format!("{}: {e}", path.display()));
    let mut file = std::fs::File::open(path).map_err(io)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0u8; 1 << 20];
    loop {
        let n = file.read(&mut buffer).map_err(io)?;
        if n == 0 {
            return Ok(hasher.finalize().iter().map(|b| format!("{b:02x}")).collect());
        }
        hasher.update(&buffer[..n]);
    }
}
