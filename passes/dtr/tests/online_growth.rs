//! Calls that grow by what is written into their results, and what is kept of backward passes.

use rk_dtr::{
    Bytes, CallId, Heuristic, Nanos, Online, Options, Output, Policy, Run, Runtime, Scan, Stop, StorageId,
    TensorId, World,
};

/// A world that knows which tensors have values and notes what runs.
#[derive(Debug, Default)]
struct Noted {
    values: Vec<bool>,
    runs: Vec<CallId>,
}

impl Noted {
    fn store(&mut self, tensor: TensorId) {
        self.values.resize(self.values.len().max(tensor.index() + 1), false);
        self.values[tensor.index()] = true;
    }
}

impl World for Noted {
    type Error = String;

    fn run(&mut self, run: &Run<'_>) -> Result<Nanos, String> {
        assert!(run.args.iter().all(|a| self.values[a.index()]), "an argument has no value");
        let first = run.first_output.index();
        (first..first + run.outputs).for_each(|t| self.store(TensorId::new(t as u32)));
        run.joined.iter().for_each(|&t| self.store(t));
        self.runs.push(run.call);
        Ok(run.expected)
    }

    fn evict(&mut self, _: StorageId, tensors: impl Iterator<Item = TensorId>) {
        tensors.for_each(|t| self.values[t.index()] = false);
    }
}

fn runtime(budget: u64) -> Runtime<Noted> {
    let options = Options {
        heuristic: Heuristic::DTR_EQ,
        policy: Policy::Eager,
        budget: Bytes(budget),
        remat_limit: Nanos::UNLIMITED,
        scan: Scan::Pruned,
        seed: 0,
        online: Online::ON,
    };
    Runtime::new(options, Noted::default())
}

type Done<T = ()> = Result<T, Stop<String>>;

fn call(runtime: &mut Runtime<Noted>, args: &[TensorId], output: Output) -> Done<TensorId> {
    runtime.hold(args)?;
    let call = runtime.record(Nanos(10), args, &[output]);
    let made = runtime.first_output(call);
    runtime.world_mut().store(made);
    runtime.let_go(args);
    runtime.trim()?;
    Ok(made)
}

fn fresh(size: u64) -> Output {
    Output::Fresh(Bytes(size))
}

/// Writes to a tensor, and says whether that became part of the call that made it.
fn write(runtime: &mut Runtime<Noted>, tensor: TensorId, others: &[TensorId]) -> Done<bool> {
    let args = [&[tensor], others].concat();
    runtime.hold(&args)?;
    let joined = runtime.extendable(tensor, &args);
    if let Some(joined) = &joined {
        runtime.extend(tensor, joined, Nanos(10), &args);
    }
    runtime.let_go(&args);
    Ok(joined.is_some())
}

fn input(runtime: &mut Runtime<Noted>, size: u64) -> Done<TensorId> {
    let tensor = runtime.constant(Bytes(size))?;
    runtime.get(tensor);
    runtime.world_mut().store(tensor);
    runtime.let_go(&[tensor]);
    Ok(tensor)
}

#[test]
fn writes_and_what_read_the_old_value_run_with_the_call_that_made_it() -> Done {
    let mut runtime = runtime(1000);
    let x = input(&mut runtime, 0)?;
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
    let x = input(&mut runtime, 0)?;
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
    let x = input(&mut runtime, 0)?;
    let gates = call(&mut runtime, &[x], fresh(30))?;
    let copy = call(&mut runtime, &[gates], fresh(10))?;
    assert!(write(&mut runtime, gates, &[])?);
    let beside = call(&mut runtime, &[x], fresh(60))?;
    runtime.discard(gates);
    runtime.discard(copy);
    runtime.hold(&[beside])?;
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
    let mut runtime = runtime(100);
    let x = input(&mut runtime, 0)?;
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
    let x = input(&mut runtime, 0)?;
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
