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

use super::{Item, SplitMix, height, place};

/// Pairs of items that live at the same time beyond which nothing is squeezed: they are held in memory, 4 bytes each. Finding
/// them counts as effort, a comparison each.
const MOST_PAIRS: usize = 20_000_000;
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
    let Some(mut state) = (least > goal).then(|| Squeeze::new(items, effort)).flatten() else {
        return (offsets, 0);
    };
    let (mut patience, mut attempt) = (effort / ATTEMPTS, 0u32);
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
    /// For each item, those that live at the same time.
    neighbours: Vec<Vec<u32>>,
    /// The weight that sizes give, from 1 to [`LARGEST`].
    bulk: Vec<u64>,
    offsets: Vec<u64>,
    /// How often each item found no hole.
    refused: Vec<u64>,
    waiting: Vec<u32>,
    random: SplitMix,
    spent: u64,
    /// The placed neighbours of the item at hand, from the floor up.
    near: Vec<Near>,
    /// Their upper ends and weights, sorted.
    ends: Vec<(u64, u64)>,
}

#[derive(Clone, Copy)]
struct Near {
    from: u64,
    to: u64,
    item: u32,
    weight: u64,
}

impl<'a> Squeeze<'a> {
    fn new(items: &'a [Item], effort: u64) -> Option<Self> {
        let most_pairs = usize::try_from(effort).map_or(MOST_PAIRS, |effort| effort.min(MOST_PAIRS));
        let neighbours = neighbours(items, most_pairs)?;
        let most = items.iter().map(|item| u128::from(item.size)).max().unwrap_or(0).max(1);
        let bulk = items.iter().map(|item| 1 + (u128::from(item.size) * (LARGEST - 1) / most) as u64);
        Some(Self {
            items,
            spent: neighbours.iter().map(|list| list.len() as u64).sum(),
            neighbours,
            bulk: bulk.collect(),
            offsets: vec![WAITS; items.len()],
            refused: vec![1; items.len()],
            waiting: Vec::new(),
            random: SplitMix(0x5eed),
            near: Vec::new(),
            ends: Vec::new(),
        })
    }

    /// Looks for a layout below `height` from one that may be higher; gives up after `effort`.
    fn below(&mut self, start: &[u64], height: u64, habit: Habit, effort: u64) -> Option<Vec<u64>> {
        self.offsets.copy_from_slice(start);
        self.waiting.clear();
        let limit = self.spent + effort;
        for (index, item) in self.items.iter().enumerate().filter(|(_, item)| item.size > 0) {
            if self.offsets[index] + item.size > height {
                self.offsets[index] = WAITS;
                self.waiting.push(index as u32);
            }
        }
        while let Some(item) = self.waiting.pop() {
            if self.spent >= limit {
                return None;
            }
            self.insert(item, height, habit);
        }
        Some(self.offsets.clone())
    }

    fn insert(&mut self, item: u32, height: u64, habit: Habit) {
        let size = self.items[item as usize].size;
        self.look_around(item, habit);
        let offset = match self.hole(size, height, habit) {
            Some(offset) => offset,
            None => {
                self.refused[item as usize] += 1;
                self.cheapest(size, height)
            }
        };
        self.offsets[item as usize] = offset;
        for near in self.near.iter().filter(|near| near.from < offset + size && near.to > offset) {
            self.offsets[near.item as usize] = WAITS;
            self.waiting.push(near.item);
        }
    }

    fn look_around(&mut self, item: u32, habit: Habit) {
        let around = &self.neighbours[item as usize];
        // Looking, sorting and summing: measured, about eight comparisons each.
        self.spent += 8 * (around.len() as u64 + 4);
        self.near.clear();
        for &item in around {
            let from = self.offsets[item as usize];
            if from != WAITS {
                let bulk = if habit.by_size { self.bulk[item as usize] } else { 1 };
                let (to, weight) =
                    (from + self.items[item as usize].size, bulk * self.refused[item as usize]);
                self.near.push(Near { from, to, item, weight });
            }
        }
        self.near.sort_unstable_by_key(|near| (near.from, near.item));
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
    fn cheapest(&mut self, size: u64, height: u64) -> u64 {
        self.ends.clear();
        self.ends.extend(self.near.iter().map(|near| (near.to, near.weight)));
        self.ends.sort_unstable();
        let roof = height - size;
        let above = std::iter::once(0).chain(self.ends.iter().map(|end| end.0));
        let below = self.near.iter().filter_map(|near| near.from.checked_sub(size)).chain([roof]);
        let (mut best, mut least, mut ties) = (0, u64::MAX, 0);
        let mut try_all = |offsets: &mut dyn Iterator<Item = u64>| {
            // In the way of an item: what begins below its upper end, less what ends at its lower end or deeper.
            let (mut begun, mut ended, mut next_begin, mut next_end) = (0, 0, 0, 0);
            for offset in offsets.take_while(|&offset| offset <= roof) {
                while let Some(near) = self.near.get(next_begin).filter(|near| near.from < offset + size) {
                    begun += near.weight;
                    next_begin += 1;
                }
                while let Some(&(_, weight)) = self.ends.get(next_end).filter(|end| end.0 <= offset) {
                    ended += weight;
                    next_end += 1;
                }
                let weight: u64 = begun - ended;
                ties = if weight < least { 1 } else { ties + usize::from(weight == least) };
                if weight < least || (weight == least && self.random.below(ties) == 0) {
                    (best, least) = (offset, weight);
                }
            }
        };
        // Each in ascending order, as the sums need it.
        try_all(&mut above.into_iter());
        try_all(&mut below.into_iter());
        best
    }
}

/// The items that live at the same time as each, unless there are more of them than `most`.
fn neighbours(items: &[Item], most: usize) -> Option<Vec<Vec<u32>>> {
    let mut by_start: Vec<u32> =
        (0..items.len() as u32).filter(|&item| items[item as usize].size > 0).collect();
    by_start.sort_by_key(|&item| (items[item as usize].start, item));
    let mut lists: Vec<Vec<u32>> = vec![Vec::new(); items.len()];
    let (mut alive, mut count): (Vec<u32>, usize) = (Vec::new(), 0);
    for item in by_start {
        alive.retain(|&other| items[other as usize].end >= items[item as usize].start);
        count += 2 * alive.len();
        if count > most {
            return None;
        }
        for &other in &alive {
            lists[other as usize].push(item);
            lists[item as usize].push(other);
        }
        alive.push(item);
    }
    Some(lists)
}
