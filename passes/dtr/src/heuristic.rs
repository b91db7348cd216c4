//! The score family: which storage is evicted first.
//!
//! Idea: every heuristic of the paper and every one of its ablations is a numerator over a product of up to two
//! factors, and the storage with the smallest score goes. So a heuristic is three fields and a name, not a trait
//! with a dozen implementations, and what a numerator needs (regions, components) is created only when it is used.
//! Source: Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021, section 4.1 and appendix D; names as in
//! its simulator. Not here: how neighbourhoods are kept (see `regions`, `components`) and how the pool is searched.

use std::fmt;
use std::str::FromStr;

/// What stands above the fraction bar. "Own" is the time of the calls that made the storage and its views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numerator {
    /// Own time plus that of all evicted storages reachable upwards or downwards: the paper's e*.
    Neighborhood,
    /// Own time plus that of the evicted ancestors: what evicting this storage may make necessary (MSPS).
    Ancestors,
    /// Own time plus that of the adjacent evicted components, kept by union-find: the paper's ẽ*.
    Component,
    /// Own time.
    Own,
    /// The constant 1.
    One,
    /// The time of the last access; no fraction. The storage not accessed for longest goes.
    LastAccess,
    /// No score: uniform over the pool.
    Random,
}

/// An eviction heuristic, one of [`Heuristic::ALL`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Heuristic {
    name: &'static str,
    /// What stands above the fraction bar.
    pub numerator: Numerator,
    /// Whether the size in bytes is a factor of the denominator.
    pub by_size: bool,
    /// Whether the time since the last access is a factor of the denominator.
    pub by_staleness: bool,
}

const fn heuristic(name: &'static str, numerator: Numerator, by_size: bool, by_staleness: bool) -> Heuristic {
    Heuristic { name, numerator, by_size, by_staleness }
}

use Numerator::{Ancestors, Component, LastAccess, Neighborhood, One, Own, Random};

impl Heuristic {
    /// The paper's h_DTR with exact neighbourhoods.
    pub const DTR: Self = heuristic("h_dtr", Neighborhood, true, true);
    /// h_DTR with neighbourhoods approximated by union-find: the prototype's choice.
    pub const DTR_EQ: Self = heuristic("h_dtr_eq", Component, true, true);
    /// Least recently used.
    pub const LRU: Self = heuristic("h_lru", LastAccess, false, false);
    /// Uniformly random.
    pub const RANDOM: Self = heuristic("h_rand", Random, false, false);

    /// Every known heuristic: the seven of the paper's figure 2, then the 16 ablations of figures 7 to 10.
    pub const ALL: [Self; 23] = [
        Self::DTR,
        Self::DTR_EQ,
        heuristic("h_dtr_local", Own, true, true),
        Self::LRU,
        heuristic("h_size", One, true, false),
        heuristic("h_msps", Ancestors, true, false),
        Self::RANDOM,
        heuristic("ab_estar", Neighborhood, false, false),
        heuristic("ab_estar_size", Neighborhood, true, false),
        heuristic("ab_estar_stale", Neighborhood, false, true),
        heuristic("ab_estar_size_stale", Neighborhood, true, true),
        heuristic("ab_eqclass", Component, false, false),
        heuristic("ab_eqclass_size", Component, true, false),
        heuristic("ab_eqclass_stale", Component, false, true),
        heuristic("ab_eqclass_size_stale", Component, true, true),
        heuristic("ab_local", Own, false, false),
        heuristic("ab_local_size", Own, true, false),
        heuristic("ab_local_stale", Own, false, true),
        heuristic("ab_local_size_stale", Own, true, true),
        // No numerator and no factor: nothing to tell storages apart by.
        heuristic("ab_none", Random, false, false),
        heuristic("ab_none_size", One, true, false),
        heuristic("ab_none_stale", One, false, true),
        heuristic("ab_none_size_stale", One, true, true),
    ];

    /// The seven heuristics of the paper's figure 2.
    pub fn of_the_paper() -> &'static [Self] {
        &Self::ALL[..7]
    }

    /// The 16 ablations, four for each numerator.
    pub fn ablations() -> &'static [Self] {
        &Self::ALL[7..]
    }

    /// The name as the command line spells it.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Whether values can be weighed as a group; see [`crate::Online::segments`]. Neighbourhoods are known for that as
    /// components only.
    pub fn weighs_segments(&self) -> bool {
        matches!(self.numerator, Component | Own | One | LastAccess)
    }

    /// Whether two runs with different seeds may differ.
    pub fn is_random(&self) -> bool {
        self.numerator == Random
    }
}

impl fmt::Debug for Heuristic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl fmt::Display for Heuristic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name)
    }
}

/// No heuristic has this name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown heuristic '{name}'; known are {}", known())]
pub struct UnknownHeuristic {
    /// The name that was asked for.
    pub name: String,
}

fn known() -> String {
    Heuristic::ALL.map(|h| h.name).join(", ")
}

impl FromStr for Heuristic {
    type Err = UnknownHeuristic;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        let found = Self::ALL.into_iter().find(|h| h.name == name);
        found.ok_or_else(|| UnknownHeuristic { name: name.to_owned() })
    }
}

/// What happens to a storage when the program drops its last reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// It is evicted at once and may come back as an intermediate of a later recomputation. The default.
    Eager,
    /// It is freed for ever as soon as no evicted tensor depends on it, and its children are pinned.
    Banish,
    /// Nothing: references are not counted at all.
    Ignore,
}

impl Policy {
    /// All three, the default first.
    pub const ALL: [Self; 3] = [Self::Eager, Self::Banish, Self::Ignore];

    /// The name as the command line spells it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eager => "eager",
            Self::Banish => "banish",
            Self::Ignore => "no-dealloc",
        }
    }

    /// Whether the heuristic can be computed under this policy. Banishing cuts the graph, and the reference keeps
    /// neither regions nor components there; only the exact neighbourhood is defined, computed from scratch.
    pub fn supports(self, heuristic: Heuristic) -> bool {
        let stateless = matches!(heuristic.numerator, Own | One | LastAccess | Random);
        self != Self::Banish || stateless || heuristic == Heuristic::DTR
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
