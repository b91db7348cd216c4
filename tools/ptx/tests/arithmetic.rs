//! What instructions compute, through text: formats, modes, NaN, zeros of both signs, subnormal numbers.

use rk_ptx::{Memory, Module};

/// Runs `mnemonic` on bit patterns of `bits` bits each; the result has `to` bits.
fn run(mnemonic: &str, (to, bits): (usize, usize), arguments: &[u64]) -> u64 {
    let mut data: Vec<u64> = arguments.to_vec();
    data.push(0);
    let last = data.len() - 1;
    let mut memory = Memory::new();
    // SAFETY: the vector outlives the launch.
    unsafe { memory.allow(data.as_mut_ptr() as u64, 8 * data.len() as u64, true) };
    let loads: String =
        (0..last).map(|index| format!("ld.global.b{bits} %x{index}, [%p+{}];\n", 8 * index)).collect();
    let names: Vec<String> = (0..last).map(|index| format!("%x{index}")).collect();
    let text = format!(
        ".version 8.0 .target sm_90 .address_size 64 .entry k(.param .u64 p) {{
         .reg .b64 %p; .reg .b{bits} %x<4>; .reg .b{to} %y; ld.param.u64 %p, [p];
         {loads} {mnemonic} %y, {}; st.global.b{to} [%p+{}], %y; ret; }}",
        names.join(", "),
        8 * last
    );
    let address = data.as_mut_ptr() as u64;
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    module.launch("k", [1, 1, 1], [1, 1, 1], &[address], &mut memory).expect("runs");
    data[last]
}

fn f32s(mnemonic: &str, arguments: &[f32]) -> f32 {
    let bits: Vec<u64> = arguments.iter().map(|x| x.to_bits().into()).collect();
    f32::from_bits(run(mnemonic, (32, 32), &bits) as u32)
}

fn f64s(mnemonic: &str, arguments: &[f64]) -> f64 {
    let bits: Vec<u64> = arguments.iter().map(|x| x.to_bits()).collect();
    f64::from_bits(run(mnemonic, (64, 64), &bits))
}

fn halves(mnemonic: &str, arguments: &[u64]) -> u64 {
    run(mnemonic, (16, 16), arguments)
}

#[test]
fn f32_is_ieee_with_the_canonical_nan() {
    assert_eq!(f32s("add.rn.f32", &[0.1, 0.2]), 0.1 + 0.2);
    assert_eq!(
        f32s("fma.rn.f32", &[1.0 + f32::EPSILON, 1.0 - f32::EPSILON, -1.0]),
        -f32::EPSILON * f32::EPSILON
    );
    assert_eq!(f32s("mul.rn.f32", &[1e-30, 1e-10]), 1e-40);
    assert_eq!(f32s("div.rn.f32", &[1.0, 3.0]), 1.0 / 3.0);
    assert_eq!(f32s("sub.rn.f32", &[f32::INFINITY, f32::INFINITY]).to_bits(), 0x7fff_ffff);
    assert_eq!(f32s("sqrt.rn.f32", &[-1.0]).to_bits(), 0x7fff_ffff);
    assert_eq!(f32s("rcp.rn.f32", &[-0.0]), f32::NEG_INFINITY);
}

#[test]
fn modes_flushing_and_saturation() {
    let tiny = f32::from_bits(1);
    assert_eq!(f32s("add.rz.f32", &[1.0, f32::EPSILON * 0.9]), 1.0);
    assert_eq!(f32s("add.rp.f32", &[1.0, tiny]), 1.0 + f32::EPSILON);
    assert_eq!(f32s("add.rm.f32", &[1.0, -tiny]), 1.0 - f32::EPSILON / 2.0);
    assert_eq!(f32s("mul.rz.f32", &[f32::MAX, 2.0]), f32::MAX);
    assert_eq!(f32s("fma.rm.f32", &[1.0, 1.0, tiny]), 1.0);
    assert_eq!(f32s("mul.rn.ftz.f32", &[-1e-30, 1e-10]).to_bits(), 1 << 31);
    assert_eq!(f32s("add.rn.ftz.f32", &[1e-40, 2e-38]), 2e-38);
    assert_eq!(f32s("add.rn.sat.f32", &[0.75, 0.75]), 1.0);
    assert_eq!(f32s("add.rn.sat.f32", &[f32::NAN, 0.75]).to_bits(), 0);
    assert_eq!(f32s("mul.rn.sat.f32", &[-3.0, 0.75]).to_bits(), 0);
}

#[test]
fn minimum_and_maximum_know_nan_and_signed_zeros() {
    for (x, y) in [(0.0f32, -0.0f32), (-0.0, 0.0)] {
        assert_eq!(f32s("max.f32", &[x, y]).to_bits(), 0);
        assert_eq!(f32s("min.f32", &[x, y]).to_bits(), 1 << 31);
    }
    assert_eq!(f32s("max.f32", &[f32::NAN, 1.0]), 1.0);
    assert_eq!(f32s("min.f32", &[1.0, f32::NAN]), 1.0);
    assert_eq!(f32s("max.f32", &[f32::NAN, f32::NAN]).to_bits(), 0x7fff_ffff);
    assert_eq!(f32s("max.NaN.f32", &[f32::NAN, 1.0]).to_bits(), 0x7fff_ffff);
    assert_eq!(f64s("max.f64", &[f64::NAN, -1.0]), -1.0);
    assert_eq!(halves("max.f16", &[0xfc00, 0x3c00]), 0x3c00);
    assert_eq!(halves("min.NaN.bf16", &[0x7fc0, 0x3f80]), 0x7fff);
}

#[test]
fn signs_are_bits() {
    assert_eq!(f32s("neg.f32", &[0.0]).to_bits(), 1 << 31);
    assert_eq!(f32s("abs.f32", &[-2.5]), 2.5);
    assert_eq!(f64s("copysign.f64", &[-1.0, 7.0]), -7.0);
    assert_eq!(halves("neg.f16", &[0x3c00]), 0xbc00);
}

#[test]
fn half_precision_is_rounded_once() {
    // 2048 + 1 is halfway to 2050, and the product's rest decides: through f32 or f64 alone it would be lost.
    assert_eq!(halves("add.rn.f16", &[0x6800, 0x3c00]), 0x6800);
    assert_eq!(halves("fma.rn.f16", &[0x0001, 0x0001, 0x6800]), 0x6800);
    let (two_k, one, tiny) = (0x6800, 0x3c00, 0x0401);
    assert_eq!(halves("fma.rn.f16", &[one, one, two_k]), 0x6800);
    // 0x3c01 = 1 + 2^-10; its square is 1 + 2^-9 + 2^-20.
    assert_eq!(halves("mul.rn.f16", &[0x3c01, 0x3c01]), 0x3c02);
    assert_eq!(halves("fma.rn.f16", &[0x3c01, 0x3c01, tiny]), 0x3c02);
    // 256 + 1 + 2^-60 in bf16: above the tie of 256 and 258, but only for who sees all digits.
    let (large, unit, small) = (0x4380, 0x3f80, 0x2180);
    assert_eq!(halves("add.rn.bf16", &[large, unit]), 0x4380);
    assert_eq!(halves("fma.rn.bf16", &[0x3f81, 0x3f81, small]), 0x3f82);
    assert_eq!(halves("fma.rn.bf16", &[0x4300, 0x4000, unit]), 0x4380);
    assert_eq!(halves("sub.rn.f16", &[0x7c00, 0x7c00]), 0x7fff);
    assert_eq!(halves("mul.rn.f16", &[0x7bff, 0x4000]), 0x7c00);
}

#[test]
fn conversions_through_text() {
    assert_eq!(run("cvt.rn.bf16.f32", (16, 32), &[f32::NAN.to_bits().into()]), 0x7fff);
    assert_eq!(run("cvt.f32.bf16", (32, 16), &[0x3f80]), 1f32.to_bits().into());
    assert_eq!(run("cvt.f32.f16", (32, 16), &[0x0001]), 2f32.powi(-24).to_bits().into());
    assert_eq!(run("cvt.rn.f16.f32", (16, 32), &[1e-8f32.to_bits().into()]), 0);
    assert_eq!(run("cvt.rzi.s32.f32", (32, 32), &[(-1.9f32).to_bits().into()]), 0xffff_ffff);
    assert_eq!(run("cvt.rn.f32.s64", (32, 64), &[u64::MAX]), (-1f32).to_bits().into());
    assert_eq!(run("cvt.sat.u8.s32", (32, 32), &[300]), 255);
    assert_eq!(run("cvt.s64.s8", (64, 32), &[0x80]), -128i64 as u64);
}

#[test]
fn approximations_are_the_nearest_value() {
    assert_eq!(f32s("ex2.approx.f32", &[10.0]), 1024.0);
    assert_eq!(f32s("ex2.approx.f32", &[0.5]), std::f32::consts::SQRT_2);
    assert_eq!(f32s("ex2.approx.ftz.f32", &[-140.0]), 0.0);
    assert_eq!(f32s("ex2.approx.f32", &[-140.0]), 2f32.powi(-140));
    assert_eq!(f32s("lg2.approx.f32", &[8.0]), 3.0);
    assert_eq!(f32s("rsqrt.approx.f32", &[16.0]), 0.25);
    assert_eq!(f32s("tanh.approx.f32", &[100.0]), 1.0);
    assert_eq!(f64s("rcp.approx.ftz.f64", &[3.0]).to_bits(), 0x3fd5_5555_0000_0000);
    assert_eq!(f64s("rcp.approx.ftz.f64", &[f64::from_bits(0xffff_ffff)]), f64::INFINITY);
    assert_eq!(f64s("rsqrt.approx.ftz.f64", &[4.0]), 0.5);
}
