//! What is in memory, and why: stacks add up to what the judge counts, with recomputation and with transfers.

use std::time::Duration;

use rk_plan::{
    Budget, Bytes, Direction, Engine, Graph, Host, NodeId, Sequence, Time, Transfer, ValueId, base_trace,
    judge, judge_transfers, text,
};
use rk_report::{Category, Life, Timeline};
use rk_solve::synthetic::{self, Family};
use rk_solve::{Request, Timekeeping, solve, solve_with_transfers};

fn read(text: &str) -> Graph {
    text::read(text).unwrap_or_else(|error| panic!("{error}"))
}

fn check_sums(timeline: &Timeline) {
    let stacks = timeline.stacks();
    for (run, memory) in timeline.memory.iter().enumerate() {
        let sum: u64 = stacks.iter().map(|stack| stack[run]).sum();
        assert_eq!(Bytes(sum), *memory, "run {run}");
    }
    assert_eq!(timeline.starts.len(), timeline.runs.len() + 1);
    assert!(timeline.starts.is_sorted());
}

/// Name, first and last run of what has a category.
fn of(timeline: &Timeline, category: Category) -> Vec<(&str, usize, usize)> {
    let mine = timeline.lives.iter().filter(|life| life.category == category);
    mine.map(|Life { name, first, last, .. }| (name.as_str(), *first, *last)).collect()
}

#[test]
fn every_life_has_its_reason() {
    let graph = read(
        "a 8 1 fwd ws=2 state=1; b(a) 4 1 fwd; c(b) 4 1 fwd; loss(c) 1 1 fwd; dc(loss, c) 4 1 bwd; db(dc, a) 4 1 bwd pin",
    );
    let kept = Timeline::base(&graph);
    check_sums(&kept);
    assert_eq!(of(&kept, Category::Saved), [("a", 0, 5), ("c", 2, 4), ("loss", 3, 4)]);
    assert_eq!(of(&kept, Category::Activations), [("b", 1, 2)]);
    assert_eq!(of(&kept, Category::Gradients), [("dc", 4, 5), ("db", 5, 5)]);
    assert_eq!(of(&kept, Category::Workspace), [("a, workspace", 0, 0)]);
    assert!(of(&kept, Category::States).is_empty() && of(&kept, Category::Recomputed).is_empty());

    let twice = Sequence([0, 1, 2, 3, 4, 0, 5].map(NodeId).into());
    let again = Timeline::of(&graph, &twice, &judge(&graph, &twice).expect("legal"));
    check_sums(&again);
    assert_eq!(of(&again, Category::Saved), [("c", 2, 4), ("loss", 3, 4)]);
    assert_eq!(of(&again, Category::Activations), [("a", 0, 1), ("b", 1, 2)]);
    assert_eq!(of(&again, Category::Recomputed), [("a", 5, 6)]);
    assert_eq!(of(&again, Category::States), [("a, state", 0, 5)]);
    assert_eq!((again.peak(), again.during(6)[0].name.as_str()), (6, "a"));
}

#[test]
fn what_is_on_its_way_is_told_from_what_is_used() {
    let graph = read("a 8 1 fwd; b(a) 4 1 fwd; c(b) 4 1 fwd; d(c) 4 1 bwd; e(d) 4 1 bwd; f(e, a) 1 1 bwd");
    let engine = Engine { bytes: 1, ticks: 1, latency: Time(0) };
    let host = Host { offload: engine, fetch: engine, budget: None };
    let transfer = |direction, start, end| Transfer { value: ValueId(0), direction, start, end };
    let transfers = [transfer(Direction::Offload, 1, 3), transfer(Direction::Fetch, 4, 5)];
    let base = Sequence::base(&graph);
    let trace = judge_transfers(&graph, &base, &transfers, &host).expect("legal");
    let timeline = Timeline::with_transfers(&graph, &base, &transfers, &trace);
    check_sums(&timeline);
    // Used by run 1, and on its way out during run 2; on its way back during run 4, and used by run 5.
    assert_eq!(of(&timeline, Category::Transfers), [("a", 2, 2), ("a", 4, 4)]);
    assert_eq!(of(&timeline, Category::Activations), [("a", 0, 1), ("b", 1, 2)]);
    assert_eq!(of(&timeline, Category::Saved), [("c", 2, 3), ("a", 5, 5)]);
    let fetched: Vec<usize> =
        timeline.lives.iter().filter(|life| life.fetched).map(|life| life.first).collect();
    assert_eq!((fetched, timeline.host.len()), (vec![4], 6));
    assert_eq!(timeline.starts.last(), Some(&trace.makespan));
}

#[test]
fn stacks_add_up_to_what_the_judge_counts() {
    let half = Budget::parse_with_fractions("50%").expect("a budget");
    let mut seen = [false; 2];
    for (family, seed) in Family::ALL.into_iter().flat_map(|family| [(family, 0), (family, 1)]) {
        let graph = synthetic::graph(family, 120, seed);
        check_sums(&Timeline::base(&graph));
        let base = base_trace(&graph);
        let request = Request {
            time_limit: Duration::from_millis(100),
            timekeeping: Timekeeping::Work,
            ..Request::new(&graph, half.resolve(base.peak))
        };
        if let Some(plan) = solve(&request).plan {
            let timeline = Timeline::of(&graph, &plan.sequence, &plan.trace);
            check_sums(&timeline);
            seen[0] |= timeline.lives.iter().any(|life| life.category == Category::Recomputed);
        }
        // A link that moves the peak in half of the step.
        let engine = Engine { bytes: base.peak.0, ticks: graph.total_time().0 / 2, latency: Time(0) };
        let host = Host { offload: engine, fetch: engine, budget: None };
        if let Some(plan) = solve_with_transfers(&request, &host).plan {
            let timeline = Timeline::with_transfers(&graph, &plan.sequence, &plan.transfers, &plan.trace);
            check_sums(&timeline);
            seen[1] |= timeline.lives.iter().any(|life| life.category == Category::Transfers);
        }
    }
    assert_eq!(seen, [true, true], "some plan has recomputations, and some has transfers");
}
