//! The laws S1 to S6 and S9 of a schedule, one function per law, as far as the IR itself can show them. Those of transfers, S10 and
//! S11, stand in `verify_transfers`.
//!
//! - **S1** every operand of a step is live: produced before, not dropped since
//! - **S2** a drop names a live value, once per production
//! - **S3** what is not an output is dropped by the end, and whatever is produced again is dropped before
//! - **S4** `again` comes after a first run and reproduces it: the same values in, the generator state of its first run
//! - **S5** a side effect happens exactly once per step, in its original order
//! - **S6** nothing overwrites storage that a later step reads in its old value; a view keeps its base alive
//! - **S9** what is lent until the hand-over is read on its own side of it, by runs in front of it once
//!
//! They run on every function whose `rk.stage` is `scheduled`, whenever MLIR verifies it. MLIR does that before it verifies
//! the ops inside, so nothing here relies on an op being well-formed; what is not is skipped, and reported by `verify_ops`.
//! Each law reports its first violation. The nodes that a function names are only read, but they stand beside it: a
//! pipeline that edits functions and nodes on several threads at once (`any(...)`) must not verify in between.
//!
//! Not here: S7 on addresses, and what the others mean there (`verify_lowered`); S8, which needs the numbers; and the judge in
//! `rk-plan`, which checks all of this again on the schedule as a value.

use std::collections::{HashMap, HashSet};

use crate::diagnostic::Diagnostic;
use crate::loans::Loans;
use crate::names;
use crate::ops::{DropOp, Execution, NodeOp, RunOp, StepOp};
use crate::raw::{Op, Value};
use crate::schedule::{Death, Schedule, Verdict, base, is_ordered, is_production, is_same, user};
use crate::transfers;
use crate::verify_transfers;

/// Checks every law; false after an error was reported.
pub(crate) fn schedule(step: StepOp<'_>) -> bool {
    let blocks = step.op().regions().first().map_or(0, |region| region.blocks().len());
    if blocks > 1 {
        let message = format!("a scheduled step is one block of code, '{}' has {blocks}", step.symbol());
        Diagnostic::error(step.op().location(), message).report();
        return false;
    }
    if !is_ordered(step.body()) {
        // MLIR's own verifier of dominance says so.
        return true;
    }
    let schedule = Schedule::of(step);
    let laws = [s1_operands_are_live, s2_drops_once, s3_dropped_or_returned, s4_again_reproduces];
    let more = [
        s5_side_effects_once,
        s6_nothing_read_is_overwritten,
        s9_read_while_lent,
        verify_transfers::transfers,
    ];
    let mut legal = true;
    for law in laws.into_iter().chain(more) {
        if let Err(diagnostic) = law(&schedule) {
            diagnostic.report();
            legal = false;
        }
    }
    legal
}

fn produced_here<'c>(diagnostic: Diagnostic<'c>, value: Value<'c>) -> Diagnostic<'c> {
    diagnostic.note(value.location(), format!("'{}' is produced here", names::of(value)))
}

/// S1: every operand of a step is live.
fn s1_operands_are_live<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    for &op in schedule.ops.iter().filter(|op| DropOp::of(**op).is_none()) {
        for value in op.operands() {
            if let Some(Death::Dropped(drop)) = schedule.death_before(value, op) {
                let message = format!("S1: '{}' is used by {} after its drop", names::of(value), user(op));
                let error = Diagnostic::error(op.location(), message);
                return Err(produced_here(error, value).note(drop.location(), "dropped here"));
            }
        }
    }
    Ok(())
}

/// S2: a drop names a live value that the step has produced, once.
fn s2_drops_once<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    for drop in schedule.ops.iter().copied().filter_map(DropOp::of) {
        let Some(value) = drop.value() else { continue };
        let name = names::of(value);
        let error = |message: String| Err(Diagnostic::error(drop.op().location(), message));
        if !is_production(value) {
            return error(format!(
                "S2: '{name}' is resident, not produced by the step, and cannot be dropped"
            ));
        }
        let owner = base(value);
        if owner != value {
            return error(format!(
                "S2: '{name}' is a view of '{}' and owns no storage to drop",
                names::of(owner)
            ));
        }
        match schedule.death_before(value, drop.op()) {
            Some(Death::Dropped(first)) => {
                return error(format!("S2: '{name}' is dropped a second time"))
                    .map_err(|error| error.note(first.location(), "dropped here first"));
            }
            Some(Death::Overwritten(by)) => {
                let message = format!("S2: '{name}' is dropped, but {} has taken over its storage", user(by));
                return error(message).map_err(|error| error.note(by.location(), "overwritten here"));
            }
            None => {}
        }
    }
    Ok(())
}

/// S3: what the step produces is dropped, handed over by an overwrite, or returned (also as the base of a view); and before
/// a second run produces it again, it is dropped or handed over.
fn s3_dropped_or_returned<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    let returned: HashSet<Value<'c>> = schedule.step.returned().into_iter().map(base).collect();
    for &op in &schedule.ops {
        // An undefined tensor has no storage.
        for value in op.results().into_iter().filter(|value| owns_storage(*value)) {
            if !returned.contains(&value) && !schedule.deaths.contains_key(&value) {
                let message = format!("S3: '{}' is neither dropped nor returned", names::of(value));
                let error = Diagnostic::error(op.location(), message);
                let end = schedule.ops.last().copied().unwrap_or(op);
                return Err(error.note(end.location(), "the step ends here"));
            }
        }
    }
    s3_dropped_before_produced_again(schedule)
}

/// S3, the other half: of all copies of a value on the device, one is live at a time. What was fetched is a copy, too.
fn s3_dropped_before_produced_again<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    // The newest copies of each result of a node.
    let mut copies: HashMap<(&str, usize), Vec<Value<'c>>> = HashMap::new();
    for &op in &schedule.ops {
        let again = RunOp::of(op).is_some_and(RunOp::is_again);
        for value in op.results().into_iter().filter(|value| owns_storage(*value) && !value.ty().is_host()) {
            let Some((maker, number)) = transfers::origin(value).producer() else { continue };
            let Some(run) = RunOp::of(maker) else { continue };
            let copies = copies.entry((run.symbol(), number)).or_default();
            let live = copies.iter().find(|copy| schedule.death_before(**copy, op).is_none());
            if let Some(&live) = live.filter(|_| again) {
                let message = format!("S3: '{}' is produced again before its drop", names::of(value));
                return Err(produced_here(Diagnostic::error(op.location(), message), live));
            }
            if RunOp::of(op).is_some() {
                copies.clear();
            }
            copies.push(value);
        }
    }
    Ok(())
}

/// Whether an op makes storage that the step must free, or host memory that it must.
fn owns_storage(value: Value<'_>) -> bool {
    is_production(value) && base(value) == value && !value.ty().is_none()
}

/// S4: a node runs first without `again`, then with it, on the same values and from the same generator state.
pub(crate) fn s4_again_reproduces<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    let mut first: HashMap<&str, Execution<'c>> = HashMap::new();
    for run in schedule.runs() {
        let name = run.symbol();
        let error = |message: String| Diagnostic::error(run.op().location(), message);
        match (first.get(name).copied(), run.is_again()) {
            (None, true) => return Err(error(format!("S4: '{name}' runs again before its first run"))),
            (None, false) => {
                first.insert(name, run);
            }
            (Some(before), false) => {
                return Err(error(format!("S4: '{name}' runs a second time without 'again'"))
                    .note(before.op().location(), "its first run is here"));
            }
            (Some(before), true) => s4_same_operands(schedule, before, run)?,
        }
    }
    Ok(())
}

/// S4 for one pair of runs.
fn s4_same_operands<'c>(schedule: &Schedule<'c>, first: Execution<'c>, again: Execution<'c>) -> Verdict<'c> {
    let name = again.symbol();
    let error = |message: String| {
        let error = Diagnostic::error(again.op().location(), message);
        Err(error.note(first.op().location(), "its first run is here"))
    };
    for (index, (before, now)) in first.inputs().into_iter().zip(again.inputs()).enumerate() {
        if !is_same(before, now) {
            let (before, now) = (names::of(before), names::of(now));
            return error(format!(
                "S4: '{name}' runs again on '{now}' as operand {index}, its first run on '{before}'"
            ));
        }
    }
    // A launch takes the state from a buffer; `verify_lowered` follows those.
    let random = schedule.node(again).is_some_and(NodeOp::is_random);
    if let (Execution::Run(first), Execution::Run(again), true) = (first, again, random) {
        match (first.generator_result(), again.generator_operand()) {
            (None, _) => {
                return error(format!(
                    "S4: '{name}' is random and runs again, but its first run saves no generator state"
                ));
            }
            (Some(saved), Some(given)) if saved != given => {
                return error(format!(
                    "S4: '{name}' runs again from '{}', not from the generator state of its first run",
                    names::of(given)
                ));
            }
            // A missing operand is an error of the op itself.
            _ => {}
        }
    }
    Ok(())
}

/// S5: nodes with side effects run, for the first time, in the order of the module, and none is left out; a node marked `once`
/// never runs again.
pub(crate) fn s5_side_effects_once<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    let first = schedule.first_runs();
    let mut latest: Option<(usize, Execution<'c>)> = None;
    for run in schedule.runs() {
        let Some(&(place, node)) = schedule.nodes.get(run.symbol()) else { continue };
        let is_first = first.get(run.symbol()) == Some(&run);
        let error = |message: String| Diagnostic::error(run.op().location(), message);
        if node.is_once() && !is_first {
            let before = first[run.symbol()];
            return Err(error(format!(
                "S5: '{}' has a side effect that must happen once, but runs again",
                run.symbol()
            ))
            .note(before.op().location(), "its first run is here"));
        }
        if !is_first || !node.has_side_effect() {
            continue;
        }
        if let Some((before, other)) = latest.filter(|(before, _)| *before > place) {
            debug_assert!(before > place);
            let message = format!(
                "S5: the side effect of '{}' comes after that of '{}', originally before it",
                run.symbol(),
                other.symbol()
            );
            return Err(error(message).note(other.op().location(), format!("'{}' runs here", other.symbol())));
        }
        latest = Some((place, run));
    }
    s5_none_left_out(schedule, &first)
}

/// S5, the other half: when this is the module's only step, every side effect must be its own.
fn s5_none_left_out<'c>(schedule: &Schedule<'c>, first: &HashMap<&'c str, Execution<'c>>) -> Verdict<'c> {
    let module = schedule.step.op().parent();
    let steps =
        module.and_then(Op::body).map_or(0, |body| body.ops().into_iter().filter_map(StepOp::of).count());
    if steps != 1 {
        return Ok(());
    }
    let mut nodes: Vec<_> = schedule.nodes.values().copied().collect();
    nodes.sort_by_key(|(place, _)| *place);
    for (_, node) in nodes {
        if node.has_side_effect() && !first.contains_key(node.symbol()) {
            let message = format!(
                "S5: the side effect of '{}' never happens in '{}'",
                node.symbol(),
                schedule.step.symbol()
            );
            let error = Diagnostic::error(schedule.step.op().location(), message);
            return Err(error.note(node.op().location(), "the node is defined here"));
        }
    }
    Ok(())
}

/// S6: overwritten storage is the step's own and is not read afterwards, directly or through a view; a view's base is alive.
fn s6_nothing_read_is_overwritten<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    for &op in &schedule.ops {
        let error = |message: String| Diagnostic::error(op.location(), message);
        if let Some(value) = schedule.overwritten(op) {
            let owner = base(value);
            if !is_production(owner) {
                return Err(error(format!(
                    "S6: {} overwrites '{}', which is resident",
                    user(op),
                    names::of(owner)
                )));
            }
            if op.operands().into_iter().filter(|&operand| base(operand) == owner).count() > 1 {
                let message = format!(
                    "S6: {} overwrites '{}' and reads it as another operand",
                    user(op),
                    names::of(owner)
                );
                return Err(produced_here(error(message), owner));
            }
        }
        if DropOp::of(op).is_some() {
            continue;
        }
        for value in op.operands() {
            let owner = base(value);
            let name = names::of(value);
            match schedule.death_before(owner, op) {
                Some(Death::Overwritten(by)) => {
                    let view = if owner == value {
                        String::new()
                    } else {
                        format!(", a view of '{}',", names::of(owner))
                    };
                    let message =
                        format!("S6: '{name}'{view} is used by {} after {} overwrote it", user(op), user(by));
                    return Err(produced_here(error(message), owner).note(by.location(), "overwritten here"));
                }
                Some(Death::Dropped(drop)) if owner != value => {
                    let message = format!(
                        "S6: '{name}' is used by {} after the drop of '{}', whose storage it shares",
                        user(op),
                        names::of(owner)
                    );
                    return Err(produced_here(error(message), owner).note(drop.location(), "dropped here"));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

/// S9: what is lent until the hand-over is read on the side of it where the original step reads it. In front of it a node reads it
/// once, so that the order of the first runs decides; behind it the caller has made its changes.
pub(crate) fn s9_read_while_lent<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    let loans = Loans::of(schedule.step, &schedule.nodes);
    let Some(hand_over) = loans.hand_over else { return Ok(()) };
    let first = schedule.first_runs();
    let mut handed: Option<Execution<'c>> = None;
    for run in schedule.runs() {
        let Some(&(place, node)) = schedule.nodes.get(run.symbol()) else { continue };
        if place == hand_over {
            handed = handed.or(Some(run));
            continue;
        }
        let Some(value) = loans.read_by(run, node) else { continue };
        let (name, lent) = (run.symbol(), names::of(value));
        let error = |message: String| Diagnostic::error(run.op().location(), message);
        match handed {
            Some(over) if place < hand_over => {
                let message =
                    format!("S9: '{name}' reads '{lent}' after the hand-over, until which it is lent");
                return Err(error(message).note(over.op().location(), "handed over here"));
            }
            None if place > hand_over => {
                let message = format!(
                    "S9: '{name}' reads '{lent}' before the hand-over, and must see it as the caller leaves it"
                );
                return Err(error(message));
            }
            None if first.get(name) != Some(&run) => {
                return Err(error(format!("S9: '{name}' runs again, and reads '{lent}', which is lent"))
                    .note(first[name].op().location(), "its first run is here"));
            }
            _ => {}
        }
    }
    Ok(())
}
