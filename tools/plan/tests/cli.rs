//! The command line: exit codes, the JSON object, errors that name the culprit, and the judge outside the project.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const BLOCK: &str = r#"{"name": "block", "time_unit": "us", "nodes": [
{"id": 0, "kind": "fwd", "name": "norm", "time": 1.5, "bytes": 4096, "deps": []},
{"id": 1, "kind": "fwd", "name": "up", "time": 1, "bytes": 8192, "deps": [0]},
{"id": 2, "kind": "fwd", "name": "down", "time": 1, "bytes": 4096, "deps": [1]},
{"id": 3, "kind": "fwd", "name": "add", "time": 1, "bytes": 4096, "deps": [0, 2]}]}"#;

fn run(arguments: &[&str]) -> Output {
    let binary = Path::new(env!("CARGO_BIN_EXE_rk-plan"));
    Command::new(binary).args(arguments).env_remove("RK_LOG").output().expect("rk-plan starts")
}

fn code(output: &Output) -> i32 {
    output.status.code().expect("no signal")
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// A graph file that goes away with the test.
fn file(text: &str) -> tempfile::TempPath {
    let file = tempfile::Builder::new().suffix(".json").tempfile().expect("a temporary file");
    std::fs::write(file.path(), text).expect("written");
    file.into_temp_path()
}

fn name(path: &tempfile::TempPath) -> &str {
    path.to_str().expect("a plain path")
}

#[test]
fn a_dash_is_standard_input() {
    let graph = file(BLOCK);
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-plan"));
    command.args(["-", "--budget", "80%", "--json"]);
    let input = std::fs::File::open(&graph).expect("it is there");
    let piped = command.stdin(input).output().expect("rk-plan starts");
    let named = run(&[name(&graph), "--budget", "80%", "--json"]);
    assert_eq!(json(&piped)["schedule"], json(&named)["schedule"]);
    assert!(json(&piped)["schedule"].is_array());
}

#[test]
fn the_man_page_and_completions_name_every_option() {
    for asked in [&["--man"][..], &["--completions", "bash"]] {
        let output = run(asked);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(code(&output) == 0 && text.contains("rk-plan") && text.contains("list"), "{text}");
    }
}

#[test]
fn strategies_are_switched_off_by_name() {
    let graph = file(BLOCK);
    let ask = |names: &str| run(&[name(&graph), "--budget", "80%", "--without", names, "--json"]);
    assert_eq!(code(&ask("proofs,easing")), 0);
    let unknown = ask("proofs,tabu");
    let text = String::from_utf8_lossy(&unknown.stderr);
    assert!(
        code(&unknown) == 1 && text.contains("unknown strategy \"tabu\"; there are first-plan, "),
        "{text}"
    );
    let help = run(&["--help"]);
    assert!(!String::from_utf8_lossy(&help.stdout).contains("--without"));
}

#[test]
fn a_file_sets_parameters_and_a_wrong_one_is_named() {
    let graph = file(BLOCK);
    let ask = |params: &str| {
        let params = file(params);
        run(&[name(&graph), "--budget", "80%", "--params", name(&params), "--json"])
    };
    assert_eq!(code(&ask(r#"{"local_search": {"hold": 0.5}}"#)), 0);
    let wrong = ask(r#"{"local_search": {"hold": 2}}"#);
    let text = String::from_utf8_lossy(&wrong.stderr);
    assert!(code(&wrong) == 1 && text.contains("local_search.hold: 2 is not within 0 to 1"), "{text}");
    assert!(!String::from_utf8_lossy(&run(&["--help"]).stdout).contains("--params"));
}

#[test]
fn a_residual_is_run_again() {
    let graph = file(BLOCK);
    let output = run(&[name(&graph), "--budget", "12KiB", "--json"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let report = json(&output);
    let field = |key: &str| report[key].clone();
    assert_eq!(field("schedule"), serde_json::json!([0, 1, 2, 0, 3]));
    assert_eq!((field("graph"), field("n"), field("status")), ("block".into(), 4.into(), "optimal".into()));
    assert_eq!((field("budget_bytes"), field("peak_bytes")), (12288.into(), 12288.into()));
    assert_eq!(
        (field("base_peak_bytes"), field("base_time"), field("time")),
        (16384.into(), 4.5.into(), 6.into())
    );
    assert_eq!((field("overhead_pct"), field("gap_pp")), (33.333333.into(), 0.0.into()));
    assert_eq!(field("bound_kind"), Value::from("optimal"));
    assert_eq!(field("offsets").as_array().map(Vec::len), Some(5));
    for key in ["arena_bytes", "lower_bound_pct", "solver", "solve_seconds", "min_feasible_bytes"] {
        assert!(!report[key].is_null(), "{key} is missing");
    }
    let seconds = |key| field(key).as_f64();
    assert!(
        seconds("first_plan_seconds").is_some_and(|first| first <= seconds("solve_seconds").unwrap_or(0.0))
    );
}

/// A reader that has seen enough is no failure, and hides none.
#[test]
fn a_closed_pipe_leaves_the_exit_code() {
    let graph = file(BLOCK);
    let offload = ["--offload", "--bandwidth", "1GB/s"];
    for (budget, more, expected) in
        [("80%", &[][..], 0), ("80%", &["--json"], 0), ("80%", &offload, 0), ("12287", &["--json"], 2)]
    {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_rk-plan"));
        command.args([name(&graph), "--budget", budget]).args(more).stdout(writer);
        assert_eq!(command.output().expect("rk-plan starts").status.code(), Some(expected), "{more:?}");
    }
}

#[test]
fn an_impossible_budget_exits_with_2_and_says_what_would_do() {
    let graph = file(BLOCK);
    let output = run(&[name(&graph), "--budget", "12287", "--json"]);
    assert_eq!(code(&output), 2);
    let report = json(&output);
    assert_eq!((&report["status"], &report["schedule"]), (&"infeasible".into(), &Value::Null));
    assert_eq!(report["min_feasible_bytes"], 12288);
    // A schedule that was asked for, too, is no reason to keep the answer back.
    let folder = tempfile::tempdir().unwrap();
    let schedule = folder.path().join("schedule.json");
    let output =
        run(&[name(&graph), "--budget", "12287", "--json", "--schedule", schedule.to_str().unwrap()]);
    assert_eq!((code(&output), &json(&output)["status"]), (2, &"infeasible".into()));
    assert!(!schedule.exists() && String::from_utf8_lossy(&output.stderr).contains("schedule.json"));
    let people = run(&[name(&graph), "--budget", "50%"]);
    let text = String::from_utf8_lossy(&people.stdout).into_owned();
    assert!(code(&people) == 2 && text.contains("12.00 KiB") && text.contains("'up'"), "{text}");
}

#[test]
fn bad_graphs_are_refused_with_place_and_field() {
    let refuse = |from: &str, to: &str| {
        assert!(BLOCK.contains(from), "{from}");
        let graph = file(&BLOCK.replacen(from, to, 1));
        let output = run(&[name(&graph), "--budget", "50%", "--json"]);
        assert_eq!((code(&output), output.stdout.len()), (1, 0), "{output:?}");
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        text.trim().replace(name(&graph), "GRAPH")
    };
    assert_eq!(
        refuse(r#""deps": [0]}"#, r#""deps": [2]}"#),
        "rk-plan: GRAPH: 3:75: nodes[1].deps: node 2 must come earlier in the list: a node cannot read its own or a later result (no cycles)"
    );
    assert_eq!(
        refuse(r#""deps": [0, 2]"#, r#""deps": [0, 0]"#),
        "rk-plan: GRAPH: 5:79: nodes[3].deps: 0 is there twice"
    );
    assert_eq!(
        refuse(r#""time": 1.5"#, r#""time": -1.5"#),
        "rk-plan: GRAPH: 2:50: nodes[0].time: must be a number >= 0, here it is -1.5"
    );
    assert_eq!(
        refuse(r#""bytes": 8192"#, r#""bytes": 8192.5"#),
        "rk-plan: GRAPH: 3:60: nodes[1].bytes: must be a whole number from 0 to 2^64 - 1, here it is 8192.5"
    );
    assert_eq!(
        refuse(r#""time": 1.5"#, r#""time": NaN"#),
        "rk-plan: GRAPH: 2:50: nodes[0]: expected value; numbers in JSON are finite"
    );
    assert!(refuse(r#""time": 1.5"#, r#""time": -Infinity"#).ends_with("; numbers in JSON are finite"));
    assert_eq!(
        refuse(r#""id": 3"#, r#""id": 7"#),
        "rk-plan: GRAPH: 5:8: nodes[3].id: must equal the position 3"
    );
    assert_eq!(refuse(r#""bytes": 8192, "#, ""), "rk-plan: GRAPH: 3:1: nodes[1].bytes: is missing");
    assert_eq!(
        refuse(r#""nodes""#, r#""knots""#),
        "rk-plan: GRAPH: 1:1: the graph needs a non-empty list \"nodes\""
    );
    assert!(refuse("[0, 2]}]}", "[0, 2]}").starts_with("rk-plan: GRAPH: 5:"));
    assert!(
        refuse(r#""deps": [0, 2]"#, r#""deps": [0, 99]"#)
            .contains("5:79: nodes[3].deps: there is no node 99: the graph has 4")
    );
    assert!(refuse(r#""deps": [0, 2]"#, r#""deps": [0, -2]"#).contains("nodes[3].deps"));
    assert!(refuse(r#""bytes": 8192"#, r#""bytes": -1"#).contains("3:60: nodes[1].bytes"));
    assert!(refuse(r#""bytes": 8192"#, r#""bytes": 9e18"#).contains("3:"));
    assert!(refuse(r#""time": 1.5"#, r#""time": 1e400"#).contains("nodes[0]"));
}

#[test]
fn odd_but_legal_graphs_are_planned() {
    let plan = |nodes: &str, budget: &str| {
        let graph = file(&format!("{{\"nodes\": [{nodes}]}}"));
        json(&run(&[name(&graph), "--budget", budget, "--json", "--time-limit", "200ms"]))
    };
    let one = plan(r#"{"id": 0, "kind": "other", "time": 0, "bytes": 0, "deps": []}"#, "1");
    assert_eq!(
        (&one["status"], &one["peak_bytes"], &one["overhead_pct"]),
        (&"optimal".into(), &0.into(), &0.0.into())
    );
    let apart: Vec<String> = (0..5)
        .map(|id| format!(r#"{{"id": {id}, "kind": "other", "time": 1, "bytes": {id}, "deps": []}}"#))
        .collect();
    let apart = plan(&apart.join(", "), "4");
    assert_eq!((&apart["status"], &apart["peak_bytes"]), (&"optimal".into(), &4.into()));
    let huge = r#"{"id": 0, "kind": "fwd", "time": 1e-3, "bytes": 1000000000000000, "deps": []},
        {"id": 1, "kind": "fwd", "time": 2, "bytes": 1000000000000000, "deps": []}"#;
    let apart = plan(huge, "100%");
    assert_eq!(
        (&apart["peak_bytes"], &apart["base_time"]),
        (&1_000_000_000_000_000u64.into(), &2.001.into())
    );
}

#[test]
fn a_cache_answers_the_second_time() {
    let (graph, folder) = (file(BLOCK), tempfile::tempdir().expect("a folder"));
    let plans = folder.path().join("plans");
    let arguments =
        [name(&graph), "--budget", "12KiB", "--json", "--cache", plans.to_str().expect("a plain path")];
    let without_time = |output: &Output| {
        let mut report = json(output);
        for key in ["first_plan_seconds", "solve_seconds"] {
            report[key] = Value::Null;
        }
        report
    };
    let first = run(&arguments);
    assert_eq!(code(&first), 0, "{first:?}");
    let entries: Vec<_> =
        std::fs::read_dir(&plans).expect("made").map(|entry| entry.expect("entry").path()).collect();
    assert_eq!(entries.len(), 1);
    let second = run(&arguments);
    assert_eq!(without_time(&second), without_time(&first));
    assert!(second.stderr.is_empty(), "{second:?}");
    std::fs::write(&entries[0], "{").expect("written");
    let third = run(&arguments);
    assert_eq!(without_time(&third), without_time(&first));
    let warning = String::from_utf8_lossy(&third.stderr).into_owned();
    assert!(warning.contains("passed over") && warning.contains("plans"), "{warning}");
}

#[test]
fn a_curve_has_a_point_per_budget() {
    let graph = file(BLOCK);
    let output = run(&[name(&graph), "--pareto", "--fit", "arena", "--json", "--time-limit", "1s"]);
    assert_eq!(code(&output), 0, "{output:?}");
    let report = json(&output);
    let points = report["curve"].as_array().expect("a list");
    let statuses: Vec<&str> = points.iter().filter_map(|point| point["status"].as_str()).collect();
    // 12 KiB of 16 is 75 %: below nothing fits, and from there on every point is proven.
    assert!(
        statuses.iter().enumerate().all(|(index, status)| {
            let budget = 10 + 5 * index;
            *status == if budget < 75 { "infeasible" } else { "optimal" }
        }),
        "{statuses:?}"
    );
    assert!(points.iter().all(|point| point["arena_bytes"].as_u64() <= point["budget_bytes"].as_u64()));
}

#[test]
fn usage_errors_exit_with_1_and_help_with_0() {
    let graph = file(BLOCK);
    for wrong in
        [&["--budget", "5 %%"][..], &["--budget", "0"], &["--budget", "50%", "--solver", "magic"], &[]]
    {
        let arguments = [&[name(&graph)], wrong].concat();
        assert_eq!(code(&run(&arguments)), 1, "{arguments:?}");
    }
    assert_eq!(code(&run(&["nowhere.json", "--budget", "50%"])), 1);
    let help = run(&["--help"]);
    assert!(code(&help) == 0 && String::from_utf8_lossy(&help.stdout).contains("Examples:"));
    let solvers = run(&["--list-solvers"]);
    assert!(code(&solvers) == 0 && String::from_utf8_lossy(&solvers.stdout).contains("keep-all"));
}

/// The folder beside the checkout, or the one that RK_SHARED names.
fn shared() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared"));
    let named = std::env::var_os("RK_SHARED").map(PathBuf::from);
    named.into_iter().chain(beside).find(|folder| folder.join("data/graphs").is_dir())
}

#[test]
fn the_judge_outside_the_project_agrees() {
    let Some(shared) = shared() else {
        eprintln!("skipped: no folder `shared` beside the checkout, and RK_SHARED is not set");
        return;
    };
    let judge = shared.join("tools/check_schedule.py");
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3");
        return;
    }
    for (graph, budget) in [("U-Net", "50%"), ("gpt2_L24", "40%"), ("layered100", "0.6"), ("RL100", "90%")] {
        let graph = shared.join(format!("data/graphs/{graph}.json"));
        let graph = graph.to_str().expect("a plain path");
        let schedule = file("");
        let arguments =
            [graph, "--budget", budget, "--json", "--time-limit", "300ms", "--schedule", name(&schedule)];
        let output = run(&arguments);
        assert_eq!(code(&output), 0, "{output:?}");
        let ours = json(&output);
        let theirs =
            Command::new("python3").arg(&judge).args([graph, name(&schedule), "--budget", budget]).output();
        let theirs = json(&theirs.expect("python3 runs"));
        assert_eq!(theirs["legal"], true);
        for key in ["peak_bytes", "base_peak_bytes", "budget_bytes", "time", "base_time", "overhead_pct"] {
            assert_eq!(ours[key], theirs[key], "{key} of {graph}");
        }
    }
}

/// A chain whose first value is large and idle while others run, and dear to run again.
const IDLE: &str = r#"{"name": "idle", "time_unit": "us", "nodes": [
{"id": 0, "kind": "fwd", "name": "a", "time": 90, "bytes": 8000, "deps": []},
{"id": 1, "kind": "fwd", "name": "b", "time": 2, "bytes": 4000, "deps": [0]},
{"id": 2, "kind": "fwd", "name": "c", "time": 1, "bytes": 8000, "deps": [1]},
{"id": 3, "kind": "bwd", "name": "d", "time": 9.5, "bytes": 4000, "deps": [2]},
{"id": 4, "kind": "bwd", "name": "e", "time": 9, "bytes": 4000, "deps": [3]},
{"id": 5, "kind": "bwd", "name": "f", "time": 1, "bytes": 1000, "deps": [4, 0]}]}"#;

#[test]
fn what_waits_in_host_memory_is_named_with_its_steps() {
    let (graph, schedule) = (file(IDLE), file(""));
    let link = ["--offload", "--bandwidth", "4GB/s", "--latency", "500ns", "--host-budget", "8KB"];
    let files =
        [name(&graph), "--budget", "16000", "--json", "--time-limit", "300ms", "--schedule", name(&schedule)];
    let output = run(&[&files[..], &link[..]].concat());
    assert_eq!(code(&output), 0, "{output:?}");
    let report = json(&output);
    // 8000 bytes take 2 us at 4 GB/s: the copy out is behind b but for half a microsecond, the copy back behind e.
    assert_eq!(
        (&report["schedule"], &report["base_time"]),
        (&serde_json::json!([0, 1, 2, 3, 4, 5]), &112.5.into())
    );
    assert_eq!((&report["time"], &report["stall_time"]), (&113.into(), &0.5.into()));
    assert_eq!((&report["peak_bytes"], &report["host_peak_bytes"]), (&16000.into(), &8000.into()));
    assert_eq!(report["recomputation_alone_time"], 202.5);
    let moves: Vec<(Value, Value, Value, Value)> = report["transfers"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| {
            (one["value"].clone(), one["kind"].clone(), one["start_step"].clone(), one["end_step"].clone())
        })
        .collect();
    let expected = [(0, "offload", 1, 2), (0, "fetch", 4, 5)];
    let expected =
        expected.map(|(value, kind, start, end)| (value.into(), kind.into(), start.into(), end.into()));
    assert_eq!(moves, expected);
    // The schedule of a plan with transfers is one of runs to whoever knows no transfers.
    let written: Value =
        serde_json::from_str(&std::fs::read_to_string(&schedule).expect("written")).expect("JSON");
    assert_eq!((&written["schedule"], &written["transfers"]), (&report["schedule"], &report["transfers"]));
    let people = run(&[&[name(&graph), "--budget", "16000", "--time-limit", "300ms"], &link[..]].concat());
    let text = String::from_utf8_lossy(&people.stdout).into_owned();
    assert!(text.contains("transfers    2, 7.82 KiB out, 7.82 KiB back"), "{text}");
}

#[test]
fn a_link_that_makes_no_sense_is_refused_by_name() {
    let graph = file(IDLE);
    let refuse = |more: &[&str]| {
        let output = run(&[&[name(&graph), "--budget", "50%", "--json"], more].concat());
        assert_eq!((code(&output), output.stdout.len()), (1, 0), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let link = |rate| ["--offload", "--bandwidth", rate];
    assert!(refuse(&["--offload"]).contains("--bandwidth"));
    assert!(refuse(&["--bandwidth", "25GB/s"]).contains("--offload"));
    for rate in ["-25GB/s", "25 bananas/s", "25GB", "50%/s", "NaN/s"] {
        assert!(refuse(&link(rate)).contains(&format!("'{rate}' is no rate such as 25GB/s")), "{rate}");
    }
    assert!(refuse(&link("0GB/s")).contains("leave --offload out"));
    let with = |more: &[&str]| refuse(&[&link("25GB/s")[..], more].concat());
    assert!(with(&["--latency", "-1us"]).contains("'-1us' is no latency such as 10us"));
    assert!(with(&["--latency", "3 parsecs"]).contains("'3 parsecs' is no latency"));
    let small = with(&["--host-budget", "999"]);
    assert!(small.contains("--host-budget 999 B: the smallest value, 'f', has 1000 B"), "{small}");
    assert!(with(&["--host-budget", "50%"]).contains("--host-budget '50%'"));
    assert!(with(&["--host-budget", "-8GiB"]).contains("--host-budget"));
    assert!(with(&["--fit", "arena"]).contains("--fit arena does not know --offload"));
    assert!(with(&["--cache", "plans"]).contains("--cache"));
}

#[test]
fn a_unit_that_is_no_time_is_taken_to_be_microseconds_and_said_so() {
    let (known, abstract_) = (file(IDLE), file(&IDLE.replace("\"us\"", "\"abstract\"")));
    let plan = |graph| {
        run(&[
            name(graph),
            "--budget",
            "16000",
            "--json",
            "--time-limit",
            "300ms",
            "--offload",
            "--bandwidth",
            "4GB/s",
        ])
    };
    let (known, taken) = (plan(&known), plan(&abstract_));
    assert!(known.stderr.is_empty(), "{known:?}");
    let said = String::from_utf8_lossy(&taken.stderr).into_owned();
    assert!(said.contains("'abstract'") && said.contains("us"), "{said}");
    assert_eq!(json(&known)["transfers"], json(&taken)["transfers"]);
}
