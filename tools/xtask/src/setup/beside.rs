//! Environments with another torch, beside `.venv`: `.venv-2.15.0` for `tools/xtask/torch/2.15.0.txt`.
//!
//! Such an environment holds torch and what has to fit that torch, and finds everything else in `.venv`, which a line of a `.pth`
//! file puts behind its own packages: 2.6 GB instead of 6. NVIDIA's libraries are those of `.venv` as far as this torch loads with
//! them; it runs on the CPU, which is all that the tests ask for. A stamp, written last, says what it was made from.
//! Not here: the torch that the extensions are built against; that is the one of `.venv`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::python::{self, site_packages};
use crate::checkout::Checkout;
use crate::process;

/// One file for each version of torch.
const REQUIREMENTS: &str = "tools/xtask/torch";
const STAMP: &str = "rk-setup.stamp";

/// The environment of one version of torch.
struct Environment {
    version: String,
    /// The folder, relative to the checkout.
    name: String,
    /// What is installed into it.
    requirements: String,
}

/// The versions of torch that there are environments for, that of `.venv` among them, oldest first.
///
/// # Errors
/// When the folder of requirements cannot be read, or `.venv` has no torch.
pub fn versions(checkout: &Checkout) -> Result<Vec<String>> {
    let mut found = vec![usual(checkout)?];
    for entry in std::fs::read_dir(checkout.path(REQUIREMENTS))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        found.extend(name.strip_suffix(".txt").map(str::to_owned));
    }
    found.sort_by_key(|version| numbers(version));
    Ok(found)
}

/// The version of torch in `.venv`.
fn usual(checkout: &Checkout) -> Result<String> {
    let found = python::torch_version(&checkout.path(".venv/libtorch"))?;
    // A wheel's version may say which CUDA it was built for: 2.15.0+cu132.
    Ok(found.split('+').next().unwrap_or_default().to_owned())
}

/// The interpreter that has this version of torch. Its environment is made if it is not there, which is said before.
///
/// # Errors
/// When there are no requirements for it, or pip fails.
pub fn interpreter(checkout: &Checkout, version: &str) -> Result<PathBuf> {
    if version == usual(checkout)? {
        return Ok(checkout.python());
    }
    let environment = Environment::of(checkout, version)?;
    environment.make_ready(checkout)?;
    Ok(environment.python(checkout))
}

fn numbers(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

impl Environment {
    /// The environment of a version, which may not be there yet.
    ///
    /// # Errors
    /// When there are no requirements for it; the message says where they belong.
    fn of(checkout: &Checkout, version: &str) -> Result<Self> {
        let file = format!("{REQUIREMENTS}/{version}.txt");
        if !checkout.path(&file).is_file() {
            let known = versions(checkout)?.join(", ");
            bail!(
                "no environment for torch {version}, only for {known}; write {file} after the file of the nearest version"
            );
        }
        let requirements = checkout.read(&file)?;
        Ok(Self { version: version.to_owned(), name: format!(".venv-{version}"), requirements })
    }

    /// Its interpreter.
    fn python(&self, checkout: &Checkout) -> PathBuf {
        checkout.path(&self.name).join("bin/python")
    }

    /// Makes what is missing, and says so before.
    ///
    /// # Errors
    /// When pip fails, or when the torch that is found afterwards is another one.
    fn make_ready(&self, checkout: &Checkout) -> Result<()> {
        // Where `.venv` really is: checkouts that share it by links share these environments, too.
        let base = site_packages(checkout, ".venv")?.canonicalize()?;
        let stamp = format!("{}{}\n", self.requirements, base.display());
        let stamp_file = format!("{}/{STAMP}", self.name);
        if checkout.read(&stamp_file).is_ok_and(|found| found == stamp) && self.torch_fits(checkout).is_ok() {
            return Ok(());
        }
        // Making it anew would empty what it leads to.
        if checkout.path(&self.name).is_symlink() {
            bail!("{} is a link, and what it leads to is not as it should be: remove the link", self.name);
        }
        eprintln!(
            "setup: will make the Python environment {} from {REQUIREMENTS}/{}.txt (3 GB on disk, a minute or two)",
            self.name, self.version
        );
        let mut make = Command::new(python::interpreter()?);
        process::show(make.args(["-m", "venv", "--clear", "--without-pip"]).arg(checkout.path(&self.name)))?;
        let own = site_packages(checkout, &self.name)?;
        // Python reads the line after it has put its own packages on the path, so those come first.
        std::fs::write(own.join("beside.pth"), format!("{}\n", base.display()))
            .with_context(|| format!("cannot write into {}", own.display()))?;
        let mut pip = Command::new(self.python(checkout));
        pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]);
        // What `.venv` has is not in the way, and what torch asks for besides is there.
        pip.args(["--no-deps", "--ignore-installed", "--requirement"]);
        process::show(pip.arg(checkout.path(format!("{REQUIREMENTS}/{}.txt", self.version))))?;
        self.torch_fits(checkout)?;
        checkout.write(&stamp_file, &stamp)
    }

    fn torch_fits(&self, checkout: &Checkout) -> Result<()> {
        let found = python::torch_version(&site_packages(checkout, &self.name)?.join("torch"))?;
        if found.split('+').next() != Some(&self.version) {
            bail!("{} has torch {found}, not {}", self.name, self.version);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_sorted_as_numbers_and_an_unknown_one_is_refused() -> Result<()> {
        let checkout = Checkout::find()?;
        let known = versions(&checkout)?;
        assert!(known.is_sorted_by_key(|version| numbers(version)) && !known.is_empty());
        assert!(numbers("2.9.1") < numbers("2.15.0"));
        let message = Environment::of(&checkout, "1.0.0").err().map(|error| error.to_string());
        assert!(message.is_some_and(|text| text.contains("tools/xtask/torch/1.0.0.txt")));
        Ok(())
    }

    /// Each file installs the torch that it is named after.
    #[test]
    fn every_file_pins_its_torch() -> Result<()> {
        let checkout = Checkout::find()?;
        for version in versions(&checkout)? {
            if version == usual(&checkout)? {
                continue;
            }
            let environment = Environment::of(&checkout, &version)?;
            let pin = format!("torch=={version}");
            assert!(environment.requirements.lines().any(|line| line == pin), "{version} does not pin torch");
        }
        Ok(())
    }
}
