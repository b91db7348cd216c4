//! A grain: a size of which nearly all sizes are nearly multiples.
//!
//! Sizes of one model are often multiples of one number, but for what alignment adds. Then a hole of six units does not take two
//! buffers of three: a few bytes are missing, and the search sees no difference between nearly and not at all. In grains, what
//! nearly fits fits. Sizes are rounded to the nearest multiple, so that errors cancel; afterwards buffers with their true
//! sizes are put as low as they go in the order in which they lie. The layout ends about as high as the rounded one.

use std::collections::BTreeMap;

use super::{Arena, Item};
use crate::units::Bytes;

/// Rounding may change one byte in so many.
const LOST: u128 = 1000;
/// A grain is one of so many sizes, those which most bytes have, or a part of it down to this one.
const SIZES: usize = 16;
const PARTS: u64 = 32;

impl Arena {
    /// The grain of the sizes of its buffers; the alignment if there is none above.
    pub fn grain(&self) -> Bytes {
        let alignment = self.alignment.0.max(1);
        let aligned = |bytes: Bytes| bytes.0.div_ceil(alignment).saturating_mul(alignment);
        Bytes(grain(self.buffers.iter().map(|buffer| aligned(buffer.bytes)), alignment))
    }
}

/// The largest grain of some sizes, or the alignment if there is none above.
pub(super) fn grain(sizes: impl Iterator<Item = u64>, alignment: u64) -> u64 {
    let mut counts: BTreeMap<u64, u128> = BTreeMap::new();
    sizes.filter(|&size| size > 0).for_each(|size| *counts.entry(size).or_default() += 1);
    let mut counts: Vec<(u64, u128)> = counts.into_iter().collect();
    counts.sort_by_key(|&(size, count)| std::cmp::Reverse((u128::from(size) * count, size)));
    let total: u128 = counts.iter().map(|&(size, count)| u128::from(size) * count).sum();
    let fits = |grain: u64| {
        let mut left = total / LOST;
        counts.iter().all(|&(size, count)| {
            let error = u128::from(size.abs_diff(rounded(size, grain))) * count;
            left.checked_sub(error).map(|less| left = less).is_some()
        })
    };
    let parts = counts.iter().take(SIZES).flat_map(|&(size, _)| (1..=PARTS).map(move |part| size / part));
    let mut grains: Vec<u64> = parts.filter(|&grain| grain > alignment).collect();
    grains.sort_unstable_by_key(|&grain| std::cmp::Reverse(grain));
    grains.dedup();
    grains.into_iter().find(|&grain| fits(grain)).unwrap_or(alignment)
}

/// The nearest multiple of a grain.
pub fn rounded(size: u64, grain: u64) -> u64 {
    size.saturating_add(grain / 2) / grain.max(1) * grain
}

/// The same items in grains.
pub(super) fn coarse(items: &[Item], grain: u64) -> Vec<Item> {
    items.iter().map(|item| Item { size: rounded(item.size, grain), ..*item }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multiples_of_one_number_are_seen_through_alignment() {
        let aligned = |units: u64| (units * 1_000_000).div_ceil(512) * 512;
        let sizes = [3, 7, 10, 4, 15, 8, 3].map(aligned);
        let grain = grain(sizes.into_iter().chain([512]), 512);
        assert!(grain.abs_diff(1_000_000) < 512, "{grain}");
        let units = sizes.map(|size| rounded(size, grain) / grain);
        assert_eq!((units, rounded(512, grain)), ([3, 7, 10, 4, 15, 8, 3], 0));
    }

    #[test]
    fn sizes_without_a_common_measure_stay_as_they_are() {
        assert_eq!(grain([1009, 2003, 3001, 4007, 5003].into_iter(), 64), 64);
        assert_eq!(grain([].into_iter(), 64), 64);
    }
}
