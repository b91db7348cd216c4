//! Tensor types as rk reads them: sizes, strides, bytes of the storage.

use rk_vocabulary::ElementType;

use crate::raw::{Attr, Ctx, Type};

/// Bytes of a saved generator state on the CPU (at::mt19937 and its cached normals, as libtorch 2.11 saves them).
pub const GENERATOR_BYTES: u64 = 5056;

/// A tensor's layout. Strides and sizes count elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Tensor<'c> {
    /// Element type.
    pub element: Type<'c>,
    /// Sizes.
    pub shape: Vec<i64>,
    /// Element strides, also where the type leaves them out.
    pub strides: Vec<i64>,
    /// Bytes of the storage, also where the type leaves them out.
    pub storage: u64,
}

impl<'c> Tensor<'c> {
    /// Reads a tensor type; `None` for another type, a dynamic shape, or an element type that rk does not know.
    pub fn of(ty: Type<'c>) -> Option<Self> {
        let shape = ty.shape()?;
        let element = ty.element()?;
        let (strides, storage) = match ty.encoding() {
            None => (row_major(&shape), None),
            Some(encoding) => encoding.as_strided()?,
        };
        let size = element.element_bytes()?;
        let storage = match storage {
            Some(bytes) => u64::try_from(bytes).ok()?,
            None => span(&shape, &strides)?.checked_mul(size)?,
        };
        Some(Self { element, shape, strides, storage })
    }

    /// The type, written the short way: no encoding for row-major, no storage when it is what shape and strides span.
    /// `None` when MLIR refuses it, which it reports.
    pub fn ty(&self) -> Option<Type<'c>> {
        let ctx = self.element.context();
        let spanned = span(&self.shape, &self.strides)?.checked_mul(self.element.element_bytes()?)?;
        let storage = if spanned == self.storage { None } else { Some(i64::try_from(self.storage).ok()?) };
        let plain = storage.is_none() && self.strides == row_major(&self.shape);
        let encoding = (!plain).then(|| Attr::strided(ctx, &self.strides, storage));
        Type::tensor(&self.shape, self.element, encoding)
    }

    /// Number of elements.
    pub fn elements(&self) -> u64 {
        self.shape.iter().map(|&size| u64::try_from(size).unwrap_or(0)).product()
    }

    /// Whether elements lie row-major without gaps (sizes of 1 may have any stride).
    pub fn is_contiguous(&self) -> bool {
        let dense = row_major(&self.shape);
        self.shape.iter().zip(self.strides.iter().zip(&dense)).all(|(&size, (a, b))| size <= 1 || a == b)
    }
}

/// Row-major strides; a size of 0 counts as 1, as in libtorch.
pub fn row_major(shape: &[i64]) -> Vec<i64> {
    let mut strides: Vec<i64> = vec![1; shape.len()];
    for dim in (1..shape.len()).rev() {
        strides[dim - 1] = strides[dim].saturating_mul(shape[dim].max(1));
    }
    strides
}

/// Elements from the first to the last: 1 + Σ (size - 1) · stride, and 0 when a size is 0. `None` beyond 2^64.
pub fn span(shape: &[i64], strides: &[i64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let mut last: u64 = 0;
    for (&size, &stride) in shape.iter().zip(strides) {
        let steps = u64::try_from(size - 1).ok()?;
        last = last.checked_add(steps.checked_mul(u64::try_from(stride).ok()?)?)?;
    }
    last.checked_add(1)
}

impl<'c> Type<'c> {
    /// Bytes of one element: of this type if it is a scalar (booleans take 1). `None` for types that no tensor of a step has.
    pub fn element_bytes(self) -> Option<u64> {
        if self.is_complex() {
            return self.element()?.element_bytes().map(|bytes| 2 * bytes);
        }
        if let Some(width) = self.integer_width() {
            return matches!(width, 1 | 8 | 16 | 32 | 64).then(|| u64::from(width).div_ceil(8));
        }
        self.float_width().map(|width| u64::from(width).div_ceil(8))
    }

    /// Bytes of a value of this type, unrounded: a tensor's storage, a generator's state, 0 for `none`. `None` for any other
    /// type.
    pub fn bytes(self) -> Option<u64> {
        if self.is_none() {
            return Some(0);
        }
        if self.is_generator() {
            return Some(GENERATOR_BYTES);
        }
        Tensor::of(self).map(|tensor| tensor.storage)
    }

    /// What this scalar type is in a tensor. `None` for types that no tensor of a step has.
    pub fn element_type(self) -> Option<ElementType> {
        self.to_string().parse().ok()
    }

    /// A scalar type by its name in the IR, such as `f32`, `bf16`, `ui8`, `complex<f32>`. `None` for a name that is not one
    /// of docs/ir.md.
    pub fn scalar(ctx: Ctx<'c>, name: &str) -> Option<Self> {
        let known = name.parse::<ElementType>().is_ok();
        if known { Self::parse(ctx, name) } else { None }
    }
}
