//! Element types of a step file: their spelling, their size, and the number that ATen operators take for them.
//!
//! Absent here: tensors. A type that libtorch has and the IR has no name for (packed 4-bit floats, quantized numbers) is not one of a step.

use serde::{Deserialize, Serialize};

/// Element types, spelled as in the IR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum DType {
    #[serde(rename = "f64")]
    F64,
    #[serde(rename = "f32")]
    F32,
    #[serde(rename = "f16")]
    F16,
    #[serde(rename = "bf16")]
    Bf16,
    #[serde(rename = "i64")]
    I64,
    #[serde(rename = "i32")]
    I32,
    #[serde(rename = "i16")]
    I16,
    #[serde(rename = "i8")]
    I8,
    #[serde(rename = "ui8")]
    U8,
    #[serde(rename = "ui16")]
    U16,
    #[serde(rename = "ui32")]
    U32,
    #[serde(rename = "ui64")]
    U64,
    #[serde(rename = "i1")]
    Bool,
    #[serde(rename = "f8E5M2")]
    F8E5M2,
    #[serde(rename = "f8E4M3FN")]
    F8E4M3Fn,
    #[serde(rename = "f8E5M2FNUZ")]
    F8E5M2Fnuz,
    #[serde(rename = "f8E4M3FNUZ")]
    F8E4M3Fnuz,
    #[serde(rename = "f8E8M0FNU")]
    F8E8M0Fnu,
    #[serde(rename = "complex<f16>")]
    C32,
    #[serde(rename = "complex<f32>")]
    C64,
    #[serde(rename = "complex<f64>")]
    C128,
}

impl DType {
    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        match self {
            DType::I8 | DType::U8 | DType::Bool => 1,
            DType::F8E5M2 | DType::F8E4M3Fn | DType::F8E5M2Fnuz | DType::F8E4M3Fnuz | DType::F8E8M0Fnu => 1,
            DType::F16 | DType::Bf16 | DType::I16 | DType::U16 => 2,
            DType::F32 | DType::I32 | DType::U32 | DType::C32 => 4,
            DType::F64 | DType::I64 | DType::U64 | DType::C64 => 8,
            DType::C128 => 16,
        }
    }

    /// Is it a real or complex floating-point type?
    pub fn is_float(self) -> bool {
        !matches!(
            self,
            DType::I64
                | DType::I32
                | DType::I16
                | DType::I8
                | DType::U64
                | DType::U32
                | DType::U16
                | DType::U8
                | DType::Bool
        )
    }

    /// Number of this type in torch (`c10::ScalarType`), as ATen operators take it.
    pub fn torch_code(self) -> i64 {
        match self {
            DType::U8 => 0,
            DType::I8 => 1,
            DType::I16 => 2,
            DType::I32 => 3,
            DType::I64 => 4,
            DType::F16 => 5,
            DType::F32 => 6,
            DType::F64 => 7,
            DType::C32 => 8,
            DType::C64 => 9,
            DType::C128 => 10,
            DType::Bool => 11,
            DType::Bf16 => 15,
            DType::F8E5M2 => 23,
            DType::F8E4M3Fn => 24,
            DType::F8E5M2Fnuz => 25,
            DType::F8E4M3Fnuz => 26,
            DType::U16 => 27,
            DType::U32 => 28,
            DType::U64 => 29,
            DType::F8E8M0Fnu => 44,
        }
    }
}
