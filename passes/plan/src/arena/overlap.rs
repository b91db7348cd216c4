//! Law S7 by itself: of what is needed at the same run, no two share a byte.
//!
//! A sweep over the runs with the set of live ranges by address, O(n log n). It shares no code with the packer, and all that holds a layout in a form of its
//! own asks it: arenas here, step files in `rk-step`. The verifier of the dialect is a second proof, by another way.

use std::collections::BTreeMap;

/// A range of bytes that is taken over a range of runs, both ends of the latter included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The first run.
    pub from: usize,
    /// The last run.
    pub to: usize,
    /// The first byte.
    pub offset: u64,
    /// How many; none take no part.
    pub bytes: u64,
}

/// Two extents that share a byte, by their positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overlap {
    /// The one that was there before.
    pub old: usize,
    /// The one that comes.
    pub new: usize,
    /// The first run at which both are needed.
    pub run: usize,
}

/// The first overlap in the order of the runs. No extent may end beyond the largest number.
pub fn first_overlap(extents: &[Extent]) -> Option<Overlap> {
    let taking = || extents.iter().enumerate().filter(|(_, extent)| extent.bytes > 0);
    // At the same run, what ended at the run before leaves (false) before what starts enters (true).
    let enter = taking().map(|(index, extent)| (extent.from, true, index));
    let leave = taking().map(|(index, extent)| (extent.to + 1, false, index));
    let mut events: Vec<(usize, bool, usize)> = enter.chain(leave).collect();
    events.sort_unstable();
    let mut live: BTreeMap<u64, usize> = BTreeMap::new();
    for (run, enters, new) in events {
        let Extent { offset, bytes, .. } = extents[new];
        if !enters {
            live.remove(&offset);
            continue;
        }
        let below = live.range(..=offset).next_back();
        let above = live.range(offset..).next();
        let meets = |old: &usize| {
            let old = extents[*old];
            old.offset < offset + bytes && offset < old.offset + old.bytes
        };
        if let Some(old) = below.into_iter().chain(above).map(|(_, &old)| old).find(meets) {
            return Some(Overlap { old, new, run });
        }
        live.insert(offset, new);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s7_overlaps_are_those_of_all_pairs() {
        let mut state = 7u64;
        let mut below = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let mut free = 0;
        for _ in 0..2000 {
            let extents: Vec<Extent> = (0..2 + below(5))
                .map(|_| {
                    let from = below(6) as usize;
                    Extent { from, to: from + below(4) as usize, offset: below(9), bytes: below(4) }
                })
                .collect();
            let meet = |one: Extent, other: Extent| {
                (one.from <= other.to && other.from <= one.to)
                    && one.offset.max(other.offset) < (one.offset + one.bytes).min(other.offset + other.bytes)
            };
            let pairs = extents.iter().enumerate().flat_map(|(at, one)| {
                extents[at + 1..]
                    .iter()
                    .filter(|other| meet(*one, **other))
                    .map(|other| one.from.max(other.from))
            });
            let found = first_overlap(&extents);
            assert_eq!(found.map(|overlap| overlap.run), pairs.min(), "{extents:?}");
            if let Some(Overlap { old, new, .. }) = found {
                assert!(meet(extents[old], extents[new]), "{extents:?}");
            }
            free += usize::from(found.is_none());
        }
        assert!((400..1600).contains(&free), "{free}");
    }
}
