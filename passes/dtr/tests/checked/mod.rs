//! What tests of the online entries share: a world that checks what it is told, and what an online world does for one
//! operator.

#![allow(dead_code, reason = "every test file uses a part")]

use rk_dtr::{
    Bytes, CallId, Heuristic, Nanos, Online, Options, Output, Policy, Run, Runtime, Scan, Stop, StorageId,
    TensorId, World,
};

pub type Done<T = ()> = Result<T, Stop<String>>;

/// A world that checks that arguments have values, and notes what runs.
#[derive(Debug, Default)]
pub struct Checked {
    pub values: Vec<bool>,
    pub runs: Vec<CallId>,
    pub fail: bool,
}

impl Checked {
    pub fn store(&mut self, first: TensorId, count: usize) {
        self.values.resize(self.values.len().max(first.index() + count), false);
        self.values[first.index()..first.index() + count].fill(true);
    }
}

impl World for Checked {
    type Error = String;

    fn run(&mut self, run: &Run<'_>) -> Result<Nanos, String> {
        assert!(run.args.iter().all(|a| self.values[a.index()]), "an argument has no value");
        if self.fail {
            return Err("the device is gone".to_owned());
        }
        self.store(run.first_output, run.outputs);
        run.joined.iter().for_each(|&t| self.store(t, 1));
        self.runs.push(run.call);
        Ok(run.expected)
    }

    fn evict(&mut self, _: StorageId, tensors: impl Iterator<Item = TensorId>) {
        tensors.for_each(|t| self.values[t.index()] = false);
    }

    fn forget(&mut self, _: CallId, outputs: impl Iterator<Item = TensorId>) {
        // What was deferred and never ran has none.
        outputs.for_each(|t| self.values.get_mut(t.index()).into_iter().for_each(|value| *value = false));
    }
}

pub fn options(heuristic: Heuristic, budget: u64) -> Options {
    Options {
        heuristic,
        policy: Policy::Eager,
        budget: Bytes(budget),
        remat_limit: Nanos::UNLIMITED,
        scan: Scan::Pruned,
        seed: 0,
        online: Online::ON,
    }
}

pub fn fresh(size: u64) -> Output {
    Output::Fresh(Bytes(size))
}

/// What an online world does for one operator.
pub fn call(
    runtime: &mut Runtime<Checked>,
    took: u64,
    args: &[TensorId],
    outputs: &[Output],
) -> Done<TensorId> {
    runtime.hold(args)?;
    let call = runtime.record(Nanos(took), args, outputs);
    let first = runtime.first_output(call);
    runtime.world_mut().store(first, outputs.len());
    runtime.observe(call, took);
    runtime.let_go(args);
    runtime.trim()?;
    Ok(first)
}

pub fn constant(runtime: &mut Runtime<Checked>, size: u64) -> TensorId {
    let tensor = runtime.constant(Bytes(size)).expect("it fits");
    runtime.get(tensor);
    runtime.world_mut().store(tensor, 1);
    runtime.let_go(&[tensor]);
    tensor
}
