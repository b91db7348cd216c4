//! Evicted components: the neighbourhood of the paper's ẽ*, kept by union-find.
//!
//! Idea: a component is a set of evicted storages that were adjacent when one of them was evicted, with the sum of
//! their times at its root. Union-find cannot split, so a storage that returns only subtracts its time and leaves its
//! node behind: phantom connections stay. That approximation is part of the heuristic, not a bug to repair.
//! Not petgraph's union-find: that one joins by rank, and here the storage that is evicted becomes the root and every step of a look-up is
//! counted, as the reference does.
//! Source: DTR, appendix C; docs/design/dtr.md, section 6.1. Not here: exact neighbourhoods (see `regions`).

use crate::tables::{Tables, Tensor};

/// A storage in memory has no node.
const NONE: u32 = u32::MAX;

/// Union-find over evictions, one node per eviction.
#[derive(Debug, Default)]
pub(crate) struct Components {
    /// Whether connections through storages that have returned are given up now and then. The reference never does.
    splits: bool,
    parent: Vec<u32>,
    /// At roots: the time of the component in nanoseconds. Signed: a storage's time may have grown while it was
    /// away (a view was linked), and an output that never ran enters with 0 and leaves with its time.
    value: Vec<i64>,
    /// At roots: how many evicted storages the component has. The rest of its nodes are left behind.
    members: Vec<u32>,
    /// Per storage its node, or `NONE`.
    node: Vec<u32>,
    /// The roots that the current sum has counted: `counted[root] == turn`.
    counted: Vec<u64>,
    turn: u64,
    /// Whether any component with members was ever negative, so that own time is no lower bound of a numerator.
    went_negative: bool,
    /// Nodes visited by look-ups, for the access statistics.
    pub visits: u64,
}

impl Components {
    pub fn new(splits: bool) -> Self {
        Self { splits, ..Self::default() }
    }

    /// Gives the fresh storages of a call that was just linked a node of value 0 each.
    pub fn linked(&mut self, tables: &Tables, call: u32) {
        if self.splits && self.parent.len() > 2 * tables.storages() + 256 {
            self.rebuild(tables);
        }
        for output in tables.calls[call as usize].outputs.clone() {
            let Tensor { storage, .. } = tables.tensors[output as usize];
            // A view has no storage of its own; an evicted base has a node already, a resident one has none.
            if tables.first_tensor[storage as usize] == output {
                let node = self.add(0);
                if storage as usize >= self.node.len() {
                    self.node.resize(storage as usize + 1, NONE);
                }
                self.node[storage as usize] = node;
            }
        }
    }

    /// An evicted storage leaves for ever, and its time with it.
    pub fn forgotten(&mut self, tables: &Tables, storage: u32) {
        if self.node[storage as usize] != NONE {
            self.returned(tables, storage);
        }
    }

    /// Finds the components anew: drops the nodes that storages left behind, and the connections through them. On long
    /// runs those would join everything, and the sum around a storage would say nothing of it.
    fn rebuild(&mut self, tables: &Tables) {
        let evicted: Vec<u32> =
            (0..self.node.len() as u32).filter(|&s| self.node[s as usize] != NONE).collect();
        let (splits, visits) = (self.splits, self.visits);
        *self = Self { splits, visits, node: vec![NONE; self.node.len()], ..Self::default() };
        for storage in evicted {
            let node = self.add(tables.compute[storage as usize] as i64);
            self.node[storage as usize] = node;
            self.join(tables, storage);
        }
    }

    fn add(&mut self, value: i64) -> u32 {
        let node = self.parent.len() as u32;
        self.parent.push(node);
        self.value.push(value);
        self.members.push(1);
        self.counted.push(0);
        node
    }

    fn root(&mut self, mut node: u32) -> u32 {
        self.visits += 1;
        loop {
            let parent = self.parent[node as usize];
            if parent == node {
                return node;
            }
            // Halving: point to the grandparent on the way up.
            let grandparent = self.parent[parent as usize];
            self.parent[node as usize] = grandparent;
            self.visits += 1;
            node = grandparent;
        }
    }

    /// Records that `storage`, already marked as not resident, was evicted.
    pub fn evicted(&mut self, tables: &Tables, storage: u32) {
        self.node[storage as usize] = self.add(tables.compute[storage as usize] as i64);
        self.join(tables, storage);
    }

    /// Joins the component of an evicted storage with those of its evicted neighbours.
    fn join(&mut self, tables: &Tables, storage: u32) {
        let own = self.node[storage as usize];
        for neighbor in tables.evicted_neighbors(storage) {
            // While components are found anew, those that come later join this one in their turn.
            if self.node[neighbor as usize] == NONE {
                continue;
            }
            let other = self.root(self.node[neighbor as usize]);
            let root = self.root(own);
            if other != root {
                self.parent[other as usize] = root;
                // The reference looks the joined root up once more, for its value.
                self.visits += 1;
                self.value[root as usize] += self.value[other as usize];
                self.members[root as usize] += self.members[other as usize];
            }
        }
        // While one is evicted, all lookups start below `own`, and nothing was hung above it.
        let root = self.root_unseen(own);
        self.note_sign(root);
    }

    /// The root, without a visit that the reference would not make.
    fn root_unseen(&self, mut node: u32) -> u32 {
        while self.parent[node as usize] != node {
            node = self.parent[node as usize];
        }
        node
    }

    /// Records that `storage` is resident again: its present time leaves its component, its node stays behind.
    pub fn returned(&mut self, tables: &Tables, storage: u32) {
        let node = std::mem::replace(&mut self.node[storage as usize], NONE);
        let root = self.root(node);
        self.value[root as usize] -= tables.compute[storage as usize] as i64;
        self.members[root as usize] -= 1;
        // The reference looks the root up twice, to read and to write.
        self.root(node);
        self.note_sign(root);
    }

    fn note_sign(&mut self, root: u32) {
        self.went_negative |= self.value[root as usize] < 0 && self.members[root as usize] > 0;
    }

    /// The sum over the distinct components next to `storage`.
    pub fn around(&mut self, tables: &Tables, storage: u32) -> i64 {
        self.turn += 1;
        let mut sum = 0;
        for neighbor in tables.evicted_neighbors(storage) {
            let root = self.root(self.node[neighbor as usize]) as usize;
            if self.counted[root] != self.turn {
                self.counted[root] = self.turn;
                sum += self.value[root];
            }
        }
        sum
    }

    /// The sum over the distinct components next to any of `storages`, without the time of `own`: those are computed
    /// again in one run with them, and that is counted where the run is.
    pub fn around_group(&mut self, tables: &Tables, storages: &[u32], own: &[u32]) -> i64 {
        self.turn += 1;
        let mut sum = 0;
        for &storage in storages {
            for neighbor in tables.evicted_neighbors(storage) {
                let root = self.root(self.node[neighbor as usize]) as usize;
                if self.counted[root] != self.turn {
                    self.counted[root] = self.turn;
                    sum += self.value[root];
                }
            }
        }
        if sum == 0 {
            return 0;
        }
        for &storage in own {
            let Some(&node) = self.node.get(storage as usize) else { continue };
            if node != NONE {
                let root = self.root(node) as usize;
                if self.counted[root] == self.turn {
                    sum -= tables.compute[storage as usize] as i64;
                }
            }
        }
        sum.max(0)
    }

    /// Whether every numerator is at least the storage's own time.
    pub fn bounded_below(&self) -> bool {
        !self.went_negative
    }
}
