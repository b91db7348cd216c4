//! What a script sees of `rk-opt` and `rk-translate` when something is wrong: the exit code, one clear line, no file.

use std::path::Path;
use std::process::{Command, Output, Stdio};

/// A step of two nodes that needs 12 KiB at once, and 16 KiB without recomputation.
const STEP: &str = r#"
rk.node @norm cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.tanh.default"(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  rk.yield %y : tensor<32x32xf32>
}
rk.node @up cost <1000 ns, workspace 0 B> {
^bb0(%x: tensor<32x32xf32>):
  %y = rk.aten "aten.cat.default"([%x, %x], 0) : (tensor<32x32xf32>, tensor<32x32xf32>) -> tensor<64x32xf32>
  rk.yield %y : tensor<64x32xf32>
}
func.func @step(%x: tensor<32x32xf32>) -> tensor<64x32xf32> attributes {rk.stage = #rk.stage<costed>} {
  %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
  %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
  return %up : tensor<64x32xf32>
}
"#;

fn opt(folder: &Path, source: &str, pass: &str, output: &Path) -> Output {
    let input = folder.join("in.mlir");
    std::fs::write(&input, source).expect("the folder is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-opt"));
    command.arg(&input).arg(pass).arg("-o").arg(output).output().expect("rk-opt starts")
}

/// Runs `rk-opt` and expects this exit code, this text in the message, and no file left behind.
fn refused(source: &str, pass: &str, code: i32, says: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.mlir");
    let done = opt(folder.path(), source, pass, &output);
    let message = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{message}");
    assert!(message.contains(says), "{message}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("readable").flatten().collect();
    assert_eq!(left.len(), 1, "only the input is left, not {left:?}");
}

#[test]
fn a_budget_that_cannot_be_met_is_2_and_names_one_that_can() {
    refused(STEP, "--rematerialize=budget=8KiB", 2, "the smallest feasible budget found is 12.00 KiB");
}

#[test]
fn a_budget_that_is_none_is_4() {
    for budget in ["0", "-1", "10ZB", "lots"] {
        refused(STEP, &format!("--rematerialize=budget={budget}"), 4, "option 'budget' of rematerialize");
    }
    refused(STEP, "--rematerialize=budget='5 %%'", 4, "option 'budget' of rematerialize");
}

#[test]
fn a_stage_that_cannot_be_planned_is_5() {
    let lowered = "func.func @step() attributes {rk.stage = #rk.stage<lowered>} { return }";
    refused(lowered, "--rematerialize=budget=1GiB", 5, "cannot plan a step at stage lowered");
}

#[test]
fn a_file_that_is_no_module_is_1_at_its_line() {
    refused("func.func @step(\n  %x: tensor<", "--rematerialize=budget=1GiB", 1, "in.mlir:2:");
}

#[test]
fn an_output_that_cannot_be_written_is_6() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("missing").join("out.mlir");
    let done = opt(folder.path(), STEP, "--rematerialize=budget=1GiB", &output);
    let message = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.code(), Some(6), "{message}");
    assert!(message.contains("cannot write"), "{message}");
}

/// The exit code of `rk-opt` on two modules in one file, with this standard output.
fn printed(second: &str, output: Stdio) -> Option<i32> {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.mlir");
    std::fs::write(&input, format!("{STEP}\n// -----\n{second}")).expect("the folder is writable");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-opt"));
    command.arg(&input).args(["--split-input-file", "--rematerialize=budget=100%"]);
    command.stdout(output).stderr(Stdio::null()).status().expect("rk-opt starts").code()
}

/// A pipe whose reader has gone.
fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    writer.into()
}

#[test]
fn a_reader_that_has_seen_enough_hides_no_failure() {
    assert_eq!(printed(STEP, closed_pipe()), Some(0));
    assert_eq!(printed("this is no module", closed_pipe()), Some(1));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_6() {
    let full = || std::fs::File::create("/dev/full").expect("Linux has it");
    assert_eq!(printed(STEP, full().into()), Some(6));
    assert_eq!(printed("this is no module", full().into()), Some(1));
}

#[test]
fn a_plan_that_fits_is_0_and_the_file_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let output = folder.path().join("out.mlir");
    let done = opt(folder.path(), STEP, "--rematerialize=budget=12KiB", &output);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let text = std::fs::read_to_string(&output).expect("written");
    assert!(text.contains("rk.stage = #rk.stage<scheduled>"), "{text}");
}

#[test]
fn translating_says_why_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let input = folder.path().join("in.mlir");
    let translate = |source: &str, output: &Path| {
        std::fs::write(&input, source).expect("writable");
        let mut command = Command::new(env!("CARGO_BIN_EXE_rk-translate"));
        let done = command.arg(&input).args(["--to", "step", "-o"]).arg(output).output().expect("it starts");
        done.status.code()
    };
    let output = folder.path().join("out.rkx");
    let raw = "func.func @step() attributes {rk.stage = #rk.stage<raw>} { return }";
    assert_eq!(translate("no module", &output), Some(3));
    assert_eq!(translate(raw, &output), Some(4));
    assert!(!output.exists());
    assert_eq!(translate(STEP, &folder.path().join("missing").join("out.rkx")), Some(6));
    assert_eq!(translate(STEP, &output), Some(0));
    assert!(output.exists());
}

#[test]
fn a_dash_is_standard_output() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("in.mlir"), STEP).expect("writable");
    let said = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rk-translate"));
        command.current_dir(folder.path()).args(["in.mlir", "--to", "step"]).args(more);
        command.output().expect("it starts").stdout
    };
    assert_eq!(said(&["-o", "-"]), said(&[]));
    assert!(!said(&[]).is_empty() && !folder.path().join("-").exists());
}
