//! Element types of tensors: one table of their spelling in the IR, their number in torch and their bytes.
//!
//! Not here: types that the IR has no name for, such as packed 4-bit floats and quantized numbers. No step has a tensor of them.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

macro_rules! element_types {
    ($($variant:ident $name:literal $code:literal $bytes:literal $class:ident;)+) => {
        /// The type of an element. In text and in files it is spelled as in the IR.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ElementType {
            $(#[doc = concat!("`", $name, "`")] $variant,)+
        }

        impl ElementType {
            /// Every element type.
            pub const ALL: [Self; [$($code),+].len()] = [$(Self::$variant),+];

            /// The spelling of the IR.
            pub fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The number in torch (`c10::ScalarType`), as ATen operators take it.
            pub fn torch_code(self) -> i64 {
                match self { $(Self::$variant => $code,)+ }
            }

            /// Bytes of one element.
            pub fn bytes(self) -> u64 {
                match self { $(Self::$variant => $bytes,)+ }
            }

            fn class(self) -> Class {
                match self { $(Self::$variant => Class::$class,)+ }
            }
        }
    };
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Integer,
    Real,
    Complex,
}

element_types! {
    U8 "ui8" 0 1 Integer;
    I8 "i8" 1 1 Integer;
    I16 "i16" 2 2 Integer;
    I32 "i32" 3 4 Integer;
    I64 "i64" 4 8 Integer;
    F16 "f16" 5 2 Real;
    F32 "f32" 6 4 Real;
    F64 "f64" 7 8 Real;
    C32 "complex<f16>" 8 4 Complex;
    C64 "complex<f32>" 9 8 Complex;
    C128 "complex<f64>" 10 16 Complex;
    Bool "i1" 11 1 Integer;
    Bf16 "bf16" 15 2 Real;
    F8E5M2 "f8E5M2" 23 1 Real;
    F8E4M3Fn "f8E4M3FN" 24 1 Real;
    F8E5M2Fnuz "f8E5M2FNUZ" 25 1 Real;
    F8E4M3Fnuz "f8E4M3FNUZ" 26 1 Real;
    U16 "ui16" 27 2 Integer;
    U32 "ui32" 28 4 Integer;
    U64 "ui64" 29 8 Integer;
    F8E8M0Fnu "f8E8M0FNU" 44 1 Real;
}

impl ElementType {
    /// The type with this number in torch.
    pub fn from_torch_code(code: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.torch_code() == code)
    }

    /// Whether it is a real floating-point type.
    pub fn is_real(self) -> bool {
        self.class() == Class::Real
    }

    /// Whether it is complex.
    pub fn is_complex(self) -> bool {
        self.class() == Class::Complex
    }

    /// Whether it is a real or complex floating-point type: what can have a gradient.
    pub fn is_float(self) -> bool {
        self.class() != Class::Integer
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for ElementType {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|element| element.name() == text).ok_or_else(|| {
            format!("element type '{text}' is none of {}", Self::ALL.map(Self::name).join(" "))
        })
    }
}

impl Serialize for ElementType {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for ElementType {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_survives_its_spelling_and_its_number() {
        for element in ElementType::ALL {
            assert_eq!(element.name().parse(), Ok(element));
            assert_eq!(ElementType::from_torch_code(element.torch_code()), Some(element));
        }
        assert_eq!(ElementType::from_torch_code(12), None, "a quantized number");
        let error = "f8".parse::<ElementType>().unwrap_err();
        assert!(error.starts_with("element type 'f8' is none of ui8 i8 "), "{error}");
    }

    /// The bits that a name counts, and two such halves for a complex number.
    #[test]
    fn bytes_and_classes_are_what_the_names_say() {
        for element in ElementType::ALL {
            let name = element.name();
            let inner = name.strip_prefix("complex<");
            let digits = inner.unwrap_or(name).trim_start_matches(|c: char| c.is_ascii_alphabetic());
            let bits: String = digits.chars().take_while(char::is_ascii_digit).collect();
            let bits: u64 = bits.parse().unwrap();
            let parts = if inner.is_some() { 2 } else { 1 };
            assert_eq!(element.bytes(), bits.div_ceil(8) * parts, "{name}");
            assert_eq!(element.is_complex(), inner.is_some(), "{name}");
            assert_eq!(element.is_float(), inner.unwrap_or(name).contains('f'), "{name}");
            assert_eq!(element.is_real(), element.is_float() && !element.is_complex(), "{name}");
        }
    }
}
