//! Buffers in an arena: each with its life in slots and its place in the arena, or waiting for one. The state of
//! [`crate::layout::ejection_chain`]; what does the same for lives that never change is `rk_plan::arena`.
//!
//! What is in the way of a buffer has a weight there: one, how often it found no place itself, and how often the two were in
//! each other's way. The first learns fast where there are many buffers of all sizes, the second where there are few.

use rand::Rng;
use rand_chacha::ChaCha8Rng;
use rk_plan::arena::lightest;

/// The offset of a buffer that waits.
const WAITS: u64 = u64::MAX;
/// Rows for what is known of each two buffers, at most: 128 MiB.
const ROWS: u32 = 8192;
/// How often a random hole is taken instead of the tightest.
const ANY: f64 = 0.5;

/// A piece of storage with its life in slots.
#[derive(Clone, Copy)]
pub(crate) struct Item {
    pub(crate) size: u64,
    pub(crate) offset: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

/// A placed item, for fast looking: in order of `low`.
#[derive(Clone, Copy, Default)]
struct Placed {
    low: u64,
    high: u64,
    start: u32,
    end: u32,
    item: u32,
}

impl Placed {
    fn lives_with(&self, start: u32, end: u32) -> bool {
        (self.start <= end) & (start <= self.end)
    }
}

/// All buffers. No two placed ones share bytes and slots, as far as the caller keeps to that.
#[derive(Default)]
pub(crate) struct FreeSpace {
    pub(crate) items: Vec<Item>,
    /// The placed ones with a size, from the floor up.
    placed: Vec<Placed>,
    /// Those with a size that have no place.
    waiting: Vec<u32>,
    largest: u64,
    /// The row of each item in `met`, if it has a size; where there are too many, some share one.
    row: Vec<u32>,
    /// How often each item found no hole, and each two were in each other's way.
    refused: Vec<u64>,
    met: Vec<u16>,
    /// Those that live with the item at hand, so many; and their ends and weights.
    around: Vec<Placed>,
    alive: usize,
    lows: Vec<(u64, u64)>,
    highs: Vec<(u64, u64)>,
    /// How many starts lie before each slot, and the heights there.
    rank: Vec<u32>,
    tops: Vec<u64>,
}

impl FreeSpace {
    /// Takes the items as they are now. What was learned remains.
    pub(crate) fn settle(&mut self) {
        let solid = |item: &Item| item.size > 0;
        let rows = self.items.iter().filter(|item| solid(item)).count().min(ROWS as usize);
        if self.met.len() != rows * rows {
            self.met = vec![0; rows * rows];
            self.refused = vec![0; self.items.len()];
        }
        self.row = vec![u32::MAX; self.items.len()];
        (self.placed, self.waiting) = (Vec::new(), Vec::new());
        for ((index, item), row) in (0u32..).zip(&self.items).filter(|(_, item)| solid(item)).zip(0..) {
            self.row[index as usize] = row % ROWS;
            match item.offset {
                WAITS => self.waiting.push(index),
                _ => self.placed.push(placed(item, index)),
            }
        }
        self.placed.sort_unstable_by_key(|placed| (placed.low, placed.item));
        self.largest = self.items.iter().map(|item| item.size).max().unwrap_or(0);
    }

    /// Puts the placed items as low as they go, in the order of their offsets: where these are of other sizes.
    pub(crate) fn restack(&mut self) {
        let mut order: Vec<u32> = self.placed.drain(..).map(|placed| placed.item).collect();
        order.sort_by_key(|&item| (self.items[item as usize].offset, item));
        for item in order {
            let Item { size, start, end, .. } = self.items[item as usize];
            let mut top = 0;
            for other in &self.placed {
                // Which live at the same time is hard to foresee, so there is no branch for that alone.
                let alive = other.lives_with(start, end);
                if alive & (other.low >= top + size) {
                    break;
                }
                top = top.max(if alive { other.high } else { 0 });
            }
            self.put(item, top);
        }
    }

    /// Restacks, upside down and back, as long as that makes it lower.
    pub(crate) fn shake(&mut self) {
        self.restack();
        loop {
            let before = (self.height(), self.items.clone());
            for _ in 0..2 {
                self.turn(self.height());
                self.restack();
            }
            if self.height() >= before.0 {
                self.items = before.1;
                self.settle();
                return;
            }
        }
    }

    /// The placed items sink to the floor or rise to a height, as far as they go in their order: what was free between them comes
    /// together.
    pub(crate) fn gather(&mut self, height: u64, up: bool) {
        if up {
            self.turn(height);
        }
        self.sink();
        if up {
            self.turn(height);
        }
    }

    /// Puts the placed items as low as they go without passing each other.
    fn sink(&mut self) {
        // Items that meet do so where one of them starts, so heights are needed only there.
        let last = self.placed.iter().map(|placed| placed.end).max().unwrap_or(0) as usize;
        self.rank.clear();
        self.rank.resize(last + 2, 0);
        self.placed.iter().for_each(|placed| self.rank[placed.start as usize + 1] = 1);
        let mut count = 0;
        for rank in &mut self.rank {
            count += *rank;
            *rank = count;
        }
        self.tops.clear();
        self.tops.resize(count as usize, 0);
        for placed in &mut self.placed {
            let from = self.rank[placed.start as usize] as usize;
            let to = self.rank[placed.end as usize + 1] as usize;
            let tops = &mut self.tops[from..to];
            let size = placed.high - placed.low;
            placed.low = tops.iter().copied().max().unwrap_or(0);
            placed.high = placed.low + size;
            tops.fill(placed.high);
            self.items[placed.item as usize].offset = placed.low;
        }
        self.placed.sort_unstable_by_key(|placed| (placed.low, placed.item));
    }

    /// Turns the placed items upside down, below a height.
    fn turn(&mut self, top: u64) {
        for placed in &mut self.placed {
            (placed.low, placed.high) = (top - placed.high, top - placed.low);
            self.items[placed.item as usize].offset = placed.low;
        }
        self.placed.sort_unstable_by_key(|placed| (placed.low, placed.item));
    }

    /// Where the topmost placed item ends.
    pub(crate) fn height(&self) -> u64 {
        self.placed.iter().map(|placed| placed.high).max().unwrap_or(0)
    }

    fn position(&self, item: u32) -> usize {
        let low = self.items[item as usize].offset;
        self.placed.partition_point(|placed| (placed.low, placed.item) < (low, item))
    }

    /// Takes items that end above a height away from their places.
    pub(crate) fn cut(&mut self, height: u64) {
        let high = self.placed.iter().filter(|placed| placed.high > height).map(|placed| placed.item);
        for item in high.collect::<Vec<_>>() {
            self.lift(item);
        }
    }

    fn lift(&mut self, item: u32) {
        let at = self.position(item);
        self.placed.remove(at);
        self.items[item as usize].offset = WAITS;
        self.waiting.push(item);
    }

    fn put(&mut self, item: u32, offset: u64) {
        self.items[item as usize].offset = offset;
        let at = self.position(item);
        self.placed.insert(at, placed(&self.items[item as usize], item));
    }

    /// Whether nothing waits.
    pub(crate) fn is_complete(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Gives a place below `height` to the one that waits for the shortest time or, with some probability, any: a hole, or where
    /// the least weight is in the way, which waits then. False if it fits in no case.
    pub(crate) fn insert(&mut self, height: u64, any: f64, random: &mut ChaCha8Rng) -> bool {
        let count = self.waiting.len();
        let at = if random.random_bool(any) { random.random_range(0..count.max(1)) } else { count - 1 };
        let item = self.waiting.swap_remove(at);
        if self.items[item as usize].size > height {
            self.waiting.push(item);
            return false;
        }
        let Item { size, start, end, .. } = self.items[item as usize];
        self.look_around(item);
        if let Some(offset) = self.hole(size, height, random) {
            self.put(item, offset);
            return true;
        }
        self.refused[item as usize] += 1;
        let offset = self.cheapest(item, height, random);
        let (rows, row) = (self.met.len().isqrt(), self.row[item as usize] as usize);
        let mut next = self.first_above(offset);
        while let Some(other) = self.placed.get(next).copied().filter(|other| other.low < offset + size) {
            if other.high <= offset || !other.lives_with(start, end) {
                next += 1;
                continue;
            }
            self.lift(other.item);
            let column = self.row[other.item as usize] as usize;
            for pair in [row * rows + column, column * rows + row] {
                self.met[pair] = self.met[pair].saturating_add(1);
            }
        }
        self.put(item, offset);
        true
    }

    /// The first placed one that may end above an offset.
    fn first_above(&self, offset: u64) -> usize {
        self.placed.partition_point(|placed| placed.low + self.largest <= offset)
    }

    /// A random placed item goes into another hole, if there is one.
    pub(crate) fn stir(&mut self, height: u64, random: &mut ChaCha8Rng) {
        let at = random.random_range(0..self.placed.len().max(1));
        let Some(Placed { item, low, .. }) = self.placed.get(at).copied() else { return };
        self.placed.remove(at);
        self.look_around(item);
        let offset = self.hole(self.items[item as usize].size, height, random).unwrap_or(low);
        self.put(item, offset);
    }

    /// Finds the placed ones that live with an item, from the floor up.
    fn look_around(&mut self, item: u32) {
        let Item { start, end, .. } = self.items[item as usize];
        if self.around.len() < self.placed.len() {
            self.around.resize(self.placed.len(), Placed::default());
        }
        // Which they are is hard to foresee, so there is no branch for that.
        self.alive = 0;
        for other in &self.placed {
            self.around[self.alive] = *other;
            self.alive += usize::from(other.lives_with(start, end));
        }
    }

    /// The tightest hole of those around or, half of the time, any; nothing is in the way there.
    fn hole(&self, size: u64, height: u64, random: &mut ChaCha8Rng) -> Option<u64> {
        let any = random.random_bool(ANY);
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
        for other in &self.around[..self.alive] {
            look(other.low, top);
            top = top.max(other.high);
        }
        look(height, top);
        best
    }

    /// Where the least weight is in the way of an item that was looked around from; ties at random.
    fn cheapest(&mut self, item: u32, height: u64, random: &mut ChaCha8Rng) -> u64 {
        let size = self.items[item as usize].size;
        let rows = self.met.len().isqrt();
        let met = &self.met[self.row[item as usize] as usize * rows..][..rows];
        self.lows.clear();
        self.highs.clear();
        for other in &self.around[..self.alive] {
            let met = met[self.row[other.item as usize] as usize];
            let weight = 1 + self.refused[other.item as usize] + u64::from(met);
            self.lows.push((other.low, weight));
            // Nearly in order: what ends higher and began lower is soon passed.
            let end = (other.high, weight);
            let mut at = self.highs.len();
            self.highs.push(end);
            while at > 0 && self.highs[at - 1] > end {
                self.highs[at] = self.highs[at - 1];
                at -= 1;
            }
            self.highs[at] = end;
        }
        lightest(&mut self.lows, &mut self.highs, size, height - size, |ties| random.random_range(0..ties))
    }

    /// An item lives from now on as `now` does, at the same offset.
    pub(crate) fn change(&mut self, item: u32, now: &Item) {
        self.items[item as usize] = *now;
        if now.offset != WAITS && now.size > 0 {
            let at = self.position(item);
            self.placed[at] = placed(now, item);
        }
    }

    /// Whether a placed item shares bytes and slots with another.
    pub(crate) fn meets(&self, item: u32) -> bool {
        let Item { size, offset, start, end } = self.items[item as usize];
        if size == 0 || offset == WAITS {
            return false;
        }
        let low =
            self.placed[self.first_above(offset)..].iter().take_while(|other| other.low < offset + size);
        low.into_iter().any(|other| other.high > offset && other.lives_with(start, end) && other.item != item)
    }
}

fn placed(item: &Item, index: u32) -> Placed {
    Placed { low: item.offset, high: item.offset + item.size, start: item.start, end: item.end, item: index }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn there_may_be_more_items_than_rows() {
        let mut space = FreeSpace::default();
        let item = |index: u32, offset| Item { size: 1, offset, start: index, end: index + 1 };
        space.items = (0..2 * ROWS).map(|index| item(index, u64::from(index % 2))).collect();
        // Two places for three that live together: someone is in the way of everyone.
        space.items.extend((0..4).map(|index| item(ROWS + index, WAITS)));
        space.settle();
        let mut random = ChaCha8Rng::seed_from_u64(0);
        for _ in 0..100 {
            assert!(space.insert(2, 0.0, &mut random) && !space.is_complete());
        }
        assert!(space.met.iter().any(|&met| met > 0) && space.met.len() == (ROWS * ROWS) as usize);
    }

    #[test]
    fn what_is_free_comes_together() {
        let item = |size, offset, start, end| Item { size, offset, start, end };
        // Five bytes are free below the first, between the two that live with it, and above them.
        let items = vec![item(10, 5, 0, 9), item(10, 20, 0, 4), item(5, 20, 5, 9), item(10, WAITS, 2, 3)];
        for up in [false, true] {
            let mut space = FreeSpace { items: items.clone(), ..FreeSpace::default() };
            space.settle();
            let mut random = ChaCha8Rng::seed_from_u64(1);
            space.look_around(3);
            assert_eq!(space.hole(10, 35, &mut random), None);
            space.gather(35, up);
            let offsets = space.items.iter().map(|item| item.offset).collect::<Vec<_>>();
            assert_eq!(offsets, if up { [15, 25, 30, WAITS] } else { [0, 10, 10, WAITS] });
            space.look_around(3);
            assert!(space.hole(10, 35, &mut random).is_some());
        }
    }
}
