//! The scheduler: runs the strategies of a table until plan and bound meet, the time is over, or nothing is left to do.
//!
//! It sweeps through the table, and every row whose occasion is there and whose strategy is due makes one step. So the order of the rows
//! is the order of the steps. What it decides by is counted: rounds, and what they gained. The clock says when the time is over, how much of
//! it a row gets that does not count its work, and whether enough is left for a step to be worth it. Where the clock counts work
//! too ([`crate::Timekeeping::Work`]), the same request makes the same steps on every machine.
//!
//! More steps never give a worse answer: the incumbent keeps the best plan and the best bound that anybody offered, and no strategy can
//! take them back.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use crate::improve::lns::Solution;
use crate::milp::Spent;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::strategy::Row;

/// What a strategy has brought so far, for the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Earned {
    /// Ticks by which plans got faster.
    plan: u64,
    /// Ticks by which the bound rose.
    bound: u64,
    spent: Duration,
}

/// Runs a table.
pub(crate) fn run(task: &mut Incumbent, table: Vec<Row>) {
    run_from(task, &[], table);
}

/// Runs a table on a race that has starts already. The rows that were not switched off, which know their steps.
pub(crate) fn run_from(task: &mut Incumbent, starts: &[Solution], mut table: Vec<Row>) -> Vec<Row> {
    table.retain(|row| !task.request.without.contains(row.name()));
    let (graph, model) = (task.request.graph, Arc::clone(&task.model));
    let mut board = Blackboard::new(graph, &model, &task.request.params);
    board.enter_starts(task, starts);
    let mut earned = vec![Earned::default(); table.len()];
    while sweep(task, &mut board, &mut table, &mut earned).is_continue() {}
    for (row, earned) in table.iter().zip(&earned).filter(|(row, _)| row.steps() > 0) {
        tracing::debug!(name = row.name(), steps = row.steps(), ?earned, "strategy");
    }
    table
}

/// Steps every row that is due, once. Breaks where that was the last sweep.
fn sweep(
    task: &mut Incumbent,
    board: &mut Blackboard,
    table: &mut [Row],
    earned: &mut [Earned],
) -> ControlFlow<()> {
    board.round.is_fresh = false;
    let mut idle = true;
    for (row, earned) in table.iter_mut().zip(earned) {
        if !row.is_due(task, board) {
            continue;
        }
        idle = false;
        let (plan, bound, began) = (task.best_cost(), task.bound, Spent::now());
        let flow = row.step(task, board);
        earned.spent += began.elapsed();
        earned.bound += task.bound.0.saturating_sub(bound.0);
        earned.plan += plan.zip(task.best_cost()).map_or(0, |(before, after)| before.saturating_sub(after));
        if task.is_settled() {
            return ControlFlow::Break(());
        }
        flow?;
    }
    if idle || board.time_is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

#[cfg(test)]
mod tests {
    use rk_plan::{Bytes, Graph, base_trace};

    use super::*;
    use crate::chain_dp::coarse::BLOCKS;
    use crate::portfolio::auto::auto;
    use crate::portfolio::first_attempt::first_attempt;
    use crate::portfolio::late_starts::{AnnealedOrders, WaitingReplays};
    use crate::portfolio::starts::CoarseChains;
    use crate::portfolio::strategy::{Limit, When, row};
    use crate::synthetic::{Family, graph};
    use crate::{Request, Timekeeping};

    /// A request for a share of the peak, in percent, and one second of counted work.
    fn request(graph: &Graph, percent: u64) -> Request<'_> {
        let budget = Bytes(base_trace(graph).peak.0 / 100 * percent);
        let (timekeeping, time_limit) = (Timekeeping::Work, Duration::from_secs(1));
        Request { timekeeping, time_limit, ..Request::new(graph, budget) }
    }

    /// How often each strategy of `auto` steps.
    fn steps(request: &Request) -> Vec<(&'static str, u32)> {
        request.timekeeping.keep(|| {
            let table = run_from(&mut Incumbent::new(request), &[], auto(&request.params));
            table.iter().map(|row| (row.name(), row.steps())).collect()
        })
    }

    #[test]
    fn counted_work_makes_the_same_steps_under_any_load() {
        for (family, percent) in [(Family::Bottleneck, 40), (Family::Layered, 50)] {
            let graph = graph(family, 100, 5);
            let request = request(&graph, percent);
            let quiet = steps(&request);
            let busy = std::thread::scope(|scope| {
                let loads: Vec<_> = (0..2).map(|_| scope.spawn(|| steps(&request))).collect();
                loads.into_iter().map(|load| load.join().expect("an answer")).collect::<Vec<_>>()
            });
            assert!(quiet.iter().any(|&(name, steps)| name == "race" && steps > 3), "{quiet:?}");
            assert!(busy.iter().all(|other| *other == quiet), "{quiet:?} {busy:?}");
        }
    }

    #[test]
    fn a_strategy_that_is_switched_off_makes_no_step() {
        let graph = graph(Family::Bottleneck, 100, 5);
        let all = request(&graph, 40);
        let some = Request { without: "easing,rivals".parse().expect("two strategies"), ..all.clone() };
        let made = |request: &Request, name: &str| {
            steps(request).iter().filter(|step| step.0 == name).map(|step| step.1).sum::<u32>()
        };
        for name in ["easing", "rivals"] {
            assert!(made(&all, name) > 0 && made(&some, name) == 0, "{name}");
        }
        assert!(made(&some, "race") > 0);
    }

    #[test]
    fn late_starts_join_a_race_at_rest_in_turn_two_of_a_kind() {
        let graph = graph(Family::Residual, 250, 7);
        let budget = Bytes(base_trace(&graph).peak.0 / 100 * 30);
        let request = Request::new(&graph, budget);
        let mut task = Incumbent::new(&request);
        first_attempt(&mut task);
        let model = Arc::clone(&task.model);
        let mut board = Blackboard::new(&graph, &model, &request.params);
        let best = task.plan.as_ref().map(Solution::from).expect("a plan");
        board.enter_starts(&task, [&best, &best]);
        let mut table = vec![
            row(WaitingReplays, When::Late, Limit::Share(0.1), ""),
            row(AnnealedOrders::WhereTheyPay, When::Late, Limit::Counted, ""),
            row(CoarseChains::finer(), When::Late, Limit::Counted, ""),
        ];
        let mut joined = Vec::new();
        for gained in [1, 0, 0, 0] {
            board.round.close(100, Some(1000), Some(1000 - gained));
            let before = board.population.len();
            for row in &mut table {
                if row.is_due(&task, &board) {
                    assert!(row.step(&mut task, &mut board).is_continue());
                }
            }
            joined.push((board.population.len() - before, table.iter().map(Row::steps).sum::<u32>()));
        }
        // A round that gains calls for none. No cut was looked at, so nothing waits: the annealed orders come in its place.
        assert!(BLOCKS.len() > 2);
        let newcomers = request.params.race.newcomers;
        assert_eq!(joined, [(0, 0), (newcomers, 2), (newcomers, 3), (0, 3)]);
    }

    #[test]
    fn when_the_time_is_over_only_what_may_find_more_steps() {
        let graph = graph(Family::Bottleneck, 60, 1);
        let request = request(&graph, 60);
        let task = Incumbent::new(&request);
        let mut board = Blackboard::new(&graph, &task.model, &request.params);
        board.round.close(100, Some(1000), Some(1000));
        let due = |board: &Blackboard| {
            let due = auto(&request.params)
                .into_iter()
                .filter(|row| row.is_due(&task, board))
                .map(|row| row.name());
            due.collect::<Vec<_>>()
        };
        assert!(due(&board).contains(&"packing") && due(&board).contains(&"halving"));
        board.time_is_over = true;
        assert_eq!(due(&board), ["packing"]);
    }
}
