//! Numbers, strings and dense constants as MLIR spells them.

use rk_torch::{ElementType, Error, ErrorKind, Result};
use std::fmt::Write;

/// A double: the shortest decimal that reads back as the same, with the point that tells it from an integer.
/// Infinities and NaN are keywords of `rk.aten`.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0. { "inf" } else { "minus_inf" }.to_owned();
    }
    decimal(value)
}

fn decimal(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0e{exponent}"),
        _ => text,
    }
}

/// A quoted string.
pub fn string(text: &str) -> String {
    let mut out = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            0x20..=0x7e => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\{byte:02X}");
            }
        }
    }
    out.push('"');
    out
}

/// The inside of `dense<...>`: one element for a splat, nothing for no elements, decimals for a short list of
/// integers or truth values, else the bytes in hex.
///
/// # Errors
/// When the bytes do not fit the shape.
pub fn dense(dtype: ElementType, sizes: &[i64], bytes: &[u8]) -> Result<String> {
    let width = dtype.bytes() as usize;
    let elements: Vec<&[u8]> = bytes.chunks(width).collect();
    if elements.len() as i64 != sizes.iter().product::<i64>() {
        return Err(Error::of(ErrorKind::Other, "a constant has more or fewer bytes than its shape"));
    }
    let Some(first) = elements.first() else {
        return Ok("[]".to_owned());
    };
    let splat = elements.iter().all(|element| element == first);
    if splat && let Some(text) = element(dtype, first) {
        return Ok(text);
    }
    // MLIR packs the bits of i1 in hex, which nobody can read: print the words.
    let wordy = dtype == ElementType::Bool || (!dtype.is_float() && elements.len() <= 16);
    if wordy && let Some(words) = elements.iter().map(|e| element(dtype, e)).collect::<Option<Vec<_>>>() {
        return Ok(nested(sizes, &mut words.iter()));
    }
    let mut out = String::with_capacity(bytes.len() * 2 + 4);
    out.push_str("\"0x");
    for byte in bytes {
        let _ = write!(out, "{byte:02X}");
    }
    out.push('"');
    Ok(out)
}

fn nested(sizes: &[i64], words: &mut std::slice::Iter<'_, String>) -> String {
    match sizes {
        [] => words.next().cloned().unwrap_or_default(),
        [size, rest @ ..] => {
            let items: Vec<String> = (0..*size).map(|_| nested(rest, words)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// One element as a decimal; `None` when only hex is exact.
fn element(dtype: ElementType, bytes: &[u8]) -> Option<String> {
    fn array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    let real = |value: f64| value.is_finite().then(|| decimal(value));
    match dtype {
        ElementType::Bool => Some(if *bytes.first()? != 0 { "true" } else { "false" }.to_owned()),
        ElementType::U8 => bytes.first().map(u8::to_string),
        ElementType::I8 => Some(i8::from_le_bytes(array(bytes)?).to_string()),
        ElementType::I16 => Some(i16::from_le_bytes(array(bytes)?).to_string()),
        ElementType::I32 => Some(i32::from_le_bytes(array(bytes)?).to_string()),
        ElementType::I64 => Some(i64::from_le_bytes(array(bytes)?).to_string()),
        ElementType::F32 => real(f32::from_le_bytes(array(bytes)?).into()),
        ElementType::F64 => real(f64::from_le_bytes(array(bytes)?)),
        // A bf16 is the upper half of an f32.
        ElementType::Bf16 => real(f32::from_bits(u32::from(u16::from_le_bytes(array(bytes)?)) << 16).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_always_have_a_point() {
        let spelled = [1.0, 0.1, 1e-5, 1e300, -0.0, 123456789.25, 1.5e-7].map(float);
        assert_eq!(spelled, ["1.0", "0.1", "1.0e-5", "1.0e300", "-0.0", "123456789.25", "1.5e-7"]);
        assert_eq!([f64::INFINITY, f64::NEG_INFINITY, f64::NAN].map(float), ["inf", "minus_inf", "nan"]);
    }

    #[test]
    fn strings_are_escaped() {
        assert_eq!(string("a\"b\\c\n\u{e4}"), r#""a\"b\\c\0A\C3\A4""#);
    }

    #[test]
    fn dense_constants_take_the_shortest_exact_form() {
        let floats = |v: &[f32]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let dense_of = |dtype, sizes: &[i64], bytes: &[u8]| dense(dtype, sizes, bytes).unwrap();
        assert_eq!(dense_of(ElementType::F32, &[2, 2], &floats(&[1.; 4])), "1.0");
        assert_eq!(
            dense_of(ElementType::F32, &[2], &floats(&[1., f32::NEG_INFINITY])),
            "\"0x0000803F000080FF\""
        );
        assert_eq!(dense_of(ElementType::F32, &[], &floats(&[f32::INFINITY])), "\"0x0000807F\"");
        assert_eq!(dense_of(ElementType::F32, &[0, 3], &[]), "[]");
        assert_eq!(dense_of(ElementType::Bool, &[2, 2], &[0, 1, 1, 0]), "[[false, true], [true, false]]");
        assert_eq!(dense_of(ElementType::I64, &[1], &5_i64.to_le_bytes()), "5");
        assert_eq!(dense_of(ElementType::Bf16, &[2], &[0x80, 0x3f, 0x80, 0x3f]), "1.0");
        assert!(dense(ElementType::F32, &[3], &floats(&[1., 2.])).is_err());
    }
}
