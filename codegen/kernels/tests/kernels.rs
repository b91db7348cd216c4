//! Kernels without torch: what the machine code computes against the same formulas in Rust, and PTX through `ptxas`.

mod nodes;
mod site;

use std::ffi::c_void;
use std::process::Command;

use nodes::{CHAIN, bodies, loaded, norms, rows, run, sums, test_set};
use rk_kernels::cpu::{Request, library};
use rk_kernels::cuda::Chip;
use rk_kernels::{Buffer, Signature};

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
fn rows_have_the_same_bits_in_place_and_aside() {
    let t = "tensor<37x61xf32>";
    let text = format!(
        "rk.node @n overwrites(0) {{ ^bb0(%z: {t}, %x: {t}):
           %y = rk.aten \"aten._softmax.default\"(%x, -1, false) : ({t}) -> {t}
           %r = rk.aten \"aten.add_.Tensor\"(%z, %y, 1) writes(0) aliases(0) : ({t}, {t}) -> {t}
           rk.yield %z : {t} }}
         rk.node @m overwrites(0) {{ ^bb0(%z: {t}, %x: {t}):
           %y = rk.aten \"aten._softmax_backward_data.default\"(%x, %z, -1, 6) : ({t}, {t}) -> {t}
           %r = rk.aten \"aten.mul_.Tensor\"(%z, %y) writes(0) aliases(0) : ({t}, {t}) -> {t}
           rk.yield %z : {t} }}"
    );
    let mut x: Vec<f32> = (0..37 * 61).map(|i| ((i * 7919) % 1000) as f32 * 0.011 - 5.0).collect();
    for body in &bodies(&text) {
        let library = loaded(&[(body, None), (body, Some(0))]);
        let mut z: Vec<f32> = (0..37 * 61).map(|i| ((i * 104_729) % 997) as f32 * 0.003).collect();
        let mut aside = vec![0.0f32; z.len()];
        for (symbol, overwrites) in [("k0", None), ("k1", Some(0))] {
            let signature = Signature::of(body, overwrites);
            let addresses: Vec<*mut c_void> = (signature.buffers.iter())
                .map(|buffer| match (buffer, overwrites) {
                    (Buffer::Input(1), _) => x.as_mut_ptr().cast(),
                    (Buffer::Output(0), None) => aside.as_mut_ptr().cast(),
                    _ => z.as_mut_ptr().cast(),
                })
                .collect();
            run(&library, symbol, &signature, &addresses);
        }
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&aside), bits(&z));
    }
}

#[test]
fn the_same_node_gives_the_same_bytes() {
    let body = &bodies(CHAIN)[0];
    let request = || Request { symbol: "k".into(), body, overwrites: None };
    assert_eq!(library(&[request()]).expect("a library"), library(&[request()]).expect("a library"));
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
    let Some(nvidia) = site::nvidia() else { return };
    for (index, body) in test_set().iter().enumerate() {
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = nodes::made(body, None, &format!("k{index}"), chip);
            let signature = Signature::of(body, None);
            let given = |buffer: usize| made.parameters.contains(&buffer);
            assert!((0..signature.buffers.len()).all(given), "every buffer is a parameter\n{}", made.text);
            let threads: i64 = made.grid.iter().chain(&made.block).product();
            assert!(threads >= body.elements(), "{:?} {:?} for {:?}", made.grid, made.block, body.shape);
            assert!(!made.text.contains(".extern"), "nothing is left to link\n{}", made.text);
            assert_eq!(made.block, [256, 1, 1], "neighbouring threads, neighbouring elements");
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn every_sum_assembles_for_both_chips() {
    let Some(nvidia) = site::nvidia() else { return };
    for body in sums() {
        assert!(body.reduction.is_some() && !body.is_exact(), "{body:?}");
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = nodes::made(&body, None, "k", chip);
            assert_eq!((made.grid, made.block), ([6, 1, 1], [32, 1, 1]), "a warp for each sum");
            assert_eq!(made.text.matches("shfl.sync").count(), 5, "{}", made.text);
            assert!((0..3).all(|buffer| made.parameters.contains(&buffer)), "{:?}", made.parameters);
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn every_call_on_rows_assembles_for_both_chips() {
    let Some(nvidia) = site::nvidia() else { return };
    for body in rows() {
        assert!(body.row == Some(1) && !body.is_exact(), "{body:?}");
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = nodes::made(&body, None, "k", chip);
            let rows = body.elements() / body.shape.last().expect("a row");
            assert_eq!((made.grid, made.block), ([rows, 1, 1], [32, 1, 1]), "a warp for each row");
            assert_eq!(made.text.matches("shfl.sync").count() % 5, 0, "{}", made.text);
            assert!((0..3).all(|buffer| made.parameters.contains(&buffer)), "{:?}", made.parameters);
            assemble(&nvidia, chip, &made.text);
        }
    }
}

#[test]
fn every_layer_norm_assembles_for_both_chips() {
    let Some(nvidia) = site::nvidia() else { return };
    for (body, buffers) in norms().iter().zip([7, 6].into_iter().cycle()) {
        for chip in [Chip::Sm80, Chip::Sm90] {
            let made = nodes::made(body, None, "k", chip);
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
    let made = nodes::made(&bodies(&text)[0], None, "k", Chip::Sm90);
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

/// An operation that underflows is a hundred times as slow, and a softmax behind a causal mask has one for every second element.
#[test]
#[cfg(target_arch = "x86_64")]
fn exponentials_that_are_zero_are_not_computed_by_underflow() {
    const UNDERFLOW: i32 = 0x10;
    // Of the C standard's fenv.h, in libm.
    unsafe extern "C" {
        fn feclearexcept(which: i32) -> i32;
        fn fetestexcept(which: i32) -> i32;
    }
    let text = "rk.node @n { ^bb0(%x: tensor<64xf32>): %r = rk.aten \"aten.exp.default\"(%x) : (tensor<64xf32>) -> tensor<64xf32> rk.yield %r : tensor<64xf32> }\n";
    let bodies = bodies(text);
    let (library, signature) = (loaded(&[(&bodies[0], None)]), Signature::of(&bodies[0], None));
    let underflows = |values: [f32; 4]| {
        let mut x: Vec<f32> = values.iter().copied().cycle().take(64).collect();
        let mut y = vec![1.0f32; 64];
        // SAFETY: both change and read a register of flags.
        unsafe { feclearexcept(UNDERFLOW) };
        run(&library, "k0", &signature, &[x.as_mut_ptr().cast(), y.as_mut_ptr().cast()]);
        // SAFETY: as above.
        (unsafe { fetestexcept(UNDERFLOW) } != 0, y[3])
    };
    assert_eq!(underflows([0.0, -1.0, -80.0, f32::MIN]), (false, 0.0));
    assert_eq!(underflows([0.0, -1.0, -104.1, f32::NEG_INFINITY]), (false, 0.0));
    // The flag is seen where a subnormal number is the result.
    assert!(underflows([0.0, -1.0, -100.0, -100.0]).0);
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
