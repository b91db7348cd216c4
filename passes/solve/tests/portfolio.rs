//! The portfolios as a whole: each strategy can be left out, and nothing that is known gets lost.

use std::time::Duration;

use rk_plan::{Bytes, base_trace, judge};
use rk_solve::synthetic::{Family, graph};
use rk_solve::{Request, Solver, StrategyNames, Timekeeping, solve, strategies};

#[test]
fn every_portfolio_answers_without_any_one_of_its_strategies() {
    let graph = graph(Family::Bottleneck, 100, 5);
    let budget = Bytes(base_trace(&graph).peak.0 / 100 * 50);
    for solver in [Solver::Auto, Solver::Local, Solver::Cut] {
        for (name, why) in strategies() {
            let request = Request {
                solver,
                without: name.parse().expect("a strategy"),
                timekeeping: Timekeeping::Work,
                time_limit: Duration::from_millis(100),
                ..Request::new(&graph, budget)
            };
            let found = solve(&request);
            assert!(!why.is_empty() && found.lower_bound >= graph.total_time());
            let Some(plan) = found.plan else {
                // The solver `cut` has no local search to make up for its first plan.
                assert!(
                    solver == Solver::Cut && name == "first-plan",
                    "{solver} without {name} finds nothing"
                );
                continue;
            };
            assert!(judge(&graph, &plan.sequence).expect("legal").peak <= budget);
            assert!(found.lower_bound <= plan.trace.time);
        }
    }
}

#[test]
fn no_step_takes_a_plan_or_a_bound_back() {
    for (family, percent) in [(Family::Layered, 60), (Family::UNet, 45)] {
        let graph = graph(family, 150, 4);
        let budget = Bytes(base_trace(&graph).peak.0 / 100 * percent);
        let request = Request {
            timekeeping: Timekeeping::Work,
            time_limit: Duration::from_millis(500),
            ..Request::new(&graph, budget)
        };
        let found = solve(&request);
        assert!(found.progress.len() > 2, "{}", found.progress.len());
        for steps in found.progress.windows(2) {
            assert!(steps[0].at <= steps[1].at && steps[0].bound <= steps[1].bound);
            assert!(steps[1].plan.is_some() >= steps[0].plan.is_some());
            assert!(steps[1].plan.zip(steps[0].plan).is_none_or(|(after, before)| after <= before));
        }
        let last = found.progress.last().and_then(|step| step.plan);
        assert_eq!(found.plan.map(|plan| plan.trace.time), last);
    }
}

#[test]
fn what_is_switched_off_is_part_of_the_question() {
    let graph = graph(Family::Vgg, 20, 1);
    let request = Request::new(&graph, base_trace(&graph).peak);
    let without: StrategyNames = "proofs".parse().expect("a strategy");
    let other = Request { without, ..request.clone() };
    assert_ne!(rk_solve::question(&request), rk_solve::question(&other));
}
