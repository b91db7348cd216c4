//! Calls that grow by what is written into their results, and what is kept of backward passes.

mod checked;

use checked::{Checked, Done, constant, fresh, options};
use rk_dtr::{Bytes, Heuristic, Nanos, Output, Runtime, TensorId};

fn runtime(budget: u64) -> Runtime<Checked> {
    Runtime::new(options(Heuristic::DTR_EQ, budget), Checked::default())
}

fn call(runtime: &mut Runtime<Checked>, args: &[TensorId], output: Output) -> Done<TensorId> {
    checked::call(runtime, 10, args, &[output])
}

/// Writes to a tensor, and says whether that became part of the call that made it.
fn write(runtime: &mut Runtime<Checked>, tensor: TensorId, others: &[TensorId]) -> Done<bool> {
    let args = [&[tensor], others].concat();
    runtime.hold(&args)?;
    let joined = runtime.extendable(tensor, &args);
    if let Some(joined) = &joined {
        runtime.extend(tensor, joined, Nanos(10), &args);
    }
    runtime.let_go(&args);
    Ok(joined.is_some())
}

#[test]
fn writes_and_what_read_the_old_value_run_with_the_call_that_made_it() -> Done {
    let mut runtime = runtime(1000);
    let x = constant(&mut runtime, 0);
    let before = runtime.in_use();
    let other = call(&mut runtime, &[x], fresh(7))?;
    let gates = call(&mut runtime, &[x], fresh(30))?;
    let part = call(&mut runtime, &[gates], Output::View(0))?;
    assert!(write(&mut runtime, part, &[other])?);
    let copy = call(&mut runtime, &[part], fresh(10))?;
    let kept = runtime.storage_of(gates);
    assert!(write(&mut runtime, part, &[part])?, "what it also reads lies in it");
    assert_eq!(runtime.storage_of(part), kept, "no new version");
    assert_eq!(runtime.call_of(copy), runtime.call_of(gates));
    assert_eq!(runtime.args_of(runtime.call_of(gates)), [x, other]);
    runtime.discard(gates);
    runtime.discard(copy);
    runtime.discard(other);
    runtime.world_mut().runs.clear();
    runtime.reset_counters();
    runtime.hold(&[copy])?;
    let made = [runtime.call_of(other), runtime.call_of(gates)];
    assert_eq!(runtime.world().runs, made, "one run of everything");
    assert_eq!(runtime.counters().remat, Nanos(10 + 40), "the call, two writes and the copy");
    assert!(runtime.has_value(gates) && runtime.has_value(copy) && !runtime.has_value(part));
    assert_eq!(runtime.counters().memory, Bytes(47));
    runtime.let_go(&[copy]);
    for dead in [other, gates, part, copy] {
        runtime.release(dead)?;
    }
    assert_eq!((runtime.in_use(), runtime.counters().memory), (before, Bytes(0)));
    Ok(())
}

#[test]
fn what_others_read_or_would_go_in_a_circle_is_a_version_of_its_own() -> Done {
    let mut runtime = runtime(1000);
    let x = constant(&mut runtime, 0);
    let base = call(&mut runtime, &[x], fresh(10))?;
    let side = call(&mut runtime, &[x], fresh(10))?;
    let mixed = call(&mut runtime, &[base, side], fresh(10))?;
    assert!(!write(&mut runtime, base, &[])?, "somebody else has read it");
    runtime.release(mixed)?;
    assert!(write(&mut runtime, base, &[])?, "and is gone");
    // The write would read what is made from the value that it overwrites.
    let copy = call(&mut runtime, &[base], fresh(10))?;
    let later = call(&mut runtime, &[copy, side], fresh(10))?;
    assert!(!write(&mut runtime, base, &[later])?);
    // What was there before, and what depends on nothing of it, may be read, as long as it fits.
    let young = call(&mut runtime, &[side], fresh(10))?;
    let other = call(&mut runtime, &[x], fresh(10))?;
    assert!(write(&mut runtime, other, &[young])?);
    let large = [call(&mut runtime, &[x], fresh(10))?, call(&mut runtime, &[x], fresh(10))?];
    assert!(!write(&mut runtime, other, &large)?, "three arguments beside a buffer of the size of one");
    // An extension is as young as what it reads.
    let late = call(&mut runtime, &[other], fresh(10))?;
    assert!(!write(&mut runtime, young, &[late])?, "which reads the young one");
    Ok(())
}

#[test]
fn a_run_of_a_grown_call_passes_the_budget_by_its_largest_part_only() -> Done {
    let mut runtime = runtime(1000);
    let x = constant(&mut runtime, 0);
    let gates = call(&mut runtime, &[x], fresh(30))?;
    let copy = call(&mut runtime, &[gates], fresh(10))?;
    assert!(write(&mut runtime, gates, &[])?);
    let beside: Vec<TensorId> =
        (0..3).map(|_| call(&mut runtime, &[x], fresh(20))).collect::<Result<_, _>>()?;
    runtime.discard(gates);
    runtime.discard(copy);
    runtime.hold(&beside)?;
    runtime.set_budget(Bytes(70));
    runtime.hold(&[copy])?;
    runtime.let_go(&[copy]);
    runtime.discard(gates);
    runtime.discard(copy);
    runtime.set_budget(Bytes(69));
    runtime.hold(&[copy]).expect_err("60, and 40 of which 30 may be too much");
    Ok(())
}

#[test]
fn what_was_stacked_does_not_stay_beside_the_stack() -> Done {
    let mut runtime = runtime(1000);
    let x = constant(&mut runtime, 0);
    let limit = Bytes(50);
    let parts: Vec<TensorId> =
        (0..4).map(|_| call(&mut runtime, &[x], fresh(10))).collect::<Result<_, _>>()?;
    for &part in &parts {
        assert!(runtime.settle_outputs(runtime.call_of(part), limit));
    }
    let stack = call(&mut runtime, &parts, fresh(40))?;
    assert!(!runtime.settle_outputs(runtime.call_of(stack), limit), "80 are too much");
    parts.into_iter().try_for_each(|part| runtime.release(part))?;
    assert_eq!(runtime.settled_bytes(), Bytes(40), "the parts stay, for the stack");
    let next = call(&mut runtime, &[stack], fresh(1))?;
    assert!(runtime.settle_outputs(runtime.call_of(next), limit));
    assert!(runtime.is_settled(stack));
    assert_eq!((runtime.settled_bytes(), runtime.counters().memory), (Bytes(41), Bytes(41)));
    Ok(())
}

#[test]
fn in_need_a_kept_value_whose_operands_are_there_gives_up_its_memory() -> Done {
    let mut runtime = runtime(100);
    let x = constant(&mut runtime, 0);
    let activation = call(&mut runtime, &[x], fresh(1))?;
    let gradient = call(&mut runtime, &[activation], fresh(40))?;
    runtime.release(activation)?;
    assert!(runtime.settle_outputs(runtime.call_of(gradient), Bytes(75)));
    let product = call(&mut runtime, &[gradient, x], fresh(20))?;
    assert!(runtime.settle_outputs(runtime.call_of(product), Bytes(75)));
    let large = call(&mut runtime, &[x], fresh(55))?;
    runtime.hold(&[large])?;
    assert_eq!(runtime.counters().memory, Bytes(115), "passed by the outputs of one call");
    runtime.make_room(Bytes(1))?;
    assert!(!runtime.has_value(product), "60 and 55 do not fit");
    runtime.let_go(&[large]);
    assert_eq!(runtime.settled_bytes(), Bytes(40));
    runtime.release(gradient)?;
    assert_eq!(runtime.settled_bytes(), Bytes(40), "the product is to be computed again");
    runtime.release(large)?;
    runtime.hold(&[product])?;
    let next = call(&mut runtime, &[product], fresh(1))?;
    runtime.settle_outputs(runtime.call_of(next), Bytes(75));
    runtime.let_go(&[product]);
    assert!(runtime.is_settled(product) && runtime.settled_bytes() == Bytes(21), "and the gradient is gone");
    Ok(())
}

#[test]
fn what_is_new_is_kept_before_what_is_old() -> Done {
    let mut runtime = runtime(100);
    let limit = Bytes(75);
    let x = constant(&mut runtime, 0);
    let forward = call(&mut runtime, &[x], fresh(1))?;
    let old = call(&mut runtime, &[forward], fresh(40))?;
    assert!(runtime.settle_outputs(runtime.call_of(old), limit));
    let new = call(&mut runtime, &[x], fresh(40))?;
    assert!(runtime.settle_outputs(runtime.call_of(new), limit));
    assert!(runtime.is_settled(new) && !runtime.is_settled(old), "80 are too much");
    call(&mut runtime, &[x], fresh(50))?;
    assert!(runtime.has_value(new) && !runtime.has_value(old));
    // Where giving up the old one would not be enough, it stays.
    let small = call(&mut runtime, &[x], fresh(10))?;
    assert!(runtime.settle_outputs(runtime.call_of(small), limit));
    runtime.hold(&[new])?;
    let large = call(&mut runtime, &[x], fresh(70))?;
    assert!(!runtime.settle_outputs(runtime.call_of(large), limit) && runtime.is_settled(small));
    runtime.let_go(&[new]);
    Ok(())
}

#[test]
fn nothing_is_given_up_in_vain() -> Done {
    let mut runtime = runtime(100);
    let x = constant(&mut runtime, 0);
    let kept = call(&mut runtime, &[x], fresh(10))?;
    assert!(runtime.settle_outputs(runtime.call_of(kept), Bytes(75)));
    let large = call(&mut runtime, &[x], fresh(120))?;
    runtime.hold(&[large])?;
    runtime.make_room(Bytes(1)).expect_err("120 are locked");
    assert!(runtime.is_settled(kept));
    Ok(())
}

#[test]
fn what_is_written_to_after_it_was_kept_is_not_made_again() -> Done {
    let mut runtime = runtime(100);
    let x = constant(&mut runtime, 0);
    let total = call(&mut runtime, &[x], fresh(40))?;
    assert!(runtime.settle_outputs(runtime.call_of(total), Bytes(75)));
    runtime.lose_past(total);
    let large = call(&mut runtime, &[x], fresh(65))?;
    runtime.hold(&[large])?;
    runtime.make_room_for(Bytes(5))?;
    assert!(runtime.has_value(total), "what was added to it is in no call");
    Ok(())
}

#[test]
fn a_write_sees_the_readers_that_were_kept() -> Done {
    let mut runtime = runtime(100);
    let x = constant(&mut runtime, 0);
    let side = call(&mut runtime, &[x], fresh(10))?;
    let base = call(&mut runtime, &[x], fresh(10))?;
    let copy = call(&mut runtime, &[base, side], fresh(30))?;
    assert!(runtime.settle_outputs(runtime.call_of(copy), Bytes(75)));
    assert!(write(&mut runtime, base, &[])?, "the copy is kept, and lets go of its past");
    assert!(runtime.is_settled(copy) && runtime.args_of(runtime.call_of(copy)).is_empty());
    // One that is given up is a reader again.
    let copy = call(&mut runtime, &[base, side], fresh(40))?;
    assert!(runtime.settle_outputs(runtime.call_of(copy), Bytes(75)));
    let next = call(&mut runtime, &[x], fresh(45))?;
    assert!(runtime.settle_outputs(runtime.call_of(next), Bytes(75)) && !runtime.is_settled(copy));
    assert!(!write(&mut runtime, base, &[])?, "a version of its own");
    Ok(())
}
