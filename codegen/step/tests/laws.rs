//! One hand-made broken step per check; the messages name law, place and culprit.

mod sample;

use rk_step::validate::validate;
use rk_step::{ArgValue, Data, ElementType, Instr, Local, NodeId, Run, Slot, Step};
use sample::{block, drop, in_place, lowered, noisy, run};

fn broken(change: impl FnOnce(&mut Step)) -> String {
    broken_in(block(), change)
}

fn broken_in(mut step: Step, change: impl FnOnce(&mut Step)) -> String {
    change(&mut step);
    validate(&step).unwrap_err().to_string()
}

fn edit(step: &mut Step, i: usize) -> &mut Run {
    match &mut step.program.instrs[i] {
        Instr::Run(run) => run,
        Instr::Drop(_) => panic!("instruction {i} is a drop"),
    }
}

fn place(step: &mut Step, i: usize) -> &mut rk_step::TensorSpec {
    step.layout.as_mut().and_then(|layout| layout.places[i].spec.as_mut()).unwrap()
}

#[test]
fn the_samples_are_valid() {
    for step in [block(), noisy(), in_place(), lowered()] {
        validate(&step).unwrap();
    }
}

#[test]
fn s1_operands_are_live() {
    insta::assert_snapshot!(broken(|s| edit(s, 6).inputs[0] = Slot(2)), @r#"program[6] run "add": S1: %2 was dropped before"#);
    insta::assert_snapshot!(broken(|s| edit(s, 6).inputs[0] = Slot(1)), @r#"program[6] run "add": S1: %1 is not live; its newest copy is %4"#);
    insta::assert_snapshot!(broken(|s| edit(s, 1).inputs[0] = Slot(3)), @r#"program[1] run "up": S1: %3 is not produced yet"#);
    insta::assert_snapshot!(broken(|s| s.program.outputs[0] = Slot(4)), @r#"outputs[0] "0": S1: %4 is not live at the end"#);
    // The second `norm` is there at the end, the first is not.
    let older = |s: &mut Step| {
        s.program.instrs.remove(7);
        s.program.outputs[0] = Slot(1);
        s.program.instrs.push(drop(5));
    };
    insta::assert_snapshot!(broken(older), @r#"outputs[0] "0": S1: %1 is not live at the end; its newest copy is %4"#);
    let view = |s: &mut Step| {
        let args = vec![ArgValue::Value(2)];
        let call =
            rk_step::Call { op: "aten.t.default".into(), args, results: vec![Some(6)], effects: vec![] };
        s.program.slots += 1;
        s.program.epilogue.push(call);
    };
    insta::assert_snapshot!(broken(view), @r#"epilogue[0] "aten.t.default": S1: %2 is not live at the end"#);
}

#[test]
fn s2_drops() {
    insta::assert_snapshot!(broken(|s| s.program.instrs.push(drop(4))), @"program[9] drop: S2: %4 is not live");
    insta::assert_snapshot!(broken(|s| s.program.instrs.push(drop(0))), @"program[9] drop: S2: x is resident");
    insta::assert_snapshot!(broken(|s| s.program.instrs.push(drop(99))), @"program[9] drop: S2: %99 is not live");
    insta::assert_snapshot!(broken(|s| s.program.instrs[7] = drop(1)), @"program[7] drop: S2: %1 is not live; its newest copy is %4");
    insta::assert_snapshot!(broken_in(in_place(), |s| s.program.instrs.push(drop(4))), @"program[8] drop: S2: %4 is not live");
}

#[test]
fn s3_never_dropped() {
    insta::assert_snapshot!(broken(|s| { s.program.instrs.pop(); }), @"program: S3: %3 is never dropped");
}

#[test]
fn s3_dropped_before_it_is_produced_again() {
    let late = |s: &mut Step| {
        let early = s.program.instrs.remove(2);
        s.program.instrs.push(early);
    };
    insta::assert_snapshot!(broken(late), @r#"program[4] run again "norm": S3: %1 is still live, and is produced again"#);
}

/// A saved generator state lives like any value.
#[test]
fn s1_to_s3_of_a_generator_state() {
    let early = |s: &mut Step| s.program.instrs.swap(5, 6);
    insta::assert_snapshot!(broken_in(noisy(), early), @r#"program[6] run again "norm": S1: %6 was dropped before"#);
    insta::assert_snapshot!(broken_in(noisy(), |s| s.program.instrs.push(drop(6))), @"program[10] drop: S2: %6 is not live");
    insta::assert_snapshot!(broken_in(noisy(), |s| { s.program.instrs.remove(6); }), @"program: S3: %6 is never dropped");
    insta::assert_snapshot!(broken_in(noisy(), |s| edit(s, 1).inputs[0] = Slot(6)), @r#"program[1] run "up": reads %6 as a tensor, but it is a generator state"#);
    insta::assert_snapshot!(broken_in(noisy(), |s| s.program.outputs[0] = Slot(6)), @r#"outputs[0] "0": %6 is a generator state, and no tensor"#);
}

#[test]
fn s4_generator_states() {
    insta::assert_snapshot!(broken_in(noisy(), |s| edit(s, 5).state_in = None), @r#"program[5] run again "norm": S4: it needs the generator state of its first run"#);
    insta::assert_snapshot!(broken_in(noisy(), |s| edit(s, 5).state_in = Some(Slot(3))), @r#"program[5] run again "norm": S4: it needs the generator state of its first run"#);
    insta::assert_snapshot!(broken_in(noisy(), |s| edit(s, 0).state_in = Some(Slot(0))), @r#"program[0] run "norm": S4: a first run takes no generator state"#);
    insta::assert_snapshot!(broken_in(noisy(), |s| s.nodes[0].random = false), @r#"program[0] run "norm": S4: a generator state at a node that is not random"#);
    let twice = |s: &mut Step| {
        s.program.slots += 1;
        edit(s, 5).state_out = Some(Slot(7));
    };
    insta::assert_snapshot!(broken_in(noisy(), twice), @r#"program[5] run again "norm": S4: only a first run saves the generator state"#);
}

#[test]
fn s4_second_runs() {
    insta::assert_snapshot!(broken(|s| edit(s, 5).again = false), @r#"program[5] run "norm": S4: it ran before, so this must be a run again"#);
    insta::assert_snapshot!(broken(|s| edit(s, 0).again = true), @r#"program[0] run again "norm": S4: there is no first run before it"#);
    insta::assert_snapshot!(broken(|s| s.nodes[0].random = true), @r#"program[5] run again "norm": S4: its first run saved no generator state"#);
    let other = |s: &mut Step| {
        s.args.push(s.args[0].clone());
        for instr in &mut s.program.instrs {
            match instr {
                Instr::Drop(slot) => slot.0 += 1,
                Instr::Run(r) => {
                    r.inputs.iter_mut().chain(&mut r.outputs).filter(|x| x.0 > 0).for_each(|x| x.0 += 1);
                }
            }
        }
        s.program.slots += 1;
        s.program.outputs[0].0 += 1;
        edit(s, 5).inputs[0] = Slot(1);
    };
    insta::assert_snapshot!(broken(other), @r#"program[5] run again "norm": S4: input 0 is x, which is not what the first run read"#);
}

#[test]
fn s5_once_and_in_order() {
    insta::assert_snapshot!(broken(|s| s.nodes[0].once = true), @r#"program[5] run again "norm": S5: its side effect must happen once per step"#);
    let never = |s: &mut Step| {
        let extra = s.nodes[0].clone();
        s.nodes.push(extra);
    };
    insta::assert_snapshot!(broken(never), @r#"nodes[4] "norm": S5: the program never runs it"#);
    // `add` draws, and here after `noise`, which stands behind it.
    let draw = |s: &mut Step| {
        s.nodes.push(rk_step::Node {
            random: true,
            ..sample::node("noise", "aten.rand_like.default", 1, vec![], 64)
        });
        s.nodes[3].random = true;
        s.program.slots += 1;
        s.program.instrs.insert(6, Instr::Run(run(4, &[0], &[6])));
        s.program.instrs.push(drop(6));
    };
    insta::assert_snapshot!(broken(draw), @r#"program[7] run "add": S5: its side effect comes after that of "noise", originally before it"#);
    // `add` updates state of the model, and here after the effect of `down`, which stands behind it.
    let update = |s: &mut Step| {
        s.nodes[3].ops[0].effects.push(1);
        s.nodes[2].once = true;
        s.nodes.swap(2, 3);
        edit(s, 3).node = NodeId(3);
        edit(s, 6).node = NodeId(2);
        edit(s, 6).inputs[1] = Slot(4);
    };
    insta::assert_snapshot!(broken(update), @r#"program[6] run "add": S5: its side effect comes after that of "down", originally before it"#);
}

#[test]
fn nodes_stand_in_their_original_order() {
    let swapped = |s: &mut Step| {
        s.nodes.swap(0, 1);
        for i in [0, 1, 5] {
            let r = edit(s, i);
            r.node = NodeId(1 - r.node.0);
        }
    };
    insta::assert_snapshot!(broken(swapped), @r#"nodes[0] "up": reads what nodes[1] "norm" makes; nodes stand in their original order, so that one comes first"#);
}

#[test]
fn s6_overwrites() {
    insta::assert_snapshot!(broken(|s| edit(s, 0).overwrite = true), @r#"program[0] run "norm": S6: the run overwrites an operand, but its node overwrites none"#);
    let resident = |s: &mut Step| {
        s.nodes[0].overwrites = Some(0);
        edit(s, 0).overwrite = true;
    };
    insta::assert_snapshot!(broken(resident), @r#"program[0] run "norm": S6: it would take the storage of x"#);
    let twice = |s: &mut Step| {
        s.nodes[3].overwrites = Some(0);
        let r = edit(s, 6);
        r.overwrite = true;
        r.inputs = vec![Slot(4), Slot(4)];
    };
    insta::assert_snapshot!(broken(twice), @r#"program[6] run "add": S6: it overwrites %4 and reads it too"#);
    // `up` takes the storage of `norm`, which is half as large.
    let small = |s: &mut Step| {
        s.nodes[1].overwrites = Some(0);
        edit(s, 1).overwrite = true;
        s.program.instrs.remove(2);
    };
    insta::assert_snapshot!(broken(small), @r#"program[1] run "up": S6: it overwrites %1 of 4096 planned bytes with 8192"#);
    let returned = |s: &mut Step| {
        s.program.outputs[0] = Slot(4);
        s.program.instrs.push(drop(5));
    };
    insta::assert_snapshot!(broken_in(in_place(), returned), @r#"program[6] run "add": S6: it overwrites %4, which the step returns"#);
    let read = |s: &mut Step| {
        s.nodes.push(sample::node("exp", "aten.exp.default", 1, vec![], 4096));
        s.program.slots += 1;
        s.program.instrs.insert(7, Instr::Run(run(4, &[4], &[6])));
        s.program.instrs.push(drop(6));
    };
    insta::assert_snapshot!(broken_in(in_place(), read), @r#"program[6] run "add": S6: it overwrites %4, which program[7] run "exp" still reads"#);
}

#[test]
fn indices() {
    let messages = [
        broken(|s| edit(s, 0).node = NodeId(9)),
        broken(|s| edit(s, 0).inputs.push(Slot(0))),
        broken(|s| edit(s, 0).outputs[0] = Slot(77)),
        broken(|s| edit(s, 1).outputs[0] = Slot(1)),
        broken(|s| edit(s, 1).inputs[0] = Slot(77)),
        broken(|s| s.nodes[3].ops[0].args[1] = ArgValue::Value(7)),
        broken(|s| s.nodes[3].ops[0].results[0] = Some(1)),
        broken(|s| s.nodes[3].ops[0].results[0] = Some(u32::MAX)),
        broken(|s| s.nodes[3].ops[0].effects.push(3)),
        broken(|s| s.nodes[3].ops[0].op = "add".into()),
        broken(|s| s.nodes[3].outputs[0].local = Local(9)),
        broken(|s| s.nodes[3].overwrites = Some(2)),
        broken(|s| s.program.outputs.clear()),
        broken(|s| s.program.slots = 0),
        broken(|s| s.program.slots = u32::MAX),
        broken(|s| s.device = "tpu".into()),
        broken(|s| s.alignment = 0),
        broken(|s| s.args[0].spec.shape[0] = -4),
        broken(|s| s.args[0].spec.strides = Some(vec![])),
        broken(|s| s.args[0].spec.storage_bytes = Some(64)),
        broken(|s| s.args[0].spec.shape = vec![i64::MAX, 4]),
        broken(|s| (s.args[0].spec.shape, s.args[0].spec.strides) = (vec![2], Some(vec![i64::MAX]))),
        broken(|s| s.nodes[2].outputs[0].bytes = u64::MAX),
        broken(|s| s.nodes[2].workspace_bytes = 1 << 62),
        broken_in(lowered(), |s| place(s, 1).shape[0] = -4),
        broken_in(lowered(), |s| place(s, 1).strides = Some(vec![])),
        broken_in(lowered(), |s| place(s, 1).shape = vec![i64::MAX, i64::MAX]),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn constants_have_their_data() {
    let constant = |data: Data| {
        move |s: &mut Step| {
            let mut spec = sample::spec(&[3]);
            spec.dtype = ElementType::Bf16;
            s.constants.push(rk_step::Constant { name: "mask".into(), spec, data });
        }
    };
    insta::assert_snapshot!(broken(constant(Data::Hex("00".into()))), @r#"constants[0] "mask": needs 12 hexadecimal digits of data, has 2 characters"#);
    insta::assert_snapshot!(broken(constant(Data::Splat("zzzz".into()))), @r#"constants[0] "mask": needs 4 hexadecimal digits of data, has 4 characters"#);
}

#[test]
fn a_late_slot_is_not_an_index_out_of_range() {
    // `run` with a slot that only the epilogue assigns.
    let message = broken(|s| s.program.instrs.insert(1, Instr::Run(run(1, &[5], &[2]))));
    insta::assert_snapshot!(message, @r#"program[1] run "up": S1: %5 is not produced yet"#);
}
