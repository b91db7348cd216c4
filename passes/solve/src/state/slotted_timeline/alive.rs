//! Which values may be alive at a slot: from the first run of their producer to the last use of the last one.
//!
//! Two numbers per value in two arrays, so that a look at all of them is a fast sweep over memory. Between those ends a value
//! may rest (its instances need not meet); who asks looks closer.

use crate::state::flat_graph::{FlatGraph, NONE};

/// See the module. Only for values that have a size and may be made again; the others are nowhere alive.
pub(super) struct Alive {
    first: Vec<u32>,
    last: Vec<u32>,
    counts: Vec<bool>,
}

impl Alive {
    pub(super) fn new(model: &FlatGraph) -> Self {
        let values = model.values();
        let counts = |value: usize| model.bytes[value] > 0 && !model.once[model.producer[value] as usize];
        Self { first: vec![NONE; values], last: vec![0; values], counts: (0..values).map(counts).collect() }
    }

    pub(super) fn set(&mut self, value: u32, first: u32, last: u32) {
        if self.counts[value as usize] {
            (self.first[value as usize], self.last[value as usize]) = (first, last);
        }
    }

    /// The values that were made before a slot and may be used at it or after, in order.
    pub(super) fn at(&self, slot: u32) -> impl Iterator<Item = u32> {
        let ends = self.first.iter().zip(&self.last);
        (0u32..)
            .zip(ends)
            .filter(move |(_, (first, last))| **first < slot && **last >= slot)
            .map(|(value, _)| value)
    }
}
