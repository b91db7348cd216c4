//! Proofs as a strategy: when they are tried, and in which share of the time left.
//!
//! A proof needs a good plan at hand, so it comes when the rounds of the race have become long, or gain nothing.

use std::ops::ControlFlow;

use crate::layout::assign_addresses::share_until_packing;
use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::strategy::Strategy;
use crate::portfolio::worthwhile::{gap_is_large, is_far, is_small};

/// Proofs that the best plan is the fastest, or a better bound. What they play out joins the race.
pub(crate) struct Proofs {
    kind: Kind,
    /// The time of the plan that a proof was last tried for.
    tried: Option<u64>,
    /// The round of the last proof, and the iterations of each search in it.
    last: Option<(u32, u64)>,
}

/// What a table wants of proofs.
enum Kind {
    /// See [`Proofs::by_rounds`].
    ByRounds,
    /// See [`Proofs::when_stalled`].
    WhenStalled,
    /// See [`Proofs::alone`].
    Alone,
}

impl Proofs {
    fn new(kind: Kind) -> Self {
        Self { kind, tried: None, last: None }
    }

    /// The first after the first round, the others after longer and longer rounds or when the race is at rest.
    pub(crate) fn by_rounds() -> Self {
        Self::new(Kind::ByRounds)
    }

    /// Whenever the row says.
    pub(crate) fn when_stalled() -> Self {
        Self::new(Kind::WhenStalled)
    }

    /// Where nothing comes after.
    pub(crate) fn alone() -> Self {
        Self::new(Kind::Alone)
    }

    /// The share of the time left for the next proof.
    fn share(&mut self, task: &Incumbent, near: f64) -> f64 {
        if matches!(self.kind, Kind::Alone) {
            return near;
        }
        let params = &task.request.params.proofs;
        let cost = task.best_cost();
        let at_rest = std::mem::replace(&mut self.tried, cost) == cost;
        let share = match (is_far(task), at_rest) {
            (true, _) => params.far_share,
            (false, true) => params.at_rest_share,
            (false, false) => near,
        };
        share.min(share_until_packing(task))
    }
}

impl Strategy for Proofs {
    fn name(&self) -> &'static str {
        "proofs"
    }

    fn is_due(&self, task: &Incumbent, board: &Blackboard) -> bool {
        if !matches!(self.kind, Kind::ByRounds) {
            return true;
        }
        let (index, iterations) = (board.round.index(), board.population.iterations);
        if index == 0 {
            // The search comes first while there is much to gain.
            return !gap_is_large(task);
        }
        let (last, then) = self.last.unwrap_or((0, board.population.first_round));
        // After a proof one round without gain calls for the next.
        let params = &task.request.params.proofs;
        let idle = board.round.idle >= params.idle_rounds || (board.round.is_at_rest() && last + 1 == index);
        iterations >= params.longer_rounds * then.max(params.least_iterations) || (idle && is_small(task))
    }

    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, share: f64) -> ControlFlow<()> {
        self.last = Some((board.round.index(), board.population.iterations));
        let share = self.share(task, share);
        for best in board.prover.starts(task, share) {
            board.enter(task, &best.nodes);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use rk_plan::{Bytes, base_trace};

    use super::*;
    use crate::Request;
    use crate::portfolio::first_attempt::first_attempt;
    use crate::synthetic::{Family, graph};

    #[test]
    fn proofs_come_when_rounds_have_become_long_or_gain_nothing() {
        let graph = graph(Family::Bottleneck, 100, 3);
        let request = Request::new(&graph, Bytes(base_trace(&graph).peak.0 / 100 * 50));
        let mut task = Incumbent::new(&request);
        first_attempt(&mut task);
        assert!(gap_is_large(&task), "nothing is proven");
        let mut board = Blackboard::new(&graph, &task.model, &request.params);
        let mut proofs = Proofs::by_rounds();
        let params = &request.params.proofs;
        let long = params.longer_rounds * board.population.first_round.max(params.least_iterations);
        let mut due = |gained: u64, iterations: u64, proofs: &Proofs| {
            board.round.close(100, Some(1000), Some(1000 - gained));
            board.population.iterations = iterations;
            proofs.is_due(&task, &board)
        };
        assert!(!due(0, 1, &proofs), "much is to gain after the first round");
        assert!(due(0, 1, &proofs) && !due(5, 1, &proofs) && !due(0, 1, &proofs));
        assert!(due(0, 1, &proofs), "two rounds at rest");
        assert!(!due(5, long - 1, &proofs) && due(5, long, &proofs));
        proofs.last = Some((6, long));
        assert!(due(0, long, &proofs), "one round at rest after a proof");
        proofs.last = Some((7, long));
        assert!(
            !due(5, params.longer_rounds * long - 1, &proofs) && due(5, params.longer_rounds * long, &proofs)
        );
    }
}
