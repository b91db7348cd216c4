//! Starts that take longer to make: orders in which nodes wait ([`crate::construct::postponed_replay`]), and annealed orders.
//!
//! What they cost is worth many rounds of a search that still gains, so they come when it is at rest; without any plan they come at once.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::construct::greedy::{TRIES, greedy};
use crate::construct::list_scheduling::list_schedules;
use crate::construct::postponed_replay::{Held, postponed_replays};
use crate::improve::annealing::Annealing;
use crate::improve::lns::Solution;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;
use crate::portfolio::starts::{evicted, worth_it};
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::{gap_is_large, is_small};

/// Iterations of the search in each order that is tried from a plan at rest.
const PATIENCE: u64 = 50;
/// Annealed list schedules that are started from in small graphs.
const ANNEALED: usize = 4;
/// List schedules of which the best are annealed.
const LISTS: usize = 40;

/// Adds plans that hold what the best cut holds, in orders in which nodes wait.
pub(crate) struct WaitingReplays;

impl Strategy for WaitingReplays {
    fn name(&self) -> &'static str {
        "waiting-replays"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, share: f64) -> ControlFlow<()> {
        let far = gap_is_large(task) && worth_it(task);
        let Some(set) = board.cuts.best.take().filter(|_| far) else { return ControlFlow::Continue(()) };
        let order = board.other_order.clone().unwrap_or_else(|| (0..task.model.len() as u32).collect());
        let held = Held { order, at: set.at.0, evicted: evicted(task, &set) };
        let clock = task.clock.part(share);
        let starts = postponed_replays(board.model, held, task.budget, task.request.seed, None, &clock);
        starts.iter().for_each(|best| task.offer(&best.nodes, Solver::Cut));
        tracing::debug!(milliseconds = task.clock.elapsed().as_millis() as u64, "waited");
        board.enter_late(task, &starts);
        ControlFlow::Continue(())
    }
}

/// Adds plans that hold what the best plan holds, in orders in which nodes wait: once for each plan at rest.
#[derive(Default)]
pub(crate) struct PostponedReplays {
    /// The time of the plan that this was last done for.
    tried: Option<u64>,
}

impl Strategy for PostponedReplays {
    fn name(&self) -> &'static str {
        "postponed-replays"
    }

    fn is_due(&self, task: &Incumbent, board: &Blackboard) -> bool {
        self.tried != task.best_cost() && gap_is_large(task) && board.cuts.at.is_some()
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, share: f64) -> ControlFlow<()> {
        let (Some(at), Some(best)) = (board.cuts.at, board.population.best()) else {
            return ControlFlow::Continue(());
        };
        self.tried = task.best_cost();
        let held = Held::by(board.model, &best.nodes, at);
        let (clock, seed, params) = (task.clock.part(share), task.request.seed, &task.request.params);
        let search = Some((PATIENCE, &params.local_search));
        for best in postponed_replays(board.model, held, task.budget, seed, search, &clock) {
            task.offer(&best.nodes, Solver::Local);
            board.enter(task, &best.nodes);
        }
        ControlFlow::Continue(())
    }
}

/// Adds greedy plans from reordered graphs.
pub(crate) enum AnnealedOrders {
    /// On every graph.
    OfAll,
    /// Where the gap is large, and the graph small or another order known to matter.
    WhereTheyPay,
}

impl Strategy for AnnealedOrders {
    fn name(&self) -> &'static str {
        "annealed-orders"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, _: f64) -> ControlFlow<()> {
        let pays = match self {
            Self::OfAll => true,
            Self::WhereTheyPay => gap_is_large(task) && (is_small(task) || board.order_matters(task)),
        };
        if pays {
            let moves = board.moves(task);
            let starts = ordered_starts(task, moves);
            board.enter_late(task, &starts);
        }
        ControlFlow::Continue(())
    }
}

/// Greedy plans from reordered graphs: list schedules and annealed orders, the latter with recomputation too.
fn ordered_starts(task: &mut Incumbent, moves: u64) -> Vec<Solution> {
    let (seed, params) = (task.request.seed, &task.request.params);
    let mut orders = list_schedules(&task.model, LISTS, seed, &task.clock);
    orders.push((0..task.model.len() as u32).collect());
    let model = Arc::clone(&task.model);
    let mut annealed: Vec<Annealing> = orders
        .iter()
        .take_while(|_| !task.clock.expired())
        .map(|order| Annealing::new(&model, order, task.budget, seed, &params.annealing))
        .collect();
    annealed.sort_by_key(|annealing| annealing.best_excess);
    annealed.truncate(if is_small(task) { ANNEALED } else { 1 });
    tracing::debug!(milliseconds = task.clock.elapsed().as_millis() as u64, "listed");
    let mut starts = Vec::new();
    let mut start = |task: &mut Incumbent, nodes: &[u32], tries: u32| {
        if let Some(best) = greedy(&model, nodes, task.budget, seed, tries, &task.clock) {
            task.offer(&best.nodes, Solver::Local);
            starts.push(best);
        }
    };
    for (index, annealing) in annealed.iter_mut().enumerate() {
        if !task.has_plan() {
            // A plan at once, however bad.
            start(task, &annealing.best, 1);
        }
        for (moves, recompute) in [(moves / 4, false), (moves, true)] {
            annealing.run(moves, recompute, params.annealing.heats()[index % 2], &task.clock);
            start(task, &annealing.best, TRIES);
        }
        tracing::debug!(
            excess = annealing.best_excess as f64,
            cost = annealing.best_cost,
            milliseconds = task.clock.elapsed().as_millis() as u64,
            "annealed"
        );
    }
    starts
}
