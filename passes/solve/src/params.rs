//! The parameters of the planner: the numbers that tune it, each with its unit, its effect and its default.
//!
//! [`Params`] comes with a [`crate::Request`] and holds for that request alone, so that planners with different parameters can run side by
//! side. [`Params::read`] takes a JSON file that sets some of them and leaves the others at their defaults:
//!
//! ```json
//! {"local_search": {"tolerance": 0.04}, "race": {"newcomers": 3}}
//! ```
//!
//! What a knob is worth is measured by `rk-bench ablate`. Not here, but beside what they are for: numbers that do not tune, such as sizes
//! of tables and guards against overflow; numbers that no plan of an ablation depends on; and those of the layouts, the bounds and the
//! integer programs.

mod improve;
mod part;
mod portfolio;

use std::fmt;

pub use improve::{Annealing, Easing, LocalSearch, Reannealing};
pub use part::Knob;
pub use portfolio::{Proofs, Race, Starts};

/// The parts of the parameters.
#[derive(Clone, Debug, Default, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Starts of the race.
    pub starts: Starts,
    /// The race.
    pub race: Race,
    /// Proofs between its rounds.
    pub proofs: Proofs,
    /// The local search that races.
    pub local_search: LocalSearch,
    /// Annealing over order and recomputation.
    pub annealing: Annealing,
    /// Annealing for memory that is less full.
    pub easing: Easing,
    /// Annealing of the best plan for time.
    pub reannealing: Reannealing,
}

/// The text sets no parameters.
#[derive(Debug, thiserror::Error)]
pub enum ParamsError {
    /// It is no JSON, names what is no parameter, or has a value of another kind.
    #[error("{0}")]
    Format(#[from] serde_path_to_error::Error<serde_json::Error>),
    /// A value is out of range.
    #[error("{name}: {value} is not within {least} to {most}")]
    OutOfRange {
        /// The name of the parameter, see [`Knob`].
        name: String,
        /// What it was set to.
        value: f64,
        /// The least legal value.
        least: f64,
        /// The greatest legal value.
        most: f64,
    },
}

impl Params {
    /// The defaults, but for what the text of a JSON file sets.
    ///
    /// # Errors
    /// Names the parameter that is unknown, of another kind or out of range.
    pub fn read(text: &str) -> Result<Self, ParamsError> {
        let mut json = serde_json::Deserializer::from_str(text);
        let params: Self = serde_path_to_error::deserialize(&mut json)?;
        match params.knobs().into_iter().find(|knob| knob.value < knob.range.0 || knob.value > knob.range.1) {
            Some(Knob { name, value, range: (least, most), .. }) => {
                Err(ParamsError::OutOfRange { name, value, least, most })
            }
            None => Ok(params),
        }
    }

    /// All parameters, part by part.
    pub fn knobs(&self) -> Vec<Knob> {
        [
            self.starts.knobs("starts"),
            self.race.knobs("race"),
            self.proofs.knobs("proofs"),
            self.local_search.knobs("local_search"),
            self.annealing.knobs("annealing"),
            self.easing.knobs("easing"),
            self.reannealing.knobs("reannealing"),
        ]
        .concat()
    }
}

impl fmt::Display for Params {
    /// Those that are not at their defaults.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let defaults = Self::default().knobs();
        let changed =
            self.knobs().into_iter().zip(defaults).filter(|(knob, default)| knob.value != default.value);
        for (index, (knob, _)) in changed.enumerate() {
            write!(f, "{}{}={}", if index > 0 { " " } else { "" }, knob.name, knob.value)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_some_and_leaves_the_others() {
        let params =
            Params::read(r#"{"local_search": {"hold": 0.5}, "race": {"newcomers": 3}}"#).expect("two");
        assert_eq!((params.local_search.hold, params.race.newcomers), (0.5, 3));
        assert_eq!(params.to_string(), "race.newcomers=3 local_search.hold=0.5");
        assert_eq!(Params::read("{}").expect("none"), Params::default());
    }

    #[test]
    fn an_error_names_the_parameter() {
        let error = |text| Params::read(text).expect_err("wrong").to_string();
        assert_eq!(
            error(r#"{"local_search": {"hold": 1.6}}"#),
            "local_search.hold: 1.6 is not within 0 to 1"
        );
        assert_eq!(error(r#"{"race": {"newcomers": 0}}"#), "race.newcomers: 0 is not within 1 to 1000000");
        assert!(error(r#"{"race": {"newcomers": 1.5}}"#).starts_with("race.newcomers: invalid type"));
        assert!(error(r#"{"race": {"newcomer": 1}}"#).contains("unknown field `newcomer`"));
        assert!(error("{").contains("EOF"));
    }

    #[test]
    fn knobs_have_names_of_their_own_and_legal_defaults() {
        let knobs = Params::default().knobs();
        for (index, knob) in knobs.iter().enumerate() {
            assert!((knob.range.0..=knob.range.1).contains(&knob.value), "{knob:?}");
            assert!(knobs[..index].iter().all(|other| other.name != knob.name), "{knob:?}");
            assert!(knob.effect.ends_with('.'), "{knob:?}");
        }
    }

    #[test]
    fn a_knob_is_scaled_within_what_is_legal() {
        let knobs = Params::default().knobs();
        let scaled =
            |name: &str, factor| knobs.iter().find(|knob| knob.name == name).expect("a knob").scaled(factor);
        assert_eq!(scaled("local_search.hold", 2.0), Some(1.0));
        assert_eq!(scaled("race.newcomers", 0.5), Some(1.0));
        assert_eq!(scaled("race.revived", 0.5), Some(2.0));
        assert_eq!(scaled("annealing.weight_step", 0.5), Some(1.0));
    }
}
