//! Files that appear whole or not at all.

use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file beside its place, and renames it when it is complete; a file that was there is replaced at once.
///
/// It has the permissions of any new file, not those of a temporary one.
///
/// # Errors
/// When the folder cannot be written, or the place is a folder.
pub fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".rk-");
    // The umask takes away what it must.
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
    let mut file = builder.tempfile_in(folder).map_err(without_name)?;
    file.write_all(content)?;
    file.persist(path).map(drop).map_err(|error| error.error)
}

/// Why a temporary file could not be made, without its name, which says nothing to whoever asked for another one.
fn without_name(error: io::Error) -> io::Error {
    let text = error.to_string();
    match text.split_once(" at path ") {
        Some((reason, _)) => io::Error::new(error.kind(), reason),
        None => error,
    }
}

/// Writes what a command line asked for to where it asked: `-` is standard output, everything else a file that appears whole.
///
/// # Errors
/// As [`write_whole`], and when standard output cannot be written; that its reader has seen enough is none.
pub fn write_output(path: &Path, content: &[u8]) -> io::Result<()> {
    if path != Path::new("-") {
        return write_whole(path, content);
    }
    let mut out = io::stdout().lock();
    match out.write_all(content).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_and_nothing_is_left_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plan.json");
        for content in ["first", "second"] {
            write_whole(&path, content.as_bytes()).unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), content);
        }
        assert!(write_whole(folder.path(), b"a folder is in the way").is_err());
        let error = write_whole(&folder.path().join("none/plan.json"), b"").unwrap_err().to_string();
        assert_eq!(error, "No such file or directory (os error 2)");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn others_may_read_what_they_could_read_of_any_new_file() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let mode = |name: &str| folder.path().join(name).metadata().unwrap().permissions().mode();
        write_whole(&folder.path().join("whole"), b"").unwrap();
        std::fs::write(folder.path().join("plain"), b"").unwrap();
        assert_eq!(mode("whole"), mode("plain"));
    }
}
