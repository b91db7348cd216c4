//! Simulated annealing over sequences: order, and recomputation if wanted, in one state.
//!
//! State: a tape. Energy: `cost / base + WEIGHT · max(0, peak / budget − 1)`. Moves, each O(degree · log n):
//!
//! - *wander*: a random run goes to a random place between its operands and its first use
//! - *aim* at the worst step p, at a random value that is alive there and not touched: sink its producer behind p, if
//!   nothing reads it before; or hoist its remaining readers, with what they wait for, before p; or let it die and run
//!   its producer again behind p
//! - *drop* a random recomputation, and what only it reads
//!
//! Metropolis acceptance with a geometric temperature, by counts of moves. The last two kinds are for runs with
//! recomputation only; without it every node runs once and the energy is the peak.
//!
//! Source: FastSA (Imanishi et al., NeurIPS 2023) for annealing with a segment tree; the aimed moves are ours.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::Clock;
use crate::model::{Model, NONE};
use crate::repair::Repair;
use crate::tape::Tape;

/// An annealing that can be continued.
pub(crate) struct Annealing<'m> {
    tape: Tape<'m>,
    repair: Repair,
    budget: i64,
    base_cost: f64,
    random: ChaCha8Rng,
    /// The sequence with the least energy so far.
    pub(crate) best: Vec<u32>,
    /// Its peak.
    pub(crate) best_peak: i64,
    best_energy: f64,
    /// The tape is the best sequence, which is not yet in `best`: writing it down takes as long as several moves.
    unsaved: bool,
}

/// Temperatures in units of energy, at the start and at the end of a run.
const HOT: f64 = 0.01;
const COLD: f64 = 0.0001;
/// The price of exceeding the budget by itself, in units of the base cost.
const WEIGHT: f64 = 2.0;
/// Values looked at for one that is alive at the worst step.
const LOOKS: usize = 40;
/// The most runs that one move hoists.
const GROUP: usize = 12;

impl<'m> Annealing<'m> {
    /// Starts from a legal sequence.
    pub(crate) fn new(model: &'m Model, start: &[u32], budget: i64, seed: u64) -> Self {
        let tape = Tape::new(model, start);
        let best_peak = tape.peak();
        let mut annealing = Self {
            tape,
            repair: Repair::new(model.len(), budget),
            budget,
            base_cost: model.time.iter().sum::<u64>().max(1) as f64,
            random: ChaCha8Rng::seed_from_u64(seed),
            best: start.to_vec(),
            best_peak,
            best_energy: 0.0,
            unsaved: false,
        };
        annealing.best_energy = annealing.energy();
        annealing
    }

    fn energy(&self) -> f64 {
        let over = (self.tape.peak() - self.budget).max(0) as f64 / self.budget.max(1) as f64;
        self.tape.cost() as f64 / self.base_cost + WEIGHT * over
    }

    /// Makes `moves` moves from the best sequence so far. Ends early with the clock, or when nothing is left to gain.
    pub(crate) fn run(&mut self, moves: u64, recompute: bool, clock: &Clock) {
        self.walk(moves, recompute, clock);
        self.save();
    }

    fn save(&mut self) {
        if std::mem::take(&mut self.unsaved) {
            self.best = self.tape.sequence();
        }
    }

    fn walk(&mut self, moves: u64, recompute: bool, clock: &Clock) {
        let best = std::mem::take(&mut self.best);
        self.tape.reset(&best);
        self.best = best;
        let mut energy = self.best_energy;
        for step in 0..moves {
            // Energy 1 is the base cost within the budget.
            if self.best_energy <= 1.0 || (step % 64 == 63 && clock.expired()) {
                return;
            }
            let temperature = HOT * (COLD / HOT).powf(step as f64 / moves as f64);
            match self.random.random_range(0..if recompute { 10 } else { 7 }) {
                0..4 => self.wander(),
                4..7 => self.aim(),
                7..9 => self.evict(),
                _ => self.drop_one(),
            }
            let now = self.energy();
            let refused = now > energy && self.random.random::<f64>() >= ((energy - now) / temperature).exp();
            if refused || (now > energy && self.unsaved) {
                self.tape.rollback_to(0);
                if !refused {
                    // The way up from here is open the next time.
                    self.save();
                }
                continue;
            }
            energy = now;
            self.tape.commit();
            if energy < self.best_energy {
                self.best_energy = energy;
                self.best_peak = self.tape.peak();
                self.unsaved = true;
            }
        }
    }

    fn wander(&mut self) {
        let mut slot = self.random.random_range(1..=self.tape.last_slot());
        if self.tape.node_at(slot) == NONE {
            slot = self.tape.previous_used(slot);
        }
        if slot == 0 {
            return;
        }
        let node = self.tape.node_at(slot);
        let run = self.tape.runs(node).partition_point(|&other| other < slot);
        let (low, high) = self.tape.window(node, run);
        if high - low > 1 {
            let target = self.random.random_range(low + 1..high);
            self.place(node, run, target);
        }
    }

    fn place(&mut self, node: u32, run: usize, target: u32) {
        if target == self.tape.runs(node)[run] || self.tape.reserve(target, 1) {
            return;
        }
        let free = if self.tape.node_at(target) == NONE { target } else { self.tape.room_before(target) };
        let from = self.tape.runs(node)[run];
        if free != from {
            self.tape.shift(node, from, free);
        }
    }

    /// A random value with an instance that is alive at a slot and not touched there: value, run, last touch, next use.
    fn spanning(&mut self, slot: u32) -> Option<(u32, usize, u32, u32)> {
        let model = self.tape.model;
        for _ in 0..LOOKS {
            let value = self.random.random_range(0..model.values() as u32);
            let producer = model.producer[value as usize];
            if model.bytes[value as usize] == 0 {
                continue;
            }
            let newest = self.tape.newest(producer, slot).filter(|&run| self.tape.end(value, run) >= slot);
            let Some(run) = newest else { continue };
            if let Some((before, after)) = self.tape.gap_around(value, run, slot) {
                return Some((value, run, before, after));
            }
        }
        None
    }

    fn aim(&mut self) {
        let worst = self.tape.tree().first_most();
        let Some((value, run, before, after)) = self.spanning(worst) else { return };
        let producer = self.tape.model.producer[value as usize];
        let unread = before == self.tape.runs(producer)[run];
        if unread && self.random.random_bool(0.6) {
            let (_, high) = self.tape.window(producer, run);
            let target =
                if self.random.random_bool(0.5) { high } else { self.random.random_range(worst..=after) }
                    .min(high)
                    - 1;
            if target > worst {
                self.place(producer, run, target);
            }
            return;
        }
        self.hoist_readers(value, run, worst);
    }

    /// Brings the remaining readers of an instance, and what they wait for, before the worst step.
    fn hoist_readers(&mut self, value: u32, run: usize, worst: u32) {
        let (model, tape) = (self.tape.model, &self.tape);
        let producer = model.producer[value as usize];
        let until = tape.runs(producer).get(run + 1).copied().unwrap_or(NONE);
        let mut group: Vec<u32> = Vec::new();
        for &reader in model.readers.row(value) {
            group.extend(tape.runs(reader).iter().filter(|&&slot| slot > worst && slot < until));
        }
        let mut next = 0;
        while let Some(&slot) = group.get(next) {
            next += 1;
            // The worst step itself cannot come before itself.
            if slot == worst || group.len() > GROUP {
                return;
            }
            let node = tape.node_at(slot);
            // A run that is not the first would pass older runs of the same node.
            if tape.runs(node)[0] != slot {
                return;
            }
            for &read in model.reads.row(node) {
                let first = tape.runs(model.producer[read as usize])[0];
                if first >= worst && !group.contains(&first) {
                    group.push(first);
                }
            }
        }
        group.sort_unstable();
        let nodes: Vec<u32> = group.iter().map(|&slot| tape.node_at(slot)).collect();
        if self.tape.reserve(worst, nodes.len()) {
            return;
        }
        for node in nodes {
            // Room is made to the left, so the worst step keeps its slot.
            let free = self.tape.room_before(worst);
            let from = self.tape.runs(node)[0];
            self.tape.shift(node, from, free);
        }
    }

    fn evict(&mut self) {
        let worst = self.tape.tree().first_most();
        if let Some((value, _, _, after)) = self.spanning(worst) {
            let producer = self.tape.model.producer[value as usize];
            self.repair.evict(&mut self.tape, producer, after);
        }
    }

    fn drop_one(&mut self) {
        // The first runs are most of the tape, so a few looks are needed.
        for _ in 0..LOOKS {
            let node = self.random.random_range(0..self.tape.model.len() as u32);
            let runs = self.tape.runs(node);
            if runs.len() > 1 {
                let slot = runs[self.random.random_range(1..runs.len())];
                self.tape.delete_with_dead(node, slot);
                return;
            }
        }
    }
}
