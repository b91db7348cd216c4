//! The Python environment `.venv`: made once, repaired when half made, and its torch linked where cargo looks for it.
//!
//! A stamp, written last, holds the requirements that the environment was made from; it is all that a second run
//! reads. Without a stamp the environment is either whole (somebody made it by hand) or left over from an
//! interrupted run; the wheels' own records tell which, and a broken one is made anew.
//! torch is never imported: that takes seconds, and its version stands in a file.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::wheels;
use crate::checkout::Checkout;
use crate::process;

const REQUIREMENTS: &str = "tools/xtask/requirements.txt";
const STAMP: &str = ".venv/rk-setup.stamp";
/// `.cargo/config.toml` names this link, so that no path there depends on the version of Python.
const LIBTORCH: &str = ".venv/libtorch";
/// The oldest Python that all wheels of the requirements exist for.
const OLDEST: (u32, u32) = (3, 11);

/// What a look at `.venv` found.
#[derive(Debug, PartialEq, Eq)]
pub enum State {
    /// The stamp fits the requirements.
    Ready,
    /// Nothing is broken, but the requirements are not known to be met.
    Unproved,
    /// It is not there.
    Absent,
    /// It is half made; the text says what is wrong.
    Broken(String),
}

impl State {
    /// Looks at the environment without changing it.
    ///
    /// # Errors
    /// When the requirements cannot be read.
    pub fn of(checkout: &Checkout) -> Result<Self> {
        let requirements = checkout.read(REQUIREMENTS)?;
        if !checkout.path(".venv").exists() {
            return Ok(Self::Absent);
        }
        let stamp = std::fs::read_to_string(checkout.path(STAMP)).unwrap_or_default();
        if stamp == requirements && torch_fits(checkout, &requirements).is_ok() {
            return Ok(Self::Ready);
        }
        Ok(match usable(checkout) {
            Ok(()) => Self::Unproved,
            Err(error) => Self::Broken(format!("{error:#}")),
        })
    }

    pub fn is_ready(&self) -> bool {
        *self == Self::Ready
    }

    /// What `make_ready` is going to do, for people.
    pub fn plan(&self) -> Option<String> {
        let what = format!("from {REQUIREMENTS} (torch and friends: 5 GB on disk, some minutes)");
        match self {
            Self::Ready => None,
            Self::Unproved => Some("bring the Python environment .venv up to date".to_owned()),
            Self::Absent => Some(format!("make the Python environment .venv {what}")),
            Self::Broken(why) => {
                Some(format!("make the Python environment .venv anew {what}, because {why}"))
            }
        }
    }

    /// Brings the environment to what the requirements say.
    ///
    /// # Errors
    /// When there is no Python new enough, when pip fails, or when the installed torch is not the one asked for.
    pub fn make_ready(&self, checkout: &Checkout) -> Result<()> {
        if self.is_ready() {
            return Ok(());
        }
        if matches!(self, Self::Absent | Self::Broken(_)) {
            let mut make = Command::new(interpreter()?);
            process::show(make.args(["-m", "venv", "--clear"]).arg(checkout.path(".venv")))?;
        }
        let mut pip = Command::new(checkout.python());
        pip.args([
            "-m",
            "pip",
            "install",
            "--no-input",
            "--disable-pip-version-check",
            "--quiet",
            "--requirement",
        ]);
        process::show(pip.arg(checkout.path(REQUIREMENTS)))?;
        link_torch(checkout)?;
        let requirements = checkout.read(REQUIREMENTS)?;
        torch_fits(checkout, &requirements)?;
        checkout.write(STAMP, &requirements)
    }
}

/// A Python that is new enough and can make environments: `$RK_PYTHON`, `python3`, or the newest `python3.N`.
///
/// # Errors
/// When there is none.
pub fn interpreter() -> Result<PathBuf> {
    // ensurepip is what Debian leaves out of python3 and puts into python3-venv.
    let test = format!("import sys, venv, ensurepip; sys.exit(sys.version_info[:2] < {OLDEST:?})");
    let named = std::env::var_os("RK_PYTHON").map(PathBuf::from);
    let usual = ["python3", "python3.14", "python3.13", "python3.12", "python3.11"].map(PathBuf::from);
    let found =
        named.into_iter().chain(usual).find(|name| process::succeeds(Command::new(name).args(["-c", &test])));
    found.with_context(|| {
        let (major, minor) = OLDEST;
        format!(
            "no Python {major}.{minor} or newer with the modules venv and ensurepip; RK_PYTHON may name one"
        )
    })
}

/// Whether the environment starts, has pip, and holds every file of every wheel in it.
fn usable(checkout: &Checkout) -> Result<()> {
    let mut pip = Command::new(checkout.python());
    if !process::succeeds(pip.args(["-m", "pip", "--version"])) {
        bail!("its pip does not start");
    }
    wheels::all_whole(&site_packages(checkout, ".venv")?)
}

/// `lib/python3.N/site-packages` in an environment.
///
/// # Errors
/// When the environment has none.
pub fn site_packages(checkout: &Checkout, environment: &str) -> Result<PathBuf> {
    let lib = checkout.path(environment).join("lib");
    let folders = std::fs::read_dir(lib).context("it has no lib folder")?;
    let mut found: Vec<PathBuf> = folders
        .flatten()
        .map(|entry| entry.path().join("site-packages"))
        .filter(|path| path.is_dir())
        .collect();
    found.sort();
    found.pop().context("it has no site-packages")
}

/// Points `.venv/libtorch` at the torch package, relative to the environment.
fn link_torch(checkout: &Checkout) -> Result<()> {
    let torch = site_packages(checkout, ".venv")?.join("torch");
    let relative = torch.strip_prefix(checkout.path(".venv"))?;
    let link = checkout.path(LIBTORCH);
    if std::fs::read_link(&link).is_ok_and(|old| old == relative) {
        return Ok(());
    }
    if link.symlink_metadata().is_ok() {
        std::fs::remove_file(&link)
            .with_context(|| format!("{LIBTORCH} is in the way and cannot be removed"))?;
    }
    symlink(relative, &link).with_context(|| format!("cannot make the link {LIBTORCH}"))
}

/// Compares the version file of the linked torch with the requirements.
fn torch_fits(checkout: &Checkout, requirements: &str) -> Result<()> {
    let wanted = requirements.lines().find_map(|line| line.strip_prefix("torch=="));
    let wanted = wanted.with_context(|| format!("{REQUIREMENTS} does not pin torch"))?.trim();
    let found = torch_version(&checkout.path(LIBTORCH))?;
    // A wheel's version may say which CUDA it was built for: 2.11.0+cu130.
    if found.split('+').next() != Some(wanted) {
        bail!("{LIBTORCH} is torch {found}, but {REQUIREMENTS} wants {wanted}");
    }
    Ok(())
}

/// The version of a torch package, read without importing it.
///
/// # Errors
/// When the package is not there.
pub fn torch_version(package: &Path) -> Result<String> {
    let file = package.join("version.py");
    let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let version = text.lines().find_map(|line| line.strip_prefix("__version__ = "));
    let version = version.with_context(|| format!("{} names no version", file.display()))?;
    Ok(version.trim().trim_matches(['\'', '"']).to_owned())
}
