//! Reads a step as `rk-translate --to json` prints it, from stage `costed` on, or as the benchmark graphs are written.
//!
//! In a step, a value is named after the node that makes it: the first output `NODE`, the others `NODE.1`, `NODE.2`. Inputs that no
//! node makes are parameters and inputs, which are resident before the step and no part of its memory. The schedule, if
//! there is one, is not read: a log is the step as it was recorded, and DTR decides for itself. Outputs of the step are
//! not named there; what nobody reads is taken to be one.
//! Not here: IR.

use anyhow::{Context, Result, ensure};
use rk_plan::{Bytes, Graph, GraphBuilder, Kind, NodeSpec, OutputSpec, Time, ValueId};
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::path::Path;

#[derive(Deserialize)]
struct Step {
    name: String,
    stage: String,
    #[serde(default)]
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    name: String,
    inputs: Vec<String>,
    output_bytes: Vec<u64>,
    time_ns: Option<u64>,
    workspace_bytes: Option<u64>,
    #[serde(default)]
    backward: bool,
    #[serde(default)]
    once: bool,
}

/// Reads a step or a graph from a file; `-` is standard input.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn read_graph(path: &Path) -> Result<Graph> {
    let read = || -> Result<Graph> {
        let text = match path.to_str() {
            Some("-") => std::io::read_to_string(std::io::stdin())?,
            _ => std::fs::read_to_string(path)?,
        };
        let step = serde_json::from_str::<serde_json::Value>(&text).is_ok_and(|v| v.get("stage").is_some());
        if step { graph_of_step(&text) } else { Ok(rk_plan::json::read(&text)?) }
    };
    read().with_context(|| path.display().to_string())
}

fn graph_of_step(text: &str) -> Result<Graph> {
    let step: Step = serde_json::from_str(text)?;
    ensure!(!step.nodes.is_empty(), "stage {} has no nodes: run rk-opt --rk-annotate-cost first", step.stage);
    let read: HashSet<&str> = step.nodes.iter().flat_map(|n| n.inputs.iter().map(String::as_str)).collect();
    let mut builder = GraphBuilder::new(step.name.as_str()).time_unit("us", 1000);
    let mut values: HashMap<String, ValueId> = HashMap::new();
    let mut made = 0;
    for node in &step.nodes {
        let time = node.time_ns.with_context(|| {
            format!("node {:?} has no time: stage {} comes before costs", node.name, step.stage)
        })?;
        let mut outputs = Vec::new();
        let reads = node.inputs.iter().filter_map(|name| values.get(name).copied()).collect();
        for (place, &bytes) in node.output_bytes.iter().enumerate() {
            let name = if place == 0 { node.name.clone() } else { format!("{}.{place}", node.name) };
            let pinned = !read.contains(name.as_str());
            values.insert(name.clone(), ValueId::from_index(made));
            outputs.push(OutputSpec { name, bytes: Bytes(bytes), pinned });
            made += 1;
        }
        builder.add(NodeSpec {
            name: node.name.clone(),
            kind: if node.backward { Kind::Backward } else { Kind::Forward },
            time: Time(time),
            workspace: Bytes(node.workspace_bytes.unwrap_or(0)),
            reads,
            outputs,
            once: node.once,
            ..NodeSpec::default()
        })?;
    }
    Ok(builder.finish()?)
}
