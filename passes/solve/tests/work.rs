//! A limit that counts work: the plan does not depend on what else the machine does.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rk_plan::{Bytes, base_trace, json};
use rk_solve::synthetic::{Family, graph};
use rk_solve::{Addresses, Outcome, Request, Solver, Timekeeping, solve};

/// An answer while other threads keep all processors busy.
fn under_load(request: &Request) -> Outcome {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let outcome = solve(request);
        done.store(true, Ordering::Relaxed);
        outcome
    })
}

#[test]
fn the_same_work_gives_the_same_plan_under_any_load() {
    for (family, nodes, share) in [(Family::Layered, 120, 45), (Family::Bottleneck, 150, 60)] {
        let graph = graph(family, nodes, 5);
        let budget = Bytes(base_trace(&graph).peak.0 / 100 * share);
        for addresses in [None, Some(Addresses::within(Bytes(1), Duration::from_millis(300)))] {
            let request = Request {
                timekeeping: Timekeeping::Work,
                time_limit: Duration::from_millis(300),
                threads: 2,
                addresses,
                ..Request::new(&graph, budget)
            };
            let (quiet, busy) = (solve(&request), under_load(&request));
            assert!(quiet.plan.is_some(), "{family:?}");
            assert_eq!(quiet.plan, busy.plan, "{family:?}, addresses {addresses:?}");
            assert_eq!(quiet.progress, busy.progress, "{family:?}, addresses {addresses:?}");
            assert_eq!(quiet.lower_bound, busy.lower_bound);
        }
    }
}

/// A network with dropout, small enough for the states of its generator to count, and with costs that a busy machine measured: at 70 %
/// of its peak, whatever fits but for these states does not fit.
#[test]
fn states_of_the_generator_are_room_that_annealing_has_to_leave() {
    let graph = json::read(include_str!("data/dropout.json")).expect("a graph");
    let budget = Bytes(base_trace(&graph).peak.0 / 10 * 7);
    let request = Request {
        timekeeping: Timekeeping::Work,
        time_limit: Duration::from_secs(2),
        ..Request::new(&graph, budget)
    };
    let plan = solve(&request).plan.expect("a plan");
    assert!(plan.trace.peak <= budget);
}

#[test]
fn a_limit_without_end_is_no_panic() {
    let graph = graph(Family::Vgg, 12, 1);
    let budget = Bytes(base_trace(&graph).peak.0 / 10 * 8);
    for timekeeping in [Timekeeping::Wall, Timekeeping::Work] {
        let time_limit = Duration::MAX;
        let request =
            Request { solver: Solver::Checkmate, timekeeping, time_limit, ..Request::new(&graph, budget) };
        solve(&request);
    }
}
