//! A lowered step: the laws S1, S4 to S7 and S9 on places. One function per law.
//!
//! A buffer lives from the op that writes it to its last use, or to the end when it is returned, also through views. There
//! are no drops, so S2 and S3 have nothing to say. A launch with `overwrite` ends the life of the operand that its kernel
//! overwrites; its first written buffer must be the very same place.
//!
//! - **S1** what is read was written before
//! - **S4** `again` follows a first launch of the same kernel on the same values; a random kernel runs again between two copies
//!   of random state: the state of its first launch goes in, the generator's own comes back
//! - **S5** as at stage `scheduled`
//! - **S6** a buffer is written once; what is overwritten in place is not read afterwards
//! - **S7** no two lives that meet share a byte; every place is aligned and lies in its space
//! - **S9** as at stage `scheduled`
//!
//! Not here: whether the arena is within the budget (`--rk-verify-schedule`), what kernels really take (`rk-run`).

use std::collections::HashMap;

use crate::diagnostic::Diagnostic;
use crate::names;
use crate::ops::{BufferOp, Execution, LaunchOp, LoadStateOp, NodeOp, SaveStateOp, Space, StepOp};
use crate::raw::{Attr, Op, Value};
use crate::recorded;
use crate::schedule::{Schedule, Verdict, base, is_ordered, user};
use crate::summary::PlanSummary;
use crate::verify::{s4_again_reproduces, s5_side_effects_once, s9_read_while_lent};

/// rk.buffer by itself: a known space, an offset that is not negative.
pub(crate) fn buffer(buffer: BufferOp<'_>) -> Verdict<'_> {
    let at = buffer.op().location();
    if buffer.space().is_none() {
        let known: Vec<_> = Space::ALL.iter().map(|space| space.as_str()).collect();
        return Err(Diagnostic::error(at, format!("a buffer lies in one of {}", known.join(", "))));
    }
    if buffer.op().get("offset").and_then(Attr::as_i64).is_none_or(|offset| offset < 0) {
        return Err(Diagnostic::error(at, "an offset is not negative"));
    }
    Ok(())
}

/// rk.launch by itself: numbers in range.
pub(crate) fn launch(launch: LaunchOp<'_>) -> Verdict<'_> {
    let op = launch.op();
    let refuse = |message: &str| Err(Diagnostic::error(op.location(), message));
    let written = op.get("writes").and_then(Attr::as_i64).and_then(|count| usize::try_from(count).ok());
    if written.is_none_or(|count| count > op.operand_count()) {
        return refuse("a launch writes as many of its operands as it names behind `into`");
    }
    let workspace = op.get("workspace").and_then(Attr::as_i64s);
    if workspace.is_some_and(|both| both.len() != 2 || both.iter().any(|&number| number < 0)) {
        return refuse("a workspace is [offset, bytes], neither negative");
    }
    if op.get("stream").and_then(Attr::as_i64).is_none_or(|stream| !(0..1 << 16).contains(&stream)) {
        return refuse("a stream is a number from 0 to 65535");
    }
    if let Some(value) = launch.outputs().into_iter().find(|value| BufferOp::behind(*value).is_none()) {
        return refuse(&format!("a launch writes into buffers, '{}' is none", names::of(value)));
    }
    Ok(())
}

/// Checks every law; false after an error was reported.
pub(crate) fn step(step: StepOp<'_>) -> bool {
    let blocks = step.op().regions().first().map_or(0, |region| region.blocks().len());
    if blocks > 1 {
        let message = format!("a lowered step is one block of code, '{}' has {blocks}", step.symbol());
        Diagnostic::error(step.op().location(), message).report();
        return false;
    }
    if !is_ordered(step.body()) {
        // MLIR's own verifier of dominance says so.
        return true;
    }
    let schedule = Schedule::of(step);
    let lives = Lives::of(&schedule);
    let verdicts = [
        s1_written_before(&schedule, &lives),
        s4_again_reproduces(&schedule),
        s4_random_state(&schedule),
        s5_side_effects_once(&schedule),
        s6_written_once(&schedule, &lives),
        s7_places(&schedule, &lives),
        s9_read_while_lent(&schedule),
    ];
    let mut legal = true;
    for diagnostic in verdicts.into_iter().filter_map(Result::err) {
        diagnostic.report();
        legal = false;
    }
    legal
}

/// The life of a buffer, by places of ops in the step.
#[derive(Clone, Copy)]
struct Life<'c> {
    buffer: BufferOp<'c>,
    /// The first op that writes it; `None` when nothing does.
    from: Option<usize>,
    /// Its last use.
    to: usize,
    /// The launch that takes its place over.
    overwritten: Option<usize>,
}

/// The lives of all buffers, in order of the ops.
struct Lives<'c> {
    all: Vec<Life<'c>>,
    of: HashMap<Value<'c>, usize>,
}

impl<'c> Lives<'c> {
    fn of(schedule: &Schedule<'c>) -> Self {
        let mut lives = Lives { all: Vec::new(), of: HashMap::new() };
        for (at, &op) in schedule.ops.iter().enumerate() {
            if let Some((buffer, value)) = BufferOp::of(op).and_then(|buffer| Some((buffer, buffer.value()?)))
            {
                lives.of.insert(value, lives.all.len());
                lives.all.push(Life { buffer, from: None, to: at, overwritten: None });
            }
            for value in op.operands() {
                let Some(&index) = lives.of.get(&base(value)) else { continue };
                lives.all[index].to = at;
            }
            for value in written(op) {
                let Some(&index) = lives.of.get(&value) else { continue };
                lives.all[index].from.get_or_insert(at);
            }
            if let Some(&index) = overwritten(schedule, op).and_then(|value| lives.of.get(&value)) {
                lives.all[index].overwritten.get_or_insert(at);
            }
        }
        lives
    }

    fn get(&self, value: Value<'c>) -> Option<&Life<'c>> {
        self.of.get(&base(value)).map(|&index| &self.all[index])
    }
}

/// The buffers that an op writes.
fn written(op: Op<'_>) -> Vec<Value<'_>> {
    match (LaunchOp::of(op), SaveStateOp::of(op)) {
        (Some(launch), _) => launch.outputs(),
        (_, Some(save)) => save.state().into_iter().collect(),
        _ => Vec::new(),
    }
}

/// The values that an op reads.
fn read(op: Op<'_>) -> Vec<Value<'_>> {
    match LaunchOp::of(op) {
        Some(launch) => launch.inputs(),
        None if SaveStateOp::of(op).is_some() => Vec::new(),
        None => op.operands(),
    }
}

/// The operand whose place the first written buffer takes over.
fn overwritten<'c>(schedule: &Schedule<'c>, op: Op<'c>) -> Option<Value<'c>> {
    let launch = LaunchOp::of(op).filter(|launch| launch.is_overwrite())?;
    let node = schedule.node(Execution::Launch(launch))?;
    launch.inputs().get(node.overwrites()?).copied()
}

/// S1: what is read was written before.
fn s1_written_before<'c>(schedule: &Schedule<'c>, lives: &Lives<'c>) -> Verdict<'c> {
    for (at, &op) in schedule.ops.iter().enumerate() {
        for value in read(op) {
            let Some(life) = lives.get(value) else { continue };
            if life.from.is_none_or(|from| from >= at) {
                let message = format!(
                    "S1: '{}' is read by {} before anything is written there",
                    names::of(value),
                    user(op)
                );
                return Err(Diagnostic::error(op.location(), message)
                    .note(life.buffer.op().location(), "the buffer is here"));
            }
        }
    }
    Ok(())
}

/// S4: a random kernel runs again from the state that was saved right before its first launch, and the generator is put back.
fn s4_random_state<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    let around =
        |at: usize, offset: isize| at.checked_add_signed(offset).and_then(|at| schedule.ops.get(at)).copied();
    let mut saved: HashMap<&str, Value<'c>> = HashMap::new();
    for (at, &op) in schedule.ops.iter().enumerate() {
        let Some(launch) = LaunchOp::of(op) else { continue };
        if !schedule.node(Execution::Launch(launch)).is_some_and(NodeOp::is_random) {
            continue;
        }
        let name = launch.symbol();
        if !launch.is_again() {
            saved.extend(
                around(at, -1).and_then(SaveStateOp::of).and_then(SaveStateOp::state).map(|s| (name, s)),
            );
            continue;
        }
        let error = |message: String| Err(Diagnostic::error(op.location(), message));
        let loaded = around(at, -1).and_then(LoadStateOp::of).and_then(LoadStateOp::state);
        let Some(&state) = saved.get(name) else {
            return error(format!(
                "S4: '{name}' is random and runs again, but no state was saved right before its first launch"
            ));
        };
        if loaded != Some(state) {
            return error(format!(
                "S4: '{name}' runs again without the state of its first launch, loaded right before it"
            ));
        }
        let parked = around(at, -2).and_then(SaveStateOp::of).and_then(SaveStateOp::state);
        let back = around(at, 1).and_then(LoadStateOp::of).and_then(LoadStateOp::state);
        if parked.is_none() || parked != back {
            return error(format!("S4: the generator is not put back after '{name}' ran again"));
        }
    }
    Ok(())
}

/// S6: a buffer is written once, and not read after something took over its place.
fn s6_written_once<'c>(schedule: &Schedule<'c>, lives: &Lives<'c>) -> Verdict<'c> {
    for (at, &op) in schedule.ops.iter().enumerate() {
        let error = |message: String| Diagnostic::error(op.location(), message);
        for value in written(op) {
            if let Some(life) = lives.get(value).filter(|life| life.from != Some(at)) {
                let message = format!("S6: {} writes '{}' a second time", user(op), names::of(value));
                return Err(error(message).note(life.buffer.op().location(), "the buffer is here"));
            }
        }
        let Some(value) = overwritten(schedule, op) else { continue };
        let Some(life) = lives.get(value).filter(|_| base(value) == value) else {
            return Err(error(format!(
                "S6: {} overwrites '{}', which is resident",
                user(op),
                names::of(value)
            )));
        };
        let place = |buffer: BufferOp<'c>| (buffer.space(), buffer.offset(), buffer.bytes());
        let first = written(op).first().copied().and_then(BufferOp::behind);
        if first.map(place) != Some(place(life.buffer)) {
            let message =
                format!("S6: {} overwrites '{}', but writes into another place", user(op), names::of(value));
            return Err(error(message).note(life.buffer.op().location(), "the buffer is here"));
        }
        let uses = op.operands().into_iter().filter(|&operand| base(operand) == value).count();
        if life.to > at || uses > 1 {
            let message = format!(
                "S6: '{}' is read by {} after {} overwrote it",
                names::of(value),
                user(schedule.ops[life.to]),
                user(op)
            );
            return Err(error(message));
        }
    }
    Ok(())
}

/// What occupies bytes for a while.
struct Occupant<'c> {
    name: String,
    op: Op<'c>,
    space: Space,
    offset: u64,
    bytes: u64,
    from: usize,
    to: usize,
}

/// S7: every place is aligned and lies in its space, and no two that are needed at the same time share a byte.
fn s7_places<'c>(schedule: &Schedule<'c>, lives: &Lives<'c>) -> Verdict<'c> {
    let said = PlanSummary::of(schedule.step);
    let alignment = schedule.step.op().parent().map_or(1, recorded::alignment);
    let size = |space: Space| match space {
        Space::Arena => said.arena.unwrap_or(0),
        Space::Gradients => said.gradients.unwrap_or(0),
        Space::Parking => u64::MAX,
    };
    let occupants = occupants(schedule, lives);
    for occupant in &occupants {
        let Occupant { name, space, offset, bytes, .. } = occupant;
        let top = offset.checked_add(*bytes).filter(|&top| top <= size(*space));
        let error = |message: String| Err(Diagnostic::error(occupant.op.location(), message));
        if !offset.is_multiple_of(alignment) {
            return error(format!("S7: {name} lies at {offset}, off the alignment of {alignment} bytes"));
        }
        if top.is_none() {
            let (space, size) = (space.as_str(), size(*space));
            return error(format!(
                "S7: {name} ends {bytes} bytes behind {offset}, outside of {space} with its {size} bytes"
            ));
        }
    }
    s7_no_overlap(&occupants)
}

/// All buffers that hold bytes, and all workspaces.
fn occupants<'c>(schedule: &Schedule<'c>, lives: &Lives<'c>) -> Vec<Occupant<'c>> {
    let mut occupants = Vec::new();
    for life in lives.all.iter().filter(|life| life.buffer.bytes() > 0) {
        let (Some(from), Some(space), Some(value)) = (life.from, life.buffer.space(), life.buffer.value())
        else {
            continue;
        };
        // The launch that takes the place over writes the very same bytes.
        let to = life.overwritten.map_or(life.to, |at| at.saturating_sub(1)).max(from);
        let (name, op) = (format!("'{}'", names::of(value)), life.buffer.op());
        occupants.push(Occupant {
            name,
            op,
            space,
            offset: life.buffer.offset(),
            bytes: life.buffer.bytes(),
            from,
            to,
        });
    }
    for (at, &op) in schedule.ops.iter().enumerate() {
        let Some((offset, bytes)) =
            LaunchOp::of(op).and_then(LaunchOp::workspace).filter(|(_, bytes)| *bytes > 0)
        else {
            continue;
        };
        let name = format!("the workspace of {}", user(op));
        occupants.push(Occupant { name, op, space: Space::Arena, offset, bytes, from: at, to: at });
    }
    occupants
}

/// S7, the heart: of two occupants that share a byte, one is done before the other comes.
///
/// In the order of addresses, whatever shares a byte with an occupant comes before the first that lies above it.
fn s7_no_overlap<'c>(occupants: &[Occupant<'c>]) -> Verdict<'c> {
    let mut upwards: Vec<&Occupant<'c>> = occupants.iter().collect();
    upwards.sort_by_key(|occupant| (occupant.space, occupant.offset, occupant.from));
    for (index, low) in upwards.iter().enumerate() {
        let top = low.offset + low.bytes;
        let mut sharing =
            upwards[index + 1..].iter().take_while(|high| high.space == low.space && high.offset < top);
        if let Some(high) = sharing.find(|high| low.from <= high.to && high.from <= low.to) {
            let (old, new) = if low.from <= high.from { (*low, *high) } else { (*high, *low) };
            let message = format!("S7: {} and {} share bytes while both are needed", old.name, new.name);
            let note = format!("{} lies at {} and takes {} bytes", old.name, old.offset, old.bytes);
            return Err(Diagnostic::error(new.op.location(), message).note(old.op.location(), note));
        }
    }
    Ok(())
}
