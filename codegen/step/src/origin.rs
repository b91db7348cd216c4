//! Where each value of a program first came from.
//!
//! Two runs of a node make the same values (S4), so a slot is named by its *origin*: the node and the output's
//! number. A second run must read operands of the same origins as the first; this is checked here because it is what
//! makes `again` mean something. In a graph of `rk-plan` an origin is a value, and nobody can read another.
//!
//! Not here: which slots are live ([`crate::judged`]), the schedule that follows from the origins ([`mod@crate::original`]).

use crate::error::Invalid;
use crate::model::{Instr, NodeId, Slot, Step};

/// Where the content of a slot was first made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// An argument or a constant.
    Resident(Slot),
    /// An output of a node, by its number.
    Result(NodeId, u32),
    /// The generator state from before a random node's first run.
    State(NodeId),
    /// A view made by the epilogue, at this position.
    Epilogue(u32),
}

/// The origin of every slot of the step's program.
///
/// # Errors
/// A second run whose operands have other origins than the first run's, named as S4. Indices must be in range
/// ([`crate::validate::validate`] checks that first).
pub fn origins(step: &Step) -> Result<Vec<Option<Origin>>, Invalid> {
    let mut of = vec![None; step.program.slots as usize];
    for slot in 0..step.resident() {
        of[slot as usize] = Some(Origin::Resident(Slot(slot)));
    }
    let mut first: Vec<Option<Vec<Option<Origin>>>> = vec![None; step.nodes.len()];
    for (i, instr) in step.program.instrs.iter().enumerate() {
        let Instr::Run(run) = instr else { continue };
        let read: Vec<Option<Origin>> = run.inputs.iter().map(|s| of[s.index()]).collect();
        match &first[run.node.index()] {
            None => first[run.node.index()] = Some(read),
            Some(before) => {
                if let Some(k) = (0..read.len()).find(|&k| read[k] != before[k]) {
                    return Err(Invalid {
                        place: format!("program[{i}] run again {:?}", step.nodes[run.node.index()].name),
                        message: format!(
                            "S4: input {k} is {}, which is not what the first run read",
                            step.slot_name(run.inputs[k])
                        ),
                    });
                }
            }
        }
        for (k, slot) in run.outputs.iter().enumerate() {
            of[slot.index()] = Some(Origin::Result(run.node, k as u32));
        }
        if let Some(slot) = run.state_out {
            of[slot.index()] = Some(Origin::State(run.node));
        }
    }
    for (i, call) in step.program.epilogue.iter().enumerate() {
        for slot in call.results.iter().flatten() {
            of[*slot as usize] = Some(Origin::Epilogue(i as u32));
        }
    }
    Ok(of)
}

/// For each output of the step, the slot whose storage it shares: the start of its chain of epilogue views.
pub fn output_bases(step: &Step) -> Vec<Slot> {
    let base = |mut slot: Slot| {
        // Epilogue calls are views of their first value argument and stand in order, so one backward walk suffices.
        for call in step.program.epilogue.iter().rev() {
            if call.results.iter().flatten().any(|r| *r == slot.0) {
                let mut first = None;
                call.args.iter().for_each(|a| a.for_each_value(&mut |v| first = first.or(Some(v))));
                slot = first.map_or(slot, Slot);
            }
        }
        slot
    };
    step.program.outputs.iter().map(|&s| base(s)).collect()
}
