//! CBC and HiGHS answer the same programs alike: on cuts, chains and the oracles of small random graphs.
#![cfg(feature = "highs")]

#[allow(dead_code, reason = "shared with tests that need all of it")]
mod oracle;

use std::time::Duration;

use oracle::{optimum, random_graph};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, NodeId, Time, base_trace, working_set};
use rk_solve::bound::cut::Cutter;
use rk_solve::bound::fixed_order::fixed_order;
use rk_solve::bound::multi_cut::chain;
use rk_solve::bound::order_free;
use rk_solve::milp::checkmate::Checkmate;
use rk_solve::milp::{End, Milp, MilpSolver, Options};
use rk_solve::{Request, Solver, solve};

const LIMIT: Duration = Duration::from_secs(60);

fn between(graph: &Graph) -> Bytes {
    Bytes((working_set(graph).0.0 + base_trace(graph).peak.0) / 2)
}

/// Both solve it, to the same cost, and each bound is below that cost. Whether there is a solution.
fn agree(milp: &Milp, what: &str) -> bool {
    let [cbc, highs] =
        [MilpSolver::Cbc, MilpSolver::Highs].map(|solver| milp.solve(Options::exact(LIMIT).by(solver)));
    assert_eq!(cbc.end, highs.end, "{what}");
    assert!(matches!(cbc.end, End::Optimal | End::Infeasible), "{what}: {:?}", cbc.end);
    assert_eq!(cbc.cost, highs.cost, "{what}");
    assert!(cbc.bound <= cbc.cost && highs.bound <= highs.cost, "{what}");
    let relaxed = [MilpSolver::Cbc, MilpSolver::Highs].map(|solver| {
        let options = Options { relaxed: true, ..Options::exact(LIMIT).by(solver) };
        milp.solve(options)
    });
    // A relaxation may have a solution where whole numbers have none.
    assert_eq!(relaxed[0].bound, relaxed[1].bound, "{what}");
    cbc.end == End::Optimal
}

#[test]
fn cuts_and_oracles_cost_the_same() {
    let (mut solved, mut refused) = (0, 0);
    let mut count = |found| if found { solved += 1 } else { refused += 1 };
    for seed in 0..150 {
        let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(11_000 + seed), 9);
        let budget = between(&graph);
        let mut cutter = Cutter::new(&graph);
        for at in [graph.len() / 2, graph.len() - 1] {
            let cut = cutter.cut(NodeId::from_index(at), budget);
            if cut.nodes.is_empty() {
                continue;
            }
            let program = cut.to_milp().expect("small numbers");
            count(agree(&program.milp, &format!("seed {seed}, cut at {at}")));
        }
        let program = Checkmate::new(&graph, budget.0).expect("small numbers");
        count(agree(&program.milp, &format!("seed {seed}, checkmate")));
    }
    eprintln!("{solved} solved, {refused} without a solution");
    assert!(solved > 100 && refused > 5, "{solved} solved, {refused} without a solution");
}

#[test]
fn chains_by_either_hold_and_are_as_tight() {
    let (mut cells, mut tight) = (0, [0; 2]);
    for seed in 0..150 {
        let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(12_000 + seed), 7);
        let budget = between(&graph);
        let Some(best) = optimum(&graph, budget).filter(|&best| best > graph.total_time().0) else {
            continue;
        };
        let first = order_free(&graph, budget, LIMIT).node;
        cells += 1;
        for (tight, solver) in tight.iter_mut().zip([MilpSolver::Cbc, MilpSolver::Highs]) {
            let options = Options::exact(LIMIT).by(solver);
            let bound = chain(&graph, budget, first, Some(Time(best)), options);
            let relaxed = fixed_order(&graph, budget, options);
            assert!(bound.time.0 <= best, "seed {seed}, {solver}: {} > {best}", bound.time.0);
            assert!(relaxed.time >= graph.total_time(), "seed {seed}, {solver}");
            *tight += usize::from(bound.time.0 == best);
        }
    }
    eprintln!("{cells} cells; the bound is the optimum in {tight:?}");
    assert!(cells >= 10 && tight[0] == tight[1], "{cells} cells, {tight:?}");
}

#[test]
fn a_request_is_answered_by_either() {
    let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(13_000), 9);
    for solver in [Solver::Ilp, Solver::Checkmate] {
        let plan = |milp| {
            let request =
                Request { solver, milp, time_limit: LIMIT, ..Request::new(&graph, between(&graph)) };
            solve(&request).plan.map(|plan| plan.trace.time)
        };
        assert_eq!(plan(MilpSolver::Cbc), plan(MilpSolver::Highs), "{solver}");
    }
}
