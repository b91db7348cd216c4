//! Nodes that read what is lent until the hand-over (law S9): solvers and bounds against brute force.

#[allow(dead_code, reason = "shared with tests that need all of it")]
mod oracle;

use std::time::Duration;

use oracle::{optimum, random_graph_with_loans};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, base_trace, judge, working_set};
use rk_solve::bound::order_free;
use rk_solve::{Request, Solver, solve};

#[test]
fn what_is_lent_is_read_once_and_nothing_better_exists() {
    let limit = Duration::from_secs(60);
    let (mut planned, mut lent, mut again) = (0, 0, 0);
    for seed in 0..60 {
        let graph = random_graph_with_loans(&mut ChaCha8Rng::seed_from_u64(21_000 + seed), 7);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        for budget in [least, (least + most) / 2].map(Bytes) {
            let best = optimum(&graph, budget);
            let bound = order_free(&graph, budget, limit);
            assert!(best.is_none_or(|best| bound.time.0 <= best), "seed {seed}, {budget}");
            for solver in [Solver::States, Solver::Greedy, Solver::Cut] {
                let request = Request { solver, time_limit: limit, ..Request::new(&graph, budget) };
                let Some(plan) = solve(&request).plan else {
                    assert!(solver != Solver::States || best.is_none(), "seed {seed}, {budget}");
                    continue;
                };
                let trace = judge(&graph, &plan.sequence).expect("legal");
                let best = best.expect("there is a plan");
                assert!(trace.time.0 >= best, "seed {seed}, {budget}, {solver}");
                assert!(solver != Solver::States || trace.time.0 == best, "seed {seed}, {budget}");
                planned += 1;
                lent += usize::from(graph.nodes().iter().any(|node| node.lent));
                again += usize::from(plan.sequence.0.len() > graph.len());
            }
        }
    }
    assert!(planned > 100 && lent > 20 && again > 20, "{planned} {lent} {again}");
}
