//! The laws of transfers, as far as the IR itself can show them: one walk over the step, in which every value is somewhere.
//!
//! - **S10** a transfer moves what is there: an offload begins where the value is on the device, is not on its way, and is not
//!   returned; a fetch begins where host memory has all of it, and the value was not made again since; each ends once, behind its
//!   start, and nothing that is on its way is dropped
//! - **S11** no run reads a value that is away, from the end of its offload to the end of its fetch; no run makes a value anew that is
//!   on its way
//! - **S6** nothing takes a buffer over from which an offload still reads
//!
//! What happens between two runs happens at one *point*: waits, then drops, then starts. A value that was fetched is a value of its own,
//! so S1 to S3 hold for each of its stays on the device, and for each copy in host memory, as they are.
//!
//! Not here: S12, which needs sizes and a budget (`--rk-verify-schedule`), and the judge of `rk-plan`, which knows transfers by the points
//! at which they start and end, and shares no code with this.

use std::collections::{HashMap, HashSet};

use crate::diagnostic::Diagnostic;
use crate::names;
use crate::ops::{DropOp, Execution, FetchOp, OffloadOp, StepOp, Transfer, WaitOp};
use crate::raw::{Op, Value};
use crate::schedule::{Schedule, Verdict, base, is_ordered, is_production, user};
use crate::transfers;

/// Checks S10 and S11 of a scheduled step, as MLIR's verifier does; a pass asks before it trusts what it has written.
///
/// # Errors
/// The first violation.
pub fn check(step: StepOp<'_>) -> Verdict<'_> {
    if is_ordered(step.body()) { transfers(&Schedule::of(step)) } else { Ok(()) }
}

/// Checks the laws of transfers: the first violation in the order of the step.
pub(crate) fn transfers<'c>(schedule: &Schedule<'c>) -> Verdict<'c> {
    if !schedule.ops.iter().any(|op| Transfer::of(*op).is_some() || WaitOp::of(*op).is_some()) {
        return Ok(());
    }
    let mut walk = Walk::new(schedule);
    schedule.ops.iter().try_for_each(|&op| walk.pass(op))?;
    walk.s10_everything_ended()
}

/// A result of a node, by number: what all its productions and their copies are the same value of.
type Produced<'c> = (&'c str, usize);

fn produced(value: Value<'_>) -> Option<Produced<'_>> {
    let (op, number) = transfers::origin(value).producer()?;
    Some((Execution::of(op)?.symbol(), number))
}

/// What a value, or any copy of it, is called.
fn name(value: Value<'_>) -> String {
    names::of(transfers::origin(value))
}

/// A transfer and where it begins.
#[derive(Clone, Copy)]
struct Start<'c> {
    transfer: Transfer<'c>,
    /// How many runs stand before it.
    point: usize,
}

impl<'c> Start<'c> {
    fn noun(self) -> &'static str {
        match self.transfer {
            Transfer::Offload(_) => "offload",
            Transfer::Fetch(_) => "fetch",
        }
    }

    fn note(self, diagnostic: Diagnostic<'c>) -> Diagnostic<'c> {
        diagnostic.note(self.transfer.op().location(), format!("its {} starts here", self.noun()))
    }
}

struct Walk<'a, 'c> {
    schedule: &'a Schedule<'c>,
    /// The results of nodes that the step returns, directly or through views.
    returned: HashSet<Produced<'c>>,
    /// The transfers by what they make.
    started: HashMap<Value<'c>, Start<'c>>,
    /// Those that were waited for, by what they make, and where.
    ended: HashMap<Value<'c>, Op<'c>>,
    /// Those that are on their way, by what they make. In order, so that messages are always the same.
    open: Vec<Value<'c>>,
    /// The offload of each value that has one.
    offload_of: HashMap<Value<'c>, Start<'c>>,
    /// The newest run of each node.
    newest: HashMap<&'c str, (usize, Op<'c>)>,
    /// Runs so far.
    point: usize,
    /// The first transfer that starts at this point.
    first_start: Option<Start<'c>>,
}

fn error<'c, T>(op: Op<'c>, message: String) -> Result<T, Diagnostic<'c>> {
    Err(Diagnostic::error(op.location(), message))
}

impl<'a, 'c> Walk<'a, 'c> {
    fn new(schedule: &'a Schedule<'c>) -> Self {
        let on_the_device = schedule.step.returned().into_iter().filter(|value| !value.ty().is_host());
        Self {
            schedule,
            returned: on_the_device.filter_map(|value| produced(base(value))).collect(),
            started: HashMap::new(),
            ended: HashMap::new(),
            open: Vec::new(),
            offload_of: HashMap::new(),
            newest: HashMap::new(),
            point: 0,
            first_start: None,
        }
    }

    fn pass(&mut self, op: Op<'c>) -> Verdict<'c> {
        if let Some(transfer) = Transfer::of(op) {
            match transfer {
                Transfer::Offload(offload) => self.s10_offload(offload)?,
                Transfer::Fetch(fetch) => self.s10_fetch(fetch)?,
            }
            return self.start(transfer);
        }
        if let Some(wait) = WaitOp::of(op) {
            return self.s10_end(wait);
        }
        if let Some(drop) = DropOp::of(op) {
            return self.s10_drop(drop);
        }
        self.s11_nothing_away_is_read(op)?;
        if let Some(run) = Execution::of(op) {
            self.s6_no_buffer_that_is_read(op)?;
            self.s11_nothing_on_its_way_is_made(run)?;
            self.newest.insert(run.symbol(), (self.point, op));
            self.point += 1;
            self.first_start = None;
        }
        Ok(())
    }

    fn start(&mut self, transfer: Transfer<'c>) -> Verdict<'c> {
        let (Some(from), Some(made)) = (transfer.from(), transfer.made()) else { return Ok(()) };
        let start = Start { transfer, point: self.point };
        self.first_start.get_or_insert(start);
        self.started.insert(made, start);
        self.open.push(made);
        if let Transfer::Offload(_) = transfer {
            self.offload_of.insert(from, start);
        }
        Ok(())
    }

    /// The transfer on its way that a value is read or made by.
    fn on_its_way(&self, value: Value<'c>) -> Option<Start<'c>> {
        let starts = self.open.iter().filter_map(|made| self.started.get(made).copied());
        starts
            .into_iter()
            .find(|start| start.transfer.from() == Some(value) || start.transfer.made() == Some(value))
    }

    /// S10 for an offload: of a value that the step made, keeps to itself, and has on the device.
    fn s10_offload(&self, offload: OffloadOp<'c>) -> Verdict<'c> {
        let Some(value) = offload.value() else { return Ok(()) };
        let (op, name) = (offload.op(), name(value));
        if !is_production(transfers::origin(value)) {
            return error(op, format!("S10: '{name}' is resident, and is not offloaded"));
        }
        if base(value) != value {
            let owner = names::of(base(value));
            return error(op, format!("S10: '{name}' is a view of '{owner}' and owns no storage to offload"));
        }
        if produced(value).is_some_and(|result| self.returned.contains(&result)) {
            return error(op, format!("S10: '{name}' is returned by the step, and stays on the device"));
        }
        if let Some(start) = self.on_its_way(value) {
            let message = format!("S10: '{name}' is offloaded while its {} is on its way", start.noun());
            return error(op, message).map_err(|error| start.note(error));
        }
        match self.offload_of.get(&value) {
            Some(start) => error(op, format!("S10: '{name}' is offloaded, but is in host memory already"))
                .map_err(|error| start.note(error)),
            None => Ok(()),
        }
    }

    /// S10 for a fetch: of a whole copy, of what was not made again since.
    fn s10_fetch(&self, fetch: FetchOp<'c>) -> Verdict<'c> {
        let Some(copy) = fetch.copy() else { return Ok(()) };
        let (op, name) = (fetch.op(), name(copy));
        let Some(start) = self.started.get(&copy) else {
            return error(op, format!("S10: '{name}' is fetched, but was never offloaded"));
        };
        if !self.ended.contains_key(&copy) {
            return error(op, format!("S10: '{name}' is fetched before its offload has ended"))
                .map_err(|error| start.note(error));
        }
        match produced(copy).and_then(|(symbol, _)| self.newest.get(symbol)) {
            Some(&(point, again)) if point >= start.point => {
                error(op, format!("S10: '{name}' is fetched, but was made again since its offload"))
                    .map_err(|error| start.note(error.note(again.location(), "made again here")))
            }
            _ => Ok(()),
        }
    }

    /// S10 for the end of a transfer: once, behind its start, and in front of what starts at the same point.
    fn s10_end(&mut self, wait: WaitOp<'c>) -> Verdict<'c> {
        let Some(value) = wait.value() else { return Ok(()) };
        let (op, name) = (wait.op(), name(value));
        let Some(&start) = self.started.get(&value) else {
            return error(op, format!("S10: no transfer makes '{name}', so there is nothing to wait for"));
        };
        if let Some(first) = self.ended.get(&value) {
            let message = format!("S10: the {} of '{name}' is waited for a second time", start.noun());
            return error(op, message).map_err(|error| error.note(first.location(), "it has ended here"));
        }
        if start.point == self.point {
            let message = format!(
                "S10: the {} of '{name}' ends where it starts: no run stands between them",
                start.noun()
            );
            return error(op, message).map_err(|error| start.note(error));
        }
        self.s10_before_starts(op, &format!("the end of the {} of '{name}'", start.noun()))?;
        self.ended.insert(value, op);
        self.open.retain(|made| *made != value);
        Ok(())
    }

    /// S10 for a drop: not of what is on its way, and in front of what starts at the same point.
    fn s10_drop(&self, drop: DropOp<'c>) -> Verdict<'c> {
        let Some(value) = drop.value() else { return Ok(()) };
        let name = name(value);
        if let Some(start) = self.on_its_way(value) {
            let message = format!("S10: '{name}' is dropped while its {} is on its way", start.noun());
            return error(drop.op(), message).map_err(|error| start.note(error));
        }
        self.s10_before_starts(drop.op(), &format!("the drop of '{name}'"))
    }

    /// At a point storage is given back before transfers start: a fetch may need it.
    fn s10_before_starts(&self, op: Op<'c>, what: &str) -> Verdict<'c> {
        let Some(start) = self.first_start else { return Ok(()) };
        let message = format!(
            "S10: {what} stands behind a transfer that starts at the same point; between two runs, waits stand first, then drops, then starts"
        );
        error(op, message)
            .map_err(|error| error.note(start.transfer.op().location(), "the transfer starts here"))
    }

    /// S10 at the end of the step.
    fn s10_everything_ended(&self) -> Verdict<'c> {
        let Some(start) = self.open.first().and_then(|made| self.started.get(made)) else { return Ok(()) };
        let name = start.transfer.made().map(name).unwrap_or_default();
        let op = start.transfer.op();
        let message = format!("S10: nothing waits for the {} of '{name}'", start.noun());
        let end = self.schedule.ops.last().copied().unwrap_or(op);
        error(op, message).map_err(|error| error.note(end.location(), "the step ends here"))
    }

    /// S11: what a run, a view or the return reads is on the device, all of it.
    fn s11_nothing_away_is_read(&self, op: Op<'c>) -> Verdict<'c> {
        for value in op.operands().into_iter().map(base) {
            let (name, reader) = (name(value), user(op));
            if value.ty().is_host() {
                return error(op, format!("S11: {reader} reads '{name}' in host memory; fetch it"));
            }
            if let Some(start) = self.offload_of.get(&value)
                && let Some(end) = start.transfer.made().and_then(|copy| self.ended.get(&copy))
            {
                let message = format!("S11: {reader} reads '{name}', which is away since its offload ended");
                return error(op, message).map_err(|error| error.note(end.location(), "it has ended here"));
            }
            if let Some(start) = self.started.get(&value).filter(|_| !self.ended.contains_key(&value)) {
                return error(op, format!("S11: {reader} reads '{name}' before its fetch has ended"))
                    .map_err(|error| start.note(error));
            }
        }
        Ok(())
    }

    /// S11: no run makes anew what is on its way.
    fn s11_nothing_on_its_way_is_made(&self, run: Execution<'c>) -> Verdict<'c> {
        for start in self.open.iter().filter_map(|made| self.started.get(made)) {
            let Some(moved) = start.transfer.from().map(transfers::origin) else { continue };
            if produced(moved).is_some_and(|(symbol, _)| symbol == run.symbol()) {
                let name = name(moved);
                let message = format!("S11: '{name}' is made again while its {} is on its way", start.noun());
                return error(run.op(), message).map_err(|error| start.note(error));
            }
        }
        Ok(())
    }

    /// S6: an offload reads its buffer to the end.
    fn s6_no_buffer_that_is_read(&self, run: Op<'c>) -> Verdict<'c> {
        let Some(value) = self.schedule.overwritten(run).map(base) else { return Ok(()) };
        match self.on_its_way(value) {
            Some(start) => {
                let name = name(value);
                let message =
                    format!("S6: {} overwrites '{name}', from which an offload still reads", user(run));
                error(run, message).map_err(|error| start.note(error))
            }
            None => Ok(()),
        }
    }
}
