//! Squeezing a layout below a height: insertion with ejection, guided by how often each item found no place.
//!
//! What lies below the height stays; the other items wait in a stack. The top one is placed: in a hole if there is one,
//! otherwise where the items in its way weigh least, and those wait in turn. An item that finds no hole grows heavier, so
//! what is hard to place is pushed out less and less, and the search does not turn in circles. Candidate places are the
//! floor, the roof, and both ends of the items that live at the same time.
//!
//! Heights fall in small steps, each from the layout before, and how often an item found no place is remembered from height to
//! height. Where an attempt fails, the next has another habit, since none is best everywhere: the tightest hole or any, and
//! weights with or without the size. After one of each they get more patience.
//!
//! Source: the ejection pool with penalty counters of Nagata and Bräysy, "A powerful route minimization heuristic", 2009,
//! with address space in place of routes. Not here: proofs that a height is impossible.

use super::{Item, SplitMix, height, place, sweep::lightest};

/// The offset of an item that waits.
const WAITS: u64 = u64::MAX;
/// The next height is lower by one in so many parts of what is left to the lower bound.
const STEP: u64 = 50;
/// Habits to take turns in.
const HABITS: u32 = 4;
/// Shares of the effort that an attempt gets at first.
const ATTEMPTS: u64 = 16;
/// The weight of the largest item, where sizes count, in weights of an empty one.
const LARGEST: u128 = 64;

/// Lowers a layout to `goal` or towards it, for about `effort` comparisons. Returns what was spent, too.
pub(super) fn squeeze(
    items: &[Item],
    mut offsets: Vec<u64>,
    goal: u64,
    alignment: u64,
    effort: u64,
) -> (Vec<u64>, u64) {
    let mut least = height(items, &offsets);
    let mut state = Squeeze::new(items);
    let (mut patience, mut attempt) = ((effort / ATTEMPTS).max(1), 0u32);
    while least > goal && state.spent < effort {
        let target = (least - 1 - (least - goal) / STEP) / alignment * alignment;
        let habit = Habit { any_hole: attempt % 2 == 1, by_size: attempt / 2 % 2 == 1 };
        match state.below(&offsets, target, habit, patience.min(effort - state.spent)) {
            Some(lower) => {
                offsets = place::shake(items, &lower);
                least = height(items, &offsets);
                // Every item was compared to every other, some times.
                state.spent += (items.len() as u64).pow(2);
            }
            None => attempt += 1,
        }
        if attempt == HABITS {
            (attempt, patience) = (0, patience.saturating_mul(2));
        }
    }
    (offsets, state.spent)
}

#[derive(Clone, Copy)]
struct Habit {
    /// A random hole, not the tightest.
    any_hole: bool,
    /// Large items weigh more.
    by_size: bool,
}

struct Squeeze<'a> {
    items: &'a [Item],
    /// The weight that sizes give, from 1 to [`LARGEST`].
    bulk: Vec<u64>,
    offsets: Vec<u64>,
    /// What is placed, by lower ends and by upper ends.
    by_low: Vec<Placed>,
    by_high: Vec<Placed>,
    /// How often each item found no hole.
    refused: Vec<u64>,
    waiting: Vec<u32>,
    random: SplitMix,
    spent: u64,
    /// The placed neighbours of the item at hand, from the floor up.
    near: Vec<Placed>,
    tops: Vec<Placed>,
    /// Their lower and upper ends with what has a weight there, sorted.
    lows: Vec<(u64, u64)>,
    highs: Vec<(u64, u64)>,
}

/// A placed item, for fast looking.
#[derive(Clone, Copy, Default)]
struct Placed {
    from: u64,
    to: u64,
    start: u32,
    end: u32,
    item: u32,
}

impl<'a> Squeeze<'a> {
    fn new(items: &'a [Item]) -> Self {
        let most = items.iter().map(|item| u128::from(item.size)).max().unwrap_or(0).max(1);
        let bulk = items.iter().map(|item| 1 + (u128::from(item.size) * (LARGEST - 1) / most) as u64);
        Self {
            items,
            bulk: bulk.collect(),
            offsets: vec![WAITS; items.len()],
            by_low: Vec::new(),
            by_high: Vec::new(),
            refused: vec![1; items.len()],
            waiting: Vec::new(),
            random: SplitMix(0x5eed),
            spent: 0,
            near: Vec::new(),
            tops: Vec::new(),
            lows: Vec::new(),
            highs: Vec::new(),
        }
    }

    /// Looks for a layout below `height` from one that may be higher; gives up after `effort`.
    fn below(&mut self, start: &[u64], height: u64, habit: Habit, effort: u64) -> Option<Vec<u64>> {
        (self.by_low, self.by_high, self.waiting) = (Vec::new(), Vec::new(), Vec::new());
        let limit = self.spent + effort;
        for (index, (item, &from)) in self.items.iter().zip(start).enumerate() {
            self.offsets[index] = if from + item.size > height { WAITS } else { from };
            match self.offsets[index] {
                _ if item.size == 0 => {}
                WAITS => self.waiting.push(index as u32),
                _ => self.by_low.push(self.placed(index as u32)),
            }
        }
        self.list();
        while let Some(item) = self.waiting.pop() {
            if self.spent >= limit {
                return None;
            }
            self.insert(item, height, habit);
        }
        Some(self.offsets.clone())
    }

    /// Puts both lists of the placed items in order, and notes their offsets.
    fn list(&mut self) {
        self.by_high.clone_from(&self.by_low);
        self.by_low.sort_unstable_by_key(|placed| (placed.from, placed.item));
        self.by_high.sort_unstable_by_key(|placed| (placed.to, placed.item));
        for placed in &self.by_low {
            self.offsets[placed.item as usize] = placed.from;
        }
    }

    fn placed(&self, item: u32) -> Placed {
        let Item { size, start, end } = self.items[item as usize];
        let from = self.offsets[item as usize];
        Placed { from, to: from + size, start: start as u32, end: end as u32, item }
    }

    /// Where a placed item is, or would be, in the two lists.
    fn positions(&self, placed: Placed) -> (usize, usize) {
        let low = |other: &Placed| (other.from, other.item) < (placed.from, placed.item);
        let high = |other: &Placed| (other.to, other.item) < (placed.to, placed.item);
        (self.by_low.partition_point(low), self.by_high.partition_point(high))
    }

    fn insert(&mut self, item: u32, height: u64, habit: Habit) {
        let size = self.items[item as usize].size;
        self.look_around(item);
        let offset = match self.hole(size, height, habit) {
            Some(offset) => offset,
            None => {
                self.refused[item as usize] += 1;
                self.cheapest(item, height, habit)
            }
        };
        for at in 0..self.near.len() {
            let near = self.near[at];
            if near.from < offset + size && near.to > offset {
                let (low, high) = self.positions(near);
                self.by_low.remove(low);
                self.by_high.remove(high);
                self.offsets[near.item as usize] = WAITS;
                self.waiting.push(near.item);
            }
        }
        self.offsets[item as usize] = offset;
        let placed = self.placed(item);
        let (low, high) = self.positions(placed);
        self.by_low.insert(low, placed);
        self.by_high.insert(high, placed);
    }

    /// The placed neighbours of an item, sorted.
    fn look_around(&mut self, item: u32) {
        let Item { start, end, .. } = self.items[item as usize];
        // Measured: a look costs about half a comparison, filtering included.
        self.spent += self.by_low.len() as u64 / 2 + 16;
        let (start, end) = (start as u32, end as u32);
        alive(&self.by_low, &mut self.near, start, end);
    }

    /// A place where nothing is in the way.
    fn hole(&mut self, size: u64, height: u64, habit: Habit) -> Option<u64> {
        let (mut top, mut best, mut least, mut seen) = (0, None, u64::MAX, 0);
        for from in self.near.iter().map(|near| (near.from, near.to)).chain([(height, height)]) {
            let (from, to) = from;
            if from >= top + size {
                seen += 1;
                let chosen = if habit.any_hole { self.random.below(seen) == 0 } else { from - top < least };
                if chosen {
                    (best, least) = (Some(top), from - top);
                }
            }
            top = top.max(to);
        }
        best
    }

    /// The place where the least weight is in the way; ties at random.
    fn cheapest(&mut self, item: u32, height: u64, habit: Habit) -> u64 {
        let Item { size, start, end } = self.items[item as usize];
        self.spent += self.by_low.len() as u64;
        let (start, end) = (start as u32, end as u32);
        let weight = |item: u32| {
            let bulk = if habit.by_size { self.bulk[item as usize] } else { 1 };
            bulk * self.refused[item as usize]
        };
        self.lows.clear();
        self.lows.extend(self.near.iter().map(|near| (near.from, weight(near.item))));
        alive(&self.by_high, &mut self.tops, start, end);
        self.highs.clear();
        self.highs.extend(self.tops.iter().map(|near| (near.to, weight(near.item))));
        let random = &mut self.random;
        lightest(&mut self.lows, &mut self.highs, size, height - size, |ties| random.below(ties))
    }
}

/// Those that live at some time from `start` to `end`, in the same order. Which do is hard to foresee, so there is no branch.
fn alive(from: &[Placed], to: &mut Vec<Placed>, start: u32, end: u32) {
    to.resize(from.len(), Placed::default());
    let mut count = 0;
    for other in from {
        to[count] = *other;
        count += usize::from((other.start <= end) & (start <= other.end));
    }
    to.truncate(count);
}
