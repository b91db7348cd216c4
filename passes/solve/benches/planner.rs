//! Speed goals of the planner: an edit against a replay, the first plan, the bound, the whole portfolio, from 1,000 to 10,000
//! nodes of a residual network.

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use rk_plan::{Budget, Bytes, Graph, Sequence, base_trace, judge};
use rk_solve::bound::order_free;
use rk_solve::state::edits::Edits;
use rk_solve::synthetic::{Family, graph};
use rk_solve::{Request, Solver, solve};

const SIZES: [usize; 3] = [1_000, 4_000, 10_000];
const EDITS: usize = 1_000;

fn budget(graph: &Graph, fraction: &str) -> Bytes {
    Budget::parse_with_fractions(fraction).expect("a fraction").resolve(base_trace(graph).peak)
}

fn incremental(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("evaluate");
    for size in SIZES {
        let graph = graph(Family::Residual, size, 0);
        let base = Sequence::base(&graph);
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::new("replay", size), |bencher| {
            bencher.iter(|| judge(black_box(&graph), &base).map(|trace| trace.peak));
        });
        let edits = Edits::new(&graph, &base);
        group.throughput(Throughput::Elements(EDITS as u64));
        group.bench_function(BenchmarkId::new("edits", size), |bencher| {
            bencher.iter(|| {
                let mut most = Bytes(0);
                edits.run(EDITS, 1, |peak, _| most = most.max(peak));
                most
            });
        });
    }
}

fn parts(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parts");
    group.sample_size(10);
    for size in SIZES {
        let graph = graph(Family::Residual, size, 0);
        let half = budget(&graph, "0.5");
        group.bench_function(BenchmarkId::new("first plan", size), |bencher| {
            let request = Request { solver: Solver::Greedy, ..Request::new(&graph, half) };
            bencher.iter(|| solve(&request).plan.map(|plan| plan.trace.time));
        });
        group.bench_function(BenchmarkId::new("bound", size), |bencher| {
            bencher.iter(|| order_free(&graph, half, Duration::from_secs(60)).time);
        });
    }
}

fn portfolio(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("portfolio");
    group.sample_size(10);
    for size in SIZES {
        let graph = graph(Family::Residual, size, 0);
        for fraction in ["0.5", "0.3"] {
            let request = Request {
                time_limit: Duration::from_millis(size as u64),
                ..Request::new(&graph, budget(&graph, fraction))
            };
            group.bench_function(BenchmarkId::new(fraction, size), |bencher| {
                bencher.iter(|| solve(&request).plan.map(|plan| plan.trace.time));
            });
        }
    }
}

criterion_group!(benches, incremental, parts, portfolio);
criterion_main!(benches);
