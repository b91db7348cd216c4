//! Addresses: where every value of a lowered program lies, and what each launch may use besides.
//!
//! A step with a layout is executed without an allocator: the runtime makes one arena and one space of gradients, and every
//! value that a run makes goes to its place there. A value lives from the run that makes it to its drop, or to the end;
//! an overwriting run takes the place of its operand over. [`check`] refuses a layout in which two lives that meet share a byte
//! (law S7, judged by `rk_plan::arena`), so that a damaged or hand-edited file cannot make a step compute nonsense.
//!
//! Not here: how a layout is found (`passes/plan`), how kernels are made to write there (`rk-runtime`).

pub use crate::model::layout::{Launch, Layout, Place, Space};

use rk_plan::arena::{Extent, Overlap, first_overlap};

use crate::error::Invalid;
use crate::memory_account::gradient_slots;
use crate::model::{GENERATOR_BYTES, Instr, Slot, Step};

/// More than any machine has, and little enough to be added up in 64 bits.
const MOST_BYTES: u64 = 1 << 62;

/// Bytes of a space that are needed over a range of instructions, both ends included.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Occupied {
    /// Which space.
    pub space: Space,
    /// The first byte.
    pub offset: u64,
    /// How many, at least one.
    pub bytes: u64,
    /// From this instruction.
    pub from: usize,
    /// To this one.
    pub to: usize,
    /// The value; `None` for the workspace of `from`.
    pub slot: Option<Slot>,
}

impl Occupied {
    fn extent(&self) -> Extent {
        Extent { from: self.from, to: self.to, offset: self.offset, bytes: self.bytes }
    }
}

/// What a layout occupies when: values by their lives in the program, then workspaces. The program must be valid.
pub fn occupied(step: &Step, layout: &Layout) -> Vec<Occupied> {
    let instrs = &step.program.instrs;
    let mut lives: Vec<Option<(usize, usize)>> = vec![None; step.program.slots as usize];
    for (at, instr) in instrs.iter().enumerate() {
        match instr {
            // Dead once the instructions before the drop are done.
            Instr::Drop(slot) => end(&mut lives, *slot, at.saturating_sub(1)),
            Instr::Run(run) => {
                if let (true, Some(index)) = (run.overwrite, step.nodes[run.node.index()].overwrites) {
                    end(&mut lives, run.inputs[index as usize], at.saturating_sub(1));
                }
                let made = run.outputs.iter().chain(&run.state_out);
                made.for_each(|slot| lives[slot.index()] = Some((at, instrs.len())));
            }
        }
    }
    let values = layout.places.iter().filter(|place| place.bytes > 0).filter_map(|place| {
        let (from, to) = lives.get(place.slot.index()).copied().flatten()?;
        let (space, offset, bytes) = (place.space, place.offset, place.bytes);
        Some(Occupied { space, offset, bytes, from, to, slot: Some(place.slot) })
    });
    let workspaces = layout.launches.iter().filter(|launch| launch.workspace_bytes > 0).map(|launch| {
        let (at, offset, bytes) = (launch.instr as usize, launch.workspace_offset, launch.workspace_bytes);
        Occupied { space: Space::Arena, offset, bytes, from: at, to: at, slot: None }
    });
    values.chain(workspaces).collect()
}

/// Never before the instruction that makes the value.
fn end(lives: &mut [Option<(usize, usize)>], slot: Slot, at: usize) {
    if let Some((from, to)) = &mut lives[slot.index()] {
        *to = at.max(*from);
    }
}

/// Checks a layout against the program, which must be valid: every value has its place, of its size, in the right space; every
/// place is aligned and within its space; S7.
///
/// # Errors
/// The first thing that is wrong.
pub fn check(step: &Step, layout: &Layout) -> Result<(), Invalid> {
    let at = |place: String, message: String| Err(Invalid { place, message });
    if layout.target != step.device.split(':').next().unwrap_or_default() {
        let message = format!("{:?}, but the step was recorded on {:?}", layout.target, step.device);
        return at("layout.target".into(), message);
    }
    for (name, bytes) in [("arena_bytes", layout.arena_bytes), ("gradient_bytes", layout.gradient_bytes)] {
        if bytes > MOST_BYTES {
            return at(format!("layout.{name}"), format!("{bytes} bytes are too many"));
        }
    }
    let gradient = gradient_slots(step)?;
    let mut places = layout.places.iter().enumerate();
    let runs = step.program.instrs.iter().enumerate().filter_map(|(index, instr)| match instr {
        Instr::Run(run) => Some((index, run)),
        Instr::Drop(_) => None,
    });
    let mut launches = layout.launches.iter();
    let mut wanted: Vec<(Slot, u64)> = Vec::new();
    for (index, run) in runs {
        let node = &step.nodes[run.node.index()];
        wanted.extend(run.outputs.iter().zip(&node.outputs).map(|(slot, output)| (*slot, output.bytes)));
        wanted.extend(run.state_out.map(|slot| (slot, GENERATOR_BYTES)));
        if launches.next().map(|launch| launch.instr as usize) != Some(index) {
            return at(format!("program[{index}] run {:?}", node.name), "has no launch in the layout".into());
        }
    }
    if launches.next().is_some() {
        return at("layout.launches".into(), "there are more than runs".into());
    }
    wanted.sort_unstable();
    for (slot, bytes) in wanted {
        let name = step.slot_name(slot);
        let Some((index, place)) = places.next().filter(|(_, place)| place.slot == slot) else {
            return at("layout.places".into(), format!("{name} has no place, or not in its order"));
        };
        let here = format!("layout.places[{index}] {name}");
        let space = if gradient[slot.index()] { Space::Gradients } else { Space::Arena };
        if place.bytes != bytes || (place.space != space && bytes > 0) {
            let message =
                format!("takes {} bytes of {:?}, should be {bytes} of {space:?}", place.bytes, place.space);
            return at(here, message);
        }
        if place.spec.as_ref().is_some_and(|spec| spec.bytes() != bytes) {
            return at(here, "its type has another size".into());
        }
    }
    if let Some((index, _)) = places.next() {
        return at(format!("layout.places[{index}]"), "no run assigns this slot".into());
    }
    s6_in_place(step, layout)?;
    s7(step, layout)
}

/// S6: an overwriting run writes its first output where the operand lies that it overwrites.
fn s6_in_place(step: &Step, layout: &Layout) -> Result<(), Invalid> {
    // They stand in the order of their slots.
    let place = |slot: Slot| {
        let index = layout.places.binary_search_by_key(&slot, |place| place.slot).ok()?;
        layout.places.get(index)
    };
    for (index, instr) in step.program.instrs.iter().enumerate() {
        let Instr::Run(run) = instr else { continue };
        let taken = step.nodes[run.node.index()].overwrites.filter(|_| run.overwrite);
        let Some((operand, &first)) = taken.map(|k| run.inputs[k as usize]).zip(run.outputs.first()) else {
            continue;
        };
        let where_of = |slot: Slot| place(slot).map(|place| (place.space, place.offset));
        if place(first).is_some_and(|place| place.bytes > 0) && where_of(operand) != where_of(first) {
            let (operand, first) = (step.slot_name(operand), step.slot_name(first));
            let message = format!("S6: it overwrites {operand}, but {first} lies in another place");
            return Err(Invalid::at(step.place_of(index), message));
        }
    }
    Ok(())
}

/// S7: places are aligned and in their space, and what is needed at the same time does not overlap.
fn s7(step: &Step, layout: &Layout) -> Result<(), Invalid> {
    let all = occupied(step, layout);
    let name = |one: &Occupied| match one.slot {
        Some(slot) => step.slot_name(slot),
        None => format!("the workspace of program[{}]", one.from),
    };
    let refuse = |message: String| Err(Invalid { place: "layout".into(), message: format!("S7: {message}") });
    for one in &all {
        let size = if one.space == Space::Arena { layout.arena_bytes } else { layout.gradient_bytes };
        let within = one.offset.checked_add(one.bytes).is_some_and(|top| top <= size);
        if !within || !one.offset.is_multiple_of(step.alignment) {
            let (offset, space) = (one.offset, one.space);
            return refuse(format!(
                "{} at {offset} lies outside of {space:?} or off the alignment",
                name(one)
            ));
        }
    }
    for space in [Space::Arena, Space::Gradients] {
        let there: Vec<&Occupied> = all.iter().filter(|one| one.space == space).collect();
        let extents: Vec<Extent> = there.iter().map(|one| one.extent()).collect();
        if let Some(Overlap { old, new, run }) = first_overlap(&extents) {
            let (old, new) = (name(there[old]), name(there[new]));
            return refuse(format!("{old} and {new} share bytes at program[{run}]"));
        }
    }
    Ok(())
}
