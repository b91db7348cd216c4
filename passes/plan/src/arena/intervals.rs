//! Packing of what belongs to no schedule: sizes and spans of time, as other allocators take them.

use super::overlap::{Extent, first_overlap};
use super::{Item, exact, first, height, height_bound, search};
use crate::units::Bytes;

/// So many bytes from one moment to another, at which they are free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// The first moment.
    pub lower: u64,
    /// The first one at which it is not needed; above `lower`.
    pub upper: u64,
    /// The size.
    pub bytes: Bytes,
}

/// Where each of them lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    /// Where the topmost one ends.
    pub height: Bytes,
    /// The most that is needed at any moment: no layout is lower.
    pub lower_bound: Bytes,
    /// In the order of what was asked.
    pub offsets: Vec<Bytes>,
}

/// Packs them, and is content with a layout within `capacity`. First layouts are those of [`pack_with`](super::pack_with); where none of them
/// fits, an exhaustive search comes first (`exact`), and squeezing if it finds nothing. `effort` bounds the comparisons of each; the
/// sizes together may have at most 2^62 bytes, and what ends where it begins needs nothing.
pub fn pack_needs(needs: &[Need], capacity: Bytes, effort: u64) -> Packed {
    let mut moments: Vec<u64> = needs.iter().flat_map(|need| [need.lower, need.upper]).collect();
    moments.sort_unstable();
    moments.dedup();
    // Every moment is there, so a search finds it.
    let place = |moment: u64| moments.partition_point(|&other| other < moment);
    let items: Vec<Item> = needs
        .iter()
        .map(|need| {
            let (start, end) = (place(need.lower), place(need.upper));
            let size = if start < end { need.bytes.0 } else { 0 };
            Item { size, start, end: end.max(start + 1) - 1 }
        })
        .collect();
    let lower_bound = height_bound(&items);
    let spans: Vec<u64> = needs.iter().map(|need| need.upper.saturating_sub(need.lower)).collect();
    let enough = capacity.0.max(lower_bound);
    let (_, simple, _) = first(&items, enough, effort);
    let found = if height(&items, &simple) <= enough {
        Some(simple)
    } else {
        exact::fit(&items, &spans, enough, effort)
    };
    let mut offsets = found.unwrap_or_else(|| search(&items, enough, 1, effort).1);
    let height = height(&items, &offsets);
    offsets.iter_mut().zip(&items).filter(|(_, item)| item.size == 0).for_each(|(offset, _)| *offset = 0);
    let extents = items.iter().zip(&offsets).map(|(item, &offset)| Extent {
        from: item.start,
        to: item.end,
        offset,
        bytes: item.size,
    });
    if let Some(overlap) = first_overlap(&extents.collect::<Vec<_>>()) {
        // A layout that fails its own check must never be handed out as one.
        unreachable!("the packer overlapped two needs: {overlap:?}");
    }
    Packed {
        height: Bytes(height),
        lower_bound: Bytes(lower_bound),
        offsets: offsets.into_iter().map(Bytes).collect(),
    }
}
