//! `--intervals`: what is kept from when to when, checked as Moccasin's model asks for it, from the files alone and without the judge.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn run(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-plan"));
    command.current_dir(folder).args(arguments).env_remove("RK_LOG").output().expect("rk-plan starts")
}

/// A random layered graph, with edges that skip layers: the kind on which Moccasin was measured.
fn layered(seed: u64) -> Value {
    let mut state = seed + 1;
    let mut below = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    let node = |id: u64| {
        let reads = if id == 0 { 0 } else { 1 + below(3) };
        let mut deps: Vec<u64> = (0..reads).map(|_| id - 1 - below(id.min(12))).collect();
        deps.sort_unstable();
        deps.dedup();
        json!({"id": id, "kind": "fwd", "name": format!("v{id}, of it"), "time": 1 + below(20), "bytes": 1 + below(50), "deps": deps})
    };
    json!({"name": "layered", "time_unit": "ticks", "nodes": (0..60).map(node).collect::<Vec<_>>()})
}

/// A row of the file: the node, the first run with its value, the first run without, and the size.
struct Interval {
    node: usize,
    lower: u64,
    upper: u64,
    size: u64,
}

fn read(text: &str) -> Vec<Interval> {
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("id,lower,upper,size"));
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<u64>().expect("a number");
        let digits = cells[0].trim_start_matches('v').split('.').next().expect("a name");
        let node = digits.parse().expect("a node");
        Interval { node, lower: number(1), upper: number(2), size: number(3) }
    };
    lines.map(row).collect()
}

/// The constraints of the model: an interval begins with a computation, whose operands are kept while it runs; every node has one. The most that is
/// kept at once, and the time of all computations.
fn checked(graph: &Value, intervals: &[Interval]) -> (u64, u64) {
    let runs = intervals.iter().map(|one| one.upper).max().unwrap_or(0);
    let during = |run: u64| intervals.iter().filter(move |one| one.lower <= run && run < one.upper);
    let mut time = 0;
    for run in 0..runs {
        let begins: Vec<&Interval> = intervals.iter().filter(|one| one.lower == run).collect();
        let [begun] = begins[..] else { panic!("{} intervals begin at {run}", begins.len()) };
        let node = &graph["nodes"][begun.node];
        assert_eq!(node["bytes"], begun.size);
        for dep in node["deps"].as_array().expect("a list") {
            let is_kept = |one: &Interval| dep == one.node && one.lower < run;
            assert!(during(run).any(is_kept), "node {} needs {dep} at {run}", begun.node);
        }
        time += node["time"].as_u64().expect("a number");
    }
    assert!((0..60).all(|node| intervals.iter().any(|one| one.node == node)), "a node never runs");
    ((0..runs).map(|run| during(run).map(|one| one.size).sum()).max().unwrap_or(0), time)
}

#[test]
fn intervals_keep_the_budget_and_the_order_of_the_graph() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut again = 0;
    for seed in 0..4 {
        let graph = layered(seed);
        std::fs::write(folder.path().join("graph.json"), graph.to_string()).expect("written");
        let limit = ["--time-limit", "200ms", "--timekeeping", "work"];
        let asked = ["graph.json", "--budget", "80%", "--json", "--intervals", "kept.csv"];
        let done = run(folder.path(), &[&asked[..], &limit].concat());
        let answer: Value = serde_json::from_slice(&done.stdout).expect("JSON");
        let intervals = read(&std::fs::read_to_string(folder.path().join("kept.csv")).expect("a file"));
        let (peak, time) = checked(&graph, &intervals);
        assert_eq!((json!(peak), Some(time as f64)), (answer["peak_bytes"].clone(), answer["time"].as_f64()));
        assert!(peak <= answer["budget_bytes"].as_u64().expect("a number"));
        again += intervals.len() - 60;
        let packed = run(folder.path(), &["--pack", "kept.csv", "--json", "--time-limit", "200ms"]);
        let layout: Value = serde_json::from_slice(&packed.stdout).expect("JSON");
        assert_eq!(layout["buffers"], intervals.len());
        assert_eq!(layout["lower_bound_bytes"], peak, "{layout}");
    }
    assert!(again > 0, "nothing is made again in any of them");
}

#[test]
fn without_a_plan_there_are_no_intervals() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("graph.json"), layered(0).to_string()).expect("written");
    let asked = ["graph.json", "--budget", "1", "--time-limit", "50ms", "--intervals", "kept.csv"];
    let done = run(folder.path(), &asked);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(!done.status.success() && said.contains("no plan, so kept.csv is not written"), "{said}");
    assert!(!folder.path().join("kept.csv").exists());
}
