//! Banishing: a storage is freed for ever once nothing evicted depends on it, and its children are pinned.
//!
//! Idea: per storage the set of tensors that were computed from it and have no value now. When the program holds no
//! reference and this set is empty, nobody can ask for the storage again, provided that what was computed from it
//! stays; so its children are pinned and its edges cut. The reference walks a list of parents while banishing
//! shortens it, and thereby skips one; that is visible in its numbers and kept here.
//! Source: DTR, appendix C.5; docs/design/dtr.md, sections 6.3 and 8. Not here: the run of a call (see `runtime`).

use crate::tables::Tables;
use std::collections::HashSet;

/// What banishing knows beyond the tables.
#[derive(Debug, Default)]
pub(crate) struct Banishing {
    /// Per tensor: the arguments of its call that are not banished, with repetitions.
    parents: Vec<Vec<u32>>,
    /// Per tensor: the outputs computed from it, once per occurrence as an argument.
    children: Vec<Vec<u32>>,
    /// Per storage: tensors computed from it, elsewhere, that have no value now. Never iterated.
    waiting: Vec<HashSet<u32>>,
}

impl Banishing {
    /// Takes note of a call that was just linked.
    pub fn linked(&mut self, tables: &Tables, call: u32) {
        let args = tables.args(call);
        self.waiting.resize_with(tables.storages(), HashSet::new);
        self.children.resize_with(tables.tensors.len(), Vec::new);
        for output in tables.calls[call as usize].outputs.clone() {
            self.parents.push(args.iter().map(|arg| arg.0).collect());
            self.wait(tables, output);
        }
        for &arg in args {
            self.children[arg.index()].extend(tables.calls[call as usize].outputs.clone());
        }
    }

    /// Every other storage that `tensor` is computed from has one more tensor without value.
    fn wait(&mut self, tables: &Tables, tensor: u32) {
        let own = tables.tensors[tensor as usize].storage;
        for &parent in &self.parents[tensor as usize] {
            let storage = tables.tensors[parent as usize].storage;
            if storage != own {
                self.waiting[storage as usize].insert(tensor);
            }
        }
    }

    /// Takes note of an eviction.
    pub fn evicted(&mut self, tables: &Tables, storage: u32) {
        tables.tensors_of(storage).for_each(|tensor| self.wait(tables, tensor));
    }

    /// The parent of `tensor` at this place of its present list.
    pub fn parent(&self, tensor: u32, place: usize) -> Option<u32> {
        self.parents[tensor as usize].get(place).copied()
    }

    /// `tensor` was computed: the storage of its parent waits for it no longer.
    pub fn computed(&mut self, tables: &Tables, parent: u32, tensor: u32) {
        let storage = tables.tensors[parent as usize].storage;
        if storage != tables.tensors[tensor as usize].storage {
            self.waiting[storage as usize].remove(&tensor);
        }
    }

    /// Whether nothing evicted depends on the storage.
    pub fn is_idle(&self, storage: u32) -> bool {
        self.waiting[storage as usize].is_empty()
    }

    /// Cuts all edges between the storage and the others; returns its children elsewhere, to be pinned.
    pub fn cut(&mut self, tables: &Tables, storage: u32) -> Vec<u32> {
        let elsewhere = |t: u32| tables.tensors[t as usize].storage != storage;
        let mut pins = Vec::new();
        for tensor in tables.tensors_of(storage) {
            for place in 0..self.parents[tensor as usize].len() {
                let parent = self.parents[tensor as usize][place];
                if elsewhere(parent) {
                    let above = tables.tensors[parent as usize].storage;
                    self.waiting[above as usize].remove(&tensor);
                    remove_one(&mut self.children[parent as usize], tensor);
                }
            }
            for place in 0..self.children[tensor as usize].len() {
                let child = self.children[tensor as usize][place];
                if elsewhere(child) {
                    remove_one(&mut self.parents[child as usize], tensor);
                    pins.push(child);
                }
            }
        }
        pins
    }
}

fn remove_one(list: &mut Vec<u32>, item: u32) {
    if let Some(place) = list.iter().position(|&i| i == item) {
        list.remove(place);
    }
}
