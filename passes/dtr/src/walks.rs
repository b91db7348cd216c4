//! Evicted neighbourhoods walked from scratch at every question.
//!
//! Idea: no records between questions, so nothing has to follow events: this serves runtimes whose graph loses edges,
//! by banishing (where the reference does the same) or by forgetting. Whoever asks prunes first, so that few ask.
//! Source: docs/design/dtr.md, section 6.3. Not here: the cached records of the simulator (see `regions`).

use crate::tables::Tables;

/// Scratch of the walks.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    /// The walk that saw a storage last; a storage seen in both directions counts once.
    counted: Vec<u64>,
    seen: Vec<u64>,
    turn: u64,
    todo: Vec<u32>,
}

/// Which way to walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    /// To what it was computed from, and from it.
    BothWays,
    /// To what it was computed from.
    Above,
}

impl Walks {
    /// Total time and latest access of the evicted storages that are reached through evicted ones only.
    pub fn around(&mut self, tables: &Tables, storage: u32, reach: Reach) -> (u64, u64) {
        self.seen.resize(tables.storages(), 0);
        self.counted.resize(tables.storages(), 0);
        let (mut time, mut last) = (0, 0);
        let choice = self.turn + 1;
        for next in [&tables.above, &tables.below] {
            if reach == Reach::Above && std::ptr::eq(next, &tables.below) {
                continue;
            }
            self.turn += 1;
            self.todo.push(storage);
            while let Some(storage) = self.todo.pop() {
                for &neighbor in &next[storage as usize] {
                    let n = neighbor as usize;
                    if tables.resident[n] || tables.banished[n] || self.seen[n] == self.turn {
                        continue;
                    }
                    self.seen[n] = self.turn;
                    self.todo.push(neighbor);
                    if self.counted[n] != choice {
                        self.counted[n] = choice;
                        time += tables.compute[n];
                        last = last.max(tables.stamp[n]);
                    }
                }
            }
        }
        (time, last)
    }
}
