//! Lower bounds: what cuts prove for every order, and a bound for the given order beside it.

use std::ops::ControlFlow;
use std::time::Duration;

use rk_plan::Time;

use crate::bound::fixed_order::fixed_order;
use crate::bound::{Bound, order_free_below};
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::{cuts_fit, gap_is_large, is_small};

/// What a bound in the given order takes per node, at least.
const ORDER_TIME_PER_NODE: Duration = Duration::from_micros(250);
/// What cuts prove, and where the best of them is.
pub(crate) struct CutBound;

impl Strategy for CutBound {
    fn name(&self) -> &'static str {
        "cut-bound"
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, share: f64) -> ControlFlow<()> {
        if !cuts_fit(task) {
            tracing::info!("no time for a bound");
            return ControlFlow::Continue(());
        }
        let known = task.best_cost().filter(|_| task.has_plan()).map(Time);
        let time = task.clock.left().mul_f64(share);
        let bound: Bound = order_free_below(task.request.graph, task.request.budget, known, time);
        if bound.is_infeasible() {
            task.prove_infeasible(bound.node);
            return ControlFlow::Continue(());
        }
        task.raise_bound(bound.time);
        board.cuts.at = Some(bound.node.0);
        board.cuts.held = bound.starts;
        ControlFlow::Continue(())
    }
}

/// A bound for the given order only, where the one for all orders is far from the plan: it tells whether another order, or more
/// recomputation in this one, is worth looking for. Reported beside the other, never used.
pub(crate) struct OrderBound;

impl Strategy for OrderBound {
    fn name(&self) -> &'static str {
        "order-bound"
    }

    fn is_due(&self, task: &Incumbent, _: &Blackboard) -> bool {
        is_small(task) && task.has_plan() && gap_is_large(task)
    }

    fn step(&mut self, task: &mut Incumbent, _: &mut Blackboard, share: f64) -> ControlFlow<()> {
        let limit = task.clock.left().mul_f64(share);
        if limit >= ORDER_TIME_PER_NODE * task.model.len() as u32 {
            let bound = fixed_order(task.request.graph, task.request.budget, task.programs(limit));
            tracing::info!(
                ?bound,
                milliseconds = task.clock.elapsed().as_millis() as u64,
                "in the given order"
            );
            task.in_given_order = (!bound.infeasible).then_some(bound.time);
        }
        ControlFlow::Continue(())
    }
}
