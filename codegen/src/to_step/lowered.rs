//! A lowered step as program and layout: launches become runs, the last use of a buffer becomes its drop, and places go into
//! the layout ([`rk_step::layout`]).
//!
//! The drops are what the executor lets handles go by, and what its account of live bytes needs; nothing is freed by them.

use std::collections::HashMap;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{AtenOp, BufferOp, Execution, LaunchOp, LoadStateOp, SaveStateOp, Space, StepOp};
use rk_dialect::{Op, PlanSummary, Value};
use rk_step::{Instr, Launch, Layout, Place, Program, Run, Slot};

use super::Translation;
use crate::body;

/// The program of a lowered step, and its layout.
///
/// # Errors
/// A launch of a node that does not exist, a type that a step file cannot hold.
pub(crate) fn program<'c>(
    step: StepOp<'c>,
    translation: &mut Translation<'c>,
) -> Result<(Program, Layout), Diagnostic<'c>> {
    let ops = step.body().ops();
    let mut dead = last_uses(&ops);
    let (mut instrs, mut launches, mut epilogue) = (Vec::new(), Vec::new(), Vec::new());
    let mut places: Vec<Place> = Vec::new();
    let around = |at: Option<usize>| at.and_then(|at| ops.get(at)).copied();
    for (at, &op) in ops.iter().enumerate() {
        if let Some(view) = AtenOp::of(op) {
            epilogue.push(translation.view(view)?);
        }
        let Some(launch) = LaunchOp::of(op) else { continue };
        let node = translation.node(Execution::Launch(launch))?;
        let inputs = launch.inputs().into_iter().map(|value| translation.slot(value)).collect();
        let before = around(at.checked_sub(1));
        let saved = before.and_then(SaveStateOp::of).and_then(SaveStateOp::state);
        let loaded = before.and_then(LoadStateOp::of).and_then(LoadStateOp::state);
        let mut outputs = Vec::new();
        for value in launch.outputs() {
            let slot = translation.slot(value);
            places.extend(place(value, slot)?);
            outputs.push(slot);
        }
        let state_out = saved.filter(|_| !launch.is_again()).map(|state| (state, translation.slot(state)));
        if let Some((state, slot)) = state_out {
            places.extend(place(state, slot)?);
        }
        let (workspace_offset, workspace_bytes) = launch.workspace().unwrap_or_default();
        let (instr, stream) = (instrs.len() as u32, launch.stream());
        launches.push(Launch { instr, workspace_offset, workspace_bytes, stream });
        instrs.push(Instr::Run(Run {
            node,
            again: launch.is_again(),
            overwrite: launch.is_overwrite(),
            inputs,
            outputs,
            state_out: state_out.map(|(_, slot)| slot),
            state_in: loaded.filter(|_| launch.is_again()).map(|state| translation.slot(state)),
        }));
        for value in dead.remove(&at).unwrap_or_default() {
            instrs.push(Instr::Drop(translation.slot(value)));
        }
    }
    places.sort_unstable_by_key(|place| place.slot);
    let said = PlanSummary::of(step);
    let layout = Layout {
        target: said.target.unwrap_or_else(|| "cpu".to_owned()),
        chip: said.chip,
        arena_bytes: said.arena.unwrap_or(0),
        gradient_bytes: said.gradients.unwrap_or(0),
        places,
        launches,
    };
    Ok((translation.finish(step, instrs, epilogue), layout))
}

/// The place of a buffer; none for what lies in a space that is not the step's.
fn place<'c>(value: Value<'c>, slot: Slot) -> Result<Option<Place>, Diagnostic<'c>> {
    let Some(buffer) = BufferOp::behind(value) else { return Ok(None) };
    let space = match buffer.space() {
        Some(Space::Arena) => rk_step::Space::Arena,
        Some(Space::Gradients) => rk_step::Space::Gradients,
        Some(Space::Parking) | None => return Ok(None),
    };
    let tensor = value.ty().is_tensor();
    let spec = if tensor { Some(body::spec(value.ty(), buffer.op().location())?) } else { None };
    Ok(Some(Place { slot, space, offset: buffer.offset(), bytes: buffer.bytes(), spec }))
}

/// By place of a launch, the buffers that are dead once it is done, in order of the ops that make them: it uses them last, or a
/// copy of random state just before it does. What is returned, also through views, stays; what a launch overwrites is
/// handed over.
fn last_uses<'c>(ops: &[Op<'c>]) -> HashMap<usize, Vec<Value<'c>>> {
    let mut last: HashMap<Value<'c>, usize> = HashMap::new();
    for (at, op) in ops.iter().enumerate() {
        for operand in op.operands() {
            last.insert(base(operand), at);
        }
    }
    let mut ends: HashMap<usize, Vec<Value<'c>>> = HashMap::new();
    for value in ops.iter().filter_map(|&op| BufferOp::of(op)?.value()) {
        let Some(&at) = last.get(&value) else { continue };
        let copy = LoadStateOp::of(ops[at]).is_some() || SaveStateOp::of(ops[at]).is_some();
        let launch =
            if copy { (at..ops.len()).find(|&at| LaunchOp::of(ops[at]).is_some()) } else { Some(at) };
        let Some((at, launch)) = launch.and_then(|at| Some((at, LaunchOp::of(ops[at])?))) else { continue };
        let parked = BufferOp::behind(value).and_then(BufferOp::space) == Some(Space::Parking);
        let handed = launch.is_overwrite() && is_overwritten(launch, value);
        if !parked && !handed {
            ends.entry(at).or_default().push(value);
        }
    }
    ends
}

/// Whether a launch that overwrites takes over the place of this operand.
fn is_overwritten<'c>(launch: LaunchOp<'c>, value: Value<'c>) -> bool {
    let node = launch.op().lookup(launch.symbol()).and_then(rk_dialect::ops::NodeOp::of);
    node.and_then(|node| node.overwrites()).and_then(|index| launch.inputs().get(index).copied())
        == Some(value)
}

/// The value whose storage a view shares.
fn base(mut value: Value<'_>) -> Value<'_> {
    while let Some(next) = value.producer().and_then(|(op, number)| AtenOp::of(op)?.base_of(number)) {
        value = next;
    }
    value
}
