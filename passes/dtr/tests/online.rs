//! The online entries: the same books as the simulator, errors that name and undo, and nothing kept for ever.

mod checked;

use checked::{Checked, call, constant, fresh, options};
use rk_dtr::{Bytes, Heuristic, Nanos, Options, Output, Run, Runtime, Stop, StorageId, TensorId, World};

/// Forward, backward and update of a chain with a skip, views, an operator with two outputs, and a dead value.
fn step(runtime: &mut Runtime<Checked>, weight: TensorId, layers: usize) -> Result<(), Stop<String>> {
    let mut saved = vec![call(runtime, 3, &[weight], &[fresh(8)])?];
    for _ in 1..layers {
        let last = saved[saved.len() - 1];
        let pair = call(runtime, 5, &[last, weight], &[fresh(8), fresh(2)])?;
        let statistic = TensorId::new(pair.index() as u32 + 1);
        let view = call(runtime, 1, &[pair], &[Output::View(0)])?;
        let next = call(runtime, 4, &[view, statistic], &[fresh(8)])?;
        for dead in [pair, statistic, view] {
            runtime.release(dead)?;
        }
        saved.push(next);
    }
    let mut gradient = call(runtime, 1, &[saved[saved.len() - 1]], &[fresh(8)])?;
    while let Some(activation) = saved.pop() {
        let next = call(runtime, 6, &[gradient, activation, weight], &[fresh(8)])?;
        runtime.release(gradient)?;
        runtime.release(activation)?;
        gradient = next;
    }
    runtime.settle(gradient)?;
    runtime.release(gradient)
}

#[test]
fn nothing_is_left_of_ten_thousand_steps() {
    for (heuristic, segments) in [
        (Heuristic::DTR_EQ, false),
        (Heuristic::DTR_EQ, true),
        (Heuristic::DTR, false),
        (Heuristic::LRU, false),
        (Heuristic::LRU, true),
    ] {
        let mut options = options(heuristic, 64);
        options.online.segments = segments;
        let mut runtime = Runtime::new(options, Checked::default());
        let weight = constant(&mut runtime, 4);
        let before = (runtime.in_use(), runtime.counters().memory);
        let mut tables = 0;
        for turn in 0..10_000 {
            // Lengths differ, so that ids of all kinds are given to calls of all shapes.
            step(&mut runtime, weight, 4 + turn % 13).expect("64 bytes are enough");
            assert_eq!((runtime.in_use(), runtime.counters().memory), before, "step {turn}");
            if turn == 100 {
                tables = runtime.world().values.len();
            }
        }
        assert_eq!(runtime.world().values.len(), tables, "the same ids serve for ever");
        assert!(runtime.counters().evictions > 10_000 && runtime.counters().reruns > 10_000);
        assert!(runtime.counters().max_memory <= Bytes(64 + 10), "the budget and the outputs of one call");
    }
}

#[test]
fn tight_budgets_name_what_is_locked_and_leave_no_lock_behind() {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 100), Checked::default());
    let weight = constant(&mut runtime, 30);
    let big = call(&mut runtime, 1, &[weight], &[fresh(60)]).expect("90 bytes fit");
    let small = call(&mut runtime, 1, &[big], &[fresh(5)]).expect("95 bytes fit");
    runtime.hold(&[big]).expect("it is in memory");
    let error = runtime.make_room(Bytes(20));
    assert_eq!(error, Ok(()), "passing the budget by the outputs of one call is allowed");
    let huge = constant_error(&mut runtime, 75);
    let Stop::OutOfMemory { wanted, in_use, budget, locked } = huge else { panic!("{huge:?}") };
    assert_eq!((wanted, in_use, budget), (Bytes(0), Bytes(165), Bytes(100)));
    assert_eq!((locked.count, locked.pinned, locked.pinned_bytes), (3, 2, Bytes(105)));
    let sizes: Vec<_> = locked.largest.iter().map(|l| (l.bytes.0, l.pinned)).collect();
    assert_eq!(sizes, [(75, true), (60, false), (30, true)]);
    assert!(locked.to_string().contains("the largest: #3 of 75 B pinned, #1 of 60 B"), "{locked}");
    runtime.let_go(&[big]);
    runtime.trim().expect_err("what is pinned alone passes it");
    runtime.set_budget(Bytes(200));
    runtime.hold(&[big, small]).expect("nothing is left of the error");
    runtime.let_go(&[big, small]);
}

fn constant_error(runtime: &mut Runtime<Checked>, size: u64) -> Stop<String> {
    runtime.constant(Bytes(size)).expect("alone it is an overshoot");
    runtime.trim().expect_err("165 bytes are locked")
}

#[test]
fn a_world_that_fails_leaves_no_lock_behind() {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 30), Checked::default());
    let weight = constant(&mut runtime, 4);
    let first = call(&mut runtime, 1, &[weight], &[fresh(10)]).expect("fits");
    let second = call(&mut runtime, 1, &[first], &[fresh(10)]).expect("fits");
    let third = call(&mut runtime, 1, &[second], &[fresh(10)]).expect("fits");
    assert!(!runtime.has_value(first), "34 bytes do not fit");
    runtime.world_mut().fail = true;
    let error = runtime.hold(&[third, first]).expect_err("the world fails");
    assert_eq!(error.to_string(), "the device is gone");
    let counters = runtime.counters();
    runtime.world_mut().fail = false;
    assert_eq!(runtime.locked().count, 1, "only the weight is");
    runtime.hold(&[third, first]).expect("the world is back");
    assert_eq!(runtime.counters().reruns, counters.reruns + 1);
    runtime.let_go(&[third, first]);
}

#[test]
fn what_is_settled_needs_no_past() {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 100), Checked::default());
    let weight = constant(&mut runtime, 4);
    let mut state = call(&mut runtime, 1, &[weight], &[fresh(10)]).expect("fits");
    for _ in 0..1000 {
        let next = call(&mut runtime, 1, &[state, weight], &[fresh(10)]).expect("fits");
        runtime.release(state).expect("nothing to compute");
        state = next;
        if runtime.is_settled(state) {
            continue;
        }
        let (tensors, bytes) = runtime.unsettled(&[state]);
        assert_eq!((&tensors[..], bytes), (&[state][..], Bytes(10)));
        runtime.settle(state).expect("it is in memory");
        assert_eq!(runtime.in_use(), [2, 2, 2], "the weight and the state");
    }
    assert!(!runtime.is_read(weight), "no call will run again");
}

#[test]
fn views_of_settled_storages_do_not_keep_calls() {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 100), Checked::default());
    let weight = constant(&mut runtime, 4);
    let view = call(&mut runtime, 1, &[weight], &[Output::View(0)]).expect("a view is free");
    let other = call(&mut runtime, 1, &[view], &[fresh(3)]).expect("fits");
    assert!(runtime.is_read(weight), "through the view");
    runtime.release(other).expect("nothing to compute");
    assert!(!runtime.is_read(weight));
    runtime.release(weight).expect("nothing to compute");
    assert_eq!(runtime.counters().memory, Bytes(4), "the view keeps its storage");
    runtime.release(view).expect("nothing to compute");
    assert_eq!((runtime.in_use(), runtime.counters().memory), ([0, 0, 0], Bytes(0)));
}

#[test]
fn what_is_pinned_stays_until_it_is_unpinned() {
    let mut runtime = Runtime::new(options(Heuristic::LRU, 30), Checked::default());
    let first = call(&mut runtime, 1, &[], &[fresh(10)]).expect("fits");
    runtime.pin(first).expect("it is in memory");
    let second = call(&mut runtime, 1, &[first], &[fresh(20)]).expect("fits");
    let third = call(&mut runtime, 1, &[second], &[fresh(10)]).expect("fits");
    assert!(runtime.has_value(first) && !runtime.has_value(second));
    runtime.unpin(first);
    call(&mut runtime, 1, &[third], &[fresh(20)]).expect("fits");
    assert!(!runtime.has_value(first));
}

#[test]
fn measured_times_are_learnt() {
    let options = Options { budget: Bytes(25), ..options(Heuristic::DTR_EQ, 0) };
    #[derive(Debug)]
    struct Faster;
    impl World for Faster {
        type Error = String;
        fn run(&mut self, run: &Run<'_>) -> Result<Nanos, String> {
            Ok(Nanos(run.expected.0 / 2))
        }
        fn evict(&mut self, _: StorageId, _: impl Iterator<Item = TensorId>) {}
    }
    let mut runtime = Runtime::new(options, Faster);
    let record = |runtime: &mut Runtime<Faster>, args: &[TensorId]| {
        runtime.hold(args).expect("fits");
        let call = runtime.record(Nanos(64), args, &[fresh(10)]);
        runtime.let_go(args);
        runtime.trim().expect("fits");
        runtime.first_output(call)
    };
    let first = record(&mut runtime, &[]);
    let second = record(&mut runtime, &[first]);
    record(&mut runtime, &[second]);
    assert!(!runtime.has_value(first));
    for expected in [32, 16, 8] {
        let before = runtime.counters().remat.0;
        runtime.hold(&[first]).expect("fits");
        runtime.let_go(&[first]);
        assert_eq!(runtime.counters().remat.0 - before, expected);
        runtime.discard(first);
    }
}

#[test]
fn versions_that_were_overwritten_do_not_stay() {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 100), Checked::default());
    let weight = constant(&mut runtime, 0);
    let mut versions = vec![call(&mut runtime, 9, &[weight], &[fresh(10)]).expect("fits")];
    for _ in 0..5 {
        let old = versions[versions.len() - 1];
        runtime.hold(&[old]).expect("in memory");
        let call = runtime.record(Nanos(9), &[old], &[fresh(10)]);
        let new = runtime.first_output(call);
        runtime.world_mut().store(new, 1);
        runtime.let_go(&[old]);
        runtime.overwrites(call, &[old]);
        runtime.release(old).expect("nothing to compute");
        versions.push(new);
        assert_eq!(runtime.counters().memory, Bytes(10), "one version at a time");
    }
    let last = versions[5];
    runtime.discard(last);
    runtime.hold(&[last]).expect("fits");
    runtime.let_go(&[last]);
    assert_eq!((runtime.counters().reruns, runtime.counters().memory), (6, Bytes(10)));
    runtime.release(last).expect("nothing to compute");
    assert_eq!(runtime.in_use(), [1, 1, 1], "the weight");
}

#[test]
fn calls_that_wait_give_way() -> Result<(), Stop<String>> {
    let mut runtime = Runtime::new(options(Heuristic::DTR, u64::MAX), Checked::default());
    let weight = constant(&mut runtime, 0);
    let spare = call(&mut runtime, 1, &[weight], &[fresh(5)])?;
    let other = call(&mut runtime, 1, &[weight], &[fresh(5)])?;
    let small = call(&mut runtime, 1, &[weight], &[fresh(4)])?;
    let large = call(&mut runtime, 1, &[small], &[fresh(8)])?;
    let end = call(&mut runtime, 1, &[large], &[fresh(2)])?;
    let sum = call(&mut runtime, 1, &[spare, end, other, spare], &[fresh(1)])?;
    [small, large, end, sum].into_iter().for_each(|tensor| runtime.discard(tensor));
    // The sum waits with 10 locked for the end, which is made from 8: together more than 12, and each call fits in that.
    runtime.set_budget(Bytes(12));
    runtime.reset_counters();
    runtime.hold(&[sum])?;
    assert_eq!(runtime.counters().max_memory, Bytes(17), "passed by the large one's own 8 at most");
    assert_eq!(runtime.counters().reruns, 5, "the spare one runs again, too");
    runtime.let_go(&[sum]);
    assert_eq!(runtime.locked().count, 1, "the weight alone");
    Ok(())
}

#[test]
fn the_largest_operand_may_pass_the_budget_in_place_of_the_outputs() -> Result<(), Stop<String>> {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 30), Checked::default());
    let weight = constant(&mut runtime, 0);
    let workspace = call(&mut runtime, 1, &[weight], &[fresh(80)])?;
    let beside = call(&mut runtime, 1, &[weight], &[fresh(25)])?;
    runtime.hold(&[beside, workspace])?;
    assert_eq!(runtime.counters().memory, Bytes(105), "25 within the budget, and the outputs of one call");
    runtime.make_room_for(Bytes(5))?;
    runtime.make_room_for(Bytes(6)).expect_err("81 above the budget");
    runtime.make_room(Bytes(5)).expect_err("if it turns out to be more, the outputs of two calls are");
    runtime.let_go(&[beside, workspace]);
    runtime.trim()?;
    assert!(runtime.counters().memory <= Bytes(30), "nothing stays above it");
    Ok(())
}

#[test]
fn a_deferred_call_runs_when_somebody_needs_it() -> Result<(), Stop<String>> {
    let mut runtime = Runtime::new(options(Heuristic::DTR_EQ, 100), Checked::default());
    let weight = constant(&mut runtime, 0);
    let part = call(&mut runtime, 1, &[weight], &[fresh(10)])?;
    assert!(runtime.settle_outputs(runtime.call_of(part), Bytes(75)));
    let made = runtime.defer(&[part], &[fresh(40)]);
    let full = runtime.first_output(made);
    runtime.release(part)?;
    assert_eq!((runtime.counters().memory, runtime.has_value(full)), (Bytes(10), false));
    runtime.hold(&[full])?;
    assert_eq!(runtime.world().runs, [made]);
    runtime.let_go(&[full]);
    runtime.settle_heirs(Bytes(75));
    assert!(runtime.is_settled(full));
    assert_eq!(
        (runtime.counters().memory, runtime.settled_bytes()),
        (Bytes(40), Bytes(40)),
        "the part is gone"
    );
    // What nobody needs never runs.
    let other = call(&mut runtime, 1, &[weight], &[fresh(10)])?;
    let unused = runtime.defer(&[other], &[fresh(40)]);
    let unused = runtime.first_output(unused);
    runtime.release(other)?;
    runtime.release(unused)?;
    runtime.release(full)?;
    assert_eq!((runtime.world().runs.len(), runtime.counters().memory), (1, Bytes(0)));
    Ok(())
}

#[test]
fn what_a_backward_pass_makes_is_kept_until_nobody_wants_it() -> Result<(), Stop<String>> {
    let mut runtime = Runtime::new(options(Heuristic::DTR, 100), Checked::default());
    let weight = constant(&mut runtime, 0);
    let activation = call(&mut runtime, 1, &[weight], &[fresh(10)])?;
    let pair = call(&mut runtime, 1, &[activation], &[fresh(20), fresh(30)])?;
    let made = runtime.call_of(pair);
    assert!(!runtime.settle_outputs(made, Bytes(49)) && !runtime.is_settled(pair), "50 are too much");
    assert!(runtime.settle_outputs(made, Bytes(50)) && runtime.is_settled(pair));
    assert!(!runtime.is_read(activation), "what is kept does not run again");
    runtime.discard(pair);
    assert_eq!((runtime.settled_bytes(), runtime.counters().memory), (Bytes(50), Bytes(60)));
    runtime.release(TensorId::new(pair.index() as u32 + 1))?;
    assert_eq!((runtime.settled_bytes(), runtime.counters().memory), (Bytes(20), Bytes(30)));
    runtime.release(pair)?;
    runtime.release(activation)?;
    assert_eq!((runtime.settled_bytes(), runtime.counters().memory), (Bytes(0), Bytes(0)));
    assert_eq!(runtime.in_use()[0], 1, "the weight");
    Ok(())
}
