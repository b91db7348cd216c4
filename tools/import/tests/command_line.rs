//! `rk-import` as its users meet it: what it writes, what it says when it cannot, and its exit codes.
//!
//! Archives are made by Python at test time (`frontend/tests/models.py`); without Python the tests are skipped
//! aloud.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const MODELS: [&str; 9] = [
    "mlp",
    "nested_inputs",
    "indexing",
    "dropout_difference",
    "bad_nonzero",
    "bad_item",
    "bad_window",
    "bad_written_later",
    "bad_written_before",
];

fn archives() -> Option<&'static Path> {
    static FOLDER: OnceLock<Option<tempfile::TempDir>> = OnceLock::new();
    let made = FOLDER.get_or_init(|| {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let python = root.join(".venv/bin/python");
        if !python.exists() {
            eprintln!("skipped: no {}; `cargo xtask setup` makes it", python.display());
            return None;
        }
        let folder = tempfile::tempdir().expect("a temporary folder");
        let script = root.join("frontend/tests/models.py");
        let run = Command::new(&python)
            .arg(script)
            .arg(folder.path())
            .args(MODELS)
            .output()
            .expect("python starts");
        assert!(run.status.success(), "models.py failed:\n{}", String::from_utf8_lossy(&run.stderr));
        Some(folder)
    });
    made.as_ref().map(tempfile::TempDir::path)
}

/// Runs `rk-import` in its own empty folder; gives the output and the folder.
fn run(arguments: &[&str]) -> (Output, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_rk-import"))
        .args(arguments)
        .current_dir(folder.path())
        .output()
        .unwrap();
    (output, folder)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command fails with `code` and one line that holds every one of `words`; nothing is left behind.
fn check_error(arguments: &[&str], code: i32, words: &[&str]) {
    let (output, folder) = run(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {error}");
    if code != 2 || error.starts_with("rk-import:") {
        assert_eq!(error.trim_end().lines().count(), 1, "{arguments:?}: one line, but: {error}");
    }
    for word in words {
        assert!(error.contains(word), "{arguments:?}: '{word}' is missing in: {error}");
    }
    let left: Vec<PathBuf> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
    assert!(left.is_empty(), "{arguments:?} left {left:?}");
}

fn path(folder: &Path, name: &str) -> String {
    folder.join(name).display().to_string()
}

#[test]
fn a_model_becomes_a_module_and_twice_the_same() {
    let Some(folder) = archives() else { return };
    let model = path(folder, "mlp.pt");
    let (first, place) = run(&[&model, "-o", "step.mlir"]);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(first.stdout.is_empty(), "standard output carries results only");
    let module = std::fs::read_to_string(place.path().join("step.mlir")).unwrap();
    let (second, _) = run(&[&model, "-o", "-"]);
    assert_eq!(text(&second.stdout), module);
    for part in [
        "rk.stage = #rk.stage<raw>",
        "rk.cost_model = \"roofline\"",
        "inputs = [\"f32[4,8]\"]",
        "{rk.role = \"parameter\", rk.name = \"0.weight\", rk.trainable}",
        "{rk.role = \"gradient\", rk.name = \"2.bias\"}",
        "\"aten.relu_.default\"(%addmm) writes(0) aliases(0) cost <",
        "loc(\"1\")",
    ] {
        assert!(module.contains(part), "'{part}' is missing in:\n{module}");
    }
}

/// Runs `rk-import - -o -` on these bytes.
fn piped(archive: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-import"));
    command.args(["-", "-o", "-"]).stdin(std::fs::File::open(archive).unwrap()).output().unwrap()
}

#[test]
fn a_dash_is_standard_input() {
    let Some(folder) = archives() else { return };
    let model = folder.join("mlp.pt");
    let (named, _) = run(&[model.to_str().unwrap(), "-o", "-"]);
    let read = piped(&model);
    assert!(read.status.success(), "{}", text(&read.stderr));
    let expected =
        text(&named.stdout).replace(&format!("archive = \"{}\"", model.display()), "archive = \"-\"");
    assert_eq!(text(&read.stdout), expected);

    let garbage = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(garbage.path(), "garbage").unwrap();
    let refused = piped(garbage.path());
    assert_eq!(refused.status.code(), Some(3));
    assert!(
        text(&refused.stderr).starts_with("rk-import: error: standard input"),
        "{}",
        text(&refused.stderr)
    );
}

#[test]
fn inputs_loss_and_measurement_are_as_asked() {
    let Some(folder) = archives() else { return };
    let model = path(folder, "mlp.pt");
    let asked = ["--input", "f32[6,8]", "--loss", "mean", "--seed", "5", "--measure", "2", "-o", "-"];
    let (output, _) = run(&[[model.as_str()].as_slice(), &asked].concat());
    let module = text(&output.stdout);
    for part in
        ["tensor<6x8xf32>", "loss = \"mean\"", "seed = 5 : i64", "rk.cost_model = \"measured\"", "aten.mean"]
    {
        assert!(module.contains(part), "'{part}' is missing in:\n{module}\n{}", text(&output.stderr));
    }
    let (forward, _) = run(&[&model, "--loss", "none", "-o", "-"]);
    assert!(!text(&forward.stdout).contains(" backward "), "--loss none is forward only");
}

#[test]
fn inputs_come_from_a_file() {
    let Some(folder) = archives() else { return };
    for name in ["mlp", "nested_inputs", "indexing"] {
        let (model, inputs) =
            (path(folder, &format!("{name}.pt")), path(folder, &format!("{name}.inputs.pt")));
        let (output, _) = run(&[&model, "--inputs", &inputs, "-o", "-"]);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("inputs_file = "), "{name}");
    }
    let (model, inputs) = (path(folder, "mlp.pt"), path(folder, "nested_inputs.inputs.pt"));
    check_error(&[&model, "--inputs", &inputs, "-o", "x"], 4, &["too many inputs"]);
    check_error(&[&model, "--inputs", &model, "-o", "x"], 4, &["mlp.pt"]);
    check_error(&[&model, "--inputs", "missing.pt", "-o", "x"], 4, &["missing.pt", "cannot read"]);
}

#[test]
fn what_is_no_archive_is_refused() {
    let Some(folder) = archives() else { return };
    let place = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| {
        std::fs::write(place.path().join(name), bytes).unwrap();
        path(place.path(), name)
    };
    let whole = std::fs::read(folder.join("mlp.pt")).unwrap();
    check_error(&["missing.pt", "-o", "x"], 3, &["missing.pt", "No such file"]);
    check_error(&[&write("empty.pt", b""), "-o", "x"], 3, &["empty.pt", "is empty"]);
    check_error(
        &[&write("words.pt", b"hello, world"), "-o", "x"],
        3,
        &["words.pt", "not a torch.jit archive"],
    );
    for part in [100, whole.len() / 2, whole.len() - 10] {
        check_error(
            &[&write("cut.pt", &whole[..part]), "-o", "x"],
            3,
            &["cut.pt", "not a torch.jit archive"],
        );
    }
    // A zip file of torch, but not of torch.jit.
    check_error(
        &[&path(folder, "mlp.inputs.pt"), "-o", "x"],
        3,
        &["mlp.inputs.pt", "not a torch.jit archive"],
    );
}

#[test]
fn a_trace_that_does_not_match_its_inputs_says_where() {
    let Some(folder) = archives() else { return };
    let model = path(folder, "mlp.pt");
    let input = |spec: &str| ["--input".to_owned(), spec.to_owned()];
    let check = |specs: &[&str], words: &[&str]| {
        let specs: Vec<String> = specs.iter().flat_map(|spec| input(spec)).collect();
        let mut arguments = vec![model.as_str(), "-o", "x"];
        arguments.extend(specs.iter().map(String::as_str));
        check_error(&arguments, 4, words);
    };
    check(&["f32[4,9]"], &["f32[4,9]", "aten::linear at 0", "traced with f32[4,8]"]);
    check(&["i64[4,8]"], &["i64[4,8]", "aten::linear at 0"]);
    check(&["f32[4,8]", "f32[4,8]"], &["too many inputs: forward takes 1, 2 given"]);
}

#[test]
fn what_cannot_be_imported_is_named_with_its_reason() {
    let Some(folder) = archives() else { return };
    let check = |name: &str, words: &[&str]| check_error(&[&path(folder, name), "-o", "x"], 5, words);
    check("bad_nonzero.pt", &["aten.index.Tensor", "'<root>'", "shape of its result depends on the data"]);
    check("bad_item.pt", &["aten._local_scalar_dense", "number that depends on the data"]);
    check(
        "bad_window.pt",
        &["aten.equal.default", "depends on the data", "buffers that the step does not write"],
    );
    check("bad_written_later.pt", &["aten.add_", "writes to a buffer", "aten.nonzero.default has read"]);
    check("bad_written_before.pt", &["aten.nonzero.default", "depends on the data"]);
}

#[test]
fn a_wrong_command_line_is_told_apart() {
    let Some(folder) = archives() else { return };
    let model = path(folder, "mlp.pt");
    check_error(&[&model], 2, &["--output"]);
    check_error(&[&model, "--input", "f33[2]", "-o", "x"], 2, &["f33", "f32[8,3,224,224]"]);
    check_error(&[&model, "--loss", "product", "-o", "x"], 2, &["sum, mean, output:N, none"]);
    check_error(&[&model, "--loss", "output:9", "-o", "x"], 2, &["output:9 does not exist"]);
    check_error(&[&model, "--device", "tpu", "-o", "x"], 2, &["cpu, cuda, cuda:N"]);
    check_error(&[&model, "--measure", "-1", "-o", "x"], 2, &[]);
    let (help, _) = run(&["--help"]);
    assert!(help.status.success() && text(&help.stdout).contains("Exit codes:"));
}

#[test]
fn an_unwritable_output_leaves_nothing() {
    let Some(folder) = archives() else { return };
    let model = path(folder, "mlp.pt");
    check_error(&[&model, "-o", "no/such/folder/step.mlir"], 6, &["no/such/folder/step.mlir"]);
    let place = tempfile::tempdir().unwrap();
    check_error(&[&model, "-o", &place.path().display().to_string()], 6, &["it is a folder"]);
}

#[test]
fn a_missing_gpu_is_an_error_in_words() {
    let Some(folder) = archives() else { return };
    let (output, _) = run(&[&path(folder, "mlp.pt"), "--device", "cuda:7", "-o", "x"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("device cuda:7 is not there"), "{}", text(&output.stderr));
}
