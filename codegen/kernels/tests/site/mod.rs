//! What the wheels of torch and triton bring, found by `LIBTORCH`.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::path::PathBuf;

/// The folder of Python packages that torch is in.
fn packages() -> Option<PathBuf> {
    let torch = PathBuf::from(std::env::var_os("LIBTORCH")?).canonicalize().ok()?;
    torch.parent().map(PathBuf::from)
}

/// The interpreter that can import torch.
pub fn python() -> Option<PathBuf> {
    let found = packages()?.ancestors().nth(3)?.join("bin/python");
    found.exists().then_some(found)
}

/// ptxas and libdevice, of the triton wheel.
pub fn nvidia() -> Option<PathBuf> {
    packages().map(|site| site.join("triton/backends/nvidia")).filter(|path| path.join("bin/ptxas").exists())
}
