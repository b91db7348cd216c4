//! What is kept when a training step ends: little of the budget, and the past of one step.

mod checked;

use checked::{Checked, call, constant, fresh, options};
use rk_dtr::{Bytes, Heuristic, Runtime, TensorId};

fn runtime(budget: u64) -> (Runtime<Checked>, TensorId) {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, budget), Checked::default());
    let weight = constant(&mut runtime, 0);
    (runtime, weight)
}

/// A forward pass of layers whose outputs autograd holds, and a loss of one byte: what a loss that is kept holds.
fn forward(runtime: &mut Runtime<Checked>, from: TensorId, weight: TensorId) -> Vec<TensorId> {
    let mut held = vec![from];
    for _ in 0..8 {
        let product = call(runtime, 5, &[held[held.len() - 1], weight], &[fresh(10)]).expect("fits");
        held.push(call(runtime, 1, &[product], &[fresh(10)]).expect("fits"));
        runtime.release(product).expect("nothing to compute");
    }
    held.push(call(runtime, 1, &[held[8]], &[fresh(1)]).expect("fits"));
    held
}

#[test]
fn a_loss_that_is_kept_with_its_graph_takes_little_of_the_budget() {
    let (mut runtime, weight) = runtime(100);
    // What is held keeps its own past, so that settling a loss would free nothing.
    let mut kept = Vec::new();
    for _ in 0..5 {
        let input = call(&mut runtime, 1, &[weight], &[fresh(10)]).expect("fits");
        kept.push(forward(&mut runtime, input, weight));
        runtime.end_step();
        assert!(runtime.settled_bytes() <= Bytes(100 / 16), "{}", runtime.settled_bytes());
    }
    assert!(runtime.counters().max_memory <= Bytes(110));
}

#[test]
fn a_state_that_is_handed_on_keeps_the_past_of_one_step() {
    for size in [2, 20] {
        let (mut runtime, weight) = runtime(100);
        let mut state = call(&mut runtime, 1, &[weight], &[fresh(size)]).expect("fits");
        let mut tables = Vec::new();
        for _ in 0..20 {
            let held = forward(&mut runtime, state, weight);
            let next = call(&mut runtime, 1, &[held[8]], &[fresh(size)]).expect("fits");
            for old in held {
                runtime.release(old).expect("nothing to compute");
            }
            state = next;
            runtime.end_step();
            tables.push(runtime.in_use());
            assert!(runtime.settled_bytes() <= Bytes(2 * size));
        }
        // How much of the past is there swings from step to step.
        let (early, late) = tables.split_at(10);
        assert!(late.iter().max() <= early.iter().max(), "nothing grows: {tables:?}");
    }
}

#[test]
fn a_state_that_is_handed_on_is_settled_and_not_the_graph_that_reads_it() {
    let (mut runtime, weight) = runtime(100);
    let mut state = call(&mut runtime, 1, &[weight], &[fresh(8)]).expect("fits");
    for _ in 0..6 {
        let held = forward(&mut runtime, state, weight);
        let next = call(&mut runtime, 1, &[held[8]], &[fresh(8)]).expect("fits");
        runtime.release(state).expect("nothing to compute");
        state = next;
        runtime.end_step();
        assert!(runtime.settled_bytes() <= Bytes(30), "{}", runtime.settled_bytes());
        for kept in held.into_iter().skip(1) {
            runtime.release(kept).expect("nothing to compute");
        }
    }
}
