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
            let here = PathBuf::from(&source.archive);
            let beside = step_file.parent().unwrap_or(Path::new("")).join(&source.archive);
            match [&here, &beside].into_iter().find(|p| p.is_file()) {
                Some(path) => path.clone(),
                None => {
                    let mut tried = here.display().to_string();
                    if beside != here {
                        tried = format!("{tried}, {}", beside.display());
                    }
                    return Err(RuntimeError::Model(format!(
                        "{}: the archive that it was recorded from is missing (tried {tried}); --model M.pt says where it is",
                        step_file.display()
                    )));
                }
            }
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
