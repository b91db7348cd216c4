//! Bit-by-bit comparison of tensors (S8).
//!
//! Two tensors are equal when element type, shape and the bytes of all elements are: a NaN equals the same NaN, and
//! `0.0` does not equal `-0.0`. Strides may differ, since they are not part of a value. For people, the largest
//! absolute difference is reported too, also in units in the last place of the largest element; it is infinite where a NaN meets
//! a number.

use tch::{Device, Kind, Tensor};

use crate::error::RuntimeError;

/// How two tensors of the same name differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Difference {
    /// Which step, counted from 1.
    pub step: usize,
    /// `gradient "fc.weight"`, `buffer "bn.running_mean"`.
    pub what: String,
    /// First differing element, as an index in row-major order; `None` when type or shape differ.
    pub element: Option<usize>,
    /// Both elements, or both types, as text.
    pub values: String,
    /// Number of differing elements.
    pub count: usize,
    /// Largest absolute difference of two elements.
    pub max_abs: f64,
    /// The same in units in the last place of the tensor's largest element, as it should be.
    pub ulps: f64,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "step {}: {}", self.step, self.what)?;
        match self.element {
            Some(i) => write!(
                f,
                " differs in {} elements, first at {i}: {} (largest difference {:.3e})",
                self.count, self.values, self.max_abs
            ),
            None => write!(f, " differs: {}", self.values),
        }
    }
}

/// Bytes of all elements in row-major order of the indices.
///
/// # Errors
/// When torch cannot make a contiguous copy on the CPU.
pub fn bytes(t: &Tensor) -> Result<Vec<u8>, RuntimeError> {
    let t = t.f_detach()?.f_to_device(Device::Cpu)?.f_contiguous()?;
    let mut out = vec![0u8; t.numel() * t.kind().elt_size_in_bytes()];
    if !out.is_empty() {
        t.f_copy_data_u8(&mut out, t.numel())?;
    }
    Ok(out)
}

/// Compares two tensors, either of which may be undefined.
///
/// # Errors
/// As [`bytes`].
pub fn compare(
    step: usize,
    what: &str,
    ours: Option<&Tensor>,
    theirs: Option<&Tensor>,
) -> Result<Option<Difference>, RuntimeError> {
    let differs = |values: String| Difference {
        step,
        what: what.into(),
        element: None,
        values,
        count: 0,
        max_abs: f64::INFINITY,
        ulps: f64::INFINITY,
    };
    let describe = |t: Option<&Tensor>| match t {
        Some(t) => format!("{:?}{:?}", t.kind(), t.size()),
        None => "an undefined tensor".into(),
    };
    let (Some(a), Some(b)) = (ours, theirs) else {
        if ours.is_none() && theirs.is_none() {
            return Ok(None);
        }
        return Ok(Some(differs(format!("{} instead of {}", describe(ours), describe(theirs)))));
    };
    if a.kind() != b.kind() || a.size() != b.size() {
        return Ok(Some(differs(format!("{} instead of {}", describe(ours), describe(theirs)))));
    }
    let (x, y) = (bytes(a)?, bytes(b)?);
    if x == y {
        return Ok(None);
    }
    let size = a.kind().elt_size_in_bytes();
    let mut first = None;
    let mut count = 0;
    for (i, (p, q)) in x.chunks(size).zip(y.chunks(size)).enumerate() {
        if p != q {
            count += 1;
            first = first.or(Some(i));
        }
    }
    let i = first.unwrap_or(0);
    let (da, db) = (doubles(a)?, doubles(b)?);
    let mut max_abs = 0f64;
    for (p, q) in da.iter().zip(&db) {
        let d = (p - q).abs();
        if p.to_bits() != q.to_bits() && !(p.is_nan() && q.is_nan()) {
            max_abs = if d.is_nan() { f64::INFINITY } else { max_abs.max(d) };
        }
    }
    let values = match (da.get(i), db.get(i)) {
        (Some(p), Some(q)) => format!("{p:?} instead of {q:?}"),
        _ => String::new(),
    };
    let ulps = max_abs / unit(b.kind(), &db);
    Ok(Some(Difference { step, what: what.into(), element: Some(i), values, count, max_abs, ulps }))
}

/// The unit in the last place of the largest finite element; 1 for integers.
fn unit(kind: Kind, elements: &[f64]) -> f64 {
    let (digits, least) = match kind {
        Kind::Half | Kind::ComplexHalf => (10, -14),
        Kind::BFloat16 => (7, -126),
        Kind::Float | Kind::ComplexFloat => (23, -126),
        Kind::Double | Kind::ComplexDouble => (52, -1022),
        _ => return 1.0,
    };
    let largest = elements.iter().filter(|x| x.is_finite()).fold(0f64, |most, x| most.max(x.abs()));
    let exponent = if largest > 0.0 { largest.log2().floor() as i32 } else { least };
    f64::from(exponent.max(least) - digits).exp2()
}

/// Elements as doubles; a complex tensor gives real and imaginary parts in turn.
fn doubles(t: &Tensor) -> Result<Vec<f64>, RuntimeError> {
    let mut t = t.f_detach()?.f_to_device(Device::Cpu)?;
    if matches!(t.kind(), Kind::ComplexFloat | Kind::ComplexDouble | Kind::ComplexHalf) {
        t = t.f_view_as_real()?;
    }
    let t = t.f_to_kind(Kind::Double)?.f_contiguous()?.f_view([-1])?;
    Ok(Vec::<f64>::try_from(&t)?)
}
