//! What tch calls the element types of the IR.

use rk_vocabulary::ElementType;
use tch::Kind;

use crate::error::{Error, Result};

/// tch's name of an element type; `None` for those that tch has no name for.
pub fn kind(element: ElementType) -> Option<Kind> {
    use ElementType as E;
    Some(match element {
        E::U8 => Kind::Uint8,
        E::I8 => Kind::Int8,
        E::I16 => Kind::Int16,
        E::I32 => Kind::Int,
        E::I64 => Kind::Int64,
        E::F16 => Kind::Half,
        E::F32 => Kind::Float,
        E::F64 => Kind::Double,
        E::C32 => Kind::ComplexHalf,
        E::C64 => Kind::ComplexFloat,
        E::C128 => Kind::ComplexDouble,
        E::Bool => Kind::Bool,
        E::Bf16 => Kind::BFloat16,
        E::F8E5M2 => Kind::Float8e5m2,
        E::F8E4M3Fn => Kind::Float8e4m3fn,
        E::F8E5M2Fnuz => Kind::Float8e5m2fnuz,
        E::F8E4M3Fnuz => Kind::Float8e4m3fnuz,
        E::U16 | E::U32 | E::U64 | E::F8E8M0Fnu => return None,
    })
}

/// The element type of a tensor of tch.
///
/// # Errors
/// For types that the IR does not have.
pub fn element_of(kind: Kind) -> Result<ElementType> {
    let known = |element: &ElementType| self::kind(*element) == Some(kind);
    let found = ElementType::ALL.into_iter().find(known);
    found.ok_or_else(|| Error::new(format!("element type {kind:?} is not supported")))
}

/// The element type with libtorch's number (`c10::ScalarType`).
///
/// # Errors
/// For types that the IR does not have, or tch has no name for.
pub fn element_of_code(number: i32) -> Result<ElementType> {
    let found = ElementType::from_torch_code(number.into()).filter(|&element| kind(element).is_some());
    found.ok_or_else(|| Error::new(format!("element type number {number} of libtorch is not supported")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_stands_for_one_element_type() {
        for element in ElementType::ALL {
            let code = i32::try_from(element.torch_code()).unwrap();
            let of_kind = kind(element).and_then(|kind| element_of(kind).ok());
            assert_eq!(of_kind, element_of_code(code).ok());
            assert!(of_kind.is_none_or(|found| found == element), "{element}");
        }
        assert!(element_of(Kind::QInt8).is_err() && element_of_code(12).is_err());
    }
}
