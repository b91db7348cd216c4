//! One hand-made illegal schedule per law, and the accounting of every optional field.

use rk_plan::{
    Bytes, Graph, Illegal, NodeId, Schedule, Sequence, Step, Time, ValueId, judge, judge_schedule, text,
};

const BLOCK: &str = "norm 4KiB 1us; up(norm) 8KiB 1us; down(up) 4KiB 1us; add(norm, down) 4KiB 1us";

fn graph(text: &str) -> Graph {
    text::read(text).unwrap_or_else(|error| panic!("{error}"))
}

fn sequence(nodes: &[u32]) -> Sequence {
    nodes.iter().map(|&node| NodeId(node)).collect()
}

fn run(node: u32) -> Step {
    Step::Run { node: NodeId(node), again: false, overwrite: false }
}

fn again(node: u32) -> Step {
    Step::Run { node: NodeId(node), again: true, overwrite: false }
}

fn overwriting(node: u32) -> Step {
    Step::Run { node: NodeId(node), again: false, overwrite: true }
}

fn drop(value: u32) -> Step {
    Step::Drop(ValueId(value))
}

fn illegal(text: &str, steps: &[Step]) -> Illegal {
    judge_schedule(&graph(text), &Schedule(steps.to_vec()), None).expect_err("the schedule is illegal")
}

/// The schedule that follows from a sequence, and its peak.
fn printed(text: &str, nodes: &[u32]) -> String {
    let graph = graph(text);
    let sequence = sequence(nodes);
    let trace = judge(&graph, &sequence).unwrap_or_else(|illegal| panic!("{}", illegal.describe(&graph)));
    let schedule = Schedule::from_sequence(&graph, &sequence).expect("judged above");
    assert_eq!(judge_schedule(&graph, &schedule, None).as_ref(), Ok(&trace), "both judges agree");
    text::print(&graph, &schedule, &trace)
}

#[test]
fn a_residual_is_run_again_rather_than_held() {
    insta::assert_snapshot!(printed(BLOCK, &[0, 1, 2, 3]), @"norm up down -up add -norm -down -add | peak 16KiB, 4us");
    insta::assert_snapshot!(printed(BLOCK, &[0, 1, 2, 0, 3]), @"norm up -norm down -up norm* add -norm -down -add | peak 12KiB, 5us");
}

#[test]
fn s1_every_operand_is_live() {
    let never = judge(&graph(BLOCK), &sequence(&[1, 0, 2, 3])).expect_err("up before norm");
    assert!(matches!(never, Illegal::S1OperandNotLive { step: 0, dropped: false, .. }));
    insta::assert_snapshot!(never.describe(&graph(BLOCK)), @"S1 broken at step 0: 'up' (node 1) uses 'norm' (4.00 KiB) before it is produced");
    let dropped = illegal(BLOCK, &[run(0), drop(0), run(1)]);
    assert!(matches!(dropped, Illegal::S1OperandNotLive { step: 2, dropped: true, .. }));
    let returned = illegal("a 8 1 pin", &[run(0), drop(0)]);
    assert!(matches!(returned, Illegal::S1OperandNotLive { step: 2, reader: None, .. }));
}

#[test]
fn s2_no_second_drop() {
    assert_eq!(
        illegal(BLOCK, &[run(0), run(1), drop(0), drop(0)]),
        Illegal::S2DropOfDeadValue { step: 3, value: ValueId(0) }
    );
}

#[test]
fn s3_every_value_is_dropped_or_returned() {
    let at_the_end = illegal("a 8 1; b(a) 8 1", &[run(0), run(1), drop(1)]);
    assert_eq!(at_the_end, Illegal::S3NeverDropped { value: ValueId(0), produced_at: 0, again_at: None });
    let twice_live = illegal("a 8 1; b(a) 8 1", &[run(0), again(0), run(1), drop(0), drop(1)]);
    assert_eq!(twice_live, Illegal::S3NeverDropped { value: ValueId(0), produced_at: 0, again_at: Some(1) });
    insta::assert_snapshot!(twice_live.describe(&graph("a 8 1; b(a) 8 1")), @"S3 broken: 'a' (8 B), produced at step 0, is produced again at step 1 before its drop");
}

#[test]
fn s4_again_reproduces_a_first_run() {
    let first = illegal(BLOCK, &[again(0)]);
    assert_eq!(first, Illegal::S4NotReproducible { step: 0, node: NodeId(0), again: true });
    let second = illegal(BLOCK, &[run(0), drop(0), run(0)]);
    assert_eq!(second, Illegal::S4NotReproducible { step: 2, node: NodeId(0), again: false });
}

#[test]
fn s5_a_side_effect_happens_once_and_in_order() {
    let effects = "a 8 1 once; b 8 1 once; c(a, b) 8 1";
    let twice = judge(&graph(effects), &sequence(&[0, 1, 0, 2]));
    assert_eq!(twice, Err(Illegal::S5SideEffect { step: 2, node: NodeId(0), before: None }));
    let swapped = judge(&graph(effects), &sequence(&[1, 0, 2]));
    assert_eq!(swapped, Err(Illegal::S5SideEffect { step: 1, node: NodeId(1), before: Some(NodeId(0)) }));
    let explicit = illegal(effects, &[run(0), drop(0), again(0)]);
    assert!(matches!(explicit, Illegal::S5SideEffect { step: 2, .. }));
}

#[test]
fn s9_what_is_lent_is_read_once_and_before_the_hand_over() {
    let loan = "a 8 1 lent; b(a) 8 1; over(b) 8 1 once handover; c(a, over) 8 1";
    let late = judge(&graph(loan), &sequence(&[0, 1, 2, 0, 3])).expect_err("a is read after the hand-over");
    assert_eq!(late, Illegal::S9ReadsWhatIsLent { step: 3, node: NodeId(0), again: false });
    insta::assert_snapshot!(late.describe(&graph(loan)), @"S9 broken at step 3: 'a' (node 0) reads what is lent until the hand-over, after it");
    let delayed = graph("a 8 1 lent; over 8 1 once handover; c(a, over) 8 1");
    let first = judge(&delayed, &sequence(&[1, 0, 2])).expect_err("its first run comes too late");
    assert_eq!(first, Illegal::S9ReadsWhatIsLent { step: 1, node: NodeId(0), again: false });
    let twice = illegal(loan, &[run(0), run(1), drop(0), again(0)]);
    assert_eq!(twice, Illegal::S9ReadsWhatIsLent { step: 3, node: NodeId(0), again: true });
    insta::assert_snapshot!(twice.describe(&graph(loan)), @"S9 broken at step 3: 'a' (node 0) reads what is lent until the hand-over, and runs again");
    assert!(judge(&graph(loan), &sequence(&[0, 1, 2, 3])).is_ok());
    assert!(judge(&graph(loan), &sequence(&[0, 1, 2, 1, 3])).is_ok(), "what reads a copy may run again");
}

#[test]
fn s6_nothing_needed_is_overwritten() {
    let read_later = "a 8 1; b(a) 8 1 over=a; c(a, b) 8 1";
    assert_eq!(
        illegal(read_later, &[run(0), overwriting(1), run(2)]),
        Illegal::S6Overwritten { step: 1, node: NodeId(1), value: Some(ValueId(0)), read_at: Some(2) }
    );
    let refused = |text| illegal(text, &[run(0), overwriting(1)]);
    let none = Illegal::S6Overwritten { step: 1, node: NodeId(1), value: None, read_at: None };
    let pinned = Illegal::S6Overwritten { step: 1, node: NodeId(1), value: Some(ValueId(0)), read_at: None };
    assert_eq!(refused("a 8 1; b(a) 8 1"), none, "not declared");
    assert_eq!(refused("a 8 1 pin; b(a) 8 1 over=a"), pinned, "pinned");
    assert_eq!(refused("a 8 1; b(a) 9 1 over=a"), pinned, "another size");
}

#[test]
fn s7_the_peak_is_within_the_budget() {
    let graph = graph(BLOCK);
    let schedule = Schedule::from_sequence(&graph, &Sequence::base(&graph)).expect("legal");
    let over = judge_schedule(&graph, &schedule, Some(Bytes(12 << 10))).expect_err("16 KiB");
    assert!(
        matches!(&over, Illegal::S7OverBudget { step: 2, live, .. } if *live == [ValueId(1), ValueId(0), ValueId(2)])
    );
    insta::assert_snapshot!(over.describe(&graph), @"S7 broken at step 2: 16.00 KiB while 'down' (node 2) runs, budget 12.00 KiB; largest of 3 live: 'up' (8.00 KiB), 'norm' (4.00 KiB), 'down' (4.00 KiB)");
}

#[test]
fn every_node_runs_and_exists() {
    assert_eq!(judge(&graph(BLOCK), &sequence(&[0, 1, 2])), Err(Illegal::NeverRun { node: NodeId(3) }));
    assert_eq!(judge(&graph(BLOCK), &sequence(&[0, 9])), Err(Illegal::Unknown { step: 1 }));
    assert_eq!(illegal(BLOCK, &[drop(7)]), Illegal::Unknown { step: 0 });
}

#[test]
fn workspace_counts_while_the_node_runs() {
    insta::assert_snapshot!(printed("a 8 1 ws=100; b(a) 8 1", &[0, 1]), @"a b -a -b | peak 108B, 2us");
}

#[test]
fn several_outputs_have_lifetimes_of_their_own() {
    let text = "two 8+100 1; b(two.1) 1 1; c(two, b) 1 1";
    insta::assert_snapshot!(printed(text, &[0, 1, 2]), @"two b -two.1 c -two -b -c | peak 109B, 3us");
    insta::assert_snapshot!(printed(text, &[0, 1, 0, 2]), @"two -two b -two.1 two* -two.1 c -two -b -c | peak 109B, 4us");
}

#[test]
fn pinned_values_stay() {
    insta::assert_snapshot!(printed("a 8 1 pin; b 100 1; c(b) 1 1", &[0, 1, 2]), @"a b c -b -c | peak 109B, 3us");
    insta::assert_snapshot!(printed("a 8 1 pin; b 100 1; c(b) 1 1", &[0, 1, 2, 0]), @"a -a b c -b -c a* | peak 101B, 4us");
}

#[test]
fn an_overwritten_buffer_counts_once() {
    let text = "a 8 1; b(a) 8 1 over=a; c(a, b) 1 1";
    insta::assert_snapshot!(printed(text, &[0, 1, 2]), @"a b c -a -b -c | peak 17B, 3us");
    insta::assert_snapshot!(printed(text, &[0, 1, 0, 2]), @"a b! a* c -a -b -c | peak 17B, 4us");
    insta::assert_snapshot!(printed("a 8 1; b(a) 8 1 over=a; c(b) 1 1", &[0, 1, 2]), @"a b! c -b -c | peak 9B, 3us");
}

#[test]
fn generator_state_is_kept_from_the_first_to_the_last_run() {
    let text = "a 8 1 state=100; b(a) 8 1; c(b) 1 1; d(a, c) 1 1";
    let peak = |nodes: &[u32]| judge(&graph(text), &sequence(nodes)).expect("legal").memory;
    assert_eq!(peak(&[0, 1, 2, 3]), [8, 16, 17, 10].map(Bytes));
    assert_eq!(peak(&[0, 1, 2, 0, 3]), [108, 116, 109, 109, 10].map(Bytes));
}

#[test]
fn huge_sizes_do_not_overflow() {
    let many: Vec<String> = (0..4000).map(|index| format!("n{index} 1000000000000000 1 pin")).collect();
    let graph = graph(&many.join(";"));
    let trace = judge(&graph, &Sequence::base(&graph)).expect("legal");
    assert_eq!((trace.peak, trace.time), (Bytes(4_000_000_000_000_000_000), Time(4000)));
}
