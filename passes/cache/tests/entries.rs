//! Entries come back as they went, and whatever somebody did to a file is noticed.

use std::path::PathBuf;
use std::time::Duration;

use rk_cache::Cache;
use rk_plan::{Bytes, Graph, text};
use rk_solve::{Addresses, Params, Request, Status, solve};

const BLOCK: &str = "norm 4KiB 1us; up(norm) 8KiB 1us; down(up) 4KiB 1us; add(norm, down) 4KiB 1us";

fn graph() -> Graph {
    text::read(BLOCK).expect("a graph")
}

fn request(graph: &Graph, kib: u64) -> Request<'_> {
    let time_limit = Duration::from_secs(5);
    let addresses = Some(Addresses::within(Bytes(512), time_limit));
    Request { time_limit, addresses, ..Request::new(graph, Bytes(kib << 10)) }
}

fn only_file(folder: &tempfile::TempDir) -> PathBuf {
    let mut files = std::fs::read_dir(folder).expect("a folder");
    let file = files.next().expect("one file").expect("readable").path();
    assert!(files.next().is_none());
    file
}

#[test]
fn an_answer_comes_back() {
    let (folder, graph) = (tempfile::tempdir().expect("a folder"), graph());
    let cache = Cache::open(folder.path().join("plans")).expect("made");
    for kib in [12, 11] {
        let request = request(&graph, kib);
        assert!(cache.load(&request).is_none());
        let outcome = solve(&request);
        cache.store(&request, &outcome).expect("written");
        let again = cache.load(&request).expect("there");
        assert_eq!((again.status, &again.plan), (outcome.status, &outcome.plan));
        assert_eq!((again.lower_bound, again.bound_kind), (outcome.lower_bound, outcome.bound_kind));
        assert_eq!(again.smallest_found, outcome.smallest_found);
        assert_eq!(again.proven_infeasible_below, outcome.proven_infeasible_below);
    }
    assert_eq!(solve(&request(&graph, 11)).status, Status::Infeasible);
    // Other parameters ask another question.
    let params = Params::read(r#"{"race": {"newcomers": 3}}"#).expect("one parameter");
    let tuned = Request { params: params.into(), ..request(&graph, 12) };
    assert!(cache.load(&request(&graph, 12)).is_some() && cache.load(&tuned).is_none());
    // Another question about the same graph: no answer, but a start.
    let other = Request { seed: 1, ..request(&graph, 13) };
    assert!(cache.load(&other).is_none());
    let starts = cache.neighbours(&other);
    assert_eq!(starts.len(), 1);
    let outcome = solve(&Request { starts, ..other });
    assert_eq!(
        outcome.plan.map(|plan| plan.sequence),
        cache.neighbours(&request(&graph, 12)).pop().map(|start| start.1)
    );
    let stranger = text::read("a 4KiB 1us; b(a) 4KiB 1us").expect("a graph");
    assert!(cache.neighbours(&request(&stranger, 12)).is_empty());
}

#[test]
fn what_was_tampered_with_is_passed_over() {
    let (folder, graph) = (tempfile::tempdir().expect("a folder"), graph());
    let cache = Cache::open(folder.path()).expect("there");
    let request = request(&graph, 12);
    cache.store(&request, &solve(&request)).expect("written");
    let file = only_file(&folder);
    let good = std::fs::read_to_string(&file).expect("text");
    assert!(cache.load(&request).is_some());
    let tampered = [
        String::new(),
        "null".into(),
        good[..good.len() / 2].into(),
        good.replace("[0,1,2,0,3]", "[0,1,2,3]"),
        good.replace("\"lower_bound\":5", "\"lower_bound\":4"),
        good.replace("\"offsets\":[", "\"offsets\":[512,"),
        good.replace("\"offsets\":", "\"effort\":"),
        good.replace(env!("CARGO_PKG_VERSION"), "0.0.0"),
        good.replacen('{', "{\"more\":1,", 1),
    ];
    for text in tampered {
        assert_ne!(text, good);
        std::fs::write(&file, &text).expect("written");
        assert!(cache.load(&request).is_none(), "{text}");
        // The next answer repairs it.
        cache.store(&request, &solve(&request)).expect("written");
        assert!(cache.load(&request).is_some());
    }
    // A whole entry under the name of another question.
    let other = Request { seed: 7, ..request.clone() };
    cache.store(&other, &solve(&other)).expect("written");
    let foreign = std::fs::read_dir(&folder).expect("a folder").map(|file| file.expect("readable").path());
    let foreign = foreign.into_iter().find(|path| *path != file).expect("two files");
    std::fs::copy(&foreign, &file).expect("copied");
    assert!(cache.load(&request).is_none());
}

#[test]
fn a_record_is_judged_against_the_graph_it_is_asked_for() {
    let graph = graph();
    let request = request(&graph, 12);
    let record = rk_solve::Record::of(&solve(&request)).expect("a plan");
    assert!(record.recall(&request).is_ok());
    let refused = |record: &rk_solve::Record, request: &Request| record.recall(request).expect_err("refused");
    let tight = Request { budget: Bytes(12287), ..request.clone() };
    assert!(refused(&record, &tight).starts_with("S7"));
    let mut lie = record.clone();
    lie.lower_bound.0 += 1;
    assert!(refused(&lie, &request).contains("contradicts"));
    // Every buffer of its layout is checked.
    let moved = |offsets| rk_solve::Record { offsets, ..record.clone() };
    let offsets = record.offsets.clone().expect("addresses were asked for");
    assert!(refused(&moved(None), &request).contains("no addresses"));
    assert!(refused(&moved(Some(offsets[1..].to_vec())), &request).contains("4 offsets for 5 buffers"));
    assert!(refused(&moved(Some(vec![Bytes(0); 5])), &request).contains("overlap while 'up' runs"));
    let high = offsets.iter().map(|offset| Bytes(offset.0 + 512)).collect();
    assert!(refused(&moved(Some(high)), &request).contains("misses the budget"));
    let other = text::read("a 4KiB 1us; b(a) 4KiB 1us").expect("a graph");
    assert!(!refused(&record, &Request { graph: &other, ..request.clone() }).is_empty());
}
