//! The choice of a victim: one pass over the pool, the last of the smallest scores wins.
//!
//! Idea: nearly every storage of the pool can be ruled out by its own time, size and last access, which lie side by
//! side in the pool's entries: neighbourhoods only make a numerator larger. So a pruned search multiplies where the
//! full one walks, looks neighbours up and divides exactly; both choose the same victim and count the same
//! evaluations, and the full one stays as the oracle and for the reference's access statistics.
//! Source: docs/design/dtr.md, section 6 (scores). Not here: the arithmetic of one quotient (see `quotient`).

use crate::components::Components;
use crate::heuristic::{Heuristic, Numerator, Policy};
use crate::pool::{Entry, Pool};
use crate::quotient::quotient;
use crate::regions::Regions;
use crate::segments::Group;
use crate::tables::{Output, Tables};
use crate::units::TensorId;
use crate::walks::{Reach, Walks};
use crate::world::{Options, Scan};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Lower bounds are computed in four roundings of at most 2^-53 each; this is an order of magnitude more.
const SLACK: f64 = 1e-14;

/// What the numerator of the heuristic needs beside the tables.
#[derive(Debug)]
enum Memory {
    Nothing,
    Components(Components),
    Regions(Regions),
    /// No memory between choices: neighbourhoods from scratch, where the graph loses edges.
    Scratch(Walks),
}

#[derive(Debug)]
pub(crate) struct Search {
    heuristic: Heuristic,
    scan: Scan,
    memory: Memory,
    shared_stamp: bool,
    rng: ChaCha8Rng,
    pub evals: u64,
    accesses: u64,
}

impl Search {
    pub fn new(options: &Options) -> Self {
        let Options { heuristic, policy, scan, seed, online, .. } = *options;
        let loses_edges = policy == Policy::Banish || online.forget;
        let memory = match heuristic.numerator {
            Numerator::Neighborhood | Numerator::Ancestors if loses_edges => {
                Memory::Scratch(Walks::default())
            }
            Numerator::Neighborhood | Numerator::Ancestors => {
                Memory::Regions(Regions::new(scan == Scan::Full))
            }
            Numerator::Component => Memory::Components(Components::new(online.forget)),
            Numerator::Own | Numerator::One | Numerator::LastAccess | Numerator::Random => Memory::Nothing,
        };
        let rng = ChaCha8Rng::seed_from_u64(seed);
        // Under banishing the reference takes the latest access of the whole neighbourhood.
        let shared_stamp = policy == Policy::Banish;
        Self { heuristic, scan, memory, shared_stamp, rng, evals: 0, accesses: 0 }
    }

    /// A lower bound of the numerator of a storage, exact as f64.
    pub fn floor(&self, tables: &Tables, storage: u32) -> f64 {
        match self.heuristic.numerator {
            Numerator::One => 1.0,
            _ => tables.compute[storage as usize] as f64,
        }
    }

    /// Metadata accesses so far, by the reference's count; meaningful after full scans.
    pub fn accesses(&self) -> u64 {
        self.accesses
            + self.evals
            + match &self.memory {
                Memory::Components(components) => components.visits,
                Memory::Regions(regions) => regions.accesses,
                Memory::Nothing | Memory::Scratch(_) => 0,
            }
    }

    /// Whether edges that come or go behind its back would be missed: records of neighbourhoods, which nobody but the
    /// simulator has.
    pub fn follows_edges(&self) -> bool {
        matches!(self.memory, Memory::Regions(_))
    }

    /// Takes note of a call that will be linked next; see [`Regions::before_link`].
    pub fn before_link(&mut self, tables: &Tables, args: &[TensorId], outputs: &[Output]) {
        if let Memory::Regions(regions) = &mut self.memory {
            regions.before_link(tables, tables.news(args, outputs));
        }
    }

    /// Takes note that the call linked last has run.
    pub fn computed(&mut self) {
        if let Memory::Regions(regions) = &mut self.memory {
            regions.computed();
        }
    }

    /// Takes note of a call that was linked, with fresh storages or none.
    pub fn linked(&mut self, tables: &Tables, call: u32) {
        match &mut self.memory {
            Memory::Components(components) => components.linked(tables, call),
            Memory::Regions(regions) => regions.linked(tables),
            Memory::Nothing | Memory::Scratch(_) => (),
        }
    }

    /// Takes note that an evicted storage is about to be forgotten.
    pub fn forgotten(&mut self, tables: &Tables, storage: u32) {
        if let Memory::Components(components) = &mut self.memory {
            components.forgotten(tables, storage);
        }
    }

    /// Takes note of an eviction; the storage is already marked as not resident.
    pub fn evicted(&mut self, tables: &Tables, storage: u32) {
        match &mut self.memory {
            Memory::Components(components) => {
                components.evicted(tables, storage);
                self.accesses += tensor_edges(tables, storage);
            }
            Memory::Regions(regions) => regions.evicted(tables, storage),
            Memory::Nothing | Memory::Scratch(_) => (),
        }
    }

    /// Takes note of storages that became resident by one call.
    pub fn returned(&mut self, tables: &Tables, storages: &[u32]) {
        match &mut self.memory {
            Memory::Components(components) => {
                storages.iter().for_each(|&s| components.returned(tables, s));
            }
            Memory::Regions(regions) => regions.returned(tables, storages),
            Memory::Nothing | Memory::Scratch(_) => (),
        }
    }

    /// The storage to evict next and its score, or `None` if the pool is empty.
    pub fn victim(&mut self, tables: &Tables, pool: &Pool, clock: u64) -> Option<(u32, f64)> {
        if self.heuristic.is_random() {
            if pool.is_empty() {
                return None;
            }
            self.evals += 1;
            return Some((pool.nth(self.rng.random_range(0..pool.len()))?, 0.0));
        }
        let (mut best, mut victim) = (f64::INFINITY, None);
        let prune = self.may_prune();
        // What scores above this may be skipped. Infinite until a finite score is known.
        let mut bound = if prune { self.first_bound(tables, pool, clock) } else { f64::INFINITY };
        let mut stopped = None;
        for (at, entry) in pool.entries().iter().enumerate() {
            // The product is NaN when an infinite bound meets a denominator of 0, and then nothing is skipped. A score
            // of 0, which ends the pass, is never skipped: while pruning, no bound is negative.
            if prune && entry.floor > bound * self.denominator(entry, clock) {
                continue;
            }
            let Some(storage) = entry.storage() else { continue };
            let Some(score) = self.score(tables, storage, clock, bound) else { continue };
            if score <= best {
                (best, victim) = (score, Some(storage));
                if prune {
                    bound = bound.min(best + best.abs() * SLACK);
                }
            }
            if score == 0.0 {
                stopped = Some(at);
                break;
            }
        }
        self.evals += match stopped {
            None => pool.len() as u64,
            Some(at) => pool.entries()[..=at].iter().filter_map(Entry::storage).count() as u64,
        };
        Some((victim?, best))
    }

    /// The score of values of a segment, whose storages are `own`, that are dropped together and computed again together;
    /// and whether all that they were made from or are read by is in memory, but for the segment's own. `None` if the
    /// score is above the bound whatever is in memory.
    pub fn group_score(
        &mut self,
        tables: &Tables,
        group: &Group,
        own: &[u32],
        clock: u64,
        bound: f64,
    ) -> Option<(f64, bool)> {
        self.evals += 1;
        let size = if self.heuristic.by_size { group.bytes } else { 1 };
        let staleness = if self.heuristic.by_staleness { clock - group.stamp } else { 1 };
        let denominator = u128::from(size) * u128::from(staleness);
        let (mut numerator, mut around) = (group.cost as i64, 0);
        match (self.heuristic.numerator, &mut self.memory) {
            (_, Memory::Components(components)) => {
                if numerator as f64 > bound * denominator as f64 {
                    return None;
                }
                around = components.around_group(tables, &group.storages, own);
                numerator += around;
            }
            (Numerator::LastAccess, _) => return Some((group.stamp as f64, true)),
            (Numerator::One, _) => numerator = 1,
            _ => (),
        }
        Some((quotient(numerator, denominator), around == 0))
    }

    fn may_prune(&self) -> bool {
        let bounded = match &self.memory {
            Memory::Components(components) => components.bounded_below(),
            _ => self.heuristic.numerator != Numerator::LastAccess,
        };
        self.scan == Scan::Pruned && bounded
    }

    fn denominator(&self, entry: &Entry, clock: u64) -> f64 {
        let size = if self.heuristic.by_size { entry.size as f64 } else { 1.0 };
        let staleness = if self.heuristic.by_staleness { (clock - entry.stamp) as f64 } else { 1.0 };
        size * staleness
    }

    /// The score of the storage whose lower bound is smallest, a little enlarged: no victim scores more. Only where
    /// an exact numerator costs more than a pass over the pool.
    fn first_bound(&mut self, tables: &Tables, pool: &Pool, clock: u64) -> f64 {
        if matches!(self.memory, Memory::Nothing) {
            return f64::INFINITY;
        }
        let (mut lowest, mut first) = (f64::INFINITY, None);
        for entry in pool.entries().iter() {
            let bound = entry.floor / self.denominator(entry, clock);
            if bound < lowest && entry.storage().is_some() {
                (lowest, first) = (bound, entry.storage());
            }
        }
        let score = first.and_then(|storage| self.score(tables, storage, clock, f64::INFINITY));
        score.map_or(f64::INFINITY, |score| score + score * SLACK)
    }

    /// The exact score, or `None` if it is above the bound. Integers stay below 2^53 (see `program`), so f64 compares
    /// them exactly, too.
    fn score(&mut self, tables: &Tables, storage: u32, clock: u64, bound: f64) -> Option<f64> {
        let s = storage as usize;
        let own = tables.compute[s];
        let mut stamp = tables.stamp[s];
        let numerator = match (self.heuristic.numerator, &mut self.memory) {
            (_, Memory::Components(components)) => {
                if self.scan == Scan::Full {
                    self.accesses += tensor_edges(tables, storage);
                }
                own as i64 + components.around(tables, storage)
            }
            (Numerator::Neighborhood, Memory::Regions(regions)) => {
                (own + regions.time_below(tables, storage) + regions.time_above(tables, storage)) as i64
            }
            (_, Memory::Regions(regions)) => (own + regions.time_above(tables, storage)) as i64,
            (numerator, Memory::Scratch(walks)) => {
                let above = numerator == Numerator::Ancestors;
                let reach = if above { Reach::Above } else { Reach::BothWays };
                let (time, last) = walks.around(tables, storage, reach);
                if self.shared_stamp {
                    stamp = stamp.max(last);
                }
                (own + time) as i64
            }
            (Numerator::LastAccess, _) => return Some(stamp as f64),
            (Numerator::One, _) => 1,
            (_, Memory::Nothing) => own as i64,
        };
        if !self.heuristic.by_size && !self.heuristic.by_staleness {
            return Some(numerator as f64);
        }
        let size = if self.heuristic.by_size { tables.size[s] } else { 1 };
        let staleness = if self.heuristic.by_staleness { clock - stamp } else { 1 };
        if numerator as f64 > bound * (size as f64 * staleness as f64) {
            return None;
        }
        Some(quotient(numerator, u128::from(size) * u128::from(staleness)))
    }
}

/// What the reference looks at when it lists the neighbours of a storage.
fn tensor_edges(tables: &Tables, storage: u32) -> u64 {
    tables.edges_above[storage as usize] + tables.edges_below[storage as usize]
}
