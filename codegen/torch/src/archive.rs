//! Archives of `torch.jit.trace(model, sample).save(path)`: parameters, buffers, arguments of forward.

use crate::bytes::{Reader, take_bytes};
use crate::device::Device;
use crate::element::element_of_code;
use crate::error::{Error, ErrorKind, Result, c_string, check, take_string};
use crate::ffi;
use crate::inputs::InputSpec;
use rk_vocabulary::ElementType;
use std::path::Path;
use tch::Tensor;

/// A parameter or a buffer of the model. Slots that share one storage (tied weights) are one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Path of the first slot that holds it, e.g. `layer1.0.conv1.weight`.
    pub name: String,
    /// Element type.
    pub dtype: ElementType,
    /// Sizes.
    pub sizes: Vec<i64>,
    /// A parameter; otherwise a buffer.
    pub parameter: bool,
    /// Whether the step computes its gradient.
    pub trainable: bool,
    /// The other slots that hold it, or a view of it.
    pub aliases: Vec<String>,
}

/// A loaded archive. Its tensors are the model: running a step changes buffers in place.
#[derive(Debug)]
pub struct Archive {
    raw: *mut ffi::RawArchive,
    device: Device,
    arguments: Vec<String>,
    traced: Vec<InputSpec>,
    attributes: Vec<Attribute>,
}

// SAFETY: owned by one thread at a time; libtorch's modules are not tied to a thread.
unsafe impl Send for Archive {}

impl Archive {
    /// Loads the archive at `path` onto `device`, which must be open.
    ///
    /// # Errors
    /// [`ErrorKind::Archive`] when the file is missing, cut short, or not made by torch.jit.
    pub fn load(path: &Path, device: Device) -> Result<Self> {
        check_zip(path)?;
        let text = c_string(&path.to_string_lossy())?;
        let mut raw = std::ptr::null_mut();
        let (kind, index) = device.raw();
        // SAFETY: the string lives during the call.
        unsafe { check(ffi::rk_archive_load(text.as_ptr(), kind, index, &mut raw)) }.map_err(|error| {
            Error::of(error.kind(), format!("{} is not a torch.jit archive: {error}", path.display()))
        })?;
        let mut archive =
            Self { raw, device, arguments: Vec::new(), traced: Vec::new(), attributes: Vec::new() };
        archive.describe()?;
        Ok(archive)
    }

    fn describe(&mut self) -> Result<()> {
        // SAFETY: the archive is alive.
        let bytes = unsafe { take_bytes(|out, n| ffi::rk_archive_describe(self.raw, out, n))? };
        let mut reader = Reader::new(&bytes);
        let leaf = |r: &mut Reader<'_>| -> Result<(String, ElementType, Vec<i64>)> {
            let name = r.text()?;
            let dtype = element_of_code(r.i32()?)
                .map_err(|error| Error::of(ErrorKind::Refused, format!("'{name}': {error}")))?;
            Ok((name, dtype, r.list(Reader::i64)?))
        };
        self.arguments = reader.list(|r| {
            let name = r.text()?;
            r.text().map(|_declared_type| name)
        })?;
        self.traced = reader.list(|r| {
            let (_, dtype, sizes) = leaf(r)?;
            Ok(InputSpec::new(dtype, sizes))
        })?;
        self.attributes = reader.list(|r| {
            let (name, dtype, sizes) = leaf(r)?;
            let (parameter, trainable) = (r.flag()?, r.flag()?);
            Ok(Attribute { name, dtype, sizes, parameter, trainable, aliases: r.list(Reader::text)? })
        })?;
        Ok(())
    }

    /// The device that the model is on.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Names of the arguments of forward, without self.
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// The inputs that the model was traced with, flattened; empty when the archive does not say.
    pub fn traced_inputs(&self) -> &[InputSpec] {
        &self.traced
    }

    /// Parameters and buffers, each storage once, in the order of the module tree.
    pub fn attributes(&self) -> &[Attribute] {
        &self.attributes
    }

    /// The model's own tensor of the `index`-th attribute, not a copy.
    ///
    /// # Errors
    /// When there is no such attribute.
    pub fn tensor(&self, index: usize) -> Result<Tensor> {
        let mut out = std::ptr::null_mut();
        // SAFETY: the handle that is given out is owned by us.
        unsafe {
            check(ffi::rk_archive_tensor(self.raw, index, &mut out))?;
            Ok(Tensor::from_ptr(out.cast()))
        }
    }

    pub(crate) fn raw(&self) -> *mut ffi::RawArchive {
        self.raw
    }
}

impl Drop for Archive {
    fn drop(&mut self) {
        // SAFETY: made by rk_archive_load, freed once.
        unsafe { ffi::rk_archive_free(self.raw) }
    }
}

/// Says what is wrong with a file that is no zip archive, in words better than those of the zip reader.
fn check_zip(path: &Path) -> Result<()> {
    use std::io::Read;
    let fail = |why: String| Error::of(ErrorKind::Archive, format!("{} {why}", path.display()));
    let mut file = std::fs::File::open(path).map_err(|error| fail(format!("cannot be read: {error}")))?;
    let mut head = [0; 4];
    let read = file.read(&mut head).map_err(|error| fail(format!("cannot be read: {error}")))?;
    if read == 0 {
        return Err(fail("is empty".to_owned()));
    }
    if head != *b"PK\x03\x04" {
        return Err(fail("is not a torch.jit archive: it does not start like a zip file".to_owned()));
    }
    Ok(())
}

/// Reads the tensors of a `torch.save` file: one tensor, or a nest of tuples, lists and dicts. Gives them with
/// their paths (`0`, `mask`, `1.hidden`), in order.
///
/// # Errors
/// [`ErrorKind::Inputs`] when the file is missing or holds something else.
pub fn load_tensors(path: &Path) -> Result<Vec<(String, Tensor)>> {
    let text = c_string(&path.to_string_lossy())?;
    let (mut names, mut tensors, mut n) = (std::ptr::null_mut(), std::ptr::null_mut(), 0);
    // SAFETY: both arrays have n entries that we own, and are freed here.
    unsafe {
        check(ffi::rk_pickle_load(text.as_ptr(), &mut names, &mut tensors, &mut n))
            .map_err(|error| Error::of(error.kind(), format!("{}: {error}", path.display())))?;
        let out = (0..n)
            .map(|i| (take_string(*names.add(i)), Tensor::from_ptr((*tensors.add(i)).cast())))
            .collect();
        ffi::rk_bytes_free(names.cast());
        ffi::rk_bytes_free(tensors.cast());
        Ok(out)
    }
}
