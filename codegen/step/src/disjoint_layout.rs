//! The step before the rewrite as a lowered one: every node once, in the original order, and no two values share a byte.
//!
//! Generated kernels for a GPU are launched at addresses, so there the step before the rewrite needs some, too. These could not be simpler:
//! one place behind the other, in the order in which values are made, and behind them what the hungriest launch needs besides. A plan that
//! lets go of something too early, or puts two things in one place, differs from this.
//!
//! Not here: frugality. The arena is as large as all values together.

use std::collections::BTreeMap;

use crate::error::Invalid;
use crate::layout::{Launch, Layout, Place, Space};
use crate::memory_account::gradient_slots;
use crate::model::{Instr, Run, Slot, Step, TensorSpec};
use crate::origin::{Origin, origins};
use crate::original::original;

/// The step in its original order, at addresses of its own; a step without a layout stays without.
///
/// # Errors
/// As [`original`].
pub fn disjoint_layout(step: &Step) -> Result<Step, Invalid> {
    let mut made = Step { program: original(step)?, layout: None, ..step.clone() };
    let Some(layout) = &step.layout else { return Ok(made) };
    let (before, after, gradient) = (origins(step)?, origins(&made)?, gradient_slots(&made)?);
    let mut specs: BTreeMap<Origin, &TensorSpec> = BTreeMap::new();
    for place in &layout.places {
        specs.extend(before[place.slot.index()].zip(place.spec.as_ref()));
    }
    let mut workspaces = vec![0u64; step.nodes.len()];
    for launch in &layout.launches {
        if let Some(Instr::Run(run)) = step.program.instrs.get(launch.instr as usize) {
            let most = &mut workspaces[run.node.index()];
            *most = launch.workspace_bytes.max(*most);
        }
    }
    let round = |bytes: u64| bytes.next_multiple_of(step.alignment);
    let mut tops: BTreeMap<Space, u64> = BTreeMap::new();
    let mut places: BTreeMap<Slot, Place> = BTreeMap::new();
    let mut launches = Vec::new();
    for (at, instr) in made.program.instrs.iter().enumerate() {
        let Instr::Run(run) = instr else { continue };
        let node = &made.nodes[run.node.index()];
        let taken = node.overwrites.filter(|_| run.overwrite).map(|index| run.inputs[index as usize]);
        for (index, (&slot, output)) in run.outputs.iter().zip(&node.outputs).enumerate() {
            let space = if gradient[slot.index()] { Space::Gradients } else { Space::Arena };
            let taken = taken.filter(|_| index == 0).and_then(|operand| places.get(&operand));
            let offset = taken.filter(|operand| operand.space == space).map(|operand| operand.offset);
            let offset = offset.unwrap_or_else(|| {
                let top = tops.entry(space).or_default();
                *top = round(*top + output.bytes);
                *top - round(output.bytes)
            });
            let spec = after[slot.index()].and_then(|origin| specs.get(&origin)).map(|&spec| spec.clone());
            places.insert(slot, Place { slot, space, offset, bytes: output.bytes, spec });
        }
        launches.push(launch(at, run, &workspaces));
    }
    let top = |space: Space| tops.get(&space).copied().unwrap_or(0);
    for launch in &mut launches {
        launch.workspace_offset = top(Space::Arena);
    }
    let most = workspaces.into_iter().max().unwrap_or(0);
    let arena_bytes = top(Space::Arena) + round(most);
    made.layout = Some(Layout {
        arena_bytes,
        gradient_bytes: top(Space::Gradients),
        places: places.into_values().collect(),
        launches,
        ..layout.clone()
    });
    made.plan.arena_bytes = Some(arena_bytes);
    Ok(made)
}

fn launch(at: usize, run: &Run, workspaces: &[u64]) -> Launch {
    Launch { instr: at as u32, workspace_offset: 0, workspace_bytes: workspaces[run.node.index()], stream: 0 }
}
