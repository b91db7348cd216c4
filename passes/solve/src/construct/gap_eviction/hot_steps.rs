//! Steps over the budget, some of all, and what an eviction does for them.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

use crate::state::slotted_timeline::SlottedTimeline;

/// Over-budget steps that are looked at besides the worst, to tell long gaps from short ones.
const SAMPLES: usize = 24;
/// Room for them.
const MOST: usize = 32;

/// Sampled slots with their excess in bytes, in order.
pub(super) struct Hot {
    /// Behind the last one there is no end of slots. A fixed number of them is compared at once.
    slots: [i32; MOST],
    excess: Vec<f64>,
    found: Vec<(u32, i64)>,
}

impl Hot {
    pub(super) fn new() -> Self {
        Self { slots: [i32::MAX; MOST], excess: Vec::new(), found: Vec::new() }
    }

    /// Takes the worst slot and some others.
    pub(super) fn sample(
        &mut self,
        timeline: &SlottedTimeline,
        budget: i64,
        worst: u32,
        random: &mut ChaCha8Rng,
    ) {
        self.found.clear();
        self.found.push((worst, timeline.tree().at(worst) - budget));
        let mut bits = random.random::<u64>();
        for _ in 0..SAMPLES {
            let found = timeline.tree().find_over(budget, |_, _| {
                bits = bits.rotate_left(1) ^ bits.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                bits & 1 == 1
            });
            self.found.extend(found.map(|(slot, bytes)| (slot, bytes - budget)));
        }
        self.found.sort_unstable();
        self.found.dedup();
        self.fill();
    }

    fn fill(&mut self) {
        self.slots = [i32::MAX; MOST];
        self.excess.clear();
        for (place, &(slot, excess)) in self.slots.iter_mut().zip(&self.found) {
            *place = slot as i32;
            self.excess.push(excess as f64);
        }
    }

    /// Bytes over the budget that go, summed over the slots, when so many rest between two slots.
    pub(super) fn gain(&self, bytes: i64, after: u32, before: u32) -> f64 {
        let (bytes, after, before) = (bytes as f64, after as i32, before as i32);
        let from = self.slots.iter().filter(|&&slot| slot <= after).count();
        let to = self.slots.iter().filter(|&&slot| slot < before).count();
        let inside = self.excess.get(from..to).unwrap_or_default();
        let less = |excess: f64| if excess < bytes { excess } else { bytes };
        let (fours, rest) = inside.as_chunks::<4>();
        let mut sums = [0.0; 4];
        for four in fours {
            for (sum, &excess) in sums.iter_mut().zip(four) {
                *sum += less(excess);
            }
        }
        sums.iter().sum::<f64>() + rest.iter().map(|&excess| less(excess)).sum::<f64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn gains_are_sums_of_what_each_slot_gains(
            mut slots in prop::collection::vec((1u32..50, 1i64..100), 1..25),
            bytes in 1i64..120,
            after in 0u32..50,
            length in 1u32..50,
        ) {
            slots.sort_unstable();
            slots.dedup_by_key(|(slot, _)| *slot);
            let before = after + length;
            let inside = slots.iter().filter(|(slot, _)| after < *slot && *slot < before);
            let plain: i64 = inside.map(|(_, excess)| bytes.min(*excess)).sum();
            let mut hot = Hot { found: slots.clone(), ..Hot::new() };
            hot.fill();
            prop_assert_eq!(hot.gain(bytes, after, before) as i64, plain);
        }
    }
}
