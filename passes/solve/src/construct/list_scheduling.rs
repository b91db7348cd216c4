//! List scheduling: orders without recomputation, as starts.
//!
//! For graphs without the shape of a training step, reordering is worth more than recomputing.
//!
//! Among the nodes whose operands are ready, run the one with the least
//! `made − freed for good − α·Σ m[u] / (unread users of u) + noise` in bytes.
//!
//! Source: docs/design/planner.md, 7.5. Better orders: [`crate::improve::annealing`].

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::portfolio::clock::Clock;
use crate::state::flat_graph::FlatGraph;

/// The share of reads already paid for that a score gives back.
const ALPHAS: [f64; 5] = [0.0, 0.25, 0.5, 1.0, 2.0];

/// Several list schedules; the first has no noise.
pub(crate) fn list_schedules(model: &FlatGraph, count: usize, seed: u64, clock: &Clock) -> Vec<Vec<u32>> {
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

fn list_schedule(model: &FlatGraph, alpha: f64, noise: f64, random: &mut ChaCha8Rng) -> Vec<u32> {
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
