//! Evicted regions: the exact neighbourhood e* of h_DTR, cached per storage and updated by events.
//!
//! Idea: a resident storage keeps two records, one for each direction: the evicted storages that it reaches through
//! evicted storages only (interior), the resident ones at which those walks end (frontier), and the interior's time.
//! An eviction joins the record of the victim into those of its frontier; a return walks again from every storage
//! that saw the returned one. Between events a record may lag behind the graph, and the lag is part of the
//! reference's numbers.
//!
//! Most walks are never looked at, so they are put off: a record is marked stale and walked when somebody reads it.
//! That gives the reference's record whenever that record would equal a fresh walk, which is so
//! - between calls: only outputs that have not run yet and the time of an evicted storage that just got a view are
//!   ever behind, and both are caught up with when the call that brought them has run;
//! - during a call all of whose arguments have values: only the arguments reach its outputs, they are locked, so
//!   that nobody reads their records, and those become stale again when it has run.
//!
//! A call that must recompute arguments settles the stale records of descendants before it is linked, and none of
//! those is put off until it has run; outputs that have not run have no descendants, so records of ancestors never
//! see them. If the call also is a view of something evicted, ancestors are treated likewise. A view of several
//! arguments adds edges between old storages, which is no event; after the first of those nothing is put off.
//! Source: docs/design/dtr.md, section 6.2. Not here: the neighbourhood under banishing, which is walked from scratch there.

use crate::blocks::{BlockSet, Scratch, members};
use crate::tables::{News, Tables};

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
    /// To be walked again before it is read.
    stale: bool,
}

impl Record {
    fn clear(&mut self) {
        self.interior.clear();
        self.frontier.clear();
        self.cost = 0;
        self.stale = false;
    }
}

/// When walks happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Mode {
    /// Always at the event, for every record: the reference's way, whose accesses are counted.
    Thorough,
    /// At the event, until the present call has run or for ever.
    AtOnce { for_ever: bool },
    /// Until the present call has run: at the event below, when a record is read above.
    LateAbove,
    /// When a record is read.
    #[default]
    Late,
}

/// Both records of every storage.
#[derive(Debug, Default)]
pub(crate) struct Regions {
    below: Vec<Record>,
    above: Vec<Record>,
    mode: Mode,
    /// Records that were marked stale; some have been walked since, and some are listed twice.
    stale: Vec<(u32, Direction)>,
    interior: Scratch,
    frontier: Scratch,
    todo: Vec<u32>,
    spare: Vec<(u32, u64)>,
    /// Edges looked at by walks and storages added by joins, for the access statistics of a thorough run.
    pub accesses: u64,
}

impl Regions {
    pub fn new(thorough: bool) -> Self {
        Self { mode: if thorough { Mode::Thorough } else { Mode::Late }, ..Self::default() }
    }

    /// Prepares for a call that will be linked next.
    pub fn before_link(&mut self, tables: &Tables, news: News) {
        if self.mode != Mode::Late {
            return;
        }
        self.mode = match news {
            News { joins_storages: true, .. } => Mode::AtOnce { for_ever: true },
            News { views_evicted: true, .. } => Mode::AtOnce { for_ever: false },
            News { recomputes: true, .. } => Mode::LateAbove,
            _ => return,
        };
        for (storage, direction) in std::mem::take(&mut self.stale) {
            if self.is_late(direction) {
                self.stale.push((storage, direction));
            } else {
                self.refresh(tables, storage, direction);
            }
        }
    }

    fn is_late(&self, direction: Direction) -> bool {
        self.mode == Mode::Late || self.mode == Mode::LateAbove && direction == Above
    }

    /// Gives storages linked since the last call empty records.
    pub fn linked(&mut self, tables: &Tables) {
        self.below.resize_with(tables.storages(), Record::default);
        self.above.resize_with(tables.storages(), Record::default);
        if self.stale.len() > 2 * tables.storages() {
            let mut stale = std::mem::take(&mut self.stale);
            stale.retain(|&(storage, direction)| self.record(storage, direction).stale);
            self.stale = stale;
        }
        self.interior.grow(tables.storages());
        self.frontier.grow(tables.storages());
    }

    /// The call that was linked last has run.
    pub fn computed(&mut self) {
        if matches!(self.mode, Mode::LateAbove | Mode::AtOnce { for_ever: false }) {
            self.mode = Mode::Late;
        }
    }

    /// Time of the evicted ancestors, in nanoseconds.
    pub fn time_above(&mut self, tables: &Tables, storage: u32) -> u64 {
        self.refresh(tables, storage, Above);
        self.above[storage as usize].cost
    }

    /// Time of the evicted descendants, in nanoseconds.
    pub fn time_below(&mut self, tables: &Tables, storage: u32) -> u64 {
        self.refresh(tables, storage, Below);
        self.below[storage as usize].cost
    }

    /// Records that `storage`, already marked as not resident, was evicted.
    pub fn evicted(&mut self, tables: &Tables, storage: u32) {
        let s = storage as usize;
        self.refresh(tables, storage, Above);
        self.refresh(tables, storage, Below);
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
        let skipped = self.skips(tables, owner);
        let Self { below, above, spare, accesses, .. } = self;
        let record = match direction {
            Below => &mut below[owner as usize],
            Above => &mut above[owner as usize],
        };
        if skipped || record.stale {
            return;
        }
        let Record { interior, frontier, cost, .. } = record;
        frontier.remove(victim);
        frontier.unite(&behind.frontier, spare, |_, _| ());
        // Only on a cycle of storages, which views of several arguments can make, does a walk end where it began.
        frontier.remove(owner);
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
            self.walk_or_put_off(tables, parent, Below);
        }
        for child in children.iter() {
            self.walk_or_put_off(tables, child, Above);
        }
    }

    fn record(&mut self, storage: u32, direction: Direction) -> &mut Record {
        match direction {
            Below => &mut self.below[storage as usize],
            Above => &mut self.above[storage as usize],
        }
    }

    fn walk_or_put_off(&mut self, tables: &Tables, storage: u32, direction: Direction) {
        if !self.is_late(direction) {
            self.walk(tables, storage, direction);
        } else if !self.skips(tables, storage) && !self.record(storage, direction).stale {
            self.record(storage, direction).stale = true;
            self.stale.push((storage, direction));
        }
    }

    fn refresh(&mut self, tables: &Tables, storage: u32, direction: Direction) {
        if self.record(storage, direction).stale {
            self.walk(tables, storage, direction);
        }
    }

    /// Makes one record anew.
    fn walk(&mut self, tables: &Tables, start: u32, direction: Direction) {
        if self.skips(tables, start) {
            return;
        }
        let thorough = self.mode == Mode::Thorough;
        let Self { below, above, interior, frontier, todo, accesses, .. } = self;
        let (record, next, edges) = match direction {
            Below => (&mut below[start as usize], &tables.below, &tables.edges_below),
            Above => (&mut above[start as usize], &tables.above, &tables.edges_above),
        };
        record.cost = 0;
        record.stale = false;
        todo.push(start);
        while let Some(storage) = todo.pop() {
            if thorough {
                *accesses += edges[storage as usize];
            }
            for &neighbor in &next[storage as usize] {
                let n = neighbor as usize;
                if !tables.resident[n] {
                    if interior.insert(neighbor) {
                        record.cost += tables.compute[n];
                        todo.push(neighbor);
                    }
                } else if neighbor != start && (thorough || !tables.pinned[n]) {
                    frontier.insert(neighbor);
                }
            }
        }
        interior.drain_into(&mut record.interior);
        frontier.drain_into(&mut record.frontier);
    }

    /// A pinned storage is never scored and never evicted: nobody will read its records.
    fn skips(&self, tables: &Tables, storage: u32) -> bool {
        self.mode != Mode::Thorough && tables.pinned[storage as usize]
    }
}
