//! A lowered step whose streams run in another order than the program's, on the CPU: the emulation of a GPU's streams.
//!
//! This is the order alone, with the CPU's own kernels and memory, for steps of the CPU (`rk-run --emulate-streams`). Steps for CUDA run with the code
//! for CUDA on a whole emulated GPU, in the tests only (tools/emulated-gpu).
//!
//! The launch sequence is queued on an emulated device ([`rk_step::queue`]), which says in which order it ran the launches. Handles
//! of dropped values go as soon as the last launch that knows them is done: their places belong to others from then on.

use rk_step::queue::{Emulated, Pace};
use rk_step::{Instr, LaunchSchedule, Slot, Step};

use crate::error::RuntimeError;

/// Positions in the program in the order of execution: launches as the device ran them, drops as early as they can be.
///
/// # Errors
/// When the streams wait for each other for ever, which is a bug in rk.
pub(crate) fn order(step: &Step, schedule: &LaunchSchedule, pace: Pace) -> Result<Vec<usize>, RuntimeError> {
    let launches = Emulated::of(schedule).order(pace);
    if launches.len() < schedule.launches.len() {
        let next = &schedule.launches[launches.len()];
        return Err(RuntimeError::Execution {
            place: format!("program[{}]", next.instr),
            message: "the streams wait for each other for ever".into(),
        });
    }
    let mut users = vec![0usize; step.program.slots as usize];
    let mut dropped_at: Vec<Option<usize>> = vec![None; users.len()];
    for (at, instr) in step.program.instrs.iter().enumerate() {
        match instr {
            Instr::Run(_) => known(step, at).for_each(|slot| users[slot.index()] += 1),
            Instr::Drop(slot) => dropped_at[slot.index()] = Some(at),
        }
    }
    let mut order = Vec::with_capacity(step.program.instrs.len());
    for launch in launches {
        let at = schedule.launches[launch].instr;
        order.push(at);
        for slot in known(step, at) {
            users[slot.index()] -= 1;
            if users[slot.index()] == 0 {
                order.extend(dropped_at[slot.index()]);
            }
        }
    }
    Ok(order)
}

/// Slots that a run knows, with repetitions.
fn known(step: &Step, at: usize) -> impl Iterator<Item = Slot> + '_ {
    let run = match step.program.instrs.get(at) {
        Some(Instr::Run(run)) => Some(run),
        _ => None,
    };
    run.into_iter().flat_map(|run| {
        let states = run.state_in.iter().chain(&run.state_out);
        run.inputs.iter().chain(&run.outputs).chain(states).copied()
    })
}
