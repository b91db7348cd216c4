//! The original schedule from the origins, the byte account, and the text form of a program.

mod sample;

use rk_step::{Instr, Slot, explain, memory_account, original};
use sample::block;

#[test]
fn twelve_kib_with_the_second_run_sixteen_without() {
    let mut step = block();
    assert_eq!(memory_account(&step).unwrap().peak, 12 << 10);
    step.program = original(&step).unwrap();
    rk_step::validate::validate(&step).unwrap();
    assert_eq!(memory_account(&step).unwrap().peak, 16 << 10);
}

#[test]
fn the_original_runs_every_node_once_in_order() {
    let mut step = block();
    step.program = original(&step).unwrap();
    insta::assert_snapshot!(explain(&step).unwrap());
}

#[test]
fn the_program_explained() {
    insta::assert_snapshot!(explain(&block()).unwrap());
}

#[test]
fn the_original_works_in_place_where_the_operand_is_dead() {
    let mut step = block();
    // `add` overwrites the output of `down`, as `add_` does.
    step.nodes[3].overwrites = Some(1);
    let program = original(&step).unwrap();
    let overwrites =
        |p: &rk_step::Program| p.instrs.iter().filter(|i| matches!(i, Instr::Run(r) if r.overwrite)).count();
    assert_eq!(overwrites(&program), 1);
    // Not when that value is an output of the step: then `add` works on a copy.
    step.program.instrs.pop();
    step.program.outputs.push(Slot(3));
    step.outputs.push(step.outputs[0].clone());
    let program = original(&step).unwrap();
    assert_eq!(overwrites(&program), 0);
    step.program = program;
    rk_step::validate::validate(&step).unwrap();
}

#[test]
fn the_storage_of_a_gradient_does_not_count() {
    let mut step = block();
    step.outputs[0].role = rk_step::OutputRole::Gradient;
    // The last node's 4 KiB are the gradient's: the peak is `norm` and `up`.
    let account = memory_account(&step).unwrap();
    assert_eq!((account.peak, account.live.last().copied()), (12 << 10, Some(0)));
}

#[test]
fn the_storage_of_a_gradient_that_is_an_output_too_counts() {
    let mut step = block();
    step.outputs.push(rk_step::Output { role: rk_step::OutputRole::Gradient, name: "w".into() });
    step.program.outputs.push(step.program.outputs[0]);
    rk_step::validate::validate(&step).unwrap();
    assert_eq!(memory_account(&step).unwrap().live.last(), Some(&4096));
}

#[test]
fn the_original_works_on_a_copy_where_sizes_differ() {
    let mut step = block();
    // `down` would write its 4 KiB over the 8 KiB of `up`.
    step.nodes[2].overwrites = Some(0);
    step.program = original(&step).unwrap();
    assert!(!step.program.instrs.iter().any(|instr| matches!(instr, Instr::Run(run) if run.overwrite)));
    rk_step::validate::validate(&step).unwrap();
}

#[test]
fn the_original_of_a_random_step_saves_no_state() {
    let mut step = sample::noisy();
    step.program = original(&step).unwrap();
    rk_step::validate::validate(&step).unwrap();
    assert!(
        step.program
            .instrs
            .iter()
            .all(|instr| matches!(instr, Instr::Drop(_) | Instr::Run(rk_step::Run { state_out: None, .. })))
    );
}

#[test]
fn a_step_without_nodes_has_an_original() {
    let mut step = block();
    step.nodes.clear();
    step.program = rk_step::Program { slots: 1, instrs: vec![], epilogue: vec![], outputs: vec![Slot(0)] };
    rk_step::validate::validate(&step).unwrap();
    assert_eq!(original(&step).unwrap(), step.program);
}
