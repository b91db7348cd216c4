//! Graphs as JSON: what is written reads back, decimals stay exact, and the optional fields mean what they say.

use rk_plan::{Graph, Time, ValueId, base_trace, json, text};

fn read(text: &str) -> Graph {
    json::read(text).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_written_reads_back() {
    let all = "a 8 1 fwd; two(a) 4+0 2 ws=3 state=5 fwd; b(two, two.1) 4 0 over=two bwd; c(b) 7 1 pin once lent; d 0 0 handover";
    let graph = text::read(all).expect("a graph");
    let again = read(&json::write(&graph));
    assert_eq!((again.nodes(), again.values()), (graph.nodes(), graph.values()));
    insta::assert_snapshot!(json::write(&graph), @r#"
    {"name": "text", "time_unit": "us", "nodes": [
    {"id": 0, "kind": "fwd", "name": "a", "time": 1, "bytes": 8, "deps": []},
    {"id": 1, "kind": "fwd", "name": "two", "time": 2, "outputs": [{"name": "two", "bytes": 4}, {"name": "two.1", "bytes": 0}], "deps": [0], "workspace": 3, "state": 5},
    {"id": 2, "kind": "bwd", "name": "b", "time": 0, "bytes": 4, "deps": [1, [1, 1]], "overwrites": 1},
    {"id": 3, "kind": "other", "name": "c", "time": 1, "bytes": 7, "pinned": true, "deps": [2], "once": true, "lent": true},
    {"id": 4, "kind": "other", "name": "d", "time": 0, "bytes": 0, "deps": [], "hands_over": true}
    ]}
    "#);
}

#[test]
fn a_node_keeps_its_module() {
    let graph = read(
        r#"{"nodes": [{"id": 0, "kind": "fwd", "name": "a", "module": "net.0 \"x\"", "time": 1, "bytes": 4, "deps": []},
            {"id": 1, "kind": "fwd", "time": 1, "bytes": 4, "deps": [0]}]}"#,
    );
    let modules = |graph: &Graph| graph.nodes().iter().map(|node| node.module.clone()).collect::<Vec<_>>();
    assert_eq!(modules(&graph), ["net.0 \"x\"", ""]);
    assert_eq!(modules(&read(&json::write(&graph))), modules(&graph));
    let wrong = json::read(
        r#"{"nodes": [{"id": 0, "kind": "fwd", "module": 3, "time": 1, "bytes": 4, "deps": []}]}"#,
    );
    assert!(wrong.expect_err("no text").to_string().contains("nodes[0].module: invalid type"));
}

#[test]
fn decimals_stay_exact() {
    let times = |one: &str, other: &str| {
        let node = |id: usize, time: &str| {
            format!(r#"{{"id": {id}, "kind": "fwd", "time": {time}, "bytes": 1, "deps": []}}"#)
        };
        let graph = read(&format!(r#"{{"nodes": [{}, {}]}}"#, node(0, one), node(1, other)));
        let total = graph.total_time();
        (graph.ticks_per_unit(), total, graph.time_text(total))
    };
    assert_eq!(times("0.1", "0.2"), (10, Time(3), "0.3".into()));
    assert_eq!(times("47945.02", "1e2"), (100, Time(4_804_502), "48045.02".into()));
    assert_eq!(times("1.50", "2.0"), (10, Time(35), "3.5".into()));
    assert_eq!(times("25e-1", "0"), (10, Time(25), "2.5".into()));
    // A sum of doubles as other tools print it: rounded to 10^-12, which nobody measures.
    assert_eq!(times("0.30000000000000004", "1"), (1_000_000_000_000, Time(1_300_000_000_000), "1.3".into()));
    assert_eq!(times("1e-300", "1"), (1_000_000_000_000, Time(1_000_000_000_000), "1".into()));
}

#[test]
fn errors_name_line_column_and_field() {
    let error = |text: &str| json::read(text).expect_err(text).to_string();
    insta::assert_snapshot!(error("{\"nodes\": [\n  {\"id\": 0, \"kind\": \"up\"}]}"), @r#"2:3: nodes[0].time: is missing"#);
    insta::assert_snapshot!(error("{\"nodes\": 3}"), @"1:11: nodes: invalid type: integer `3`, expected a sequence");
    insta::assert_snapshot!(error("{\"nodes\": [{\"id\": 0,\n }]}"), @"2:2: nodes[0]: key must be a string");
    insta::assert_snapshot!(error("{\"nodes\": [{\"id\": 0}"), @"1:20: nodes: EOF while parsing a list");
    insta::assert_snapshot!(error("{\"name\": NaN}"), @"1:10: name: expected value; numbers in JSON are finite");
    let node = r#"{"id": 0, "kind": "fwd", "time": 1, "bytes": 1, "deps": []}"#;
    let last = r#"{"id": 1, "kind": "fwd", "time": 1, "bytes": 1, "deps": [[0, "x"]]}"#;
    insta::assert_snapshot!(error(&format!("{{\"nodes\": [{node},\n{last}]}}")), @r#"2:64: nodes[1].deps[1]: invalid type: string "x", expected usize"#);
    insta::assert_snapshot!(error("{\"nodes\": []}"), @r#"1:1: the graph needs a non-empty list "nodes""#);
    let module = r#"{"stage": "costed", "nodes": [{"name": "a", "time_ns": 3}]}"#;
    insta::assert_snapshot!(error(module), @r#"1:11: stage: this is a module as data (rk-translate --to json); rk-translate --to graph makes a graph"#);
    insta::assert_snapshot!(error("[1, 2"), @"1:1: the graph must be a JSON object");
    insta::assert_snapshot!(error(r#"{"nodes": [{"id": 0, "kind": "sideways", "time": 1, "bytes": 1, "deps": []}]}"#), @r#"1:30: nodes[0].kind: must be "fwd", "bwd" or "other""#);
    insta::assert_snapshot!(error(r#"{"nodes": [{"id": 0, "kind": "fwd", "time": 1, "bytes": 1, "outputs": [], "deps": []}]}"#), @r#"1:57: nodes[0].bytes: stands beside "outputs"; give one of the two"#);
    insta::assert_snapshot!(error(r#"{"nodes": [{"id": 0, "kind": "fwd", "time": 1, "bytes": 99999999999999999999, "deps": []}]}"#), @"1:57: nodes[0].bytes: must be a whole number from 0 to 2^64 - 1, here it is 99999999999999999999");
    insta::assert_snapshot!(error(r#"{"nodes": [{"id": 0, "kind": "fwd", "time": 1, "bytes": 9999999999999999999, "deps": []}]}"#), @"1:12: nodes[0]: the bytes of all values and workspaces add up to more than 2^62, at node 0 (\"\")");
}

#[test]
fn pairs_name_outputs() {
    let graph = read(
        r#"{"nodes": [
        {"id": 0, "kind": "fwd", "time": 1, "outputs": [{"bytes": 1}, {"bytes": 100, "name": "mask"}], "deps": []},
        {"id": 1, "kind": "bwd", "time": 1, "bytes": 1, "deps": [[0, 1]]}]}"#,
    );
    assert_eq!(graph.nodes()[1].reads, [ValueId(1)]);
    assert_eq!(base_trace(&graph).memory.iter().map(|bytes| bytes.0).collect::<Vec<_>>(), [101, 101]);
}
