//! The options of a segment: which of its values to drop together, and what it takes to get them back.
//!
//! Idea: dropping a set of values costs one run, in order, of the calls that make them and of the calls between whose
//! results nobody holds. So what one more value costs depends on what is dropped already: two values behind one matrix
//! product cost it once. Values are added by what they add in time per byte, and steps that get cheaper than the
//! one before are joined with it: what is left is the lower hull of bytes against time, the options of a block in Rockmate
//! (Zhao et al. 2023) that an online policy can take one after the other.
//! Made once for a class and for what of it the program still holds; every instance uses it.
//! Not here: when a step is taken (`super`); options that keep other values than the program holds.

/// A call of a segment. Storages are counted from 0 in the order of their making.
#[derive(Clone, Debug, Default)]
pub(crate) struct BlockCall {
    /// Nanoseconds.
    pub cost: u64,
    /// Storages of the segment that it reads.
    pub reads: Vec<u32>,
    /// Storages that it makes, or makes a view of.
    pub makes: Vec<u32>,
}

/// What of a segment does not depend on the instance.
#[derive(Clone, Debug, Default)]
pub(crate) struct Block {
    /// In order.
    pub calls: Vec<BlockCall>,
    /// Bytes by storage.
    pub sizes: Vec<u64>,
}

/// Values that are dropped together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// Which, in the order of their making.
    pub storages: Vec<u32>,
    /// What they take in memory.
    pub bytes: u64,
    /// Nanoseconds that this adds to computing again what the steps before have dropped.
    pub cost: u64,
}

impl Block {
    /// Nanoseconds of one run in order that brings back what is dropped; `kept` is in memory.
    fn cost(&self, kept: &[bool], dropped: &[bool]) -> u64 {
        let mut wanted = dropped.to_vec();
        let mut cost = 0;
        for call in self.calls.iter().rev() {
            if call.makes.iter().any(|&s| wanted[s as usize]) {
                cost += call.cost;
                for &read in &call.reads {
                    let read = read as usize;
                    wanted[read] |= !kept[read] || dropped[read];
                }
            }
        }
        cost
    }

    /// The steps, cheapest per byte first. `held`: which storages the program holds.
    pub fn options(&self, held: &[bool]) -> Vec<Step> {
        let mut dropped = vec![false; held.len()];
        let mut left: Vec<usize> = (0..held.len()).filter(|&s| held[s] && self.sizes[s] > 0).collect();
        let mut spent = 0;
        let mut steps: Vec<Step> = Vec::new();
        while !left.is_empty() {
            let mut best: Option<(usize, u64)> = None;
            for (place, &storage) in left.iter().enumerate() {
                dropped[storage] = true;
                let cost = self.cost(held, &dropped).saturating_sub(spent);
                dropped[storage] = false;
                if best.is_none_or(|(other, least)| {
                    cheaper((cost, self.sizes[storage]), (least, self.sizes[left[other]]))
                }) {
                    best = Some((place, cost));
                }
            }
            let Some((place, cost)) = best else { break };
            let storage = left.remove(place);
            dropped[storage] = true;
            spent += cost;
            let mut step = Step { storages: vec![storage as u32], bytes: self.sizes[storage], cost };
            while let Some(last) =
                steps.pop_if(|last| !cheaper((last.cost, last.bytes), (step.cost, step.bytes)))
            {
                step.storages.extend(last.storages);
                step.bytes += last.bytes;
                step.cost += last.cost;
            }
            step.storages.sort_unstable();
            steps.push(step);
        }
        steps
    }
}

/// Whether the first takes less time per byte.
fn cheaper((time, bytes): (u64, u64), (other_time, other_bytes): (u64, u64)) -> bool {
    u128::from(time) * u128::from(other_bytes) < u128::from(other_time) * u128::from(bytes)
}
