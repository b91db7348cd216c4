//! One hand-made broken step per check; the messages name law, place and culprit.

mod sample;

use rk_step::validate::validate;
use rk_step::{ArgValue, Data, ElementType, Instr, Local, NodeId, Run, Slot, Step};
use sample::{block, drop, run};

fn broken(change: impl FnOnce(&mut Step)) -> String {
    let mut step = block();
    change(&mut step);
    validate(&step).unwrap_err().to_string()
}

fn edit(step: &mut Step, i: usize) -> &mut Run {
    match &mut step.program.instrs[i] {
        Instr::Run(run) => run,
        Instr::Drop(_) => panic!("instruction {i} is a drop"),
    }
}

#[test]
fn the_block_is_valid() {
    validate(&block()).unwrap();
}

#[test]
fn s1_operands_are_live() {
    insta::assert_snapshot!(broken(|s| edit(s, 6).inputs[0] = Slot(1)), @r#"program[6] run "add": S1: %1 was dropped before"#);
    insta::assert_snapshot!(broken(|s| edit(s, 1).inputs[0] = Slot(3)), @r#"program[1] run "up": S1: %3 is not produced yet"#);
    insta::assert_snapshot!(broken(|s| s.program.outputs[0] = Slot(4)), @r#"outputs[0] "0": S1: %4 is not live at the end"#);
}

#[test]
fn s2_drops() {
    insta::assert_snapshot!(broken(|s| s.program.instrs.push(drop(4))), @"program[9] drop: S2: %4 is not live");
    insta::assert_snapshot!(broken(|s| s.program.instrs.push(drop(0))), @"program[9] drop: S2: x is resident");
    insta::assert_snapshot!(broken(|s| s.program.instrs.push(drop(99))), @"program[9] drop: S2: %99 is not live");
}

#[test]
fn s3_never_dropped() {
    insta::assert_snapshot!(broken(|s| { s.program.instrs.pop(); }), @"program: S3: %3 is never dropped");
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
    let swapped = |s: &mut Step| {
        s.nodes.swap(0, 1);
        s.nodes[0].random = true;
        s.nodes[1].random = true;
        for i in [0, 1, 5] {
            let r = edit(s, i);
            r.node = NodeId(1 - r.node.0);
        }
    };
    insta::assert_snapshot!(broken(swapped), @r#"program[1] run "up": S5: it draws random numbers before an earlier random node"#);
}

#[test]
fn s6_overwrites() {
    insta::assert_snapshot!(broken(|s| edit(s, 0).overwrite = true), @r#"program[0] run "norm": overwrites, but the node does not"#);
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
