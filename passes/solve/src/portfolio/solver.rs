//! The names of the solvers, in one list.

use std::fmt;
use std::str::FromStr;

/// Who proposes plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Solver {
    /// The portfolio: starts, bounds and local search in turn, until proof or the time limit.
    Auto,
    /// Gap eviction and clean-up, once.
    Greedy,
    /// Ruin and recreate with shift moves, and annealing over the order.
    Local,
    /// The cut MILP: a bound for every order, and a start.
    Cut,
    /// The exact stage MILP in the given order.
    Ilp,
    /// The R/S/U/FREE MILP of Checkmate: an oracle for small graphs.
    Checkmate,
    /// Best-first search over what ran and what is live: exact in every order, for small graphs.
    States,
    /// Options per block, combined along the chain.
    Rockmate,
    /// Options per class of equal blocks, combined along the chain and refined.
    Classes,
    /// The persistent dynamic program on chains.
    Rotor,
    /// Eviction heuristics of dynamic tensor rematerialization, replayed at planning time.
    Dtr,
    /// Nothing runs twice.
    KeepAll,
    /// Everything that can run twice does, just before its use.
    DropAll,
}

impl Solver {
    /// All solvers, `auto` first.
    pub const ALL: [Self; 13] = [
        Self::Auto,
        Self::Greedy,
        Self::Local,
        Self::Cut,
        Self::Ilp,
        Self::Checkmate,
        Self::States,
        Self::Rockmate,
        Self::Classes,
        Self::Rotor,
        Self::Dtr,
        Self::KeepAll,
        Self::DropAll,
    ];

    /// The name that people type.
    pub fn name(self) -> &'static str {
        self.about().0
    }

    /// One line about it.
    pub fn summary(self) -> &'static str {
        self.about().1
    }

    fn about(self) -> (&'static str, &'static str) {
        match self {
            Self::Auto => {
                ("auto", "the portfolio: starts, bounds and local search until proof or time limit")
            }
            Self::Greedy => ("greedy", "gap eviction and clean-up, milliseconds"),
            Self::Local => ("local", "ruin and recreate with shift moves, annealing over the order"),
            Self::Cut => ("cut", "cut MILP: bound for every order, and a start"),
            Self::Ilp => ("ilp", "stage MILP, exact in the given order, up to about 160 nodes"),
            Self::Checkmate => {
                ("checkmate", "R/S/U/FREE MILP, exact in the given order, up to about 60 nodes")
            }
            Self::States => {
                ("states", "best-first search over states, exact in every order, up to 128 nodes")
            }
            Self::Rockmate => ("rockmate", "options per block, combined along the chain"),
            Self::Classes => ("classes", "rockmate once per class of equal blocks, then refined"),
            Self::Rotor => ("rotor", "persistent dynamic program on chains"),
            Self::Dtr => ("dtr", "portfolio of eviction heuristics"),
            Self::KeepAll => ("keep-all", "nothing runs twice"),
            Self::DropAll => ("drop-all", "everything runs again just before its use"),
        }
    }
}

impl fmt::Display for Solver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text names no solver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown solver {name:?}; there are {}", names())]
pub struct UnknownSolver {
    /// The text.
    pub name: String,
}

fn names() -> String {
    Solver::ALL.map(Solver::name).join(", ")
}

impl FromStr for Solver {
    type Err = UnknownSolver;

    fn from_str(text: &str) -> Result<Self, UnknownSolver> {
        Self::ALL
            .into_iter()
            .find(|solver| solver.name() == text)
            .ok_or_else(|| UnknownSolver { name: text.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for solver in Solver::ALL {
            assert_eq!(solver.to_string().parse(), Ok(solver));
        }
        let error = "simplex".parse::<Solver>().expect_err("no such solver").to_string();
        assert!(error.contains("\"simplex\"") && error.contains("keep-all"), "{error}");
    }
}
