//! The table of order-free bounds over the benchmark graphs: `bound_table DIR [GRAPH@PERCENT]...`.

use rk_plan::{Budget, base_trace, json};
use rk_solve::bounds;
use std::time::Instant;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = args.next().expect("usage: bound_table DIR [GRAPH@PERCENT]...");
    let wanted: Vec<String> = args.collect();
    let csv = std::fs::read_to_string(format!("{dir}/best_known.csv")).expect("best_known.csv");
    let mut seen = Vec::new();
    for line in csv.lines().skip(1) {
        let f: Vec<&str> = line.split(',').collect();
        let percent = (f[2].parse::<f64>().unwrap() * 100.0).round() as u64;
        let cell = format!("{}@{percent}", f[0]);
        if seen.contains(&cell)
            || (!wanted.is_empty() && !wanted.iter().any(|w| cell.starts_with(w.as_str())))
        {
            continue;
        }
        seen.push(cell.clone());
        let graph = json::read(&std::fs::read_to_string(format!("{dir}/{}.json", f[0])).unwrap()).unwrap();
        let budget =
            Budget::Fraction { numerator: percent, denominator: 100 }.resolve(base_trace(&graph).peak);
        let base = graph.total_time().0 as f64;
        let start = Instant::now();
        if let Ok(solver) = std::env::var("SOLVE") {
            let mut request = rk_solve::Request::new(&graph, budget);
            request.solver = solver.parse().unwrap();
            request.time_limit = std::time::Duration::from_secs_f64(
                std::env::var("TIME").ok().and_then(|t| t.parse().ok()).unwrap_or(10.0),
            );
            let o = rk_solve::solve(&request);
            let pct = |t: u64| 100.0 * (t as f64 / base - 1.0);
            println!(
                "{cell:16} {:?} plan {:?} bound {:.4} {:?} {:.2} s | best {} bound {} {}",
                o.status,
                o.plan.as_ref().map(|p| (pct(p.trace.time.0), p.solver)),
                pct(o.lower_bound.0),
                o.bound_kind,
                start.elapsed().as_secs_f64(),
                f[6],
                f[7],
                f[8]
            );
            continue;
        }
        let b = bounds::order_free(&graph, budget, std::time::Duration::from_secs(10));
        let known =
            f[6].parse::<f64>().ok().map(|p| rk_plan::Time(((1.0 + p / 100.0) * base).ceil() as u64 + 1));
        if std::env::var("CHAIN").is_ok()
            && !b.is_infeasible()
            && known.is_some_and(|k| k.0 > b.time.0 + 1 + (base * 1e-6) as u64)
        {
            let limit: f64 = std::env::var("CHAIN").ok().and_then(|t| t.parse().ok()).unwrap_or(10.0);
            let start = Instant::now();
            let c = rk_solve::chain::chain(
                &graph,
                budget,
                b.node,
                known,
                std::time::Duration::from_secs_f64(limit),
            );
            let names: Vec<_> = c.cuts.iter().map(|&c| graph.node(c).name.clone()).collect();
            let peak = c
                .start
                .as_ref()
                .map(|s| rk_plan::judge(&graph, s).unwrap())
                .map(|t| (t.peak.0 as f64 / budget.0 as f64, 100.0 * (t.time.0 as f64 / base - 1.0)));
            println!(
                "   chain {:9.4} known {:?} {} cuts {:.2} s start {peak:?} {}",
                100.0 * (c.time.0 as f64 / base - 1.0),
                f[6],
                c.cuts.len(),
                start.elapsed().as_secs_f64(),
                names.join(" ")
            );
        }
        let pct = 100.0 * (b.time.0 - graph.total_time().0) as f64 / base;
        println!(
            "{cell:16} n={:5} {pct:9.4} {:?} at {:?} {:.3} s | best {} bound {} {}",
            graph.len(),
            b.proof,
            graph.node(b.node).name,
            start.elapsed().as_secs_f64(),
            f[6],
            f[7],
            f[8]
        );
    }
}
