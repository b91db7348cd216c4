//! Attributes, as MLIR has them. Those of rk have readers in [`crate::attrs`].

use std::borrow::Cow;
use std::marker::PhantomData;

use mlir_sys::*;

use super::{Ctx, Type, by_address, printed, text, view};

/// An attribute.
#[derive(Clone, Copy, Debug)]
pub struct Attr<'c> {
    pub(crate) raw: MlirAttribute,
    life: PhantomData<&'c ()>,
}
by_address!(Attr);

impl<'c> Attr<'c> {
    pub(crate) fn from_raw(raw: MlirAttribute) -> Self {
        Self { raw, life: PhantomData }
    }

    /// `None` for MLIR's null attribute.
    pub(crate) fn from_nullable(raw: MlirAttribute) -> Option<Self> {
        (!raw.ptr.is_null()).then_some(Self::from_raw(raw))
    }

    /// The context.
    pub fn context(self) -> Ctx<'c> {
        // SAFETY: the attribute is alive.
        Ctx::from_raw(unsafe { mlirAttributeGetContext(self.raw) })
    }

    /// Any attribute from its text, such as `dense<1.0> : tensor<2xf32>`; `None` after MLIR reported an error.
    pub fn parse(ctx: Ctx<'c>, source: &str) -> Option<Self> {
        // SAFETY: MLIR copies what it needs.
        Self::from_nullable(unsafe { mlirAttributeParseGet(ctx.raw, view(source)) })
    }

    /// `unit`.
    pub fn unit(ctx: Ctx<'c>) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { mlirUnitAttrGet(ctx.raw) })
    }

    /// A 64-bit integer, `5 : i64`.
    pub fn i64(ctx: Ctx<'c>, value: i64) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { mlirIntegerAttrGet(mlirIntegerTypeGet(ctx.raw, 64), value) })
    }

    /// A double, `0.5 : f64`.
    pub fn f64(ctx: Ctx<'c>, value: f64) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { mlirFloatAttrDoubleGet(ctx.raw, mlirF64TypeGet(ctx.raw), value) })
    }

    /// `true` or `false`.
    pub fn bool(ctx: Ctx<'c>, value: bool) -> Self {
        // SAFETY: the context is alive.
        Self::from_raw(unsafe { mlirBoolAttrGet(ctx.raw, value.into()) })
    }

    /// A string.
    pub fn string(ctx: Ctx<'c>, value: &str) -> Self {
        // SAFETY: the context is alive, and MLIR copies the text.
        Self::from_raw(unsafe { mlirStringAttrGet(ctx.raw, view(value)) })
    }

    /// `@name`.
    pub fn symbol(ctx: Ctx<'c>, name: &str) -> Self {
        // SAFETY: the context is alive, and MLIR copies the text.
        Self::from_raw(unsafe { mlirFlatSymbolRefAttrGet(ctx.raw, view(name)) })
    }

    /// A list of attributes.
    pub fn array(ctx: Ctx<'c>, elements: &[Attr<'c>]) -> Self {
        let raw: Vec<_> = elements.iter().map(|element| element.raw).collect();
        // SAFETY: the context is alive, and MLIR copies the list.
        Self::from_raw(unsafe { mlirArrayAttrGet(ctx.raw, raw.len() as isize, raw.as_ptr()) })
    }

    /// `array<i64: ...>`.
    pub fn i64s(ctx: Ctx<'c>, values: &[i64]) -> Self {
        // SAFETY: the context is alive, and MLIR copies the list.
        Self::from_raw(unsafe { mlirDenseI64ArrayGet(ctx.raw, values.len() as isize, values.as_ptr()) })
    }

    /// A dictionary.
    pub fn dict(ctx: Ctx<'c>, entries: &[(&str, Attr<'c>)]) -> Self {
        let raw: Vec<_> = entries.iter().map(|(name, value)| named(ctx, name, *value)).collect();
        // SAFETY: the context is alive, and MLIR copies the list.
        Self::from_raw(unsafe { mlirDictionaryAttrGet(ctx.raw, raw.len() as isize, raw.as_ptr()) })
    }

    /// A type as an attribute.
    pub fn of_type(ty: Type<'c>) -> Self {
        // SAFETY: the type is alive.
        Self::from_raw(unsafe { mlirTypeAttrGet(ty.raw) })
    }

    /// `dense<...>` of a tensor type from its elements in memory order (row-major, native endian; `i1` one byte each).
    /// `None` when the number of bytes does not fit the type.
    pub fn dense(ty: Type<'c>, bytes: &[u8]) -> Option<Self> {
        let shape = ty.shape()?;
        let element = ty.element()?;
        let count = usize::try_from(shape.iter().product::<i64>()).ok()?;
        if count.checked_mul(usize::try_from(element.element_bytes()?).ok()?)? != bytes.len() {
            return None;
        }
        if element.integer_width() == Some(1) {
            // MLIR packs booleans into bits, whose layout differs between its versions.
            let values: Vec<i32> = bytes.iter().map(|&byte| i32::from(byte != 0)).collect();
            let count = values.len() as isize;
            // SAFETY: the type is alive, and MLIR copies the elements.
            return Self::from_nullable(unsafe {
                mlirDenseElementsAttrBoolGet(ty.raw, count, values.as_ptr())
            });
        }
        // SAFETY: the type is alive, and MLIR copies the bytes.
        Self::from_nullable(unsafe {
            mlirDenseElementsAttrRawBufferGet(ty.raw, bytes.len(), bytes.as_ptr().cast())
        })
    }

    /// Whether it is `unit`.
    pub fn is_unit(self) -> bool {
        // SAFETY: the attribute is alive.
        unsafe { mlirAttributeIsAUnit(self.raw) }
    }

    /// The value of an integer attribute of at most 64 bits (booleans excluded).
    pub fn as_i64(self) -> Option<i64> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            if !mlirAttributeIsAInteger(self.raw) || mlirAttributeIsABool(self.raw) {
                return None;
            }
            let ty = Type::from_raw(mlirAttributeGetType(self.raw));
            match ty.integer_width() {
                Some(width) if width > 64 => None,
                _ if mlirTypeIsAInteger(ty.raw) && mlirIntegerTypeIsUnsigned(ty.raw) => {
                    i64::try_from(mlirIntegerAttrGetValueUInt(self.raw)).ok()
                }
                _ if mlirTypeIsAInteger(ty.raw) && mlirIntegerTypeIsSigned(ty.raw) => {
                    Some(mlirIntegerAttrGetValueSInt(self.raw))
                }
                _ => Some(mlirIntegerAttrGetValueInt(self.raw)),
            }
        }
    }

    /// The value of a float attribute.
    pub fn as_f64(self) -> Option<f64> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe { mlirAttributeIsAFloat(self.raw).then(|| mlirFloatAttrGetValueDouble(self.raw)) }
    }

    /// The value of a boolean attribute.
    pub fn as_bool(self) -> Option<bool> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe { mlirAttributeIsABool(self.raw).then(|| mlirBoolAttrGetValue(self.raw)) }
    }

    /// The text of a string attribute.
    pub fn as_str(self) -> Option<&'c str> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe { mlirAttributeIsAString(self.raw).then(|| text(mlirStringAttrGetValue(self.raw))) }
    }

    /// The name of `@name`.
    pub fn as_symbol(self) -> Option<&'c str> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            mlirAttributeIsAFlatSymbolRef(self.raw).then(|| text(mlirFlatSymbolRefAttrGetValue(self.raw)))
        }
    }

    /// The elements of an array attribute.
    pub fn as_array(self) -> Option<Vec<Attr<'c>>> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            mlirAttributeIsAArray(self.raw).then(|| {
                let count = mlirArrayAttrGetNumElements(self.raw);
                (0..count).map(|index| Self::from_raw(mlirArrayAttrGetElement(self.raw, index))).collect()
            })
        }
    }

    /// One element of an array attribute. Reading one from [`Attr::as_array`] takes time in proportion to all.
    pub fn array_element(self, index: usize) -> Option<Self> {
        let index = isize::try_from(index).ok()?;
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            let inside = mlirAttributeIsAArray(self.raw) && index < mlirArrayAttrGetNumElements(self.raw);
            inside.then(|| Self::from_raw(mlirArrayAttrGetElement(self.raw, index)))
        }
    }

    /// The elements of `array<i64: ...>`.
    pub fn as_i64s(self) -> Option<Vec<i64>> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            mlirAttributeIsADenseI64Array(self.raw).then(|| {
                let count = mlirDenseArrayGetNumElements(self.raw);
                (0..count).map(|index| mlirDenseI64ArrayGetElement(self.raw, index)).collect()
            })
        }
    }

    /// The entries of a dictionary, sorted by name.
    pub fn as_dict(self) -> Option<Vec<(&'c str, Attr<'c>)>> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            mlirAttributeIsADictionary(self.raw).then(|| {
                let count = mlirDictionaryAttrGetNumElements(self.raw);
                (0..count).map(|index| unnamed(mlirDictionaryAttrGetElement(self.raw, index))).collect()
            })
        }
    }

    /// The entry of a dictionary.
    pub fn entry(self, name: &str) -> Option<Attr<'c>> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            if !mlirAttributeIsADictionary(self.raw) {
                return None;
            }
            Self::from_nullable(mlirDictionaryAttrGetElementByName(self.raw, view(name)))
        }
    }

    /// The type that a type attribute holds.
    pub fn as_type(self) -> Option<Type<'c>> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe { mlirAttributeIsAType(self.raw).then(|| Type::from_raw(mlirTypeAttrGetValue(self.raw))) }
    }

    /// The type of a typed attribute, such as the tensor of `dense<...>`.
    pub fn ty(self) -> Type<'c> {
        // SAFETY: the attribute is alive.
        Type::from_raw(unsafe { mlirAttributeGetType(self.raw) })
    }

    /// The bytes of `dense<...>` in memory order: one element for a splat, else all of them. `None` for anything else.
    /// Booleans come as one byte each.
    pub fn dense_bytes(self) -> Option<DenseBytes<'c>> {
        // SAFETY: the attribute is alive, and it is read as what it was found to be.
        unsafe {
            if !mlirAttributeIsADenseElements(self.raw) {
                return None;
            }
            let splat = mlirDenseElementsAttrIsSplat(self.raw);
            let ty = self.ty();
            let count = if splat { 1 } else { ty.shape()?.iter().product::<i64>() };
            let count = usize::try_from(count).ok()?;
            let element = ty.element()?;
            if element.integer_width() == Some(1) {
                let at = |index| u8::from(mlirDenseElementsAttrGetBoolValue(self.raw, index as isize));
                return Some(DenseBytes { splat, bytes: (0..count).map(at).collect() });
            }
            let element = usize::try_from(element.element_bytes()?).ok()?;
            let data = mlirDenseElementsAttrGetRawData(self.raw).cast::<u8>();
            // A constant without elements has no data, not even an address.
            let bytes = if data.is_null() { &[] } else { std::slice::from_raw_parts(data, count * element) };
            Some(DenseBytes { splat, bytes: Cow::Borrowed(bytes) })
        }
    }
}

/// The elements of a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DenseBytes<'c> {
    /// Whether one element stands for all.
    pub splat: bool,
    /// The elements, row-major, native endian; booleans one byte each.
    pub bytes: Cow<'c, [u8]>,
}

impl std::fmt::Display for Attr<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // SAFETY: the attribute is alive, and `printed` gives the callback the data that it expects.
        formatter
            .write_str(&printed(|callback, data| unsafe { mlirAttributePrint(self.raw, callback, data) }))
    }
}

pub(super) fn named<'c>(ctx: Ctx<'c>, name: &str, value: Attr<'c>) -> MlirNamedAttribute {
    // SAFETY: the context is alive.
    unsafe { mlirNamedAttributeGet(mlirIdentifierGet(ctx.raw, view(name)), value.raw) }
}

pub(super) fn unnamed<'c>(raw: MlirNamedAttribute) -> (&'c str, Attr<'c>) {
    // SAFETY: identifiers live as long as the context.
    unsafe { (text(mlirIdentifierStr(raw.name)), Attr::from_raw(raw.attribute)) }
}
