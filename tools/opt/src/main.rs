//! `rk-opt`: `mlir-opt` with the dialect rk and its passes. Every option of mlir-opt works.
//!
//! `rk-opt STEP.mlir --rematerialize --budget=2GiB -o OUT.mlir`. The command line is MLIR's own (`MlirOptMain`); four things
//! are added to it. `--help` shows the passes of rk (`help`). A file given by `-o` is written whole or not at all. It keeps locations, because they carry the
//! module paths that later tools show. And the exit code tells why there is no output: 1 the input or a pass was
//! refused, 2 the budget is proven infeasible, 3 no schedule was found in the time, 4 the value of a pass option is not understood,
//! 5 a step is at a stage that cannot be planned, 6 the output cannot be written. `RK_LOG=rk_solve=info` shows the planner at work.

mod help;

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// What the exit code says when the output cannot be written.
const CANNOT_WRITE: i32 = 6;

fn main() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RK_LOG").unwrap_or_else(|_| "warn".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    rk_rewrite::register_all();
    let mut command: Vec<OsString> = std::env::args_os().collect();
    if help::is_wanted(&command) {
        // A reader that has seen enough is no failure.
        let _ = rk_cli::with_manners(help::command()).print_help();
        return;
    }
    rk_cli::answer(&help::command());
    let output = output(&command);
    let mut unfinished = None;
    if let Some((place, path)) = output {
        match beside(&path) {
            Ok(temporary) => {
                command.splice(place, ["-o".into(), temporary.clone().into_os_string()]);
                unfinished = Some((temporary, path));
            }
            Err(reason) => fail(CANNOT_WRITE, &reason),
        }
        if !command.iter().any(|argument| argument.as_bytes().starts_with(b"--mlir-print-debuginfo")) {
            command.push("--mlir-print-debuginfo".into());
        }
    }
    let code = rk_dialect::opt_main(command, concat!("rk ", env!("CARGO_PKG_VERSION")));
    if code != 0 {
        std::process::exit(rk_rewrite::exit::code().unwrap_or(code));
    }
    if let Some((temporary, path)) = unfinished
        && let Err(error) = std::fs::rename(&temporary, &path)
    {
        fail(CANNOT_WRITE, &format!("{}: cannot write: {error}", path.display()));
    }
}

fn fail(code: i32, reason: &str) -> ! {
    eprintln!("error: {reason}");
    std::process::exit(code);
}

/// Where the output goes: which arguments say so (`-o FILE`, `-o=FILE`, `--o ...`), and the file.
fn output(command: &[OsString]) -> Option<(std::ops::Range<usize>, PathBuf)> {
    let (place, path) = command.iter().enumerate().skip(1).find_map(|(at, argument)| {
        let name = argument.as_bytes();
        let name = name.strip_prefix(b"--").or_else(|| name.strip_prefix(b"-"))?;
        match name {
            b"o" => Some((at..at + 2, command.get(at + 1)?.clone())),
            _ => Some((at..at + 1, OsStr::from_bytes(name.strip_prefix(b"o=")?).to_owned())),
        }
    })?;
    // Standard output and devices are written to directly.
    let path = PathBuf::from(path);
    let special =
        path.as_os_str() == "-" || path.metadata().is_ok_and(|about| !about.is_file() && !about.is_dir());
    (!special).then_some((place, path))
}

/// The name of a file beside `path` that takes its place when it is whole. MLIR makes it, and removes it when it fails;
/// here it is only tried out that a file can be made there at all.
fn beside(path: &Path) -> Result<PathBuf, String> {
    let cannot = |why: String| format!("{}: cannot write: {why}", path.display());
    let name = path.file_name().filter(|_| !path.is_dir()).ok_or_else(|| cannot("it is a folder".into()))?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    tempfile::tempfile_in(folder).map_err(|error| cannot(error.to_string()))?;
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(format!(".{}", std::process::id()));
    Ok(folder.join(hidden))
}
