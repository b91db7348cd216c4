//! Who touched which byte: a shadow of memory that finds races.
//!
//! A barrier orders all threads of a block, and nothing orders two blocks. So two accesses are unordered when they come from two blocks, or from
//! two threads of a block between the same two barriers; they race when one of them writes.
//!
//! One write and two reads per byte are enough to find some race wherever there is one. A write that raced with nothing is ordered behind
//! all before it, or is by the same thread; so whoever races with those races with it, or did so already. Of reads, one by an
//! earlier block races with every write to come; two by different threads of the same block between the same barriers race with every
//! write there is but those that are ordered behind both; later reads of the same block stand for earlier ones.
//!
//! Source: the idea of last accesses with their epochs is that of Flanagan and Freund, *FastTrack*, PLDI 2009.
//!
//! Absent here: atomics, fences, and the order that `bar.warp.sync` makes.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A thread between two barriers. Blocks run one after the other, so the numbers of blocks only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    /// From 1: 0 is nobody.
    pub block: u32,
    pub thread: u32,
    /// How many barriers the block has met.
    pub epoch: u32,
}

const NOBODY: Access = Access { block: 0, thread: 0, epoch: 0 };

impl Access {
    fn is_unordered_with(self, other: Self) -> bool {
        self != NOBODY
            && (self.block != other.block || self.epoch == other.epoch && self.thread != other.thread)
    }
}

#[derive(Clone, Copy)]
struct Cell {
    write: Access,
    reads: [Access; 2],
}

/// Bytes that are looked up together.
const PAGE: u64 = 256;

/// The shadow of all memory that was touched.
#[derive(Default)]
pub(crate) struct Races {
    pages: HashMap<u64, Box<[Cell; PAGE as usize]>, BuildHasherDefault<Spread>>,
}

/// A hash of page numbers, because every access looks one up; nobody chooses them to collide.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    fn write_u64(&mut self, number: u64) {
        // An odd number near 2^64 divided by the golden ratio: Knuth's multiplicative hashing. The map looks at both ends.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }
}

impl Races {
    /// Notes an access to some bytes; accesses are aligned, so they lie in one page or begin one.
    ///
    /// # Errors
    /// The first byte that this access races for, and with whom.
    pub fn touch(&mut self, who: Access, address: u64, bytes: u64, write: bool) -> Result<(), (u64, Access)> {
        let page = self
            .pages
            .entry(address / PAGE)
            .or_insert_with(|| Box::new([Cell { write: NOBODY, reads: [NOBODY; 2] }; PAGE as usize]));
        for byte in address..address + bytes {
            let cell = &mut page[(byte % PAGE) as usize];
            let mut before = [cell.write, cell.reads[0], cell.reads[1]].into_iter();
            let others = if write { 3 } else { 1 };
            if let Some(other) = before.by_ref().take(others).find(|other| other.is_unordered_with(who)) {
                return Err((byte, other));
            }
            if write {
                *cell = Cell { write: who, reads: [NOBODY; 2] };
            } else {
                cell.read(who);
            }
        }
        Ok(())
    }

    /// Forgets shared memory, which every block has of its own.
    pub fn forget(&mut self, from: u64, bytes: u64) {
        for page in from / PAGE..(from + bytes).div_ceil(PAGE) {
            self.pages.remove(&page);
        }
    }
}

impl Cell {
    fn read(&mut self, who: Access) {
        // What this one stands for: nobody, and earlier reads of the same block.
        let stale = |read: Access| read == NOBODY || read.block == who.block && read.epoch < who.epoch;
        if self.reads.contains(&who) {
            return;
        }
        if let Some(place) = self.reads.iter().position(|&read| stale(read)) {
            self.reads[place] = who;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng as _, SeedableRng as _};

    /// Every pair of accesses to one byte, by the definition.
    fn race_in(history: &[(Access, bool)]) -> bool {
        history.iter().enumerate().any(|(index, &(one, writes))| {
            history[..index].iter().any(|&(other, wrote)| (writes || wrote) && other.is_unordered_with(one))
        })
    }

    #[test]
    fn two_reads_and_a_write_are_enough() {
        let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(3);
        let mut found = 0;
        for _ in 0..200_000 {
            let mut races = Races::default();
            let (mut history, mut block, mut epoch) = (Vec::new(), 1, 0);
            for _ in 0..rng.random_range(1..9) {
                if rng.random_bool(0.15) {
                    (block, epoch) = (block + 1, 0);
                }
                epoch += u32::from(rng.random_bool(0.3));
                let who = Access { block, thread: rng.random_range(0..4), epoch };
                let write = rng.random_bool(0.25);
                history.push((who, write));
                let is = races.touch(who, 1000, 1, write).is_err();
                assert_eq!(is, race_in(&history), "{history:?}");
                if is {
                    found += 1;
                    break;
                }
            }
        }
        assert!(found > 10_000, "{found}");
    }

    #[test]
    fn only_bytes_that_both_touch_race() {
        let mut races = Races::default();
        let by = |thread| Access { block: 1, thread, epoch: 0 };
        assert!(races.touch(by(0), 0x100, 4, true).is_ok() && races.touch(by(1), 0x104, 4, true).is_ok());
        assert_eq!(races.touch(by(1), 0x102, 2, false), Err((0x102, by(0))));
    }
}
