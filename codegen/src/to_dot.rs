//! A module as a graph for Graphviz: `rk-translate --to dot STEP.mlir | dot -Tsvg`.
//!
//! One box per node, forward in one colour, backward in another. Where the classes of blocks are known, nodes of blocks of one
//! class share a hue instead, and backward nodes are darker. Nodes that the schedule runs again have a double border
//! and say how often. Edges carry the bytes of the value.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use rk_dialect::names;
use rk_dialect::ops::{self, Execution, NodeOp, StepOp};
use rk_dialect::{Attr, Op};

use crate::blocks;

/// One step of a module, at stage `simplified` or later.
pub fn to_dot<'c>(step: StepOp<'c>, module: Op<'c>) -> String {
    let runs: Vec<Execution<'c>> = step.body().ops().into_iter().filter_map(Execution::of).collect();
    let mut count: BTreeMap<&str, usize> = BTreeMap::new();
    runs.iter().for_each(|run| *count.entry(run.symbol()).or_default() += 1);
    let places = ops::nodes_by_symbol(module);
    let blocks = blocks::of(step).unwrap_or_default();
    let class_of = |node: NodeOp<'c>| {
        let block = node.op().get("rk.block").and_then(Attr::as_i64)?;
        blocks.get(usize::try_from(block).ok()?).map(|block| block.class)
    };
    let mut text = format!("digraph {} {{\n  node [shape=box style=filled];\n", quoted(step.symbol()));
    for run in runs.iter().filter(|run| !run.is_again()) {
        let Some((_, node)) = places.get(run.symbol()) else { continue };
        let times = count[run.symbol()];
        let color = colour(class_of(*node), node.is_backward());
        let cost = node.cost().map_or(String::new(), |cost| format!("\\n{} us", cost.time / 1000));
        let again = if times > 1 { format!("\\n{times} runs") } else { String::new() };
        let border = if times > 1 { " peripheries=2" } else { "" };
        let name = quoted(run.symbol());
        let label = name.trim_matches('"');
        let _ = writeln!(text, "  {name} [label=\"{label}{cost}{again}\" fillcolor={color}{border}];");
        for input in run.inputs() {
            let Some(from) = Execution::symbol_behind(input) else { continue };
            let bytes = input.ty().bytes().unwrap_or(0);
            let what = quoted(&format!("{}: {bytes} B", names::of(input)));
            let _ = writeln!(text, "  {} -> {name} [tooltip={what}];", quoted(from));
        }
    }
    text.push_str("}\n");
    text
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
