//! A step file's program before the judge of `rk-plan`, which alone calls a schedule legal.
//!
//! The program becomes a schedule of the step's graph (`plan_graph`): a run is a run of its node, in front of the first one its effect; a
//! drop of a slot is a drop of the value that the slot holds an instance of. What the judge finds is said in the words of the
//! file: at which instruction, which slot.
//!
//! A schedule says which value is read, a program from which slot. The newest instance of a value is the only one that can be live
//! (S3), so whoever uses an older slot uses what has ended: the program breaks S1 or S2 there, if nothing broke a law
//! in front of it. That is the one thing that is looked for here, and it is what makes the translation faithful.
//!
//! Not here: what makes a program a schedule (`program_form`), bytes against a budget (the plan's are checked where they are
//! measured).

use std::collections::BTreeMap;

use rk_plan::{Illegal, Schedule, Step as Line, ValueId, judge_schedule};

use crate::error::Invalid;
use crate::model::{Instr, Slot, Step};
use crate::origin::{Origin, output_bases};
use crate::plan_graph::PlanGraph;

/// Judges the program of a step, whose form must be right. Its peak is that of [`mod@crate::memory_account`], counted in another way.
///
/// # Errors
/// Nodes that are not in their original order, sizes beyond 64 bits, and the first law that the program breaks.
pub fn judged_peak(step: &Step) -> Result<u64, Invalid> {
    // Without nodes nothing runs, and nothing can be dropped.
    if step.nodes.is_empty() {
        return Ok(0);
    }
    let program = Judged::of(step)?;
    let verdict = judge_schedule(&program.planned.graph, &program.schedule, None);
    let verdict = verdict.map_err(|illegal| program.in_words(&illegal));
    match (program.first_outdated(), verdict) {
        (Some((at, outdated)), Err((broken_at, _))) if at <= broken_at => Err(outdated),
        (_, Err((_, illegal))) => Err(illegal),
        (Some((_, outdated)), Ok(_)) => Err(outdated),
        (None, Ok(trace)) => Ok(trace.peak.0),
    }
}

struct Judged<'a> {
    step: &'a Step,
    planned: PlanGraph,
    schedule: Schedule,
    /// Per line of the schedule, its instruction.
    instr: Vec<usize>,
}

impl<'a> Judged<'a> {
    fn of(step: &'a Step) -> Result<Self, Invalid> {
        let planned = PlanGraph::of(step)?;
        let mut ran = vec![false; step.nodes.len()];
        let (mut lines, mut instr) = (Vec::new(), Vec::new());
        for (at, what) in step.program.instrs.iter().enumerate() {
            match what {
                Instr::Drop(slot) => lines.extend(planned.value(*slot).map(Line::Drop)),
                Instr::Run(run) => {
                    let (node, effect) = planned.planned(run.node);
                    let first = !std::mem::replace(&mut ran[run.node.index()], true);
                    let effect = effect.filter(|_| first);
                    lines.extend(effect.map(|node| Line::Run { node, again: false, overwrite: false }));
                    lines.push(Line::Run { node, again: run.again, overwrite: run.overwrite });
                }
            }
            instr.resize(lines.len(), at);
        }
        Ok(Self { step, planned, schedule: Schedule(lines), instr })
    }

    /// The first use of a slot of whose value there is a newer instance, and its instruction.
    fn first_outdated(&self) -> Option<(usize, Invalid)> {
        let mut newest: BTreeMap<Origin, Slot> = BTreeMap::new();
        let outdated = |newest: &BTreeMap<Origin, Slot>, slot: Slot| {
            let now = *newest.get(&self.planned.origins[slot.index()]?)?;
            let name = |slot: Slot| self.step.slot_name(slot);
            (slot != now).then(|| (name(slot), format!("its newest copy is {}", name(now))))
        };
        let program = &self.step.program;
        for (at, instr) in program.instrs.iter().enumerate() {
            let (law, used) = match instr {
                Instr::Drop(slot) => ("S2", std::slice::from_ref(slot)),
                Instr::Run(run) => ("S1", &run.inputs[..]),
            };
            if let Some((name, why)) = used.iter().find_map(|slot| outdated(&newest, *slot)) {
                let message = format!("{law}: {name} is not live; {why}");
                return Some((at, Invalid::at(self.step.place_of(at), message)));
            }
            if let Instr::Run(run) = instr {
                let made =
                    run.outputs.iter().filter_map(|slot| Some((self.planned.origins[slot.index()]?, *slot)));
                newest.extend(made);
            }
        }
        let end = program.instrs.len();
        let kept = self.kept();
        kept.into_iter().find_map(|(place, slot)| {
            let (name, why) = outdated(&newest, slot)?;
            Some((end, Invalid::at(place, format!("S1: {name} is not live at the end; {why}"))))
        })
    }

    /// What has to be there at the end: by whom, and the slot.
    fn kept(&self) -> Vec<(String, Slot)> {
        let (step, program) = (self.step, &self.step.program);
        let mut kept = Vec::new();
        for (i, (output, base)) in step.outputs.iter().zip(output_bases(step)).enumerate() {
            kept.push((format!("outputs[{i}] {:?}", output.name), base));
        }
        for (i, call) in program.epilogue.iter().enumerate() {
            let place = format!("epilogue[{i}] {:?}", call.op);
            call.args
                .iter()
                .for_each(|arg| arg.for_each_value(&mut |slot| kept.push((place.clone(), Slot(slot)))));
        }
        kept
    }

    /// What the judge says, in the words of the file, and the instruction; that behind the last one is the end.
    fn in_words(&self, illegal: &Illegal) -> (usize, Invalid) {
        let step = self.step;
        let end = step.program.instrs.len();
        let at = |line: usize| self.instr.get(line).copied().unwrap_or(end);
        let here = |line: usize, message: String| (at(line), Invalid::at(step.place_of(at(line)), message));
        let last = |place: String, message: String| (end, Invalid::at(place, message));
        match *illegal {
            Illegal::S1OperandNotLive { step: line, value, dropped, reader } => {
                if reader.is_none() {
                    let kept =
                        self.kept().into_iter().find(|(_, slot)| self.planned.value(*slot) == Some(value));
                    let (place, slot) = kept.unwrap_or_else(|| ("program".into(), self.slot_of(value, end)));
                    return last(place, format!("S1: {} is not live at the end", step.slot_name(slot)));
                }
                let name = step.slot_name(self.slot_of(value, at(line)));
                let when = if dropped { "was dropped before" } else { "is not produced yet" };
                here(line, format!("S1: {name} {when}"))
            }
            Illegal::S2DropOfDeadValue { step: line, value } => {
                let name = step.slot_name(self.slot_of(value, at(line)));
                here(line, format!("S2: {name} is not live"))
            }
            Illegal::S3NeverDropped { value, produced_at, again_at } => {
                let name = step.slot_name(self.slot_of(value, at(produced_at) + 1));
                match again_at {
                    Some(line) => here(line, format!("S3: {name} is still live, and is produced again")),
                    None => last("program".into(), format!("S3: {name} is never dropped")),
                }
            }
            Illegal::S4NotReproducible { step: line, again, .. } => {
                let why = match again {
                    true => "there is no first run before it",
                    false => "it ran before, so this must be a run again",
                };
                here(line, format!("S4: {why}"))
            }
            Illegal::S5SideEffect { step: line, before: None, .. } => {
                here(line, "S5: its side effect must happen once per step".into())
            }
            Illegal::S5SideEffect { step: line, node, before: Some(_) } => {
                let other = &step.nodes[self.planned.node(node).0.index()].name;
                here(line, format!("S5: its side effect comes after that of {other:?}, originally before it"))
            }
            Illegal::S6Overwritten { step: line, value, read_at, .. } => {
                here(line, format!("S6: {}", self.s6(at(line), value, read_at.map(at))))
            }
            Illegal::NeverRun { node } => {
                let index = self.planned.node(node).0.index();
                let place = format!("nodes[{index}] {:?}", step.nodes[index].name);
                last(place, "S5: the program never runs it".into())
            }
            // Without a budget, and as long as the file does not say what is lent, the judge says nothing of these.
            Illegal::S7OverBudget { .. } | Illegal::S9ReadsWhatIsLent { .. } | Illegal::Unknown { .. } => {
                last("program".into(), illegal.to_string())
            }
        }
    }

    /// The newest slot of a value in front of an instruction.
    fn slot_of(&self, value: ValueId, before: usize) -> Slot {
        let origin = self.planned.origin(value);
        let made = self.step.program.instrs[..before].iter().rev().find_map(|instr| match (instr, origin) {
            (Instr::Run(run), Origin::Result(node, number)) if run.node == node => {
                run.outputs.get(number as usize).copied()
            }
            (Instr::Run(run), Origin::State(node)) if run.node == node => run.state_out,
            _ => None,
        });
        made.unwrap_or(Slot(u32::MAX))
    }

    /// Why a run must not overwrite what it does.
    fn s6(&self, at: usize, value: Option<ValueId>, read_at: Option<usize>) -> String {
        let Some(Instr::Run(run)) = self.step.program.instrs.get(at) else { return String::new() };
        let node = &self.step.nodes[run.node.index()];
        let Some(operand) = node.overwrites.map(|index| run.inputs[index as usize]) else {
            return "the run overwrites an operand, but its node overwrites none".into();
        };
        let name = self.step.slot_name(operand);
        let Some(value) = value.map(|value| self.planned.graph.value(value)) else {
            return match operand.0 < self.step.resident() {
                true => format!("it would take the storage of {name}"),
                false => format!("it overwrites {name} and reads it too"),
            };
        };
        match read_at {
            Some(reader) => format!("it overwrites {name}, which {} still reads", self.step.place_of(reader)),
            None if value.pinned => format!("it overwrites {name}, which the step returns"),
            None => {
                let first = self.planned.graph.node(self.planned.planned(run.node).0).writes.first();
                let bytes = first.map_or(0, |first| self.planned.graph.value(*first).bytes.0);
                format!("it overwrites {name} of {} planned bytes with {bytes}", value.bytes.0)
            }
        }
    }
}
