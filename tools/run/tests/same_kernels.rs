//! Steps whose kernels are near ATen and not equal to it: `--check` compares bits with the same kernels in the original order (S8), and
//! reports how far both are from ATen.

use std::path::Path;
use std::process::{Command, Output};

use rk_sample_steps::{Builder, call, f, spec, v};
use rk_step::kernel::{Buffer, Kernel, Launch, Library};
use rk_step::{ElementType, Instr, Nearness, OutputRole, Role, Run, Slot, Step};
use serde_json::Value;

const N: u64 = 64;

/// Twice a number, `off` units in the last place too large.
fn source(off: u32) -> String {
    format!(
        "union number {{ float value; unsigned bits; }};
         static float twice(float x, unsigned off) {{
           union number y = {{ 2.0f * x }};
           y.bits += off;
           return y.value;
         }}
         void in_place(void *const *b, long from, long to) {{
           for (float *x = b[0]; from < to; from++) x[from] = twice(x[from], 1);
         }}
         void aside(void *const *b, long from, long to) {{
           const float *x = b[0];
           for (float *y = b[1]; from < to; from++) y[from] = twice(x[from], {off});
         }}"
    )
}

/// A shared object of these kernels, made by the C compiler that links Rust, too.
fn library(folder: &Path, off: u32) -> Library {
    let (from, to) = (folder.join("k.c"), folder.join("k.so"));
    std::fs::write(&from, source(off)).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-shared", "-fPIC", "-nostdlib", "-o"]).arg(&to).arg(&from);
    assert!(compiler.status().unwrap().success());
    let elf = std::fs::read(to).unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    let level = if cfg!(target_arch = "x86_64") { "x86-64-v3" } else { "generic" };
    Library { level: level.into(), elf, ptx: vec![] }
}

/// `y = 2 m` for a random mask `m`, by a kernel that overwrites the mask in the original order, and makes `y` aside in the program.
/// `z = 0.5 y` follows.
fn step(folder: &Path, off: u32) -> Step {
    let mut b = Builder::new("near");
    let x = b.arg("x", Role::Input, ElementType::F32, &[N as i64]);
    let draw = call("bernoulli.p", vec![v(0), f(0.5)], &[1]);
    let mask = b.node("mask", &[x], vec![draw], &[(1, 4 * N)])[0];
    b.last().random = true;
    let y = b.node("twice", &[mask], vec![call("mul_.Scalar", vec![v(0), f(2.0)], &[-1])], &[(0, 4 * N)])[0];
    b.last().overwrites = Some(0);
    let launch = |symbol: &str, buffers| Launch { symbol: symbol.into(), buffers, geometry: None };
    b.last().kernel = Some(Kernel {
        aside: launch("aside", vec![Buffer::Input(0), Buffer::Output(0)]),
        in_place: Some(launch("in_place", vec![Buffer::Output(0)])),
        inputs: vec![spec(ElementType::F32, &[N as i64])],
        outputs: vec![spec(ElementType::F32, &[N as i64])],
        rows: N,
        row_elements: 1,
        nearness: Some(Nearness { ulps: 1, terms: 0 }),
    });
    let z = b.node("half", &[y], vec![call("mul.Scalar", vec![v(0), f(0.5)], &[1])], &[(1, 4 * N)])[0];
    b.output(OutputRole::Output, "0", z);
    b.step.library = Some(library(folder, off));
    let mut step = b.finish();
    let taken = step.program.instrs.iter().position(|i| matches!(i, Instr::Run(run) if run.overwrite));
    let Some(Instr::Run(run)) = taken.map(|at| &mut step.program.instrs[at]) else { panic!("in place") };
    run.overwrite = false;
    let operand = run.inputs[0];
    step.program.instrs.insert(taken.unwrap() + 1, Instr::Drop(operand));
    step
}

fn check(folder: &Path, step: &Step, also: &[&str]) -> (Output, Value) {
    rk_step::write(step, &folder.join("near.rkx")).unwrap();
    let arguments = ["near.rkx", "--check", "--json", "--repeat", "0", "--steps", "2"];
    let output = Command::new(env!("CARGO_BIN_EXE_rk-run"))
        .args([&arguments, also].concat())
        .current_dir(folder)
        .env("OMP_NUM_THREADS", "1")
        .output()
        .unwrap();
    let json = serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {output:?}"));
    (output, json)
}

#[test]
fn bits_are_those_of_the_same_kernels_and_the_distance_from_aten_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let (output, json) = check(folder.path(), &step(folder.path(), 1), &[]);
    assert_eq!(output.status.code(), Some(0), "{json}");
    assert_eq!(
        (&json["bit_equal"], &json["stated_ulps"], &json["stated_terms"]),
        (&true.into(), &1.into(), &0.into())
    );
    assert_eq!(json["distance_ulps"], 1.0, "{json}");
    let (_, exact) = check(folder.path(), &step(folder.path(), 1), &["--kernels", "off"]);
    assert_eq!((&exact["bit_equal"], &exact["stated_ulps"]), (&true.into(), &Value::Null));
    assert!(exact["distance_ulps"].is_null(), "{exact}");
}

/// Both kernels are as near to ATen as before, but they do not agree.
#[test]
fn a_kernel_with_other_bits_aside_than_in_place_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (output, json) = check(folder.path(), &step(folder.path(), 0), &[]);
    assert_eq!(output.status.code(), Some(4), "{json}");
    let text = String::from_utf8(output.stderr).unwrap();
    let start = "rk-run: bits differ: step 1: output \"0\", against the original order with the same kernels differs in ";
    assert!(text.starts_with(start), "{text}");
}

/// The program draws the mask a second time, with another state of the generator.
#[test]
fn a_plan_that_forgets_the_generator_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut step = step(folder.path(), 1);
    step.nodes[0].random = false;
    let Instr::Run(first) = step.program.instrs[0].clone() else { panic!("the mask") };
    let again = Slot(step.program.slots);
    step.program.slots += 1;
    let rerun = Run { again: true, outputs: vec![again], ..first.clone() };
    for instr in &mut step.program.instrs[1..] {
        match instr {
            Instr::Run(run) => {
                run.inputs.iter_mut().filter(|slot| **slot == first.outputs[0]).for_each(|slot| *slot = again)
            }
            Instr::Drop(slot) if *slot == first.outputs[0] => *slot = again,
            Instr::Drop(_) => {}
        }
    }
    step.program.instrs.splice(1..1, [Instr::Drop(first.outputs[0]), Instr::Run(rerun)]);
    let (output, json) = check(folder.path(), &step, &[]);
    assert_eq!(output.status.code(), Some(4), "{json}");
    assert_eq!(json["bit_equal"], false);
}
