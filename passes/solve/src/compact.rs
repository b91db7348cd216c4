//! The same runs in another order, so that their buffers pack into a lower arena.
//!
//! A plan whose peak fits may still need a larger arena: sizes do not fit into the holes that others leave. Nothing has to run
//! once more for that; moving a run a little later or earlier changes which buffers meet. One iteration: a few shift moves of
//! the local search ([`crate::search`]), which keep the plan legal and its time; if the peak is still within the budget, the
//! sequence is packed roughly; accepted if its arena is at most the current one plus a tolerance that shrinks to nothing. At
//! the end of a round the best is packed once more, with the effort of the request.
//!
//! Everything is counted in iterations, the clock only stops. The arena never grows.
//!
//! Tried, and worse: adapting one layout from sequence to sequence instead of packing each anew.
//!
//! Source: threshold accepting, Dueck and Scheuer, 1990. Not here: plans of another time ([`crate::packed`] asks for those).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::arena::{Arena, pack_with};
use rk_plan::{Sequence, judge};

use crate::clock::Clock;
use crate::model::{Model, NONE, from_sequence, to_sequence};
use crate::request::{Addresses, Plan, Request};
use crate::search::shift;
use crate::tape::Tape;

/// Larger plans are left alone: one packing takes too long for many.
const MOST_RUNS: usize = 3000;
/// Rounds, each from the best of the one before, with a new tolerance.
const ROUNDS: u32 = 8;
/// Sequences looked at in a round.
const LOOKS: u32 = 2_500;
/// The first tolerance of a round, as a part of the arena.
const TOLERANCE: f64 = 0.01;
/// Comparisons of a rough packing: pairs of runs, so many times. The first placements take eight.
const ROUGH: u64 = 14;
/// The share of the time for looking.
const LOOKING: f64 = 0.8;
/// Shift moves per iteration, at most.
const SHIFTS: u32 = 4;

/// Lowers the arena of a plan until it is low enough, if that can be had in the time. The plan has its arena.
pub(crate) fn compact(
    request: &Request,
    plan: Plan,
    addresses: Addresses,
    enough: impl Fn(&Arena) -> bool,
    clock: &Clock,
) -> Plan {
    let Addresses { alignment, effort } = addresses;
    let runs = plan.sequence.0.len();
    let Some(packed) = plan.arena.clone().filter(|arena| !enough(arena) && runs <= MOST_RUNS) else {
        return plan;
    };
    let graph = request.graph;
    let budget = i64::try_from(request.budget.0).unwrap_or(i64::MAX);
    let model = Model::new(graph);
    let mut random = ChaCha8Rng::seed_from_u64(request.seed);
    let rough = (ROUGH * (runs as u64).pow(2)).min(effort);
    let pack = |sequence: &Sequence, effort| {
        judge(graph, sequence).ok().map(|trace| pack_with(graph, sequence, &trace, alignment, effort))
    };
    let mut lowest = (packed, plan.sequence.clone());
    let mut tape = Tape::new(&model, &from_sequence(&plan.sequence));
    // By rough packings, which are compared with one another only: a patient one is lower.
    let Some(first) = pack(&plan.sequence, rough) else { return plan };
    let mut best = (first.size, plan.sequence.clone());
    // The last packings take their time too.
    let clock = clock.part(LOOKING);
    for round in 0..ROUNDS {
        tape.reset(&from_sequence(&best.1));
        let mut current = best.0;
        for look in 0..LOOKS {
            if clock.expired() {
                break;
            }
            for _ in 0..random.random_range(1..=SHIFTS) {
                shift_any(&mut tape, &mut random);
            }
            let sequence = to_sequence(&tape.sequence());
            let arena = if tape.peak() <= budget { pack(&sequence, rough) } else { None };
            let left = 1.0 - f64::from(look) / f64::from(LOOKS);
            let slack = 1.0 + TOLERANCE * left * left * random.random::<f64>();
            match arena {
                Some(arena) if arena.size.0 as f64 <= current.0 as f64 * slack => {
                    tape.commit();
                    current = arena.size;
                    let done = enough(&arena);
                    if done || current < best.0 {
                        best = (current, sequence);
                    }
                    if done {
                        break;
                    }
                }
                _ => tape.rollback(),
            }
        }
        // The rough packing counts too: where it is low enough, the patient one need not be.
        for arena in [rough, effort].into_iter().filter_map(|effort| pack(&best.1, effort)) {
            if !enough(&lowest.0) && (enough(&arena) || arena.size < lowest.0.size) {
                lowest = (arena, best.1.clone());
            }
        }
        tracing::debug!(round, rough = best.0.0, arena = lowest.0.size.0, "compacted");
        if enough(&lowest.0) || clock.expired() {
            break;
        }
    }
    let (arena, sequence) = lowest;
    match judge(graph, &sequence) {
        Ok(trace) if trace.peak <= request.budget && trace.time == plan.trace.time => {
            Plan { sequence, trace, arena: Some(arena), ..plan }
        }
        _ => plan,
    }
}

/// One shift move of a random run.
fn shift_any(tape: &mut Tape, random: &mut ChaCha8Rng) {
    let mut slot = random.random_range(1..=tape.last_slot());
    if tape.node_at(slot) == NONE {
        slot = tape.previous_used(slot);
    }
    if slot > 0 {
        let node = tape.node_at(slot);
        shift(tape, node, slot, random.random_bool(0.5), random.random());
    }
}
