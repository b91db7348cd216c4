//! The table of order-free bounds over the benchmark graphs: `bound_table DIR [GRAPH@PERCENT]...`.

use std::time::Instant;
use rk_plan::{base_trace, json, Budget};
use rk_solve::{closure, cut, knapsack};

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
        if seen.contains(&cell) || (!wanted.is_empty() && !wanted.iter().any(|w| cell.starts_with(w.as_str()))) { continue }
        seen.push(cell.clone());
        let graph = json::read(&std::fs::read_to_string(format!("{dir}/{}.json", f[0])).unwrap()).unwrap();
        let budget = Budget::Fraction{numerator: percent, denominator: 100}.resolve(base_trace(&graph).peak);
        let base = graph.total_time().0 as f64;
        let start = Instant::now();
        let mut cutter = cut::Cutter::new(&graph);
        let mut all = Vec::new();
        for c in graph.node_ids() {
            let cut = cutter.cut(c, budget);
            if cut.is_trivial() { continue }
            let mut network = closure::Network::new(&cut);
            let fixed = vec![closure::Fixed::Free; cut.nodes.len()];
            let r = closure::relax(&cut, &mut network, &fixed, None, u64::MAX);
            all.push((r.bound.unwrap_or(u64::MAX), c));
        }
        all.sort_by_key(|&(b, c)| (std::cmp::Reverse(b), c));
        let scan = start.elapsed().as_secs_f64();
        let Some(&lp) = all.first() else { println!("{cell:16} no cut"); continue };
        if lp.0 == u64::MAX { println!("{cell:16} infeasible ({}) {scan:.4} s", f[6]); continue }
        let mut best = (0, lp.1, false, 0);
        for &(_, c) in all.iter().take(3) {
            let cut = cutter.cut(c, budget);
            let limits = knapsack::Limits { deadline: Some(Instant::now() + std::time::Duration::from_secs(10)), ..knapsack::Limits::NONE };
            let s = knapsack::solve(&cut, limits);
            let b = s.bound.unwrap_or(u64::MAX);
            if b > best.0 { best = (b, c, s.exact, s.nodes) }
        }
        let pct = |t: u64| 100.0 * t as f64 / base;
        println!("{cell:16} n={:5} LP {:9.4} MILP {:9.4} exact {} nodes {} at {:?} scan {scan:.3} s all {:.3} s | best {} bound {} {}", graph.len(), pct(lp.0), pct(best.0), best.2, best.3, graph.node(best.1).name, start.elapsed().as_secs_f64(), f[6], f[7], f[8]);
    }
}
