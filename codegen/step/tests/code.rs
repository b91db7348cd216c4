//! Equal code stands in a file once, and every node has it again when the file is read.

mod sample;

use rk_step::{Instr, Slot, Step, file};

/// The sample, in which the second node is another layer with the code of the first.
fn two_layers() -> Step {
    let mut step = sample::block();
    let (twin, slot) = (step.nodes.len() as u32, step.program.slots);
    step.nodes.push(rk_step::Node { name: "other.norm".into(), ..step.nodes[0].clone() });
    step.program.slots += 1;
    step.program.instrs.push(Instr::Run(sample::run(twin, &[0], &[slot])));
    step.program.instrs.push(Instr::Drop(Slot(slot)));
    step
}

#[test]
fn equal_code_is_written_once() {
    let step = two_layers();
    let text = file::print(&step).unwrap();
    let last = text.lines().find(|line| line.contains("other.norm")).unwrap();
    assert!(last.contains("\"ops\":0"), "{last}");
    assert_eq!(file::parse(text.as_bytes(), "two.rkx").unwrap(), step);
}

#[test]
fn code_comes_from_an_earlier_node_only() {
    let text = file::print(&two_layers()).unwrap();
    let later = text.replace("\"ops\":0", "\"ops\":9");
    let message = file::parse(file::seal(&later).as_bytes(), "two.rkx").unwrap_err().to_string();
    insta::assert_snapshot!(message, @r#"two.rkx: nodes[4] "other.norm": its calls are said to be those of node 9, which is no earlier node"#);
}
