//! Solvers: each proposes a sequence of runs for a graph and a budget; the judge of `rk-plan` decides.
//!
//! [`solve`] is the door. A [`Request`] names a [`Solver`]; the [`Outcome`] carries the best legal plan found, a proven
//! lower bound on the time of every plan with what it assumes, and, when nothing fits, the numbers that would.
//!
//! The solver `auto` is a table of strategies, `portfolio/auto.rs`, which a scheduler runs: see there for what happens when, how to add a
//! strategy and how to switch one off. Searches count their work. The clock ends them, and divides what is left of a limit among starts,
//! proofs, the search and the packing (docs/design/planner.md, section 2). So the same seed gives the same plan where every part ends before its time does, and
//! always where the limit counts work ([`Timekeeping`]). More time seldom gives a worse one; where plans do not pack by themselves and luck
//! decides, four times as much never does (`layout/fit_budget.rs`). Progress goes to `tracing`.
//!
//! | folder | what is in it |
//! |---|---|
//! | `portfolio` | a request while it is solved; `auto`, which is what users get; the scheduler and the clock |
//! | `construct` | first plans |
//! | `chain_dp` | dynamic programs along a chain of blocks |
//! | `improve` | local search, annealing, and races among them |
//! | `bound` | lower bounds, and proofs |
//! | `milp` | mixed integer programs, and the exact models made of them |
//! | `layout` | plans whose buffers have addresses |
//! | `transfers` | plans in which values wait in host memory, beside recomputation |
//! | `params` | the numbers that tune the search, each with its unit and effect |
//! | `patience` | how long a step is planned for, and when again with more time |
//! | `state` | the graph as arrays, and sequences that know their time and memory |
//!
//! **Invariants:** no MLIR, no torch. No plan leaves this crate that the judge has not accepted within the budget.

// `milp` alone may: it starts a child process.
#![deny(unsafe_code)]
#![deny(missing_docs)]

pub mod bound;
pub mod chain_dp;
pub mod construct;
mod improve;
mod instances;
#[cfg(test)]
mod instances_tests;
mod layout;
pub mod milp;
mod params;
mod patience;
mod portfolio;
pub mod state;
pub mod synthetic;
mod transfers;

pub use chain_dp::save_budgets::{SaveBudgets, Spread, UnknownSpread};
pub use construct::checkpoint::checkpoint;
pub use instances::{Choice, Event, Instance, Run, Unmet, Variant, choose};
pub use layout::assign_addresses::{packing_time, with_addresses};
pub use layout::fit_budget::packs_easily;
pub use milp::{MilpSolver, UnknownMilpSolver};
pub use params::{Knob, Params, ParamsError};
pub use patience::{Goal, Patience, TimeLimit, UnknownGoal};
pub use portfolio::memo::{REVISION, Record, question};
pub use portfolio::pareto::pareto;
pub use portfolio::request::{
    Addresses, BoundKind, Outcome, Plan, Progress, Request, Spare, Status, Stop, StrategyNames, Timekeeping,
    UnknownTimekeeping,
};
pub use portfolio::solver::{Solver, UnknownSolver};
pub use portfolio::switches::{UnknownStrategy, strategies};
pub use transfers::{TransferOutcome, TransferPlan, solve_with_transfers};

use chain_dp::{classes, rockmate, rotor};
use construct::{baseline, dtr, greedy};
use layout::fit_budget;
use milp::{checkmate, stages};
use portfolio::incumbent::Incumbent;
use portfolio::{auto, first_attempt, min_feasible_budget, prover, scheduler, smaller_portfolios};
use rk_plan::judge;
use state::flat_graph;

/// Plans a step within a budget.
///
/// Never panics on any graph and never returns an illegal plan; see [`Outcome`] for what it does return.
pub fn solve(request: &Request) -> Outcome {
    request.timekeeping.keep(|| match request.addresses {
        Some(addresses) => fit_budget::solve(request, addresses),
        None => solve_logical(request),
    })
}

/// The same for the logical peak.
fn solve_logical(request: &Request) -> Outcome {
    let mut task = Incumbent::new(request);
    solve_task(&mut task);
    answer(task)
}

/// The same from the plans of a budget near by, without a look at anything else.
fn solve_nearby(request: &Request) -> Outcome {
    let mut task = Incumbent::new(request);
    warm_up(&mut task);
    if !task.is_settled() {
        scheduler::run(&mut task, smaller_portfolios::nearby());
    }
    answer(task)
}

/// What is known in the end; without a plan also what would fit.
fn answer(mut task: Incumbent) -> Outcome {
    if task.plan.is_none() {
        min_feasible_budget::search(&mut task);
    }
    task.outcome()
}

/// Repairs the starts of the request that need more than the budget.
fn warm_up(task: &mut Incumbent) {
    for (solver, sequence) in &task.request.starts {
        if task.is_settled() || judge(task.request.graph, sequence).is_err() {
            continue;
        }
        let nodes = flat_graph::from_sequence(sequence);
        let found = greedy::greedy(&task.model, &nodes, task.budget, task.request.seed, REPAIRS, &task.clock);
        if let Some(best) = found {
            task.offer(&best.nodes, *solver);
        }
    }
}

/// Randomised repairs of each start.
const REPAIRS: u32 = 2;

fn solve_task(task: &mut Incumbent) {
    warm_up(task);
    if task.is_settled() {
        return;
    }
    match task.request.solver {
        Solver::KeepAll => {}
        Solver::DropAll => baseline::drop_all(task),
        Solver::Greedy => first_attempt::from_any_order(task),
        Solver::Local => scheduler::run(task, smaller_portfolios::local(&task.request.params)),
        Solver::Cut => scheduler::run(task, smaller_portfolios::cut()),
        Solver::Ilp => stages::stage_ilp(task),
        Solver::Rotor => rotor::rotor(task),
        Solver::Rockmate => rockmate::rockmate(task),
        Solver::Classes => classes::classes(task),
        Solver::Dtr => dtr::portfolio(task),
        Solver::Checkmate => checkmate::checkmate(task),
        Solver::States => {
            first_attempt::first_attempt(task);
            prover::by_states_alone(task);
        }
        Solver::Auto => scheduler::run(task, auto::auto(&task.request.params)),
    }
}
