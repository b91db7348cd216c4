//! Smaller portfolios, each a table of some strategies of [`crate::portfolio::auto`], with the same meaning of rows and columns.

use crate::improve::any_plan::AnyPlan;
use crate::improve::easing::Easing;
use crate::improve::order_annealing::OrderAnnealing;
use crate::improve::racing::{Convergence, Halving, Race, Revival};
use crate::improve::reannealing::Cooling;
use crate::improve::rivals::Rivals;
use crate::layout::packing::Packing;
use crate::params::Params;
use crate::portfolio::bounding::CutBound;
use crate::portfolio::first_attempt::FirstPlan;
use crate::portfolio::late_starts::{AnnealedOrders, WaitingReplays};
use crate::portfolio::neighbours::Neighbours;
use crate::portfolio::prove::Proofs;
use crate::portfolio::starts::CutReplays;
use crate::portfolio::strategy::Limit::{Counted, Share};
use crate::portfolio::strategy::When::{
    Always, AtRest, AtRestOrFewLeft, AtRestOrReordered, EachRound, EachRoundOrTimeout, FewLeft, Once, Stalled,
};
use crate::portfolio::strategy::{Row, row};

/// The solver `local`: local search from greedy starts, with no cuts before it.
#[rustfmt::skip]
pub(crate) fn local(params: &Params) -> Vec<Row> {
    [
        vec![
            row(FirstPlan::InAnyOrder, Once, Counted, "a plan from the given order, or else from list schedules"),
            row(OrderAnnealing, Once, Counted, "an order in which memory is less full"),
            row(AnnealedOrders::OfAll, Once, Counted, "starts that owe nothing to cuts"),
        ],
        rounds(),
        vec![row(Proofs::by_rounds(), EachRound, Share(params.proofs.share), "a proof ends everything")],
        newcomers(),
    ]
    .into_iter().flatten().collect()
}

/// The solver `cut`: bounds, replays of what cuts hold, and chains of cuts, repaired but not searched from.
#[rustfmt::skip]
pub(crate) fn cut() -> Vec<Row> {
    vec![
        row(FirstPlan::InGivenOrder, Once, Counted, "only bounds below a plan at hand are worth looking for"),
        row(CutBound, Once, Share(0.4), "a bound for every order, and sets of values to hold"),
        row(CutReplays, Once, Share(0.05), "the sets, played out"),
        row(WaitingReplays, Once, Share(0.1), "the same in orders in which nodes wait"),
        row(Proofs::alone(), Once, Share(0.95), "chains of cuts; nothing comes after them but repair"),
    ]
}

/// For a budget near one that was solved: from the plans that the request brings along, without bounds.
#[rustfmt::skip]
pub(crate) fn nearby() -> Vec<Row> {
    [
        vec![row(Neighbours, Once, Counted, "what fits a budget near by nearly fits this one")],
        rounds(),
        newcomers(),
    ]
    .into_iter().flatten().collect()
}

/// The last step of the solver `classes`: a race from plans at hand, which ends when it stalls near the bound.
#[rustfmt::skip]
pub(crate) fn refine(params: &Params) -> Vec<Row> {
    [
        rounds(),
        vec![
            row(Convergence, Stalled, Counted, "little is left to win"),
            row(Proofs::when_stalled(), Stalled, Share(params.proofs.share), "stalled far from the bound, which may be what is poor"),
        ],
        newcomers(),
    ]
    .into_iter().flatten().collect()
}

/// A round of the race.
fn rounds() -> Vec<Row> {
    vec![
        row(Race, Always, Counted, "local search from all starts"),
        row(Packing, EachRoundOrTimeout, Counted, "a plan without addresses is of no use"),
    ]
}

/// Who goes on after a round, and who joins.
#[rustfmt::skip]
fn newcomers() -> Vec<Row> {
    vec![
        row(Halving, EachRound, Counted, "the better half of the searches deserves twice as long"),
        row(Revival, AtRest, Counted, "the winner may sit in a place with no way out"),
        row(Easing, AtRestOrReordered, Counted, "room that the search has no reason to make"),
        row(Cooling::new(), FewLeft, Counted, "smaller steps than those of the search"),
        row(Rivals, AtRestOrFewLeft, Counted, "orders that the search cannot reach"),
        row(AnyPlan, Once, Counted, "where nothing is there to race with"),
    ]
}
