//! Threads: what they may touch, what they exchange, and what is reported of them.

use rk_ptx::{Error, Memory, Module};

const THREADS: usize = 64;

/// Runs `body` in blocks of 64 threads over `out`, 64 numbers of 32 bits for each block, and `given`, which is read only. `%r1` is the thread, `%rd1` the address of
/// its number, `%rd2` that of `given`.
fn run(blocks: u32, body: &str, out: &mut [u32], given: &[u32], races: bool) -> Result<(), Error> {
    let text = format!(
        ".version 8.0 .target sm_80 .address_size 64\n.shared .align 4 .b8 buffer[256];\n.visible .entry k(.param .u64 p, .param .u64 q) {{
         .reg .pred %p<4>; .reg .b32 %r<9>; .reg .b64 %rd<9>;
         ld.param.b64 %rd1, [p]; ld.param.b64 %rd2, [q]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.s32 %r3, %r2, 64, %r1;
         mul.wide.u32 %rd3, %r3, 4; add.s64 %rd1, %rd1, %rd3; shl.b32 %r8, %r1, 2;\n{body}\nret; }}"
    );
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let mut memory = Memory::new();
    // SAFETY: both outlive the launch, and `given` is not written.
    unsafe {
        memory.allow(out.as_mut_ptr() as u64, 4 * out.len() as u64, true);
        memory.allow(given.as_ptr() as u64, 4 * given.len() as u64, false);
    }
    if races {
        memory.watch_races();
    }
    let parameters = [out.as_mut_ptr() as u64, given.as_ptr() as u64];
    module.launch("k", [blocks, 1, 1], [THREADS as u32, 1, 1], &parameters, &mut memory)
}

fn out(body: &str) -> Vec<u32> {
    let mut out = vec![0; THREADS];
    run(1, body, &mut out, &[], true).unwrap_or_else(|error| panic!("{error}"));
    out
}

/// The error of a single block, at the line of the body that says so; the text before it has 6 lines.
fn error(body: &str) -> (usize, String) {
    let error = run(1, body, &mut [0; THREADS], &[7; 4], true).expect_err("refused");
    let text = error.to_string();
    match error {
        Error::Access { line, .. } | Error::Race { line, .. } | Error::Undefined { line, .. } => {
            (line - 6, text)
        }
        other => panic!("{other}"),
    }
}

#[test]
fn accesses_outside_are_refused_with_line_thread_and_address() {
    let mut memory = [0u32; THREADS];
    let end = memory.as_ptr_range().end as u64;
    let result = run(1, "\nst.global.b32 [%rd1+4], %r1;", &mut memory, &[], false);
    let place = rk_ptx::Place { block: [0; 3], thread: [63, 0, 0] };
    let why = "is outside of what is allowed";
    assert_eq!(result, Err(Error::Access { line: 8, place, kind: "store", address: end, bytes: 4, why }));
    let (line, text) = error("st.global.b32 [%rd2], %r1;");
    assert!(line == 1 && text.contains("is read only"), "{text}");
    let (_, text) = error("ld.global.b32 %r1, [%rd2+2];");
    assert!(text.contains("load of 4 bytes") && text.contains("misaligned"), "{text}");
    let (_, text) = error("ld.shared.b32 %r1, [%r8+4];");
    assert!(text.contains("thread [63, 0, 0]") && text.contains("outside of this memory"), "{text}");
    let (_, text) = error("ld.b32 %r1, [0];");
    assert!(text.contains("outside of what is allowed"), "{text}");
}

#[test]
fn shuffles_give_the_values_of_other_lanes() {
    let lane = |index: usize| index as u32 % 32;
    let store = "st.global.b32 [%rd1], %r4;";
    let xor = out(&format!("shfl.sync.bfly.b32 %r4, %r1, 16, 31, -1; {store}"));
    assert!((0..THREADS).all(|i| xor[i] == i as u32 ^ 16), "{xor:?}");
    let up = out(&format!("shfl.sync.up.b32 %r4|%p1, %r1, 3, 0, -1; @!%p1 add.s32 %r4, %r4, 1000; {store}"));
    let expected = |i: usize| if lane(i) < 3 { i as u32 + 1000 } else { i as u32 - 3 };
    assert!((0..THREADS).all(|i| up[i] == expected(i)), "{up:?}");
    // Segments of eight lanes: c is 31 and 0b11000 above it.
    let down = out(&format!("shfl.sync.down.b32 %r4, %r1, 2, 0x181f, -1; {store}"));
    assert!((0..THREADS).all(|i| down[i] == if i % 8 < 6 { i as u32 + 2 } else { i as u32 }), "{down:?}");
    let index = out(&format!("shfl.sync.idx.b32 %r4, %r1, 5, 31, -1; {store}"));
    assert!((0..THREADS).all(|i| index[i] == i as u32 / 32 * 32 + 5), "{index:?}");
}

#[test]
fn shuffles_wait_for_the_lanes_of_their_mask() {
    // Half a warp shuffles, the other half has gone.
    let half = "setp.gt.u32 %p1, %r1, 15; @%p1 bra $end; shfl.sync.bfly.b32 %r4, %r1, 8, 31, 0xffff; st.global.b32 [%rd1], %r4;\n$end:";
    assert_eq!(out(half)[3], 11);
    let (_, text) = error("setp.gt.u32 %p1, %r1, 15; @%p1 ret; shfl.sync.bfly.b32 %r4, %r1, 16, 31, -1;");
    assert!(text.contains("takes from lane 16, which does not take part"), "{text}");
    let (_, text) = error("shfl.sync.bfly.b32 %r4, %r1, 1, 31, 0xffff;");
    assert!(text.contains("thread [16, 0, 0]") && text.contains("mask"), "{text}");
    let (line, text) = error(
        "setp.eq.u32 %p1, %r1, 3;\n@%p1 bar.sync 0;\nshfl.sync.bfly.b32 %r4, %r1, 1, 31, -1;\n@!%p1 bar.sync 0;",
    );
    assert!(line == 3 && text.contains("lanes that do not come"), "{line} {text}");
}

/// Each thread gives its number to the thread opposite, through shared memory.
const THROUGH_SHARED: &str = "st.shared.b32 [%r8], %r1;\nbar.sync 0;
    sub.s32 %r4, 252, %r8;\nld.shared.b32 %r5, [%r4];\nst.global.b32 [%rd1], %r5;";

#[test]
fn shared_memory_and_barriers() {
    assert!(out(THROUGH_SHARED).iter().enumerate().all(|(i, &got)| got == 63 - i as u32));
    let mut two = vec![0; 2 * THREADS];
    run(2, THROUGH_SHARED, &mut two, &[], true).expect("blocks have shared memory of their own");
    assert_eq!(two[..THREADS], two[THREADS..]);
    let generic = "cvt.u64.u32 %rd4, %r8; cvta.shared.u64 %rd5, %rd4; st.b32 [%rd5], %r1; ld.shared.b32 %r5, [%r8]; st.global.b32 [%rd1], %r5;";
    assert_eq!(out(generic)[9], 9);
}

#[test]
fn a_missing_barrier_is_a_race() {
    let (line, text) = error(&THROUGH_SHARED.replace("bar.sync 0;", ""));
    // Thread 31 has read what thread 32 writes.
    assert!(line == 1 && text.contains("thread [32, 0, 0]") && text.contains("race"), "{line} {text}");
    let without = THROUGH_SHARED.replace("bar.sync 0;", "");
    run(1, &without, &mut [0; THREADS], &[], false).expect("nobody looks");
}

#[test]
fn blocks_race_with_each_other_and_with_nobody_they_do_not_meet() {
    let mut memory = vec![0; 2 * THREADS];
    run(2, "st.global.b32 [%rd1], %r1;", &mut memory, &[], true).expect("each its own");
    let same = "mul.wide.u32 %rd4, %r1, 4; ld.param.b64 %rd5, [p]; add.s64 %rd5, %rd5, %rd4; st.global.b32 [%rd5], %r1;";
    let error = run(2, same, &mut memory, &[], true).expect_err("a race");
    assert!(
        matches!(error, Error::Race { place, other, .. } if place.block[0] == 1 && other.block[0] == 0),
        "{error}"
    );
    run(2, "ld.global.b32 %r4, [%rd2];", &mut memory, &[1], true).expect("all may read");
}

#[test]
fn a_barrier_must_be_met_by_all() {
    let (line, text) = error("setp.eq.u32 %p1, %r1, 40;\n@%p1 ret;\nbar.sync 0;");
    assert!(line == 3 && text.contains("thread [40, 0, 0] does not meet"), "{line} {text}");
    let (_, text) =
        error("setp.eq.u32 %p1, %r1, 40;\n@%p1 bra $other;\nbar.sync 0; ret;\n$other:\nbar.sync 0;");
    assert!(text.contains("does not meet"), "{text}");
}

#[test]
fn launches_that_no_gpu_takes_are_refused() {
    let text =
        ".version 8.0 .target sm_80 .address_size 64 .entry k(.param .u64 p) .reqntid 32, 1, 1 { ret; }";
    let module = Module::parse(text).expect("parsed");
    let launch =
        |grid, block, parameters: &[u64]| module.launch("k", grid, block, parameters, &mut Memory::new());
    assert_eq!(launch([1, 1, 1], [32, 1, 1], &[0]), Ok(()));
    for (grid, block, parameters) in [
        ([0, 1, 1], [32, 1, 1], &[0u64][..]),
        ([1, 65_536, 1], [32, 1, 1], &[0]),
        ([1, 1, 1], [64, 1, 1], &[0]),
        ([1, 1, 1], [32, 1, 1], &[]),
    ] {
        assert!(matches!(launch(grid, block, parameters), Err(Error::Launch(_))), "{grid:?} {block:?}");
    }
    assert_eq!(
        module.launch("m", [1, 1, 1], [32, 1, 1], &[0], &mut Memory::new()),
        Err(Error::NoEntry("m".into()))
    );
}

#[test]
fn division_by_zero_is_reported() {
    let (_, text) = error("mov.b32 %r4, 0; rem.u32 %r5, %r1, %r4;");
    assert!(text.contains("division by zero"), "{text}");
}
