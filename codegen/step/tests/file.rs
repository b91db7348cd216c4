//! Step files: what is written can be read, and every bad file gets one clear line.

mod sample;

use rk_step::{ArgValue, StepError, file};

fn text() -> String {
    file::print(&sample::block()).unwrap()
}

fn refuse(text: &str) -> String {
    file::parse(text.as_bytes(), "block.rkx").unwrap_err().to_string()
}

/// As [`refuse`], for a text that was edited on purpose.
fn refuse_sealed(text: &str) -> String {
    refuse(&file::seal(text))
}

#[test]
fn what_is_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("block.rkx");
    rk_step::write(&sample::block(), &path).unwrap();
    assert_eq!(rk_step::read(&path).unwrap(), sample::block());
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "no temporary file stays");
}

#[test]
fn the_text_form() {
    insta::assert_snapshot!(text());
}

#[test]
fn floats_come_back_with_the_same_bits() {
    let floats =
        [0.1, -0.0, 1e-45, 5e-324, 1.0 / 3.0, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, 9007199254740993.0];
    for x in floats {
        let json = serde_json::to_string(&ArgValue::Float(x)).unwrap();
        let ArgValue::Float(y) = serde_json::from_str(&json).unwrap() else { panic!("{json}") };
        assert_eq!(x.to_bits(), y.to_bits(), "{json}");
    }
    let nan = serde_json::to_string(&ArgValue::Float(f64::NAN)).unwrap();
    assert!(matches!(serde_json::from_str(&nan).unwrap(), ArgValue::Float(x) if x.is_nan()), "{nan}");
}

#[test]
fn arguments_come_back() {
    let args = vec![
        ArgValue::None,
        ArgValue::Bool(true),
        ArgValue::Int(i64::MIN),
        ArgValue::Str("mean".into()),
        ArgValue::List(vec![ArgValue::Value(3), ArgValue::None, ArgValue::Int(-1)]),
    ];
    let json = serde_json::to_string(&args).unwrap();
    insta::assert_snapshot!(json, @r#"[null,true,-9223372036854775808,"mean",[{"v":3},null,-1]]"#);
    assert_eq!(serde_json::from_str::<Vec<ArgValue>>(&json).unwrap(), args);
}

#[test]
fn another_version_is_refused_by_its_version() {
    let other = text().replace("\"version\": 6", "\"version\": 7").replace("\"nodes\"", "\"knots\"");
    insta::assert_snapshot!(refuse(&other), @"block.rkx: step format version 7 (written by rk 0.1.0), but this rk reads version 6; translate the step again");
}

#[test]
fn truncated_anywhere() {
    let whole = text();
    for cut in (1..whole.len() - 3).step_by(97) {
        let message = refuse(&whole[..cut]);
        assert!(message.contains("truncated"), "cut at {cut}: {message}");
    }
    let half = &whole[..whole.len() / 2];
    insta::assert_snapshot!(refuse(half), @"block.rkx: the file ends early, at line 20: it is truncated");
}

#[test]
fn foreign_files() {
    let messages: Vec<String> =
        ["", "module {}\n", "PK\u{3}\u{4}", "[1, 2]", "{\"a\": 1}"].into_iter().map(refuse).collect();
    insta::assert_snapshot!(messages.join("\n"), @r#"
    block.rkx: not a step file (it is empty); `rk-translate --to step` writes one
    block.rkx: not a step file (it is not a JSON object); `rk-translate --to step` writes one
    block.rkx: not a step file (it is not a JSON object); `rk-translate --to step` writes one
    block.rkx: not a step file (it is not a JSON object); `rk-translate --to step` writes one
    block.rkx: not a step file (it has no "format": "rk-step"); `rk-translate --to step` writes one
    "#);
}

#[test]
fn broken_fields() {
    let cases = [
        ("\"nodes\"", "\"knots\""),
        ("\"alignment\": 64", "\"alignment\": \"64\""),
        ("\"f32\"", "\"f33\""),
        ("{\"f\":\"0.1\"}", "{\"f\":\"zero\"}"),
        ("{\"f\":\"0.1\"}", "{\"g\":0}"),
        ("\"slots\": 6", "\"slots\": -6"),
    ];
    let messages: Vec<String> = cases
        .into_iter()
        .map(|(from, to)| {
            assert!(text().contains(from), "{from}");
            refuse_sealed(&text().replace(from, to))
        })
        .collect();
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_missing_file_and_an_unwritable_folder() {
    let folder = tempfile::tempdir().unwrap();
    let absent = folder.path().join("absent/block.rkx");
    assert!(matches!(rk_step::read(&absent), Err(StepError::Io { .. })));
    assert!(matches!(rk_step::write(&sample::block(), &absent), Err(StepError::Io { .. })));
}

#[test]
fn every_flipped_bit_is_seen() {
    let whole = text().into_bytes();
    for at in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (at % 8);
        let message = file::parse(&flipped, "block.rkx").unwrap_err().to_string();
        assert_eq!(message.lines().count(), 1, "byte {at}: {message}");
    }
    let other = text().replace("1000", "1001");
    insta::assert_snapshot!(refuse(&other), @"block.rkx: the file is damaged: its content does not match its checksum; copy it again, or translate the step again");
}

/// Damage of any kind is refused or harmless, and never a panic or a request for all memory.
#[test]
fn damaged_files_do_not_panic() {
    let whole = text();
    let mut rng = 1u64;
    let mut draw = |n: usize| {
        rng = rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (rng >> 33) as usize % n
    };
    let scraps = [
        "0",
        "-1",
        "99",
        "4294967295",
        "1e999",
        "null",
        "[]",
        "{}",
        "true",
        "\"x\"",
        "",
        ",",
        "[[",
        "{\"v\":5}",
    ];
    let (mut refused, mut read) = (0, 0);
    for _ in 0..4000 {
        let mut damaged = whole.clone().into_bytes();
        let start = draw(damaged.len());
        let end = (start + draw(4)).min(damaged.len());
        damaged.splice(start..end, scraps[draw(scraps.len())].bytes());
        let sealed = std::str::from_utf8(&damaged).map(file::seal).unwrap_or_default();
        match file::parse(sealed.as_bytes(), "damaged.rkx") {
            Ok(step) => {
                read += 1;
                rk_step::explain(&step).unwrap();
                rk_step::original(&step).unwrap();
            }
            Err(e) => {
                refused += 1;
                assert_eq!(e.to_string().lines().count(), 1, "{e}");
            }
        }
    }
    assert!(refused > 3000 && read > 50, "{refused} refused, {read} read");
}
