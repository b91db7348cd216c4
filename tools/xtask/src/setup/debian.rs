//! The Debian packages: which are missing, and installing them with the rights we have.
//!
//! MLIR 22 is the reason why a distribution may not do: Debian 12 has the packages `*-22` from bookworm-security.
//! They are not looked for elsewhere, because Debian's build (shared libraries, release, RTTI) is the one that links.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use crate::process;

/// What the build needs. `llvm-22-tools` has FileCheck, not, split-file and lit; `mlir-22-tools` mlir-opt and mlir-tblgen.
const PACKAGES: [&str; 13] = [
    "build-essential",
    "pkg-config",
    "llvm-22-dev",
    "llvm-22-tools",
    "libmlir-22-dev",
    "clang-22", // MLIR knows traits by the name that the compiler spells: the dialect must be compiled as Debian compiled MLIR
    "mlir-22-tools",
    "libclang-22-dev",
    "zlib1g-dev",
    "libzstd-dev",
    "coinor-libcbc-dev",
    "libpolly-22-dev", // what `llvm-config --link-static` names, and melior's macro crate links
    "graphviz",        // draws what `rk.graphs` shows
];

/// The packages that are not installed, in the order of the list.
///
/// # Errors
/// On a system without dpkg.
pub fn missing() -> Result<Vec<&'static str>> {
    let mut wanted = PACKAGES.to_vec();
    // Debian splits venv off; a Python from elsewhere usually has it.
    if super::python::interpreter().is_err() {
        wanted.extend(["python3", "python3-venv"]);
    }
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${Package} ${db:Status-Status}\\n"]).args(&wanted);
    let Ok(output) = query.output() else {
        bail!(
            "this is no Debian or Ubuntu (there is no dpkg-query); install by hand what these packages hold: {}",
            wanted.join(" ")
        );
    };
    // It exits with 1 when a package is unknown, and lists the others all the same.
    Ok(not_installed(&wanted, &String::from_utf8_lossy(&output.stdout)))
}

fn not_installed<'a>(wanted: &[&'a str], listing: &str) -> Vec<&'a str> {
    let installed = |package: &str| listing.lines().any(|line| line == format!("{package} installed"));
    wanted.iter().copied().filter(|package| !installed(package)).collect()
}

/// Installs packages; asks apt for fresh lists only when the present ones do not know a package.
///
/// # Errors
/// Without the right to install (the message is the line to run), or when the distribution lacks a package.
pub fn install(packages: &[&'static str]) -> Result<()> {
    let by_hand = format!("apt-get update && apt-get install -y {}", packages.join(" "));
    let Some(prefix) = rights() else {
        bail!(
            "not root, and `sudo -n` does not work here. Run this, then the same command again:\n  sudo sh -c '{by_hand}'"
        );
    };
    let apt = |arguments: &[&str]| {
        let words =
            [prefix.as_slice(), &["env", "DEBIAN_FRONTEND=noninteractive", "apt-get"], arguments].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    };
    let fresh = !unavailable(packages).is_empty();
    if fresh {
        process::show(&mut apt(&["update"]))?;
    }
    let unknown = unavailable(packages);
    if !unknown.is_empty() {
        bail!(
            "{} has no package {}. Debian 12 has the packages *-22 (LLVM and MLIR 22) from bookworm-security: is that in \
             /etc/apt/sources.list? Elsewhere, https://apt.llvm.org has them",
            distribution(),
            unknown.join(", ")
        );
    }
    let install = [&["install", "-y"], packages].concat();
    if let Err(error) = process::show(&mut apt(&install)) {
        // Old lists name files that the mirror no longer has.
        if fresh {
            return Err(error);
        }
        process::show(&mut apt(&["update"]))?;
        process::show(&mut apt(&install))?;
    }
    Ok(())
}

/// What stands before a command that needs root: nothing for root itself, `sudo -n` where it asks for no password.
fn rights() -> Option<Vec<&'static str>> {
    let user = process::capture(Command::new("id").arg("-u")).unwrap_or_default();
    if user.trim() == "0" {
        return Some(Vec::new());
    }
    process::succeeds(Command::new("sudo").args(["-n", "true"])).then(|| vec!["sudo", "-n"])
}

/// The packages that apt has no candidate for.
fn unavailable(packages: &[&'static str]) -> Vec<&'static str> {
    let known = |package: &str| {
        process::succeeds(Command::new("apt-cache").args(["show", "--no-all-versions", package]))
    };
    packages.iter().copied().filter(|package| !known(package)).collect()
}

fn distribution() -> String {
    let text = std::fs::read_to_string(Path::new("/etc/os-release")).unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or("this distribution".to_owned(), |name| name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_package_counts_as_missing() {
        let listing = "pkg-config installed\nllvm-22-dev config-files\nllvm-22 installed\n";
        let wanted = ["pkg-config", "llvm-22-dev", "llvm-22-tools"];
        assert_eq!(not_installed(&wanted, listing), ["llvm-22-dev", "llvm-22-tools"]);
    }
}
