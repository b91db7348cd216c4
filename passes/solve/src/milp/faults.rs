//! Solvers that hang, die, talk nonsense or return points that are none: what each costs the whole portfolio, which must
//! end in time with a plan that the judge accepts and a bound that an honest run does not contradict.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rk_plan::{Bytes, Graph, base_trace, judge};

use crate::synthetic::{Family, graph};
use crate::{Request, Solver, Status, solve};

/// What a child does in place of solving.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    Hangs,
    Dies,
    /// Bytes that are no answer.
    Babbles,
    /// "Optimal, at an enormous cost", with everything at zero.
    PromisesNothing,
    /// The same with everything at one.
    PromisesAll,
}

thread_local! {
    static FAULT: Cell<Option<Fault>> = const { Cell::new(None) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// The fault to commit, if one is asked for in this thread.
pub(super) fn current() -> Option<Fault> {
    CALLS.set(CALLS.get() + 1);
    FAULT.get()
}

impl Fault {
    /// In the child.
    pub(super) fn commit(self, columns: usize) -> Vec<u8> {
        let answer = |value: f64| {
            let numbers = [0.0, 1e9].into_iter().chain(std::iter::repeat_n(value, columns));
            numbers.flat_map(f64::to_le_bytes).collect()
        };
        match self {
            Self::Hangs => loop {
                std::thread::sleep(Duration::from_secs(60));
            },
            Self::Dies => std::process::abort(),
            Self::Babbles => (0..=255).cycle().take(1001).collect(),
            Self::PromisesNothing => answer(0.0),
            Self::PromisesAll => answer(1.0),
        }
    }
}

/// How often the solver was called, and what came out.
fn with(fault: Option<Fault>, request: &Request) -> (u32, crate::Outcome) {
    FAULT.set(fault);
    CALLS.set(0);
    let outcome = solve(request);
    FAULT.set(None);
    (CALLS.get(), outcome)
}

#[test]
fn a_bad_solver_costs_its_share_of_the_time() {
    // Small enough for every program, and with a gap that cuts alone leave open.
    let graph: Graph = graph(Family::Residual, 60, 1);
    let budget = Bytes(base_trace(&graph).peak.0 / 100 * 60);
    // On a slow machine the portfolio may find no time for a program; the oracles are nothing else.
    let mut all_calls = 0;
    for solver in [Solver::Auto, Solver::Cut, Solver::Ilp, Solver::Checkmate] {
        let request =
            Request { solver, time_limit: Duration::from_millis(1500), ..Request::new(&graph, budget) };
        let honest = solve(&Request { time_limit: Duration::from_secs(5), ..request.clone() });
        for fault in [Fault::Hangs, Fault::Dies, Fault::Babbles, Fault::PromisesNothing, Fault::PromisesAll] {
            let start = Instant::now();
            let (calls, outcome) = with(Some(fault), &request);
            let elapsed = start.elapsed();
            all_calls += calls;
            // Who hangs does so for a minute.
            assert!(elapsed < Duration::from_secs(30), "{solver}, {fault:?}: {elapsed:?}");
            assert_ne!(outcome.status, Status::Infeasible, "{solver}, {fault:?}");
            // An honest run that others kept from the processor may have proven little.
            let again =
                || solve(&Request { time_limit: Duration::from_secs(60), ..request.clone() }).lower_bound;
            let (proven, mut can_be) = (outcome.lower_bound, honest.lower_bound);
            if proven > can_be {
                can_be = again();
            }
            assert!(
                proven <= can_be,
                "{solver}, {fault:?}: {proven:?} was proven by nobody, {can_be:?} at most"
            );
            match &outcome.plan {
                Some(plan) => {
                    let trace = judge(&graph, &plan.sequence).unwrap();
                    assert!(trace.peak <= budget, "{solver}, {fault:?}");
                }
                None => assert!(!matches!(solver, Solver::Auto | Solver::Cut), "{solver}, {fault:?}"),
            }
        }
    }
    assert!(all_calls >= 10, "too few programs were solved to show anything");
}
