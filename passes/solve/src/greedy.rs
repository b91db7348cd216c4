//! First plans in milliseconds: gap eviction from an order, then clean-up.
//!
//! From the order given, once without randomness, then with growing randomness if that fails. Source: docs/design/planner.md,
//! 4.3 (step 6) and 4.4.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::clean::{clean, recomputed};
use crate::clock::Clock;
use crate::model::Model;
use crate::repair::{Repair, Taste};
use crate::search::Best;
use crate::tape::Tape;

/// A sequence within the budget, from the legal one in `start`; at most `tries` attempts.
pub(crate) fn greedy(
    model: &Model,
    start: &[u32],
    budget: i64,
    seed: u64,
    tries: u32,
    clock: &Clock,
) -> Option<Best> {
    let mut attempts = Attempts::new(model, start, budget, seed);
    (0..tries).find_map(|_| attempts.next(clock))
}

/// The attempts one by one.
pub(crate) struct Attempts<'m> {
    tape: Tape<'m>,
    repair: Repair,
    budget: i64,
    random: ChaCha8Rng,
    made: u32,
}

impl<'m> Attempts<'m> {
    /// From the legal sequence in `start`.
    pub(crate) fn new(model: &'m Model, start: &[u32], budget: i64, seed: u64) -> Self {
        Self {
            tape: Tape::new(model, start),
            repair: Repair::new(model.len(), budget),
            budget,
            random: ChaCha8Rng::seed_from_u64(seed),
            made: 0,
        }
    }

    /// The next one; none if it gets stuck or the clock has expired.
    pub(crate) fn next(&mut self, clock: &Clock) -> Option<Best> {
        let attempt = self.made;
        if attempt > 0 {
            if clock.expired() {
                return None;
            }
            self.tape.rollback();
        }
        self.made += 1;
        let taste = Taste::new(0.15 * f64::from(attempt), u64::MAX);
        if !self.repair.repair(&mut self.tape, &taste, &mut self.random, clock) {
            return None;
        }
        let milliseconds = clock.elapsed().as_millis() as u64;
        tracing::debug!(attempt, milliseconds, cost = self.tape.cost(), runs = self.tape.len(), "repaired");
        Some(cleaned(&mut self.tape, self.budget, &mut self.random, clock))
    }
}

/// What is left of a tape within the budget when no run can be spared.
pub(crate) fn cleaned(tape: &mut Tape, budget: i64, random: &mut ChaCha8Rng, clock: &Clock) -> Best {
    let mut nodes = recomputed(tape);
    while clean(tape, budget, &mut nodes, random) && !clock.expired() {
        nodes = recomputed(tape);
    }
    let milliseconds = clock.elapsed().as_millis() as u64;
    tracing::debug!(milliseconds, cost = tape.cost(), runs = tape.len(), "cleaned");
    Best { nodes: tape.sequence(), cost: tape.cost() }
}
