//! Text and figures, as files that appear whole or not at all.

use crate::plot::Figure;
use anyhow::{Context, Result};
use rk_vocabulary::write_whole;
use std::path::{Path, PathBuf};

/// Writes a file.
///
/// # Errors
/// Names the file that cannot be written.
pub fn write_atomically(path: &Path, content: &[u8]) -> Result<()> {
    write_whole(path, content).with_context(|| format!("{}: cannot be written", path.display()))
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
        let file = tempfile::Builder::new().suffix(".png").tempfile()?;
        figure.png(file.path())?;
        Ok(write_whole(&png, &std::fs::read(file.path())?)?)
    };
    write().with_context(|| format!("{}: cannot be written", png.display()))?;
    Ok([svg, png])
}
