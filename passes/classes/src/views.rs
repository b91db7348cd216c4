//! Views as arithmetic: where in its operand's storage a view starts. Sizes and strides stand in its type.
//!
//! A view is a pure address computation, so two chains of views of one value are equal exactly when they start at the same
//! element and have the same type (sizes, strides, dtype, storage). That one fact replaces an algebra of pairs
//! (view of view, transpose twice, unsqueeze and squeeze, expand of expand, a slice that takes everything).
//!
//! Not here: `as_strided`, whose offset counts from the start of the storage rather than from its operand; views that change
//! the dtype; anything unknown. Those stay as they are written.

use crate::step::{Arg, Operator, Ty};

/// View operators that start at the first element of their operand, whatever their arguments.
const AT_THE_START: [&str; 19] = [
    "aten.view.default",
    "aten._unsafe_view.default",
    "aten._reshape_alias.default",
    "aten.reshape.default",
    "aten.t.default",
    "aten.transpose.int",
    "aten.permute.default",
    "aten.expand.default",
    "aten.unsqueeze.default",
    "aten.squeeze.default",
    "aten.squeeze.dim",
    "aten.squeeze.dims",
    "aten.detach.default",
    "aten.alias.default",
    "aten.contiguous.default",
    "aten.flatten.using_ints",
    "aten.unflatten.int",
    "aten.view_as.default",
    "aten.movedim.int",
];

/// View operators whose start depends on their arguments.
const ELSEWHERE: [&str; 5] = [
    "aten.slice.Tensor",
    "aten.select.int",
    "aten.split.Tensor",
    "aten.split_with_sizes.default",
    "aten.unbind.int",
];

/// Every operator that [`offset`] may know.
pub fn operators() -> impl Iterator<Item = &'static str> {
    AT_THE_START.into_iter().chain(ELSEWHERE)
}

/// How many elements after the first element of its first operand (of type `base`) a result of a view operator starts.
/// `None` when this is no view that we can place.
pub fn offset(operator: &Operator, result: usize, base: &Ty) -> Option<i64> {
    let ty = operator.results.get(result)?;
    if !operator.is_view() || operator.alias(result) != Some(0) || ty.element != base.element {
        return None;
    }
    let name = operator.name.as_str();
    if AT_THE_START.contains(&name) {
        return (result == 0).then_some(0);
    }
    let args = &operator.args;
    match name {
        "aten.slice.Tensor" => {
            let dim = dim(args.get(1), base)?;
            let start = match args.get(2)? {
                Arg::None => 0,
                Arg::Int(start) => *start,
                _ => return None,
            };
            let size = base.shape[dim];
            let start = if start < 0 { start.checked_add(size)? } else { start };
            start.clamp(0, size).checked_mul(base.strides[dim])
        }
        "aten.select.int" => {
            let dim = dim(args.get(1), base)?;
            let index = int(args.get(2))?;
            let size = base.shape[dim];
            let index = if index < 0 { index + size } else { index };
            (0..size).contains(&index).then(|| index.checked_mul(base.strides[dim]))?
        }
        "aten.split.Tensor" => {
            let dim = dim(args.get(2), base)?;
            let before = int(args.get(1))?.checked_mul(i64::try_from(result).ok()?)?;
            before.checked_mul(base.strides[dim])
        }
        "aten.split_with_sizes.default" => {
            let Some(Arg::List(sizes)) = args.get(1) else { return None };
            let dim = dim(args.get(2), base)?;
            let before: Option<i64> = sizes.iter().take(result).map(|size| int(Some(size))).sum();
            before?.checked_mul(base.strides[dim])
        }
        "aten.unbind.int" => {
            let dim = dim(args.get(1), base)?;
            i64::try_from(result).ok()?.checked_mul(base.strides[dim])
        }
        _ => None,
    }
}

fn int(arg: Option<&Arg>) -> Option<i64> {
    match arg {
        Some(Arg::Int(value)) => Some(*value),
        _ => None,
    }
}

/// A dimension as an index: ATen counts negative ones from the end.
fn dim(arg: Option<&Arg>, ty: &Ty) -> Option<usize> {
    let dim = int(arg)?;
    let rank = i64::try_from(ty.rank()).ok()?;
    let wrapped = if dim < 0 { dim + rank } else { dim };
    (0..rank).contains(&wrapped).then(|| usize::try_from(wrapped).ok())?
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn view(name: &str, args: Vec<Arg>, results: Vec<Ty>) -> Operator {
        let aliases = vec![Some(0); results.len()];
        let results = results.into_iter().map(Arc::new).collect();
        Operator { name: name.into(), args, results, aliases, ..Operator::default() }
    }

    #[test]
    fn a_slice_starts_at_its_clamped_start() {
        let base = Ty::dense("f32", 4, &[4, 6]);
        let slice = |dim, start, end| {
            let args = vec![Arg::Value, Arg::Int(dim), start, Arg::Int(end), Arg::Int(1)];
            offset(&view("aten.slice.Tensor", args, vec![base.clone()]), 0, &base)
        };
        assert_eq!(slice(1, Arg::Int(2), 6), Some(2));
        assert_eq!(slice(-1, Arg::Int(-2), 6), Some(4));
        assert_eq!(slice(0, Arg::Int(3), i64::MAX), Some(18));
        assert_eq!(slice(0, Arg::None, 4), Some(0));
        assert_eq!(slice(0, Arg::Int(99), 100), Some(24));
        assert_eq!(slice(2, Arg::Int(0), 4), None);
    }

    #[test]
    fn pieces_start_after_the_pieces_before_them() {
        let base = Ty::dense("f32", 4, &[2, 6]);
        let two = vec![base.clone(), base.clone()];
        let split = view("aten.split.Tensor", vec![Arg::Value, Arg::Int(3), Arg::Int(1)], two.clone());
        assert_eq!((offset(&split, 0, &base), offset(&split, 1, &base)), (Some(0), Some(3)));
        let sizes = Arg::List(vec![Arg::Int(2), Arg::Int(4)]);
        let split = view("aten.split_with_sizes.default", vec![Arg::Value, sizes, Arg::Int(1)], two.clone());
        assert_eq!(offset(&split, 1, &base), Some(2));
        let unbind = view("aten.unbind.int", vec![Arg::Value, Arg::Int(0)], two);
        assert_eq!(offset(&unbind, 1, &base), Some(6));
    }

    #[test]
    fn a_copy_is_not_placed() {
        let base = Ty::dense("f32", 4, &[4, 6]);
        let mut reshape = view("aten.reshape.default", vec![Arg::Value], vec![base.clone()]);
        assert_eq!(offset(&reshape, 0, &base), Some(0));
        reshape.aliases.clear();
        assert_eq!(offset(&reshape, 0, &base), None);
    }
}
