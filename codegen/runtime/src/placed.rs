//! A layout as the arena needs it: for each launch, where its results go and what is free meanwhile.
//!
//! Free is whatever no living value occupies, not only the planned workspace: the plan is tight at the peak alone, and a kernel
//! that asks for a little more than it did when its cost was measured does no harm elsewhere. A launch that another stream's may
//! accompany has its planned workspace and nothing else: what is free to one would be free to both.

use std::ops::Range;

use rk_step::layout::{Occupied, occupied};
use rk_step::{GENERATOR_BYTES, Instr, LaunchSchedule, Layout, Space, Step};
use rk_torch::{Arena, Device, Place};

use crate::cuda;
use crate::error::RuntimeError;

/// The arena of a lowered step, with one launch per run of the program and two more, which only make views: for the epilogue, and for
/// what the caller of an interrupted step gets in its middle. Of such a step, what lies in the gradient space is the caller's: it has
/// no place here, and is allocated when it is made.
///
/// # Errors
/// When there is too little memory.
pub(crate) fn arena(
    step: &Step,
    layout: &Layout,
    schedule: &LaunchSchedule,
    device: Device,
) -> Result<Arena, RuntimeError> {
    let gradients = gradient_offset(step, layout);
    let leaves = step.interruption().is_some();
    let bytes = if leaves { layout.arena_bytes } else { gradients.saturating_add(layout.gradient_bytes) };
    let available = match device {
        Device::Cpu => available_memory(),
        Device::Cuda(_) => Some(cuda::available_memory(device)?),
    };
    if let Some(available) = available.filter(|&available| available < bytes) {
        return Err(RuntimeError::Device(format!(
            "too little memory: the step needs {bytes} bytes for its arena and gradients, {} has {available} left",
            if device == Device::Cpu { "this machine".to_owned() } else { device.to_string() },
        )));
    }
    let mut arena = Arena::new(bytes, device)?;
    let offset_of = |place: &rk_step::Place| match place.space {
        Space::Arena => Some(place.offset),
        Space::Gradients => (!leaves).then_some(gradients + place.offset),
    };
    let mut offsets = vec![Some(0); step.program.slots as usize];
    layout.places.iter().for_each(|place| offsets[place.slot.index()] = offset_of(place));
    let values: Vec<Occupied> = occupied(step, layout)
        .into_iter()
        .filter(|one| one.space == Space::Arena && one.slot.is_some())
        .collect();
    let mut launches = layout.launches.iter().zip(schedule.accompanied());
    for (at, instr) in step.program.instrs.iter().enumerate() {
        let Instr::Run(run) = instr else { continue };
        let node = &step.nodes[run.node.index()];
        let place =
            |slot: rk_step::Slot, bytes| Place { bytes, offset: offsets[slot.index()], slot: slot.index() };
        let mut results: Vec<Place> =
            run.outputs.iter().zip(&node.outputs).map(|(slot, output)| place(*slot, output.bytes)).collect();
        results.extend(run.state_out.map(|slot| place(slot, GENERATOR_BYTES)));
        let (workspace, accompanied) = launches.next().map_or((0..0, false), |(launch, accompanied)| {
            let from = launch.workspace_offset;
            (from..from + launch.workspace_bytes.next_multiple_of(step.alignment), accompanied)
        });
        if accompanied {
            arena.add_launch(&results, &[workspace])?;
            continue;
        }
        let live = values.iter().filter(|one| one.from <= at && at <= one.to);
        let taken = live.map(|one| one.offset..one.offset + one.bytes.next_multiple_of(step.alignment));
        arena.add_launch(&results, &free(taken.collect(), layout.arena_bytes, workspace.start))?;
    }
    arena.add_launch(&[], &[])?;
    arena.add_launch(&[], &[])?;
    Ok(arena)
}

/// Where the gradient space begins, behind the arena proper in one block.
pub(crate) fn gradient_offset(step: &Step, layout: &Layout) -> u64 {
    layout.arena_bytes.next_multiple_of(step.alignment)
}

/// Bytes that the system can still give, as Linux estimates them; mapping alone would never fail.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// What is left of `0..size`, the hole with `first` in it before the others.
fn free(mut taken: Vec<Range<u64>>, size: u64, first: u64) -> Vec<Range<u64>> {
    taken.sort_unstable_by_key(|range| (range.start, range.end));
    let (mut holes, mut at) = (Vec::new(), 0);
    for range in taken.into_iter().chain(std::iter::once(size..size)) {
        if range.start > at {
            holes.push(at..range.start);
        }
        at = at.max(range.end);
    }
    holes.sort_by_key(|hole| !hole.contains(&first));
    holes
}

#[cfg(test)]
mod tests {
    use super::{available_memory, free};

    #[test]
    fn memory_is_known() {
        assert!(available_memory().is_none_or(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn holes_are_what_is_left() {
        let holes = |taken: &[(u64, u64)], size, first| {
            let taken = taken.iter().map(|&(from, to)| from..to).collect();
            free(taken, size, first).into_iter().map(|hole| (hole.start, hole.end)).collect::<Vec<_>>()
        };
        assert_eq!(holes(&[(64, 128), (0, 64), (256, 320)], 512, 0), [(128, 256), (320, 512)]);
        assert_eq!(holes(&[(64, 128), (96, 192)], 192, 100), [(0, 64)]);
        assert_eq!(holes(&[(64, 128)], 512, 128), [(128, 512), (0, 64)]);
        assert!(holes(&[(0, 512)], 512, 0).is_empty() && holes(&[], 0, 0).is_empty());
    }
}
