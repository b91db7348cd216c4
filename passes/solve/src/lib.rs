//! Solvers: each proposes a sequence of runs for a graph and a budget; the judge of `rk-plan` decides.
//!
//! [`solve`] is the door. A [`Request`] names a [`Solver`]; the [`Outcome`] carries the best legal plan found, a proven
//! lower bound on the time of every plan with what it assumes, and, when nothing fits, the numbers that would.
//!
//! The clock only stops: everything else is driven by counts of work, so that the same seed gives the same plan whenever
//! the time suffices, and more time never gives a worse one. Progress goes to `tracing`.
//!
//! **Invariants:** no MLIR, no torch. No plan leaves this crate that the judge has not accepted within the budget.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod bounds;
mod clean;
mod clock;
pub mod closure;
pub mod cut;
mod greedy;
pub mod knapsack;
mod maxtree;
mod model;
mod repair;
mod request;
pub mod scan;
mod search;
mod solver;
mod tape;

pub use request::{BoundKind, Outcome, Plan, Request, Status, Stop};
pub use solver::{Solver, UnknownSolver};

use rk_plan::{Sequence, judge, working_set};

/// Plans a step within a budget.
///
/// Never panics on any graph and never returns an illegal plan; see [`Outcome`] for what it does return.
pub fn solve(request: &Request) -> Outcome {
    let graph = request.graph;
    let clock = clock::Clock::new(request.time_limit);
    let (least, peak_holder) = working_set(graph);
    let model = model::Model::new(graph);
    let base: Vec<u32> = (0..graph.len() as u32).collect();
    let budget = request.budget.0 as i64;
    let mut best = greedy::greedy(&model, &base, budget, request.seed, 8, &clock);
    if let Some(b) = &best {
        eprintln!("greedy {} {:?}", 100.0 * (b.cost as f64 / graph.total_time().0 as f64 - 1.0), clock.elapsed());
    }
    if let (Some(b), true) = (&best, request.solver == Solver::Auto) {
        let mut search = search::Search::new(&model, &b.nodes, budget, request.seed);
        search.run(u64::MAX, graph.total_time().0, &clock);
        eprintln!("iterations {}", search.iterations);
        best = Some(search.best.clone());
    }
    let plan = best.and_then(|best| {
        let sequence = model::to_sequence(&best.nodes);
        let trace = judge(graph, &sequence).expect("legal");
        assert!(trace.peak <= request.budget, "{:?} {:?}", trace.peak, request.budget);
        assert_eq!(trace.time.0, best.cost);
        Some(Plan { sequence, trace, solver: Solver::Local })
    });
    let status = match &plan {
        Some(_) => Status::Feasible,
        None if request.budget < least => Status::Infeasible,
        None => Status::Unknown,
    };
    Outcome {
        status,
        plan,
        lower_bound: graph.total_time(),
        bound_kind: BoundKind::OrderFree,
        proven_infeasible_below: least,
        smallest_found: Some(rk_plan::base_trace(graph).peak),
        peak_holder,
        why_stopped: Stop::Exhausted,
    }
}
