//! A set of storages as sorted 64-bit blocks.
//!
//! Idea: regions hold neighbours in program order, so their members fall into few blocks; a union is a merge of two
//! short sorted lists, and memory follows the content instead of the number of storages.
//! Not here: the dense scratch sets of a walk (see [`Scratch`], which turns into a [`BlockSet`] when the walk ends).

/// A set of small integers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct BlockSet {
    /// (index / 64, members of that block), sorted, no block empty.
    blocks: Vec<(u32, u64)>,
}

impl BlockSet {
    pub fn clear(&mut self) {
        self.blocks.clear();
    }

    pub fn remove(&mut self, index: u32) {
        if let Ok(at) = self.blocks.binary_search_by_key(&(index / 64), |b| b.0) {
            self.blocks[at].1 &= !(1 << (index % 64));
            if self.blocks[at].1 == 0 {
                self.blocks.remove(at);
            }
        }
    }

    pub fn insert(&mut self, index: u32) {
        match self.blocks.binary_search_by_key(&(index / 64), |b| b.0) {
            Ok(at) => self.blocks[at].1 |= 1 << (index % 64),
            Err(at) => self.blocks.insert(at, (index / 64, 1 << (index % 64))),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().flat_map(|&(block, bits)| members(block, bits))
    }

    /// Adds all of `other`; calls `new` with each block of members that were not there. `spare` lends its memory.
    pub fn unite(&mut self, other: &Self, spare: &mut Vec<(u32, u64)>, mut new: impl FnMut(u32, u64)) {
        spare.clear();
        let (mut mine, mut theirs) = (self.blocks.as_slice(), other.blocks.as_slice());
        while let (Some(&(a, a_bits)), Some(&(b, b_bits))) = (mine.first(), theirs.first()) {
            if a < b {
                spare.push((a, a_bits));
                mine = &mine[1..];
                continue;
            }
            let known = if a == b { a_bits } else { 0 };
            if b_bits & !known != 0 {
                new(b, b_bits & !known);
            }
            spare.push((b, b_bits | known));
            mine = &mine[usize::from(a == b)..];
            theirs = &theirs[1..];
        }
        spare.extend_from_slice(mine);
        for &(b, b_bits) in theirs {
            new(b, b_bits);
            spare.push((b, b_bits));
        }
        std::mem::swap(&mut self.blocks, spare);
    }
}

/// The members of one block.
pub(crate) fn members(block: u32, mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (bits != 0).then(|| bits.trailing_zeros())?;
        bits &= bits - 1;
        Some(block * 64 + lowest)
    })
}

/// A dense set that a walk fills and then empties into a [`BlockSet`].
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    words: Vec<u64>,
    /// The touched words lie in `low..high`.
    low: usize,
    high: usize,
}

impl Scratch {
    /// Makes room for members below `bound`.
    pub fn grow(&mut self, bound: usize) {
        let words = bound.div_ceil(64);
        if self.words.len() < words {
            self.words.resize(words + words / 2, 0);
        }
    }

    /// Adds a member; whether it is new.
    pub fn insert(&mut self, index: u32) -> bool {
        let word = index as usize / 64;
        let bit = 1 << (index % 64);
        let new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        if self.low == self.high {
            (self.low, self.high) = (word, word + 1);
        } else {
            self.low = self.low.min(word);
            self.high = self.high.max(word + 1);
        }
        new
    }

    /// Moves all members into `set`, whose old content is forgotten.
    pub fn drain_into(&mut self, set: &mut BlockSet) {
        set.blocks.clear();
        for (offset, word) in self.words[self.low..self.high].iter_mut().enumerate() {
            if *word != 0 {
                set.blocks.push(((self.low + offset) as u32, *word));
                *word = 0;
            }
        }
        (self.low, self.high) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn set(members: &BTreeSet<u32>) -> BlockSet {
        let (mut scratch, mut set) = (Scratch::default(), BlockSet::default());
        scratch.grow(1000);
        for &m in members {
            assert!(scratch.insert(m) && !scratch.insert(m));
        }
        scratch.drain_into(&mut set);
        set
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_set(a in prop::collection::btree_set(0u32..1000, 0..60),
                                 b in prop::collection::btree_set(0u32..1000, 0..60), x in 0u32..1000) {
            let (mut united, mut new, mut spare) = (set(&a), BTreeSet::new(), Vec::new());
            united.unite(&set(&b), &mut spare, |block, bits| new.extend(members(block, bits)));
            prop_assert_eq!(united.iter().collect::<BTreeSet<_>>(), &a | &b);
            prop_assert_eq!(new, &b - &a);
            united.insert(x);
            prop_assert!(united.iter().any(|m| m == x));
            united.remove(x);
            prop_assert_eq!(united, set(&(&(&a | &b) - &BTreeSet::from([x]))));
        }
    }
}
