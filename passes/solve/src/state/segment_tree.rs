//! A segment tree over slots: add to a range, maximum of a range.
//!
//! Bottom-up, without pushing: an inner node holds the maximum of its subtree and a number added to all of it that its
//! children do not know about. Every operation visits O(log slots) nodes. Slots run from 1 to `slots()`; the leaf before
//! and the leaf behind are sentinels and stay 0.

#[derive(Clone, Copy, Default)]
struct Cell {
    most: i64,
    added: i64,
}

pub(crate) struct MaxTree {
    cells: Vec<Cell>,
    leaves: usize,
}

impl MaxTree {
    /// All zero, with room for at least `slots` slots.
    pub(crate) fn new(slots: usize) -> Self {
        let leaves = (slots + 2).next_power_of_two();
        Self { cells: vec![Cell::default(); 2 * leaves], leaves }
    }

    pub(crate) fn slots(&self) -> usize {
        self.leaves - 2
    }

    /// Adds to all slots from `from` to `to`, both included. Nothing if `from > to`.
    pub(crate) fn add(&mut self, from: u32, to: u32, amount: i64) {
        if from > to || amount == 0 {
            return;
        }
        let cells = &mut self.cells;
        let (mut left, mut right) = (self.leaves + from as usize - 1, self.leaves + to as usize + 1);
        while left ^ right ^ 1 != 0 {
            if left & 1 == 0 {
                cells[left ^ 1].most += amount;
                cells[left ^ 1].added += amount;
            }
            if right & 1 == 1 {
                cells[right ^ 1].most += amount;
                cells[right ^ 1].added += amount;
            }
            left >>= 1;
            right >>= 1;
            cells[left].most = cells[2 * left].most.max(cells[2 * left + 1].most) + cells[left].added;
            cells[right].most = cells[2 * right].most.max(cells[2 * right + 1].most) + cells[right].added;
        }
        // Where a maximum stays, so do those above it.
        while left > 1 {
            left >>= 1;
            let most = cells[2 * left].most.max(cells[2 * left + 1].most) + cells[left].added;
            if most == cells[left].most {
                return;
            }
            cells[left].most = most;
        }
    }

    /// The maximum over all slots.
    pub(crate) fn most(&self) -> i64 {
        self.cells[1].most
    }

    /// The maximum from `from` to `to`, both included; 0 if `from > to`.
    pub(crate) fn most_in(&self, from: u32, to: u32) -> i64 {
        if from > to {
            return 0;
        }
        let cells = &self.cells;
        let (mut left, mut right) = (self.leaves + from as usize - 1, self.leaves + to as usize + 1);
        let (mut most_left, mut most_right) = (i64::MIN / 4, i64::MIN / 4);
        while left ^ right ^ 1 != 0 {
            if left & 1 == 0 {
                most_left = most_left.max(cells[left ^ 1].most);
            }
            if right & 1 == 1 {
                most_right = most_right.max(cells[right ^ 1].most);
            }
            left >>= 1;
            right >>= 1;
            most_left += cells[left].added;
            most_right += cells[right].added;
        }
        let mut most = most_left.max(most_right);
        while left > 1 {
            left >>= 1;
            most += cells[left].added;
        }
        most
    }

    /// The number at a slot.
    pub(crate) fn at(&self, slot: u32) -> i64 {
        let mut cell = self.leaves + slot as usize;
        let mut sum = self.cells[cell].most;
        while cell > 1 {
            cell >>= 1;
            sum += self.cells[cell].added;
        }
        sum
    }

    /// A slot with more than `limit`, if there is one, and its number: at each fork `choose(left, right)` takes the right half if true,
    /// where the arguments are the maxima of both halves, each above the limit.
    pub(crate) fn find_over(
        &self,
        limit: i64,
        mut choose: impl FnMut(i64, i64) -> bool,
    ) -> Option<(u32, i64)> {
        if self.most() <= limit {
            return None;
        }
        let (mut cell, mut above) = (1, 0);
        while cell < self.leaves {
            above += self.cells[cell].added;
            let (left, right) = (self.cells[2 * cell].most + above, self.cells[2 * cell + 1].most + above);
            let go_right = match (left > limit, right > limit) {
                (true, true) => choose(left, right),
                (over_left, _) => !over_left,
            };
            cell = 2 * cell + usize::from(go_right);
        }
        Some(((cell - self.leaves) as u32, self.cells[cell].most + above))
    }

    /// The first slot with the maximum.
    pub(crate) fn first_most(&self) -> u32 {
        self.find_over(self.most() - 1, |left, right| right > left).map_or(1, |(slot, _)| slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn equals_a_plain_array(operations in prop::collection::vec((1u32..=40, 1u32..=40, 1i64..50), 1..60)) {
            let mut tree = MaxTree::new(40);
            let mut plain = vec![0i64; 41];
            for (one, other, amount) in operations {
                let (from, to) = (one.min(other), one.max(other));
                tree.add(from, to, amount);
                plain[from as usize..=to as usize].iter_mut().for_each(|slot| *slot += amount);
                prop_assert_eq!(tree.most(), plain.iter().copied().max().unwrap_or(0));
                let most_in = plain[from as usize / 2 + 1..=to as usize].iter().copied().max().unwrap_or(0);
                prop_assert_eq!(tree.most_in(from / 2 + 1, to), most_in);
                prop_assert_eq!(tree.at(to), plain[to as usize]);
                prop_assert_eq!(plain[tree.first_most() as usize], tree.most());
                let (slot, number) = tree.find_over(tree.most() / 2, |_, _| true).expect("the most is above its half");
                prop_assert!(number > tree.most() / 2);
                prop_assert_eq!(plain[slot as usize], number);
            }
        }
    }
}
