//! Gap eviction: bring a legal sequence under the budget by letting values die and running their producers again.
//!
//! While some step is over the budget: take the worst step p. Every value that is alive at p but not touched there sits in
//! a *gap* (a, b) between two touches. Evicting it means: die at a, run the producer again just before b.
//!
//! - *closure*: operands that are not alive at b are stretched to b if that keeps every step between within the budget,
//!   else run again too, recursively; at most [`CLOSURE`] nodes, as a rule
//! - *gain*: sum over sampled over-budget steps in the gap of min(bytes, excess)
//! - *score*: time of the closure, less the run that dies unread, over the gain, times exp(σ·N(0,1)) to diversify
//!
//! Candidates are tried in the order of their scores; closures are computed lazily, since the producer's own time is a
//! lower bound for them. A trial is made on the tape and taken back if it raises the peak or creates more excess than it
//! removes. The search for a plan fails when no candidate is left, or past a limit on time or rounds.
//!
//! Source: planner.md of the project, 4.3, with exact trials on the incremental tape in place of its transient check.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::clock::Clock;
use crate::tape::Tape;

/// Longer chains of recomputation are never worth one eviction, unless any plan is better than none.
const CLOSURE: usize = 32;
/// Over-budget steps that are looked at, to tell long gaps from short ones.
const SAMPLES: usize = 24;
/// Failed trials at one step before giving up.
const TRIALS: usize = 24;

/// How to choose, and when to give up.
pub(crate) struct Taste {
    /// Spread of the random factor on scores; 0 is greedy.
    pub(crate) sigma: f64,
    /// Give up when the runs take more ticks than this.
    pub(crate) cost_limit: u64,
}

/// Scratch of [`repair`], kept between calls.
pub(crate) struct Repair {
    budget: i64,
    heap: BinaryHeap<Candidate>,
    hot: Vec<(u32, i64)>,
    closure: Vec<u32>,
    /// Per node, the number of the last closure it was in.
    seen: Vec<u32>,
    closures: u32,
    /// The most nodes of a closure.
    longest: usize,
    /// Nodes inserted by the last call.
    pub(crate) inserted: Vec<u32>,
}

struct Candidate {
    score: f64,
    exact: bool,
    value: u32,
    before: u32,
    gain: i64,
    refund: u64,
    noise: f64,
}

enum Evicted {
    One,
    Nothing,
    /// All slots have moved: what the caller remembers is wrong.
    Moved,
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Candidate {}
impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Candidate {
    /// The least score is the greatest candidate; ties go to the smaller value.
    fn cmp(&self, other: &Self) -> Ordering {
        other
            .score
            .total_cmp(&self.score)
            .then(other.value.cmp(&self.value))
            .then(self.exact.cmp(&other.exact))
    }
}

impl Repair {
    pub(crate) fn new(nodes: usize, budget: i64) -> Self {
        Self {
            budget,
            heap: BinaryHeap::new(),
            hot: Vec::new(),
            closure: Vec::new(),
            seen: vec![0; nodes],
            closures: 0,
            longest: CLOSURE,
            inserted: Vec::new(),
        }
    }

    /// The same with closures of so many nodes at most.
    pub(crate) fn with_closures(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    pub(crate) fn set_budget(&mut self, budget: i64) {
        self.budget = budget;
    }

    /// Evicts until the tape fits. False: given up, the tape is legal but over the budget.
    pub(crate) fn repair(
        &mut self,
        tape: &mut Tape,
        taste: &Taste,
        random: &mut ChaCha8Rng,
        clock: &Clock,
    ) -> bool {
        self.inserted.clear();
        let mut trials = 0u32;
        // Every round evicts one instance; a sequence that needs more rounds than this is going in circles.
        for _ in 0..6 * tape.model.len() + 200 {
            if tape.peak() <= self.budget {
                return true;
            }
            if tape.cost() > taste.cost_limit {
                return false;
            }
            let worst = tape.tree().first_most();
            self.sample(tape, worst, random);
            self.collect(tape, worst, taste.sigma, random);
            // The same candidates serve until half of the excess is gone; then gains have changed too much.
            let (node, enough) = (tape.node_at(worst), (tape.peak() + self.budget) / 2);
            loop {
                trials += 1;
                if trials.is_multiple_of(16) && clock.expired() {
                    return false;
                }
                match self.evict_one(tape, worst) {
                    Evicted::One => {}
                    Evicted::Moved => break,
                    Evicted::Nothing
                        if tape.node_at(worst) == node && tape.tree().at(worst) < tape.peak() =>
                    {
                        break;
                    }
                    Evicted::Nothing => return false,
                }
                if tape.node_at(worst) != node || tape.tree().at(worst) <= enough {
                    break;
                }
            }
        }
        false
    }

    /// Fills `hot` with over-budget slots and their excess, sorted by slot.
    fn sample(&mut self, tape: &Tape, worst: u32, random: &mut ChaCha8Rng) {
        self.hot.clear();
        self.hot.push((worst, tape.tree().at(worst) - self.budget));
        let mut bits = random.random::<u64>();
        for _ in 0..SAMPLES {
            let found = tape.tree().find_over(self.budget, |_, _| {
                bits = bits.rotate_left(1) ^ bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                bits & 1 == 1
            });
            self.hot.extend(found.map(|slot| (slot, tape.tree().at(slot) - self.budget)));
        }
        self.hot.sort_unstable();
        self.hot.dedup();
    }

    /// Fills the heap with the values that could be evicted around `worst`.
    fn collect(&mut self, tape: &Tape, worst: u32, sigma: f64, random: &mut ChaCha8Rng) {
        self.heap.clear();
        let model = tape.model;
        let mut candidates = std::mem::take(&mut self.heap).into_vec();
        for value in tape.evictable(worst) {
            let (bytes, producer) = (model.bytes[value as usize], model.producer[value as usize]);
            let Some(run) = tape.newest(producer, worst).filter(|&run| tape.end(value, run) >= worst) else {
                continue;
            };
            let Some((after, before)) = tape.gap_around(value, run, worst) else { continue };
            let inside = self.hot.iter().filter(|(slot, _)| after < *slot && *slot < before);
            let gain: i64 = inside.map(|(_, excess)| bytes.min(*excess)).fold(0, i64::saturating_add);
            if gain <= 0 {
                continue;
            }
            // If nothing reads the run before the gap, it dies, and its time comes back.
            let unread = after == tape.runs(producer)[run] && model.writes.row(producer).len() == 1;
            let refund = if unread { model.time[producer as usize] } else { 0 };
            let noise = if sigma > 0.0 { (sigma * normal(random)).exp() } else { 1.0 };
            let least = model.time[producer as usize] - refund;
            let score = (least as f64 + 1.0) / gain as f64 * noise;
            candidates.push(Candidate { score, exact: false, value, before, gain, refund, noise });
        }
        self.heap = BinaryHeap::from(candidates);
    }

    /// Applies the best candidate that works.
    fn evict_one(&mut self, tape: &mut Tape, worst: u32) -> Evicted {
        let mut trials = 0;
        while let Some(mut candidate) = self.heap.pop() {
            let producer = tape.model.producer[candidate.value as usize];
            // Earlier evictions from this heap may have moved the gap.
            let newest = tape.newest(producer, worst).filter(|&run| tape.end(candidate.value, run) >= worst);
            let gap = newest.and_then(|run| tape.gap_around(candidate.value, run, worst));
            let Some((_, before)) = gap else { continue };
            candidate.before = before;
            if !candidate.exact {
                // Beyond this many ticks another one comes first; twice that, so that two do not take turns in small steps.
                let next = self.heap.peek().map_or(f64::INFINITY, |next| next.score);
                let limit = 2.0 * next * candidate.gain as f64 / candidate.noise + candidate.refund as f64;
                let Some(cost) = self.closure(tape, producer, candidate.before, worst, limit as u64) else {
                    continue;
                };
                let net = cost.saturating_sub(candidate.refund);
                candidate.score = (net as f64 + 1.0) / candidate.gain as f64 * candidate.noise;
                candidate.exact = cost <= limit as u64;
                self.heap.push(candidate);
                continue;
            }
            if self.closure(tape, producer, candidate.before, worst, u64::MAX).is_none() {
                continue;
            }
            if tape.reserve(candidate.before, self.closure.len()) {
                return Evicted::Moved;
            }
            if self.try_evict(tape, candidate.before) {
                return Evicted::One;
            }
            trials += 1;
            if trials >= TRIALS {
                return Evicted::Nothing;
            }
        }
        Evicted::Nothing
    }

    /// Inserts the closure before a slot and deletes the runs that it makes superfluous; returns its first slot.
    fn insert_closure(&mut self, tape: &mut Tape, before: u32) -> u32 {
        let mut next = before;
        for &node in self.closure.iter().rev() {
            next = tape.room_before(next);
            tape.insert(node, next);
        }
        for &node in &self.closure {
            let newest = tape.newest(node, before).map(|run| tape.runs(node)[run]);
            if let Some(slot) = newest {
                tape.delete_if_superseded(node, slot);
            }
        }
        next
    }

    fn try_evict(&mut self, tape: &mut Tape, before: u32) -> bool {
        let (mark, peak) = (tape.mark(), tape.peak());
        let next = self.insert_closure(tape, before);
        // What the recomputation itself puts over the budget must be less than what it removes from the peak.
        let inside = tape.tree().most_in(next, before - 1);
        if tape.peak() > peak || inside >= peak {
            tape.rollback_to(mark);
            return false;
        }
        self.inserted.extend_from_slice(&self.closure);
        true
    }

    /// The runs that bring the outputs of `root` back just before the slot `before`, in order, and their time; above `limit`
    /// ticks only some of them. `over` is a slot before `before` that is over the budget: nothing is stretched across.
    fn closure(&mut self, tape: &Tape, root: u32, before: u32, over: u32, limit: u64) -> Option<u64> {
        let model = tape.model;
        self.closures += 1;
        self.closure.clear();
        self.closure.push(root);
        self.seen[root as usize] = self.closures;
        let last = tape.previous_used(before);
        let (mut cost, mut stretched, mut next) = (0, 0, 0);
        while let Some(&node) = self.closure.get(next) {
            next += 1;
            if model.once[node as usize] || self.closure.len() > self.longest {
                return None;
            }
            cost += model.time[node as usize];
            if cost > limit {
                return Some(cost);
            }
            for &value in model.reads.row(node) {
                let producer = model.producer[value as usize];
                if self.seen[producer as usize] == self.closures {
                    continue;
                }
                let end = tape.end(value, tape.newest(producer, before)?);
                if end > last {
                    continue;
                }
                let bytes = model.bytes[value as usize];
                let crosses = end < over;
                if bytes == 0
                    || end == last
                    || (!crosses && tape.tree().most_in(end + 1, last) + bytes + stretched <= self.budget)
                {
                    stretched += bytes;
                    continue;
                }
                self.seen[producer as usize] = self.closures;
                self.closure.push(producer);
            }
        }
        self.closure.sort_unstable();
        Some(cost)
    }
}

/// A number that is almost normally distributed: the sum of four uniform ones, which is the same on every machine.
pub(crate) fn normal(random: &mut ChaCha8Rng) -> f64 {
    let bits = random.random::<u64>();
    let sum: u64 = (0..4).map(|quarter| bits >> (16 * quarter) & 0xffff).sum();
    // Four times the mean is 2, and four times the variance is 1/3.
    (sum as f64 / 65536.0 - 2.0) * 3f64.sqrt()
}
