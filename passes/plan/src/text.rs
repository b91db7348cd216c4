//! A graph in one line per node, for tests and bug reports, and schedules in one line.
//!
//! Nodes are separated by `;` or line ends:
//!
//! ```text
//! norm 4KiB 1us; up(norm) 8KiB 1us; down(up) 4KiB 1us; add(norm, down) 4KiB 1us
//! ```
//!
//! A node is its name, what it reads, the sizes of its outputs joined by `+`, its time (a whole number, any letters as
//! unit), and options: `ws=8KiB`, `over=up`, `state=16`, `once`, `lent`, `handover`, `pin` (all outputs), `fwd`, `bwd`. Output 1 of a node
//! with several is read as `name.1`. `-` stands for no output.
//!
//! A schedule prints runs by name, `*` marking a run again and `!` an overwrite, and drops with a minus:
//! `norm up -norm down -up norm* add -norm -down | peak 12KiB, 5us`.

use std::collections::BTreeMap;

use crate::graph::{Graph, GraphBuilder, Kind, NodeSpec, OutputSpec};
use crate::judge::Trace;
use crate::schedule::{Schedule, Step};
use crate::units::{Budget, Bytes, Time, ValueId};

/// What is wrong with the text of a graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("in {node:?}: {message}")]
pub struct TextError {
    /// The text of the node.
    pub node: String,
    /// What is wrong with it.
    pub message: String,
}

/// Reads the text form.
///
/// # Errors
/// [`TextError`] with the node at fault.
pub fn read(text: &str) -> Result<Graph, TextError> {
    let mut builder = GraphBuilder::new("text");
    let mut values = BTreeMap::new();
    for node in text.split([';', '\n']).map(str::trim).filter(|node| !node.is_empty()) {
        let wrong = |message: String| TextError { node: node.into(), message };
        let spec = spec(node, &values).map_err(wrong)?;
        let name = spec.name.clone();
        let id = builder.add(spec).map_err(|error| wrong(error.to_string()))?;
        for index in 0.. {
            let Some(value) = builder.output(id, index) else { break };
            let key = if index == 0 { name.clone() } else { format!("{name}.{index}") };
            values.insert(key, value);
        }
    }
    builder.finish().map_err(|error| TextError { node: String::new(), message: error.to_string() })
}

fn spec(node: &str, values: &BTreeMap<String, ValueId>) -> Result<NodeSpec, String> {
    let value =
        |name: &str| values.get(name.trim()).copied().ok_or(format!("no earlier node makes {name:?}"));
    let name_end = node.find(['(', ' ']).unwrap_or(node.len());
    let name = node[..name_end].to_string();
    let mut rest = &node[name_end..];
    let mut reads = Vec::new();
    if let Some(inside) = rest.strip_prefix('(') {
        let (list, after) = inside.split_once(')').ok_or("a parenthesis is not closed")?;
        reads =
            list.split(',').filter(|read| !read.trim().is_empty()).map(value).collect::<Result<_, _>>()?;
        rest = after;
    }
    let mut words = rest.split_whitespace();
    let sizes = words.next().ok_or("the size is missing")?;
    let mut outputs = Vec::new();
    for (index, size) in sizes.split('+').filter(|size| *size != "-").enumerate() {
        let name = if index == 0 { name.clone() } else { format!("{name}.{index}") };
        outputs.push(OutputSpec { name, bytes: bytes(size)?, pinned: false });
    }
    let time = words.next().ok_or("the time is missing")?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let time = Time(time.parse().map_err(|_| format!("{time:?} is not a whole number"))?);
    let mut spec = NodeSpec { name, time, reads, outputs, ..NodeSpec::default() };
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("ws", size) => spec.workspace = bytes(size)?,
            ("over", name) => spec.overwrites = Some(value(name)?),
            ("state", size) => spec.state = bytes(size)?,
            ("once", _) => spec.once = true,
            ("lent", _) => spec.lent = true,
            ("handover", _) => spec.hands_over = true,
            ("pin", _) => spec.outputs.iter_mut().for_each(|output| output.pinned = true),
            ("fwd", _) => spec.kind = Kind::Forward,
            ("bwd", _) => spec.kind = Kind::Backward,
            _ => return Err(format!("unknown option {word:?}")),
        }
    }
    Ok(spec)
}

fn bytes(text: &str) -> Result<Bytes, String> {
    match text.trim_end_matches('B') {
        "0" => Ok(Bytes(0)),
        _ => text.parse::<Budget>().map(|size| size.resolve(Bytes(0))).map_err(|error| error.to_string()),
    }
}

/// A schedule in one line, with what the judge found.
pub fn print(graph: &Graph, schedule: &Schedule, trace: &Trace) -> String {
    let words = schedule.0.iter().map(|step| match *step {
        Step::Run { node, again, overwrite } => {
            let (again, overwrite) = (if again { "*" } else { "" }, if overwrite { "!" } else { "" });
            format!("{}{again}{overwrite}", graph.node(node).name)
        }
        Step::Drop(value) => format!("-{}", graph.value(value).name),
    });
    let words: Vec<String> = words.collect();
    format!("{} | peak {}, {}{}", words.join(" "), trace.peak, graph.time_text(trace.time), graph.time_unit())
}
