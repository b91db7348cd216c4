//! Operators that read an operand for its shape only, made to read nothing.
//!
//! `empty_like(x)` does not need `x`, only its sizes and strides, which are static here. Without this, a dropout mask could be
//! recomputed only while the activation that it masks is in memory.
//! rk-GB and Rockmate call such operands *fake* (Zhao et al., Rockmate, ICML 2023).

use rk_dialect::create::AtenCall;
use rk_dialect::{Arg, Tensor};

/// Replaces `*_like` and `new_*` calls by calls without tensor operands that make the same tensor.
pub fn without_shape_operands(call: &mut AtenCall<'_>, device: &str) {
    let Some(result) = call.results.first().copied().and_then(Tensor::of) else { return };
    let Some(dtype) = result.element.element_type() else { return };
    let Some(spanned) = rk_dialect::types::span(&result.shape, &result.strides) else { return };
    if result.element.element_bytes().map(|bytes| bytes * spanned) != Some(result.storage) {
        return;
    }
    let ints = |list: &[i64]| Arg::List(list.iter().map(|&size| Arg::Int(size)).collect());
    let size = ints(&result.shape);
    let device = if device == "cpu" { Arg::None } else { Arg::Str(device.to_owned()) };
    let tail = [Arg::Int(dtype.torch_code()), Arg::None, device, Arg::None];
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
