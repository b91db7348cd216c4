//! Which solver of programs: by name.

use std::fmt;
use std::str::FromStr;

/// Who solves the mixed integer programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MilpSolver {
    /// CBC 2.10, the system's.
    #[default]
    Cbc,
    /// HiGHS, built along with the feature `highs` of this crate.
    #[cfg(feature = "highs")]
    Highs,
}

impl MilpSolver {
    /// Those of this build, the default first.
    pub const ALL: &'static [Self] = &[
        Self::Cbc,
        #[cfg(feature = "highs")]
        Self::Highs,
    ];

    /// The name that people type.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cbc => "cbc",
            #[cfg(feature = "highs")]
            Self::Highs => "highs",
        }
    }
}

impl fmt::Display for MilpSolver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no MILP solver of this build.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnknownMilpSolver {
    /// Known, but left out of this build.
    #[error("this build has no HiGHS; build with the feature `highs` of rk-solve, which needs cmake")]
    NotBuilt,
    /// Unknown anywhere.
    #[error("unknown MILP solver {0:?}; there are cbc and highs")]
    Unknown(String),
}

impl FromStr for MilpSolver {
    type Err = UnknownMilpSolver;

    fn from_str(text: &str) -> Result<Self, UnknownMilpSolver> {
        match Self::ALL.iter().find(|solver| solver.name() == text) {
            Some(solver) => Ok(*solver),
            None if text == "highs" => Err(UnknownMilpSolver::NotBuilt),
            None => Err(UnknownMilpSolver::Unknown(text.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for solver in MilpSolver::ALL {
            assert_eq!(solver.to_string().parse(), Ok(*solver));
        }
        assert_eq!("scip".parse::<MilpSolver>(), Err(UnknownMilpSolver::Unknown("scip".into())));
        assert_eq!("highs".parse::<MilpSolver>().is_ok(), cfg!(feature = "highs"));
    }
}
