//! Addresses: a good layout is accepted and comes back from the file; every bad one gets one line that names the culprit.

mod sample;

use rk_step::validate::validate;
use rk_step::{Layout, Slot, Space, Step, file};
use sample::lowered;

fn broken(change: impl FnOnce(&mut Layout)) -> String {
    let mut step = lowered();
    change(step.layout.as_mut().unwrap());
    validate(&step).unwrap_err().to_string()
}

#[test]
fn a_layout_is_written_and_read() {
    let step = lowered();
    validate(&step).unwrap();
    let text = file::print(&step).unwrap();
    assert_eq!(file::parse(text.as_bytes(), "block.rkx").unwrap(), step);
    let (_, layout) = text.split_once("\"layout\": ").unwrap();
    insta::assert_snapshot!(layout);
}

#[test]
fn the_program_explained_names_the_arena() {
    let text = rk_step::explain(&lowered()).unwrap();
    assert!(text.contains("\nlowered for cpu: arena 12.00 KiB, gradients 0 B\n"), "{text}");
}

#[test]
fn s7_addresses() {
    let messages = [
        broken(|l| l.places[2].offset = 4096),
        broken(|l| l.places[4].offset = 0),
        broken(|l| l.places[0].offset = 12 << 10),
        broken(|l| l.places[0].offset = u64::MAX - 63),
        broken(|l| l.places[0].offset = 100),
        broken(|l| (l.launches[1].workspace_offset, l.launches[1].workspace_bytes) = (4096, 64)),
        broken(|l| l.arena_bytes = 8192),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn what_a_layout_must_have() {
    let messages = [
        broken(|l| l.places.truncate(4)),
        broken(|l| l.places.swap(0, 1)),
        broken(|l| l.places.push(l.places[4].clone())),
        broken(|l| l.places[0].slot = Slot(0)),
        broken(|l| l.places[1].bytes = 4096),
        broken(|l| l.places[1].spec.as_mut().unwrap().shape = vec![3]),
        broken(|l| l.places[1].space = Space::Gradients),
        broken(|l| l.launches.truncate(4)),
        broken(|l| l.launches[2].instr = 2),
        broken(|l| l.target = "cuda".into()),
        broken(|l| l.arena_bytes = u64::MAX),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}

/// An overwriting run writes where its operand was: the same bytes, and no overlap.
#[test]
fn in_place() {
    let mut step: Step = lowered();
    step.nodes[2].overwrites = Some(0);
    step.nodes[2].outputs[0].bytes = 8192;
    let rk_step::Instr::Run(run) = &mut step.program.instrs[3] else { panic!() };
    run.overwrite = true;
    step.program.instrs.remove(4);
    let layout = step.layout.as_mut().unwrap();
    (layout.places[2].offset, layout.places[2].bytes, layout.places[2].spec) = (0, 8192, None);
    layout.places[3].offset = 8192;
    layout.places[4].offset = 12 << 10;
    layout.arena_bytes = 16 << 10;
    (layout.launches[3].instr, layout.launches[4].instr) = (4, 5);
    validate(&step).unwrap();
    let layout = step.layout.as_mut().unwrap();
    (layout.places[2].offset, layout.arena_bytes) = (16 << 10, 24 << 10);
    let elsewhere = validate(&step).unwrap_err().to_string();
    insta::assert_snapshot!(elsewhere, @r#"program[3] run "down": S6: it overwrites %2, but %3 lies in another place"#);
}
