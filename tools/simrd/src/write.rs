//! Files appear whole or not at all: written beside their final place, then renamed.

use crate::plot::Figure;
use anyhow::{Context, Result};
use std::io::Write;
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Writes a file.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    let write = || -> Result<()> {
        let mut file = beside(path, "")?;
        file.write_all(content)?;
        persist(file, path)
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))
}

/// Writes a figure as svg and as png; `stem` lacks the ending. Returns both paths.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write_figure(stem: &Path, figure: &Figure) -> Result<[PathBuf; 2]> {
    let with = |ending: &str| PathBuf::from(format!("{}{ending}", stem.display()));
    let (svg, png) = (with(".svg"), with(".png"));
    write_atomically(&svg, figure.svg()?.as_bytes())?;
    let write = || -> Result<()> {
        // The encoder wants a path of its own and takes the format from its ending.
        let file = beside(&png, ".png")?;
        figure.png(file.path())?;
        persist(file, &png)
    };
    write().with_context(|| format!("{}: cannot be written", png.display()))?;
    Ok([svg, png])
}

fn beside(path: &Path, ending: &str) -> Result<NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Ok(tempfile::Builder::new().prefix(".rk-simrd-").suffix(ending).tempfile_in(folder)?)
}

/// Renames, with the permissions of an ordinary new file instead of a private one.
fn persist(file: NamedTempFile, path: &Path) -> Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o644))?;
    }
    file.persist(path)?;
    Ok(())
}
