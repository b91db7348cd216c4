//! `--report`: a page for every plan, with transfers, too, and no page without one. What is on it is tested where it is made (`rk-report`).

use std::path::Path;
use std::process::{Command, Output};

const BLOCK: &str = r#"{"name": "block", "time_unit": "us", "nodes": [
{"id": 0, "kind": "fwd", "name": "0.norm", "time": 1.5, "bytes": 4096, "deps": []},
{"id": 1, "kind": "fwd", "name": "0.up", "module": "body.up", "time": 1, "bytes": 8192, "deps": [0]},
{"id": 2, "kind": "fwd", "name": "0.down", "time": 1, "bytes": 4096, "deps": [1]},
{"id": 3, "kind": "fwd", "name": "0.add", "time": 1, "bytes": 4096, "deps": [0, 2]}]}"#;

/// `a` is idle for long, and takes long to make.
const IDLE: &str = r#"{"name": "idle", "time_unit": "us", "nodes": [
{"id": 0, "kind": "fwd", "name": "a", "time": 100, "bytes": 8192, "deps": []},
{"id": 1, "kind": "fwd", "name": "b", "time": 1, "bytes": 4096, "deps": [0]},
{"id": 2, "kind": "fwd", "name": "c", "time": 1, "bytes": 8192, "deps": [1]},
{"id": 3, "kind": "fwd", "name": "d", "time": 1, "bytes": 8192, "deps": [2]},
{"id": 4, "kind": "fwd", "name": "e", "time": 1, "bytes": 1024, "deps": [3]},
{"id": 5, "kind": "bwd", "name": "f", "time": 1, "bytes": 1024, "deps": [4]},
{"id": 6, "kind": "bwd", "name": "g", "time": 1, "bytes": 1024, "deps": [0, 5]}]}"#;

/// Runs it in a folder with a graph; the page, if one was written.
fn report(folder: &Path, more: &[&str]) -> (Output, Option<String>) {
    report_of(BLOCK, folder, more)
}

fn report_of(graph: &str, folder: &Path, more: &[&str]) -> (Output, Option<String>) {
    let page = folder.join("page.html");
    let _ = std::fs::remove_file(&page);
    std::fs::write(folder.join("graph.json"), graph).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_rk-plan"));
    command.current_dir(folder).env_remove("RK_LOG").arg("graph.json").args(more);
    let done = command.args(["--timekeeping", "work"]).output().expect("rk-plan starts");
    (done, std::fs::read_to_string(page).ok())
}

#[test]
fn a_plan_has_a_page_that_is_the_same_every_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--budget", "12KiB", "--report", "page.html", "--json"];
    let (done, page) = report(folder.path(), &arguments);
    let page = page.unwrap_or_else(|| panic!("no page: {done:?}"));
    assert!(done.status.success() && done.stdout.starts_with(b"{"), "{done:?}");
    assert!(page.contains("Peak 12.00 KiB instead of 16.00 KiB, within a budget of 12.00 KiB"), "{page}");
    assert!(page.contains("The smallest budget with a plan is 12.00 KiB"), "{page}");
    assert!(page.contains("<span>body.up</span>") && page.contains("<span>0</span>"), "modules: {page}");
    assert_eq!(report(folder.path(), &arguments).1, Some(page));
    let (_, plain) = report(folder.path(), &[&arguments[..], &["--report-points", "0"]].concat());
    assert!(plain.is_some_and(|plain| !plain.contains("The smallest budget")));
}

#[test]
fn transfers_are_on_the_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let arguments = ["--budget", "18KiB", "--offload", "--bandwidth", "1000GB/s", "--report", "page.html"];
    let (done, page) = report_of(IDLE, folder.path(), &arguments);
    let page = page.unwrap_or_else(|| panic!("no page: {done:?}"));
    for part in ["<h2>Transfers</h2>", "id=\"host\"", "peak in host memory", "planned without transfers"] {
        assert!(page.contains(part), "{part}");
    }
}

#[test]
fn without_a_plan_there_is_no_page() {
    let folder = tempfile::tempdir().expect("a folder");
    let (done, page) = report(folder.path(), &["--budget", "4KiB", "--report", "page.html"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert_eq!((done.status.code(), page), (Some(2), None), "{said}");
    assert_eq!(said, "rk-plan: no plan, so page.html is not written\n");
    let (done, _) = report(folder.path(), &["--budget", "12KiB", "--report", "nowhere/page.html"]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        done.status.code() == Some(1) && said.starts_with("rk-plan: cannot write nowhere/page.html: "),
        "{said}"
    );
    let (done, _) = report(folder.path(), &["--pareto", "--report", "page.html"]);
    assert!(
        done.status.code() == Some(1)
            && String::from_utf8_lossy(&done.stderr).contains("cannot be used with")
    );
    let (done, _) = report(folder.path(), &["--budget", "12KiB", "--report-points", "3"]);
    assert!(
        done.status.code() == Some(1) && String::from_utf8_lossy(&done.stderr).contains("--report <FILE>")
    );
}
