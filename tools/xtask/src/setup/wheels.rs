//! Whether the wheels in an environment are whole: each file that a wheel's RECORD lists is there with its size.
//!
//! pip trusts the mere existence of a `.dist-info` folder. When it is interrupted while it unpacks a gigabyte of
//! torch, the next pip may call the remains satisfied; this finds them. Content is not hashed: an interrupted
//! unpacking leaves files out or short, and hashing five gigabytes would take longer than installing them.

use std::path::Path;

use anyhow::{Context, Result, bail};

/// Checks every wheel in a site-packages folder.
///
/// # Errors
/// Names the first wheel that is not whole, and the file.
pub fn all_whole(site_packages: &Path) -> Result<()> {
    let mut records = Vec::new();
    for entry in std::fs::read_dir(site_packages)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "dist-info") {
            records.push(path);
        }
    }
    records.sort();
    for wheel in records {
        let name = wheel.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let record = std::fs::read_to_string(wheel.join("RECORD"))
            .with_context(|| format!("{name} is half installed: it has no RECORD"))?;
        for (file, size) in record.lines().filter_map(entry_of) {
            let found = std::fs::metadata(site_packages.join(&file)).map(|data| data.len());
            match found {
                Ok(bytes) if bytes == size => {}
                Ok(bytes) => bail!("{name} is half installed: {file} has {bytes} of {size} bytes"),
                Err(_) => bail!("{name} is half installed: {file} is missing"),
            }
        }
    }
    Ok(())
}

/// The path and size of one line of RECORD: `path,sha256=...,size`. Lines without a size are generated files.
fn entry_of(line: &str) -> Option<(String, u64)> {
    let (rest, size) = line.rsplit_once(',')?;
    let (path, _hash) = rest.rsplit_once(',')?;
    // A path that holds a comma is quoted.
    Some((path.trim_matches('"').replace("\"\"", "\""), size.trim().parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_lines_are_read() {
        assert_eq!(entry_of("torch/version.py,sha256=x,12"), Some(("torch/version.py".to_owned(), 12)));
        assert_eq!(entry_of("\"a,b.py\",sha256=x,3"), Some(("a,b.py".to_owned(), 3)));
        assert_eq!(entry_of("torch/__pycache__/a.pyc,,"), None);
    }

    #[test]
    fn a_short_file_and_a_missing_one_are_named() -> Result<()> {
        let folder = std::env::temp_dir().join(format!("rk-wheels-{}", std::process::id()));
        let info = folder.join("torch-2.0.dist-info");
        std::fs::create_dir_all(&info)?;
        let check = |record: &str| {
            std::fs::write(info.join("RECORD"), record)?;
            all_whole(&folder)
        };
        std::fs::write(folder.join("a.py"), "12345")?;
        let whole = check("a.py,sha256=x,5\n");
        let short = check("a.py,sha256=x,9\n").map_err(|error| error.to_string());
        let gone = check("b.py,sha256=x,5\n").map_err(|error| error.to_string());
        std::fs::remove_dir_all(&folder)?;
        assert!(whole.is_ok());
        assert_eq!(short, Err("torch-2.0 is half installed: a.py has 5 of 9 bytes".to_owned()));
        assert_eq!(gone, Err("torch-2.0 is half installed: b.py is missing".to_owned()));
        Ok(())
    }
}
