//! Operators that read an operand for its shape only, made to read nothing.
//!
//! `empty_like(x)` does not need `x`, only its sizes and strides, which are static here. Without this, a dropout mask could be
//! recomputed only while the activation that it masks is in memory.
//! rk-GB and Rockmate call such operands *fake* (Zhao et al., Rockmate, ICML 2023).

use rk_dialect::create::AtenCall;
use rk_dialect::{Arg, Tensor, Type};

/// Replaces `*_like` and `new_*` calls by calls without tensor operands that make the same tensor.
pub fn without_shape_operands(call: &mut AtenCall<'_>, device: &str) {
    let Some(result) = call.results.first().copied().and_then(Tensor::of) else { return };
    let Some(dtype) = dtype_number(result.element) else { return };
    let Some(spanned) = rk_dialect::types::span(&result.shape, &result.strides) else { return };
    if result.element.element_bytes().map(|bytes| bytes * spanned) != Some(result.storage) {
        return;
    }
    let ints = |list: &[i64]| Arg::List(list.iter().map(|&size| Arg::Int(size)).collect());
    let size = ints(&result.shape);
    let device = if device == "cpu" { Arg::None } else { Arg::Str(device.to_owned()) };
    let tail = [Arg::Int(dtype), Arg::None, device, Arg::None];
    let contiguous = result.strides == rk_dialect::types::row_major(&result.shape);
    let fill = call.args.get(match call.operator.as_str() {
        "aten.full_like.default" => 1,
        _ => 2,
    });
    let (operator, mut head) = match (call.operator.as_str(), fill) {
        ("aten.empty_like.default" | "aten.new_empty_strided.default" | "aten.new_empty.default", _) => {
            ("aten.empty_strided.default", vec![size, ints(&result.strides)])
        }
        ("aten.zeros_like.default" | "aten.new_zeros.default", _) if contiguous => {
            ("aten.zeros.default", vec![size])
        }
        ("aten.ones_like.default" | "aten.new_ones.default", _) if contiguous => {
            ("aten.ones.default", vec![size])
        }
        ("aten.full_like.default" | "aten.new_full.default", Some(fill)) if contiguous => {
            ("aten.full.default", vec![size, fill.clone()])
        }
        _ => return,
    };
    head.extend(tail);
    call.operator = operator.to_owned();
    call.args = head;
    call.aliases.clear();
}

/// The number of an element type in torch (`c10::ScalarType`), as ATen operators take it.
fn dtype_number(element: Type<'_>) -> Option<i64> {
    let numbers = [
        ("ui8", 0),
        ("i8", 1),
        ("i16", 2),
        ("i32", 3),
        ("i64", 4),
        ("f16", 5),
        ("f32", 6),
        ("f64", 7),
        ("complex<f16>", 8),
        ("complex<f32>", 9),
        ("complex<f64>", 10),
        ("i1", 11),
        ("bf16", 15),
        ("f8E5M2", 23),
        ("f8E4M3FN", 24),
        ("f8E5M2FNUZ", 25),
        ("f8E4M3FNUZ", 26),
        ("ui16", 27),
        ("ui32", 28),
        ("ui64", 29),
        ("f8E8M0FNU", 44),
    ];
    let name = element.to_string();
    numbers.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}
