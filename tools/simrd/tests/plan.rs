//! `--record` and `--plan`: graphs and logs say the same in both languages, and plans beat the online heuristic.

#[allow(dead_code, reason = "the other tests read its tables")]
mod data;

use rk_dtr::{Baseline, Heuristic, LogReader, Policy, Program, Status, simulate};
use rk_simrd::{Views, graph_of, read_log, write_log};
use serde_json::Value;
use std::process::{Command, Output};

fn rk_simrd(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rk-simrd")).args(args).output().expect("the binary runs")
}

/// A constant, two results, a view, a view of two storages, something in place, a dead value, an output.
const LOG: &str = r#"{"ANNOTATION":"START","INSTRUCTION":"ANNOTATE"}
{"INSTRUCTION":"CONSTANT","NAME":"w"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"w"}
{"ARGS":["w"],"INSTRUCTION":"CALL","NAME":"t","RESULT":["wt"],"TIME":"1"}
{"INSTRUCTION":"MEMORY","MEMORY":"10","NAME":"wt"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"wt"}
{"ARGS":["wt"],"INSTRUCTION":"CALL","NAME":"bn","RESULT":["a","s"],"TIME":"5"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"a"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"a"}
{"INSTRUCTION":"MEMORY","MEMORY":"4","NAME":"s"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"s"}
{"ARGS":["a"],"INSTRUCTION":"CALL","NAME":"view","RESULT":["v"],"TIME":"2"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"v"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"v"}
{"ARGS":["v","s"],"INSTRUCTION":"CALL","NAME":"mixed","RESULT":["m"],"TIME":"3"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"m"}
{"ALIAS":"0","INSTRUCTION":"ALIAS","NAME":"m"}
{"ARGS":["m"],"INSTRUCTION":"CALL","NAME":"conv","RESULT":["c"],"TIME":"20"}
{"INSTRUCTION":"MEMORY","MEMORY":"100","NAME":"c"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"c"}
{"ARGS":["c"],"INSTRUCTION":"MUTATE","MUTATE":[0],"NAME":"relu_","TIME":"3"}
{"ARGS":["c","v"],"INSTRUCTION":"CALL","NAME":"conv_backward","RESULT":["g"],"TIME":"9"}
{"INSTRUCTION":"MEMORY","MEMORY":"40","NAME":"g"}
{"ALIAS":"-1","INSTRUCTION":"ALIAS","NAME":"g"}
{"INSTRUCTION":"RELEASE","NAME":"c"}
{"INSTRUCTION":"RELEASE","NAME":"v"}
{"INSTRUCTION":"RELEASE","NAME":"m"}
{"INSTRUCTION":"RELEASE","NAME":"a"}
{"INSTRUCTION":"RELEASE","NAME":"s"}
"#;

fn program(log: &[u8]) -> Program {
    let mut reader = LogReader::new();
    for line in log.split(|&b| b == b'\n') {
        reader.line(line).expect("the log is valid");
    }
    reader.finish().expect("the log is whole")
}

#[test]
fn a_log_becomes_a_graph_that_costs_the_same() {
    let program = program(LOG.as_bytes());
    let every = graph_of("log", &program, Views::EveryRun).expect("a graph");
    let once = graph_of("log", &program, Views::Once).expect("a graph");
    assert_eq!((every.constants.0, every.graph.total_time().0, once.graph.total_time().0), (10, 43, 43));
    let times = |graph: &rk_plan::Graph| graph.nodes().iter().map(|n| n.time.0).collect::<Vec<_>>();
    // bn with its view, the view of two storages, conv, relu_, conv_backward; the view of a constant apart.
    assert_eq!(times(&every.graph), [7, 3, 20, 3, 9, 1]);
    assert_eq!(times(&once.graph), [5, 3, 20, 3, 9, 3]);
    let bytes: Vec<_> = every.graph.values().iter().map(|v| (v.bytes.0, v.pinned)).collect();
    assert_eq!(bytes, [(40, false), (4, false), (0, false), (100, false), (100, false), (40, true)]);
    let reads: Vec<Vec<_>> =
        every.graph.nodes().iter().map(|n| n.reads.iter().map(|r| r.index()).collect()).collect();
    // conv reads the token of the mixed view and the storage that it lies in.
    assert_eq!(reads, [vec![], vec![0, 1], vec![0, 2], vec![3], vec![0, 4], vec![]]);
    // Both accounts of the peak agree, up to constants and dead values that the log releases later than it could.
    let peak = rk_plan::base_trace(&every.graph).peak.0;
    let baseline = Baseline::of(&program);
    assert_eq!((peak, baseline.peak.0), (240, 254));
}

#[test]
fn a_graph_becomes_a_log_with_the_same_peak_and_time() {
    let text = r#"{"name": "g", "time_unit": "us", "nodes": [
        {"id": 0, "kind": "fwd", "name": "a", "time": 5, "bytes": 40, "deps": []},
        {"id": 1, "kind": "fwd", "name": "b", "time": 2, "workspace": 30, "deps": [0], "outputs": [{"bytes": 10}, {"bytes": 6}]},
        {"id": 2, "kind": "bwd", "name": "c \"quoted\"", "time": 1, "bytes": 8, "pinned": true, "deps": [[1, 1], 0]},
        {"id": 3, "kind": "bwd", "name": "effect", "time": 1, "outputs": [], "deps": [2]}]}"#;
    let graph = rk_plan::json::read(text).expect("a graph");
    let program = program(&write_log(&graph, Vec::new()).expect("memory"));
    let baseline = Baseline::of(&program);
    assert_eq!(baseline.peak.0, rk_plan::base_trace(&graph).peak.0);
    assert_eq!(baseline.compute.0, graph.total_time().0);
    let outcome = simulate(&program, &baseline.options(Heuristic::DTR_EQ, Policy::Eager, 1.0));
    assert_eq!((outcome.status, outcome.counters.memory.0), (Status::Ok, 8), "the output is kept");
    // And back: one node more for nothing, values and times as before.
    let back = graph_of("g", &program, Views::EveryRun).expect("a graph").graph;
    assert_eq!((back.len(), back.total_time(), back.values().len()), (4, graph.total_time(), 6));
}

#[test]
fn steps_of_rk_translate_are_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let step = folder.path().join("step.json");
    let text = r#"{"name": "step", "stage": "costed", "nodes": [
        {"name": "conv", "inputs": ["x", "w"], "output_bytes": [64, 8], "time_ns": 700, "workspace_bytes": 16, "backward": false, "once": false},
        {"name": "conv.grad", "inputs": ["conv", "conv.1", "w"], "output_bytes": [32], "time_ns": 900, "workspace_bytes": 0, "backward": true}]}"#;
    std::fs::write(&step, text).expect("the folder is ours");
    let output = rk_simrd(&["--record", step.to_str().expect("utf-8")]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let baseline = Baseline::of(&program(&output.stdout));
    assert_eq!((baseline.peak.0, baseline.compute.0), (104, 1600));
    std::fs::write(&step, text.replace(r#""time_ns": 700"#, r#""time_ns": null"#))
        .expect("the folder is ours");
    let output = rk_simrd(&["--record", step.to_str().expect("utf-8")]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && error.contains("node \"conv\" has no time"), "{error}");
}

#[test]
fn plans_beat_the_online_heuristic_and_keep_above_the_bound() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("step.log");
    // A chain forward and backward.
    let mut nodes = Vec::new();
    for i in 0..12 {
        let deps = if i == 0 { String::new() } else { (i - 1).to_string() };
        nodes.push(format!(
            r#"{{"id": {i}, "kind": "fwd", "name": "f{i}", "time": {}, "bytes": 10, "deps": [{deps}]}}"#,
            5 + i % 3
        ));
    }
    for i in 0..12 {
        let (id, activation) = (12 + i, 10 - i);
        let deps = if activation < 0 { format!("{}", id - 1) } else { format!("{}, {activation}", id - 1) };
        nodes.push(format!(
            r#"{{"id": {id}, "kind": "bwd", "name": "b{i}", "time": 9, "bytes": 10, "deps": [{deps}]}}"#
        ));
    }
    let graph = format!(r#"{{"name": "chain", "nodes": [{}]}}"#, nodes.join(","));
    let json = folder.path().join("chain.json");
    std::fs::write(&json, graph).expect("the folder is ours");
    let (json, log) = (json.to_str().expect("utf-8"), log.to_str().expect("utf-8"));
    assert!(rk_simrd(&["record", json, "-o", log]).status.success());
    assert_eq!(
        Some(rk_simrd(&["record", json, "-o", "-"]).stdout),
        std::fs::read(log).ok(),
        "or standard output"
    );
    let mut piped = Command::new(env!("CARGO_BIN_EXE_rk-simrd"));
    piped.args(["record", "-"]).stdin(std::fs::File::open(json).expect("it is there"));
    let piped = piped.output().expect("the binary runs");
    assert!(piped.status.success(), "{piped:?}");
    assert_eq!(Some(piped.stdout), std::fs::read(log).ok(), "a dash is standard input");
    let output = rk_simrd(&["--plan", log, "--ratio", "0.5,0.8", "--time-limit", "2", "--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).expect("utf-8");
    let rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(rows.len(), 2);
    for row in rows {
        let number = |key: &str| row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"));
        assert!(
            number("plan_overhead") <= number("online_overhead") && number("online_overhead") > 1.0,
            "{row}"
        );
        assert!(1.0 <= number("lower_bound") && number("lower_bound") <= number("plan_overhead"), "{row}");
    }
}

#[test]
fn recorded_logs_become_graphs_of_the_same_time_and_no_larger_peak() {
    let Some(folder) = data::folder() else { return };
    for path in rk_simrd::find_logs(&folder).expect("logs") {
        let program = read_log(&path).expect("a log");
        let baseline = Baseline::of(&program);
        let converted = graph_of("log", &program, Views::EveryRun).expect("a graph");
        assert_eq!(converted.graph.total_time().0, baseline.compute.0, "{}", path.display());
        // The planner drops values after their last reader; the log releases some of them later, never earlier.
        let peak = rk_plan::base_trace(&converted.graph).peak.0 + converted.constants.0;
        assert!(peak <= baseline.peak.0 + converted.constants.0, "{}: {peak}", path.display());
        assert!(peak * 2 >= baseline.peak.0, "{}: {peak} of {}", path.display(), baseline.peak.0);
    }
}
