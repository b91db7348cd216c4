//! Where threads wait for each other: shuffles and barriers.
//!
//! When no thread can go on, shuffles are answered whose lanes are all there; if there is none, the barrier is passed, at which all threads
//! of the block must be.
//!
//! Source: PTX ISA 9.7.9.6 (`shfl.sync`), 9.7.13.1 (`bar.sync`). `bar.sync` is `.aligned`: all threads must be at the same one. A shuffle waits
//! for those lanes of its mask that have not ended.

use crate::execute::{Run, State, Thread, WARP};
use crate::instruction::{Mode, Operation, Target};
use crate::types::low;
use crate::{Error, Place};

impl Run<'_> {
    /// Answers the shuffles whose lanes are all there. Returns whether there was one.
    pub fn exchange(&mut self) -> Result<bool, Error> {
        let mut answered = false;
        for thread in 0..self.threads.len() {
            let Thread { at, state: State::Shuffle, .. } = self.threads[thread] else { continue };
            let Operation::Shuffle { mode, to, valid, value, by, clamp, mask } =
                self.entry.instructions[at].operation
            else {
                continue;
            };
            let first = thread / WARP * WARP;
            let all = self.value(thread, mask);
            if all >> (thread - first) & 1 == 0 {
                return Err(self.undefined(
                    thread,
                    at,
                    format!("is not in the mask {all:#x} of its shuffle"),
                ));
            }
            let lanes: Vec<usize> = (first..self.threads.len().min(first + WARP))
                .filter(|lane| all >> (lane - first) & 1 == 1 && self.threads[*lane].state != State::Done)
                .collect();
            let here = |&lane: &usize| {
                let Thread { at: its, state, .. } = self.threads[lane];
                state == State::Shuffle && its == at && low(self.value(lane, mask), 32) == low(all, 32)
            };
            if !lanes.iter().all(here) {
                continue;
            }
            let given: Vec<u64> = lanes.iter().map(|&lane| self.value(lane, value)).collect();
            for &lane in &lanes {
                let (by, clamp) = (self.value(lane, by), self.value(lane, clamp));
                let (from, in_range) = source_lane(mode, lane - first, by, clamp);
                let Some(index) = lanes.iter().position(|&one| one == first + from) else {
                    return Err(self.undefined(
                        lane,
                        at,
                        format!("takes from lane {from}, which does not take part"),
                    ));
                };
                self.set(lane, to, given[index]);
                if let Some(register) = valid {
                    self.set(lane, Target { register, bits: 1 }, in_range.into());
                }
            }
            for &lane in &lanes {
                self.threads[lane].at += 1;
                self.threads[lane].state = State::Ready;
            }
            answered = true;
        }
        Ok(answered)
    }

    /// Passes the barrier that all threads are at.
    pub fn meet(&mut self) -> Result<(), Error> {
        if let Some(thread) = self.threads.iter().position(|thread| thread.state == State::Shuffle) {
            let message = "waits at a shuffle for lanes that do not come there";
            return Err(self.undefined(thread, self.threads[thread].at, message.into()));
        }
        let waiting =
            self.threads.iter().position(|thread| thread.state == State::Barrier).unwrap_or_default();
        let at = self.threads[waiting].at;
        let missing = (self.threads.iter()).position(|one| one.state == State::Done || one.at != at);
        if let Some(missing) = missing {
            let Place { thread, .. } = self.thread_place(missing);
            let message = format!("waits at a barrier that thread {thread:?} does not meet");
            return Err(self.undefined(waiting, at, message));
        }
        for thread in &mut self.threads {
            thread.at += 1;
            thread.state = State::Ready;
        }
        self.epoch += 1;
        Ok(())
    }
}

/// The lane that a lane takes from, and whether that is in its range; else it is itself.
fn source_lane(mode: Mode, lane: usize, by: u64, clamp: u64) -> (usize, bool) {
    let (lane_number, by, segment, clamp) =
        (lane as i64, (by & 31) as i64, (clamp >> 8 & 31) as i64, (clamp & 31) as i64);
    let most = lane_number & segment | clamp & !segment;
    let least = lane_number & segment;
    let (from, in_range) = match mode {
        Mode::Up => (lane_number - by, lane_number - by >= most),
        Mode::Down => (lane_number + by, lane_number + by <= most),
        Mode::Xor => (lane_number ^ by, lane_number ^ by <= most),
        Mode::Index => {
            let from = least | by & !segment;
            (from, from <= most)
        }
    };
    if in_range { (from as usize, true) } else { (lane, false) }
}
