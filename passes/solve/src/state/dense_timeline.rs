//! A sequence as a timeline of runs without gaps: the incremental judge of the annealing.
//!
//! Every run knows what it leaves behind (its outputs, less the instances whose last user it is), so memory is a running sum.
//! What a timeline is judged by is its *excess*: bytes over the budget, summed over the steps. Unlike the peak it falls with every
//! byte that goes away anywhere above the budget. Two kinds of change:
//!
//! - a *reordering* of neighbours that keeps the order of *tied* runs (of one node, or of nodes one of which reads the other):
//!   every run reads what it did, and memory changes in between only; known before it is made, in O(runs · degree)
//! - a run *put in* or *taken out*, in O(length)
//!
//! A timeline sees what the judge sees, but for generator state, which is not counted. Against [`crate::state::slotted_timeline::SlottedTimeline`]: several times faster while timelines
//! are short, and memory at every step is at hand; but a change takes time in proportion to its length.

use crate::state::flat_graph::{Csr, FlatGraph, NONE};

mod reorder;

/// See the module.
pub(crate) struct DenseTimeline<'m> {
    pub(crate) model: &'m FlatGraph,
    budget: i64,
    /// Per node, the nodes it is tied to, itself among them.
    tied: Csr,
    /// Per value, its place among the outputs of its node.
    index: Vec<u32>,
    /// Run numbers in order; per run its place and its node.
    pub(crate) order: Vec<u32>,
    at: Vec<u32>,
    node: Vec<u32>,
    /// Per node, its runs in order.
    runs: Vec<Vec<u32>>,
    /// Per run, its first instance; the others follow in the order of the outputs.
    first: Vec<u32>,
    /// Per instance, the last run that uses it; `NONE` if it stays.
    last: Vec<u32>,
    /// Per run, bytes made less bytes let go; and bytes at its step beyond those alive before.
    leaves: Vec<i64>,
    here: Vec<i64>,
    /// Per place, bytes alive at the step beyond the budget.
    over: Vec<i64>,
    /// While a run is put in or taken out: from which places on there is how much more memory than `over` says.
    differences: Vec<(usize, i64)>,
    /// Per node, the numbers of runs that were taken out.
    unused: Vec<Vec<u32>>,
    /// Wide, because a sum over steps may exceed what a graph's total may not.
    excess: i128,
    cost: u64,
    /// A reordering that is tried: the runs of a window in a new order, and what would be.
    pub(crate) trial: Vec<u32>,
    tried: Vec<reorder::Tried>,
    changes: Vec<(u32, u32)>,
    /// Instances that were met have the current stamp.
    stamps: Vec<u64>,
    stamp: u64,
}

impl<'m> DenseTimeline<'m> {
    /// A timeline of a legal sequence.
    pub(crate) fn new(model: &'m FlatGraph, sequence: &[u32], budget: i64) -> Self {
        let mut index = vec![0; model.values()];
        let mut tied: Vec<Vec<u32>> = (0..model.len() as u32).map(|node| vec![node]).collect();
        for node in 0..model.len() as u32 {
            for (at, &value) in (0..).zip(model.writes.row(node)) {
                index[value as usize] = at;
                for &reader in model.readers.row(value) {
                    tied[node as usize].push(reader);
                    tied[reader as usize].push(node);
                }
            }
        }
        for row in &mut tied {
            row.sort_unstable();
            row.dedup();
        }
        let mut timeline = Self {
            model,
            budget,
            tied: Csr::new(&tied),
            index,
            order: Vec::new(),
            at: Vec::new(),
            node: Vec::new(),
            runs: vec![Vec::new(); model.len()],
            first: Vec::new(),
            last: Vec::new(),
            leaves: Vec::new(),
            here: Vec::new(),
            over: Vec::new(),
            differences: Vec::new(),
            unused: vec![Vec::new(); model.len()],
            excess: 0,
            cost: 0,
            trial: Vec::new(),
            tried: Vec::new(),
            changes: Vec::new(),
            stamps: Vec::new(),
            stamp: 0,
        };
        timeline.reset(sequence);
        timeline
    }

    /// Starts over with another legal sequence.
    pub(crate) fn reset(&mut self, sequence: &[u32]) {
        let model = self.model;
        self.runs.iter_mut().chain(&mut self.unused).for_each(Vec::clear);
        for list in [&mut self.order, &mut self.at, &mut self.node, &mut self.first, &mut self.last] {
            list.clear();
        }
        self.leaves.clear();
        self.here.clear();
        self.stamps.clear();
        for &node in sequence {
            let run = self.another(node);
            self.at[run as usize] = run;
            self.order.push(run);
            self.runs[node as usize].push(run);
        }
        self.cost = sequence.iter().map(|&node| model.time[node as usize]).sum();
        for run in 0..sequence.len() as u32 {
            for &value in model.writes.row(self.node[run as usize]) {
                self.let_go(value, run, self.last_user(value, run));
            }
        }
        self.differences.clear();
        self.over.clear();
        self.excess = 0;
        let mut before = -self.budget;
        for (&here, &leaves) in self.here.iter().zip(&self.leaves) {
            self.over.push(before + here);
            self.excess += i128::from((before + here).max(0));
            before += leaves;
        }
    }

    // ---- asking ----

    /// Bytes over the budget, summed over the steps.
    pub(crate) fn excess(&self) -> i128 {
        self.excess
    }

    /// Ticks of all runs.
    pub(crate) fn cost(&self) -> u64 {
        self.cost
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn sequence(&self) -> Vec<u32> {
        self.order.iter().map(|&run| self.node[run as usize]).collect()
    }

    pub(crate) fn node_at(&self, place: usize) -> u32 {
        self.node[self.order[place] as usize]
    }

    pub(crate) fn place(&self, run: u32) -> usize {
        self.at[run as usize] as usize
    }

    /// A node's runs, in order.
    pub(crate) fn runs(&self, node: u32) -> &[u32] {
        &self.runs[node as usize]
    }

    /// Bytes over the budget at a step; negative below it.
    pub(crate) fn over(&self, place: usize) -> i64 {
        self.over[place]
    }

    /// Whether the run at a place is the first of its node.
    pub(crate) fn is_first(&self, place: usize) -> bool {
        self.runs[self.node_at(place) as usize][0] == self.order[place]
    }

    /// The places between which a run may move alone: behind the last run that it is tied to, and before the next one.
    pub(crate) fn window(&self, place: usize) -> (usize, usize) {
        let (mut low, mut high) = (0, self.order.len());
        for &node in self.tied.row(self.node_at(place)) {
            for &run in &self.runs[node as usize] {
                let other = self.at[run as usize] as usize;
                if other < place {
                    low = low.max(other + 1);
                } else if other > place {
                    high = high.min(other);
                    break;
                }
            }
        }
        (low, high)
    }

    /// The nodes that a node is tied to, itself among them.
    pub(crate) fn tied(&self, node: u32) -> &[u32] {
        self.tied.row(node)
    }

    /// The newest run of a node before a place.
    pub(crate) fn run_before(&self, node: u32, place: usize) -> Option<u32> {
        self.runs[node as usize].iter().rev().copied().find(|&run| self.place(run) < place)
    }

    /// The run whose instance of a value is there just before a place.
    pub(crate) fn newest(&self, value: u32, place: usize) -> Option<u32> {
        self.run_before(self.model.producer[value as usize], place)
    }

    /// The place of the last use of the instance of a value that a run makes; past the end if it stays.
    pub(crate) fn end(&self, value: u32, run: u32) -> usize {
        let last = self.last[self.instance(value, run)];
        if last == NONE { self.order.len() } else { self.at[last as usize] as usize }
    }

    /// The next use behind a place of the instance that a run before it makes; none if there is none, or one at the place.
    pub(crate) fn next_use(&self, value: u32, run: u32, place: usize) -> Option<usize> {
        let until = self.life(value, run).1;
        let mut next = until;
        for &reader in self.model.readers.row(value) {
            for used in self.runs[reader as usize].iter().map(|&user| self.place(user)) {
                if used == place {
                    return None;
                }
                if used > place && used < next {
                    next = used;
                }
            }
        }
        (next < until).then_some(next)
    }

    /// The greatest excess at the places from `from` to before `to`; negative below the budget.
    pub(crate) fn most_over(&self, from: usize, to: usize) -> i64 {
        (from..to).map(|place| self.over(place)).max().unwrap_or(i64::MIN)
    }

    /// The greatest memory at any step.
    pub(crate) fn peak(&self) -> i64 {
        self.over.iter().max().map_or(0, |over| over + self.budget)
    }

    /// Whether nobody reads what a run makes, and its node runs at another time too.
    pub(crate) fn is_dead(&self, run: u32) -> bool {
        let node = self.node[run as usize];
        self.runs[node as usize].len() > 1
            && self.model.writes.row(node).iter().all(|&value| self.last[self.instance(value, run)] == run)
    }

    // ---- putting in and taking out ----

    /// Runs a node before what is at a place. Its operands must have run.
    pub(crate) fn insert(&mut self, node: u32, place: usize) {
        let model = self.model;
        let run = self.unused[node as usize].pop().unwrap_or_else(|| self.another(node));
        let over = self.before(place) + self.here[run as usize];
        self.order.insert(place, run);
        self.over.insert(place, over);
        self.excess += i128::from(over.max(0));
        self.number(place);
        self.differences.push((place + 1, self.leaves[run as usize]));
        let at = &self.at;
        let runs = &mut self.runs[node as usize];
        let index = runs.partition_point(|&other| (at[other as usize] as usize) < place);
        runs.insert(index, run);
        let older = index.checked_sub(1).map(|older| runs[older]);
        self.cost += model.time[node as usize];
        for &value in model.writes.row(node) {
            if let Some(older) = older {
                self.let_go(value, older, self.last_user(value, older));
            }
            self.let_go(value, run, self.last_user(value, run));
        }
        for &value in model.reads.row(node) {
            let source = self.source(value, place as u32);
            if self.end(value, source) < place {
                self.let_go(value, source, run);
            }
        }
        self.settle();
    }

    /// Takes the run at a place out. Legal unless it is the first of its node and its outputs are read before the second.
    pub(crate) fn remove(&mut self, place: usize) {
        let model = self.model;
        let (run, node) = (self.order[place], self.node_at(place));
        for &value in model.writes.row(node) {
            self.let_go(value, run, NONE);
        }
        let runs = &mut self.runs[node as usize];
        let index = runs.iter().position(|&other| other == run).unwrap_or(0);
        runs.remove(index);
        if let Some(older) = index.checked_sub(1).map(|older| runs[older]) {
            for &value in model.writes.row(node) {
                self.let_go(value, older, self.last_user(value, older));
            }
        }
        for &value in model.reads.row(node) {
            let source = self.source(value, place as u32);
            if self.last[self.instance(value, source)] == run {
                self.let_go(value, source, self.last_user(value, source));
            }
        }
        self.differences.push((place + 1, -self.leaves[run as usize]));
        self.settle();
        self.order.remove(place);
        self.excess -= i128::from(self.over.remove(place).max(0));
        self.number(place);
        self.cost -= model.time[node as usize];
        self.unused[node as usize].push(run);
    }

    // ---- inside ----

    /// A number for one more run of a node, of which nothing is used yet.
    fn another(&mut self, node: u32) -> u32 {
        let model = self.model;
        self.node.push(node);
        self.at.push(0);
        self.first.push(self.last.len() as u32);
        let made = model.output_bytes(node);
        self.leaves.push(made);
        self.here.push(made + model.workspace[node as usize]);
        self.last.resize(self.last.len() + model.writes.row(node).len(), NONE);
        self.stamps.resize(self.last.len(), 0);
        self.node.len() as u32 - 1
    }

    /// Places from one on are numbered again.
    fn number(&mut self, from: usize) {
        for (place, &run) in self.order.iter().enumerate().skip(from) {
            self.at[run as usize] = place as u32;
        }
    }

    /// Bytes alive before the step at a place, or at the end, beyond the budget.
    fn before(&self, place: usize) -> i64 {
        if let Some(&run) = self.order.get(place) {
            return self.over[place] - self.here[run as usize];
        }
        let Some((&run, &over)) = self.order.last().zip(self.over.last()) else { return -self.budget };
        over - self.here[run as usize] + self.leaves[run as usize]
    }

    fn instance(&self, value: u32, run: u32) -> usize {
        (self.first[run as usize] + self.index[value as usize]) as usize
    }

    /// The run whose instance of a value is read at a place.
    fn source(&self, value: u32, place: u32) -> u32 {
        let runs = &self.runs[self.model.producer[value as usize] as usize];
        let mut run = runs[0];
        for &other in &runs[1..] {
            if self.at[other as usize] >= place {
                break;
            }
            run = other;
        }
        run
    }

    /// Where the instance of a run begins, and where the next one does, or behind the end.
    fn life(&self, value: u32, run: u32) -> (usize, usize) {
        let runs = &self.runs[self.model.producer[value as usize] as usize];
        let next = runs.iter().skip_while(|&&other| other != run).nth(1);
        let until = next.map_or(usize::MAX, |&next| self.at[next as usize] as usize);
        (self.at[run as usize] as usize, until)
    }

    /// The last run that uses the instance of a run by the rules of the judge: itself if none does, `NONE` if it stays.
    fn last_user(&self, value: u32, run: u32) -> u32 {
        let (from, until) = self.life(value, run);
        if until == usize::MAX && self.model.pinned[value as usize] {
            return NONE;
        }
        let (mut last, mut latest) = (run, from);
        for &reader in self.model.readers.row(value) {
            for &user in &self.runs[reader as usize] {
                let used = self.at[user as usize] as usize;
                if used > latest && used < until {
                    (last, latest) = (user, used);
                }
            }
        }
        last
    }

    /// From now on `user` lets go of the instance that a run makes.
    fn let_go(&mut self, value: u32, run: u32, user: u32) {
        let (instance, bytes) = (self.instance(value, run), self.model.bytes[value as usize]);
        let old = std::mem::replace(&mut self.last[instance], user);
        if old == user {
            return;
        }
        for (user, sign) in [(old, 1), (user, -1)] {
            if user != NONE {
                let in_place = self.model.over[self.node[user as usize] as usize] == value;
                self.leaves[user as usize] += sign * bytes;
                if in_place {
                    self.here[user as usize] += sign * bytes;
                }
                self.differences.push((self.place(user) + usize::from(!in_place), sign * bytes));
            }
        }
    }

    /// Brings memory and excess up to date.
    fn settle(&mut self) {
        let mut differences = std::mem::take(&mut self.differences);
        differences.sort_unstable_by_key(|&(place, _)| place);
        let (mut amount, mut from) = (0, 0);
        for &(place, difference) in &differences {
            if place > from && amount != 0 {
                self.raise(from, place, amount);
            }
            (amount, from) = (amount + difference, place);
        }
        if amount != 0 {
            self.raise(from, self.len(), amount);
        }
        differences.clear();
        self.differences = differences;
    }

    /// Adds to the memory at the places from `from` to before `to`.
    fn raise(&mut self, from: usize, to: usize, amount: i64) {
        // So many steps that the sum fits: none changes by more than the amount.
        let most = usize::try_from(i64::MAX / amount.abs()).unwrap_or(usize::MAX);
        let mut twice = i128::from(amount) * (to - from) as i128;
        for steps in self.over[from..to].chunks_mut(most) {
            let mut sum = 0;
            for over in steps {
                // What is above zero is half of the number and its absolute value, which vectors have and the larger of two not.
                let before = over.abs();
                *over += amount;
                sum += over.abs() - before;
            }
            twice += i128::from(sum);
        }
        self.excess += twice / 2;
    }
}
