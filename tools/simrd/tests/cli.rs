//! The binary as others call it: its contract, its errors, its exit codes, its files.

use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output};

fn rk_simrd(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rk-simrd")).args(args).output().expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Forward and backward of two layers, with a view, an in-place operator and a dead value.
const LOG: &str = r#"{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"w"}
{"ARGS":["w"],"INSTRUCTION":"CALL","NAME":"mm","RESULT":["a"],"TIME":"5"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"a"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"a"}
{"ARGS":["a"],"INSTRUCTION":"CALL","NAME":"view","RESULT":["v"],"TIME":"1"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"v"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"v"}
{"ARGS":["v"],"INSTRUCTION":"CALL","NAME":"conv","RESULT":["c"],"TIME":"20"}
{"INSTRUCTION":"MEMORY","MEMORY":"100","NAME":"c"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"c"}
{"ARGS":["c"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"relu_","TIME":"3"}
{"ARGS":["c","v"],"INSTRUCTION":"CALL","NAME":"conv_backward","RESULT":["g"],"TIME":"9"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"g"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"g"}
{"INSTRUCTION":"RELEASE","NAME":"c"}
{"INSTRUCTION":"RELEASE","NAME":"v"}
{"INSTRUCTION":"RELEASE","NAME":"a"}
"#;

#[test]
fn a_dash_is_standard_input() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = write(folder.path(), "net.log", LOG.as_bytes());
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-simrd"));
    command.args(["run", "-", "--heuristic", "h_lru", "--ratio", "0.9"]);
    let input = std::fs::File::open(&log).expect("it is there");
    let piped = command.stdin(input).output().expect("the binary runs");
    let named = rk_simrd(&["run", &log, "--heuristic", "h_lru", "--ratio", "0.9"]);
    assert!(piped.status.success() && named.status.success(), "{piped:?}");
    assert_eq!(text(&piped.stdout).replace("-", "net"), text(&named.stdout).replace("-", "net"));
}

fn write(folder: &Path, name: &str, content: &[u8]) -> String {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("the folder is ours");
    path.to_string_lossy().into_owned()
}

fn compressed(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn run_prints_one_object_per_run_heuristics_in_the_outer_loop() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = write(folder.path(), "step.log", LOG.as_bytes());
    let zipped = write(folder.path(), "step.log.gz", &compressed(LOG.as_bytes()));
    let args =
        ["--heuristic", "h_dtr", "--heuristic", "ab_none_size", "--ratio", "1.0", "--ratio", "0.2", "--json"];
    let output = rk_simrd(&[&["run", &log], &args[..]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let lines: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let order: Vec<_> = lines.iter().map(|l| (l["heuristic"].as_str(), l["ratio"].as_f64())).collect();
    let (dtr, size) = (Some("h_dtr"), Some("ab_none_size"));
    assert_eq!(order, [(dtr, Some(1.0)), (dtr, Some(0.2)), (size, Some(1.0)), (size, Some(0.2))]);
    let status: Vec<_> = lines.iter().map(|l| l["status"].as_str()).collect();
    assert_eq!(status, [Some("ok"), Some("oom"), Some("ok"), Some("oom")]);
    assert_eq!((lines[0]["clock"].as_u64(), lines[0]["remat"].as_u64()), (Some(39), Some(0)));
    assert_eq!(lines[0]["overhead"].as_f64(), Some(39.0 / 38.0));
    for key in ["max_memory", "evals"] {
        assert!(lines.iter().all(|l| l[key].is_u64()), "{key}");
    }
    // All but the wall time is the same for the compressed log.
    let without_time = |output: &Output| -> Vec<Value> {
        let mut lines: Vec<Value> =
            text(&output.stdout).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        lines.iter_mut().for_each(|line| line["wall_s"] = Value::Null);
        lines
    };
    assert_eq!(without_time(&output), without_time(&rk_simrd(&[&["run", &zipped], &args[..]].concat())));
}

#[track_caller]
fn refuses(args: &[&str], code: i32, expected: &str) {
    let output = rk_simrd(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{message}");
    assert!(message.contains(expected), "expected {expected:?} in {message:?}");
    assert!(output.stdout.is_empty() && !message.contains("panicked"), "{message}");
}

#[test]
fn errors_name_the_file_the_line_and_the_reason() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tail = ["--heuristic", "h_lru", "--ratio", "0.5"];
    let check = |name: &str, content: &[u8], expected: &str| {
        let path = write(folder.path(), name, content);
        refuses(&[&["run", &path], &tail[..]].concat(), 1, &format!("{path}{expected}"));
    };
    let lines: Vec<&str> = LOG.lines().collect();
    let broken = LOG.replace("\"MEMORY\":\"100\"", "\"MEMORY\":\"-100\"");
    check("negative.log", broken.as_bytes(), ":11: MEMORY must be a whole number of at least 0, not '-100'");
    check("cut.log", &LOG.as_bytes()[..200], ":4: not a log line: EOF while parsing");
    check(
        "ends.log",
        lines[..5].join("\n").as_bytes(),
        ":5: expected ALIAS of 'a', found the end of the log",
    );
    check(
        "kind.log",
        LOG.replace("MUTATE\",\"MUTATE", "MUTANT\",\"MUTATE").as_bytes(),
        ":13: unknown instruction 'MUTANT'",
    );
    check("name.log", LOG.replace("[\"c\",\"v\"]", "[\"c\",\"q\"]").as_bytes(), ":14: undefined tensor 'q'");
    check(
        "alias.log",
        LOG.replace("\"ALIAS\":\"0\"", "\"ALIAS\":\"1\"").as_bytes(),
        ":9: ALIAS 1 is out of range",
    );
    check("empty.log", b"", ":0: the log ends without");
    check("noise.log", &[0xff; 9_000_000], ":1: the line is longer than 4194304 bytes");
    let mut half = compressed(LOG.as_bytes());
    half.truncate(half.len() / 2);
    check("half.log.gz", &half, ":");
    check("noise.log.gz", &compressed(&[b'x'; 9_000_000]), ":1: the line is longer than 4194304 bytes");
    let missing = folder.path().join("missing.log");
    let missing = missing.to_string_lossy();
    refuses(&[&["run", &missing], &tail[..]].concat(), 1, &format!("{missing}: cannot be opened"));
}

#[test]
fn unknown_names_and_unsupported_combinations_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = write(folder.path(), "step.log", LOG.as_bytes());
    refuses(&["run", &log, "--heuristic", "h_best", "--ratio", "1"], 2, "h_best");
    refuses(&["run", &log, "--heuristic", "h_dtr", "--ratio", "-1"], 2, "-1");
    refuses(&["run", &log, "--heuristic", "h_dtr", "--ratio", "NaN"], 2, "a ratio is a number of at least 0");
    for heuristic in ["h_dtr_eq", "h_msps", "ab_estar", "ab_eqclass_size"] {
        let expected = format!("the banish runtime does not support {heuristic}");
        refuses(
            &["run", &log, "--heuristic", heuristic, "--ratio", "1", "--runtime", "banish"],
            1,
            &expected,
        );
    }
    refuses(&["pareto", &folder.path().join("nowhere").to_string_lossy()], 1, "cannot be opened");
}

#[test]
fn figures_are_the_same_files_on_any_number_of_threads() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let logs = folder.path().join("logs");
    std::fs::create_dir(&logs).expect("a folder");
    write(&logs, "one.log", LOG.as_bytes());
    write(&logs, "two.log.gz", &compressed(LOG.as_bytes()));
    for (command, figures) in [("pareto", 1), ("ablation", 4), ("banishing", 1), ("accesses", 1)] {
        let run = |threads: &str| {
            let output = folder.path().join(format!("{command}-{threads}"));
            let out = output.to_string_lossy().into_owned();
            let run = Command::new(env!("CARGO_BIN_EXE_rk-simrd"))
                .args([command, &logs.to_string_lossy(), "-o", &out, "--trials", "3"])
                .env("RAYON_NUM_THREADS", threads)
                .output()
                .expect("the binary runs");
            assert!(run.status.success(), "{}", text(&run.stderr));
            let mut files: Vec<_> =
                output.read_dir().expect("made").map(|f| f.expect("readable").path()).collect();
            files.sort();
            files
                .into_iter()
                .map(|f| (f.file_name().map(ToOwned::to_owned), std::fs::read(f).expect("readable")))
                .collect::<Vec<_>>()
        };
        let (alone, together) = (run("1"), run("3"));
        assert_eq!(alone.len(), 1 + 2 * figures, "{command}");
        assert!(alone == together, "{command} depends on the number of threads");
        let png = |content: &[u8]| content.starts_with(b"\x89PNG");
        assert_eq!(alone.iter().filter(|(_, content)| png(content)).count(), figures);
        assert_eq!(alone.iter().filter(|(_, content)| content.starts_with(b"<svg")).count(), figures);
    }
}

#[test]
fn help_and_version_are_there() {
    assert!(text(&rk_simrd(&["--help"]).stdout).contains("Exit status"));
    assert!(text(&rk_simrd(&["--version"]).stdout).starts_with("rk-simrd 0."));
    assert!(text(&rk_simrd(&["run", "--help"]).stdout).contains("--runtime"));
}

/// A recurrent cell, as often as it is said, and its backward part: six calls each.
fn recurrent(cells: usize) -> String {
    let mut lines = LOG.lines().take(3).map(str::to_owned).collect::<Vec<_>>();
    let mut call = |name: &str, args: &[String], result: &str, time: u32| {
        lines.push(format!(
            r#"{{"INSTRUCTION":"CALL","NAME":"{name}","ARGS":{},"RESULT":["{result}"],"TIME":"{time}"}}"#,
            serde_json::to_string(args).expect("JSON")
        ));
        lines.push(format!(r#"{{"INSTRUCTION":"MEMORY","NAME":"{result}","MEMORY":"40"}}"#));
        lines.push(format!(r#"{{"INSTRUCTION":"ALIAS","NAME":"{result}","ALIAS":"-1"}}"#));
    };
    let name = |kind: &str, cell: usize| format!("{kind}{cell}");
    call("start", &["w".to_owned()], "h0", 3);
    for at in 1..=cells {
        call("mm", &[name("h", at - 1), "w".to_owned()], &name("m", at), 90);
        call("split", &[name("m", at)], &name("s", at), 4);
        call("sigmoid", &[name("s", at)], &name("i", at), 5);
        call("tanh", &[name("s", at)], &name("u", at), 5);
        call("mul", &[name("i", at), name("u", at)], &name("c", at), 3);
        call("tanh", &[name("c", at)], &name("h", at), 5);
    }
    call("ones", &[name("h", cells)], &name("g", cells), 1);
    for at in (1..=cells).rev() {
        call("tanh_backward", &[name("g", at), name("h", at)], &name("gc", at), 5);
        call("mul", &[name("gc", at), name("u", at)], &name("gi", at), 3);
        call("mul", &[name("gc", at), name("i", at)], &name("gu", at), 3);
        call("gates_backward", &[name("gi", at), name("gu", at), name("s", at)], &name("gs", at), 9);
        call("mm", &[name("gs", at), name("h", at - 1)], &name("gw", at), 90);
        call("mm", &[name("gs", at), "w".to_owned()], &name("g", at - 1), 90);
    }
    let mut text = lines.join("\n");
    // What is not needed any more: before the backward part the products; the rest where it was read last.
    let release = |name: String| format!("\n{{\"INSTRUCTION\":\"RELEASE\",\"NAME\":\"{name}\"}}");
    for at in 1..=cells {
        let last = format!(r#""RESULT":["{}"]"#, name("s", at));
        insert(&mut text, &last, &release(name("m", at)));
        let last = format!(r#""RESULT":["{}"]"#, name("g", at - 1));
        let dead = ["h", "c", "i", "u", "s", "gc", "gi", "g", "gu", "gs", "gw"]
            .map(|kind| release(name(kind, at)))
            .concat();
        insert(&mut text, &last, &dead);
    }
    text + "\n"
}

/// Inserts lines after the call that `mark` names and its description.
fn insert(text: &mut String, mark: &str, lines: &str) {
    let call = text.find(mark).expect("the call is there");
    let end = text[call..].match_indices('\n').nth(2).map_or(text.len(), |(at, _)| call + at);
    text.insert_str(end, lines);
}

#[test]
fn recurring_segments_are_recognised_and_weighed_as_a_whole() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = write(folder.path(), "recurrent.log", recurrent(40).as_bytes());
    let run = |more: &[&str]| {
        let args = ["run", &log, "--heuristic", "h_dtr_eq", "--ratio", "0.6", "--json"];
        let output = rk_simrd(&[&args[..], more].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice::<Value>(&output.stdout).expect("JSON")
    };
    let (plain, hybrid) = (run(&[]), run(&["--segments"]));
    assert_eq!((&plain["status"], &hybrid["status"]), (&"ok".into(), &"ok".into()), "{hybrid}");
    assert!(plain["segments"].is_null());
    let number = |value: &Value| value.as_u64().expect("a number");
    let found = &hybrid["segments"];
    assert!(10 * number(&found["covered"]) > 8 * number(&found["calls"]), "{found}");
    assert!(number(&found["classes"]) <= 6 && number(&found["replays"]) > 0, "{found}");
    assert!(number(&hybrid["max_memory"]) <= number(&hybrid["budget"]));
    assert!(2 * number(&hybrid["evals"]) < number(&plain["evals"]), "{plain} {hybrid}");
    assert!(hybrid["overhead"].as_f64().is_some_and(|overhead| overhead < 1.05), "{hybrid}");
    for refused in [["--heuristic", "h_dtr"], ["--runtime", "banish"]] {
        let args = ["run", &log, "--heuristic", "h_lru", "--ratio", "0.5", "--segments"];
        let output = rk_simrd(&[&args[..], &refused].concat());
        assert_eq!(output.status.code(), Some(1), "{refused:?}");
        assert!(text(&output.stderr).contains("segments"), "{}", text(&output.stderr));
    }
}
