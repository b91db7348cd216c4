//! `cargo xtask smoke`: a user's first minute with the wheel, in fresh environments.
//!
//! An environment without Rust on its path and without this checkout, the wheel, a torch, the first example of the README, the
//! tools, and how long `import rk` takes once torch is imported. There are two kinds. Torch may come from the environments that the
//! tests use, which saves gigabytes; or, for each interpreter that is named, pip installs all of it as it does for a user.
//! Not here: the wheel (`wheel`), and what else a release needs (`release`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::checkout::Checkout;
use crate::setup::beside;
use crate::{process, torch_versions, wheel};

#[derive(clap::Args)]
pub struct Options {
    /// This wheel instead of one that is built now
    #[arg(long)]
    wheel: Option<PathBuf>,
    /// Versions of torch, for example `2.11.0,2.15.0`; all that the tests know without it
    #[arg(long, value_delimiter = ',')]
    torch: Vec<String>,
    /// Interpreters for environments that pip fills from its index (5 GB each while they are tried); without it, torch comes from
    /// the environments of the tests
    #[arg(long, value_delimiter = ',')]
    python: Vec<PathBuf>,
}

/// Where an environment has its torch from.
pub enum Torch {
    /// The environment that the tests use for this version.
    OfTheTests(String),
    /// Installed by pip, for this interpreter.
    Installed(String, PathBuf),
}

/// What was seen in an environment.
pub struct Seen {
    torch: String,
    python: String,
    /// `import rk` once torch is imported: the fastest of five processes.
    import_ms: f64,
}

/// Tries the wheel with each version of torch and each interpreter, and writes the rows of docs/torch-versions.md.
///
/// # Errors
/// When there is no wheel, or it does not work in one of the environments; the others are tried all the same.
pub fn run(checkout: &Checkout, options: &Options) -> Result<()> {
    let wheel = match &options.wheel {
        Some(wheel) => wheel.canonicalize().context("the wheel is not there")?,
        None => wheel::build(checkout, None)?,
    };
    let versions = if options.torch.is_empty() { beside::versions(checkout)? } else { options.torch.clone() };
    let mut failed = Vec::new();
    for version in versions {
        let ways = match options.python.as_slice() {
            [] => vec![Torch::OfTheTests(version.clone())],
            named => named.iter().map(|python| Torch::Installed(version.clone(), python.clone())).collect(),
        };
        for torch in ways {
            match try_out(checkout, &wheel, &torch) {
                Ok(seen) => seen.write(checkout, &torch)?,
                Err(error) => failed.push(format!("torch {version}: {error:#}")),
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { bail!("{}", failed.join("\n")) }
}

impl Seen {
    fn write(&self, checkout: &Checkout, torch: &Torch) -> Result<()> {
        let from = match torch {
            Torch::OfTheTests(_) => "the tests' environment",
            Torch::Installed(..) => "pip",
        };
        let start = format!("| {} | {} |", self.torch, self.python);
        let row = format!("{start} {from} | yes | yes | {:.0} ms |\n", self.import_ms);
        torch_versions::write_row(checkout, "smoke", &start, &row)
    }
}

/// Installs the wheel into a fresh environment beside a torch, and uses it.
///
/// # Errors
/// When anything of it does not work.
pub fn try_out(checkout: &Checkout, wheel: &Path, torch: &Torch) -> Result<Seen> {
    let folder = std::env::temp_dir().join(format!("rk-smoke-{}", std::process::id()));
    let made = match torch {
        Torch::OfTheTests(version) => {
            beside::interpreter(checkout, version).and_then(|python| borrowing(&python, wheel, &folder))
        }
        Torch::Installed(version, python) => installed(python, version, wheel, &folder),
    };
    let outcome = made.and_then(|()| used(checkout, &folder));
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    outcome
}

/// An environment of the wheel that finds torch where another interpreter has it.
fn borrowing(lender: &Path, wheel: &Path, folder: &Path) -> Result<()> {
    process::show(Command::new(lender).args(["-m", "venv", "--clear", "--without-pip"]).arg(folder))?;
    let python = folder.join("bin/python");
    let site = "import sysconfig; print(sysconfig.get_path('purelib'))";
    let own = process::capture(Command::new(&python).args(["-c", site]))?;
    let others =
        "import sys; print(*(path for path in sys.path if path.endswith('site-packages')), sep='\\n')";
    let others = process::capture(Command::new(lender).args(["-I", "-c", others]))?;
    std::fs::write(Path::new(own.trim()).join("torch.pth"), others)?;
    let alone = ["--no-deps", "--no-index", "--ignore-installed"];
    process::show(pip(&python, folder).args(alone).arg(wheel))
}

/// An environment that pip fills with the wheel and a torch, as a user's.
fn installed(python: &Path, version: &str, wheel: &Path, folder: &Path) -> Result<()> {
    process::show(Command::new(python).args(["-m", "venv", "--clear"]).arg(folder))?;
    process::show(pip(&folder.join("bin/python"), folder).arg(format!("torch=={version}")).arg(wheel))
}

fn pip(python: &Path, folder: &Path) -> Command {
    let mut pip = Command::new(python);
    pip.args(["-m", "pip", "install", "--quiet", "--no-input", "--disable-pip-version-check"]);
    pip.current_dir(folder).env_remove("PYTHONPATH");
    pip
}

/// The first example of the README, the tools, and the time of an import; neither cargo nor LLVM nor this checkout is in reach.
fn used(checkout: &Checkout, folder: &Path) -> Result<Seen> {
    let alone = |program: &str| {
        let mut command = Command::new(folder.join("bin").join(program));
        command.env_clear().env("PATH", folder.join("bin")).env("HOME", folder).current_dir(folder);
        command
    };
    let readme = checkout.read("README.md")?;
    let example = readme.split_once("```python\n").and_then(|(_, rest)| rest.split_once("```"));
    let (example, _) = example.context("README.md has no example")?;
    let ask = format!(
        "{example}\nimport rk, platform\nassert loss.isfinite() and model[0][0].weight.grad is not None\n\
         assert rk.plans(), 'nothing was planned'\n\
         print(rk.__file__, rk.__version__, torch.__version__, platform.python_version())\n"
    );
    let said = process::capture(alone("python").args(["-I", "-c", &ask]))?;
    let words: Vec<&str> = said.lines().last().unwrap_or_default().split(' ').collect();
    let [place, rk, torch, python] = words[..] else { bail!("the example printed {said}") };
    ensure!(Path::new(place).starts_with(folder), "rk is not that of the wheel: {place}");
    ensure!(rk == env!("CARGO_PKG_VERSION"), "the wheel's version is {rk}");
    for tool in wheel::TOOLS.map(|(_, program)| program) {
        let said = process::capture(alone(tool).arg("--version"))?;
        ensure!(said.contains(rk), "{tool} --version says {}", said.trim());
    }
    let import = "import time, torch; start = time.perf_counter(); import rk; \
                  print((time.perf_counter() - start) * 1e3)";
    let mut import_ms = f64::INFINITY;
    for _ in 0..5 {
        let said = process::capture(alone("python").args(["-I", "-c", import]))?;
        import_ms = import_ms.min(said.trim().parse().context("a time")?);
    }
    eprintln!(
        "smoke: the wheel works with torch {torch} and Python {python}; `import rk` takes {import_ms:.0} ms"
    );
    let torch = torch.split('+').next().unwrap_or(torch).to_owned();
    Ok(Seen { torch, python: python.to_owned(), import_ms })
}
