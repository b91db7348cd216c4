//! No schedule beats a bound: hundreds of tiny graphs against exhaustive search.

mod oracle;

use std::time::Duration;

use oracle::{optimum, random_graph};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, base_trace, working_set};
use rk_solve::bounds::{Proof, order_free};

/// The budgets between what is surely impossible and what is surely enough.
fn budgets(graph: &Graph) -> impl Iterator<Item = Bytes> {
    let (least, most) = (working_set(graph).0.0, base_trace(graph).peak.0);
    (least.saturating_sub(1)..=most).map(Bytes)
}

#[test]
fn no_schedule_beats_the_cut_bound() {
    let (mut cells, mut tight, mut recomputed, mut refuted) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 7);
        for budget in budgets(&graph) {
            let bound = order_free(&graph, budget, Duration::from_secs(3600));
            let Some(best) = optimum(&graph, budget) else {
                refuted += usize::from(bound.is_infeasible());
                continue;
            };
            assert!(!bound.is_infeasible(), "seed {seed}, {budget}: a schedule exists, {:?}", bound.proof);
            assert!(bound.time.0 <= best, "seed {seed}, {budget}: bound {} > optimum {best}", bound.time.0);
            assert_ne!(bound.proof, Proof::WorkingSet);
            cells += 1;
            if best > graph.total_time().0 {
                recomputed += 1;
                tight += usize::from(bound.time.0 == best);
            }
        }
    }
    eprintln!(
        "{cells} cells with a schedule, {recomputed} need recomputation, bound tight in {tight}; {refuted} refuted"
    );
    // The bound must also be worth something.
    assert!(recomputed > 100 && tight * 3 > recomputed, "{tight} of {recomputed}");
}
