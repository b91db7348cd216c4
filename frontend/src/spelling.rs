//! Types, arguments and names of values as the IR spells them.

use crate::literal;
use rk_torch::{Argument, TensorType, ValueNumber};
use std::collections::HashSet;

/// The row-major contiguous strides of `sizes`.
pub fn contiguous_strides(sizes: &[i64]) -> Vec<i64> {
    let mut strides = vec![1; sizes.len()];
    for i in (1..sizes.len()).rev() {
        strides[i - 1] = strides[i] * sizes[i].max(1);
    }
    strides
}

/// Bytes from the first to the last element of a tensor.
pub fn span_bytes(sizes: &[i64], strides: &[i64], element: u64) -> u64 {
    if sizes.contains(&0) {
        return 0;
    }
    let last: i64 = sizes.iter().zip(strides).map(|(size, stride)| (size - 1) * stride).sum();
    (1 + last.max(0) as u64) * element
}

/// `tensor<8x16xf32>`, with strides and storage where they are not what the shape implies; `none` when undefined.
pub fn tensor_type(value: Option<&TensorType>) -> String {
    let Some(value) = value else { return "none".to_owned() };
    let sizes: String = value.sizes.iter().map(|size| format!("{size}x")).collect();
    let natural = contiguous_strides(&value.sizes);
    // The stride of a dimension of size 1 means nothing; nor does any stride when there are no elements.
    let empty = value.sizes.contains(&0);
    let differs = |i: usize| value.sizes[i] != 1 && value.strides[i] != natural[i];
    let strided = !empty && (0..value.sizes.len()).any(differs);
    let strides = if strided { &value.strides } else { &natural };
    let exact = span_bytes(&value.sizes, strides, value.dtype.bytes()) == value.storage_bytes;
    if !strided && exact {
        return format!("tensor<{sizes}{}>", value.dtype);
    }
    let strides: Vec<String> = strides.iter().map(i64::to_string).collect();
    let storage = if exact { String::new() } else { format!(", storage {}", value.storage_bytes) };
    format!("tensor<{sizes}{}, #rk.strided<[{}]{storage}>>", value.dtype, strides.join(", "))
}

/// An argument of `rk.aten`; `name` gives the names of values.
pub fn argument(argument: &Argument, name: &dyn Fn(ValueNumber) -> String) -> String {
    match argument {
        Argument::None => "none".to_owned(),
        Argument::Value(value) => name(*value),
        Argument::Int(int) => int.to_string(),
        Argument::Float(float) => literal::float(*float),
        Argument::Bool(bool) => bool.to_string(),
        Argument::Str(text) => literal::string(text),
        Argument::List(items) => {
            let items: Vec<String> = items.iter().map(|item| self::argument(item, name)).collect();
            format!("[{}]", items.join(", "))
        }
    }
}

/// Gives out SSA names, each once.
#[derive(Default)]
pub struct Names {
    taken: HashSet<String>,
}

impl Names {
    /// `%layer1.0.conv1.weight` for that name, with a number when it is taken, without what MLIR does not allow.
    pub fn of(&mut self, wish: &str) -> String {
        let mut base: String = wish
            .chars()
            .map(|c| if c.is_ascii_alphanumeric() || "_.$".contains(c) { c } else { '_' })
            .collect();
        if !base.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') {
            base.insert(0, '_');
        }
        let mut name = format!("%{base}");
        let mut again = 0;
        while !self.taken.insert(name.clone()) {
            name = format!("%{base}_{again}");
            again += 1;
        }
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rk_torch::ElementType;

    fn spelled(sizes: &[i64], strides: &[i64], storage_bytes: u64) -> String {
        let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
        tensor_type(Some(&TensorType { dtype: ElementType::F32, sizes, strides, storage_bytes }))
    }

    #[test]
    fn types_say_only_what_the_shape_does_not() {
        assert_eq!(spelled(&[8, 16], &[16, 1], 512), "tensor<8x16xf32>");
        assert_eq!(spelled(&[8, 16], &[1, 8], 512), "tensor<8x16xf32, #rk.strided<[1, 8]>>");
        assert_eq!(spelled(&[4], &[2], 64), "tensor<4xf32, #rk.strided<[2], storage 64>>");
        assert_eq!(spelled(&[4], &[1], 64), "tensor<4xf32, #rk.strided<[1], storage 64>>");
        assert_eq!(spelled(&[], &[], 4), "tensor<f32>");
        assert_eq!(spelled(&[2, 3], &[0, 0], 4), "tensor<2x3xf32, #rk.strided<[0, 0]>>");
        // The stride of a dimension of size 1 does not count.
        assert_eq!(spelled(&[8, 1, 4], &[4, 1, 1], 128), "tensor<8x1x4xf32>");
        assert_eq!(spelled(&[0, 4], &[9, 7], 0), "tensor<0x4xf32>");
        assert_eq!(tensor_type(None), "none");
    }

    #[test]
    fn names_are_legal_and_unique() {
        let mut names = Names::default();
        let given = ["x", "x", "0.weight", "a-b", "layer1.0.conv1.weight"].map(|wish| names.of(wish));
        assert_eq!(given, ["%x", "%x_0", "%_0.weight", "%a_b", "%layer1.0.conv1.weight"]);
    }
}
