//! Between DTR's programs and the planner's graphs, both ways, without changing what they cost.
//!
//! A graph becomes a program: every node a call in the given order, every value released after its last reader, outputs of
//! the step kept. Workspace becomes one more result that is released at once.
//!
//! A program becomes a graph: every call a node, every storage a value. Constants are pinned in DTR's eager runtime, so they
//! are no values and their bytes leave the budget. In-place operators are pure ones already. What the program still holds at
//! its end is an output. Two things have no counterpart and are bracketed by two graphs ([`Views`]): a call that makes
//! only views of one storage belongs to that storage, and whoever brings the storage back in DTR runs those views
//! that are asked for. A view of several storages is a token of no bytes, which its readers read beside its storage.
//!
//! Not here: files, solving (see `plan`).

use anyhow::{Context, Result};
use rk_dtr::{Bytes, LogWriter, Nanos, Output, Program, Step};
use rk_plan::{Graph, GraphBuilder, NodeSpec, OutputSpec, Time, ValueId};
use std::io::Write;

/// Who pays for calls that make only views of one storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Views {
    /// Every run of the call that made the storage pays for all of them: no plan costs more in DTR than in this graph.
    EveryRun,
    /// They are paid once: no schedule costs less in DTR than in this graph, so that its bounds are bounds there.
    Once,
}

/// A program as a graph.
#[derive(Clone, Debug)]
pub struct Converted {
    /// Nodes are the program's calls, without constants and without views of one storage; times in nanoseconds.
    pub graph: Graph,
    /// What is pinned beside it.
    pub constants: Bytes,
}

/// Where a tensor lives in the graph.
#[derive(Clone, Copy)]
struct Place {
    /// The value of its storage; constants have none.
    storage: Option<ValueId>,
    /// Made by the call of a view of several storages.
    token: Option<ValueId>,
}

/// Makes a graph of a program.
///
/// # Errors
/// If the program has nothing to compute, or is too large for a graph.
pub fn graph_of(name: &str, program: &Program, views: Views) -> Result<Converted> {
    let mut specs: Vec<NodeSpec> = Vec::new();
    let mut makers: Vec<usize> = Vec::new();
    let mut places: Vec<Place> = Vec::with_capacity(program.tensors());
    let (mut constants, mut viewing) = (0, 0);
    let pinned = pinned_at_once(program);
    for call in program.calls() {
        let fresh = |o: &Output| if let Output::Fresh(size) = o { size.0 } else { 0 };
        if call.args.is_empty() && pinned[call.first_output.index()] {
            constants += call.outputs.iter().map(fresh).sum::<u64>();
            places.extend(call.outputs.iter().map(|_| Place { storage: None, token: None }));
            viewing += call.cost.0;
            continue;
        }
        let args: Vec<Place> = call.args.iter().map(|a| places[a.index()]).collect();
        let one = args.first().filter(|first| {
            let same = |p: &Place| p.storage == first.storage && p.token.is_none();
            args.iter().all(same) && call.outputs.iter().all(|o| matches!(o, Output::View(_)))
        });
        if let Some(&place) = one {
            match (place.storage, views) {
                (Some(storage), Views::EveryRun) => specs[makers[storage.index()]].time.0 += call.cost.0,
                _ => viewing += call.cost.0,
            }
            places.extend(call.outputs.iter().map(|_| place));
            continue;
        }
        let reads = args.iter().flat_map(|p| [p.storage, p.token]).flatten().collect();
        let mut outputs = Vec::new();
        for output in call.outputs {
            let value = ValueId::from_index(makers.len());
            makers.push(specs.len());
            outputs.push(OutputSpec { bytes: rk_plan::Bytes(fresh(output)), ..OutputSpec::default() });
            places.push(match *output {
                Output::Fresh(_) => Place { storage: Some(value), token: None },
                Output::View(arg) => Place { storage: args[arg as usize].storage, token: Some(value) },
            });
        }
        let name = format!("call {}", specs.len());
        specs.push(NodeSpec { name, time: Time(call.cost.0), reads, outputs, ..NodeSpec::default() });
    }
    // Views of constants, and views that are paid once: part of the base time, never of a recomputation.
    if viewing > 0 {
        specs.push(NodeSpec { name: "views".into(), time: Time(viewing), once: true, ..NodeSpec::default() });
    }
    let mut builder = GraphBuilder::new(name).time_unit("us", 1000);
    for spec in specs {
        builder.add(spec)?;
    }
    for step in program.steps() {
        if let Step::Pin(tensor) = step {
            let Place { storage, token } = places[tensor.index()];
            [storage, token].into_iter().flatten().for_each(|value| builder.pin(value));
        }
    }
    let graph = builder.finish().context("the log computes nothing")?;
    Ok(Converted { graph, constants: Bytes(constants) })
}

/// Per tensor whether it is pinned right after its call: so the reader of logs does with constants.
fn pinned_at_once(program: &Program) -> Vec<bool> {
    let mut pinned = vec![false; program.tensors()];
    for pair in program.steps().windows(2) {
        if let [Step::Compute(call), Step::Pin(tensor)] = pair {
            pinned[tensor.index()] = program.call(*call).first_output == *tensor;
        }
    }
    pinned
}

/// Writes a graph as a log in DTR's format. Times are ticks of the graph.
///
/// # Errors
/// As the writer says.
pub fn write_log<W: Write>(graph: &Graph, to: W) -> Result<W> {
    let mut log = LogWriter::new(to)?;
    let name = |value: ValueId| format!("v{}", value.index());
    for id in graph.node_ids() {
        let node = graph.node(id);
        let args: Vec<String> = node.reads.iter().map(|&value| name(value)).collect();
        let fresh = |bytes: rk_plan::Bytes| Output::Fresh(Bytes(bytes.0));
        let mut results: Vec<_> =
            node.writes.iter().map(|&value| (name(value), fresh(graph.value(value).bytes))).collect();
        // A call needs a result, and what it needs besides is one.
        let scratch = format!("w{}", id.index());
        if results.is_empty() || node.workspace.0 > 0 {
            results.push((scratch.clone(), fresh(node.workspace)));
        }
        let has_scratch = results.len() > node.writes.len();
        log.call(&node.name, Nanos(node.time.0), &args, &results)?;
        if has_scratch {
            log.release(&scratch)?;
        }
        for &value in node.reads.iter().chain(&node.writes) {
            let last = graph.readers(value).last().copied().unwrap_or(graph.value(value).producer);
            if last == id && !graph.value(value).pinned {
                log.release(&name(value))?;
            }
        }
    }
    Ok(log.finish()?)
}
