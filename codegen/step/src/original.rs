//! The schedule without rematerialization: `rk-run --check` runs it as the step before the rewrite.
//!
//! Every node runs once in its original order; drops and overwrites are those that `rk-plan` writes out for that sequence. The nodes
//! and their first runs say all that is needed, so the program may be any that runs every node: a step that
//! is not scheduled yet becomes a schedule here.
//!
//! Not here: where values come from ([`crate::origin`]), addresses ([`mod@crate::disjoint_layout`]).

use rk_plan::{Schedule, Sequence, Step as Line};

use crate::error::Invalid;
use crate::model::{Call, Instr, NodeId, Program, Run, Slot, Step};
use crate::origin::Origin;
use crate::plan_graph::{Part, PlanGraph, first_runs};

/// The schedule without rematerialization: every node once in its original order, in place where the original step
/// was and the sizes are equal, every value dropped at its last use.
///
/// # Errors
/// As [`crate::origins`]; a node that the program never runs, whose operands are therefore unknown; one that reads what a later
/// one makes; sizes that do not fit into 64 bits.
pub fn original(step: &Step) -> Result<Program, Invalid> {
    if step.nodes.is_empty() {
        return Ok(Program { instrs: Vec::new(), ..step.program.clone() });
    }
    let first = first_runs(step);
    if let Some(index) = first.iter().position(Option::is_none) {
        let place = format!("nodes[{index}] {:?}", step.nodes[index].name);
        return Err(Invalid { place, message: "the program never runs it".into() });
    }
    let planned = PlanGraph::of(step)?;
    let sequence = Sequence::base(&planned.graph);
    let schedule = Schedule::from_sequence(&planned.graph, &sequence).map_err(|illegal| Invalid {
        place: "nodes".into(),
        message: format!("their order is no schedule: {illegal}"),
    })?;

    let slots = Slots::of(step, &planned.origins);
    let mut instrs = Vec::with_capacity(schedule.0.len());
    for line in schedule.0 {
        match line {
            Line::Run { node, overwrite, .. } => {
                let (node, part) = planned.node(node);
                let Some(run) = first[node.index()].filter(|_| part == Part::Node) else { continue };
                let outputs = (0..run.outputs.len() as u32).map(|number| slots.result(node, number));
                instrs.push(Instr::Run(Run {
                    node,
                    again: false,
                    overwrite,
                    inputs: run.inputs.iter().map(|&slot| slots.renamed(slot)).collect(),
                    outputs: outputs.collect(),
                    state_out: None,
                    state_in: None,
                }));
            }
            Line::Drop(value) => {
                // Nothing runs again, so no generator state is saved.
                if let Origin::Result(node, number) = planned.origin(value) {
                    instrs.push(Instr::Drop(slots.result(node, number)));
                }
            }
        }
    }
    let epilogue = step.program.epilogue.iter().map(|call| Call {
        args: call.args.iter().map(|arg| arg.map_values(&mut |slot| slots.renamed(Slot(slot)).0)).collect(),
        results: call.results.iter().map(|slot| slot.map(|slot| slots.renamed(Slot(slot)).0)).collect(),
        ..call.clone()
    });
    Ok(Program {
        slots: slots.count,
        instrs,
        epilogue: epilogue.collect(),
        outputs: step.program.outputs.iter().map(|&slot| slots.renamed(slot)).collect(),
    })
}

/// The slots of the new program: residents keep theirs, then the outputs of each node in order, then the epilogue's.
struct Slots {
    /// Per node, that of its first output.
    first: Vec<u32>,
    /// Per slot of the old program.
    renamed: Vec<Slot>,
    count: u32,
}

impl Slots {
    fn of(step: &Step, origins: &[Option<Origin>]) -> Self {
        let mut slots = Self { first: Vec::new(), renamed: Vec::new(), count: step.resident() };
        for node in &step.nodes {
            slots.first.push(slots.count);
            slots.count += node.outputs.len() as u32;
        }
        for origin in origins {
            let slot = match origin {
                Some(Origin::Resident(slot)) => *slot,
                Some(Origin::Result(node, number)) => slots.result(*node, *number),
                Some(Origin::Epilogue(_)) => {
                    slots.count += 1;
                    Slot(slots.count - 1)
                }
                // Named by nobody in the new program; `validate` refuses it where it is.
                Some(Origin::State(_)) | None => Slot(u32::MAX),
            };
            slots.renamed.push(slot);
        }
        slots
    }

    fn result(&self, node: NodeId, number: u32) -> Slot {
        Slot(self.first[node.index()] + number)
    }

    fn renamed(&self, slot: Slot) -> Slot {
        self.renamed[slot.index()]
    }
}
