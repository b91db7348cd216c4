//! Element types: libtorch's numbers, the IR's spellings, bytes.

use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;
use tch::Kind;

/// The type of an element, spelled as in the IR.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(missing_docs)] // the names say it
pub enum Dtype {
    U8,
    I8,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
    Complex64,
    Complex128,
    Bool,
    Bf16,
}

/// Dtype, libtorch's number, IR spelling, bytes of an element, tch's kind.
const TABLE: [(Dtype, i32, &str, u64, Kind); 12] = [
    (Dtype::U8, 0, "ui8", 1, Kind::Uint8),
    (Dtype::I8, 1, "i8", 1, Kind::Int8),
    (Dtype::I16, 2, "i16", 2, Kind::Int16),
    (Dtype::I32, 3, "i32", 4, Kind::Int),
    (Dtype::I64, 4, "i64", 8, Kind::Int64),
    (Dtype::F16, 5, "f16", 2, Kind::Half),
    (Dtype::F32, 6, "f32", 4, Kind::Float),
    (Dtype::F64, 7, "f64", 8, Kind::Double),
    (Dtype::Complex64, 9, "complex<f32>", 8, Kind::ComplexFloat),
    (Dtype::Complex128, 10, "complex<f64>", 16, Kind::ComplexDouble),
    (Dtype::Bool, 11, "i1", 1, Kind::Bool),
    (Dtype::Bf16, 15, "bf16", 2, Kind::BFloat16),
];

impl Dtype {
    fn row(self) -> &'static (Self, i32, &'static str, u64, Kind) {
        // Every variant has a row (a test says so); the first one stands in for the impossible.
        TABLE.iter().find(|row| row.0 == self).unwrap_or(&TABLE[0])
    }

    /// The dtype with libtorch's number (`c10::ScalarType`).
    ///
    /// # Errors
    /// For types that the IR does not have.
    pub fn from_torch(number: i32) -> Result<Self> {
        TABLE
            .iter()
            .find(|row| row.1 == number)
            .map(|row| row.0)
            .ok_or_else(|| Error::new(format!("element type number {number} of libtorch is not supported")))
    }

    /// The dtype of a tensor of the tch crate.
    ///
    /// # Errors
    /// For types that the IR does not have.
    pub fn from_kind(kind: Kind) -> Result<Self> {
        TABLE
            .iter()
            .find(|row| row.4 == kind)
            .map(|row| row.0)
            .ok_or_else(|| Error::new(format!("element type {kind:?} is not supported")))
    }

    /// libtorch's number.
    pub fn torch(self) -> i32 {
        self.row().1
    }

    /// Bytes of one element.
    pub fn bytes(self) -> u64 {
        self.row().3
    }

    /// The same type for the tch crate.
    pub fn kind(self) -> Kind {
        self.row().4
    }

    /// Whether this is a floating type (complex is not).
    pub fn is_floating(self) -> bool {
        matches!(self, Self::F16 | Self::F32 | Self::F64 | Self::Bf16)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().2)
    }
}

impl FromStr for Dtype {
    type Err = Error;

    /// Parses the IR's spelling; `bool` is accepted for `i1` and `u8` for `ui8`.
    fn from_str(text: &str) -> Result<Self> {
        let text = match text {
            "bool" => "i1",
            "u8" => "ui8",
            other => other,
        };
        TABLE.iter().find(|row| row.2 == text).map(|row| row.0).ok_or_else(|| {
            let known: Vec<&str> = TABLE.iter().map(|row| row.2).collect();
            Error::new(format!("element type '{text}' is none of {}", known.join(" ")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_its_spelling_and_its_number() {
        for row in &TABLE {
            assert_eq!(row.2.parse::<Dtype>().unwrap(), row.0);
            assert_eq!(Dtype::from_torch(row.1).unwrap(), row.0);
            assert_eq!(row.0.to_string(), row.2);
        }
        assert!("f8".parse::<Dtype>().is_err());
        assert!(Dtype::from_torch(24).is_err());
    }
}
