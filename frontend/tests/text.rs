//! The text that people read: small modules as snapshots, without what differs between machines.

mod common;

use rk_frontend::{Device, ImportOptions, InputSource, LossSpec, Timing, import};

/// Imports a model; digests, thread counts and costs are blanked out.
fn module(name: &str, loss: LossSpec) -> Option<String> {
    let folder = common::archives(&["mlp", "dropout_difference", "tied"])?;
    let _turn = common::turn();
    let archive = folder.join(format!("{name}.pt"));
    let options = ImportOptions {
        archive_name: archive.display().to_string(),
        archive,
        inputs: InputSource::Traced,
        loss,
        device: Device::Cpu,
        measure: Timing::None,
        deterministic: false,
        seed: 0,
    };
    let text = import(&options, &mut |_| {}).unwrap().text;
    let text = text.replace(&format!("{}/", folder.display()), "");
    let text = blank(&text, "sha256 = \"", "\"");
    let text = blank(&text, "threads = ", " ");
    Some(blank(&text, "cost <", ">"))
}

/// Replaces what stands between `open` and `close` by three dots.
fn blank(text: &str, open: &str, close: &str) -> String {
    let mut parts = text.split(open);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.find(close).map_or("", |end| &part[end..]);
        out.push_str(&format!("{open}...{rest}"));
    }
    out
}

#[test]
fn a_perceptron() {
    let Some(text) = module("mlp", LossSpec::Mean) else { return };
    insta::assert_snapshot!(text);
}

#[test]
fn dropout_twice() {
    let Some(text) = module("dropout_difference", LossSpec::None) else { return };
    insta::assert_snapshot!(text);
}

#[test]
fn tied_weights_and_nested_outputs() {
    let Some(text) = module("tied", LossSpec::Output(0)) else { return };
    insta::assert_snapshot!(text);
}
