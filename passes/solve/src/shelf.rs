//! Buffers on a shelf: each with its life in slots and its place in the arena, or waiting for one. The state of
//! [`crate::joint`]; what does the same for lives that never change is `rk_plan::arena`.

use rand::Rng;
use rand_chacha::ChaCha8Rng;

/// The offset of a buffer that waits.
pub(crate) const WAITS: u64 = u64::MAX;

/// A piece of storage with its life in slots.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A placed item, for fast looking: in order of `low`.
#[derive(Clone, Copy)]
pub(crate) struct Placed {
    pub(crate) low: u64,
    pub(crate) high: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) item: u32,
}

/// All buffers. No two placed ones share bytes and slots, as far as the caller keeps to that.
#[derive(Default)]
pub(crate) struct Shelf {
    pub(crate) items: Vec<Item>,
    /// The placed ones with a size, from the floor up.
    pub(crate) placed: Vec<Placed>,
    /// How often each item found no hole.
    pub(crate) refused: Vec<u64>,
    ends: Vec<(u64, u64)>,
}

impl Shelf {
    /// Puts all items that have a size and a place in order.
    pub(crate) fn sort(&mut self) {
        let solid = self.items.iter().zip(0u32..).filter(|(item, _)| item.size > 0 && item.offset != WAITS);
        self.placed = solid.map(|(item, index)| placed(item, index)).collect();
        self.placed.sort_unstable_by_key(|placed| (placed.low, placed.item));
        self.refused.resize(self.items.len(), 1);
    }

    fn position(&self, item: u32) -> usize {
        let low = self.items[item as usize].offset;
        self.placed.partition_point(|placed| (placed.low, placed.item) < (low, item))
    }

    /// Takes an item away from its place.
    pub(crate) fn lift(&mut self, item: u32) {
        let at = self.position(item);
        self.placed.remove(at);
        self.items[item as usize].offset = WAITS;
    }

    /// Gives an item a place.
    pub(crate) fn put(&mut self, item: u32, offset: u64) {
        self.items[item as usize].offset = offset;
        let at = self.position(item);
        self.placed.insert(at, placed(&self.items[item as usize], item));
    }

    /// The tightest hole or, half of the time, any; nothing is in the way there.
    pub(crate) fn hole(&self, item: u32, height: u64, random: &mut ChaCha8Rng) -> Option<u64> {
        let Item { size, start, end, .. } = self.items[item as usize];
        let any = random.random_bool(0.5);
        let (mut top, mut best, mut least, mut seen) = (0, None, u64::MAX, 0u32);
        let mut look = |from: u64, top: u64| {
            if from >= top + size {
                seen += 1;
                let better = if any { random.random_range(0..seen) == 0 } else { from - top < least };
                if better {
                    // Either end of it.
                    let upper = any && random.random_bool(0.5);
                    (best, least) = (Some(if upper { from - size } else { top }), from - top);
                }
            }
        };
        for other in self.placed.iter().filter(|other| other.start <= end && start <= other.end) {
            look(other.low, top);
            top = top.max(other.high);
        }
        look(height, top);
        best
    }

    /// Where the items in the way have been refused least; ties at random.
    pub(crate) fn cheapest(&mut self, item: u32, height: u64, random: &mut ChaCha8Rng) -> u64 {
        let Item { size, start, end, .. } = self.items[item as usize];
        let near: Vec<(u64, u64, u64)> = self
            .placed
            .iter()
            .filter(|other| other.start <= end && start <= other.end)
            .map(|other| (other.low, other.high, self.refused[other.item as usize]))
            .collect();
        self.ends.clear();
        self.ends.extend(near.iter().map(|near| (near.1, near.2)));
        self.ends.sort_unstable();
        let roof = height - size;
        let above = std::iter::once(0).chain(self.ends.iter().map(|end| end.0));
        let below = near.iter().filter_map(|near| near.0.checked_sub(size)).chain([roof]);
        let (mut best, mut least, mut ties) = (0, u64::MAX, 0u32);
        let mut try_all = |offsets: &mut dyn Iterator<Item = u64>| {
            // In the way: what begins below the upper end, less what ends at the lower end or deeper.
            let (mut begun, mut ended, mut next_begin, mut next_end) = (0u64, 0u64, 0, 0);
            for offset in offsets.take_while(|&offset| offset <= roof) {
                while let Some(near) = near.get(next_begin).filter(|near| near.0 < offset + size) {
                    begun += near.2;
                    next_begin += 1;
                }
                while let Some(&(_, weight)) = self.ends.get(next_end).filter(|end| end.0 <= offset) {
                    ended += weight;
                    next_end += 1;
                }
                let weight = begun - ended;
                ties = if weight < least { 1 } else { ties + u32::from(weight == least) };
                if weight < least || (weight == least && random.random_range(0..ties) == 0) {
                    (best, least) = (offset, weight);
                }
            }
        };
        try_all(&mut above.into_iter());
        try_all(&mut below.into_iter());
        best
    }

    /// The lives of what has changed, in the placed ones.
    pub(crate) fn refresh(&mut self, changed: &[(u32, Item)]) {
        for &(item, _) in changed {
            let about = self.items[item as usize];
            if about.size > 0 && about.offset != WAITS {
                let at = self.position(item);
                self.placed[at] = placed(&about, item);
            }
        }
    }

    /// Whether a placed item shares bytes and slots with another.
    pub(crate) fn meets(&self, item: u32) -> bool {
        let Item { size, offset, start, end } = self.items[item as usize];
        if size == 0 || offset == WAITS {
            return false;
        }
        let mut below = self.placed.iter().take_while(|other| other.low < offset + size);
        below.any(|other| {
            other.high > offset && other.start <= end && start <= other.end && other.item != item
        })
    }
}

fn placed(item: &Item, index: u32) -> Placed {
    Placed { low: item.offset, high: item.offset + item.size, start: item.start, end: item.end, item: index }
}
