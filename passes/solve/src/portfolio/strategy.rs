//! What a portfolio is made of: a strategy, and the row of a table that says when it steps and how much of the time left it may take.
//!
//! A [`Strategy`] is one way to get a better plan or a better bound, in steps that end. It gives what it finds to the [`Incumbent`], and
//! what others can go on with to the [`Blackboard`]. It keeps what it alone needs from step to step in itself. [`When`] is the list of
//! occasions, each of which follows from the rounds of the race and from what they gained, never from what the system's clock says. Who
//! runs the rows is [`crate::portfolio::scheduler`].
//!
//! Source: Gomes and Selman, "Algorithm portfolios", 2001, for the idea.

use std::ops::ControlFlow;

use crate::portfolio::blackboard::Blackboard;
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::worthwhile::gap_is_large;

/// One way to a better plan or bound.
pub(crate) trait Strategy {
    /// The name by which it is switched off and logged.
    fn name(&self) -> &'static str;

    /// Whether a step can bring anything now, besides the occasion in its row. Does not look at the clock.
    fn is_due(&self, _task: &Incumbent, _board: &Blackboard) -> bool {
        true
    }

    /// One step, which takes at most this share of the time left where it is not counted. [`ControlFlow::Break`] ends the portfolio.
    fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard, share: f64) -> ControlFlow<()>;
}

/// The occasions on which a strategy steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// One step, as soon as it is due.
    Once,
    /// One step, when the race is at rest or has one search left; at once while there is no plan. At most one such strategy brings
    /// something per round.
    Late,
    /// Whenever it is due. Only the race, whose rounds are the occasions of others.
    Always,
    /// After each round of the race.
    EachRound,
    /// After each round of the race, also the one that ran out of time.
    EachRoundOrTimeout,
    /// After a round that gained nothing.
    AtRest,
    /// The same, and after each round where an annealed order gave a better plan and the gap is large.
    AtRestOrReordered,
    /// After a round that leaves few searches.
    FewLeft,
    /// After a round that gained nothing or leaves few searches.
    AtRestOrFewLeft,
    /// After a round that gained next to nothing, though it was as long as all before.
    Stalled,
}

impl When {
    /// Whether the occasion is there, for a strategy that has made so many steps.
    fn is_there(self, steps: u32, task: &Incumbent, board: &Blackboard) -> bool {
        let round = &board.round;
        let few_left = board.population.len() <= task.request.params.race.few_left;
        match self {
            Self::Once => steps == 0,
            Self::Late => {
                let in_race =
                    round.is_fresh && !round.has_late && (round.is_at_rest() || board.population.len() == 1);
                steps == 0 && (in_race || !task.has_plan())
            }
            Self::Always => true,
            Self::EachRound | Self::EachRoundOrTimeout => round.is_fresh,
            Self::AtRest => round.is_fresh && round.is_at_rest(),
            Self::AtRestOrReordered => {
                let reordered = board.other_order.is_some() && gap_is_large(task);
                round.is_fresh && (round.is_at_rest() || reordered)
            }
            Self::FewLeft => round.is_fresh && few_left,
            Self::AtRestOrFewLeft => round.is_fresh && (round.is_at_rest() || few_left),
            Self::Stalled => round.is_fresh && round.is_stalled(task.base_time),
        }
    }
}

/// How much of the time a step may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Limit {
    /// It counts iterations or moves of its own; the clock only ends it.
    Counted,
    /// This share of the time left at most.
    Share(f64),
}

/// A row of a table: a strategy, when it steps, how much of the time left it may take, and why it stands there.
pub(crate) struct Row {
    strategy: Box<dyn Strategy>,
    when: When,
    limit: Limit,
    why: &'static str,
    steps: u32,
}

/// A row of a table.
pub(crate) fn row(strategy: impl Strategy + 'static, when: When, limit: Limit, why: &'static str) -> Row {
    Row { strategy: Box::new(strategy), when, limit, why, steps: 0 }
}

impl Row {
    pub(crate) fn name(&self) -> &'static str {
        self.strategy.name()
    }

    pub(crate) fn why(&self) -> &'static str {
        self.why
    }

    pub(crate) fn steps(&self) -> u32 {
        self.steps
    }

    /// Whether its occasion is there and it has something to do. Where the time is over, only what may find more of it has.
    pub(crate) fn is_due(&self, task: &Incumbent, board: &Blackboard) -> bool {
        (!board.time_is_over || self.when == When::EachRoundOrTimeout)
            && self.when.is_there(self.steps, task, board)
            && self.strategy.is_due(task, board)
    }

    pub(crate) fn step(&mut self, task: &mut Incumbent, board: &mut Blackboard) -> ControlFlow<()> {
        self.steps = self.steps.saturating_add(1);
        let share = match self.limit {
            Limit::Counted => 1.0,
            Limit::Share(share) => share,
        };
        self.strategy.step(task, board, share)
    }
}
