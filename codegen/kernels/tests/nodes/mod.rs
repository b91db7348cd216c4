//! The nodes that PTX is made of in the tests, and their machine code for the CPU.

#![allow(dead_code, reason = "every test uses a part of it")]

use std::ffi::c_void;

use rk_dialect::pointwise::Elementwise;
use rk_dialect::{Context, ops};
use rk_kernels::Signature;
use rk_kernels::cpu::{Request, library};
use rk_kernels::cuda::{Chip, Ptx, calls_libdevice, ptx};

use crate::site;

type Kernel = unsafe extern "C" fn(*const *mut c_void, i64, i64);

pub fn bodies(text: &str) -> Vec<Elementwise> {
    let context = Context::new();
    let module = context.parse(text, "test.mlir").expect("the module parses");
    ops::nodes(module.op()).into_iter().map(|node| Elementwise::of(node).expect("pointwise")).collect()
}

/// A library in memory with kernels `k0`, `k1`, ...
pub fn loaded(bodies: &[(&Elementwise, Option<usize>)]) -> libloading::Library {
    let requests: Vec<Request<'_>> = (bodies.iter().enumerate())
        .map(|(index, (body, overwrites))| Request {
            symbol: format!("k{index}"),
            body,
            overwrites: *overwrites,
        })
        .collect();
    let bytes = library(&requests).expect("a library");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("k.so");
    std::fs::write(&path, bytes).expect("written");
    // SAFETY: the code has no initializers.
    unsafe { libloading::Library::new(path) }.expect("it loads without MLIR or LLVM")
}

/// Runs a kernel in two parts, as two threads would.
pub fn run(library: &libloading::Library, symbol: &str, signature: &Signature, buffers: &[*mut c_void]) {
    // SAFETY: the buffers are those of the signature.
    unsafe {
        let kernel = library.get::<Kernel>(symbol.as_bytes()).expect("the symbol is exported");
        let half = signature.rows / 2;
        kernel(buffers.as_ptr(), 0, half);
        kernel(buffers.as_ptr(), half, signature.rows);
    }
}

/// The PTX of a kernel, with libdevice if it needs that.
pub fn made(body: &Elementwise, overwrites: Option<usize>, symbol: &str, chip: Chip) -> Ptx {
    let libdevice = site::nvidia().map(|nvidia| nvidia.join("lib/libdevice.10.bc"));
    let libdevice = libdevice.filter(|_| calls_libdevice(body));
    ptx(body, overwrites, symbol, chip, libdevice.as_deref()).expect("PTX")
}

pub const CHAIN: &str = r#"rk.node @chain overwrites(0) { ^bb0(%x: tensor<37x19xf32>, %b: tensor<19xf32>):
  %s = rk.aten "aten.add_.Tensor"(%x, %b, 1) writes(0) aliases(0) : (tensor<37x19xf32>, tensor<19xf32>) -> tensor<37x19xf32>
  %m = rk.aten "aten.mul_.Tensor"(%s, 0.1) writes(0) aliases(0) : (tensor<37x19xf32>) -> tensor<37x19xf32>
  %r = rk.aten "aten.relu_.default"(%m) writes(0) aliases(0) : (tensor<37x19xf32>) -> tensor<37x19xf32>
  rk.yield %x : tensor<37x19xf32> }"#;

/// Every formula, layout and element type of the table, in nodes that PTX is made of.
pub fn test_set() -> Vec<Elementwise> {
    let mut text = CHAIN.to_owned();
    let mut add = |types: &str, body: &str| {
        let number = text.matches("rk.node").count();
        text.push_str(&format!("\nrk.node @n{number} {{ ^bb0({types}): {body} }}"));
    };
    for ty in ["f32", "f64", "bf16", "f16"] {
        let t = format!("tensor<33x65x{ty}>");
        for (call, operands) in [
            ("add.Tensor\"(%x, %y, 1)", 2),
            ("mul.Tensor\"(%x, %y)", 2),
            ("div.Tensor\"(%x, %y)", 2),
            ("neg.default\"(%x)", 1),
            ("abs.default\"(%x)", 1),
            ("relu.default\"(%x)", 1),
            ("threshold_backward.default\"(%x, %y, 0)", 2),
        ] {
            let types = vec![t.as_str(); operands].join(", ");
            let body = format!("%r = rk.aten \"aten.{call} : ({types}) -> {t} rk.yield %r : {t}");
            add(&format!("%x: {t}, %y: {t}"), &body);
        }
        if ["f32", "f64"].contains(&ty) {
            for call in [
                "rsqrt.default\"(%x)",
                "sqrt.default\"(%x)",
                "exp.default\"(%x)",
                "add.Scalar\"(%x, 2.5, 0.3)",
            ] {
                let body = format!("%r = rk.aten \"aten.{call} : ({t}) -> {t} rk.yield %r : {t}");
                add(&format!("%x: {t}"), &body);
            }
        }
        let wide = "tensor<33x65xf32>";
        let body = format!(
            "%r = rk.aten \"aten._to_copy.default\"(%x, 6) : ({t}) -> {wide}
             %m = rk.aten \"aten.mul.Tensor\"(%r, %y) : ({wide}, tensor<65xf32>) -> {wide} rk.yield %m : {wide}"
        );
        add(&format!("%x: {t}, %y: tensor<65xf32>"), &body);
    }
    add(
        "%x: tensor<16x16xf32>",
        r#"%t = rk.aten "aten.t.default"(%x) aliases(0) : (tensor<16x16xf32>) -> tensor<16x16xf32, #rk.strided<[1, 16]>>
           %s = rk.aten "aten.select.int"(%x, 0, 3) aliases(0) : (tensor<16x16xf32>) -> tensor<16xf32>
           %a = rk.aten "aten.add.Tensor"(%x, %t, 1) : (tensor<16x16xf32>, tensor<16x16xf32, #rk.strided<[1, 16]>>) -> tensor<16x16xf32>
           %r = rk.aten "aten.mul.Tensor"(%a, %s) : (tensor<16x16xf32>, tensor<16xf32>) -> tensor<16x16xf32> rk.yield %r : tensor<16x16xf32>"#,
    );
    let t = "tensor<4x6x10x3xf32>";
    let s = "tensor<4x6x10x3xf32, #rk.strided<[180, 1, 18, 6]>>";
    add(
        &format!("%x: {s}, %y: tensor<6x1x1xf32>, %m: tensor<4x6x10x3xi1>"),
        &format!(
            "%a = rk.aten \"aten.add.Tensor\"(%x, %y, 0.3) : ({s}, tensor<6x1x1xf32>) -> {t}
             %w = rk.aten \"aten.masked_fill.Scalar\"(%a, %m, -inf) : ({t}, tensor<4x6x10x3xi1>) -> {t}
             %e = rk.aten \"aten.exp.default\"(%w) : ({t}) -> {t}
             %q = rk.aten \"aten.tanh.default\"(%e) : ({t}) -> {t} rk.yield %q : {t}"
        )
        .replace("-inf", "-1.0e30"),
    );
    bodies(&text)
}

/// A product and its sum over the last two dimensions.
pub fn sums() -> Vec<Elementwise> {
    let mut text = String::new();
    for (number, (ty, call)) in [
        ("f32", "sum.dim_IntList\"(%p, [1, 2], false, none)"),
        ("bf16", "sum.dim_IntList\"(%p, [-2, -1], false, none)"),
        ("f16", "sum.dim_IntList\"(%p, [1, 2], false, none)"),
        ("f32", "mean.dim\"(%p, [1, 2], false, none)"),
        ("f32", "amax.default\"(%p, [1, 2], false)"),
        ("bf16", "amax.default\"(%p, [-1, 1], false)"),
    ]
    .into_iter()
    .enumerate()
    {
        let (wide, turned) =
            (format!("tensor<6x5x70x{ty}>"), format!("tensor<6x5x70x{ty}, #rk.strided<[5, 1, 30]>>"));
        text.push_str(&format!(
            "rk.node @n{number} {{ ^bb0(%x: {wide}, %y: {turned}):
               %p = rk.aten \"aten.mul.Tensor\"(%x, %y) : ({wide}, {turned}) -> {wide}
               %s = rk.aten \"aten.{call} : ({wide}) -> tensor<6x{ty}> rk.yield %s : tensor<6x{ty}> }}\n"
        ));
    }
    text.push_str(
        r#"rk.node @rounded { ^bb0(%x: tensor<6x5x70xf32>, %y: tensor<6x5x70xf32>):
             %p = rk.aten "aten.mul.Tensor"(%x, %y) : (tensor<6x5x70xf32>, tensor<6x5x70xf32>) -> tensor<6x5x70xf32>
             %s = rk.aten "aten.sum.dim_IntList"(%p, [1, 2], false, none) : (tensor<6x5x70xf32>) -> tensor<6xf32>
             %r = rk.aten "aten._to_copy.default"(%s, 5) : (tensor<6xf32>) -> tensor<6xf16> rk.yield %r : tensor<6xf16> }"#,
    );
    bodies(&text)
}

/// A product and a call on its rows.
pub fn rows() -> Vec<Elementwise> {
    let mut text = String::new();
    for (number, (ty, call, operands)) in [
        ("f32", "_softmax.default\"(%p, -1, false)", 1),
        ("f32", "_log_softmax.default\"(%p, 2, false)", 1),
        ("f16", "_softmax_backward_data.default\"(%p, %y, -1, 5)", 2),
        ("bf16", "_log_softmax_backward_data.default\"(%p, %y, -1, 15)", 2),
        ("bf16", "_log_softmax.default\"(%p, -1, false)", 1),
        ("f16", "_softmax.default\"(%p, 1, false)", 1),
        ("f32", "_softmax_backward_data.default\"(%p, %y, 0, 6)", 2),
    ]
    .into_iter()
    .enumerate()
    {
        let t = format!("tensor<6x5x70x{ty}>");
        let types = vec![t.as_str(); operands].join(", ");
        text.push_str(&format!(
            "rk.node @n{number} {{ ^bb0(%x: {t}, %y: {t}):
               %p = rk.aten \"aten.mul.Tensor\"(%x, %y) : ({t}, {t}) -> {t}
               %s = rk.aten \"aten.{call} : ({types}) -> {t} rk.yield %s : {t} }}\n"
        ));
    }
    bodies(&text)
}

/// A layer norm behind a sum, and its gradient by the input.
pub fn norms() -> Vec<Elementwise> {
    let mut text = String::new();
    for (number, (of, given)) in [("f32", "f32"), ("bf16", "f32"), ("f16", "f16")].into_iter().enumerate() {
        let (t, row, w) =
            (format!("tensor<30x70x{of}>"), format!("tensor<30x1x{given}>"), format!("tensor<70x{given}>"));
        text.push_str(&format!(
        "rk.node @forward{number} {{ ^bb0(%x: {t}, %y: {t}, %w: {w}, %b: {w}):
           %s = rk.aten \"aten.add.Tensor\"(%x, %y, 1) : ({t}, {t}) -> {t}
           %n:3 = rk.aten \"aten.native_layer_norm.default\"(%s, [70], %w, %b, 1.0e-5) : ({t}, {w}, {w}) -> ({t}, {row}, {row})
           rk.yield %n#0, %n#1, %n#2 : {t}, {row}, {row} }}
         rk.node @backward{number} {{ ^bb0(%g: {t}, %x: {t}, %m: {row}, %r: {row}, %w: {w}):
           %n:3 = rk.aten \"aten.native_layer_norm_backward.default\"(%g, %x, [70], %m, %r, %w, none, [true, false, false])
             : ({t}, {t}, {row}, {row}, {w}) -> ({t}, {w}, {w})
           rk.yield %n#0 : {t} }}\n"
        ));
    }
    bodies(&text)
}
