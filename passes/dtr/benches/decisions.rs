//! What the core takes per operator call of an online world: linking, locking, choosing victims, forgetting.
//!
//! The world does nothing, so all that is measured is decision time. The steps are training steps of a recurrent cell:
//! small operators with views and in-place sums, forward and backward, so that a thousand storages are in the pool.
//! The element is one operator call of the program: divide nothing.
//! Not here: the operators themselves, Python.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rk_dtr::{Bytes, Heuristic, Nanos, Online, Options, Output, Policy, Runtime, Scan, Stop, TensorId};
use std::hint::black_box;

/// Cells per step; 10 calls each, forward and backward.
const CELLS: u64 = 512;

fn call(runtime: &mut Runtime<()>, took: u64, args: &[TensorId], output: Output) -> Result<TensorId, Stop> {
    runtime.hold(args)?;
    if let Output::Fresh(size) = output {
        runtime.make_room(size)?;
    }
    let linked = runtime.record(Nanos(took), args, &[output]);
    runtime.let_go(args);
    runtime.trim()?;
    Ok(runtime.first_output(linked))
}

/// One training step: `CELLS` cells forward, then backward.
fn step(runtime: &mut Runtime<()>, weight: TensorId) -> Result<(), Stop> {
    let fresh = |bytes| Output::Fresh(Bytes(bytes));
    let mut state = call(runtime, 50, &[weight], fresh(400))?;
    let mut saved = Vec::new();
    for turn in 0..CELLS {
        let gates = call(runtime, 9000 + turn, &[state, weight], fresh(1200))?;
        let input = call(runtime, 800, &[gates], Output::View(0))?;
        let forget = call(runtime, 800, &[gates], Output::View(0))?;
        let cell = call(runtime, 1500, &[input, state], fresh(400))?;
        let next = call(runtime, 1700, &[cell, forget], fresh(400))?;
        for dead in [gates, cell, state] {
            runtime.release(dead)?;
        }
        saved.push([input, forget, next]);
        runtime.get(next);
        state = next;
    }
    let mut gradient = state;
    for [input, forget, next] in saved.into_iter().rev() {
        let a = call(runtime, 2500, &[gradient, forget], fresh(400))?;
        let b = call(runtime, 2500, &[a, input], fresh(400))?;
        let c = call(runtime, 8000, &[b, next, weight], fresh(1200))?;
        let d = call(runtime, 9000, &[c, weight], fresh(400))?;
        for dead in [gradient, a, b, c, input, forget, next] {
            runtime.release(dead)?;
        }
        gradient = d;
    }
    runtime.release(gradient)
}

fn runtime(heuristic: &str, budget: Bytes) -> Result<(Runtime<()>, TensorId), Box<dyn std::error::Error>> {
    let options = Options {
        heuristic: heuristic.parse::<Heuristic>()?,
        policy: Policy::Eager,
        budget,
        remat_limit: Nanos::UNLIMITED,
        scan: Scan::Pruned,
        seed: 0,
        online: Online::ON,
    };
    let mut runtime = Runtime::new(options, ());
    let weight = runtime.constant(Bytes(0))?;
    runtime.get(weight);
    runtime.let_go(&[weight]);
    Ok((runtime, weight))
}

fn decisions(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("online");
    group.throughput(Throughput::Elements(CELLS * 9 + 1)).sample_size(20);
    let (mut free, weight) = runtime("h_dtr_eq", Bytes::UNLIMITED).expect("a known name");
    step(&mut free, weight).expect("no limit");
    let peak = free.counters().max_memory.0;
    for heuristic in ["h_dtr_eq", "h_dtr", "h_dtr_local", "h_lru"] {
        for percent in [100, 60, 40, 20] {
            let budget = Bytes(peak * percent / 100);
            let (mut runtime, weight) = runtime(heuristic, budget).expect("a known name");
            let name = BenchmarkId::new(heuristic, format!("{percent}%"));
            group.bench_function(name, |bencher| {
                bencher.iter(|| black_box(step(&mut runtime, weight)).expect("the budget suffices"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, decisions);
criterion_main!(benches);
