//! The portfolio `auto`: what users get, as one table.
//!
//! [`crate::portfolio::scheduler`] sweeps through the rows from the first to the last, again and again. A row makes one step in a sweep if
//! its occasion is there ([`When`] says what each means) and its strategy has something to do. A sweep in which the race makes a round is
//! what *round* means below. All of it ends when plan and bound meet, when the time is over, or when no row has anything to do. A row that
//! is `Counted` counts its moves or iterations, and the clock only ends it; the others get a share of the time left.
//!
//! - **To add a strategy**, implement [`crate::portfolio::strategy::Strategy`] and add a row.
//! - **To switch one off**, strike its row, or name it in [`crate::Request::without`].
//!
//! Source: docs/design/planner.md, sections 2 and 4.7.

use crate::improve::any_plan::AnyPlan;
use crate::improve::easing::Easing;
use crate::improve::order_annealing::OrderAnnealing;
use crate::improve::racing::{Halving, Race, Revival};
use crate::improve::reannealing::Cooling;
use crate::improve::rivals::Rivals;
use crate::layout::packing::Packing;
use crate::params::Params;
use crate::portfolio::bounding::{CutBound, OrderBound};
use crate::portfolio::first_attempt::FirstPlan;
use crate::portfolio::late_starts::{AnnealedOrders, PostponedReplays, WaitingReplays};
use crate::portfolio::prove::Proofs;
use crate::portfolio::starts::{CoarseChains, CutReplays};
use crate::portfolio::strategy::{Limit, Row, When, row};

/// Everything.
#[rustfmt::skip]
pub(crate) fn auto(params: &Params) -> Vec<Row> {
    use Limit::{Counted, Share};
    use When::{AtRest, AtRestOrFewLeft, AtRestOrReordered, Always, EachRound, EachRoundOrTimeout, FewLeft, Late, Once};
    vec![
        // A strategy, the occasion on which it steps, the share of the time left that a step may take, and why it is there.
        // Before the race: one step each.
        row(FirstPlan::InGivenOrder, Once, Counted, "a plan in milliseconds; where the given order gets stuck, a fallback from another"),
        row(CutBound, Once, Share(0.4), "a bound for every order, which tells what is worth its time, and sets of values to hold"),
        row(OrderAnnealing, Once, Counted, "an order in which memory is less full, for weight gradients that are in the way"),
        row(CutReplays, Once, Share(0.05), "what cuts hold is what matters in networks with wide concatenations"),
        row(CoarseChains::coarse(), Once, Counted, "deep networks, where memory is filled and emptied along a chain of blocks"),
        row(OrderBound, Once, Share(0.06), "tells a poor plan from a poor bound; only reported"),
        // A round: the race, what ends it, and who goes on.
        row(Race, Always, Counted, "local search from all starts gains most of what there is to gain"),
        row(Packing, EachRoundOrTimeout, Counted, "a plan without addresses is of no use, and packing takes an unknown time"),
        row(Proofs::by_rounds(), EachRound, Share(params.proofs.share), "a proof ends everything, and what it plays out is a start"),
        row(Halving, EachRound, Counted, "the better half of the searches deserves twice as long"),
        row(Revival, AtRest, Counted, "the winner may sit in a place with no way out, and those that lost early need not"),
        // Newcomers, when the race is at rest or few are left in it.
        row(PostponedReplays::default(), AtRest, Share(0.1), "nodes that wait for each other free what the search cannot, one run at a time"),
        row(Easing, AtRestOrReordered, Counted, "the search looks at time only, and has no reason to free memory that is not asked for"),
        row(WaitingReplays, Late, Share(0.1), "the best cut, played out in orders in which nodes wait"),
        row(AnnealedOrders::WhereTheyPay, Late, Counted, "graphs without the shape of a training step, where the order decides"),
        row(CoarseChains::finer(), Late, Counted, "other sizes of blocks than the usual ones"),
        row(Cooling::new(), FewLeft, Counted, "smaller steps than those of the search, which may exceed the budget for a while"),
        row(Rivals, AtRestOrFewLeft, Counted, "orders that the moves of the search cannot reach, in small graphs"),
        // Where nothing is there to race with.
        row(AnyPlan, Once, Counted, "longer and longer annealings until there is any plan, and proofs that there is none"),
    ]
}
