//! How what is dead leaves the tables, and its ids are given to others.
//!
//! Idea: a call is needed while the program holds one of its outputs, or a call that is needed reads one. Calls only
//! read what is older, so counting references finds all that is dead, and at once. Rows of the tables come in runs
//! (the outputs of one call, its arguments), and a run is given to the next call that wants one of the same length:
//! nothing moves, and the tables stay as large as what once lived at a time.
//! Not here: values and memory of what is forgotten (see `online`).

use crate::tables::{NIL, Tables};
use std::collections::BTreeMap;
use std::ops::Range;

/// Free runs of rows, by their length.
#[derive(Debug, Default)]
pub(crate) struct Runs {
    starts: BTreeMap<usize, Vec<u32>>,
}

impl Runs {
    /// The start of a free run of this length.
    pub fn take(&mut self, length: usize) -> Option<u32> {
        if self.starts.is_empty() { None } else { self.starts.get_mut(&length)?.pop() }
    }

    fn give(&mut self, start: u32, length: usize) {
        self.starts.entry(length).or_default().push(start);
    }
}

/// Ids that nobody uses.
#[derive(Debug, Default)]
pub(crate) struct Free {
    pub calls: Vec<u32>,
    pub storages: Vec<u32>,
    pub tensors: Runs,
    pub args: Runs,
}

impl Tables {
    /// Whether nobody can ask for this tensor any more.
    pub fn is_dead(&self, tensor: u32) -> bool {
        self.refs[tensor as usize] == 0 && self.reads[tensor as usize] == 0
    }

    /// Whether nobody can ask for any output of this call any more.
    pub fn is_call_dead(&self, call: u32) -> bool {
        self.calls[call as usize].outputs.iter().all(|o| self.is_dead(o))
    }

    /// Whether this call will never run again: its outputs are dead, or in memory for ever.
    pub fn is_spent(&self, call: u32) -> bool {
        let in_memory = |o: u32| {
            let tensor = &self.tensors[o as usize];
            tensor.defined && self.settled[tensor.storage as usize]
        };
        self.calls[call as usize].outputs.iter().all(|o| in_memory(o) || self.is_dead(o))
    }

    /// A call that will never run again lets go of its arguments; those that die by it are added to `dead`.
    pub fn cut(&mut self, call: u32, dead: &mut Vec<u32>) {
        let args = std::mem::replace(&mut self.calls[call as usize].args, 0..0);
        for place in args.clone() {
            let arg = self.args[place as usize];
            self.reads[arg.index()] -= 1;
            if self.is_dead(arg.0) {
                dead.push(arg.0);
            }
        }
        self.free_args(args);
    }

    /// Gives rows of arguments to others.
    pub fn free_args(&mut self, args: Range<u32>) {
        if !args.is_empty() {
            self.free.args.give(args.start, args.len());
        }
    }

    /// Takes a tensor off the list of its storage; says whether it was the last one.
    pub fn unlist(&mut self, tensor: u32) -> bool {
        let (storage, next) =
            (self.tensors[tensor as usize].storage as usize, self.tensors[tensor as usize].next);
        let (mut before, mut at) = (NIL, self.first_tensor[storage]);
        while at != tensor {
            (before, at) = (at, self.tensors[at as usize].next);
        }
        match before {
            NIL => self.first_tensor[storage] = next,
            before => self.tensors[before as usize].next = next,
        }
        if self.last_tensor[storage] == tensor {
            self.last_tensor[storage] = before;
        }
        self.first_tensor[storage] == NIL
    }

    /// Nobody will ask any more what an evicted or settled storage was made from.
    pub fn cut_above(&mut self, storage: u32) {
        for above in std::mem::take(&mut self.above[storage as usize]) {
            self.below[above as usize].retain(|&s| s != storage);
        }
    }

    /// Gives the id of a storage without tensors to others.
    pub fn free_storage(&mut self, storage: u32) {
        self.cut_above(storage);
        for below in std::mem::take(&mut self.below[storage as usize]) {
            self.above[below as usize].retain(|&s| s != storage);
        }
        self.free.storages.push(storage);
    }

    /// Gives the ids of a dead call and its outputs to others.
    pub fn free_call(&mut self, call: u32) {
        let outputs = self.calls[call as usize].outputs.clone();
        self.free.tensors.give(outputs.own.start, outputs.own.len());
        outputs.joined.into_iter().for_each(|tensor| self.free.tensors.give(tensor, 1));
        self.free.calls.push(call);
    }

    /// Tensors, calls and storages in use, for tests of leaks.
    pub fn in_use(&self) -> [usize; 3] {
        let free =
            |runs: &Runs| runs.starts.iter().map(|(length, starts)| length * starts.len()).sum::<usize>();
        [
            self.tensors.len() - free(&self.free.tensors),
            self.calls.len() - self.free.calls.len(),
            self.size.len() - self.free.storages.len(),
        ]
    }
}
