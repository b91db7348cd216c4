//! Kernels without torch: what the machine code computes against the same formulas in Rust, and PTX through `ptxas`.

use std::ffi::c_void;
use std::path::PathBuf;
use std::process::Command;

use rk_dialect::pointwise::Elementwise;
use rk_dialect::{Context, ops};
use rk_kernels::cpu::{Request, library};
use rk_kernels::cuda::{Chip, ptx};
use rk_kernels::{Buffer, Signature};

type Kernel = unsafe extern "C" fn(*const *mut c_void, i64, i64);

fn bodies(text: &str) -> Vec<Elementwise> {
    let context = Context::new();
    let module = context.parse(text, "test.mlir").expect("the module parses");
    ops::nodes(module.op()).into_iter().map(|node| Elementwise::of(node).expect("pointwise")).collect()
}

/// A library in memory with kernels `k0`, `k1`, ...
fn loaded(bodies: &[(&Elementwise, Option<usize>)]) -> libloading::Library {
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
fn run(library: &libloading::Library, symbol: &str, signature: &Signature, buffers: &[*mut c_void]) {
    // SAFETY: the buffers are those of the signature.
    unsafe {
        let kernel = library.get::<Kernel>(symbol.as_bytes()).expect("the symbol is exported");
        let half = signature.rows / 2;
        kernel(buffers.as_ptr(), 0, half);
        kernel(buffers.as_ptr(), half, signature.rows);
    }
}

const CHAIN: &str = r#"rk.node @chain overwrites(0) { ^bb0(%x: tensor<37x19xf32>, %b: tensor<19xf32>):
  %s = rk.aten "aten.add_.Tensor"(%x, %b, 1) writes(0) aliases(0) : (tensor<37x19xf32>, tensor<19xf32>) -> tensor<37x19xf32>
  %m = rk.aten "aten.mul_.Tensor"(%s, 0.1) writes(0) aliases(0) : (tensor<37x19xf32>) -> tensor<37x19xf32>
  %r = rk.aten "aten.relu_.default"(%m) writes(0) aliases(0) : (tensor<37x19xf32>) -> tensor<37x19xf32>
  rk.yield %x : tensor<37x19xf32> }"#;

#[test]
fn a_chain_computes_in_place_and_aside() {
    let body = &bodies(CHAIN)[0];
    let library = loaded(&[(body, None), (body, Some(0))]);
    let mut x: Vec<f32> = (0..37 * 19).map(|i| (i as f32 - 300.0) * 0.7).collect();
    x[5] = f32::NAN;
    x[6] = f32::NEG_INFINITY;
    let mut b: Vec<f32> = (0..19).map(|i| i as f32 * 0.3).collect();
    let expected: Vec<u32> = (0..37 * 19)
        .map(|i| (x[i] + b[i % 19]) * 0.1)
        .map(|y| if y < 0.0 { 0.0 } else { y }.to_bits())
        .collect();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let mut aside = vec![7.0f32; x.len()];
    let signature = Signature::of(body, None);
    assert_eq!(signature.buffers, [Buffer::Input(0), Buffer::Input(1), Buffer::Output(0)]);
    let addresses = [x.as_mut_ptr().cast(), b.as_mut_ptr().cast(), aside.as_mut_ptr().cast()];
    run(&library, "k0", &signature, &addresses);
    assert_eq!(bits(&aside), expected);
    let signature = Signature::of(body, Some(0));
    assert_eq!(signature.buffers, [Buffer::Output(0), Buffer::Input(1)]);
    run(&library, "k1", &signature, &[x.as_mut_ptr().cast(), b.as_mut_ptr().cast()]);
    assert_eq!(bits(&x), expected);
}

#[test]
fn the_same_node_gives_the_same_bytes() {
    let body = &bodies(CHAIN)[0];
    let request = || Request { symbol: "k".into(), body, overwrites: None };
    assert_eq!(library(&[request()]).expect("a library"), library(&[request()]).expect("a library"));
}

/// Every formula, layout and element type of the table, in nodes that PTX is made of.
fn test_set() -> Vec<Elementwise> {
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
            ("relu.default\"(%x)", 1),
            ("threshold_backward.default\"(%x, %y, 0)", 2),
        ] {
            let types = vec![t.as_str(); operands].join(", ");
            let body = format!("%r = rk.aten \"aten.{call} : ({types}) -> {t} rk.yield %r : {t}");
            add(&format!("%x: {t}, %y: {t}"), &body);
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

/// ptxas and libdevice of the triton wheel that torch brings.
fn nvidia() -> Option<PathBuf> {
    let libtorch = std::env::var("LIBTORCH").map(PathBuf::from).ok();
    let beside =
        libtorch.and_then(|path| path.canonicalize().ok()).and_then(|path| path.parent().map(PathBuf::from));
    let found =
        beside.map(|site| site.join("triton/backends/nvidia")).filter(|path| path.join("bin/ptxas").exists());
    if found.is_none() {
        eprintln!("skipped: no ptxas beside torch (LIBTORCH)");
    }
    found
}

/// Runs `ptxas`, which must accept the text.
fn assemble(nvidia: &std::path::Path, chip: Chip, text: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("k.ptx");
    std::fs::write(&path, text).expect("written");
    let run = Command::new(nvidia.join("bin/ptxas"))
        .args(["--gpu-name", chip.name(), "-o", "/dev/null"])
        .arg(&path)
        .output()
        .expect("ptxas runs");
    assert!(run.status.success(), "{}\n{text}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn every_kernel_assembles_for_both_chips() {
    let Some(nvidia) = nvidia() else { return };
    let libdevice = nvidia.join("lib/libdevice.10.bc");
    for (index, body) in test_set().iter().enumerate() {
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = ptx(body, None, &format!("k{index}"), chip, Some(&libdevice)).expect("PTX");
            let signature = Signature::of(body, None);
            let given = |buffer: usize| made.parameters.contains(&buffer);
            assert!((0..signature.buffers.len()).all(given), "every buffer is a parameter\n{}", made.text);
            let threads: i64 = made.grid.iter().chain(&made.block).product();
            assert!(threads >= body.elements(), "{:?} {:?} for {:?}", made.grid, made.block, body.shape);
            assert_eq!(made.block, [256, 1, 1], "neighbouring threads, neighbouring elements");
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn every_sum_assembles_for_both_chips() {
    let Some(nvidia) = nvidia() else { return };
    let mut text = String::new();
    for (number, (ty, call)) in [
        ("f32", "sum.dim_IntList\"(%p, [1, 2], false, none)"),
        ("bf16", "sum.dim_IntList\"(%p, [-2, -1], false, none)"),
        ("f16", "sum.dim_IntList\"(%p, [1, 2], false, none)"),
        ("f32", "mean.dim\"(%p, [1, 2], false, none)"),
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
    for body in bodies(&text) {
        assert!(body.reduction.is_some() && !body.is_exact(), "{body:?}");
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = ptx(&body, None, "k", chip, None).expect("PTX");
            assert_eq!((made.grid, made.block), ([6, 1, 1], [32, 1, 1]), "a warp for each sum");
            assert_eq!(made.text.matches("shfl.sync").count(), 5, "{}", made.text);
            assert!((0..3).all(|buffer| made.parameters.contains(&buffer)), "{:?}", made.parameters);
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn every_call_on_rows_assembles_for_both_chips() {
    let Some(nvidia) = nvidia() else { return };
    let libdevice = nvidia.join("lib/libdevice.10.bc");
    let mut text = String::new();
    for (number, (ty, call, operands)) in [
        ("f32", "_softmax.default\"(%p, -1, false)", 1),
        ("f32", "_log_softmax.default\"(%p, 2, false)", 1),
        ("f16", "_softmax_backward_data.default\"(%p, %y, -1, 5)", 2),
        ("bf16", "_log_softmax_backward_data.default\"(%p, %y, -1, 15)", 2),
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
    for body in bodies(&text) {
        assert!(body.row == Some(1) && !body.is_exact(), "{body:?}");
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = ptx(&body, None, "k", chip, Some(&libdevice)).expect("PTX");
            assert_eq!((made.grid, made.block), ([30, 1, 1], [32, 1, 1]), "a warp for each row");
            assert_eq!(made.text.matches("shfl.sync").count() % 5, 0, "{}", made.text);
            assert!((0..3).all(|buffer| made.parameters.contains(&buffer)), "{:?}", made.parameters);
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn every_layer_norm_assembles_for_both_chips() {
    let Some(nvidia) = nvidia() else { return };
    let libdevice = nvidia.join("lib/libdevice.10.bc");
    let (t, row, w) = ("tensor<30x70xf32>", "tensor<30x1xf32>", "tensor<70xf32>");
    let text = format!(
        "rk.node @forward {{ ^bb0(%x: {t}, %y: {t}, %w: {w}, %b: {w}):
           %s = rk.aten \"aten.add.Tensor\"(%x, %y, 1) : ({t}, {t}) -> {t}
           %n:3 = rk.aten \"aten.native_layer_norm.default\"(%s, [70], %w, %b, 1.0e-5) : ({t}, {w}, {w}) -> ({t}, {row}, {row})
           rk.yield %n#0, %n#1, %n#2 : {t}, {row}, {row} }}
         rk.node @backward {{ ^bb0(%g: {t}, %x: {t}, %m: {row}, %r: {row}, %w: {w}):
           %n:3 = rk.aten \"aten.native_layer_norm_backward.default\"(%g, %x, [70], %m, %r, %w, none, [true, false, false])
             : ({t}, {t}, {row}, {row}, {w}) -> ({t}, {w}, {w})
           rk.yield %n#0 : {t} }}"
    );
    for (body, buffers) in bodies(&text).iter().zip([7, 6]) {
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = ptx(body, None, "k", chip, Some(&libdevice)).expect("PTX");
            assert_eq!((made.grid, made.block), ([30, 1, 1], [32, 1, 1]), "a warp for each row");
            assert_eq!(made.text.matches("shfl.sync").count(), 10, "two sums\n{}", made.text);
            assert!((0..buffers).all(|buffer| made.parameters.contains(&buffer)), "{:?}", made.parameters);
            assert!(!made.text.contains(".extern"), "nothing is left to link\n{}", made.text);
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn nothing_is_contracted_in_ptx() {
    let text = CHAIN.replace("mul_.Tensor\"(%s, 0.1)", "mul_.Tensor\"(%s, %b)").replace(
        "(0) : (tensor<37x19xf32>) -> tensor<37x19xf32>\n  %r",
        "(0) : (tensor<37x19xf32>, tensor<19xf32>) -> tensor<37x19xf32>\n  %r",
    );
    let made = ptx(&bodies(&text)[0], None, "k", Chip::Sm90, None).expect("PTX");
    assert!(made.text.contains("add.rn.f32") && made.text.contains("mul.rn.f32"), "{}", made.text);
    assert!(!made.text.contains("fma"), "{}", made.text);
}

/// Units in the last place between a float and the exact value, which a double is near enough to.
fn ulps(ours: f32, exact: f64) -> f64 {
    let near = exact as f32;
    if ours == near || (ours.is_nan() && exact.is_nan()) {
        return 0.0;
    }
    // Subnormal numbers lie evenly; of the largest float the step is the last one.
    let size = exact.abs().max(f64::from(f32::MIN_POSITIVE)).min(f64::from(f32::MAX));
    let unit = 2f64.powi(size.log2().floor() as i32 - 23);
    (f64::from(ours) - exact).abs() / unit
}

#[test]
fn functions_of_one_float_are_as_near_as_stated_over_all_exponents() {
    const COUNT: usize = 1 << 20;
    let t = format!("tensor<{COUNT}xf32>");
    type Exact = fn(f64) -> f64;
    let functions: [(&str, f64, Exact); 3] =
        [("exp", 1.0, f64::exp), ("tanh", 2.0, f64::tanh), ("sigmoid", 3.0, |x| 1.0 / (1.0 + (-x).exp()))];
    let text: String = functions
        .iter()
        .enumerate()
        .map(|(number, (name, ..))| {
            format!(
                "rk.node @n{number} {{ ^bb0(%x: {t}): %r = rk.aten \"aten.{name}.default\"(%x) : ({t}) -> {t} rk.yield %r : {t} }}\n"
            )
        })
        .collect();
    let bodies = bodies(&text);
    let library = loaded(&bodies.iter().map(|body| (body, None)).collect::<Vec<_>>());
    // A prime number of bit patterns apart, so that every exponent comes with many mantissas.
    let step = std::env::var("RK_STEP_OF_BITS").map_or(251, |step| step.parse().expect("a number"));
    let mut worst = [(0.0f64, 0.0f32); 3];
    let mut bits = 0u64;
    while bits < 1 << 32 {
        let mut x: Vec<f32> =
            (0..COUNT as u64).map(|index| f32::from_bits((bits + index * step) as u32)).collect();
        bits += COUNT as u64 * step;
        let mut y = vec![0.0f32; COUNT];
        for (number, (name, bound, exact)) in functions.iter().enumerate() {
            let signature = Signature::of(&bodies[number], None);
            let addresses = [x.as_mut_ptr().cast(), y.as_mut_ptr().cast()];
            run(&library, &format!("k{number}"), &signature, &addresses);
            for (&x, &y) in x.iter().zip(&y) {
                // Where 1 + exp(-x) overflows, ATen's formula gives zero for what is a subnormal number.
                let exact = if *name == "sigmoid" && x < -88.0 { 0.0 } else { exact(f64::from(x)) };
                if *name == "sigmoid" && x < -88.0 && y.abs() < f32::MIN_POSITIVE {
                    continue;
                }
                let away = ulps(y, exact);
                assert!(away <= *bound, "{name}({x:e}) = {y:e} is {away} units from {exact:e}");
                assert!(*name != "tanh" || x.is_nan() || y.is_sign_negative() == x.is_sign_negative());
                if away > worst[number].0 {
                    worst[number] = (away, x);
                }
            }
        }
    }
    eprintln!("worst: {worst:?}");
}
