//! Damaged steps: every small edit of a good one is either refused, or leaves a step that runs.
//!
//! What runs is decided by a machine that shares nothing with the judge: it fills slots and empties them, and stops at the first
//! that is not as it should be. Everything that reads a valid step reads what is left, too, and must not panic.

mod sample;

use rk_step::judged::judged_peak;
use rk_step::validate::validate;
use rk_step::{Instr, LaunchSchedule, Slot, Step, disjoint_layout, explain, memory_account, original};
use sample::{block, in_place, lowered, noisy};
use serde_json::Value as Json;

/// What lies in a slot: the output of a node, by number; a state has number -1, a resident is node -1.
type Held = (i64, i64);

fn is_state((node, number): Held) -> bool {
    node >= 0 && number < 0
}

/// Runs a program over slots: nothing is read that is not there, one copy of a value is there at a time, and in the end only what is
/// returned.
fn machine(step: &Step) -> Result<(), String> {
    let resident = step.resident() as usize;
    let mut slots: Vec<Option<Held>> = vec![None; step.program.slots as usize];
    let mut used = vec![false; slots.len()];
    for slot in 0..resident {
        (slots[slot], used[slot]) = (Some((-1, slot as i64)), true);
    }
    let mut first: Vec<Option<Vec<Held>>> = vec![None; step.nodes.len()];
    for (at, instr) in step.program.instrs.iter().enumerate() {
        let read = |slots: &[Option<Held>], slot: Slot| {
            slots[slot.index()].ok_or(format!("instruction {at} finds %{} empty", slot.0))
        };
        match instr {
            Instr::Drop(slot) => {
                read(&slots, *slot)?;
                if slot.index() < resident {
                    return Err(format!("instruction {at} drops a resident"));
                }
                slots[slot.index()] = None;
            }
            Instr::Run(run) => {
                let (node, about) = (i64::from(run.node.0), &step.nodes[run.node.index()]);
                let read: Vec<Held> =
                    run.inputs.iter().map(|slot| read(&slots, *slot)).collect::<Result<_, _>>()?;
                if read.iter().any(|&held| is_state(held)) {
                    return Err(format!("instruction {at} reads a generator state as a tensor"));
                }
                if run.again != first[run.node.index()].is_some() {
                    return Err(format!("instruction {at} says wrongly whether it is a second run"));
                }
                let before = first[run.node.index()].get_or_insert_with(|| read.clone());
                if *before != read {
                    return Err(format!("instruction {at} reads something else than the first run"));
                }
                if run.state_in.is_some_and(|slot| slots[slot.index()] != Some((node, -1))) {
                    return Err(format!("instruction {at} has another generator state"));
                }
                if about.random && run.again && run.state_in.is_none() {
                    return Err(format!("instruction {at} draws something else than the first run"));
                }
                if run.overwrite {
                    let operand = run.inputs[about.overwrites.ok_or("overwrites nothing")? as usize];
                    let reads = run.inputs.iter().filter(|slot| **slot == operand).count();
                    if operand.index() < resident || reads > 1 {
                        return Err(format!("instruction {at} overwrites what it must not"));
                    }
                    slots[operand.index()] = None;
                }
                let made = (0..).zip(&run.outputs).map(|(number, slot)| (number, *slot));
                for (number, slot) in made.chain(run.state_out.map(|slot| (-1, slot))) {
                    if slots.contains(&Some((node, number)))
                        || std::mem::replace(&mut used[slot.index()], true)
                    {
                        return Err(format!(
                            "instruction {at} makes a second copy in %{}, or uses it again",
                            slot.0
                        ));
                    }
                    slots[slot.index()] = Some((node, number));
                }
            }
        }
    }
    if first.iter().any(Option::is_none) {
        return Err("a node never runs".into());
    }
    for slot in &step.program.outputs {
        if slots[slot.index()].is_none_or(is_state) {
            return Err(format!("%{} is returned without a tensor", slot.0));
        }
    }
    let left = |slot: &usize| slots[*slot].is_some() && !step.program.outputs.contains(&Slot(*slot as u32));
    match (resident..slots.len()).find(left) {
        Some(slot) => Err(format!("%{slot} is left over")),
        None => Ok(()),
    }
}

/// Every single edit of one instruction.
fn edits(step: &Step) -> Vec<Step> {
    let mut made = Vec::new();
    let mut with = |edit: &dyn Fn(&mut Step)| {
        let mut edited = step.clone();
        edit(&mut edited);
        made.push(edited);
    };
    let slots = step.program.slots;
    for at in 0..step.program.instrs.len() {
        with(&|step| drop(step.program.instrs.remove(at)));
        with(&|step| step.program.instrs.insert(at, step.program.instrs[at].clone()));
        for other in 0..at {
            with(&|step| step.program.instrs.swap(at, other));
        }
        for slot in (0..slots).map(Slot) {
            with(&|step| step.program.instrs.insert(at, Instr::Drop(slot)));
            with(&|step| match &mut step.program.instrs[at] {
                Instr::Drop(old) => *old = slot,
                Instr::Run(run) => run.inputs[0] = slot,
            });
            with(&|step| match &mut step.program.instrs[at] {
                Instr::Drop(_) => {}
                Instr::Run(run) => *run.inputs.last_mut().unwrap() = slot,
            });
            with(&|step| match &mut step.program.instrs[at] {
                Instr::Drop(_) => {}
                Instr::Run(run) => run.outputs[0] = slot,
            });
        }
        with(&|step| match &mut step.program.instrs[at] {
            Instr::Drop(_) => {}
            Instr::Run(run) => run.again ^= true,
        });
        with(&|step| match &mut step.program.instrs[at] {
            Instr::Drop(_) => {}
            Instr::Run(run) => run.overwrite ^= true,
        });
    }
    for slot in (0..slots).map(Slot) {
        with(&|step| step.program.outputs[0] = slot);
    }
    made
}

#[test]
fn what_is_valid_runs_and_what_runs_is_valid() {
    let mut counts = (0, 0);
    for sample in [block(), noisy(), in_place()] {
        machine(&sample).unwrap();
        for edited in edits(&sample).iter().flat_map(edits) {
            match (validate(&edited), machine(&edited)) {
                (Ok(()), Ok(())) => {
                    let peaks = (memory_account(&edited).unwrap().peak, judged_peak(&edited).unwrap());
                    assert_eq!(peaks.0, peaks.1, "{:?}", edited.program);
                    counts.0 += 1;
                }
                (Err(_), Err(_)) => counts.1 += 1,
                (Ok(()), Err(why)) => panic!("valid, but {why}: {:?}", edited.program),
                // The machine knows no original order.
                (Err(why), Ok(())) if why.message.starts_with("reads what nodes[") => counts.1 += 1,
                (Err(why), Ok(())) => panic!("it runs, but {why}: {:?}", edited.program),
            }
        }
    }
    assert!(counts.0 > 1_000 && counts.1 > 100_000, "{counts:?}");
}

/// What reads a step once it is valid.
fn read_by_everyone(step: &Step) {
    let program = original(step).unwrap();
    let mut baseline = Step { program, layout: None, ..step.clone() };
    validate(&baseline).unwrap();
    baseline = disjoint_layout(step).unwrap();
    validate(&baseline).unwrap();
    explain(step).unwrap();
    assert_eq!(memory_account(step).unwrap().peak, judged_peak(step).unwrap(), "two ways to one peak");
    // It has laws of its own, of which a layout may break one.
    let _ = step.layout.as_ref().map(|layout| LaunchSchedule::of(step, layout));
}

/// Every number, text, truth value and list of the file is damaged in turn.
#[test]
fn no_damage_makes_anything_panic() {
    let mut valid = 0;
    for sample in [block(), noisy(), in_place(), lowered()] {
        read_by_everyone(&sample);
        let json = serde_json::to_value(&sample).unwrap();
        let mut paths = Vec::new();
        leaves(&json, String::new(), &mut paths);
        for path in &paths {
            for damage in 0.. {
                let mut damaged = json.clone();
                if !damage_at(damaged.pointer_mut(path).unwrap(), damage) {
                    break;
                }
                let Ok(step) = serde_json::from_value::<Step>(damaged) else { continue };
                if validate(&step).is_ok() {
                    read_by_everyone(&step);
                    valid += 1;
                }
            }
        }
    }
    assert!(valid > 300, "{valid}");
}

fn leaves(json: &Json, path: String, found: &mut Vec<String>) {
    match json {
        Json::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                leaves(item, format!("{path}/{index}"), found);
            }
        }
        Json::Object(map) => {
            for (key, value) in map {
                leaves(value, format!("{path}/{key}"), found);
            }
        }
        _ => {}
    }
    found.push(path);
}

/// Damage number `which` to one part of the file; false when there are no more.
fn damage_at(json: &mut Json, which: usize) -> bool {
    const NUMBERS: [i128; 12] = [
        0,
        1,
        2,
        3,
        4,
        7,
        -1,
        1 << 20,
        u32::MAX as i128,
        i64::MIN as i128,
        i64::MAX as i128,
        u64::MAX as i128,
    ];
    match json {
        Json::Number(_) if which < NUMBERS.len() => {
            let number = NUMBERS[which];
            *json = u64::try_from(number).map_or_else(|_| Json::from(number as i64), Json::from);
            true
        }
        Json::Bool(value) if which == 0 => {
            *value = !*value;
            true
        }
        Json::String(text) if which == 0 => {
            text.clear();
            true
        }
        Json::Array(items) if which < 3 * items.len() => {
            let (index, how) = (which / 3, which % 3);
            match how {
                0 => drop(items.remove(index)),
                1 => items.insert(index, items[index].clone()),
                _ => items.swap(index, 0),
            }
            true
        }
        _ => false,
    }
}
