//! Where each value of a program first came from, and the schedule without rematerialization.
//!
//! Two runs of a node make the same values (S4), so a slot is named by its *origin*: the node and the output's
//! number. A second run must read operands of the same origins as the first; this is checked here because it is what
//! makes `again` mean something. From the origins alone the original schedule follows: every node once in its original
//! order, every value dropped at its last use. `rk-run --check` runs it as the step before the rewrite.
//!
//! Not here: liveness (see [`crate::validate`]).

use crate::error::Invalid;
use crate::model::{Call, Instr, NodeId, Program, Run, Slot, Step};

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

/// The schedule without rematerialization: every node once in its original order, in place where the original step
/// was, every value dropped at its last use.
///
/// # Errors
/// As [`origins`], and a node that the program never runs, whose operands are therefore unknown.
pub fn original(step: &Step) -> Result<Program, Invalid> {
    let of = origins(step)?;
    let mut first_run: Vec<Option<&Run>> = vec![None; step.nodes.len()];
    for instr in &step.program.instrs {
        if let Instr::Run(run) = instr {
            first_run[run.node.index()].get_or_insert(run);
        }
    }
    // Slots of the new program: residents keep theirs, then the outputs of each node in order, then the epilogue's.
    let mut base = step.resident();
    let mut first_slot = Vec::with_capacity(step.nodes.len());
    for node in &step.nodes {
        first_slot.push(base);
        base += node.outputs.len() as u32;
    }
    let mut slot_of = vec![u32::MAX; of.len()];
    let mut next = base;
    for (old, origin) in of.iter().enumerate() {
        slot_of[old] = match origin {
            Some(Origin::Resident(slot)) => slot.0,
            Some(Origin::Result(node, k)) => first_slot[node.index()] + k,
            Some(Origin::Epilogue(_)) => {
                next += 1;
                next - 1
            }
            Some(Origin::State(_)) | None => u32::MAX,
        };
    }
    let map = |slot: Slot| Slot(slot_of[slot.index()]);

    let mut runs = Vec::with_capacity(step.nodes.len());
    for (i, node) in step.nodes.iter().enumerate() {
        let run = first_run[i].ok_or_else(|| Invalid {
            place: format!("nodes[{i}] {:?}", node.name),
            message: "the program never runs it".into(),
        })?;
        let outputs = (0..node.outputs.len() as u32).map(|k| Slot(first_slot[i] + k)).collect();
        runs.push(Run {
            node: NodeId(i as u32),
            again: false,
            overwrite: false,
            inputs: run.inputs.iter().map(|&s| map(s)).collect(),
            outputs,
            state_out: None,
            state_in: None,
        });
    }
    let epilogue: Vec<Call> = step
        .program
        .epilogue
        .iter()
        .map(|call| Call {
            args: call.args.iter().map(|a| a.map_values(&mut |v| map(Slot(v)).0)).collect(),
            results: call.results.iter().map(|r| r.map(|r| map(Slot(r)).0)).collect(),
            ..call.clone()
        })
        .collect();
    let outputs: Vec<Slot> = step.program.outputs.iter().map(|&s| map(s)).collect();

    // The last run that reads each slot; `runs.len()` when it is needed to the end.
    let mut last = vec![None; next as usize];
    for (i, run) in runs.iter().enumerate() {
        run.inputs.iter().chain(&run.outputs).for_each(|s| last[s.index()] = Some(i));
    }
    let end = runs.len();
    outputs.iter().for_each(|s| last[s.index()] = Some(end));
    for call in &epilogue {
        call.args.iter().for_each(|a| a.for_each_value(&mut |v| last[v as usize] = Some(end)));
    }

    let mut instrs = Vec::new();
    for (i, mut run) in runs.into_iter().enumerate() {
        let dead = |s: Slot| s.0 >= step.resident() && last[s.index()] == Some(i);
        if let Some(k) = step.nodes[i].overwrites {
            let operand = run.inputs[k as usize];
            let once = run.inputs.iter().filter(|s| **s == operand).count() == 1;
            run.overwrite = dead(operand) && once;
        }
        let taken = run.overwrite.then(|| run.inputs[step.nodes[i].overwrites.unwrap_or(0) as usize]);
        let mut drops: Vec<Slot> =
            run.inputs.iter().chain(&run.outputs).copied().filter(|&s| dead(s)).collect();
        drops.retain(|s| Some(*s) != taken);
        drops.sort();
        drops.dedup();
        instrs.push(Instr::Run(run));
        instrs.extend(drops.into_iter().map(Instr::Drop));
    }
    Ok(Program { slots: next, instrs, epilogue, outputs })
}
