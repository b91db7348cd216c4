//! Types, as MLIR has them. Tensors have a reader in [`crate::types`].

use std::marker::PhantomData;

use mlir_sys::*;

use super::{Attr, Ctx, by_address, printed, shim, view};

/// A type.
#[derive(Clone, Copy, Debug)]
pub struct Type<'c> {
    pub(crate) raw: MlirType,
    life: PhantomData<&'c ()>,
}
by_address!(Type);

impl<'c> Type<'c> {
    pub(crate) fn from_raw(raw: MlirType) -> Self {
        Self { raw, life: PhantomData }
    }

    /// The context.
    pub fn context(self) -> Ctx<'c> {
        // SAFETY: the type is alive.
        Ctx::from_raw(unsafe { mlirTypeGetContext(self.raw) })
    }

    /// Any type from its text, such as `f32` or `tensor<2x3xbf16>`; `None` after MLIR reported an error.
    pub fn parse(ctx: Ctx<'c>, source: &str) -> Option<Self> {
        // SAFETY: the context is alive, and MLIR copies the text.
        let raw = unsafe { mlirTypeParseGet(ctx.raw, view(source)) };
        (!raw.ptr.is_null()).then_some(Self::from_raw(raw))
    }

    /// `none`: a tensor that libtorch leaves undefined.
    pub fn none(ctx: Ctx<'c>) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { mlirNoneTypeGet(ctx.raw) })
    }

    /// `!rk.generator`.
    pub fn generator(ctx: Ctx<'c>) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { shim::rkGeneratorGet(ctx.raw) })
    }

    /// `!rk.host<...>`: a copy, in host memory, of a tensor of static shape.
    pub fn host(held: Type<'c>) -> Self {
        // SAFETY: the type is alive.
        Self::from_raw(unsafe { shim::rkHostGet(held.raw) })
    }

    /// A ranked tensor; `encoding` is `#rk.strided` or nothing. `None` after MLIR reported what does not fit.
    pub fn tensor(shape: &[i64], element: Type<'c>, encoding: Option<Attr<'c>>) -> Option<Self> {
        let encoding = encoding.map_or(MlirAttribute { ptr: std::ptr::null() }, |attribute| attribute.raw);
        let location = element.context().unknown();
        // SAFETY: the type is alive, and MLIR copies the list.
        let raw = unsafe {
            mlirRankedTensorTypeGetChecked(
                location.raw,
                shape.len() as isize,
                shape.as_ptr(),
                element.raw,
                encoding,
            )
        };
        (!raw.ptr.is_null()).then_some(Self::from_raw(raw))
    }

    /// A function type.
    pub fn function(ctx: Ctx<'c>, inputs: &[Type<'c>], results: &[Type<'c>]) -> Self {
        let inputs: Vec<_> = inputs.iter().map(|ty| ty.raw).collect();
        let results: Vec<_> = results.iter().map(|ty| ty.raw).collect();
        // SAFETY: the context is alive, and MLIR copies the list.
        Self::from_raw(unsafe {
            mlirFunctionTypeGet(
                ctx.raw,
                inputs.len() as isize,
                inputs.as_ptr(),
                results.len() as isize,
                results.as_ptr(),
            )
        })
    }

    /// Whether it is `none`.
    pub fn is_none(self) -> bool {
        // SAFETY: the type is alive.
        unsafe { mlirTypeIsANone(self.raw) }
    }

    /// Whether it is `!rk.generator`.
    pub fn is_generator(self) -> bool {
        // SAFETY: the type is alive.
        unsafe { shim::rkGeneratorIs(self.raw) }
    }

    /// Whether it is `!rk.host<...>`.
    pub fn is_host(self) -> bool {
        // SAFETY: the type is alive.
        unsafe { shim::rkHostIs(self.raw) }
    }

    /// Whether it is a ranked tensor.
    pub fn is_tensor(self) -> bool {
        // SAFETY: the type is alive.
        unsafe { mlirTypeIsARankedTensor(self.raw) }
    }

    /// The sizes of a ranked tensor of static shape.
    pub fn shape(self) -> Option<Vec<i64>> {
        // SAFETY: the type is alive, and it is read as what it was found to be.
        unsafe {
            if !mlirTypeIsARankedTensor(self.raw) || !mlirShapedTypeHasStaticShape(self.raw) {
                return None;
            }
            let rank = mlirShapedTypeGetRank(self.raw);
            Some((0..rank).map(|dim| mlirShapedTypeGetDimSize(self.raw, dim as isize)).collect())
        }
    }

    /// The element type of a tensor, or of a complex number.
    pub fn element(self) -> Option<Self> {
        // SAFETY: the type is alive, and it is read as what it was found to be.
        unsafe {
            if mlirTypeIsAShaped(self.raw) {
                return Some(Self::from_raw(mlirShapedTypeGetElementType(self.raw)));
            }
            mlirTypeIsAComplex(self.raw).then(|| Self::from_raw(mlirComplexTypeGetElementType(self.raw)))
        }
    }

    /// The encoding of a tensor.
    pub fn encoding(self) -> Option<Attr<'c>> {
        // SAFETY: the type is alive, and it is read as what it was found to be.
        unsafe {
            if !mlirTypeIsARankedTensor(self.raw) {
                return None;
            }
            Attr::from_nullable(mlirRankedTensorTypeGetEncoding(self.raw))
        }
    }

    /// Whether it is a complex number.
    pub fn is_complex(self) -> bool {
        // SAFETY: the type is alive.
        unsafe { mlirTypeIsAComplex(self.raw) }
    }

    /// The width of an integer type.
    pub fn integer_width(self) -> Option<u32> {
        // SAFETY: the type is alive, and it is read as what it was found to be.
        unsafe { mlirTypeIsAInteger(self.raw).then(|| mlirIntegerTypeGetWidth(self.raw)) }
    }

    /// The width of a float type.
    pub fn float_width(self) -> Option<u32> {
        // SAFETY: the type is alive, and it is read as what it was found to be.
        unsafe { mlirTypeIsAFloat(self.raw).then(|| mlirFloatTypeGetWidth(self.raw)) }
    }

    /// Inputs and results of a function type.
    pub fn signature(self) -> Option<(Vec<Type<'c>>, Vec<Type<'c>>)> {
        // SAFETY: the type is alive, and it is read as what it was found to be.
        unsafe {
            mlirTypeIsAFunction(self.raw).then(|| {
                let inputs = (0..mlirFunctionTypeGetNumInputs(self.raw))
                    .map(|index| Self::from_raw(mlirFunctionTypeGetInput(self.raw, index)))
                    .collect();
                let results = (0..mlirFunctionTypeGetNumResults(self.raw))
                    .map(|index| Self::from_raw(mlirFunctionTypeGetResult(self.raw, index)))
                    .collect();
                (inputs, results)
            })
        }
    }
}

impl std::fmt::Display for Type<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the type is alive, and `printed` gives the callback the data that it expects.
        formatter.write_str(&printed(|callback, data| unsafe { mlirTypePrint(self.raw, callback, data) }))
    }
}
