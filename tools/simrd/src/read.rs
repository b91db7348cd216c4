//! Reads a log file, plain or compressed, into a program.
//!
//! Idea: lines are read into one buffer of bounded size, so a gigabyte of garbage costs a megabyte of memory and a
//! decompression bomb ends at a stated size. Whether a file is compressed is told by its first bytes, not its name.
//! Not here: what a line means (see `rk_dtr::LogReader`).

use anyhow::{Context, Result, anyhow, bail, ensure};
use flate2::bufread::MultiGzDecoder;
use rk_dtr::{LogReader, Program};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, stdin};
use std::path::{Path, PathBuf};

/// The longest line that is read. The longest of the recorded logs have a few hundred bytes.
const MAX_LINE: u64 = 4 << 20;
/// The longest log that is read, after decompression. The recorded ones have up to 3 MB.
const MAX_LOG: u64 = 1 << 30;

/// Reads the log at `path`.
///
/// # Errors
/// Names the file, the line and what is wrong with it.
pub fn read_log(path: &Path) -> Result<Program> {
    let name = path.display();
    let file: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(stdin()),
        _ => Box::new(File::open(path).with_context(|| format!("{name}: cannot be opened"))?),
    };
    let mut file = BufReader::with_capacity(1 << 16, file);
    let start = file.fill_buf().with_context(|| format!("{name}: cannot be read"))?;
    if start.starts_with(&[0x1f, 0x8b]) {
        read(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(file)), path)
    } else {
        read(file, path)
    }
}

fn read(mut input: impl BufRead, path: &Path) -> Result<Program> {
    let name = path.display();
    let (mut log, mut line, mut total) = (LogReader::new(), Vec::new(), 0);
    for number in 1.. {
        line.clear();
        let limited = input.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut line);
        let length = limited.with_context(|| format!("{name}:{number}: cannot be read"))? as u64;
        if length == 0 {
            break;
        }
        total += length;
        ensure!(length <= MAX_LINE, "{name}:{number}: the line is longer than {MAX_LINE} bytes");
        ensure!(total <= MAX_LOG, "{name}:{number}: the log is longer than {MAX_LOG} bytes");
        log.line(&line).map_err(|e| anyhow!("{name}:{number}: {}", e.reason))?;
    }
    log.finish().map_err(|e| anyhow!("{name}:{}: {}", e.line, e.reason))
}

/// The model that a log records: its file name without folder and endings.
pub fn model_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy();
    let name = name.strip_suffix(".gz").unwrap_or(&name);
    name.strip_suffix(".log").unwrap_or(name).to_owned()
}

/// All logs of a folder (`*.log`, `*.log.gz`), or the one log that `path` names, by name.
///
/// # Errors
/// If the folder cannot be read or holds no log.
pub fn find_logs(path: &Path) -> Result<Vec<PathBuf>> {
    let name = path.display();
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut logs = Vec::new();
    for entry in path.read_dir().with_context(|| format!("{name}: cannot be read"))? {
        let entry = entry.with_context(|| format!("{name}: cannot be read"))?.path();
        let text = entry.to_string_lossy();
        if text.ends_with(".log") || text.ends_with(".log.gz") {
            logs.push(entry);
        }
    }
    if logs.is_empty() {
        bail!("{name}: no *.log and no *.log.gz in this folder");
    }
    logs.sort();
    Ok(logs)
}
