//! The page as text: nothing from elsewhere, names are text, the curve has its bounds, and uPlot is what it was.

use std::path::Path;
use std::time::Duration;

use rk_plan::{Bytes, Graph, GraphBuilder, NodeSpec, OutputSpec, Sequence, Time, base_trace, judge};
use rk_report::{Curve, Report, Timeline, curve, html};
use rk_solve::synthetic::{self, Family};
use rk_solve::{Request, Timekeeping, solve};
use sha2::{Digest, Sha256};

fn report(graph: &Graph, budget: Bytes, time: Time) -> Report<'_> {
    let lower_bound = graph.total_time();
    let (bound_kind, status, solver) = ("order_free", "feasible", "auto");
    let (transfers, operators): (&[_], &[_]) = (&[], &[]);
    Report {
        graph,
        budget,
        time,
        lower_bound,
        bound_kind,
        status,
        solver,
        resident: None,
        transfers,
        operators,
    }
}

fn request(graph: &Graph, percent: u64) -> Request<'_> {
    let budget = Bytes(base_trace(graph).peak.0 * percent / 100);
    let time_limit = Duration::from_millis(100);
    Request { time_limit, timekeeping: Timekeeping::Work, ..Request::new(graph, budget) }
}

/// The page of a plan at 70 %, and its curve.
fn page() -> (String, Curve, Bytes) {
    let graph = synthetic::graph(Family::Transformer, 300, 0);
    let request = request(&graph, 70);
    let plan = solve(&request).plan.expect("a plan");
    let others = curve(&request, &plan.sequence, 4);
    let timeline = Timeline::of(&graph, &plan.sequence, &plan.trace);
    (html(&report(&graph, request.budget, plan.trace.time), &timeline, &others), others, request.budget)
}

#[test]
fn the_page_asks_no_network_and_is_the_same_every_time() {
    let (text, ..) = page();
    assert_eq!(text, page().0);
    for asks in ["src=", "href=", "url(", "@import", "fetch(", "XMLHttpRequest", "<link"] {
        assert!(!text.contains(asks), "{asks}");
    }
    assert!(text.contains("default-src 'none'") && !text.contains("<!--"));
    assert!(text.contains("Copyright (c) 2022 Leon Sorokin") && text.contains("The above copyright notice"));
    assert!(text.len() < 4 << 20, "{}", text.len());
}

#[test]
fn the_curve_has_the_plan_and_its_bounds() {
    let (text, curve, budget) = page();
    let budgets: Vec<Bytes> = curve.points.iter().map(|point| point.budget).collect();
    assert!(budgets.is_sorted() && budgets.contains(&budget), "{budgets:?}");
    assert_eq!(Some(budgets[0]), curve.smallest);
    assert!(curve.impossible_below <= budgets[0]);
    let times: Vec<Time> = curve.points.iter().filter_map(|point| point.time).collect();
    assert_eq!(times.len(), budgets.len());
    assert!(times.is_sorted_by(|a, b| a >= b), "more budget never takes more time: {times:?}");
    assert!(curve.points.iter().all(|point| Some(point.bound) <= point.time));
    assert!(text.contains("The smallest budget with a plan is"));
}

#[test]
fn without_points_there_is_the_plan_alone() {
    let graph = synthetic::graph(Family::Vgg, 40, 0);
    let base = Sequence::base(&graph);
    let none = curve(&request(&graph, 100), &base, 0);
    assert_eq!(none, Curve::default());
    let trace = judge(&graph, &base).expect("legal");
    let text = html(&report(&graph, trace.peak, trace.time), &Timeline::of(&graph, &base, &trace), &none);
    assert!(
        text.contains("(this plan)") && text.contains("Nothing.") && !text.contains("smallest budget with")
    );
}

#[test]
fn a_unit_of_time_has_the_names_that_links_know_it_by() {
    let page = |unit: &str| {
        let mut builder = GraphBuilder::new("units").time_unit(unit, 1);
        let outputs = vec![OutputSpec { name: "value".into(), bytes: Bytes(1), pinned: false }];
        let (name, time) = ("node".into(), Time(1_500));
        builder.add(NodeSpec { name, time, outputs, ..NodeSpec::default() }).unwrap();
        let graph = builder.finish().unwrap();
        let sequence = Sequence::base(&graph);
        let trace = judge(&graph, &sequence).unwrap();
        let timeline = Timeline::of(&graph, &sequence, &trace);
        html(&report(&graph, Bytes(1), trace.time), &timeline, &Curve::default())
    };
    let short = page("us");
    assert!(short.contains("1.50 ms"), "{short}");
    assert_eq!(page("microseconds"), short);
    assert!(page("steps").contains("1500 steps"));
}

#[test]
fn names_of_a_model_are_text() {
    let odd = "</script><b>&\"<!--data-->";
    let mut builder = GraphBuilder::new(odd);
    let outputs = vec![OutputSpec { name: odd.into(), bytes: Bytes(4), pinned: false }];
    let spec =
        NodeSpec { name: odd.into(), module: odd.into(), time: Time(1), outputs, ..NodeSpec::default() };
    builder.add(spec).expect("a node");
    let graph = builder.finish().expect("a graph");
    let base = Sequence::base(&graph);
    let trace = judge(&graph, &base).expect("legal");
    let operators = [odd.to_owned()];
    let report = Report { operators: &operators, solver: odd, ..report(&graph, trace.peak, trace.time) };
    let text = html(&report, &Timeline::of(&graph, &base, &trace), &Curve::default());
    assert!(!text.contains(odd) && !text.contains("<b>") && !text.contains("<!--"));
    assert_eq!(text.matches("</script>").count(), 3);
}

#[test]
fn uplot_is_what_its_table_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("third-party/uPlot");
    let table = std::fs::read_to_string(folder.join("README.md")).expect("the table");
    for file in ["uPlot.iife.min.js", "uPlot.min.css", "LICENSE"] {
        let sum = Sha256::digest(std::fs::read(folder.join(file)).expect("a file"));
        let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
        let row = table.lines().find(|line| line.contains(&format!("`{file}`"))).expect("a row");
        assert!(row.contains(&sum), "{file} has {sum}");
    }
}
