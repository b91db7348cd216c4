//! The yardstick against exhaustion, its segments against their recurrence, and the planner against both.

use std::time::Duration;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, base_trace, working_set};
use rk_solve::{Request, Timekeeping, solve};

use super::chain::{Chain, Stage, TICKS, UNIT, host, of_kind};
use super::exhaustive::Exhaustive;
use super::pofo::{Ahead, optimum};
use super::segments::Segments;

fn tiny(random: &mut ChaCha8Rng, stages: usize) -> Chain {
    let stages = (0..stages).map(|_| Stage {
        forward: random.random_range(0..=3),
        backward: random.random_range(1..=4),
        output: random.random_range(1..=3),
        tape: random.random_range(0..=4),
    });
    Chain { name: "tiny".to_owned(), stages: stages.collect() }
}

#[test]
fn labels_find_what_exhaustion_finds() {
    let (mut feasible, mut between) = (0, 0);
    for seed in 0..60 {
        let chain = tiny(&mut ChaCha8Rng::seed_from_u64(seed), 2 + seed as usize % 3);
        let segments = Segments::new(&chain);
        for memory in 4..24 {
            let best = Exhaustive { chain: &chain, segments: &segments, memory }.optimum();
            let found = optimum(&chain, &segments, memory, 1, Ahead::Reserved);
            assert_eq!(found, best, "seed {seed}, memory {memory}: {chain:?}");
            let below = optimum(&chain, &segments, memory, 1, Ahead::Free);
            let is_below = below.is_some_and(|below| best.is_some_and(|best| below <= best));
            assert!(is_below || best.is_none(), "seed {seed}, memory {memory}");
            feasible += usize::from(best.is_some());
            between += usize::from(best.is_some_and(|best| best > chain.time()));
        }
    }
    assert!(feasible > 400 && between > 150, "{feasible} {between}");
}

/// The recurrence of segments for one memory, as its page says it.
fn least(chain: &Chain, from: usize, to: usize, memory: u64) -> Option<u64> {
    let (stage, input, gradient) = (chain.stages[from], chain.input(from), chain.stages[to].output);
    let fits = gradient + chain.forward_need(from) <= memory && chain.backward_need(from) <= memory;
    let own = stage.forward + stage.backward;
    if from == to {
        return fits.then_some(own);
    }
    let inner = memory.checked_sub(input + stage.tape).filter(|_| fits);
    let mut best: Option<u64> =
        inner.and_then(|memory| least(chain, from + 1, to, memory)).map(|time| own + time);
    for cut in from + 1..=to {
        let needs = |run: usize| gradient + chain.forward_need(run) + if run == from { 0 } else { input };
        if (from..cut).any(|run| needs(run) > memory) {
            break;
        }
        let forward: u64 = chain.stages[from..cut].iter().map(|stage| stage.forward).sum();
        let right = memory.checked_sub(input).and_then(|memory| least(chain, cut, to, memory));
        let both = right.zip(least(chain, from, cut - 1, memory));
        best = best.into_iter().chain(both.map(|(right, left)| forward + right + left)).min();
    }
    best
}

#[test]
fn corners_of_segments_are_those_of_their_recurrence() {
    for seed in 0..40 {
        let chain = tiny(&mut ChaCha8Rng::seed_from_u64(100 + seed), 6);
        let segments = Segments::new(&chain);
        for (from, to) in [(0, 5), (1, 4), (2, 5), (3, 3)] {
            for memory in 0..40 {
                let corners = segments.of(from, to).iter();
                let found = corners.filter(|corner| corner.memory <= memory).map(|corner| corner.time).min();
                assert_eq!(found, least(&chain, from, to, memory), "seed {seed}, {from}..{to} in {memory}");
            }
        }
    }
}

#[test]
fn graphs_cost_what_their_chains_do() {
    for kind in super::chain::KINDS {
        let chain = of_kind(kind, 8, 1);
        let graph = chain.graph().expect("a graph");
        assert_eq!(graph.total_time().0, chain.time() * TICKS, "{kind}");
        let segments = Segments::new(&chain);
        let (least, most) = (working_set(&graph).0.0 / UNIT, base_trace(&graph).peak.0 / UNIT);
        assert!(optimum(&chain, &segments, least - 1, 1, Ahead::Free).is_none(), "{kind}");
        assert_eq!(optimum(&chain, &segments, most, 1, Ahead::Reserved), Some(chain.time()), "{kind}");
        assert!(optimum(&chain, &segments, most - 1, 1, Ahead::Reserved).is_some(), "{kind}");
        assert_eq!(host(3).fetch.moved_in(rk_plan::Time(TICKS)).0, 3 * UNIT);
    }
}

/// The whole chain as one segment: forward once for the loss, then as the recurrence says. Recomputation alone has this plan as well.
#[test]
fn the_planner_is_no_slower_than_a_segment_without_a_link() {
    for seed in 0..6 {
        let chain = tiny(&mut ChaCha8Rng::seed_from_u64(200 + seed), 5);
        let graph = chain.graph().expect("a graph");
        let forward: u64 = chain.stages.iter().map(|stage| stage.forward).sum();
        let need = (0..5).map(|stage| chain.forward_need(stage)).max().unwrap_or(0).max(chain.loss_need());
        for corner in Segments::new(&chain).of(0, 4) {
            let budget = Bytes(corner.memory.max(need) * UNIT);
            let request = Request {
                timekeeping: Timekeeping::Work,
                time_limit: Duration::from_millis(300),
                ..Request::new(&graph, budget)
            };
            let plan = solve(&request).plan.expect("a plan");
            assert!(plan.trace.time.0 <= (forward + corner.time) * TICKS, "seed {seed}, {corner:?}");
        }
    }
}
