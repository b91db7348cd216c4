//! The Python package: put together from what cargo built, found by `.venv`, and tested.
//!
//! For work in the checkout nothing is copied into `.venv`: the extension goes beside the package's sources, with the metadata
//! that makes PyTorch find the backend, and one line in a `.pth` file points there. So an edit is there at once.
//! Not here: the wheel, which is another build (`wheel`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::checkout::Checkout;
use crate::process;

/// The package with its build.
pub const FOLDER: &str = "frontend/python";
/// The sources of the package, and the folder that is on Python's path.
pub const PACKAGES: &str = "frontend/python/python";

/// Builds the extension and makes the package importable in `.venv`.
///
/// # Errors
/// When the build fails or a file cannot be written.
pub fn install(checkout: &Checkout) -> Result<()> {
    build(checkout, &EXTENSIONS)?;
    assemble(checkout)?;
    let environment = checkout.path(".venv");
    // A link is somebody else's environment, with a package of its own.
    if environment.is_symlink() {
        eprintln!("python: .venv is a link; set PYTHONPATH={}", checkout.path(PACKAGES).display());
        return Ok(());
    }
    let ask = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let site = process::capture(Command::new(checkout.python()).args(["-c", ask]))?;
    let path = PathBuf::from(site.trim()).join("rk.pth");
    std::fs::write(&path, format!("{}\n", checkout.path(PACKAGES).display()))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// Extension modules: the crate and the module.
const EXTENSIONS: [(&str, &str); 3] =
    [("rk-python", "_rk"), ("rk-python-runtime", "_rk_runtime"), ("rk-python-memory", "_rk_memory")];

fn build(checkout: &Checkout, extensions: &[(&str, &str)]) -> Result<()> {
    let crates = extensions.iter().flat_map(|(name, _)| ["-p", name]);
    process::show(checkout.cargo("build").args(["--release", "--locked"]).args(crates))
}

/// Puts a built extension beside the package's sources.
fn place(checkout: &Checkout, module: &str) -> Result<PathBuf> {
    let built = checkout.binaries()?.join(format!("lib{module}.so"));
    let target = checkout.path(PACKAGES).join(format!("rk/{module}.abi3.so"));
    let part = target.with_extension("part");
    std::fs::copy(&built, &part)
        .and_then(|_| std::fs::rename(&part, &target))
        .with_context(|| format!("cannot copy {} to {}", built.display(), target.display()))?;
    Ok(target)
}

/// Puts the built extensions and the package's metadata beside its sources.
fn assemble(checkout: &Checkout) -> Result<()> {
    EXTENSIONS.iter().try_for_each(|(_, module)| place(checkout, module).map(drop))?;
    let project = checkout.read(format!("{FOLDER}/pyproject.toml"))?;
    let info = format!("{PACKAGES}/rk-{}.dist-info", env!("CARGO_PKG_VERSION"));
    let metadata = format!("Metadata-Version: 2.1\nName: rk\nVersion: {}\n", env!("CARGO_PKG_VERSION"));
    checkout.write(&format!("{info}/METADATA"), &metadata)?;
    checkout.write(&format!("{info}/entry_points.txt"), &entry_points(&project)?)
}

/// The entry points of `pyproject.toml` as an installed package lists them.
fn entry_points(project: &str) -> Result<String> {
    let mut text = String::new();
    let mut inside = false;
    for line in project.lines() {
        if let Some(section) = line.strip_prefix('[') {
            let group = section.strip_prefix("project.entry-points.").and_then(|rest| rest.strip_suffix(']'));
            inside = group.is_some();
            text.extend(group.map(|group| format!("[{}]\n", group.trim_matches('"'))));
        } else if inside && line.contains('=') {
            text.push_str(&line.replace('"', ""));
            text.push('\n');
        }
    }
    if text.is_empty() {
        bail!("{FOLDER}/pyproject.toml has no entry points");
    }
    Ok(text)
}

/// Runs ruff, mypy and pytest on the package, as it is built.
///
/// # Errors
/// When one of them finds something.
pub fn test(checkout: &Checkout) -> Result<()> {
    let mut ruff = Command::new(checkout.python());
    ruff.args(["-m", "ruff", "check", "--quiet", "--no-cache", "."]).current_dir(checkout.path(FOLDER));
    process::show(&mut ruff)?;
    // What it found of torch is kept: the first run takes half a minute.
    let mut mypy = Command::new(checkout.python());
    mypy.args(["-m", "mypy", "--cache-dir"]).arg(checkout.path("target/mypy"));
    process::show(mypy.current_dir(checkout.path(FOLDER)))?;
    process::show(pytest(checkout, &checkout.python())?.arg("tests"))
}

/// pytest on the package as it is built, with this interpreter; what it runs is still to be added.
///
/// # Errors
/// When there is nothing built.
pub fn pytest(checkout: &Checkout, interpreter: &Path) -> Result<Command> {
    assemble(checkout)?;
    let mut command = Command::new(interpreter);
    command.args(["-m", "pytest", "-q", "-p", "no:cacheprovider"]).current_dir(checkout.path(FOLDER));
    // A process for each processor; one has up to 3 GB. A file stays together as long as nobody is idle.
    command.args(["-n", "auto", "--maxprocesses", "4", "--dist", "worksteal"]);
    // What takes longest is named, so that it can be shortened.
    command.args(["--durations", "25"]);
    // Few cores: threads of libtorch that spin while they wait would take ten times as long.
    command.env("PYTHONPATH", checkout.path(PACKAGES)).env("OMP_WAIT_POLICY", "passive");
    Ok(command)
}

#[derive(clap::Args)]
pub struct GpuTablesOptions {
    /// Folders of JSON lines; all of docs/gpu without them
    folders: Vec<PathBuf>,
}

/// Writes the tables of docs/benchmarks-gpu.md.
///
/// # Errors
/// When there are no numbers, or the page has no place for them.
pub fn gpu_tables(checkout: &Checkout, options: &GpuTablesOptions) -> Result<()> {
    let mut folders = options.folders.clone();
    if folders.is_empty() {
        for entry in std::fs::read_dir(checkout.path("docs/gpu"))? {
            folders.push(entry?.path());
        }
        folders.sort();
    }
    let paths = std::env::join_paths([checkout.path(PACKAGES), checkout.path(FOLDER)])?;
    let mut command = Command::new(checkout.python());
    command.args(["-m", "gpu_suite.tables", "--page"]).arg(checkout.path("docs/benchmarks-gpu.md"));
    process::show(command.args(folders).env("PYTHONPATH", paths))
}

/// Writes the generated parts of docs/reference, or checks them. The package and the tools must be built.
///
/// # Errors
/// When something is not built, or a page is another one and `check` was given.
pub fn reference(checkout: &Checkout, check: bool) -> Result<()> {
    assemble(checkout)?;
    let mut command = Command::new(checkout.python());
    command.args(["-m", "reference"]).args(check.then_some("--check")).current_dir(checkout.path(FOLDER));
    command.env("PYTHONPATH", checkout.path(PACKAGES)).env("RK_TOOLS", checkout.binaries()?);
    process::show(&mut command)
}

/// Builds the extensions that are linked to torch, and gives their files beside the package's sources.
///
/// # Errors
/// When the build fails.
pub fn build_beside(checkout: &Checkout) -> Result<Vec<PathBuf>> {
    let beside = &EXTENSIONS[1..];
    build(checkout, beside)?;
    beside.iter().map(|(_, module)| place(checkout, module)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_points_are_taken_over() -> Result<()> {
        let project = "[project]\nname = \"rk\"\n\n[project.entry-points.torch_dynamo_backends]\nrk = \"rk.x:rk\"\n[tool]\na = 1\n";
        assert_eq!(entry_points(project)?, "[torch_dynamo_backends]\nrk = rk.x:rk\n");
        assert!(entry_points("[project]\n").is_err());
        Ok(())
    }
}
