//! Solvers: each proposes a sequence of runs for a graph and a budget; the judge of `rk-plan` decides.
//!
//! [`solve`] is the door. A [`Request`] names a [`Solver`]; the [`Outcome`] carries the best legal plan found, a proven
//! lower bound on the time of every plan with what it assumes, and, when nothing fits, the numbers that would.
//!
//! The clock only stops: everything else is driven by counts of work, so that the same seed gives the same plan whenever
//! the time suffices, and always where the limit counts work ([`Timekeeping`]). More time seldom gives a worse one; where plans do not pack by themselves and luck decides, four times as
//! much never does (`packed.rs`). Progress goes to `tracing`.
//!
//! **Invariants:** no MLIR, no torch. No plan leaves this crate that the judge has not accepted within the budget.

// `milp` alone may: it starts a child process.
#![deny(unsafe_code)]
#![deny(missing_docs)]

mod along;
mod anneal;
mod auto;
mod baseline;
pub mod blocks;
pub mod bounds;
mod branches;
pub mod chain;
pub mod checkmate;
mod checkpoint;
mod classes;
mod clean;
mod clock;
pub mod closure;
mod coarse;
mod compact;
mod cooled;
pub mod cut;
mod demand;
pub mod dtr;
pub mod edits;
mod frontier;
mod greedy;
mod halving;
mod instances;
#[cfg(test)]
mod instances_tests;
mod interleaved;
mod joint;
pub mod kcut;
pub mod knapsack;
mod line;
#[cfg(test)]
mod line_tests;
mod links;
mod maxtree;
pub mod milp;
mod model;
mod order;
mod packed;
mod pareto;
mod placed;
mod pressure;
mod prove;
mod record;
mod relaxed;
mod relieve;
mod repair;
mod replay;
mod request;
pub mod rockmate;
pub mod rotor;
pub mod scan;
mod search;
mod shelf;
mod smallest;
mod solver;
mod stage_ilp;
mod starts;
mod states;
pub mod synthetic;
mod tape;
#[cfg(test)]
mod tape_tests;
mod task;
mod wait;

pub use checkpoint::checkpoint;
pub use instances::{Choice, Event, Instance, Run, Unmet, Variant, choose};
pub use milp::{MilpSolver, UnknownMilpSolver};
pub use packed::{packing_time, packs_easily};
pub use pareto::pareto;
pub use placed::{Spare, with_addresses};
pub use record::{REVISION, Record, question};
pub use request::{
    Addresses, BoundKind, Outcome, Plan, Progress, Request, Status, Stop, Timekeeping, UnknownTimekeeping,
};
pub use solver::{Solver, UnknownSolver};

use rk_plan::judge;
use task::Task;

/// Plans a step within a budget.
///
/// Never panics on any graph and never returns an illegal plan; see [`Outcome`] for what it does return.
pub fn solve(request: &Request) -> Outcome {
    request.timekeeping.keep(|| match request.addresses {
        Some(addresses) => packed::solve(request, addresses),
        None => solve_logical(request),
    })
}

/// The same for the logical peak.
fn solve_logical(request: &Request) -> Outcome {
    let mut task = Task::new(request);
    solve_task(&mut task);
    task.outcome()
}

/// The same from the plans of a budget near by, without a look at anything else.
fn solve_nearby(request: &Request) -> Outcome {
    let mut task = Task::new(request);
    warm_up(&mut task);
    if !task.is_settled() {
        auto::nearby(&mut task);
    }
    task.outcome()
}

/// Repairs the starts of the request that need more than the budget.
fn warm_up(task: &mut Task) {
    for (solver, sequence) in &task.request.starts {
        if task.is_settled() || judge(task.request.graph, sequence).is_err() {
            continue;
        }
        let nodes = model::from_sequence(sequence);
        let found = greedy::greedy(&task.model, &nodes, task.budget, task.request.seed, REPAIRS, &task.clock);
        if let Some(best) = found {
            task.offer(&best.nodes, *solver);
        }
    }
}

/// Randomised repairs of each start.
const REPAIRS: u32 = 2;

fn solve_task(task: &mut Task) {
    warm_up(task);
    if task.is_settled() {
        return;
    }
    match task.request.solver {
        Solver::KeepAll => {}
        Solver::DropAll => baseline::drop_all(task),
        Solver::Greedy => auto::greedy(task),
        Solver::Local => auto::local(task),
        Solver::Cut => auto::cut(task),
        Solver::Ilp => stage_ilp::stage_ilp(task),
        Solver::Rotor => rotor::rotor(task),
        Solver::Rockmate => rockmate::rockmate(task),
        Solver::Classes => classes::classes(task),
        Solver::Dtr => dtr::portfolio(task),
        Solver::Checkmate => checkmate::checkmate(task),
        Solver::States => prove::by_states_alone(task),
        _ => auto::portfolio(task),
    }
}
