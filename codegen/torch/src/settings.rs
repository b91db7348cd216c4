//! What of libtorch's global state decides which kernels run: read, written down, and put back elsewhere (`cc/settings.cpp` lists it).
//!
//! Costs hold for the kernels that were measured. Which kernel an operator is depends on switches that any code of the process may
//! change, above all on those of cuDNN: so whoever measures writes them down, and whoever runs the step sets them as they were.

use std::ffi::c_char;
use std::fmt;

use crate::device::Device;
use crate::error::{Result, c_string, check, take_string};
use crate::ffi;

/// Settings of libtorch for one device, and facts that kernels depend on and nobody can set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings(String);

impl Settings {
    /// Those of an opened device, now.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn read(device: Device) -> Result<Self> {
        let (kind, index) = device.raw();
        let mut out: *const c_char = std::ptr::null();
        // SAFETY: a plain out-parameter; the text is ours.
        unsafe {
            check(ffi::rk_settings_read(kind, index, &mut out))?;
            Ok(Self(take_string(out)))
        }
    }

    /// Those that were written down.
    pub fn parse(text: &str) -> Self {
        Self(text.to_owned())
    }

    /// Sets what can be set, and says in words what is not as it was: facts, and names that this version does not know.
    ///
    /// # Errors
    /// When libtorch refuses.
    pub fn apply(&self, device: Device) -> Result<Vec<String>> {
        let (kind, index) = device.raw();
        let wanted = c_string(&self.0)?;
        // SAFETY: the string lives during the call.
        unsafe { check(ffi::rk_settings_apply(kind, index, wanted.as_ptr()))? };
        self.differences(device)
    }

    /// What is not as it was, in words; nothing is set.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn differences(&self, device: Device) -> Result<Vec<String>> {
        let now = Self::read(device)?;
        let missing = |(name, was): (&str, &str)| {
            let is = now.entries().find(|entry| entry.0 == name).map(|entry| entry.1);
            (is != Some(was)).then(|| format!("{name} was {was} and is {}", is.unwrap_or("unknown")))
        };
        Ok(self.entries().filter_map(missing).collect())
    }

    fn entries(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.split_whitespace().map(|word| word.split_once('=').unwrap_or((word, "")))
    }
}

impl fmt::Display for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Device {
    /// Makes cuDNN's choice of an algorithm a function of the call: by heuristics and not by a race, and of those algorithms alone
    /// that give the same bits every time. Nothing on the CPU.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn pin(self) -> Result<()> {
        if self != Self::Cpu {
            Settings::parse("cudnn_benchmark=off cudnn_deterministic=on").apply(self)?;
        }
        Ok(())
    }

    /// Makes operators take kernels that give the same bits every time; one that has none fails from then on. Not only a warning: attention
    /// would keep its atomic additions. On a GPU torch asks for a workspace of cuBLAS that was chosen, so the usual one is, unless
    /// another was; before anything is called there.
    ///
    /// # Errors
    /// None in practice; libtorch's.
    pub fn determine(self) -> Result<()> {
        Settings::parse("deterministic=on CUBLAS_WORKSPACE_CONFIG=:4096:8").apply(self).map(drop)
    }
}
