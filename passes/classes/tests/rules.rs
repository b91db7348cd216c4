//! Every rule by a pair that it makes equal, and by a pair that it must not.

mod support;

use std::sync::Arc;

use rk_classes::{Arg, Call, Node, Operator, Relation, Role, Scope, Source, StepBuilder, Ty, compare, rules};
use rk_plan::{NodeId, ValueId};

/// Whether two programs are equal, and whether their texts are.
fn both(one: &str, other: &str, relation: Relation) -> (bool, bool) {
    let mut builder = StepBuilder::default();
    let groups = vec![vec![support::add(&mut builder, 0, one)], vec![support::add(&mut builder, 1, other)]];
    let found = compare(&builder.finish(), &groups, relation, Scope::Block);
    (found[0].class == found[1].class, found[0].spelling == found[1].spelling)
}

#[track_caller]
fn equal(rule: &str, one: &str, other: &str) {
    assert!(rules::SAME_BITS.iter().any(|known| known.name == rule), "there is no rule {rule}");
    assert_eq!(both(one, other, Relation::SameBits), (true, false), "rule {rule}: (equal, by text)");
}

#[track_caller]
fn differ(one: &str, other: &str) {
    assert_eq!(both(one, other, Relation::SameBits), (false, false), "(equal, by text)");
}

#[test]
fn names_and_the_order_of_unrelated_parameters_do_not_matter() {
    let one = "x: f32[4,8]\n w: parameter f32[8,8]\n b: parameter f32[8]\n y = addmm.default(b, x, w, 1, 1) f32[4,8]\n return y";
    let other = "bias: parameter f32[8]\n weight: parameter f32[8,8]\n h: f32[4,8]\n y = addmm.default(bias, h, weight, 1, 1) f32[4,8]\n return y";
    assert_eq!(both(one, other, Relation::SameBits), (true, false));
    let renamed = one.replace('x', "hidden").replace("w:", "v:").replace(", w,", ", v,");
    assert_eq!(both(one, &renamed, Relation::SameBits), (true, true));
}

#[test]
fn commute() {
    let add = |args: &str, ty: &str| {
        format!("x, y: {ty}\n n = neg.default(x) {ty}\n z = add.Tensor({args}) {ty}\n return z\n")
    };
    equal("commute", &add("n, y, 1", "f32[4,8]"), &add("y, n, 1", "f32[4,8]"));
    equal("commute", &add("n, y, 1", "bf16[4,8]"), &add("y, n, 1", "bf16[4,8]"));
    // Residual sums: x + f(x) against f(x) + x.
    equal("commute", &add("x, n, 1", "f32[4]"), &add("n, x, 1", "f32[4]"));
    differ(&add("n, y, 2", "f32[4,8]"), &add("y, n, 2", "f32[4,8]"));
    differ(&add("n, y, 1", "complex<f32>[4]"), &add("y, n, 1", "complex<f32>[4]"));
    let half = |args| {
        format!(
            "x: bf16[4]\n s: bf16[]\n n = neg.default(x) bf16[4]\n z = mul.Tensor({args}) bf16[4]\n return z"
        )
    };
    differ(&half("n, s"), &half("s, n"));
    let sub = |args| {
        format!("x, y: f32[4]\n n = neg.default(x) f32[4]\n z = sub.Tensor({args}, 1) f32[4]\n return z")
    };
    differ(&sub("n, y"), &sub("y, n"));
    let max = |args| {
        format!("x, y: f32[4]\n n = neg.default(x) f32[4]\n z = maximum.default({args}) f32[4]\n return z")
    };
    differ(&max("n, y"), &max("y, n"));
    // In place, the first operand is the one that is written.
    let in_place = |args| {
        format!(
            "x, y: f32[4]\n n = neg.default(x) f32[4]\n m = exp.default(y) f32[4]\n z = add_.Tensor({args}, 1) writes 0 view f32[4]\n return z"
        )
    };
    differ(&in_place("n, m"), &in_place("m, n"));
}

#[test]
fn views() {
    let read = |views: &str| format!("x: f32[4,6]\n {views}\n y = neg.default(v) f32[4,6]\n return y");
    let twice = "t = t.default(x) view f32[6,4]{1,6}\n v = transpose.int(t, 0, 1) view f32[4,6]";
    equal("view-of-view", &read(twice), &read("v = view.default(x, [4, 6]) view f32[4,6]"));
    equal("view-of-view", &read(twice), "x: f32[4,6]\n y = neg.default(x) f32[4,6]\n return y");
    let columns = |first: &str, second: &str| {
        format!(
            "x: f32[4,6]\n a = slice.Tensor(x, {first}, 1) view f32[4,4]{{6,1}}\n \
             b = slice.Tensor(a, {second}, 1) view f32[4,2]{{6,1}}\n y = neg.default(b) f32[4,2]\n return y"
        )
    };
    let one = "x: f32[4,6]\n b = slice.Tensor(x, -1, 3, 5, 1) view f32[4,2]{6,1}\n y = neg.default(b) f32[4,2]\n return y";
    equal("view-normal-form", &columns("1, 2, 6", "1, 1, 3"), one);
    equal("view-normal-form", &columns("1, 1, 5", "1, 2, 4"), &columns("1, 2, 6", "1, 1, 3"));
    differ(&columns("1, 2, 6", "1, 2, 4"), one);
    let split = "x: f32[4,6]\n a, b = split.Tensor(x, 3, 1) view f32[4,3]{6,1} f32[4,3]{6,1}\n y = neg.default(b) f32[4,3]\n return y";
    let half = |start| {
        format!(
            "x: f32[4,6]\n b = slice.Tensor(x, 1, {start}, 6, 1) view f32[4,3]{{6,1}}\n y = neg.default(b) f32[4,3]\n return y"
        )
    };
    // The second result of split shares storage with the operand too.
    let split = split.replace("f32[4,3]{6,1} f32[4,3]{6,1}", "f32[4,3]{6,1} view f32[4,3]{6,1}");
    equal("view-normal-form", &split, &half(3));
    differ(&split, &half(2));
    // Same elements, other strides: another kernel may run.
    differ(
        &read("v = transpose.int(x, 0, 1) view f32[4,6]{1,4}"),
        &read("v = view.default(x, [4, 6]) view f32[4,6]"),
    );
}

#[test]
fn copies() {
    let of_fresh = |copy: &str| {
        format!("x: f32[4]\n n = neg.default(x) f32[4]\n {copy}\n y = exp.default(c) f32[4]\n return y")
    };
    equal(
        "copy-of-fresh",
        &of_fresh("c = clone.default(n, 0) f32[4]"),
        "x: f32[4]\n n = neg.default(x) f32[4]\n y = exp.default(n) f32[4]\n return y",
    );
    differ(
        "x: f32[4]\n c = clone.default(x, 0) f32[4]\n return c",
        "x: f32[4]\n c = view.default(x, [4]) view f32[4]\n return c",
    );
    let strided = "x: f32[4,6]\n n = neg.default(x) f32[4,6]\n t = t.default(n) view f32[6,4]{1,6}\n";
    // A copy that changes the strides is no identity, and is how reshape copies.
    differ(
        &format!("{strided} c = clone.default(t, 0) f32[6,4]\n y = exp.default(c) f32[6,4]\n return y"),
        &format!("{strided} y = exp.default(t) f32[6,4]\n return y"),
    );
    equal(
        "reshape-is-view-of-copy",
        &format!("{strided} r = reshape.default(t, [24]) f32[24]\n return r"),
        &format!(
            "{strided} c = clone.default(t, 0) f32[6,4]\n v = _unsafe_view.default(c, [24]) view f32[24]\n return v"
        ),
    );
    equal(
        "reshape-is-view-of-copy",
        &format!("{strided} c = contiguous.default(t, 0) f32[6,4]\n return c"),
        &format!("{strided} c = clone.default(t, 0) f32[6,4]\n return c"),
    );
    differ(
        &format!("{strided} c = contiguous.default(t, 2) f32[6,4]\n return c"),
        &format!("{strided} c = clone.default(t, 0) f32[6,4]\n return c"),
    );
}

#[test]
fn dropout_off() {
    let dropout = |args| {
        format!("x: f32[4]\n d = dropout.default(x, {args}) f32[4]\n y = neg.default(d) f32[4]\n return y")
    };
    let without = "x: f32[4]\n y = neg.default(x) f32[4]\n return y";
    equal("dropout-off", &dropout("0.0, true"), without);
    equal("dropout-off", &dropout("0.5, false"), without);
    differ(&dropout("0.5, true"), without);
    differ(&dropout("0.5, true"), &dropout("0.25, true"));
}

#[test]
fn linear() {
    let weights = "x: f32[4,6]\n w: parameter f32[8,6]\n b: parameter f32[8]\n";
    let spelled = |call: &str| format!("{weights} y = {call} f32[4,8]\n return y");
    let transposed = format!(
        "{weights} t = t.default(w) view f32[6,8]{{1,6}}\n y = addmm.default(b, x, t, 1, 1) f32[4,8]\n return y"
    );
    equal("linear", &spelled("linear.default(x, w, b)"), &transposed);
    let mm = transposed.replace("addmm.default(b, x, t, 1, 1)", "mm.default(x, t)");
    equal("linear", &spelled("linear.default(x, w)"), &mm);
    equal("linear", &mm.replace("mm.default", "matmul.default"), &mm);
    // Two kernels, and the bias is added to the whole sum instead of to a partial one.
    let sum = mm.replace("return y", "z = add.Tensor(y, b, 1) f32[4,8]\n return z");
    differ(&transposed, &sum);
    differ(&spelled("linear.default(x, w, b)"), &transposed.replace("1, 1)", "1, 2)"));
    let batched = "x: f32[2,4,6]\n w: parameter f32[8,6]\n y = linear.default(x, w) f32[2,4,8]\n return y";
    differ(batched, &mm);
}

#[test]
fn dimensions_and_packing() {
    let softmax = |dim| format!("x: f32[4,6]\n y = _softmax.default(x, {dim}, false) f32[4,6]\n return y");
    equal("wrap-dim", &softmax(-1), &softmax(1));
    differ(&softmax(-1), &softmax(0));
    let sum = |dims| format!("x: f32[4,6]\n y = sum.dim_IntList(x, {dims}, true, none) f32[1,6]\n return y");
    equal("wrap-dim", &sum("[-2]"), &sum("[0]"));
    let copy = "x: f32[4]\n n = neg.default(x) f32[4]\n c = clone.default(n, 0) f32[4]\n return c";
    equal("pack", "x: f32[4]\n n = neg.default(x) f32[4]\n c = cat.default([n], 0) f32[4]\n return c", copy);
    let stack = |dim| format!("x, y: f32[4]\n s = stack.default([x, y], {dim}) f32[2,4]\n return s");
    let cat = "x, y: f32[4]\n a = unsqueeze.default(x, 0) view f32[1,4]\n b = unsqueeze.default(y, 0) view f32[1,4]\n s = cat.default([a, b], 0) f32[2,4]\n return s";
    equal("pack", &stack(0), cat);
    equal("pack", &stack(-2), cat);
    differ(
        "x, y: f32[4]\n n = neg.default(x) f32[4]\n s = cat.default([n, y], 0) f32[8]\n return s",
        "x, y: f32[4]\n n = neg.default(x) f32[4]\n s = cat.default([y, n], 0) f32[8]\n return s",
    );
}

#[test]
fn draws_are_never_one_value() {
    let draw = "b = bernoulli.p(x, 0.5) random f32[4]\n c = bernoulli.p(x, 0.5) random f32[4]\n";
    let two = format!("x: f32[4]\n {draw} y = add.Tensor(b, c, 1) f32[4]\n return y");
    let one = format!("x: f32[4]\n {draw} y = add.Tensor(b, b, 1) f32[4]\n return y");
    differ(&two, &one);
    // The same draws in the same order are the same bits.
    assert_eq!(both(&two, &two, Relation::SameBits), (true, true));
    equal("commute", &two, &two.replace("add.Tensor(b, c", "add.Tensor(c, b"));
    // A draw that nobody reads still advances the generator.
    differ(
        "x: f32[4]\n b = bernoulli.p(x, 0.5) random f32[4]\n y = neg.default(x) f32[4]\n return y",
        "x: f32[4]\n y = neg.default(x) f32[4]\n return y",
    );
}

/// Two draws and their sum, which is a backward node as the second draw may be.
fn two_draws(builder: &mut StepBuilder, second_is_backward: bool) {
    let ty = Ty::dense("f32", 4, &[4]);
    let x = builder.resident(ty.clone(), Source::Input);
    let mut node = |name: &str, args: Vec<Arg>, inputs: &[ValueId], backward: bool| {
        let random = name == "bernoulli.p";
        let results = vec![Arc::new(ty.clone())];
        let name = format!("aten.{name}");
        let operator = Operator { name, args, results, random, ..Operator::default() };
        let calls = vec![Call { operator, operands: (0..inputs.len()).collect() }];
        let (inputs, yields) = (inputs.to_vec(), vec![inputs.len()]);
        builder.node(Node { backward, inputs, calls, yields, ..Node::default() }).expect("inputs come first")
            [0]
    };
    let p = vec![Arg::Value, Arg::Float(0.5f64.to_bits())];
    let one = node("bernoulli.p", p.clone(), &[x], false);
    let other = node("bernoulli.p", p, &[x], second_is_backward);
    let sum = node("add.Tensor", vec![Arg::Value, Arg::Value, Arg::Int(1)], &[one, other], true);
    builder.returned(sum, Role::Output);
}

#[test]
fn a_draw_of_the_backward_pass_is_not_one_of_the_forward_pass() {
    let classes = |second_is_backward: [bool; 2]| {
        let mut builder = StepBuilder::default();
        second_is_backward.into_iter().for_each(|backward| two_draws(&mut builder, backward));
        let group = |first: usize| (first..first + 3).map(NodeId::from_index).collect();
        let found = compare(&builder.finish(), &[group(0), group(3)], Relation::SameBits, Scope::Block);
        (found[0].class, found[1].class)
    };
    // Between the passes of one block, other blocks draw.
    let (one, other) = classes([false, true]);
    assert_ne!(one, other);
    let (one, other) = classes([true, true]);
    assert_eq!(one, other);
}

#[test]
fn writes_are_followed() {
    let program = |order: &str| {
        format!(
            "x: f32[4]\n s = neg.default(x) f32[4]\n v = view.default(s, [4]) view f32[4]\n {order}\n return y"
        )
    };
    let before = "y = exp.default(v) f32[4]\n r = relu_.default(s) writes 0 view f32[4]";
    let after = "r = relu_.default(s) writes 0 view f32[4]\n y = exp.default(v) f32[4]";
    differ(&program(before), &program(after));
    // State of the model that a block updates leaves it.
    let counted = |times: &str| {
        format!(
            "n: buffer i64[]\n one: constant 0 i64[]\n x: f32[4]\n y = neg.default(x) f32[4]\n {times} return y"
        )
    };
    let add = "a = add_.Tensor(n, one, 1) writes 0 view i64[]\n";
    differ(&counted(add), &counted(""));
    differ(&counted(add), &counted(&add.repeat(2)));
}

#[test]
fn what_an_argument_is_counts() {
    let neg = |what| format!("x: {what}\n y = neg.default(x) f32[4]\n return y");
    differ(&neg("parameter f32[4]"), &neg("frozen f32[4]"));
    differ(&neg("parameter f32[4]"), &neg("buffer f32[4]"));
    differ(&neg("f32[4]"), &neg("f64[4]"));
    differ(&neg("f32[4]"), &neg("f32[4]{2}"));
    differ(&neg("constant 0 f32[4]"), &neg("constant 1 f32[4]"));
}

#[test]
fn the_same_cost_is_not_the_same_bits() {
    let sums = |text| {
        format!("x, y, z: f32[4]\n a = neg.default(x) f32[4]\n b = exp.default(y) f32[4]\n {text}\n return s")
    };
    let left = sums("p = add.Tensor(a, b, 1) f32[4]\n s = add.Tensor(p, z, 1) f32[4]");
    let right = sums("p = add.Tensor(b, z, 1) f32[4]\n s = add.Tensor(a, p, 1) f32[4]");
    differ(&left, &right);
    assert_eq!(both(&left, &right, Relation::SameCost), (true, false));
    // A sum of many terms has exponentially many orders.
    let terms: Vec<String> = (0..40).map(|at| format!("x{at}")).collect();
    let left: String = (1..40).fold("s0 = neg.default(x0) f32[4]\n".into(), |text, at| {
        text + &format!("s{at} = add.Tensor(s{}, x{at}, 1) f32[4]\n", at - 1)
    });
    let right: String = (1..40).fold("s0 = neg.default(x0) f32[4]\n".into(), |text, at| {
        text + &format!("s{at} = add.Tensor(x{}, s{}, 1) f32[4]\n", 40 - at, at - 1)
    });
    let sum = |text: &str| format!("{}: f32[4]\n {text} return s39", terms.join(", "));
    assert_eq!(both(&sum(&left), &sum(&right), Relation::SameCost), (true, false));
    let without = sum(&right).replace("add.Tensor(x7, s32, 1)", "add.Tensor(x6, s32, 1)");
    assert_eq!(both(&sum(&left), &without, Relation::SameCost), (false, false));
    let scaled = |by| format!("x: f32[4]\n y = mul.Scalar(x, {by}) f32[4]\n return y");
    differ(&scaled("0.5"), &scaled("0.25"));
    assert!(both(&scaled("0.5"), &scaled("0.25"), Relation::SameCost).0);
    // An exponent picks the loop.
    let raised = |to| format!("x: f32[4]\n y = pow.Tensor_Scalar(x, {to}) f32[4]\n return y");
    assert!(!both(&raised("2.0"), &raised("3.0"), Relation::SameCost).0);
    // A copy takes time, whatever it copies.
    let copied = "x: f32[4]\n n = neg.default(x) f32[4]\n c = clone.default(n, 0) f32[4]\n return c";
    let plain = "x: f32[4]\n n = neg.default(x) f32[4]\n return n";
    assert!(!both(copied, plain, Relation::SameCost).0);
    let rows = |size| format!("x: f32[{size}]\n y = neg.default(x) f32[{size}]\n return y");
    assert!(!both(&rows(4), &rows(5), Relation::SameCost).0);
}

#[test]
fn what_is_computed_twice_takes_twice_the_time() {
    let product = |text: &str| format!("x: f32[4]\n {text}\n return y");
    let once = product("a = exp.default(x) f32[4]\n y = mul.Tensor(a, a) f32[4]");
    let twice =
        product("a = exp.default(x) f32[4]\n b = exp.default(x) f32[4]\n y = mul.Tensor(a, b) f32[4]");
    assert_eq!(both(&once, &twice, Relation::SameBits), (true, false));
    assert_eq!(both(&once, &twice, Relation::SameCost), (false, false));
    // a + b is there anyway, or is added up again.
    let sums =
        |text: &str| format!("a, b, c: f32[4]\n p = add.Tensor(a, b, 1) f32[4]\n {text}\n return p, s");
    let shared = sums("s = add.Tensor(p, c, 1) f32[4]");
    let again = sums("q = add.Tensor(b, c, 1) f32[4]\n s = add.Tensor(a, q, 1) f32[4]");
    assert_eq!(both(&shared, &again, Relation::SameCost), (false, false));
    let as_dear = sums("s = add.Tensor(c, p, 1) f32[4]");
    assert_eq!(both(&shared, &as_dear, Relation::SameCost), (true, false));
}

#[test]
fn cat_passes_over_empty_vectors_when_it_counts_dimensions() {
    let cat =
        |dim| format!("e: f32[0]\n x, y: f32[2,2]\n c = cat.default([e, x, y], {dim}) f32[2,4]\n return c");
    differ(&cat(-1), &cat(0));
}
