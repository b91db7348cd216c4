//! The form of a program: what has to hold for it to be a schedule of its nodes at all.
//!
//! - Every index is in range, and a run has as many operands and results as its node.
//! - A slot is assigned once, in front of whatever uses it (S1, S2). Residents are there from the start, and stay (S2).
//! - A saved generator state is of the first run of a random node, is what each of its second runs takes (S4), and is no tensor.
//! - The epilogue makes views behind all runs.
//!
//! Not here: which of the assigned slots are live ([`crate::judged`]), what second runs read ([`crate::origin`]).

use crate::error::Invalid;
use crate::model::{Instr, Node, Run, Slot, Step};
use crate::node_form::check_call;

/// What has been put into a slot so far.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Nothing,
    Tensor,
    State,
}

/// Checks the program.
///
/// # Errors
/// The first thing that keeps it from being a schedule.
pub(crate) fn program_form(step: &Step) -> Result<(), Invalid> {
    let (program, resident) = (&step.program, step.resident());
    slot_count(step)?;
    let mut form = Form {
        step,
        content: vec![Content::Nothing; program.slots as usize],
        first: vec![None; step.nodes.len()],
    };
    form.content[..resident as usize].fill(Content::Tensor);
    for (i, instr) in program.instrs.iter().enumerate() {
        match instr {
            Instr::Drop(slot) => {
                let at = |what: &str| {
                    Err(Invalid::at(
                        format!("program[{i}] drop"),
                        format!("S2: {} {what}", step.slot_name(*slot)),
                    ))
                };
                if slot.0 < resident {
                    return at("is resident");
                }
                if form.content(*slot).is_none_or(|content| content == Content::Nothing) {
                    return at("is not live");
                }
            }
            Instr::Run(run) => {
                let Some(node) = step.nodes.get(run.node.index()) else {
                    let message = format!("node {} of {}", run.node.0, step.nodes.len());
                    return Err(Invalid::at(format!("program[{i}] run"), message));
                };
                form.run(node, run).map_err(|message| Invalid::at(step.place_of(i), message))?;
            }
        }
    }
    form.end()
}

/// A damaged number of slots must not ask for all memory.
fn slot_count(step: &Step) -> Result<(), Invalid> {
    let (program, resident) = (&step.program, step.resident());
    let assigned = |instr: &Instr| match instr {
        Instr::Run(run) => run.outputs.len() + usize::from(run.state_out.is_some()),
        Instr::Drop(_) => 0,
    };
    let most = program.instrs.iter().map(assigned).sum::<usize>()
        + program.epilogue.iter().map(|call| call.results.len()).sum::<usize>();
    if program.slots < resident || (program.slots - resident) as usize > most {
        let message = format!(
            "{} slots, but {resident} arguments and constants and at most {most} assigned ones",
            program.slots
        );
        return Err(Invalid::at("program.slots", message));
    }
    Ok(())
}

struct Form<'a> {
    step: &'a Step,
    content: Vec<Content>,
    /// The first run of each node so far.
    first: Vec<Option<&'a Run>>,
}

impl<'a> Form<'a> {
    fn content(&self, slot: Slot) -> Option<Content> {
        self.content.get(slot.index()).copied()
    }

    fn run(&mut self, node: &Node, run: &'a Run) -> Result<(), String> {
        if run.inputs.len() != node.inputs as usize {
            return Err(format!("{} inputs, but the node has {}", run.inputs.len(), node.inputs));
        }
        if run.outputs.len() != node.outputs.len() {
            return Err(format!("{} outputs, but the node has {}", run.outputs.len(), node.outputs.len()));
        }
        let name = |slot: Slot| self.step.slot_name(slot);
        for &slot in run.inputs.iter().chain(&run.state_in) {
            match self.content(slot) {
                Some(Content::Tensor | Content::State) => {}
                Some(Content::Nothing) => return Err(format!("S1: {} is not produced yet", name(slot))),
                None => return Err(format!("reads slot {}, which does not exist", slot.0)),
            }
        }
        if let Some(&slot) = run.inputs.iter().find(|slot| self.content(**slot) == Some(Content::State)) {
            return Err(format!("reads {} as a tensor, but it is a generator state", name(slot)));
        }
        self.s4_states(node, run)?;
        self.first[run.node.index()].get_or_insert(run);
        let outputs = run.outputs.iter().map(|slot| (*slot, Content::Tensor));
        for (slot, content) in outputs.chain(run.state_out.map(|slot| (slot, Content::State))) {
            match self.content(slot) {
                Some(Content::Nothing) => self.content[slot.index()] = content,
                Some(_) => return Err(format!("assigns {} a second time", self.step.slot_name(slot))),
                None => return Err(format!("assigns slot {}, which does not exist", slot.0)),
            }
        }
        Ok(())
    }

    /// S4 of a random node: a second run takes the state that the first one saved.
    fn s4_states(&self, node: &Node, run: &Run) -> Result<(), String> {
        let law = match self.first[run.node.index()] {
            _ if !node.random && (run.state_in.is_some() || run.state_out.is_some()) => {
                "S4: a generator state at a node that is not random"
            }
            None if run.state_in.is_some() => "S4: a first run takes no generator state",
            Some(_) if run.state_out.is_some() => "S4: only a first run saves the generator state",
            Some(first) if node.random && first.state_out.is_none() => {
                "S4: its first run saved no generator state"
            }
            Some(first) if node.random && first.state_out != run.state_in => {
                "S4: it needs the generator state of its first run"
            }
            _ => return Ok(()),
        };
        Err(law.into())
    }

    fn end(self) -> Result<(), Invalid> {
        let (step, program) = (self.step, &self.step.program);
        let mut defined: Vec<bool> = self.content.iter().map(|content| *content == Content::Tensor).collect();
        for (i, call) in program.epilogue.iter().enumerate() {
            let place = || format!("epilogue[{i}] {:?}", call.op);
            let taken = |slot: u32| self.content(Slot(slot)) != Some(Content::Nothing);
            if let Some(slot) = call.results.iter().flatten().find(|slot| taken(**slot)) {
                return Err(Invalid::at(place(), format!("result slot {slot} does not exist or is taken")));
            }
            check_call(call, &mut defined, "slot", place)?;
        }
        if program.outputs.len() != step.outputs.len() {
            let message = format!("{} slots for {} outputs", program.outputs.len(), step.outputs.len());
            return Err(Invalid::at("program.outputs", message));
        }
        for (i, slot) in program.outputs.iter().enumerate() {
            let place = || format!("outputs[{i}] {:?}", step.outputs[i].name);
            let name = step.slot_name(*slot);
            if self.content(*slot) == Some(Content::State) {
                return Err(Invalid::at(place(), format!("{name} is a generator state, and no tensor")));
            }
            if defined.get(slot.index()) != Some(&true) {
                return Err(Invalid::at(place(), format!("S1: {name} is not live at the end")));
            }
        }
        Ok(())
    }
}
