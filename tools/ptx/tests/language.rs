//! What is read, and what is refused: never skipped.

use rk_ptx::{Error, Memory, Module};

/// A module with one entry of these statements.
fn module(body: &str) -> Result<Module, Error> {
    Module::parse(&format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(\n.param .u64 .ptr .align 1 p,\n.param .f32 q\n)\n{{\n\
         .reg .pred %p<4>; .reg .b16 %rs<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;\n{body}\nret;\n}}"
    ))
}

/// What one thread leaves in the eight bytes at its first parameter, which hold `before`.
fn result(body: &str, before: u64) -> u64 {
    let mut data = [before];
    let mut memory = Memory::new();
    let address = data.as_mut_ptr() as u64;
    // SAFETY: the eight bytes outlive the launch.
    unsafe { memory.allow(address, 8, true) };
    let text =
        format!("ld.param.b64 %rd1, [p]; ld.global.b64 %rd2, [%rd1];\n{body}\nst.global.b64 [%rd1], %rd3;");
    let made = module(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let parameters = [address, 1.5f32.to_bits().into()];
    made.launch("k", [1, 1, 1], [1, 1, 1], &parameters, &mut memory)
        .unwrap_or_else(|error| panic!("{error}"));
    data[0]
}

#[track_caller]
fn refused(body: &str, part: &str) {
    match module(body) {
        Err(Error::Text { line: 10, message }) if message.contains(part) => {}
        other => panic!("{body}: {other:?}"),
    }
}

#[test]
fn a_module_names_its_entries_and_their_parameters() {
    let module = module("").expect("parsed");
    assert_eq!(module.entries().collect::<Vec<_>>(), ["k"]);
    assert_eq!(module.parameters("k"), Ok(vec![8, 4]));
    assert_eq!(module.parameters("other"), Err(Error::NoEntry("other".into())));
}

#[test]
fn what_is_not_understood_is_refused_with_its_line() {
    refused("frobnicate.b32 %r1, %r2;", "frobnicate.b32: is not understood");
    refused("add.rn.sat2.f32 %r1, %r2, %r3;", "sat2");
    refused("add.f32 %r1, %r2, %r3;", "rounding");
    refused("sqrt.f32 %r1, %r2;", "rounding");
    refused("div.approx.f32 %r1, %r2, %r3;", "rounding");
    refused("ex2.approx.f16 %rs1, %rs2;", "rounding");
    refused("ex2.approx.f64 %rd1, %rd2;", "rounding");
    refused("add.s32.u32 %r1, %r2, %r3;", "not understood");
    refused("add.s32 %rd1, %r2, %r3;", "writes 32 bits to a register of 64");
    refused("add.s32 %r1, %r2;", "an operand is missing");
    refused("add.s32 %r1, %r2, %r3, %r4;", "too many operands");
    refused("add.s32 %r1, %r2, %r99;", "not understood");
    refused("bra nowhere;", "nowhere");
    refused("mov.u32 %r1, %clock;", "%clock");
    refused("ld.global.acquire.gpu.b32 %r1, [%rd1];", "acquire.gpu");
    refused("ld.const.b32 %r1, [%rd1];", "const");
    refused("ld.global.b32 %r1, [p];", "Parameter memory");
    refused("st.param.b32 [p], %r1;", "read only");
    refused("atom.global.add.f32 %r1, [%rd1], %r2;", "not understood");
    refused("bar.warp.sync -1;", "whole block");
    refused("bar.sync 0, 64;", "too many operands");
    refused("cvt.f16.f32 %rs1, %r1;", "rounding mode");
    refused("cvt.rn.f32.f16 %r1, %rs1;", "rounding mode");
    refused("setp.lo.f32 %p1, %r1, %r2;", "no comparison");
    refused("shfl.bfly.b32 %r1, %r2, 1, 31;", "sync");
    refused("@%r1 bra x;", "no predicate");
    refused("call foo;", "not understood");
    refused(".loc 1 2 3;", "not understood");
    refused(".pragma \"other\";", "not understood");
    assert!(matches!(Module::parse(".visible .func f() { ret; }"), Err(Error::Text { line: 1, .. })));
    assert!(matches!(Module::parse(".visible .entry k() { ret;"), Err(Error::Text { line: 1, .. })));
}

#[test]
fn registers_have_scopes_and_labels_places() {
    let halves = "{ .reg .b32 tmp; mov.b64 {tmp, %r1}, %rd2; }\n{ .reg .b32 tmp; mov.b64 {%r2, tmp}, %rd2; }
                  mov.b64 %rd3, {%r1, %r2};";
    assert_eq!(result(halves, 0x1111_1111_2222_2222), 0x2222_2222_1111_1111);
    let quarters = "mov.b64 {%rs1, _, %rs2, _}, %rd2; mov.b32 %r1, {%rs2, %rs1}; cvt.u64.u32 %rd3, %r1;";
    assert_eq!(result(quarters, 0x4444_3333_2222_1111), 0x1111_3333);
    let doubled = "mov.b64 %rd3, 1;\n$again:\nshl.b64 %rd3, %rd3, 1;\nadd.s64 %rd2, %rd2, -1;
                   setp.ne.s64 %p1, %rd2, 0;\n@%p1 bra $again;";
    assert_eq!(result(doubled, 10), 1024);
}

#[test]
fn parameters_lie_where_their_types_want_them() {
    assert_eq!(result("ld.param.f32 %r1, [q]; cvt.u64.u32 %rd3, %r1;", 0), 1.5f32.to_bits().into());
    assert_eq!(result("ld.param.b32 %r1, [p+8]; cvt.u64.u32 %rd3, %r1;", 0), 1.5f32.to_bits().into());
}

#[test]
fn predicates_guard_select_and_combine() {
    let both = "setp.gt.u64 %p1|%p2, %rd2, 5; setp.lt.and.u64 %p3, %rd2, 9, !%p2;
                selp.b64 %rd3, 1, 0, %p1; @%p2 add.s64 %rd3, %rd3, 10; @!%p3 add.s64 %rd3, %rd3, 100;";
    for (value, expected) in [(3, 110), (7, 1), (11, 101)] {
        assert_eq!(result(both, value), expected, "{value}");
    }
}

#[test]
fn narrow_loads_extend_and_vectors_are_one_access() {
    let signed = "ld.global.s8 %rs1, [%rd1]; cvt.s64.s16 %rd3, %rs1;";
    assert_eq!(result(signed, 0x80), -128i64 as u64);
    let unsigned = "ld.global.b8 %rs1, [%rd1+1]; cvt.u64.u16 %rd3, %rs1;";
    assert_eq!(result(unsigned, 0x8000), 0x80);
    let vector = "ld.global.v2.b32 {%r1, %r2}, [%rd1]; mov.b64 %rd3, {%r2, %r1};";
    assert_eq!(result(vector, 1 << 32), 1);
    let local = ".local .align 8 .b8 depot[16]; .reg .b64 %SP, %SPL;
                 mov.b64 %SPL, depot; cvta.local.u64 %SP, %SPL; st.local.b64 [%SPL+8], %rd2; ld.b64 %rd3, [%SP+8];";
    assert_eq!(result(local, 77), 77);
}
