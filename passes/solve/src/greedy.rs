//! First plans in milliseconds: gap eviction from an order, then clean-up.
//!
//! From the order given, once without randomness, then with growing randomness if that fails. Source: planner.md of the
//! project, 4.3 (step 6) and 4.4.

use std::ops::Range;

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
    attempts(model, start, budget, seed, 0..tries, clock)
}

/// The same by some of the attempts: the first is number 0.
pub(crate) fn attempts(
    model: &Model,
    start: &[u32],
    budget: i64,
    seed: u64,
    numbers: Range<u32>,
    clock: &Clock,
) -> Option<Best> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut tape = Tape::new(model, start);
    let mut repair = Repair::new(model.len(), budget);
    for attempt in numbers {
        let sigma = 0.15 * f64::from(attempt);
        let taste = Taste { sigma, cost_limit: u64::MAX };
        if repair.repair(&mut tape, &taste, &mut random, clock) {
            let milliseconds = clock.elapsed().as_millis() as u64;
            tracing::debug!(attempt, milliseconds, cost = tape.cost(), runs = tape.len(), "repaired");
            return Some(cleaned(tape, budget, &mut random, clock));
        }
        if clock.expired() {
            return None;
        }
        tape.rollback();
    }
    None
}

/// What is left of a tape within the budget when no run can be spared.
pub(crate) fn cleaned(mut tape: Tape, budget: i64, random: &mut ChaCha8Rng, clock: &Clock) -> Best {
    let mut nodes = recomputed(&tape);
    while clean(&mut tape, budget, &mut nodes, random) && !clock.expired() {
        nodes = recomputed(&tape);
    }
    let milliseconds = clock.elapsed().as_millis() as u64;
    tracing::debug!(milliseconds, cost = tape.cost(), runs = tape.len(), "cleaned");
    Best { nodes: tape.sequence(), cost: tape.cost() }
}
