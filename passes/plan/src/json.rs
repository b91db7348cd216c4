//! Graphs as JSON: the schema of the benchmark graphs, with optional fields.
//!
//! ```json
//! {"name": "...", "source": "...", "time_unit": "us",
//!  "nodes": [{"id": 0, "kind": "fwd", "name": "...", "time": 1.5, "bytes": 4096, "deps": []},
//!            {"id": 1, "kind": "bwd", "name": "...", "time": 2, "workspace": 512, "deps": [0],
//!             "outputs": [{"name": "dx", "bytes": 4096, "pinned": true}, {"bytes": 0}],
//!             "overwrites": 0, "state": 16, "once": true, "lent": true, "hands_over": true}]}
//! ```
//!
//! `id` equals the position; every dep is earlier. `outputs` stands instead of `bytes` (which may have `pinned` beside
//! it); a dep is then a pair `[node, output]`, and a plain id means output 0. The optional fields mean what
//! [`Node`](crate::Node) says. Unknown keys are ignored, so that files of other tools stay readable.
//!
//! Times are decimals and are kept exactly: the graph counts ticks of a power of ten, as many as the longest fraction
//! needs. Fractions beyond 12 digits, or beyond what the sum of all times leaves room for, are rounded to a tick.
//!
//! Not here: files. The text is the argument, and errors carry line, column and field.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::graph::{Graph, GraphBuilder, Kind, NodeSpec, OutputSpec};
use crate::units::{Bytes, NodeId, Time, ValueId};

/// What is wrong with a graph file, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {field}{message}")]
pub struct JsonError {
    /// Counted from 1.
    pub line: usize,
    /// Counted from 1, in bytes.
    pub column: usize,
    /// Such as `nodes[3].bytes: `; empty where the whole graph is meant.
    pub field: String,
    /// What was expected, and what stands there.
    pub message: String,
}

#[derive(Deserialize)]
struct RawGraph<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    time_unit: Option<&'a RawValue>,
    #[serde(borrow)]
    stage: Option<&'a RawValue>,
    #[serde(borrow)]
    nodes: Option<Vec<&'a RawValue>>,
}

#[derive(Deserialize)]
struct RawNode<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    kind: Option<&'a RawValue>,
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    module: Option<&'a RawValue>,
    #[serde(borrow)]
    time: Option<&'a RawValue>,
    #[serde(borrow)]
    bytes: Option<&'a RawValue>,
    #[serde(borrow)]
    pinned: Option<&'a RawValue>,
    #[serde(borrow)]
    outputs: Option<&'a RawValue>,
    #[serde(borrow)]
    deps: Option<&'a RawValue>,
    #[serde(borrow)]
    workspace: Option<&'a RawValue>,
    #[serde(borrow)]
    overwrites: Option<&'a RawValue>,
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    #[serde(borrow)]
    once: Option<&'a RawValue>,
    #[serde(borrow)]
    lent: Option<&'a RawValue>,
    #[serde(borrow)]
    hands_over: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct RawOutput<'a> {
    #[serde(borrow)]
    name: Option<&'a RawValue>,
    #[serde(borrow)]
    bytes: Option<&'a RawValue>,
    #[serde(borrow)]
    pinned: Option<&'a RawValue>,
}

/// Reads a graph.
///
/// # Errors
/// [`JsonError`] for syntax, for missing or impossible fields, and for what [`GraphBuilder`] refuses.
pub fn read(text: &str) -> Result<Graph, JsonError> {
    let source = Source { text };
    let object = |raw: &str| raw.trim_start().starts_with('{');
    if !object(text) {
        return Err(source.at(text, String::new(), "the graph must be a JSON object".into()));
    }
    let graph: RawGraph =
        serde_json::from_str(text).map_err(|error| source.serde_error::<RawGraph>(&error, text, ""))?;
    let untimed = |node: &RawValue| !node.get().contains("\"time\"");
    if let Some(stage) = graph.stage.filter(|_| graph.nodes.iter().flatten().all(|node| untimed(node))) {
        let message =
            "this is a module as data (rk-translate --to json); rk-translate --to graph makes a graph";
        return Err(source.at(stage.get(), "stage: ".into(), message.into()));
    }
    let nodes = graph.nodes.unwrap_or_default();
    if nodes.is_empty() {
        return Err(JsonError {
            line: 1,
            column: 1,
            field: String::new(),
            message: "the graph needs a non-empty list \"nodes\"".into(),
        });
    }
    let mut raw = Vec::with_capacity(nodes.len());
    let mut times = Vec::with_capacity(nodes.len());
    for (position, node) in nodes.iter().enumerate() {
        if !object(node.get()) {
            return Err(source.at(node.get(), format!("nodes[{position}]: "), "must be an object".into()));
        }
        let parsed: RawNode = source.parse(node, || format!("nodes[{position}]"))?;
        let at = Place { source: &source, node, position, count: nodes.len() };
        times.push(at.time(parsed.time)?);
        raw.push(parsed);
    }
    let decimals = decimals(&times);
    let name = graph.name.map_or(Ok(Cow::Borrowed("")), |raw| source.string(raw, "name"))?;
    let unit = graph.time_unit.map_or(Ok(Cow::Borrowed("")), |raw| source.string(raw, "time_unit"))?;
    let mut builder = GraphBuilder::new(name).time_unit(unit, 10u64.pow(decimals));
    for (position, node) in raw.iter().enumerate() {
        let at = Place { source: &source, node: nodes[position], position, count: nodes.len() };
        let spec = at.spec(node, ticks(&times[position], decimals), &builder)?;
        builder.add(spec).map_err(|error| at.wrong(at.node, "", error.to_string()))?;
    }
    builder.finish().map_err(|error| source.at(text, String::new(), error.to_string()))
}

/// A decimal number as written: `digits / 10^scale`.
struct Decimal {
    digits: u128,
    scale: u32,
}

/// How many decimals the ticks need: as many as are written, at most 12, fewer if the sum would not fit.
fn decimals(times: &[Decimal]) -> u32 {
    let wanted = times.iter().map(|time| time.scale).max().unwrap_or(0).min(12);
    let fits = |decimals: &u32| {
        let sum = times.iter().try_fold(0u64, |sum, time| sum.checked_add(ticks(time, *decimals).0));
        sum.is_some_and(|sum| sum <= 1 << 56)
    };
    (0..=wanted).rev().find(fits).unwrap_or(0)
}

fn ticks(time: &Decimal, decimals: u32) -> Time {
    let exact = match time.scale.checked_sub(decimals) {
        None => time.digits.checked_mul(10u128.pow(decimals - time.scale)),
        Some(0) => Some(time.digits),
        // To the nearest tick; beyond 38 digits nothing is left.
        Some(extra) => Some(
            10u128
                .checked_pow(extra)
                .map_or(0, |unit| time.digits / unit + (time.digits % unit) / unit.div_ceil(2)),
        ),
    };
    Time(exact.and_then(|ticks| u64::try_from(ticks).ok()).unwrap_or(u64::MAX))
}

/// The text, for positions in it.
struct Source<'a> {
    text: &'a str,
}

impl<'a> Source<'a> {
    /// An error at a part of the text.
    fn at(&self, part: &str, field: String, message: String) -> JsonError {
        // `part` is a slice of `text`, so the difference of the addresses is its offset.
        let offset =
            (part.as_ptr() as usize).saturating_sub(self.text.as_ptr() as usize).min(self.text.len());
        let before = &self.text.as_bytes()[..offset];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        JsonError { line, column, field, message }
    }

    /// What serde says of a part. Which field of it is meant is found by reading it again: most files are sound, and to keep the way
    /// at hand takes 192 us instead of 135 for the list of 942 nodes alone, more than twice the time for whole nodes.
    fn serde_error<T: Deserialize<'a>>(
        &self,
        error: &serde_json::Error,
        part: &'a str,
        field: &str,
    ) -> JsonError {
        let message = error.to_string();
        let message = message.split(" at line ").next().unwrap_or(&message).to_string();
        let again = serde_path_to_error::deserialize::<_, T>(&mut serde_json::Deserializer::from_str(part));
        let inner = again.err().map_or(String::new(), |error| error.path().to_string());
        let field = match inner.as_str() {
            "" | "." => field.to_string(),
            inner if field.is_empty() || inner.starts_with('[') => format!("{field}{inner}"),
            inner => format!("{field}.{inner}"),
        };
        let field = if field.is_empty() { field } else { format!("{field}: ") };
        let inside = self.at(part, field, message);
        // serde_json counts from the start of the part it was given.
        let column =
            if error.line() <= 1 { inside.column + error.column().saturating_sub(1) } else { error.column() };
        let line = inside.line + error.line().saturating_sub(1);
        let here = self.text.lines().nth(line - 1).and_then(|text| text.get(column.max(1) - 1..));
        // Python's json module writes these three.
        let infinite =
            here.is_some_and(|here| ["NaN", "Infinity", "-I"].iter().any(|no| here.starts_with(no)));
        let hint = if infinite { "; numbers in JSON are finite" } else { "" };
        JsonError { line, column: column.max(1), message: inside.message + hint, field: inside.field }
    }

    fn parse<T: Deserialize<'a>>(
        &self,
        raw: &'a RawValue,
        field: impl Fn() -> String,
    ) -> Result<T, JsonError> {
        serde_json::from_str(raw.get()).map_err(|error| self.serde_error::<T>(&error, raw.get(), &field()))
    }

    fn string(&self, raw: &'a RawValue, field: &str) -> Result<Cow<'a, str>, JsonError> {
        let text: String = self.parse(raw, || field.to_string())?;
        Ok(Cow::Owned(text))
    }
}

/// A node of the file, for the fields of errors.
struct Place<'s, 'a> {
    source: &'s Source<'a>,
    node: &'a RawValue,
    position: usize,
    /// Nodes of the whole file.
    count: usize,
}

impl<'a> Place<'_, 'a> {
    fn wrong(&self, part: &RawValue, field: &str, message: impl Into<String>) -> JsonError {
        let dot = if field.is_empty() { "" } else { "." };
        self.source.at(part.get(), format!("nodes[{}]{dot}{field}: ", self.position), message.into())
    }

    fn need(&self, raw: Option<&'a RawValue>, field: &str) -> Result<&'a RawValue, JsonError> {
        raw.ok_or_else(|| self.wrong(self.node, field, "is missing"))
    }

    fn parse<T: Deserialize<'a>>(&self, raw: &'a RawValue, field: &str) -> Result<T, JsonError> {
        self.source.parse(raw, || format!("nodes[{}].{field}", self.position))
    }

    fn whole(&self, raw: &'a RawValue, field: &str) -> Result<u64, JsonError> {
        let text = raw.get();
        text.parse().map_err(|_| {
            self.wrong(
                raw,
                field,
                format!("must be a whole number from 0 to 2^64 - 1, here it is {}", shortened(text)),
            )
        })
    }

    fn time(&self, raw: Option<&'a RawValue>) -> Result<Decimal, JsonError> {
        let raw = self.need(raw, "time")?;
        let text = raw.get();
        let wrong =
            || self.wrong(raw, "time", format!("must be a number >= 0, here it is {}", shortened(text)));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i32 = exponent.parse().map_err(|_| wrong())?;
        let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let part = part.trim_end_matches('0');
        let mut digits: u128 = format!("{whole}{part}").parse().map_err(|_| wrong())?;
        let mut scale = part.len() as i64 - i64::from(exponent);
        while scale < 0 && digits != 0 {
            digits = digits.checked_mul(10).ok_or_else(wrong)?;
            scale += 1;
        }
        while scale > 0 && digits.is_multiple_of(10) && digits != 0 {
            (digits, scale) = (digits / 10, scale - 1);
        }
        let scale = if digits == 0 { 0 } else { u32::try_from(scale).map_err(|_| wrong())? };
        Ok(Decimal { digits, scale })
    }

    /// Node ids, or pairs of node and output, as values. Repeats are refused.
    fn values(
        &self,
        raw: &'a RawValue,
        field: &str,
        builder: &GraphBuilder,
    ) -> Result<Vec<ValueId>, JsonError> {
        let deps: Vec<&RawValue> = self.parse(raw, field)?;
        let mut values = Vec::with_capacity(deps.len());
        for dep in deps {
            let value = self.value(dep, field, builder)?;
            if values.contains(&value) {
                return Err(self.wrong(dep, field, format!("{} is there twice", shortened(dep.get()))));
            }
            values.push(value);
        }
        Ok(values)
    }

    fn value(&self, dep: &'a RawValue, field: &str, builder: &GraphBuilder) -> Result<ValueId, JsonError> {
        let (node, output) = match dep.get().starts_with('[') {
            true => self.parse::<(u32, usize)>(dep, field)?,
            false => match u32::try_from(self.whole(dep, field)?) {
                Ok(node) => (node, 0),
                Err(_) => return Err(self.wrong(dep, field, "there are not that many nodes")),
            },
        };
        if node as usize >= self.count {
            let message = format!("there is no node {node}: the graph has {}, counted from 0", self.count);
            return Err(self.wrong(dep, field, message));
        }
        if node as usize >= self.position {
            let why =
                "must come earlier in the list: a node cannot read its own or a later result (no cycles)";
            return Err(self.wrong(dep, field, format!("node {node} {why}")));
        }
        let missing = || self.wrong(dep, field, format!("node {node} has no output {output}"));
        builder.output(NodeId(node), output).ok_or_else(missing)
    }

    fn outputs(&self, node: &RawNode<'a>, name: &str) -> Result<Vec<OutputSpec>, JsonError> {
        let pinned = |raw: Option<&'a RawValue>, field| raw.map_or(Ok(false), |raw| self.parse(raw, field));
        let Some(outputs) = node.outputs else {
            let bytes = Bytes(self.whole(self.need(node.bytes, "bytes")?, "bytes")?);
            return Ok(vec![OutputSpec { name: name.into(), bytes, pinned: pinned(node.pinned, "pinned")? }]);
        };
        if let Some(bytes) = node.bytes {
            return Err(self.wrong(bytes, "bytes", "stands beside \"outputs\"; give one of the two"));
        }
        let outputs: Vec<RawOutput> = self.parse(outputs, "outputs")?;
        let read = |(index, output): (usize, RawOutput<'a>)| {
            let bytes = Bytes(self.whole(self.need(output.bytes, "outputs[].bytes")?, "outputs[].bytes")?);
            let fallback = if index == 0 { name.to_string() } else { format!("{name}.{index}") };
            let name = output.name.map_or(Ok(fallback), |raw| self.parse(raw, "outputs[].name"))?;
            Ok(OutputSpec { name, bytes, pinned: pinned(output.pinned, "outputs[].pinned")? })
        };
        outputs.into_iter().enumerate().map(read).collect()
    }

    fn spec(&self, node: &RawNode<'a>, time: Time, builder: &GraphBuilder) -> Result<NodeSpec, JsonError> {
        let id = self.need(node.id, "id")?;
        if self.whole(id, "id")? != self.position as u64 {
            return Err(self.wrong(id, "id", format!("must equal the position {}", self.position)));
        }
        let kind = self.need(node.kind, "kind")?;
        let kind = match self.parse::<Cow<str>>(kind, "kind")?.as_ref() {
            "fwd" => Kind::Forward,
            "bwd" => Kind::Backward,
            "other" => Kind::Other,
            _ => return Err(self.wrong(kind, "kind", "must be \"fwd\", \"bwd\" or \"other\"")),
        };
        let text =
            |raw: Option<&'a RawValue>, field| raw.map_or(Ok(String::new()), |raw| self.parse(raw, field));
        let name = text(node.name, "name")?;
        let bytes =
            |raw: Option<&'a RawValue>, field| raw.map_or(Ok(0), |raw| self.whole(raw, field)).map(Bytes);
        let flag =
            |raw: Option<&'a RawValue>, field| raw.map_or(Ok(false), |raw| self.parse::<bool>(raw, field));
        let reads = self.values(self.need(node.deps, "deps")?, "deps", builder)?;
        let overwrites = node.overwrites.filter(|raw| raw.get() != "null");
        Ok(NodeSpec {
            kind,
            time,
            outputs: self.outputs(node, &name)?,
            name,
            module: text(node.module, "module")?,
            workspace: bytes(node.workspace, "workspace")?,
            reads,
            overwrites: overwrites.map(|raw| self.value(raw, "overwrites", builder)).transpose()?,
            state: bytes(node.state, "state")?,
            once: flag(node.once, "once")?,
            lent: flag(node.lent, "lent")?,
            hands_over: flag(node.hands_over, "hands_over")?,
        })
    }
}

fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(40).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Writes a graph in the same schema, one node per line; optional fields only where they say something.
pub fn write(graph: &Graph) -> String {
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    let output = |value: &ValueId| {
        let producer = graph.value(*value).producer;
        let index = graph.node(producer).writes.iter().position(|other| other == value).unwrap_or(0);
        if index == 0 { producer.0.to_string() } else { format!("[{}, {index}]", producer.0) }
    };
    let (name, unit) = (quoted(graph.name()), quoted(graph.time_unit()));
    let mut text = format!("{{\"name\": {name}, \"time_unit\": {unit}, \"nodes\": [\n");
    for (id, node) in graph.node_ids().zip(graph.nodes()) {
        let kind = match node.kind {
            Kind::Forward => "fwd",
            Kind::Backward => "bwd",
            Kind::Other => "other",
        };
        let (name, time) = (quoted(&node.name), graph.time_text(node.time));
        let deps: Vec<String> = node.reads.iter().map(output).collect();
        let deps = deps.join(", ");
        // Writing to a String cannot fail.
        let _ = write!(text, "{{\"id\": {}, \"kind\": \"{kind}\", \"name\": {name}, \"time\": {time}", id.0);
        if !node.module.is_empty() {
            let _ = write!(text, ", \"module\": {}", quoted(&node.module));
        }
        match node.writes.as_slice() {
            [only] if graph.value(*only).name == node.name => {
                let value = graph.value(*only);
                let pinned = if value.pinned { ", \"pinned\": true" } else { "" };
                let _ = write!(text, ", \"bytes\": {}{pinned}, \"deps\": [{deps}]", value.bytes.0);
            }
            several => {
                let outputs = several.iter().map(|&id| {
                    let value = graph.value(id);
                    let pinned = if value.pinned { ", \"pinned\": true" } else { "" };
                    format!("{{\"name\": {}, \"bytes\": {}{pinned}}}", quoted(&value.name), value.bytes.0)
                });
                let outputs: Vec<String> = outputs.collect();
                let _ = write!(text, ", \"outputs\": [{}], \"deps\": [{deps}]", outputs.join(", "));
            }
        }
        if node.workspace.0 > 0 {
            let _ = write!(text, ", \"workspace\": {}", node.workspace.0);
        }
        if let Some(value) = &node.overwrites {
            let _ = write!(text, ", \"overwrites\": {}", output(value));
        }
        if node.state.0 > 0 {
            let _ = write!(text, ", \"state\": {}", node.state.0);
        }
        let flags = [("once", node.once), ("lent", node.lent), ("hands_over", node.hands_over)];
        for (flag, _) in flags.into_iter().filter(|(_, set)| *set) {
            let _ = write!(text, ", \"{flag}\": true");
        }
        text.push_str(if id.index() + 1 < graph.len() { "},\n" } else { "}\n" });
    }
    text.push_str("]}\n");
    text
}
