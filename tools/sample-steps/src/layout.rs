//! Addresses for steps written by hand: first fit, in order of birth. No packer, so that packer and executor are tested apart.

use rk_step::layout::{Occupied, occupied};
use rk_step::{GENERATOR_BYTES, Instr, Launch, Layout, Place, Slot, Space, Step, memory_account};

/// The step with a layout in which every run has `workspace` bytes on top of the values.
pub fn lowered(step: &Step, workspace: u64) -> Step {
    on_streams(step, workspace, 1)
}

/// The same with second runs on streams of their own in turn, each with a workspace of its own.
pub fn on_streams(step: &Step, workspace: u64, streams: u32) -> Step {
    let gradient = memory_account::gradient_slots(step).unwrap();
    let mut places = vec![];
    let mut launches = vec![];
    let mut second_runs = 0;
    for (at, instr) in step.program.instrs.iter().enumerate() {
        let Instr::Run(run) = instr else { continue };
        let node = &step.nodes[run.node.index()];
        let mut place = |slot: Slot, bytes| {
            let space = if gradient[slot.index()] { Space::Gradients } else { Space::Arena };
            places.push(Place { slot, space, offset: 0, bytes, spec: None });
        };
        run.outputs.iter().zip(&node.outputs).for_each(|(&slot, output)| place(slot, output.bytes));
        run.state_out.into_iter().for_each(|slot| place(slot, GENERATOR_BYTES));
        second_runs += u32::from(run.again);
        let stream = if run.again && streams > 1 { 1 + second_runs % (streams - 1) } else { 0 };
        launches.push(Launch { instr: at as u32, workspace_offset: 0, workspace_bytes: 0, stream });
    }
    places.sort_by_key(|place| place.slot);
    let mut layout =
        Layout { target: "cpu".into(), chip: None, arena_bytes: 0, gradient_bytes: 0, places, launches };
    let mut placed: Vec<Occupied> = vec![];
    let mut lives = occupied(step, &layout);
    lives.sort_by_key(|one| one.from);
    for mut one in lives {
        one.offset = handed_over(step, &one, &placed).unwrap_or_else(|| first_fit(&one, &placed));
        let place = layout.places.iter_mut().find(|place| Some(place.slot) == one.slot).unwrap();
        place.offset = one.offset;
        placed.push(one);
    }
    let top = |space: Space| {
        let tops = placed.iter().filter(|one| one.space == space).map(|one| one.offset + one.bytes);
        tops.max().unwrap_or(0).next_multiple_of(64)
    };
    let all = workspace * u64::from(streams);
    (layout.arena_bytes, layout.gradient_bytes) = (top(Space::Arena) + all, top(Space::Gradients));
    for launch in &mut layout.launches {
        let offset = top(Space::Arena) + workspace * u64::from(launch.stream);
        (launch.workspace_offset, launch.workspace_bytes) = (offset, workspace);
    }
    let mut step = Step { layout: Some(layout), ..step.clone() };
    step.plan.arena_bytes = step.layout.as_ref().map(|layout| layout.arena_bytes);
    rk_step::validate::validate(&step).unwrap();
    step
}

/// The place of the operand that an overwriting run takes over.
fn handed_over(step: &Step, one: &Occupied, placed: &[Occupied]) -> Option<u64> {
    let Instr::Run(run) = &step.program.instrs[one.from] else { return None };
    let index = step.nodes[run.node.index()].overwrites.filter(|_| run.overwrite)?;
    let operand = run.inputs[index as usize];
    (run.outputs.first().copied() == one.slot).then_some(())?;
    placed.iter().find(|other| other.slot == Some(operand)).map(|other| other.offset)
}

fn first_fit(one: &Occupied, placed: &[Occupied]) -> u64 {
    let rivals: Vec<_> = placed
        .iter()
        .filter(|other| other.space == one.space && other.from <= one.to && one.from <= other.to)
        .collect();
    let mut offset = 0;
    while let Some(other) =
        rivals.iter().find(|other| offset < other.offset + other.bytes && other.offset < offset + one.bytes)
    {
        offset = (other.offset + other.bytes).next_multiple_of(64);
    }
    offset
}
