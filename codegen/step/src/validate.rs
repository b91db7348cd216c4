//! Every index of a step, and the laws S1–S7 as far as the file can show them.
//!
//! The judge in `rk-plan` has already judged the schedule; this module protects the executor from a damaged or
//! hand-edited file. After [`validate`] no index of the step is out of range and no slot is read while it is empty.
//!
//! | law | checked here |
//! |---|---|
//! | S1 | every operand is live |
//! | S2 | a drop names a live value that is not resident |
//! | S3 | what is not an output or read by the epilogue is dropped by the end |
//! | S4 | `again` after a first run, with the same operands; a random node with the state of its first run |
//! | S5 | every node runs; a node with `once` runs once; random nodes first run in their original order |
//! | S6 | an overwrite takes storage that nobody else holds: not a resident's, not an operand read twice |
//!
//! Not here: addresses ([`crate::layout`]), budgets, bits (S8).

use crate::error::Invalid;
use crate::model::{Call, Data, Instr, Program, Run, Slot, Step, TensorSpec};
use crate::origin::origins;

/// Checks a whole step, and names the first thing that is wrong.
///
/// # Errors
/// [`Invalid`] with place and culprit.
pub fn validate(step: &Step) -> Result<(), Invalid> {
    if step.alignment == 0 || !step.alignment.is_power_of_two() {
        return Err(at("alignment", format!("{} is not a power of two", step.alignment)));
    }
    if !(step.device == "cpu" || step.device == "cuda" || step.device.starts_with("cuda:")) {
        return Err(at("device", format!("{:?} is neither cpu nor cuda", step.device)));
    }
    for (i, arg) in step.args.iter().enumerate() {
        spec(&arg.spec, || format!("args[{i}] {:?}", arg.name))?;
    }
    for (i, constant) in step.constants.iter().enumerate() {
        let place = || format!("constants[{i}] {:?}", constant.name);
        spec(&constant.spec, place)?;
        let (hex, elements) = match &constant.data {
            Data::Splat(hex) => (hex, 1),
            Data::Hex(hex) => (hex, constant.spec.elements()),
        };
        let digits = elements.saturating_mul(constant.spec.dtype.bytes()).saturating_mul(2);
        if hex.len() as u64 != digits || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            let message = format!("needs {digits} hexadecimal digits of data, has {} characters", hex.len());
            return Err(at(place(), message));
        }
    }
    nodes(step)?;
    crate::kernel::validate(step)?;
    program(step, &step.program)?;
    origins(step)?;
    step.layout.as_ref().map_or(Ok(()), |layout| crate::layout::check(step, layout))
}

/// More inputs than any sensible node has: a damaged number must not ask for all memory.
const MOST_INPUTS: u32 = 1 << 20;

fn at(place: impl Into<String>, message: impl Into<String>) -> Invalid {
    Invalid { place: place.into(), message: message.into() }
}

fn spec(spec: &TensorSpec, place: impl Fn() -> String) -> Result<(), Invalid> {
    if let Some(size) = spec.shape.iter().find(|s| **s < 0) {
        return Err(at(place(), format!("has a negative size {size}")));
    }
    let strides = spec.full_strides();
    if strides.len() != spec.shape.len() {
        return Err(at(place(), format!("has {} sizes but {} strides", spec.shape.len(), strides.len())));
    }
    if let Some(stride) = strides.iter().find(|s| **s < 0) {
        return Err(at(place(), format!("has a negative stride {stride}")));
    }
    let needed = TensorSpec { storage_bytes: None, ..spec.clone() }.bytes();
    if needed > i64::MAX as u64 / 4 || spec.shape.iter().try_fold(1i64, |a, &b| a.checked_mul(b)).is_none() {
        return Err(at(place(), "is too large"));
    }
    if spec.bytes() < needed {
        return Err(at(place(), format!("needs {needed} bytes of storage, has {}", spec.bytes())));
    }
    Ok(())
}

fn nodes(step: &Step) -> Result<(), Invalid> {
    for (i, node) in step.nodes.iter().enumerate() {
        let place = format!("nodes[{i}] {:?}", node.name);
        if node.inputs > MOST_INPUTS {
            return Err(at(place, format!("{} inputs are more than {MOST_INPUTS}", node.inputs)));
        }
        let mut defined = vec![true; node.inputs as usize];
        for (k, call) in node.ops.iter().enumerate() {
            let place = || format!("{place}: ops[{k}] {:?}", call.op);
            check_call(call, &mut defined, "local", place)?;
        }
        for (k, output) in node.outputs.iter().enumerate() {
            if !defined.get(output.local.index()).copied().unwrap_or(false) {
                let message = format!("output {k} is local {}, which no call defines", output.local.0);
                return Err(at(place, message));
            }
        }
        if let Some(k) = node.overwrites {
            if k >= node.inputs {
                return Err(at(place, format!("overwrites input {k}, but it has {} inputs", node.inputs)));
            }
            if node.outputs.is_empty() {
                return Err(at(place, format!("overwrites input {k} but yields nothing")));
            }
        }
    }
    Ok(())
}

/// Reads must be defined; results must be new. `defined` grows as results are defined.
fn check_call(
    call: &Call,
    defined: &mut Vec<bool>,
    kind: &str,
    place: impl Fn() -> String,
) -> Result<(), Invalid> {
    if call.op.split('.').count() != 3 || call.op.split('.').any(str::is_empty) {
        return Err(at(place(), "is not of the form namespace.name.overload"));
    }
    for (a, arg) in call.args.iter().enumerate() {
        let mut bad = None;
        arg.for_each_value(&mut |v| {
            if !defined.get(v as usize).copied().unwrap_or(false) {
                bad = bad.or(Some(v));
            }
        });
        if let Some(v) = bad {
            return Err(at(place(), format!("argument {a} reads {kind} {v}, which is not defined there")));
        }
    }
    if let Some(e) = call.effects.iter().find(|e| **e as usize >= call.args.len()) {
        return Err(at(place(), format!("effects names argument {e} of {}", call.args.len())));
    }
    // Locals are dense in any sensible file; the limit keeps a damaged one from asking for all memory.
    let limit = defined.len() + 4096;
    for r in call.results.iter().flatten() {
        let r = *r as usize;
        if r >= limit {
            return Err(at(place(), format!("result {kind} {r} is far out of range")));
        }
        if defined.get(r).copied().unwrap_or(false) {
            return Err(at(place(), format!("result {kind} {r} is defined already")));
        }
        if r >= defined.len() {
            defined.resize(r + 1, false);
        }
        defined[r] = true;
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq)]
enum Life {
    Unborn,
    Live,
    Dead,
}

fn program(step: &Step, program: &Program) -> Result<(), Invalid> {
    let resident = step.resident();
    let assigned = |instr: &Instr| match instr {
        Instr::Run(run) => run.outputs.len() + usize::from(run.state_out.is_some()),
        Instr::Drop(_) => 0,
    };
    let most = program.instrs.iter().map(assigned).sum::<usize>()
        + program.epilogue.iter().map(|call| call.results.len()).sum::<usize>();
    if program.slots < resident || (program.slots - resident) as usize > most {
        let message = format!(
            "{} slots, but {resident} arguments and constants and at most {most} assigned ones",
            program.slots
        );
        return Err(at("program.slots", message));
    }
    let mut life = vec![Life::Unborn; program.slots as usize];
    life[..resident as usize].fill(Life::Live);
    let mut ran = vec![false; step.nodes.len()];
    let mut state: Vec<Option<Slot>> = vec![None; step.nodes.len()];
    let mut last_random = None;
    for (i, instr) in program.instrs.iter().enumerate() {
        match instr {
            Instr::Drop(slot) => {
                let place = format!("program[{i}] drop");
                if slot.0 < resident {
                    return Err(at(place, format!("S2: {} is resident", step.slot_name(*slot))));
                }
                if life.get(slot.index()) != Some(&Life::Live) {
                    return Err(at(place, format!("S2: {} is not live", step.slot_name(*slot))));
                }
                life[slot.index()] = Life::Dead;
            }
            Instr::Run(run) => {
                let Some(node) = step.nodes.get(run.node.index()) else {
                    let message = format!("node {} of {}", run.node.0, step.nodes.len());
                    return Err(at(format!("program[{i}] run"), message));
                };
                let place =
                    format!("program[{i}] run{} {:?}", if run.again { " again" } else { "" }, node.name);
                check_run(step, run, &mut life, resident).map_err(|message| at(place.clone(), message))?;
                let first = !std::mem::replace(&mut ran[run.node.index()], true);
                let law = match (first, run.again) {
                    (true, true) => Some("S4: there is no first run before it"),
                    (false, false) => Some("S4: it ran before, so this must be a run again"),
                    (false, true) if node.once => Some("S5: its side effect must happen once per step"),
                    (true, _) if run.state_in.is_some() => Some("S4: a first run takes no generator state"),
                    (false, _) if run.state_out.is_some() => {
                        Some("S4: only a first run saves the generator state")
                    }
                    _ if !node.random && (run.state_in.is_some() || run.state_out.is_some()) => {
                        Some("S4: a generator state at a node that is not random")
                    }
                    (false, _) if node.random && run.state_in != state[run.node.index()] => {
                        Some("S4: it needs the generator state of its first run")
                    }
                    (false, _) if node.random && run.state_in.is_none() => {
                        Some("S4: its first run saved no generator state")
                    }
                    (true, _) if node.random && last_random > Some(run.node) => {
                        Some("S5: it draws random numbers before an earlier random node")
                    }
                    _ => None,
                };
                if let Some(law) = law {
                    return Err(at(place, law));
                }
                if first {
                    state[run.node.index()] = run.state_out;
                    if node.random {
                        last_random = Some(run.node);
                    }
                }
            }
        }
    }
    if let Some(i) = ran.iter().position(|r| !r) {
        return Err(at(format!("nodes[{i}] {:?}", step.nodes[i].name), "S5: the program never runs it"));
    }
    finish(step, program, life)
}

fn check_run(step: &Step, run: &Run, life: &mut [Life], resident: u32) -> Result<(), String> {
    let node = &step.nodes[run.node.index()];
    if run.inputs.len() != node.inputs as usize {
        return Err(format!("{} inputs, but the node has {}", run.inputs.len(), node.inputs));
    }
    if run.outputs.len() != node.outputs.len() {
        return Err(format!("{} outputs, but the node has {}", run.outputs.len(), node.outputs.len()));
    }
    for slot in run.inputs.iter().chain(&run.state_in) {
        match life.get(slot.index()) {
            Some(Life::Live) => {}
            Some(Life::Unborn) => return Err(format!("S1: {} is not produced yet", step.slot_name(*slot))),
            Some(Life::Dead) => return Err(format!("S1: {} was dropped before", step.slot_name(*slot))),
            None => return Err(format!("reads slot {}, which does not exist", slot.0)),
        }
    }
    if run.overwrite {
        let Some(k) = node.overwrites else { return Err("overwrites, but the node does not".into()) };
        let operand = run.inputs[k as usize];
        if operand.0 < resident {
            return Err(format!("S6: it would take the storage of {}", step.slot_name(operand)));
        }
        if run.inputs.iter().filter(|s| **s == operand).count() > 1 {
            return Err(format!("S6: it overwrites {} and reads it too", step.slot_name(operand)));
        }
        life[operand.index()] = Life::Dead;
    }
    for slot in run.outputs.iter().chain(&run.state_out) {
        match life.get(slot.index()) {
            Some(Life::Unborn) => life[slot.index()] = Life::Live,
            Some(_) => return Err(format!("assigns {} a second time", step.slot_name(*slot))),
            None => return Err(format!("assigns slot {}, which does not exist", slot.0)),
        }
    }
    Ok(())
}

fn finish(step: &Step, program: &Program, life: Vec<Life>) -> Result<(), Invalid> {
    let mut defined: Vec<bool> = life.iter().map(|l| *l == Life::Live).collect();
    let slots = defined.len();
    let mut needed = vec![false; slots];
    for (i, call) in program.epilogue.iter().enumerate() {
        let place = || format!("epilogue[{i}] {:?}", call.op);
        if let Some(r) = call
            .results
            .iter()
            .flatten()
            .find(|r| **r as usize >= slots || life[**r as usize] != Life::Unborn)
        {
            return Err(at(place(), format!("result slot {r} does not exist or is taken")));
        }
        check_call(call, &mut defined, "slot", place)?;
        call.args.iter().for_each(|a| a.for_each_value(&mut |v| needed[v as usize] = true));
    }
    if program.outputs.len() != step.outputs.len() {
        let message = format!("{} slots for {} outputs", program.outputs.len(), step.outputs.len());
        return Err(at("program.outputs", message));
    }
    for (i, slot) in program.outputs.iter().enumerate() {
        if !defined.get(slot.index()).copied().unwrap_or(false) {
            let place = format!("outputs[{i}] {:?}", step.outputs[i].name);
            return Err(at(place, format!("S1: {} is not live at the end", step.slot_name(*slot))));
        }
        needed[slot.index()] = true;
    }
    for slot in step.resident() as usize..slots {
        if life[slot] == Life::Live && !needed[slot] {
            return Err(at("program", format!("S3: {} is never dropped", step.slot_name(Slot(slot as u32)))));
        }
    }
    Ok(())
}
