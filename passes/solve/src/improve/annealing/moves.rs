//! What an annealing changes at random.
//!
//! - *alone*: a random run goes to a random place between the runs that it is tied to
//! - *dragging*: it goes some places earlier or later, and what must stay before or behind it goes along
//! - *evict* a value that is alive and not touched at a step that is too full: its node runs again before the next use, with some of what
//!   that run misses
//! - *drop* a random recomputation, and what only it read; *exchange*: one is dropped and one evicted; *elsewhere*: one takes place
//!   before another use

use rand::Rng;

use super::{Annealing, Change};

impl Annealing<'_> {
    /// A random move. A reordering waits in the timeline's trial and begins at the place returned; other moves are made, and in the journal.
    pub(super) fn propose(&mut self, recompute: bool) -> Option<usize> {
        match self.random.random_range(if recompute { 0 } else { 6 }..20) {
            0 | 1 => self.evict(),
            2 | 3 => self.drop_one(),
            4 => {
                self.drop_one();
                self.evict();
            }
            5 => self.elsewhere(),
            kind if kind % 2 == 0 => return self.alone(),
            _ => return self.dragging(),
        }
        None
    }

    // ---- reordering ----

    fn alone(&mut self) -> Option<usize> {
        let place = self.random.random_range(0..self.timeline.len());
        let (low, high) = self.timeline.window(place);
        let (low, high) =
            (low.max(place.saturating_sub(self.params.farthest)), high.min(place + self.params.farthest));
        if high - low < 2 {
            return None;
        }
        let mut target = self.random.random_range(low..high - 1);
        target += usize::from(target >= place);
        let timeline = &mut self.timeline;
        let from = place.min(target);
        timeline.trial.clear();
        timeline.trial.extend((from..=place.max(target)).map(|place| timeline.order[place]));
        if target < place {
            timeline.trial.rotate_right(1);
        } else {
            timeline.trial.rotate_left(1);
        }
        Some(from)
    }

    fn dragging(&mut self) -> Option<usize> {
        let place = self.random.random_range(0..self.timeline.len());
        let far = 1 << self.random.random_range(1..=6);
        let far: usize = self.random.random_range(1..=far);
        let later = self.random.random::<bool>();
        let (low, high) = (place.saturating_sub(far), (place + far).min(self.timeline.len() - 1));
        self.mark += 1;
        self.group.clear();
        self.timeline.trial.clear();
        self.drag(place);
        if later {
            (place + 1..=high).for_each(|other| self.pass(other));
        } else {
            (low..place).rev().for_each(|other| self.pass(other));
        }
        if self.timeline.trial.is_empty() {
            return None;
        }
        self.timeline.trial.extend_from_slice(&self.group);
        if later {
            return Some(place);
        }
        self.timeline.trial.reverse();
        Some(low)
    }

    /// The run at a place is passed, or dragged along if it is tied to one that is.
    fn pass(&mut self, place: usize) {
        if self.marks[self.timeline.node_at(place) as usize] == self.mark {
            self.drag(place);
        } else {
            self.timeline.trial.push(self.timeline.order[place]);
        }
    }

    fn drag(&mut self, place: usize) {
        self.group.push(self.timeline.order[place]);
        for &other in self.timeline.tied(self.timeline.node_at(place)) {
            self.marks[other as usize] = self.mark;
        }
    }

    // ---- recomputation ----

    pub(super) fn undo(&mut self) {
        while let Some(change) = self.journal.pop() {
            match change {
                Change::Inserted(place) => self.timeline.remove(place),
                Change::Removed(node, place) => self.timeline.insert(node, place),
            }
        }
    }

    fn evict(&mut self) {
        let model = self.timeline.model;
        let mut place = self.random.random_range(0..self.timeline.len());
        for _ in 0..self.params.looks_for_full_steps {
            if self.timeline.over(place) > 0 {
                break;
            }
            place = self.random.random_range(0..self.timeline.len());
        }
        for _ in 0..self.params.looks {
            let value = self.random.random_range(0..model.values() as u32);
            let producer = model.producer[value as usize];
            if model.bytes[value as usize] == 0 || model.once[producer as usize] {
                continue;
            }
            let Some(run) = self.timeline.newest(value, place) else { continue };
            if self.timeline.end(value, run) <= place {
                continue;
            }
            if let Some(after) = self.timeline.next_use(value, run, place) {
                let at_use = self.random.random_bool(0.8);
                let at = if at_use { after } else { self.random.random_range(place + 1..=after) };
                self.left = self.params.group;
                self.rerun(producer, at, 1);
                return;
            }
        }
    }

    /// Runs a node before what is at a place, with some of what it misses there, and takes out what that makes superfluous. Returns how
    /// far this moved what was at the place.
    fn rerun(&mut self, node: u32, place: usize, depth: u32) -> isize {
        let model = self.timeline.model;
        let mut at = place;
        for &value in model.reads.row(node) {
            let (bytes, producer) = (model.bytes[value as usize], model.producer[value as usize]);
            let Some(run) = self.timeline.newest(value, at) else { continue };
            let end = self.timeline.end(value, run);
            if bytes == 0 || end >= at || model.once[producer as usize] || self.left == 0 {
                continue;
            }
            let (rarely, often) = (self.params.operand_if_it_fits, self.params.operand_if_it_does_not);
            let fits = self.timeline.most_over(end + 1, at) + bytes <= 0;
            if self.random.random_bool(if fits { rarely } else { often / f64::from(depth) }) {
                self.left -= 1;
                at = at.wrapping_add_signed(self.rerun(producer, at, depth + 1));
            }
        }
        self.timeline.insert(node, at);
        self.journal.push(Change::Inserted(at));
        let moved = at as isize + 1 - place as isize;
        let older = self.timeline.run_before(node, at).filter(|&older| self.timeline.is_dead(older));
        moved - older.map_or(0, |older| self.take(self.timeline.place(older))) as isize
    }

    /// Takes a run out, and what only it read; returns how many.
    fn take(&mut self, place: usize) -> usize {
        let node = self.timeline.node_at(place);
        self.timeline.remove(place);
        self.journal.push(Change::Removed(node, place));
        let mut count = 1;
        for &value in self.timeline.model.reads.row(node) {
            // Each one that goes lies before, so this place comes closer to the beginning.
            let source = self.timeline.newest(value, place + 1 - count);
            if let Some(source) = source.filter(|&source| self.timeline.is_dead(source)) {
                count += self.take(self.timeline.place(source));
            }
        }
        count
    }

    /// The place of a random recomputation.
    fn recomputation(&mut self) -> Option<usize> {
        if self.timeline.len() == self.timeline.model.len() {
            return None;
        }
        let mut places = (0..self.params.looks).map(|_| self.random.random_range(0..self.timeline.len()));
        places.find(|&place| !self.timeline.is_first(place))
    }

    fn drop_one(&mut self) {
        if let Some(place) = self.recomputation() {
            self.take(place);
        }
    }

    fn elsewhere(&mut self) {
        let model = self.timeline.model;
        let Some(place) = self.recomputation() else { return };
        let node = self.timeline.node_at(place);
        self.take(place);
        let mut any = |row: &[u32]| (!row.is_empty()).then(|| row[self.random.random_range(0..row.len())]);
        let reader = any(model.writes.row(node)).and_then(|value| any(model.readers.row(value)));
        let Some(user) = reader.and_then(|reader| any(self.timeline.runs(reader))) else { return };
        let (at, first) = (self.timeline.place(user), self.timeline.place(self.timeline.runs(node)[0]));
        if at > first + 1 {
            self.left = self.params.group;
            self.rerun(node, at, 1);
        }
    }
}
