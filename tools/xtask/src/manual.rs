//! `cargo xtask manual`: the pages under docs/ as a site, in an environment of its own, `.venv-manual`.
//!
//! mkdocs runs in strict mode: a link to a page or a heading that is not there, or a page that the navigation lacks, is an error. Its
//! warnings count only if they are printed, so it is not quieted.
//! Not here: what the pages say, and whether their Python runs (frontend/python/tests/test_docs.py).

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::process;
use crate::setup::python;

const ENVIRONMENT: &str = ".venv-manual";
const REQUIREMENTS: &str = "tools/xtask/manual/requirements.txt";
/// Written last, with what the environment was made from.
const STAMP: &str = ".venv-manual/rk-setup.stamp";

#[derive(clap::Args)]
pub struct Options {
    /// Where the site goes; `target/manual` without it
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Builds the site.
///
/// # Errors
/// When the environment cannot be made, or mkdocs warns of anything.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    make_ready(checkout)?;
    let out = options.out.clone().unwrap_or_else(|| checkout.path("target/manual"));
    let mut mkdocs = Command::new(checkout.path(ENVIRONMENT).join("bin/mkdocs"));
    // The theme's makers advertise what comes after mkdocs.
    mkdocs.current_dir(&checkout.root).env("NO_MKDOCS_2_WARNING", "1");
    process::show(mkdocs.args(["build", "--strict", "--clean", "--site-dir"]).arg(&out))?;
    println!("{}", out.join("index.html").display());
    Ok(())
}

/// Makes the environment if it is not there or was made from other requirements, and says so before.
fn make_ready(checkout: &Checkout) -> Result<()> {
    let requirements = checkout.read(REQUIREMENTS)?;
    if checkout.read(STAMP).is_ok_and(|found| found == requirements) {
        return Ok(());
    }
    eprintln!("manual: will make the Python environment {ENVIRONMENT} from {REQUIREMENTS} (170 MB)");
    let folder = checkout.path(ENVIRONMENT);
    process::show(Command::new(python::interpreter()?).args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(folder.join("bin/python"));
    pip.args(["-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--quiet"]);
    process::show(pip.arg("--requirement").arg(checkout.path(REQUIREMENTS)))?;
    checkout.write(STAMP, &requirements)
}
