//! What one run of the simulator takes: recorded logs, one heuristic, one budget.
//!
//! The logs are those that the tests read (`tests/data`); without them nothing is measured, and that is said. `h_dtr_eq` at
//! several ratios, `h_dtr` with exact neighbourhoods at one, `h_dtr_eq` with recurring segments at one. Reading and
//! the baseline are not part of it.
//! Not here: the decisions of an online runtime (`cargo bench -p rk-dtr`), all cells at once (`rk-simrd timing`).

#[allow(dead_code, reason = "tables are for tests")]
#[path = "../tests/data/mod.rs"]
mod data;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use rk_dtr::{Heuristic, Policy, Scan};
use rk_simrd::{Cell, Model, Task, find_logs};
use std::hint::black_box;

fn models() -> Vec<Model> {
    let Some(folder) = data::folder() else { return Vec::new() };
    let logs = find_logs(&folder).expect("a folder with logs");
    logs.iter().map(|log| Model::read(log).expect("a log that can be read")).collect()
}

fn cells(criterion: &mut Criterion) {
    let task = |heuristic, ratio, segments| Task {
        policy: Policy::Eager,
        heuristic,
        ratio,
        seed: 0,
        scan: Scan::Pruned,
        segments,
    };
    let mut group = criterion.benchmark_group("simulator");
    group.sample_size(10);
    for model in models() {
        let tasks = [0.2, 0.3, 0.5, 0.8]
            .map(|ratio| ("h_dtr_eq", task(Heuristic::DTR_EQ, ratio, false)))
            .into_iter()
            .chain([("h_dtr", task(Heuristic::DTR, 0.5, false))])
            .chain([("segments", task(Heuristic::DTR_EQ, 0.5, true))]);
        for (name, task) in tasks {
            let name = BenchmarkId::new(name, format!("{}@{}", model.name, task.ratio));
            group.bench_function(name, |bencher| bencher.iter(|| black_box(Cell::run(&model, task))));
        }
    }
    group.finish();
}

criterion_group!(benches, cells);
criterion_main!(benches);
