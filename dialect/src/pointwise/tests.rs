//! Bodies of nodes, read: spaces, strides, storages with several names, and what is refused. Numerics are tested in `rk-kernels`.

use super::{Element, Elementwise, Formula, Source};
use crate::Context;
use crate::ops;

/// The only node of a module, read; `Err` is the reason why it is not pointwise.
fn read(node: &str) -> Result<Elementwise, String> {
    let context = Context::new();
    let module = context.parse(node, "test.mlir").expect("the module parses");
    let nodes = ops::nodes(module.op());
    Elementwise::of(nodes[0])
}

#[test]
fn a_chain_over_a_broadcast_bias_is_two_dimensions() {
    let body = read(
        r#"rk.node @n { ^bb0(%x: tensor<4x8x16xf32>, %b: tensor<16xf32>):
          %s = rk.aten "aten.add.Tensor"(%x, %b, 1) : (tensor<4x8x16xf32>, tensor<16xf32>) -> tensor<4x8x16xf32>
          %r = rk.aten "aten.relu_.default"(%s) writes(0) aliases(0) : (tensor<4x8x16xf32>) -> tensor<4x8x16xf32>
          rk.yield %s : tensor<4x8x16xf32> }"#,
    );
    let body = body.expect("pointwise");
    assert_eq!(body.shape, [32, 16]);
    let strides: Vec<_> = body.reads.iter().map(|read| (read.input, read.strides.clone())).collect();
    assert_eq!(strides, [(0, vec![16, 1]), (1, vec![0, 1])]);
    let formulas: Vec<_> = body.steps.iter().map(|step| step.formula).collect();
    assert_eq!(formulas, [Formula::Add { alpha: 1.0 }, Formula::Relu]);
    // What was written in place is what is yielded.
    assert_eq!(body.writes[0].source, Source::Step(1));
}

#[test]
fn every_name_of_a_storage_has_its_latest_content() {
    // The second operator writes through the first name, and the yield reads through another.
    let body = read(
        r#"rk.node @n overwrites(0) { ^bb0(%x: tensor<8xf32>):
          %s = rk.aten "aten.neg_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
          %r = rk.aten "aten.relu_.default"(%x) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
          %t = rk.aten "aten.abs_.default"(%s) writes(0) aliases(0) : (tensor<8xf32>) -> tensor<8xf32>
          rk.yield %x : tensor<8xf32> }"#,
    );
    let args: Vec<_> = body.expect("pointwise").steps.iter().map(|step| step.args[0]).collect();
    assert_eq!(args, [Source::Read(0), Source::Step(0), Source::Step(1)]);
}

#[test]
fn views_of_inputs_become_strides_and_offsets() {
    let body = read(
        r#"rk.node @n { ^bb0(%x: tensor<6x4xf32>, %y: tensor<4x2xf32>):
          %s = rk.aten "aten.slice.Tensor"(%x, 0, 2, 4, 1) aliases(0) : (tensor<6x4xf32>) -> tensor<2x4xf32>
          %t = rk.aten "aten.t.default"(%y) aliases(0) : (tensor<4x2xf32>) -> tensor<2x4xf32, #rk.strided<[1, 2]>>
          %r = rk.aten "aten.mul.Tensor"(%s, %t) : (tensor<2x4xf32>, tensor<2x4xf32, #rk.strided<[1, 2]>>) -> tensor<2x4xf32>
          rk.yield %r : tensor<2x4xf32> }"#,
    );
    let body = body.expect("pointwise");
    let read: Vec<_> = body.reads.iter().map(|read| (read.offset, read.strides.clone())).collect();
    assert_eq!(read, [(8, vec![4, 1]), (0, vec![1, 2])]);
}

#[test]
fn a_view_between_steps_needs_one_line_of_elements() {
    let body = |ty: &str| {
        read(&format!(
            r#"rk.node @n {{ ^bb0(%x: {ty}):
          %a = rk.aten "aten.neg.default"(%x) : ({ty}) -> tensor<4x6xf32>
          %v = rk.aten "aten.view.default"(%a, [24]) aliases(0) : (tensor<4x6xf32>) -> tensor<24xf32>
          %r = rk.aten "aten.abs.default"(%v) : (tensor<24xf32>) -> tensor<24xf32>
          rk.yield %r : tensor<24xf32> }}"#
        ))
    };
    assert_eq!(body("tensor<4x6xf32>").expect("pointwise").shape, [24]);
    let refused = body("tensor<4x6xf32, #rk.strided<[1, 4]>>");
    assert_eq!(refused.expect_err("columns first"), "its steps have different shapes");
}

#[test]
fn what_is_overwritten_is_read_in_place_only() {
    let refused = read(
        r#"rk.node @n overwrites(0) { ^bb0(%x: tensor<4x4xf32>):
          %t = rk.aten "aten.t.default"(%x) aliases(0) : (tensor<4x4xf32>) -> tensor<4x4xf32, #rk.strided<[1, 4]>>
          %c = rk.aten "aten.neg.default"(%t) : (tensor<4x4xf32, #rk.strided<[1, 4]>>) -> tensor<4x4xf32>
          %r = rk.aten "aten.add_.Tensor"(%x, %c, 1) writes(0) aliases(0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
          rk.yield %x : tensor<4x4xf32> }"#,
    );
    assert!(refused.expect_err("a transposed read").contains("has views"));
}

#[test]
fn numbers_types_and_operators_outside_of_the_table_are_refused() {
    for (call, reason) in [
        (r#""aten.mm.default"(%x, %x)"#, "'aten.mm.default' is not pointwise on these types"),
        (r#""aten.pow.Tensor_Scalar"(%x, 2.5)"#, "'aten.pow.Tensor_Scalar' is not pointwise on these types"),
        (
            r#""aten.add.Tensor"(%x, %x, 9007199254740993)"#,
            "'aten.add.Tensor' is not pointwise on these types",
        ),
    ] {
        let operands = call.matches("%x").count();
        let types = vec!["tensor<4x4xf32>"; operands].join(", ");
        let node = format!(
            "rk.node @n {{ ^bb0(%x: tensor<4x4xf32>): %r = rk.aten {call} : ({types}) -> tensor<4x4xf32>
             rk.yield %r : tensor<4x4xf32> }}"
        );
        assert_eq!(read(&node).expect_err(call), reason);
    }
}

#[test]
fn a_sum_over_trailing_dimensions_keeps_them_apart() {
    let body = read(
        r#"rk.node @n { ^bb0(%x: tensor<4x6x8x16xf32>, %b: tensor<16xf32>):
          %p = rk.aten "aten.mul.Tensor"(%x, %b) : (tensor<4x6x8x16xf32>, tensor<16xf32>) -> tensor<4x6x8x16xf32>
          %s = rk.aten "aten.mean.dim"(%p, [-1, 2], true, none) : (tensor<4x6x8x16xf32>) -> tensor<4x6x1x1xf32>
          rk.yield %s : tensor<4x6x1x1xf32> }"#,
    );
    let body = body.expect("pointwise, with a sum");
    assert_eq!(body.shape, [24, 8, 16]);
    let reduction = body.reduction.expect("a mean");
    assert_eq!((reduction.dims, reduction.divisor), (2, Some(128.0)));
    let strides: Vec<_> = body.reads.iter().map(|read| read.strides.clone()).collect();
    assert_eq!(strides, [[128, 16, 1], [0, 0, 1]]);
    assert_eq!((body.writes[0].strides.as_slice(), body.is_exact()), ([1, 0, 0].as_slice(), false));
}

#[test]
fn a_sum_over_leading_dimensions_puts_them_inside() {
    let body = read(
        r#"rk.node @n { ^bb0(%x: tensor<4x6x16xf32>): %s = rk.aten "aten.sum.dim_IntList"(%x, [0, 1], true, none) : (tensor<4x6x16xf32>) -> tensor<1x1x16xf32>
          rk.yield %s : tensor<1x1x16xf32> }"#,
    );
    let body = body.expect("a sum");
    assert_eq!(
        (body.shape.as_slice(), body.reads[0].strides.as_slice()),
        ([16, 24].as_slice(), [1, 16].as_slice())
    );
    assert_eq!(body.writes[0].strides, [1, 0]);
}

#[test]
fn rows_become_the_innermost_dimension() {
    let softmax = |dim: i64, again: &str, last: &str| {
        read(&format!(
            r#"rk.node @n {{ ^bb0(%x: tensor<4x6x16xf32, #rk.strided<[1, 64, 4]>>):
              %y = rk.aten "aten._softmax.default"(%x, {dim}, false) : (tensor<4x6x16xf32, #rk.strided<[1, 64, 4]>>) -> tensor<4x6x16xf32>
              {again} rk.yield {last} : tensor<4x6x16xf32> }}"#
        ))
    };
    let body = softmax(-1, "", "%y").expect("rows");
    assert_eq!((body.shape.as_slice(), body.row), ([4, 6, 16].as_slice(), Some(1)));
    assert_eq!(body.reads[0].strides, [1, 64, 4]);
    let of_rows = body.of_rows().into_iter().filter(|of_row| *of_row).count();
    assert_eq!((of_rows, body.is_exact()), (2, false), "a maximum and a sum");
    let across = softmax(1, "", "%y").expect("rows");
    assert_eq!((across.shape.as_slice(), across.row), ([4, 16, 6].as_slice(), Some(1)));
    assert_eq!(across.reads[0].strides, [1, 4, 64]);
    let again =
        r#"%z = rk.aten "aten._softmax.default"(%y, 2, false) : (tensor<4x6x16xf32>) -> tensor<4x6x16xf32>"#;
    assert!(softmax(2, again, "%z").expect_err("twice").contains("second call on rows"));
}

#[test]
fn other_sums_are_no_kernels() {
    let refused = |call: &str, rest: &str| {
        let node = format!(
            r#"rk.node @n {{ ^bb0(%x: tensor<4x4xf32>, %i: tensor<4x4xi64>, %h: tensor<4x4xf16>): %s = rk.aten {call} {rest} }}"#
        );
        read(&node).expect_err("refused")
    };
    let end = "rk.yield %s : tensor<4xf32>";
    let wide = r#""aten.sum.dim_IntList"(%h, [1], false, 6) : (tensor<4x4xf16>) -> tensor<4xf32>"#;
    assert!(refused(wide, end).contains("not pointwise"));
    let integers = r#""aten.sum.dim_IntList"(%i, [1], false, none) : (tensor<4x4xi64>) -> tensor<4xi64>"#;
    assert!(refused(integers, "rk.yield %s : tensor<4xi64>").contains("not pointwise"));
    let sum = r#""aten.sum.dim_IntList"(%x, [1], false, none) : (tensor<4x4xf32>) -> tensor<4xf32>"#;
    let more = r#"%n = rk.aten "aten.neg.default"(%s) : (tensor<4xf32>) -> tensor<4xf32> rk.yield %n : tensor<4xf32>"#;
    assert!(refused(sum, more).contains("reads a sum"));
    let both = "rk.yield %s, %x : tensor<4xf32>, tensor<4x4xf32>";
    assert!(refused(sum, both).contains("more than a sum"));
}

#[test]
fn a_layer_norm_writes_one_mean_per_row() {
    let norm = |ty: &str, behind: &str, yielded: &str, types: &str| {
        read(&format!(
            r#"rk.node @n {{ ^bb0(%x: tensor<4x6x5x{ty}>, %w: tensor<6x5x{ty}>):
              %y:3 = rk.aten "aten.native_layer_norm.default"(%x, [6, 5], %w, none, 1.0e-5) : (tensor<4x6x5x{ty}>, tensor<6x5x{ty}>)
                -> (tensor<4x6x5x{ty}>, tensor<4x1x1x{ty}>, tensor<4x1x1x{ty}>)
              {behind} rk.yield {yielded} : {types} }}"#
        ))
    };
    let (whole, row) = ("tensor<4x6x5xf32>", "tensor<4x1x1xf32>");
    let body = norm("f32", "", "%y#0, %y#1, %y#2", &format!("{whole}, {row}, {row}")).expect("rows");
    assert_eq!((body.shape.as_slice(), body.row), ([4, 30].as_slice(), Some(1)));
    let strides: Vec<_> = body.writes.iter().map(|write| write.strides.as_slice()).collect();
    assert_eq!(strides, [[30, 1], [1, 0], [1, 0]]);
    assert_eq!((body.reads[1].strides.as_slice(), body.is_exact()), ([0, 1].as_slice(), false));
    let behind = format!("%p = rk.aten \"aten.mul.Tensor\"(%y#0, %y#2) : ({whole}, {row}) -> {whole}");
    let refused = norm("f32", &behind, "%p", whole).expect_err("one number per row");
    assert!(refused.contains("reads what a row has one of"), "{refused}");
    let half = norm("f16", "", "%y#0", "tensor<4x6x5xf16>").expect("rows");
    assert_eq!((half.reads[0].element, half.steps[0].element), (Element::F16, Element::F32));
    assert!(norm("i64", "", "%y#0", "tensor<4x6x5xi64>").expect_err("i64").contains("not pointwise"));
}

#[test]
fn a_layer_norms_gradients_of_weight_and_bias_are_no_kernel() {
    let gradient = |mask: &str| {
        let (t, row, w) = ("tensor<4x16xf32>", "tensor<4x1xf32>", "tensor<16xf32>");
        read(&format!(
            r#"rk.node @n {{ ^bb0(%g: {t}, %x: {t}, %m: {row}, %r: {row}, %w: {w}):
              %y:3 = rk.aten "aten.native_layer_norm_backward.default"(%g, %x, [16], %m, %r, %w, none, [{mask}]) : ({t}, {t}, {row}, {row}, {w})
                -> ({t}, {w}, {w})
              rk.yield %y#0 : {t} }}"#
        ))
    };
    let body = gradient("true, false, false").expect("rows");
    let strides: Vec<_> = body.reads.iter().map(|read| read.strides.as_slice()).collect();
    assert_eq!(strides, [[16, 1], [16, 1], [1, 0], [1, 0], [0, 1]]);
    assert!(gradient("true, true, true").expect_err("sums").contains("gradients of weight or bias"));
}
