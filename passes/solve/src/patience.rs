//! How long a step is planned for, and when it is planned again with more time.
//!
//! A person gives a span of time, which holds, or [`TimeLimit::Auto`]. Then a first search takes a fraction of a second, more for a longer
//! step, because what further searching gains there is small: measured on transformers of 12 to 48 layers, below 0.2 %. Only a search that
//! found nothing is followed by a second one, as long as there is something left to find. The command lines, the pass `--rematerialize` and
//! `torch.compile` all ask here.
//!
//! Not here: how a search divides its time (`portfolio/auto.rs`), and any clock.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use rk_plan::Bytes;
use rk_vocabulary::{SpanError, parse_span};

use crate::Outcome;

/// A time limit as a person writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeLimit {
    /// As long as it is worth it.
    Auto,
    /// So long, and no second search.
    Span(Duration),
}

impl FromStr for TimeLimit {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        if text.trim() == "auto" { Ok(Self::Auto) } else { parse_span(text).map(Self::Span) }
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.pad("auto"),
            Self::Span(span) => write!(f, "{span:?}"),
        }
    }
}

/// What a second search may be for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// Nothing: whoever asks has something else to do when there is no plan.
    Nothing,
    /// A plan, where one may still be found.
    Plan,
    /// A plan, and where none can exist, the smallest budget that has one.
    Smallest,
}

/// The text names no goal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown goal {0:?}; there are plan, smallest and none")]
pub struct UnknownGoal(String);

impl FromStr for Goal {
    type Err = UnknownGoal;

    fn from_str(text: &str) -> Result<Self, UnknownGoal> {
        match text {
            "none" => Ok(Self::Nothing),
            "plan" => Ok(Self::Plan),
            "smallest" => Ok(Self::Smallest),
            _ => Err(UnknownGoal(text.into())),
        }
    }
}

/// A time limit, and what more time is spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// What the person wrote.
    pub limit: TimeLimit,
    /// What a second search may be for.
    pub goal: Goal,
    /// How long that one lasts at most.
    pub at_most: Duration,
}

/// What the first search takes, besides [`PER_CALL`].
const LEAST: Duration = Duration::from_millis(200);
/// What the first search takes for each call.
const PER_CALL: Duration = Duration::from_micros(130);
/// What a second search for a plan takes.
const FOR_A_PLAN: Duration = Duration::from_secs(10);
/// What a second search for the smallest feasible budget takes.
const FOR_THE_SMALLEST: Duration = Duration::from_secs(3);

impl Patience {
    /// The usual one: a second search for a plan.
    pub fn new(limit: TimeLimit) -> Self {
        Self { limit, goal: Goal::Plan, at_most: FOR_A_PLAN }
    }

    /// How long the first search for a step of so many calls may take.
    pub fn first(&self, calls: usize) -> Duration {
        match self.limit {
            TimeLimit::Span(span) => span,
            TimeLimit::Auto => {
                let time = LEAST + PER_CALL.saturating_mul(u32::try_from(calls).unwrap_or(u32::MAX));
                // Whole milliseconds, as a person would write it.
                Duration::from_millis(time.as_millis() as u64)
            }
        }
    }

    /// How long a second search may take, if what the first found within `budget` calls for one.
    pub fn again(&self, budget: Bytes, outcome: &Outcome) -> Option<Duration> {
        if self.limit != TimeLimit::Auto || outcome.plan.is_some() {
            return None;
        }
        let impossible = budget < outcome.proven_infeasible_below;
        let time = match self.goal {
            Goal::Plan | Goal::Smallest if !impossible => FOR_A_PLAN,
            // Without any budget that has a plan, there is none to make smaller.
            Goal::Smallest if outcome.smallest_found.is_some() => FOR_THE_SMALLEST,
            _ => return None,
        };
        let time = time.min(self.at_most);
        tracing::info!(?time, goal = ?self.goal, "no plan within the budget: searching again");
        Some(time)
    }
}

#[cfg(test)]
mod tests {
    use rk_plan::{GraphBuilder, Kind, NodeSpec, OutputSpec, Time};

    use super::*;
    use crate::{Request, solve};

    /// A request for one node that makes so many bytes.
    fn outcome_of(bytes: u64, budget: u64) -> Outcome {
        let mut builder = GraphBuilder::new("one").time_unit("ns", 1);
        let output = OutputSpec { name: "out".into(), bytes: Bytes(bytes), pinned: true };
        let node = NodeSpec {
            name: "node".into(),
            kind: Kind::Forward,
            time: Time(5),
            outputs: vec![output],
            ..NodeSpec::default()
        };
        builder.add(node).expect("a node");
        let graph = builder.finish().expect("a graph");
        solve(&Request::new(&graph, Bytes(budget)))
    }

    #[test]
    fn limits_as_people_write_them() {
        let read = |text: &str| text.parse::<TimeLimit>();
        assert_eq!(read("auto"), Ok(TimeLimit::Auto));
        assert_eq!(read(" 500ms"), Ok(TimeLimit::Span(Duration::from_millis(500))));
        let error = read("automatic").expect_err("no limit").to_string();
        assert_eq!(error, "'automatic' is no duration such as 10s, 500ms, 2m or 1h");
        assert_eq!(
            [TimeLimit::Auto, TimeLimit::Span(Duration::from_secs(2))].map(|one| one.to_string()),
            ["auto", "2s"]
        );
    }

    #[test]
    fn a_longer_step_is_planned_for_longer_unless_a_person_says_otherwise() {
        let auto = Patience::new(TimeLimit::Auto);
        assert_eq!([0, 1000, 5000].map(|calls| auto.first(calls).as_millis()), [200, 330, 850]);
        let given = Patience::new(TimeLimit::Span(Duration::from_secs(7)));
        assert_eq!(given.first(5000), Duration::from_secs(7));
    }

    #[test]
    fn a_plan_is_the_end_of_it() {
        let found = outcome_of(100, 100);
        assert!(found.plan.is_some());
        let patience = Patience { goal: Goal::Smallest, ..Patience::new(TimeLimit::Auto) };
        assert_eq!(patience.again(Bytes(100), &found), None);
    }

    #[test]
    fn more_time_is_spent_on_what_may_still_be_found() {
        let seconds = |goal, limit, at_most, outcome: &Outcome| {
            let patience = Patience { limit, goal, at_most: Duration::from_secs(at_most) };
            patience.again(Bytes(99), outcome).map(|time| time.as_secs())
        };
        let (auto, given) = (TimeLimit::Auto, TimeLimit::Span(Duration::from_secs(1)));
        let impossible = outcome_of(100, 99);
        assert!(impossible.plan.is_none() && impossible.proven_infeasible_below == Bytes(100));
        assert_eq!(seconds(Goal::Nothing, auto, 10, &impossible), None);
        assert_eq!(seconds(Goal::Plan, auto, 10, &impossible), None);
        assert_eq!(seconds(Goal::Smallest, auto, 10, &impossible), Some(3));
        assert_eq!(seconds(Goal::Smallest, auto, 1, &impossible), Some(1));
        assert_eq!(seconds(Goal::Smallest, given, 10, &impossible), None);
        let none_seen = Outcome { smallest_found: None, ..impossible.clone() };
        assert_eq!(seconds(Goal::Smallest, auto, 10, &none_seen), None);
        let open = Outcome { proven_infeasible_below: Bytes(50), ..impossible };
        assert_eq!(seconds(Goal::Nothing, auto, 10, &open), None);
        assert_eq!(seconds(Goal::Plan, auto, 10, &open), Some(10));
        assert_eq!(seconds(Goal::Smallest, auto, 4, &open), Some(4));
        assert_eq!(seconds(Goal::Plan, given, 10, &open), None);
    }
}
