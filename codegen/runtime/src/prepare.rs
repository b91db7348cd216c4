//! From the program to a flat list of prepared actions.
//!
//! All decisions are taken here, once: which slot of the table each local of each run lives in, what is cloned,
//! when a temporary is let go, which arguments a second run leaves out. Executing an action is then one call
//! across the border.
//!
//! The table of slots: the program's slots come first, behind them a scratch area that the bodies share. A local
//! that is an output lives in the output's slot from the start; all others live in scratch and are let go after
//! their last reader inside the body.

use rk_step::memory_account::gradient_slots;
use rk_step::{ArgValue, Call, Instr, Node, OutputRole, Run, Step};
use rk_torch::{Operator, Prepared, Value};

use crate::action::{Action, Segment};
use crate::error::RuntimeError;
use crate::kernels::Kernels;

/// The whole program, prepared.
pub(crate) struct Prepare {
    /// One per instruction, one for the epilogue, and one more for a step that the caller interrupts: the views among what it gets
    /// in the middle, which the epilogue then leaves out.
    pub segments: Vec<Segment>,
    /// Size of the table.
    pub slots: usize,
    /// Slots that hold values when the program ends.
    pub kept: Vec<usize>,
}

/// Prepares the step's program. The step must be valid. Nodes with a kernel need `kernels`, which must live as long. The first
/// `handed_out` results are those that the caller of an interrupted step gets in its middle.
pub(crate) fn prepare(
    step: &Step,
    kernels: Option<&Kernels>,
    handed_out: usize,
) -> Result<Prepare, RuntimeError> {
    let base = step.program.slots as usize;
    let mut slots = base;
    let gradient = gradient_slots(step)?;
    let mut live = vec![0i64; base];
    let mut alive = vec![false; base];
    let differentiates = step.outputs.iter().any(|o| o.role == OutputRole::Loss);
    let mut segments = Vec::with_capacity(step.program.instrs.len() + 1);
    let mut launches = 0;
    let mut is_state = vec![false; base];
    let interruption = step.interruption();
    for (i, instr) in step.program.instrs.iter().enumerate() {
        let mut gone = Vec::new();
        let (mut gradient_bytes, mut states) = (0i64, 0i64);
        let mut segment = match instr {
            Instr::Drop(slot) => {
                gone.push(slot.index());
                states -= i64::from(is_state[slot.index()]);
                Segment::new(i, vec![Action::Clear(slot.index())])
            }
            Instr::Run(run) => {
                let node = &step.nodes[run.node.index()];
                if let (true, Some(k)) = (run.overwrite, node.overwrites) {
                    gone.push(run.inputs[k as usize].index());
                }
                for (output, slot) in node.outputs.iter().zip(&run.outputs) {
                    alive[slot.index()] = true;
                    if gradient[slot.index()] {
                        live[slot.index()] = output.bytes as i64;
                        gradient_bytes += output.bytes as i64;
                    }
                }
                if let Some(slot) = run.state_out {
                    is_state[slot.index()] = true;
                    alive[slot.index()] = true;
                    states += 1;
                }
                let mode = Mode { again: run.again, grad: differentiates && !node.backward };
                let made = match kernels.filter(|_| node.kernel.is_some()) {
                    // The caller's part: what it makes is put into the slots.
                    _ if interruption == Some(i) => Ok((Vec::new(), 0)),
                    Some(kernels) => kernels.actions(node, run).map(|actions| (actions, 0)),
                    None => body(node, run, base, mode),
                };
                let (actions, used) = made.map_err(|(op, message)| {
                    let place = format!("program[{i}] {:?}: {op}", node.name);
                    RuntimeError::Execution { place, message }
                })?;
                slots = slots.max(base + used);
                launches += 1;
                Segment { launch: Some(launches - 1), ..Segment::new(i, actions) }
            }
        };
        for slot in gone {
            alive[slot] = false;
            gradient_bytes -= live[slot];
        }
        segment.gradient_bytes = gradient_bytes;
        segment.states = states;
        segments.push(segment);
    }
    let early = early_views(step, if interruption.is_some() { handed_out } else { 0 });
    let (mut actions, mut before) = (Vec::new(), Vec::new());
    for (i, call) in step.program.epilogue.iter().enumerate() {
        let bind = |local: u32| local as usize;
        let results: Vec<Option<usize>> = call.results.iter().map(|r| r.map(bind)).collect();
        let view =
            prepared(call, Mode { again: false, grad: false }, &bind, &results).map_err(|message| {
                RuntimeError::Execution { place: format!("epilogue[{i}] {}", call.op), message }
            })?;
        if early[i] {
            before.push(view)
        } else {
            actions.push(view)
        }
        results.into_iter().flatten().for_each(|r| alive[r] = true);
    }
    let end = Segment::new(step.program.instrs.len(), actions);
    segments.push(Segment { launch: Some(launches), ..end });
    if interruption.is_some() {
        let handover = Segment::new(step.program.instrs.len(), before);
        segments.push(Segment { launch: Some(launches + 1), ..handover });
    }
    let kept = (step.resident() as usize..base).filter(|&s| alive[s]).collect();
    Ok(Prepare { segments, slots, kept })
}

/// Which calls of the epilogue the first `handed_out` results need.
fn early_views(step: &Step, handed_out: usize) -> Vec<bool> {
    let mut needed: Vec<u32> = step.program.outputs.iter().take(handed_out).map(|slot| slot.0).collect();
    let mut early = vec![false; step.program.epilogue.len()];
    for (at, call) in step.program.epilogue.iter().enumerate().rev() {
        if call.results.iter().flatten().any(|result| needed.contains(result)) {
            early[at] = true;
            call.args.iter().for_each(|arg| arg.for_each_value(&mut |value| needed.push(value)));
        }
    }
    early
}

impl Segment {
    fn new(instr: usize, actions: Vec<Action>) -> Self {
        Self { instr, actions, launch: None, gradient_bytes: 0, states: 0 }
    }
}

/// How the calls of a run differ from those of another run of the same node.
#[derive(Clone, Copy)]
struct Mode {
    /// A second run: the state of the model is left out (S5).
    again: bool,
    /// What kernels see as the gradient mode. Eager PyTorch has it on in forward and off in backward, and some kernels
    /// look: oneDNN's recurrent layers keep what backward needs only when it is on.
    grad: bool,
}

/// The actions of one run and the number of scratch slots it needs; the error names the operator.
fn body(
    node: &Node,
    run: &Run,
    scratch: usize,
    mode: Mode,
) -> Result<(Vec<Action>, usize), (String, String)> {
    let locals =
        node.ops.iter().flat_map(|c| c.results.iter().flatten()).fold(node.inputs, |n, &r| n.max(r + 1))
            as usize;
    let mut last_read = vec![None; locals];
    for (k, call) in node.ops.iter().enumerate() {
        call.args.iter().for_each(|a| a.for_each_value(&mut |v| last_read[v as usize] = Some(k)));
    }
    // Where each local lives. `usize::MAX`: nowhere, because nobody reads it.
    let mut home = vec![usize::MAX; locals];
    let mut used = 0;
    let mut fresh = || {
        used += 1;
        scratch + used - 1
    };
    for (k, slot) in run.inputs.iter().enumerate() {
        home[k] = slot.index();
    }
    let mut actions = Vec::new();
    // First of all, so that the parked copy of the generator's state is there while everything else happens.
    if let Some(slot) = run.state_out {
        actions.push(Action::Save(slot.index()));
    }
    if let Some(slot) = run.state_in {
        actions.push(Action::Replay(slot.index()));
    }
    let copied = node.overwrites.filter(|_| !run.overwrite).map(|k| k as usize);
    if let Some(k) = copied {
        let from = home[k];
        home[k] = fresh();
        let preserve_format = Value::Int(1);
        let clone = Operator::find("aten.clone.default")
            .and_then(|op| Prepared::new(op, &[Value::Slot(from), preserve_format], &[Some(home[k])]))
            .map_err(|e| ("aten.clone.default".to_owned(), e.message().to_owned()))?;
        actions.push(Action::Call(clone));
    }
    let mut is_output = vec![false; locals];
    for (output, slot) in node.outputs.iter().zip(&run.outputs) {
        let local = output.local.index();
        is_output[local] = true;
        if home[local] == usize::MAX {
            home[local] = slot.index();
        }
    }
    for local in node.inputs as usize..locals {
        if home[local] == usize::MAX && last_read[local].is_some() {
            home[local] = fresh();
        }
    }
    for (k, call) in node.ops.iter().enumerate() {
        let results: Vec<Option<usize>> = call
            .results
            .iter()
            .map(|r| r.map(|r| home[r as usize]).filter(|&slot| slot != usize::MAX))
            .collect();
        let bind = |local: u32| home[local as usize];
        let call = prepared(call, mode, &bind, &results).map_err(|e| (call.op.clone(), e))?;
        actions.push(call);
        for local in 0..locals {
            if last_read[local] == Some(k) && home[local] >= scratch && !is_output[local] {
                actions.push(Action::Clear(home[local]));
            }
        }
    }
    if run.state_in.is_some() {
        actions.push(Action::PutBack);
    }
    for (output, slot) in node.outputs.iter().zip(&run.outputs) {
        let from = home[output.local.index()];
        if from != slot.index() {
            actions.push(Action::Share { from, to: slot.index() });
        }
    }
    if let Some(k) = node.overwrites.map(|k| k as usize) {
        // The operand itself when its storage was taken, our copy of it otherwise.
        if run.overwrite || is_output[k] || last_read[k].is_none() {
            actions.push(Action::Clear(home[k]));
        }
    }
    Ok((actions, used))
}

/// One call with its slots bound. A second run leaves out the state of the model (S5).
fn prepared(
    call: &Call,
    mode: Mode,
    bind: &impl Fn(u32) -> usize,
    results: &[Option<usize>],
) -> Result<Action, String> {
    let args: Vec<Value> =
        call.args
            .iter()
            .enumerate()
            .map(|(i, arg)| {
                if mode.again && call.effects.contains(&(i as u32)) { Value::None } else { value(arg, bind) }
            })
            .collect();
    let op = Operator::find(&call.op).map_err(|e| e.message().to_owned())?;
    Prepared::with_grad_mode(op, &args, results, mode.grad)
        .map(Action::Call)
        .map_err(|e| e.message().to_owned())
}

fn value(arg: &ArgValue, bind: &impl Fn(u32) -> usize) -> Value {
    match arg {
        ArgValue::Value(v) => Value::Slot(bind(*v)),
        ArgValue::None => Value::None,
        ArgValue::Int(i) => Value::Int(*i),
        ArgValue::Float(x) => Value::Float(*x),
        ArgValue::Bool(b) => Value::Bool(*b),
        ArgValue::Str(s) => Value::Str(s.clone()),
        ArgValue::List(items) => Value::List(items.iter().map(|item| value(item, bind)).collect()),
    }
}
