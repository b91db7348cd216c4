//! A step file's nodes as the graph that `rk-plan` plans and judges.
//!
//! A value of the graph is an [`Origin`]: one output of one node, whichever slot a run puts it into. Arguments and constants
//! are resident and are no values. Two things that a node of the graph cannot say of itself get a node of their own in front
//! of it, its *effect*, which runs once and makes nothing but the generator state that the first run saves. So a
//! draw and an update of the model's state happen once and in their order (S5) although the node runs again, and a saved
//! state is there when a second run reads it, and is dropped in the end (S1 to S3).
//!
//! | of the step file | in the graph |
//! |---|---|
//! | bytes of an output | rounded up to the alignment; 0 for a gradient, whose storage is not the step's |
//! | outputs of the step, and what the epilogue reads | pinned |
//! | `overwrites` | the value that the operand is; none if it is resident, or another operand is the same value |
//! | times | left out: no law asks for them |
//! | what is lent until the hand-over (S9) | left out: the file does not say it |
//!
//! Not here: the program ([`crate::judged`]).

use std::collections::BTreeSet;

use rk_plan::{Bytes, Graph, GraphBuilder, GraphError, NodeSpec, OutputSpec, ValueId};

use crate::error::Invalid;
use crate::memory_account::gradient_origins;
use crate::model::{GENERATOR_BYTES, Instr, Node, NodeId, Run, Slot, Step};
use crate::origin::{Origin, origins};

/// The graph of a step, with the way there and back.
pub(crate) struct PlanGraph {
    pub(crate) graph: Graph,
    /// Where the content of each slot comes from.
    pub(crate) origins: Vec<Option<Origin>>,
    names: Names,
}

/// What ids of the graph stand for.
#[derive(Default)]
struct Names {
    /// Per node of the graph.
    nodes: Vec<(NodeId, Part)>,
    /// Per node of the file, the graph's, and the effect in front of it.
    planned: Vec<(rk_plan::NodeId, Option<rk_plan::NodeId>)>,
    /// Per value of the graph.
    values: Vec<Origin>,
    /// Per node of the file, its first output and the state that it saves, as positions in `values`.
    made: Vec<(usize, Option<usize>)>,
}

/// What of a node of the file a node of the graph is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// All but its effect.
    Node,
    /// What happens once although the node may run again.
    Effect,
}

impl PlanGraph {
    /// Reads the nodes. What a node reads, its first run says. Indices must be in range.
    ///
    /// # Errors
    /// As [`origins`]; a node that reads what a later one makes; sizes that do not fit into 64 bits.
    pub(crate) fn of(step: &Step) -> Result<Self, Invalid> {
        let origins = origins(step)?;
        let mut translation = Translation {
            step,
            gradients: gradient_origins(step, &origins),
            pinned: pinned(step, &origins),
            origins: &origins,
            builder: GraphBuilder::new(step.name.as_str()),
            names: Names::default(),
        };
        for (index, (node, run)) in step.nodes.iter().zip(first_runs(step)).enumerate() {
            let added = translation.node(NodeId(index as u32), node, run);
            added.map_err(|message| Invalid { place: format!("nodes[{index}] {:?}", node.name), message })?;
        }
        let Translation { builder, names, .. } = translation;
        let graph = builder.finish();
        let graph = graph.map_err(|error| Invalid { place: "nodes".into(), message: error.to_string() })?;
        Ok(Self { graph, origins, names })
    }

    /// The graph's node for a node of the file, and for its effect if it has one.
    pub(crate) fn planned(&self, node: NodeId) -> (rk_plan::NodeId, Option<rk_plan::NodeId>) {
        self.names.planned[node.index()]
    }

    /// What a node of the graph is in the file.
    pub(crate) fn node(&self, node: rk_plan::NodeId) -> (NodeId, Part) {
        self.names.nodes[node.index()]
    }

    /// The value that a slot holds an instance of; `None` for a resident, a view of the epilogue and what no run assigns.
    pub(crate) fn value(&self, slot: Slot) -> Option<ValueId> {
        self.names.value(self.origins.get(slot.index()).copied()??)
    }

    /// What a value of the graph is in the file.
    pub(crate) fn origin(&self, value: ValueId) -> Origin {
        self.names.values[value.index()]
    }
}

impl Names {
    /// `None` also for what is not made yet.
    fn value(&self, origin: Origin) -> Option<ValueId> {
        let position = match origin {
            Origin::Result(node, number) => self.made.get(node.index())?.0 + number as usize,
            Origin::State(node) => self.made.get(node.index())?.1?,
            Origin::Resident(_) | Origin::Epilogue(_) => return None,
        };
        Some(ValueId::from_index(position))
    }
}

struct Translation<'a> {
    step: &'a Step,
    origins: &'a [Option<Origin>],
    gradients: BTreeSet<Origin>,
    pinned: BTreeSet<Origin>,
    builder: GraphBuilder,
    names: Names,
}

impl Translation<'_> {
    /// Adds a node of the file, its effect first.
    fn node(&mut self, id: NodeId, node: &Node, run: Option<&Run>) -> Result<(), String> {
        let inputs = run.map_or(&[][..], |run| &run.inputs);
        let read: Vec<Option<Origin>> = inputs.iter().map(|slot| self.origins[slot.index()]).collect();
        let mut reads = self.reads(&read)?;
        let overwrites = node.overwrites.and_then(|index| {
            let origin = *read.get(index as usize)?;
            let alone = read.iter().filter(|other| **other == origin).count() == 1;
            self.names.value(origin.filter(|_| alone)?)
        });
        let mut effect = None;
        let mut state = None;
        if has_effect(node) {
            let mut spec = NodeSpec { once: true, ..NodeSpec::default() };
            if run.is_some_and(|run| run.state_out.is_some()) {
                state = Some(self.names.values.len());
                self.names.values.push(Origin::State(id));
                spec.outputs.push(OutputSpec { bytes: self.size(GENERATOR_BYTES)?, ..OutputSpec::default() });
            }
            effect = Some(self.add(spec, (id, Part::Effect))?);
        }
        reads.extend(state.map(ValueId::from_index));
        let first_output = self.names.values.len();
        let mut outputs = Vec::with_capacity(node.outputs.len());
        for (number, output) in (0..).zip(&node.outputs) {
            let origin = Origin::Result(id, number);
            let size = self.size(output.bytes)?;
            let bytes = if self.gradients.contains(&origin) { Bytes(0) } else { size };
            outputs.push(OutputSpec {
                bytes,
                pinned: self.pinned.contains(&origin),
                ..OutputSpec::default()
            });
            self.names.values.push(origin);
        }
        let workspace = self.size(node.workspace_bytes)?;
        let spec = NodeSpec { workspace, reads, outputs, overwrites, once: node.once, ..NodeSpec::default() };
        let planned = self.add(spec, (id, Part::Node))?;
        self.names.planned.push((planned, effect));
        self.names.made.push((first_output, state));
        Ok(())
    }

    fn add(&mut self, spec: NodeSpec, name: (NodeId, Part)) -> Result<rk_plan::NodeId, String> {
        self.names.nodes.push(name);
        self.builder.add(spec).map_err(|error| match error {
            GraphError::TooManyBytes { .. } => {
                "with it, the sizes of the step add up to more than 2^62 bytes".into()
            }
            other => other.to_string(),
        })
    }

    fn reads(&self, read: &[Option<Origin>]) -> Result<Vec<ValueId>, String> {
        let mut values = Vec::with_capacity(read.len());
        for origin in read.iter().flatten() {
            match (self.names.value(*origin), origin) {
                (Some(value), _) => values.push(value),
                (None, Origin::Result(maker, _)) => {
                    let name = &self.step.nodes[maker.index()].name;
                    return Err(format!(
                        "reads what nodes[{}] {name:?} makes; nodes stand in their original order, so that one comes first",
                        maker.0
                    ));
                }
                (None, _) => {}
            }
        }
        Ok(values)
    }

    fn size(&self, bytes: u64) -> Result<Bytes, String> {
        let rounded = bytes.checked_next_multiple_of(self.step.alignment).map(Bytes);
        rounded.ok_or_else(|| format!("{bytes} bytes cannot be rounded up to the alignment in 64 bits"))
    }
}

/// The first run of each node.
pub(crate) fn first_runs(step: &Step) -> Vec<Option<&Run>> {
    let mut first = vec![None; step.nodes.len()];
    for instr in &step.program.instrs {
        if let Instr::Run(run) = instr {
            first[run.node.index()].get_or_insert(run);
        }
    }
    first
}

/// Whether a first run does something that a second one must not: it draws, or updates state of the model.
fn has_effect(node: &Node) -> bool {
    node.random || node.ops.iter().any(|call| !call.effects.is_empty())
}

/// What must be there when the program ends.
fn pinned(step: &Step, origins: &[Option<Origin>]) -> BTreeSet<Origin> {
    let mut slots: Vec<u32> = step.program.outputs.iter().map(|slot| slot.0).collect();
    for call in &step.program.epilogue {
        call.args.iter().for_each(|arg| arg.for_each_value(&mut |slot| slots.push(slot)));
    }
    slots.into_iter().filter_map(|slot| *origins.get(slot as usize)?).collect()
}
