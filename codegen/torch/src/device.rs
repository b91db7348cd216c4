//! Devices and their random generators.

use crate::error::{Error, Result, c_string, check};
use crate::ffi;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use tch::Tensor;

/// Where a step runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Device {
    /// The CPU.
    Cpu,
    /// The CUDA device with this index.
    Cuda(i32),
}

impl Device {
    pub(crate) fn raw(self) -> (i32, i32) {
        match self {
            Self::Cpu => (0, 0),
            Self::Cuda(index) => (1, index),
        }
    }

    /// The same device for the tch crate.
    pub fn to_tch(self) -> tch::Device {
        match self {
            Self::Cpu => tch::Device::Cpu,
            Self::Cuda(index) => tch::Device::Cuda(index as usize),
        }
    }

    /// Makes the device usable: for CUDA, loads libtorch_cuda and checks the index. Needed once per process.
    ///
    /// # Errors
    /// When there is no such device, or libtorch_cuda cannot be loaded.
    pub fn open(self) -> Result<()> {
        let Self::Cuda(index) = self else { return Ok(()) };
        let folder = libtorch_folder()?;
        let folder = c_string(&folder.to_string_lossy())?;
        let mut devices = 0;
        // SAFETY: the string lives during the call.
        unsafe { check(ffi::rk_cuda_load(folder.as_ptr(), &mut devices))? };
        if index >= devices {
            let have = if devices == 0 { "no GPU".to_owned() } else { format!("{devices} GPU(s)") };
            return Err(Error::new(format!("device {self} is not there: this machine has {have}")));
        }
        Ok(())
    }

    /// Waits for everything queued on the device; at once on the CPU.
    ///
    /// # Errors
    /// When the device reports an error of earlier work.
    pub fn synchronize(self) -> Result<()> {
        let (kind, index) = self.raw();
        // SAFETY: no preconditions.
        unsafe { check(ffi::rk_device_synchronize(kind, index)) }
    }

    /// Seeds the default generator, as `torch.manual_seed`.
    ///
    /// # Errors
    /// When the device is not open.
    pub fn manual_seed(self, seed: u64) -> Result<()> {
        let (kind, index) = self.raw();
        // SAFETY: no preconditions.
        unsafe { check(ffi::rk_seed(kind, index, seed)) }
    }

    /// The state of the default generator, a byte tensor on the CPU (5056 bytes for the CPU's generator).
    ///
    /// # Errors
    /// When the device is not open.
    pub fn generator_state(self) -> Result<Tensor> {
        let (kind, index) = self.raw();
        let mut out = std::ptr::null_mut();
        // SAFETY: the handle that is given out is owned by us.
        unsafe {
            check(ffi::rk_generator_get(kind, index, &mut out))?;
            Ok(Tensor::from_ptr(out.cast()))
        }
    }

    /// Keeps the state of the default generator aside.
    ///
    /// # Errors
    /// When the device is not open.
    pub fn park_generator(self) -> Result<Parked> {
        let (kind, index) = self.raw();
        let mut raw = std::ptr::null_mut();
        // SAFETY: what is given out is owned by us.
        unsafe { check(ffi::rk_generator_park(kind, index, &mut raw))? };
        Ok(Parked { raw, device: self })
    }

    /// Puts a saved state back.
    ///
    /// # Errors
    /// When the tensor is not a state of this device's generator.
    pub fn set_generator_state(self, state: &Tensor) -> Result<()> {
        let (kind, index) = self.raw();
        // SAFETY: the tensor outlives the call.
        unsafe { check(ffi::rk_generator_set(kind, index, state.as_ptr() as ffi::RawTensor)) }
    }
}

/// The state of a generator, kept aside without a tensor.
#[derive(Debug)]
pub struct Parked {
    raw: *mut ffi::RawParked,
    device: Device,
}

// SAFETY: plain data on the C++ side.
unsafe impl Send for Parked {}

impl Parked {
    /// Puts the state back into the default generator of the device that it was taken from.
    ///
    /// # Errors
    /// When the device is gone.
    pub fn put_back(self) -> Result<()> {
        let (kind, index) = self.device.raw();
        // SAFETY: `raw` is alive until it is dropped below.
        unsafe { check(ffi::rk_generator_unpark(kind, index, self.raw)) }
    }
}

impl Drop for Parked {
    fn drop(&mut self) {
        // SAFETY: made by rk_generator_park, freed once.
        unsafe { ffi::rk_parked_free(self.raw) }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bad = || Error::new(format!("device '{text}' is none of cpu, cuda, cuda:N"));
        match text {
            "cpu" => Ok(Self::Cpu),
            "cuda" => Ok(Self::Cuda(0)),
            _ => {
                let index = text.strip_prefix("cuda:").ok_or_else(bad)?;
                let index: i8 = index.parse().map_err(|_| bad())?;
                if index < 0 { Err(bad()) } else { Ok(Self::Cuda(index.into())) }
            }
        }
    }
}

/// The folder of the libtorch that this process runs on, from the memory map: the one that was found at build
/// time may not exist on this machine.
fn libtorch_folder() -> Result<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps")
        .map_err(|error| Error::new(format!("cannot read /proc/self/maps: {error}")))?;
    maps.lines()
        .filter_map(|line| line.split_whitespace().next_back())
        .map(Path::new)
        .find(|path| path.file_name().is_some_and(|name| name == "libtorch_cpu.so"))
        .and_then(Path::parent)
        .map(Path::to_path_buf)
        .ok_or_else(|| Error::new("libtorch_cpu.so is not loaded"))
}

/// Number of threads that operators use.
///
/// # Errors
/// When libtorch refuses.
pub fn threads() -> Result<usize> {
    let mut out = 0;
    // SAFETY: a plain out-parameter.
    unsafe { check(ffi::rk_threads(0, &mut out))? };
    Ok(out.max(1) as usize)
}

/// Sets the number of threads that operators use.
///
/// # Errors
/// When libtorch refuses.
pub fn set_threads(threads: usize) -> Result<()> {
    let mut out = 0;
    // SAFETY: a plain out-parameter.
    unsafe { check(ffi::rk_threads(threads.clamp(1, 4096) as i32, &mut out)) }
}
