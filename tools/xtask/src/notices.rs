//! The licences of what is inside the wheel, as one text file that the wheel carries.
//!
//! Four kinds of code are in it that are not ours: what lies in a folder `third-party` with its licence, crates (as cargo resolves them for Linux, without what only builds or tests),
//! LLVM with MLIR (archives, from Debian), and the solver's shared libraries with what they need (from Debian, packed along).
//! Crates bring their licence as files, Debian's packages as `/usr/share/doc/*/copyright`. Equal texts are printed once.
//! Not here: a judgement. What has no text is listed with the expression that its manifest gives.

use std::collections::{BTreeMap, BTreeSet};
use std::env::consts::ARCH;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::checkout::Checkout;
use crate::process;

/// The extension modules and the tools in the wheel, by their crates.
const ROOTS: [&str; 6] =
    ["rk-python", "rk-python-runtime", "rk-python-memory", "rk-opt", "rk-plan-cli", "rk-simrd"];
/// What is compiled into our own crates: its name, and its licence.
const BUNDLED: [(&str, &str); 1] = [("uPlot 1.6.32 (MIT)", "passes/report/third-party/uPlot/LICENSE")];
/// Debian's packages whose archives are linked in.
const LINKED: [&str; 2] = ["llvm-22-dev", "libmlir-22-dev"];
/// The shared libraries that are packed along with what they need: the solver, and what LLVM's archives compress with.
const PACKED: [&str; 2] = ["libCbcSolver.so.3", "libzstd.so.1"];
/// Part of every Linux that the wheel is for; the tag of the wheel says so.
const SYSTEM: [&str; 3] = ["libc6", "libgcc-s1", "libstdc++6"];

/// The text, and the shared libraries whose licences are in it, by the beginning of their names: `libCbc`.
///
/// # Errors
/// When cargo or dpkg cannot be asked, or a package of Debian's has no copyright file.
pub fn text(checkout: &Checkout) -> Result<(String, BTreeSet<String>)> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut silent = Vec::new();
    for (name, expression, folder) in crates(checkout)? {
        let files = licence_files(&folder)?;
        if files.is_empty() {
            silent.push(format!("{name}: {expression}"));
        }
        for file in files {
            let text = String::from_utf8_lossy(&std::fs::read(&file)?).trim().to_owned();
            texts.entry(text).or_default().push(format!("{name} ({expression})"));
        }
    }
    for (name, file) in BUNDLED {
        texts.entry(checkout.read(file)?.trim().to_owned()).or_default().push(name.to_owned());
    }
    let mut packages: BTreeSet<String> = LINKED.map(str::to_owned).into();
    let mut libraries = BTreeSet::new();
    let packed: Vec<Vec<PathBuf>> = PACKED.into_iter().map(needed_by).collect::<Result<_>>()?;
    for path in packed.into_iter().flatten() {
        if let Some(package) = owner(&path)?.filter(|package| !SYSTEM.contains(&package.as_str())) {
            packages.insert(package);
            libraries.extend(stem(&path.to_string_lossy()));
        }
    }
    for package in &packages {
        let file = PathBuf::from(format!("/usr/share/doc/{package}/copyright"));
        let text =
            std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        texts.entry(text.trim().to_owned()).or_default().push(format!("{package} (Debian)"));
    }
    let mut out = String::from("What is inside of rk's wheel besides rk itself, and under which licences.\n");
    if !silent.is_empty() {
        writeln!(out, "\nWithout a text of their own; the usual text of the named licence holds:")?;
        silent.iter().try_for_each(|line| writeln!(out, "  {line}"))?;
    }
    let mut sections: Vec<(Vec<String>, String)> =
        texts.into_iter().map(|(text, mut names)| (std::mem::take(&mut names), text)).collect();
    sections.sort();
    for (names, text) in sections {
        write!(out, "\n{}\n{}\n\n{text}\n", "=".repeat(100), names.join("\n"))?;
    }
    Ok((out, libraries))
}

/// Crates of others in the extension modules: name with version, licence expression, folder.
fn crates(checkout: &Checkout) -> Result<Vec<(String, String, PathBuf)>> {
    let platform = format!("{ARCH}-unknown-linux-gnu");
    let metadata = checkout.metadata(&["--locked", "--filter-platform", &platform])?;
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"]).into_iter().map(|package| (word(&package["id"]), package)).collect();
    let nodes = list(&metadata["resolve"]["nodes"]);
    let nodes: BTreeMap<String, &Value> = nodes.iter().map(|node| (word(&node["id"]), node)).collect();
    let is_root = |package: &Value| ROOTS.contains(&word(&package["name"]).as_str());
    let mut waiting: Vec<String> =
        packages.iter().filter(|(_, package)| is_root(package)).map(|(id, _)| id.clone()).collect();
    let mut seen = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        if !seen.insert(id.clone()) {
            continue;
        }
        for dependency in nodes.get(&id).map(|node| list(&node["deps"])).unwrap_or_default() {
            // A kind is "build" or "dev"; none is what is linked.
            if list(&dependency["dep_kinds"]).iter().any(|kind| kind["kind"].is_null()) {
                waiting.push(word(&dependency["pkg"]));
            }
        }
    }
    let mut found = Vec::new();
    for package in
        seen.iter().filter_map(|id| packages.get(id)).filter(|package| !package["source"].is_null())
    {
        let manifest = PathBuf::from(word(&package["manifest_path"]));
        let folder = manifest.parent().context("a manifest without a folder")?.to_owned();
        let expression = package["license"].as_str().unwrap_or("no expression").trim().to_owned();
        found.push((format!("{} {}", word(&package["name"]), word(&package["version"])), expression, folder));
    }
    found.sort();
    Ok(found)
}

/// Files of licences in a crate's folder, or one below: what a `-sys` crate builds lies there.
fn licence_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_licence = |path: &Path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        path.is_file()
            && ["LICENSE", "LICENCE", "COPYING", "NOTICE", "UNLICENSE"]
                .iter()
                .any(|word| name.starts_with(word))
    };
    let entries = |folder: &Path| -> Result<Vec<PathBuf>> {
        let mut paths =
            std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        paths.sort();
        Ok(paths)
    };
    let mut found = Vec::new();
    for path in entries(folder)? {
        if path.is_dir() {
            found.extend(entries(&path)?.into_iter().filter(|path| is_licence(path)));
        } else if is_licence(&path) {
            found.push(path);
        }
    }
    Ok(found)
}

/// `libblas` of `/usr/lib/x86_64-linux-gnu/libblas.so.3`.
pub fn stem(path: &str) -> Option<String> {
    Some(path.rsplit('/').next()?.split_once(".so")?.0.to_owned())
}

/// A library of Debian's and what it needs, as the loader finds it.
fn needed_by(library: &str) -> Result<Vec<PathBuf>> {
    let library = PathBuf::from(format!("/usr/lib/{ARCH}-linux-gnu/{library}"));
    let listing = process::capture(Command::new("ldd").arg(&library))?;
    let needed = listing.lines().filter_map(|line| line.split("=> ").nth(1)?.split(' ').next());
    let needed: Vec<PathBuf> = needed.map(PathBuf::from).collect();
    Ok([vec![library], needed].concat())
}

/// The package that a file belongs to; nothing for what the kernel provides.
fn owner(path: &Path) -> Result<Option<String>> {
    if !path.is_file() {
        return Ok(None);
    }
    // Alternatives of Debian are links, and `/lib` is one to `/usr/lib`; dpkg knows either spelling.
    let real = std::fs::canonicalize(path)?;
    let short =
        real.strip_prefix("/usr").map(|rest| Path::new("/").join(rest)).unwrap_or_else(|_| real.clone());
    for spelling in [&real, &short] {
        if let Ok(line) = process::capture(Command::new("dpkg").arg("-S").arg(spelling)) {
            return Ok(line.split(':').next().map(str::to_owned));
        }
    }
    bail!("{} belongs to no package of Debian's, so its licence is not known", real.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_llvm_and_the_solver_are_in_it() -> Result<()> {
        let (text, libraries) = text(&Checkout::find()?)?;
        for word in [
            "serde_json 1",
            "pyo3 0",
            "torch-sys 0",
            "clap 4",
            "uPlot 1.6.32 (MIT)",
            "llvm-22-dev (Debian)",
            "coinor-libcbc3 (Debian)",
        ] {
            assert!(text.contains(word), "{word} is not in the notices");
        }
        assert!(text.contains("Apache License v2.0 with LLVM Exceptions") || text.contains("LLVM-exception"));
        assert!(text.contains("libgfortran5 (Debian)") && !text.contains("libc6 (Debian)"));
        assert!(
            ["libCbcSolver", "libOsiClp", "libbz2", "libzstd"].iter().all(|name| libraries.contains(*name))
        );
        assert!(!libraries.contains("libc"));
        // What only tests or builds is not in the wheel.
        assert!(!text.contains("criterion 0"));
        Ok(())
    }
}
