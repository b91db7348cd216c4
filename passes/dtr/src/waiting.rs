//! Locks of waiting calls, which a recomputation takes back when nothing else is left to evict.
//!
//! Idea: a call that waits for one of its arguments locks the others, and a deep recomputation waits at every level, so
//! that the locks alone can pass a budget in which every single call fits. An online runtime then unlocks what the call
//! that has waited longest holds; before that call runs, it looks for what it lacks, and has that computed once more. Two calls could
//! rob each other for ever, so each gives way a few times at most.
//! Source: ours; DTR (docs/design/dtr.md, section 5) is out of memory here, and so is the simulator. Not here: arguments of the call
//! that the program makes itself, which stay (see `online`).

use crate::runtime::{Runtime, TAKEN};
use crate::world::World;

/// How often a waiting call gives way.
const TIMES: u8 = 3;

impl<W: World> Runtime<W> {
    /// Unlocks one storage that a waiting call holds; says whether there was one.
    pub(crate) fn take_from_waiting(&mut self) -> bool {
        for place in 1..self.frames.len() {
            let (locks, end) = (self.frames[place - 1].first_lock, self.frames[place].first_lock);
            if self.frames[place - 1].given_way >= TIMES {
                continue;
            }
            let own = &self.held[locks..end];
            let alone = own.iter().copied().find(|&storage| {
                storage != TAKEN
                    && self.tables.locks[storage as usize] as usize
                        == own.iter().filter(|&&s| s == storage).count()
            });
            if let Some(storage) = alone {
                self.frames[place - 1].given_way += 1;
                for lock in locks..end {
                    if self.held[lock] == storage {
                        self.held[lock] = TAKEN;
                        self.unlock(storage);
                    }
                }
                return true;
            }
        }
        false
    }

    /// Whether the last frame lacks arguments that it held once; they are missing from now on.
    pub(crate) fn lacks_what_was_taken(&mut self) -> bool {
        let Some(frame) = self.frames.last().filter(|frame| frame.given_way > 0) else { return false };
        let before = self.missing.len();
        let call = self.tables.tensors[frame.target as usize].call;
        let mut held = self.held[frame.first_lock..].to_vec();
        for &arg in self.tables.args(call) {
            let storage = self.tables.tensors[arg.index()].storage;
            match held.iter().position(|&lock| lock == storage) {
                // One lock for every time that the call reads it.
                Some(lock) => held[lock] = TAKEN,
                None => self.missing.push(arg.0),
            }
        }
        self.missing.len() > before
    }
}
