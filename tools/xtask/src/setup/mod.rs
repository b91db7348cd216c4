//! Set-up: Debian packages and the Python environment, each installed only where it is missing.
//!
//! First everything is looked at, then what will be installed is said, then it is installed. A second run looks only,
//! which takes well under a second. Without the right to install packages it stops with the line to run.
//! Not here: CUDA. The torch wheel brings its own libraries, and rk works without a GPU.

pub mod beside;
mod debian;
pub mod python;
mod wheels;

use std::time::Instant;

use anyhow::Result;

use crate::checkout::Checkout;
use crate::process;

#[derive(clap::Args)]
pub struct Options {
    /// Make the environments of these versions of torch, too, for example `--torch 2.13.0,2.15.0`
    #[arg(long, value_delimiter = ',')]
    torch: Vec<String>,
}

/// Makes the machine ready to build and test, and the environments of other versions of torch that are asked for.
///
/// # Errors
/// When something cannot be installed; the message says what to run by hand.
pub fn with_torch(checkout: &Checkout, options: &Options) -> Result<()> {
    run(checkout)?;
    options.torch.iter().try_for_each(|version| beside::interpreter(checkout, version).map(drop))
}

/// Makes the machine ready to build and test.
///
/// # Errors
/// When something cannot be installed; the message says what to run by hand.
pub fn run(checkout: &Checkout) -> Result<()> {
    let start = Instant::now();
    let packages = debian::missing()?;
    let environment = python::State::of(checkout)?;
    if packages.is_empty() && environment.is_ready() {
        eprintln!("setup: nothing to install");
        return Ok(());
    }
    if !packages.is_empty() {
        eprintln!("setup: will install these Debian packages: {}", packages.join(" "));
    }
    if let Some(plan) = environment.plan() {
        eprintln!("setup: will {plan}");
    }
    if !packages.is_empty() {
        debian::install(&packages)?;
    }
    environment.make_ready(checkout)?;
    eprintln!("setup: done in {}", process::seconds(start.elapsed()));
    Ok(())
}
