//! Orders without recomputation: list scheduling, then annealing over the order.
//!
//! For graphs without the shape of a training step, reordering is worth more than recomputing.
//!
//! *List scheduling*: among the nodes whose operands are ready, run the one with the least
//! `made − freed for good − α·Σ m[u] / (unread users of u) + noise` in bytes.
//!
//! *Annealing*: the state is a tape of single runs. Energy: max(budget, peak). Half of the moves shift a random run to a
//! random place between its operands and its first use; the others aim at the worst step p, and of a random value that is
//! alive there and not touched move the producer behind p (if nothing reads it before) or its last readers, with whatever
//! they wait for, before p. Metropolis acceptance with a geometric temperature. A move costs O(degree · log n).
//!
//! Source: planner.md of the project, 7.2 (FastSA, NeurIPS 2023) and 7.5; the aimed moves are ours.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::clock::Clock;
use crate::model::{Model, NONE};
use crate::tape::Tape;

/// The share of reads already paid for that a score gives back.
const ALPHAS: [f64; 5] = [0.0, 0.25, 0.5, 1.0, 2.0];

/// Several list schedules; the first has no noise.
pub(crate) fn list_schedules(model: &Model, count: usize, seed: u64, clock: &Clock) -> Vec<Vec<u32>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mean = model.bytes.iter().map(|&bytes| bytes as f64).sum::<f64>() / model.values().max(1) as f64;
    let mut orders = Vec::new();
    for index in 0..count {
        if index > 0 && clock.expired() {
            break;
        }
        let noise = if index < ALPHAS.len() { 0.0 } else { 2.0 * mean * random.random::<f64>() };
        orders.push(list_schedule(model, ALPHAS[index % ALPHAS.len()], noise, &mut random));
    }
    orders
}

fn list_schedule(model: &Model, alpha: f64, noise: f64, random: &mut ChaCha8Rng) -> Vec<u32> {
    let nodes = model.len() as u32;
    let mut waiting: Vec<u32> = (0..nodes).map(|node| model.reads.row(node).len() as u32).collect();
    let mut unread: Vec<u32> =
        (0..model.values() as u32).map(|value| model.readers.row(value).len() as u32).collect();
    let mut ready: Vec<u32> = (0..nodes).filter(|&node| waiting[node as usize] == 0).collect();
    let mut order = Vec::with_capacity(model.len());
    while !ready.is_empty() {
        let score = |node: u32| {
            let made = model.output_bytes(node) as f64;
            let gains = model.reads.row(node).iter().map(|&value| {
                let (bytes, users) = (model.bytes[value as usize] as f64, unread[value as usize]);
                let freed = if users == 1 && !model.pinned[value as usize] { bytes } else { 0.0 };
                freed + alpha * bytes / f64::from(users)
            });
            made - gains.sum::<f64>()
        };
        let scores = ready
            .iter()
            .map(|&node| score(node) + if noise > 0.0 { noise * random.random::<f64>() } else { 0.0 });
        let best =
            scores.enumerate().min_by(|one, other| one.1.total_cmp(&other.1)).map_or(0, |(index, _)| index);
        // Keeps `ready` in the order of arrival, so that ties go to the same node everywhere.
        let node = ready.remove(best);
        order.push(node);
        model.reads.row(node).iter().for_each(|&value| unread[value as usize] -= 1);
        for &value in model.writes.row(node) {
            for &reader in model.readers.row(value) {
                waiting[reader as usize] -= 1;
                if waiting[reader as usize] == 0 {
                    ready.push(reader);
                }
            }
        }
    }
    order
}

/// An annealing run that can be continued.
pub(crate) struct Annealing<'m> {
    tape: Tape<'m>,
    budget: i64,
    random: ChaCha8Rng,
    pub(crate) best: Vec<u32>,
    pub(crate) best_peak: i64,
    spanning: Vec<u32>,
}

/// Temperatures as shares of the peak, at the start and at the end of a run.
const HOT: f64 = 0.01;
const COLD: f64 = 0.0002;

impl<'m> Annealing<'m> {
    /// Starts from an order in which every node runs once.
    pub(crate) fn new(model: &'m Model, order: &[u32], budget: i64, seed: u64) -> Self {
        let tape = Tape::new(model, order);
        let best_peak = tape.peak();
        let random = ChaCha8Rng::seed_from_u64(seed);
        Self { tape, budget, random, best: order.to_vec(), best_peak, spanning: Vec::new() }
    }

    /// Makes `moves` moves from the best order so far, or fewer if the budget is met or the clock ends.
    pub(crate) fn run(&mut self, moves: u64, clock: &Clock) {
        let best = std::mem::take(&mut self.best);
        self.tape.reset(&best);
        self.best = best;
        let mut energy = self.tape.peak();
        for step in 0..moves {
            if self.best_peak <= self.budget || (step % 64 == 63 && clock.expired()) {
                return;
            }
            let temperature = HOT * (COLD / HOT).powf(step as f64 / moves as f64) * self.best_peak as f64;
            let mark = self.tape.mark();
            if self.random.random_bool(0.5) {
                self.wander()
            } else {
                self.aim()
            }
            let peak = self.tape.peak();
            let worse = (peak - energy) as f64;
            if worse > 0.0 && self.random.random::<f64>() >= (-worse / temperature).exp() {
                self.tape.rollback_to(mark);
                continue;
            }
            energy = peak;
            self.tape.commit();
            if peak < self.best_peak {
                self.best_peak = peak;
                self.best = self.tape.sequence();
            }
        }
    }

    /// The slots between which a run may move: behind its operands, before its first use.
    fn window(&self, node: u32) -> (u32, u32) {
        let (model, tape) = (self.tape.model, &self.tape);
        let operands =
            model.reads.row(node).iter().map(|&value| tape.runs(model.producer[value as usize])[0]);
        let uses = model.writes.row(node).iter().map(|&value| tape.first_use(value, 0));
        (operands.max().unwrap_or(0), uses.min().unwrap_or(NONE).min(tape.last_slot() + 1))
    }

    fn wander(&mut self) {
        let node = self.random.random_range(0..self.tape.model.len() as u32);
        let (low, high) = self.window(node);
        if high - low > 1 {
            let slot = self.random.random_range(low + 1..high);
            self.place(node, slot);
        }
    }

    fn place(&mut self, node: u32, slot: u32) {
        let from = self.tape.runs(node)[0];
        if slot == from || self.tape.reserve(slot, 1) {
            return;
        }
        let free = if self.tape.node_at(slot) == NONE { slot } else { self.tape.room_before(slot) };
        let from = self.tape.runs(node)[0];
        if free != from {
            self.tape.shift(node, from, free);
        }
    }

    fn aim(&mut self) {
        let worst = self.tape.tree().first_most();
        let model = self.tape.model;
        let tape = &self.tape;
        self.spanning.clear();
        let spans = |value: &u32| {
            let producer = model.producer[*value as usize];
            model.bytes[*value as usize] > 0
                && tape.runs(producer)[0] < worst
                && tape.end(*value, 0) >= worst
                && tape.gap_around(*value, 0, worst).is_some()
        };
        self.spanning.extend((0..model.values() as u32).filter(spans));
        if self.spanning.is_empty() {
            return;
        }
        let value = self.spanning[self.random.random_range(0..self.spanning.len())];
        let producer = model.producer[value as usize];
        let (_, high) = self.window(producer);
        if high > worst && self.random.random_bool(0.7) {
            let slot = if self.random.random_bool(0.5) {
                high - 1
            } else {
                self.random.random_range(worst + 1..=high) - 1
            };
            if slot > worst {
                self.place(producer, slot);
            }
            return;
        }
        // Bring the remaining readers, and what they wait for, before the worst step.
        let mut group: Vec<u32> =
            model.readers.row(value).iter().copied().filter(|&reader| tape.runs(reader)[0] > worst).collect();
        let at_worst = tape.node_at(worst);
        let mut next = 0;
        while let Some(&node) = group.get(next) {
            next += 1;
            if node == at_worst || group.len() > 12 {
                return;
            }
            for &read in model.reads.row(node) {
                let operand = model.producer[read as usize];
                if tape.runs(operand)[0] >= worst && !group.contains(&operand) {
                    group.push(operand);
                }
            }
        }
        group.sort_unstable_by_key(|&node| tape.runs(node)[0]);
        if self.tape.reserve(worst, group.len()) {
            return;
        }
        for &node in &group {
            // Runs are shifted to the left, so the worst step keeps its slot.
            let free = self.tape.room_before(worst);
            let from = self.tape.runs(node)[0];
            self.tape.shift(node, from, free);
        }
    }
}
