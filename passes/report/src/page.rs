//! The page around tables and charts, and what its script reads.

use rk_plan::{Time, readable};
use serde_json::{Value, json};

use crate::curve::Curve;
use crate::numbers::{Unit, escaped};
use crate::report::Report;
use crate::tables::{Tables, module};
use crate::timeline::{Category, Timeline};

const PLAN: &str = include_str!("page/plan.html");
const SCRIPT: &str = include_str!("page/plan.js");
/// What all pages have around their own part.
const SHELL: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const HELP: &str = include_str!("page/charts.js");
const CHARTS: &str = include_str!("../third-party/uPlot/uPlot.iife.min.js");
/// Whoever passes a page on passes uPlot on, and its licence asks for these words.
const CHARTS_LICENCE: &str = include_str!("../third-party/uPlot/LICENSE");
const CHARTS_STYLE: &str = include_str!("../third-party/uPlot/uPlot.min.css");

/// The page of a plan.
pub fn html(report: &Report, planned: &Timeline, curve: &Curve) -> String {
    let before = Timeline::base(report.graph);
    let ends = [&before, planned].map(|side| side.starts.last().copied().unwrap_or(Time(0)));
    let unit = Unit::of(report.graph, ends[0].max(ends[1]));
    let tables = Tables { report, unit: &unit, before: &before, after: planned };
    let sides = [("before", "As it is", &before), ("after", "As planned", planned)];
    let colours = Category::ALL.map(|one| (one.colour(), one.meaning()));
    let mut charts = String::new();
    for (id, title, side) in sides {
        let peak = side.memory.iter().copied().max().unwrap_or_default();
        charts += &figure(id, &format!("{title}: peak {}", readable(peak)));
    }
    if !planned.host.is_empty() {
        charts += &figure("host", "As planned: in host memory");
    }
    let data = data(report, &tables, &sides.map(|(id, _, side)| (id, side)), curve);
    let name = if report.graph.name().is_empty() { "a training step" } else { report.graph.name() };
    let part = |name_of_part: &str| match name_of_part {
        "name" => escaped(name),
        "summary" => tables.summary(),
        "numbers" => tables.numbers(),
        "key" => key(&colours),
        "charts" => charts.clone(),
        "holders" => tables.holders(),
        "curve" => tables.curve(curve),
        "modules" => tables.modules(),
        "again" => tables.again(),
        "transfers" => tables.transfers(),
        _ => String::new(),
    };
    whole(&format!("plan of {name}"), &filled(PLAN, part), &data, SCRIPT)
}

/// A page: its own part, and the numbers that its script reads.
pub(crate) fn whole(title: &str, body: &str, data: &Value, script: &str) -> String {
    filled(SHELL, |part| match part {
        "title" => escaped(title),
        "style" => format!("{CHARTS_STYLE}\n{STYLE}"),
        "body" => body.to_owned(),
        // No text of a model can end a script.
        "data" => data.to_string().replace('<', "\\u003c"),
        "library" => format!("/*\n{CHARTS_LICENCE}\n*/\n{CHARTS}"),
        "script" => format!("{HELP}{script}"),
        _ => String::new(),
    })
}

/// The place of a chart, with its caption.
pub(crate) fn figure(id: &str, caption: &str) -> String {
    format!("<figure><figcaption>{caption}</figcaption><div class=\"chart\" id=\"{id}\"></div></figure>")
}

/// What colours mean.
pub(crate) fn key(colours: &[(&str, &str)]) -> String {
    let one = |&(colour, meaning)| format!("<span><i style=\"background:{colour}\"></i>{meaning}</span>");
    colours.iter().map(one).collect()
}

/// A text whose marks `<!--name-->` are replaced; what comes in is not looked at again.
fn filled(text: &str, part: impl Fn(&str) -> String) -> String {
    let mut pieces = text.split("<!--");
    let mut whole = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = piece.split_once("-->").unwrap_or(("", piece));
        whole += &part(name);
        whole += rest;
    }
    whole
}

fn data(report: &Report, tables: &Tables, sides: &[(&str, &Timeline)], curve: &Curve) -> Value {
    let graph = report.graph;
    let rounded = |time: Time| (tables.unit.number(time) * 1e6).round() / 1e6;
    let more = |time: Time| {
        let base = graph.total_time();
        (crate::numbers::percent(time.0 as f64 - base.0 as f64, base) * 1e6).round() / 1e6
    };
    let side = |timeline: &Timeline| {
        let places = |category| Category::ALL.iter().position(|other| *other == category);
        json!({
            "starts": timeline.starts.iter().map(|&time| rounded(time)).collect::<Vec<_>>(),
            "runs": timeline.runs.iter().map(|node| node.0).collect::<Vec<_>>(),
            "memory": timeline.memory.iter().map(|bytes| bytes.0).collect::<Vec<_>>(),
            "stacks": timeline.stacks(),
            "host": timeline.host.iter().map(|bytes| bytes.0).collect::<Vec<_>>(),
            "lives": timeline.lives.iter().map(|life| {
                json!([life.name, life.bytes.0, life.node.0, life.first, life.last, places(life.category), life.fetched])
            }).collect::<Vec<_>>(),
        })
    };
    let most = sides.iter().flat_map(|(_, side)| &side.memory).copied().max().unwrap_or_default();
    let points = curve.points.iter().map(|point| {
        let own = tables.is_own(point.budget);
        let time = if own { Some(report.time) } else { point.time };
        let bound = if own { report.lower_bound } else { point.bound };
        json!([point.budget.0, time.map(more), more(time.map_or(bound, |time| bound.min(time))).max(0.0)])
    });
    json!({
        "unit": tables.unit.name,
        "budget": report.budget.0,
        "budget_text": readable(report.budget),
        "most": most.max(report.budget).0,
        "categories": Category::ALL.map(|one| json!({"meaning": one.meaning(), "colour": one.colour()})),
        "nodes": graph.nodes().iter().map(|node| json!([node.name, module(node)])).collect::<Vec<_>>(),
        "sides": sides.iter().map(|(id, timeline)| ((*id).to_owned(), side(timeline))).collect::<serde_json::Map<_, _>>(),
        "curve": {
            "points": points.collect::<Vec<_>>(),
            "own": [report.budget.0, more(report.time)],
            "smallest": curve.smallest.map(|bytes| bytes.0),
            "impossible_below": curve.impossible_below.0,
        },
    })
}
