//! A layout within a capacity, by exhaustion: what is left when memory is full all the time and greedy orders do not fit.
//!
//! Items are placed from the bottom to the top, each as low as those below it allow, in rising order of their offsets: every layout
//! can be pressed down to one that is made so. Where a branch cannot fit is seen early:
//!
//! - a *section* is a run at which a largest set of items is needed; the lowest place that any of its items can still have, and the
//!   sizes of all that wait there, must fit;
//! - an item is not placed above the end that a waiting one would have: that one could be slid into the hole.
//!
//! Several static orders decide who comes first among candidates; they take turns with a growing share of the effort.
//!
//! Source: Moffitt, "MiniMalloc: A Lightweight Memory Allocator for Hardware-Accelerated Machine Learning" (ASPLOS 2023), for canonical
//! layouts and sections. Not here: a proof that nothing fits, which an exhausted search would be.

use std::cmp::Reverse;

use super::Item;

/// Beyond that many items a branch would be too deep.
const MOST: usize = 2000;
/// Static orders: five, with the lengths of items in time and in runs.
const ORDERS: u64 = 10;

/// Offsets within a capacity, if some are found. `spans` are how long each item is needed, for the orders alone; `effort` bounds the items that are
/// looked at.
pub(super) fn fit(items: &[Item], spans: &[u64], capacity: u64, effort: u64) -> Option<Vec<u64>> {
    let solid: Vec<usize> = (0..items.len()).filter(|&item| items[item].size > 0).collect();
    if solid.is_empty() || solid.len() > MOST {
        return None;
    }
    let chosen: Vec<Item> = solid.iter().map(|&item| items[item]).collect();
    let spans: Vec<u64> = solid.iter().map(|&item| spans[item]).collect();
    let problem = Problem::of(&chosen, &spans, capacity);
    let (mut left, mut share) = (effort, (effort / 500).max(1));
    while left > 0 {
        for number in 0..ORDERS {
            let mut branch = Branch::new(&problem, problem.order(number), share.min(left));
            let found = branch.complete(0, 0);
            left = left.saturating_sub(branch.spent);
            if found {
                let mut offsets = vec![0; items.len()];
                solid.iter().zip(branch.offsets).for_each(|(&item, offset)| offsets[item] = offset);
                return Some(offsets);
            }
            // Either all is tried, or there is nothing left to try with.
            if branch.spent < branch.limit || left == 0 {
                return None;
            }
        }
        share = share.saturating_mul(3);
    }
    None
}

struct Problem<'a> {
    items: &'a [Item],
    spans: &'a [u64],
    capacity: u64,
    /// Those that are needed at some run at which an item is.
    beside: Vec<Vec<usize>>,
    /// The items of each section.
    sections: Vec<Vec<usize>>,
    /// The sections of each item.
    within: Vec<Vec<usize>>,
}

impl<'a> Problem<'a> {
    fn of(items: &'a [Item], spans: &'a [u64], capacity: u64) -> Self {
        let meet = |one: usize, other: usize| {
            one != other && items[one].start <= items[other].end && items[other].start <= items[one].end
        };
        let all = || 0..items.len();
        let beside = all().map(|one| all().filter(|&other| meet(one, other)).collect()).collect();
        let sections = sections(items);
        let mut within = vec![Vec::new(); items.len()];
        for (number, section) in sections.iter().enumerate() {
            section.iter().for_each(|&item: &usize| within[item].push(number));
        }
        Self { items, spans, capacity, beside, sections, within }
    }

    /// The items in one of the static orders.
    fn order(&self, number: u64) -> Vec<usize> {
        let load = |section: &usize| self.sections[*section].iter().map(|&item| self.items[item].size).sum();
        let loads: Vec<u64> =
            self.within.iter().map(|sections| sections.iter().map(load).max().unwrap_or(0)).collect();
        let key = |item: usize| {
            let Item { size, start, end } = self.items[item];
            let long = if number < ORDERS / 2 { self.spans[item] } else { (end - start + 1) as u64 };
            let load = loads[item];
            let area = long.saturating_mul(size);
            match number % (ORDERS / 2) {
                0 => [load, long, size],
                1 => [long, load, size],
                2 => [load, area, 0],
                3 => [area, load, 0],
                _ => [load, u64::MAX - start as u64, long],
            }
        };
        let mut order: Vec<usize> = (0..self.items.len()).collect();
        order.sort_by_key(|&item| Reverse(key(item)));
        order
    }
}

/// The largest sets of items that are needed at one run.
fn sections(items: &[Item]) -> Vec<Vec<usize>> {
    let mut starts: Vec<usize> = items.iter().map(|item| item.start).collect();
    starts.sort_unstable();
    starts.dedup();
    let mut kept: Vec<Vec<usize>> = Vec::new();
    for run in starts {
        let here: Vec<usize> =
            (0..items.len()).filter(|&item| items[item].start <= run && run <= items[item].end).collect();
        // Items come only here, so a later set is no part of an earlier one.
        if kept.last().is_some_and(|last| last.iter().all(|item| here.binary_search(item).is_ok())) {
            kept.pop();
        }
        kept.push(here);
    }
    kept
}

/// A part of a layout, from the bottom.
struct Branch<'a> {
    problem: &'a Problem<'a>,
    order: Vec<usize>,
    rank: Vec<usize>,
    /// Of what is placed, where it lies; of what waits, the lowest place that it can still have.
    offsets: Vec<u64>,
    placed: Vec<bool>,
    /// Per section, the sizes of what waits.
    waiting: Vec<u64>,
    left: usize,
    spent: u64,
    limit: u64,
}

impl<'a> Branch<'a> {
    fn new(problem: &'a Problem<'a>, order: Vec<usize>, limit: u64) -> Self {
        let count = problem.items.len();
        let mut rank = vec![0; count];
        order.iter().enumerate().for_each(|(place, &item)| rank[item] = place);
        let size = |&item: &usize| problem.items[item].size;
        let waiting = problem.sections.iter().map(|section| section.iter().map(size).sum()).collect();
        let (offsets, placed) = (vec![0; count], vec![false; count]);
        Self { problem, order, rank, offsets, placed, waiting, left: count, spent: 0, limit }
    }

    /// Whether every section can still hold what waits in it, when nothing more is placed below `floor`.
    fn has_room(&mut self, floor: u64) -> bool {
        let problem = self.problem;
        for (section, &waiting) in problem.sections.iter().zip(&self.waiting) {
            if waiting == 0 {
                continue;
            }
            self.spent += section.len() as u64;
            let lowest = section.iter().filter(|&&item| !self.placed[item]).map(|&item| self.offsets[item]);
            if lowest.min().unwrap_or(0).max(floor) + waiting > problem.capacity {
                return false;
            }
        }
        true
    }

    /// What may come next: not below `floor`, nor at it before `rank`, nor above a hole that a waiting item fits in. The lowest comes first.
    fn candidates(&mut self, floor: u64, rank: usize) -> Vec<usize> {
        self.spent += self.order.len() as u64;
        let waits = |item: &&usize| !self.placed[**item] && self.offsets[**item] >= floor;
        let end = |item: &usize| self.offsets[*item] + self.problem.items[*item].size;
        let hole = self.order.iter().filter(waits).map(end).min().unwrap_or(0);
        let next = |item: &&usize| {
            let offset = self.offsets[**item];
            offset < hole && (offset > floor || self.rank[**item] >= rank)
        };
        let mut found: Vec<usize> = self.order.iter().filter(waits).filter(next).copied().collect();
        // Sorting is stable.
        found.sort_by_key(|&item| self.offsets[item]);
        found
    }

    /// Places all that waits, from an offset and a rank at it on.
    fn complete(&mut self, floor: u64, rank: usize) -> bool {
        if self.left == 0 {
            return true;
        }
        if self.spent >= self.limit || !self.has_room(floor) {
            return false;
        }
        let problem = self.problem;
        for item in self.candidates(floor, rank) {
            let (offset, size) = (self.offsets[item], problem.items[item].size);
            let end = offset + size;
            let raised: Vec<(usize, u64)> = problem.beside[item]
                .iter()
                .filter(|&&other| !self.placed[other] && self.offsets[other] < end)
                .map(|&other| (other, self.offsets[other]))
                .collect();
            self.spent += problem.beside[item].len() as u64;
            if raised.iter().any(|(other, _)| end + problem.items[*other].size > problem.capacity) {
                continue;
            }
            raised.iter().for_each(|&(other, _)| self.offsets[other] = end);
            self.take(item, true);
            if self.complete(offset, self.rank[item]) {
                return true;
            }
            self.take(item, false);
            raised.into_iter().for_each(|(other, before)| self.offsets[other] = before);
            if self.spent >= self.limit {
                return false;
            }
        }
        false
    }

    /// Places an item where it is, or takes it back.
    fn take(&mut self, item: usize, placed: bool) {
        self.placed[item] = placed;
        let size = self.problem.items[item].size;
        for &section in &self.problem.within[item] {
            let waiting = &mut self.waiting[section];
            *waiting = if placed { *waiting - size } else { *waiting + size };
        }
        self.left = if placed { self.left - 1 } else { self.left + 1 };
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::pieces;
    use super::super::{SplitMix, height};
    use super::*;

    #[test]
    fn a_rectangle_cut_into_pieces_is_put_together_without_a_gap() {
        let mut random = SplitMix(1);
        let (mut found, mut tried) = (0, 0);
        for _ in 0..20 {
            let items = pieces(&mut random, 4096, 30);
            let spans: Vec<u64> = items.iter().map(|item| (item.end - item.start + 1) as u64).collect();
            tried += 1;
            if let Some(offsets) = fit(&items, &spans, 4096, 50_000_000) {
                found += 1;
                assert_eq!(height(&items, &offsets), 4096);
            }
            assert_eq!(fit(&items, &spans, 4095, 1_000_000), None, "less than what is needed at once");
        }
        assert!(found * 4 >= tried * 3, "{found} of {tried}");
    }
}
