//! A module as a graph for Graphviz: `rk-translate --to dot STEP.mlir | dot -Tsvg`.
//!
//! One box per node, forward in one colour, backward in another, in a frame for each block or module. Where the classes of
//! blocks are known, nodes of blocks of one class share a hue instead, and backward nodes are darker. Nodes that the schedule
//! runs again have a double border and say how often. Edges carry the bytes of the value.
//!
//! A large step is folded: of blocks that are alike, the first is drawn in full, and the others are one box each (`groups`).
//! Graphviz's layout is bounded, too: its network simplex, left alone, takes minutes over a step of some hundred nodes.
//!
//! Written here, and not by `petgraph::dot`, which has no frames, no attributes of the whole graph, and numbers in place of names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;

use rk_dialect::names;
use rk_dialect::ops::{self, Execution, NodeOp, StepOp};
use rk_dialect::{Op, blocks};

use crate::groups::{Group, groups};

/// What bounds the layout: iterations of the two network simplexes and of the search for fewer crossings, and edges that are
/// straight where curves would have to be fitted between boxes.
const BOUNDS: &str = "nslimit=2 nslimit1=2 mclimit=0.5";

/// One step of a module, at stage `simplified` or later. The `chosen` blocks or modules are drawn in full, all others folded;
/// without any, a small step is drawn in full, and of a large one the first of each class.
///
/// # Errors
/// A chosen name that is not there.
pub fn to_dot<'c>(step: StepOp<'c>, module: Op<'c>, chosen: &[String]) -> Result<String, String> {
    let runs: Vec<Execution<'c>> = step.body().ops().into_iter().filter_map(Execution::of).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *count.entry(run.symbol()).or_default() += 1);
    let places = ops::nodes_by_symbol(module);
    let first = runs.iter().filter(|run| !run.is_again() && places.contains_key(run.symbol()));
    let first: Vec<Execution<'c>> = first.copied().collect();
    let nodes: Vec<NodeOp<'c>> = first.iter().map(|run| places[run.symbol()].1).collect();
    let all = groups(step, &nodes, chosen)?;
    let classes = blocks::of(step).unwrap_or_default();
    let class_of = |node: NodeOp<'c>| classes.get(node.block()?).map(|block| block.class);
    let mut text = format!("digraph {} {{\n", quoted(step.symbol()));
    let splines = if nodes.len() > 100 { " splines=polyline" } else { "" };
    let _ = writeln!(text, "  graph [{BOUNDS}{splines}];\n  node [shape=box style=filled];");
    let mut boxes: HashMap<&str, String> = HashMap::new();
    for (place, group) in all.iter().enumerate() {
        let color = |node: NodeOp<'c>| colour(class_of(node), group.backward);
        if group.folded {
            let name = format!("group {place}");
            let line = folded(&all, group, &count);
            let _ = writeln!(
                text,
                "  {} [label={line} shape=folder fillcolor={}];",
                quoted(&name),
                color(group.nodes[0])
            );
            boxes.extend(group.nodes.iter().map(|node| (node.symbol(), name.clone())));
            continue;
        }
        let framed = group.nodes.len() > 1 && !group.name.is_empty() && all.len() > 1;
        if framed {
            let label = quoted(&title(group));
            let _ = writeln!(text, "  subgraph \"cluster {place}\" {{\n  label={label} color=gray;");
        }
        for &node in &group.nodes {
            let line = one(node, count[node.symbol()]);
            let _ = writeln!(
                text,
                "  {} [{line} fillcolor={}{}];",
                quoted(node.symbol()),
                color(node),
                border(count[node.symbol()])
            );
            boxes.insert(node.symbol(), node.symbol().to_owned());
        }
        text.push_str(if framed { "  }\n" } else { "" });
    }
    edges(&mut text, &first, &boxes);
    text.push_str("}\n");
    Ok(text)
}

/// The values that go from box to box: each by itself, and those into or out of a folded box together.
fn edges<'c>(text: &mut String, first: &[Execution<'c>], boxes: &HashMap<&str, String>) {
    let mut between: BTreeMap<(usize, usize), (BTreeSet<String>, u64)> = BTreeMap::new();
    let mut order: HashMap<&str, usize> = HashMap::new();
    let mut named: Vec<&str> = Vec::new();
    for run in first {
        let next = named.len();
        let place = *order.entry(boxes[run.symbol()].as_str()).or_insert(next);
        if place == next {
            named.push(&boxes[run.symbol()]);
        }
    }
    for run in first {
        let to = order[boxes[run.symbol()].as_str()];
        for input in run.inputs() {
            let Some(from) = names::symbol_behind(input).and_then(|from| boxes.get(from)) else {
                continue;
            };
            let from = order[from.as_str()];
            if from != to {
                let (values, bytes) = between.entry((from, to)).or_default();
                if values.insert(names::of(input)) {
                    *bytes += input.ty().bytes().unwrap_or(0);
                }
            }
        }
    }
    for ((from, to), (values, bytes)) in between {
        let what = match values.len() {
            1..=3 => values.into_iter().collect::<Vec<_>>().join(", "),
            many => format!("{many} values"),
        };
        let tooltip = quoted(&format!("{what}: {bytes} B"));
        let _ = writeln!(text, "  {} -> {} [tooltip={tooltip}];", quoted(named[from]), quoted(named[to]));
    }
}

fn one(node: NodeOp<'_>, times: usize) -> String {
    let name = quoted(node.symbol());
    let cost = node.cost().map_or(String::new(), |cost| format!("\\n{} us", cost.time / 1000));
    let again = if times > 1 { format!("\\n{times} runs") } else { String::new() };
    format!("label=\"{}{cost}{again}\"", name.trim_matches('"'))
}

fn border(times: usize) -> &'static str {
    if times > 1 { " peripheries=2" } else { "" }
}

fn title(group: &Group<'_>) -> String {
    format!("{}{}", group.name, if group.backward { ", backward" } else { "" })
}

/// What a box says that stands for many: how many nodes, how long they take, how many run again, and what it is like.
fn folded(all: &[Group<'_>], group: &Group<'_>, count: &BTreeMap<&str, usize>) -> String {
    let time: u64 = group.nodes.iter().filter_map(|node| node.cost()).map(|cost| cost.time).sum();
    let again: usize = group.nodes.iter().map(|node| count[node.symbol()] - 1).sum();
    let mut label = format!("{}\\n{} nodes", quoted(&title(group)).trim_matches('"'), group.nodes.len());
    if time > 0 {
        let _ = write!(label, ", {} us", time / 1000);
    }
    if again > 0 {
        let _ = write!(label, "\\n{again} run again");
    }
    let like = &all[group.like];
    if !std::ptr::eq(like, group) {
        let _ = write!(label, "\\nlike {}", quoted(&like.name).trim_matches('"'));
    }
    format!("\"{label}\"{}", border(if again > 0 { 2 } else { 1 }))
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('\\', "\\\\").replace('"', "\\\""))
}

/// The colour of a node: by its pass, or by the class of its block, as Graphviz reads hue, saturation and value. Steps of the
/// golden ratio keep the hues of neighbouring numbers apart, however many there are.
fn colour(class: Option<i64>, backward: bool) -> String {
    match class {
        None if backward => "lightsalmon".to_owned(),
        None => "lightblue".to_owned(),
        Some(class) => {
            let hue = (class as f64 * 0.618_033_988_749_895).fract();
            let value = if backward { 0.8 } else { 1.0 };
            format!("\"{hue:.3} 0.350 {value:.3}\"")
        }
    }
}
