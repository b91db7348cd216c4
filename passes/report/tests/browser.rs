//! The page in headless Chromium: no errors, nothing asked of a network, pointing shows values, a wheel zooms. Without a Chromium it is
//! skipped aloud.

use std::path::Path;
use std::process::Command;

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time, judge, text};
use rk_report::{CalledPlan, CalledStep, Curve, Point, Report, Timeline, calls_html, html};
use rk_solve::Variant;

/// Ten runs of one tick; `a` is made again by the last but one.
const STEP: &str = "net.0.a 4096 1 fwd; net.0.b(net.0.a) 8192 1 fwd; net.1.c(net.0.b) 8192 1 fwd; net.1.d(net.1.c) 8192 1 fwd; \
    loss(net.1.d) 4 1 fwd; dd(loss, net.1.d) 8192 1 bwd; dc(dd, net.1.c) 8192 1 bwd; db(dc, net.0.b) 8192 1 bwd; da(db, net.0.a) 4096 1 bwd";

/// Looks at places of charts.
const LOOK: &str = r#"
const seen = {};
const look = (id, share, name) => {
  const over = document.querySelector(`#${id} .u-over`), box = over.getBoundingClientRect();
  const at = { clientX: box.left + share * box.width, clientY: box.top + box.height / 2, movementX: 1, bubbles: true };
  over.dispatchEvent(new MouseEvent("mouseenter", at));
  over.dispatchEvent(new MouseEvent("mousemove", at));
  const tip = document.getElementById("tip");
  seen[name] = tip.style.display === "none" ? "" : [...tip.querySelectorAll("b, div, td")].map(one => one.textContent).join("|");
  return { over, at };
};
const zoom = ({ over, at }) => over.dispatchEvent(new WheelEvent("wheel", { ...at, deltaY: -100, cancelable: true }));
"#;

/// Writes what was seen into the page.
const TELL: &str = r#"
seen.charts = document.querySelectorAll(".uplot canvas").length;
seen.errors = window.errors;
const out = document.createElement("pre");
out.id = "seen";
out.textContent = JSON.stringify(seen);
document.body.append(out);
"#;

/// What is looked at on the page of a plan, at once and after a zoom.
const PLAN: [&str; 2] = [
    r#"look("before", 0.35, "before"); const place = look("after", 0.95, "after"); look("after", 0.05, "early"); zoom(place);"#,
    r#"look("after", 0.05, "zoomed"); look("curve", 0.99, "curve");"#,
];

/// Before everything else on the page.
const LISTENER: &str = r#"<script>
window.errors = [];
addEventListener("error", event => window.errors.push(String(event.message)));
addEventListener("securitypolicyviolation", event => window.errors.push(event.violatedDirective + " " + event.blockedURI));
console.error = console.warn = (...said) => window.errors.push(said.join(" "));
</script>"#;

fn page(graph: &Graph) -> String {
    let runs = Sequence([0, 1, 2, 3, 4, 5, 6, 7, 0, 8].map(NodeId).into());
    let trace = judge(graph, &runs).expect("legal");
    let report = Report {
        graph,
        budget: trace.peak,
        time: trace.time,
        lower_bound: Time(10),
        bound_kind: "optimal",
        status: "optimal",
        solver: "nobody",
        resident: None,
        transfers: &[],
        operators: &[],
    };
    let base = judge(graph, &Sequence::base(graph)).expect("legal");
    let points = vec![
        Point { budget: trace.peak, time: Some(Time(10)), bound: Time(10) },
        Point { budget: base.peak, time: Some(Time(9)), bound: Time(9) },
    ];
    let curve = Curve { points, smallest: Some(trace.peak), impossible_below: trace.peak };
    html(&report, &Timeline::of(graph, &runs, &trace), &curve)
}

fn chromium() -> Option<&'static str> {
    ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|name| Command::new(name).arg("--version").output().is_ok_and(|done| done.status.success()))
}

fn visited(program: &str, folder: &Path, page: &str, looks: [&str; 2]) -> serde_json::Value {
    let [first, then] = looks;
    let visitor = format!(
        "<script>addEventListener(\"load\", () => {{{LOOK}{first}\nsetTimeout(() => {{{then}{TELL}}}, 300); }});</script>"
    );
    let page = page.replacen("<head>", &format!("<head>{LISTENER}"), 1);
    let file = folder.join("page.html");
    std::fs::write(&file, page.replacen("</body>", &format!("{visitor}</body>"), 1)).expect("written");
    let done = Command::new(program)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-extensions"])
        .args(["--window-size=1100,2000", "--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .arg(format!("file://{}", file.display()))
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&done.stdout);
    let seen = text.split_once("<pre id=\"seen\">").and_then(|(_, rest)| rest.split_once("</pre>"));
    let Some((seen, _)) = seen else {
        panic!("the script has not ended: {}", String::from_utf8_lossy(&done.stderr));
    };
    serde_json::from_str(&seen.replace("&amp;", "&").replace("&gt;", ">").replace("&lt;", "<")).expect("JSON")
}

#[test]
fn pointing_shows_values_and_nothing_goes_wrong() {
    let Some(program) = chromium() else {
        eprintln!("skipped: there is no chromium; on Debian, apt-get install chromium");
        return;
    };
    let graph = text::read(STEP).expect("a graph");
    let folder = tempfile::tempdir().expect("a folder");
    let seen = visited(program, folder.path(), &page(&graph), PLAN);
    let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(seen["errors"], serde_json::json!([]), "{seen}");
    assert_eq!(seen["charts"], 3);
    // Run 3 of 9, while 10 runs fill the width.
    let before = text("before");
    assert!(before.starts_with("run 3: net.1.d|net.1, 28 KiB in use; the largest of it:|"), "{before}");
    assert!(before.contains("net.0.a|4 KiB|saved for backward|net.0|made by run 0|stays"), "{before}");
    assert!(
        before.contains("net.0.b|8 KiB|saved for backward|net.0|made by run 1|freed after run 7"),
        "{before}"
    );
    let after = text("after");
    assert!(after.starts_with("run 9: da|no module, 16 KiB in use"), "{after}");
    assert!(after.contains("net.0.a|4 KiB|made again|net.0|made by run 8|stays"), "{after}");
    assert!(text("early").starts_with("run 0: net.0.a|"), "{seen}");
    // The wheel was turned at the right end: the left one now shows a later run.
    assert!(text("zoomed").starts_with("run 2: "), "{seen}");
    assert!(text("curve").starts_with("budget 36 KiB|+0.00 % time|at least +0.00 %"), "{seen}");
}

#[test]
fn a_page_that_asks_the_network_is_seen() {
    let Some(program) = chromium() else {
        eprintln!("skipped: there is no chromium; on Debian, apt-get install chromium");
        return;
    };
    let graph = text::read(STEP).expect("a graph");
    let folder = tempfile::tempdir().expect("a folder");
    let asks = "<img src=\"https://example.invalid/x.png\"></body>";
    let seen = visited(program, folder.path(), &page(&graph).replacen("</body>", asks, 1), PLAN);
    assert!(seen["errors"].as_array().is_some_and(|all| !all.is_empty()), "{seen}");
}

/// Two layers forward, the caller between, two layers backward.
fn called() -> CalledStep {
    let plan = |name: &str, held| CalledPlan {
        graph: "Block".to_owned(),
        name: name.to_owned(),
        codegen: "fx".to_owned(),
        numbers: Variant { held, forward: 4096, backward: 6144, time: 1000 },
        base_time: 1000,
        again: 0,
    };
    CalledStep {
        about: "Device cpu".to_owned(),
        budget: Bytes(16 << 10),
        needs: None,
        measured: None,
        lower_bound: Time(2000),
        stands: Bytes(0),
        plans: vec![plan("checkpoint", 1024), plan("keep all", 3072)],
        calls: vec![(0, 0, 4), (1, 1, 3)],
        moments: vec![(Some(0), 0), (Some(1), 512), (None, 2048), (Some(1), 512), (Some(0), 0)],
    }
}

#[test]
fn pointing_at_a_run_shows_calls() {
    let Some(program) = chromium() else {
        eprintln!("skipped: there is no chromium; on Debian, apt-get install chromium");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let looks = [
        r#"look("step0", 0.5, "between"); look("step1", 0.3, "forward"); zoom(look("step1", 0.95, "backward"));"#,
        r#"look("step1", 0.05, "zoomed");"#,
    ];
    let seen = visited(program, folder.path(), &calls_html(&[called(), called()]), looks);
    let text = |name: &str| seen[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(seen["errors"], serde_json::json!([]), "{seen}");
    assert_eq!(seen["charts"], 2);
    let between = "moment 2: what runs between the calls|6 KiB of 16.00 KiB in use, 2 calls open|held by open calls|4 KiB|beside the calls|2 KiB";
    assert_eq!(text("between"), between);
    let forward = "moment 1: forward of Block, call 2|plan “keep all”, holds 3 KiB between its halves|5.5 KiB of 16.00 KiB in use, 2 calls open";
    assert!(text("forward").starts_with(forward), "{seen}");
    assert!(text("backward").starts_with("moment 4: backward of Block, call 1|plan “checkpoint”"), "{seen}");
    assert!(text("zoomed").starts_with("moment 1: "), "{seen}");
}
