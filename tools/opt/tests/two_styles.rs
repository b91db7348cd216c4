//! Real networks whose every other block is written in another style: saturation finds the classes of the plain network, the
//! comparison of texts does not.
//!
//! The networks are traced by `examples/repeated.py` and imported by `rk-import`, so this needs Python and the tool; without
//! them it is skipped aloud.

use std::path::Path;
use std::process::Command;

/// The report of `--rk-anonymize` on a network, or `None` without what is needed to make it.
fn report(network: &str) -> Option<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let opt = Path::new(env!("CARGO_BIN_EXE_rk-opt"));
    let (python, import) = (root.join(".venv/bin/python"), opt.with_file_name("rk-import"));
    for needed in [&python, &import] {
        if !needed.exists() {
            eprintln!("skipped: no {}; `cargo xtask setup` makes it", needed.display());
            return None;
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let (archive, raw) = (folder.path().join("model.pt"), folder.path().join("raw.mlir"));
    let run = |command: &mut Command| {
        let done = command.env("OMP_WAIT_POLICY", "passive").output().expect("it starts");
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{network}: {command:?}\n{said}");
        said
    };
    run(Command::new(python).arg(root.join("examples/repeated.py")).arg(network).arg(&archive));
    run(Command::new(import).arg(&archive).arg("-o").arg(&raw));
    let passes = ["--rk-dataflow", "--rk-simplify", "--rk-anonymize", "--remarks-filter=anonymize", "-o"];
    let said = run(Command::new(opt).arg(&raw).args(passes).arg("/dev/null"));
    let from = said.find("Remark=\"").expect("a remark") + "Remark=\"".len();
    let text = &said[from..];
    Some(text[..text.find('"').expect("its end")].to_owned())
}

#[track_caller]
fn check(network: &str, expected: &str) {
    if let Some(report) = report(network) {
        assert_eq!(report.trim(), expected.trim(), "{network}\n{report}");
    }
}

#[test]
fn a_transformer() {
    check(
        "transformer-3",
        "5 blocks in 3 classes (3 by text), forward 3 (3 by text), 3 of equal cost; 171 nodes in 53 cost classes
class 0: embed
class 1 x3: layers.0, layers.1, layers.2
class 2: norm..loss",
    );
    check(
        "transformer-3-styled",
        "5 blocks in 3 classes (4 by text), forward 3 (4 by text), 3 of equal cost; 171 nodes in 53 cost classes
class 0: embed
class 1 x3: layers.0, layers.1, layers.2
class 2: norm..loss",
    );
}

#[test]
fn a_residual_network() {
    check(
        "bottlenecks-4-styled",
        "16 blocks in 10 classes (14 by text), forward 10 (14 by text), 10 of equal cost; 359 nodes in 114 cost classes
class 0: conv1..maxpool
class 1: layer1.0
class 2 x2: layer1.1, layer1.2
class 3: layer2.0
class 4 x3: layer2.1, layer2.2, layer2.3
class 5: layer3.0
class 6 x3: layer3.1, layer3.2, layer3.3
class 7: layer4.0
class 8 x2: layer4.1, layer4.2
class 9: avgpool..loss",
    );
}

#[test]
fn a_mixer() {
    check(
        "mixer-4-styled",
        "6 blocks in 4 classes (5 by text), forward 4 (5 by text), 4 of equal cost; 200 nodes in 55 cost classes
class 0: stem.proj..blocks.0.mlp_tokens.drop2
class 1 x3: blocks.0.norm2..1.mlp_tokens.drop2, blocks.1.norm2..2.mlp_tokens.drop2, blocks.2.norm2..3.mlp_tokens.drop2
class 2: blocks.3.norm2..norm
class 3: head..loss",
    );
}
