//! Evicted regions: the exact neighbourhood e* of h_DTR, cached per storage and updated by events.
//!
//! Idea: a resident storage keeps two records, one for each direction: the evicted storages that it reaches through
//! evicted storages only (interior), the resident ones at which those walks end (frontier), and the interior's time.
//! An eviction joins the record of the victim into those of its frontier; a return walks again from every storage
//! that saw the returned one. Between events a record may lag behind the graph (a view call changes edges and is no
//! event), and the lag is part of the reference's numbers, so records are never refreshed at other moments.
//! Source: dtr.md, section 6.2. Not here: the neighbourhood under banishing, which is walked from scratch there.

use crate::blocks::{BlockSet, Scratch, members};
use crate::tables::Tables;

/// The two directions of a walk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Below,
    Above,
}

use Direction::{Above, Below};

#[derive(Clone, Debug, Default)]
struct Record {
    interior: BlockSet,
    frontier: BlockSet,
    cost: u64,
}

impl Record {
    fn clear(&mut self) {
        self.interior.clear();
        self.frontier.clear();
        self.cost = 0;
    }
}

/// Both records of every storage.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    below: Vec<Record>,
    above: Vec<Record>,
    interior: Scratch,
    frontier: Scratch,
    todo: Vec<u32>,
    spare: Vec<(u32, u64)>,
    /// Whether records of pinned storages are kept up, which nobody reads: only then `accesses` is the reference's.
    thorough: bool,
    /// Edges looked at by walks and storages added by joins, for the access statistics.
    pub accesses: u64,
}

impl Regions {
    pub fn new(thorough: bool) -> Self {
        Self { thorough, ..Self::default() }
    }

    /// Gives storages linked since the last call empty records.
    pub fn grow(&mut self, tables: &Tables) {
        self.below.resize_with(tables.storages(), Record::default);
        self.above.resize_with(tables.storages(), Record::default);
        self.interior.grow(tables.storages());
        self.frontier.grow(tables.storages());
    }

    /// Time of the evicted ancestors, in nanoseconds.
    pub fn time_above(&self, storage: u32) -> u64 {
        self.above[storage as usize].cost
    }

    /// Time of the evicted descendants, in nanoseconds.
    pub fn time_below(&self, storage: u32) -> u64 {
        self.below[storage as usize].cost
    }

    /// Records that `storage`, already marked as not resident, was evicted.
    pub fn evicted(&mut self, tables: &Tables, storage: u32) {
        let s = storage as usize;
        // Taken out, so that the records of the frontier can be written meanwhile; put back empty, memory kept.
        let mut above = std::mem::take(&mut self.above[s]);
        let mut below = std::mem::take(&mut self.below[s]);
        for parent in above.frontier.iter() {
            self.absorb(tables, storage, &below, parent, Below);
        }
        for child in below.frontier.iter() {
            self.absorb(tables, storage, &above, child, Above);
        }
        above.clear();
        below.clear();
        self.above[s] = above;
        self.below[s] = below;
    }

    /// Joins the victim and what lay behind it into the record of `owner`.
    fn absorb(&mut self, tables: &Tables, victim: u32, behind: &Record, owner: u32, direction: Direction) {
        if self.skips(tables, owner) {
            return;
        }
        let Self { below, above, spare, accesses, .. } = self;
        let record = match direction {
            Below => &mut below[owner as usize],
            Above => &mut above[owner as usize],
        };
        record.frontier.remove(victim);
        record.frontier.unite(&behind.frontier, spare, |_, _| ());
        // Only on a cycle of storages, which views of several arguments can make, does a walk end where it began.
        record.frontier.remove(owner);
        let Record { interior, cost, .. } = record;
        interior.remove(victim);
        *cost += tables.compute[victim as usize];
        *accesses += 1;
        interior.unite(&behind.interior, spare, |block, bits| {
            *accesses += u64::from(bits.count_ones());
            *cost += members(block, bits).map(|m| tables.compute[m as usize]).sum::<u64>();
        });
        interior.insert(victim);
    }

    /// Records that `storages` became resident by one call.
    pub fn returned(&mut self, tables: &Tables, storages: &[u32]) {
        let (mut parents, mut children) = (BlockSet::default(), BlockSet::default());
        for &storage in storages {
            self.walk(tables, storage, Below);
            self.walk(tables, storage, Above);
            parents.unite(&self.above[storage as usize].frontier, &mut self.spare, |_, _| ());
            children.unite(&self.below[storage as usize].frontier, &mut self.spare, |_, _| ());
        }
        for parent in parents.iter() {
            self.walk(tables, parent, Below);
        }
        for child in children.iter() {
            self.walk(tables, child, Above);
        }
    }

    /// Makes one record anew.
    fn walk(&mut self, tables: &Tables, start: u32, direction: Direction) {
        if self.skips(tables, start) {
            return;
        }
        let Self { below, above, interior, frontier, todo, accesses, thorough, .. } = self;
        let (record, next, edges) = match direction {
            Below => (&mut below[start as usize], &tables.below, &tables.edges_below),
            Above => (&mut above[start as usize], &tables.above, &tables.edges_above),
        };
        record.cost = 0;
        todo.push(start);
        while let Some(storage) = todo.pop() {
            *accesses += edges[storage as usize];
            for &neighbor in &next[storage as usize] {
                let n = neighbor as usize;
                if !tables.resident[n] {
                    if interior.insert(neighbor) {
                        record.cost += tables.compute[n];
                        todo.push(neighbor);
                    }
                } else if neighbor != start && (*thorough || !tables.pinned[n]) {
                    frontier.insert(neighbor);
                }
            }
        }
        interior.drain_into(&mut record.interior);
        frontier.drain_into(&mut record.frontier);
    }

    /// A pinned storage is never scored and never evicted: nobody will read its records.
    fn skips(&self, tables: &Tables, storage: u32) -> bool {
        !self.thorough && tables.pinned[storage as usize]
    }
}
