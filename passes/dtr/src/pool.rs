//! The pool: the ordered list of storages that may be evicted now.
//!
//! Idea: entering appends, leaving keeps the order of the rest, because the order decides between equal scores. So
//! leaving is a tombstone, and the list is squeezed when tombstones outnumber the living. Each entry carries what a
//! search reads of every storage (size, last access, a lower bound of the numerator), so that a search is one pass
//! over contiguous memory. Not here: scores.

/// Marks an entry whose storage has left, and a storage that is not in the pool.
const NONE: u32 = u32::MAX;

/// What a search needs of a storage before it looks closer.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    storage: u32,
    /// Time of the last access.
    pub stamp: u64,
    /// Bytes.
    pub size: u64,
    /// A lower bound of the score's numerator, exact as f64.
    pub floor: f64,
}

impl Entry {
    /// The storage's index, or `None` if it has left the pool since.
    pub fn storage(&self) -> Option<u32> {
        (self.storage != NONE).then_some(self.storage)
    }
}

/// Resident, unlocked, unpinned storages, in the order in which they entered.
#[derive(Debug, Default)]
pub struct Pool {
    entries: Vec<Entry>,
    /// For each storage its position in `entries`, or `NONE`.
    place: Vec<u32>,
    live: usize,
}

impl Pool {
    /// How many storages are in the pool.
    pub fn len(&self) -> usize {
        self.live
    }

    /// Whether nothing can be evicted.
    pub fn is_empty(&self) -> bool {
        self.live == 0
    }

    /// Appends a storage.
    pub fn push(&mut self, storage: u32, size: u64, stamp: u64, floor: f64) {
        let index = storage as usize;
        if index >= self.place.len() {
            self.place.resize(index + 1, NONE);
        }
        debug_assert_eq!(self.place[index], NONE, "storage {storage} is in the pool twice");
        // Squeeze when less than half is alive: constant work per entry, and a search skips few tombstones.
        if self.entries.len() > 2 * self.live + 32 {
            self.squeeze();
        }
        self.place[index] = self.entries.len() as u32;
        self.entries.push(Entry { storage, stamp, size, floor });
        self.live += 1;
    }

    /// Takes a storage out; the others keep their order. Nothing happens if it is not in the pool.
    pub fn remove(&mut self, storage: u32) {
        let Some(place) = self.place.get_mut(storage as usize) else { return };
        if *place == NONE {
            return;
        }
        self.entries[*place as usize].storage = NONE;
        *place = NONE;
        self.live -= 1;
        // The newest entries leave first in most programs: give their places back at once.
        while self.entries.last().is_some_and(|e| e.storage == NONE) {
            self.entries.pop();
        }
    }

    /// The entry of a storage, if it is in the pool.
    pub fn entry_mut(&mut self, storage: u32) -> Option<&mut Entry> {
        let place = *self.place.get(storage as usize)?;
        self.entries.get_mut(place as usize)
    }

    /// All entries in order, tombstones included: a search skips them (see [`Entry::storage`]).
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The storage at `rank` in the order of the pool, from 0.
    pub fn nth(&self, rank: usize) -> Option<u32> {
        self.entries.iter().filter_map(Entry::storage).nth(rank)
    }

    fn squeeze(&mut self) {
        self.entries.retain(|e| e.storage != NONE);
        for (place, entry) in self.entries.iter().enumerate() {
            self.place[entry.storage as usize] = place as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_keeps_the_order_of_the_rest() {
        let mut pool = Pool::default();
        for s in 0..200 {
            pool.push(s, 1, 0, 0.0);
        }
        for s in (0..200).filter(|s| s % 3 != 0) {
            pool.remove(s);
        }
        pool.push(1, 1, 0, 0.0);
        let order: Vec<u32> = pool.entries().iter().filter_map(Entry::storage).collect();
        let expected: Vec<u32> = (0..200).filter(|s| s % 3 == 0).chain([1]).collect();
        assert_eq!(order, expected);
        assert_eq!((pool.len(), pool.nth(2), pool.nth(67), pool.nth(68)), (68, Some(6), Some(1), None));
        assert!(pool.entry_mut(2).is_none() && pool.entry_mut(3).is_some());
    }
}
