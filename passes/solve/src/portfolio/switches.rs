//! The strategies of all portfolios by name, and lists of them that are switched off.

use std::fmt;
use std::str::FromStr;

use crate::params::Params;
use crate::portfolio::auto::auto;
use crate::portfolio::request::StrategyNames;
use crate::portfolio::smaller_portfolios::{cut, local, nearby, refine};

/// The strategies of all portfolios, those of `auto` first: the name of each, and why it stands in its table.
pub fn strategies() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&str, &str)> = Vec::new();
    let params = Params::default();
    for row in [auto(&params), local(&params), cut(), nearby(), refine(&params)].iter().flatten() {
        if all.iter().all(|(name, _)| *name != row.name()) {
            all.push((row.name(), row.why()));
        }
    }
    all
}

/// The text names no strategy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown strategy {name:?}; there are {}", names())]
pub struct UnknownStrategy {
    /// The text.
    pub name: String,
}

fn names() -> String {
    strategies().iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ")
}

impl FromStr for StrategyNames {
    type Err = UnknownStrategy;

    /// Names with commas between them.
    fn from_str(text: &str) -> Result<Self, UnknownStrategy> {
        let known = strategies();
        let name = |name: &str| {
            let found = known.iter().find(|(known, _)| *known == name.trim());
            found.map(|(name, _)| *name).ok_or_else(|| UnknownStrategy { name: name.trim().into() })
        };
        text.split(',').filter(|name| !name.trim().is_empty()).map(name).collect::<Result<_, _>>().map(Self)
    }
}

impl fmt::Display for StrategyNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_no_strategy_has_is_one_clear_error() {
        assert_eq!("".parse(), Ok(StrategyNames::default()));
        let off: StrategyNames = "proofs, easing".parse().expect("two strategies");
        assert!(off.contains("proofs") && off.contains("easing") && !off.contains("race"));
        assert_eq!(off.to_string().parse(), Ok(off));
        let error = "proofs,tabu".parse::<StrategyNames>().expect_err("no such strategy").to_string();
        assert!(error.starts_with("unknown strategy \"tabu\"; there are first-plan, cut-bound, "), "{error}");
    }

    #[test]
    fn each_strategy_of_a_table_has_a_name_of_its_own() {
        let params = Params::default();
        for table in [auto(&params), local(&params), cut(), nearby(), refine(&params)] {
            let mut names: Vec<&str> = table.iter().map(|row| row.name()).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all, "{names:?}");
        }
    }
}
