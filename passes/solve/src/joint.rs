//! Order and addresses in one state: lowers an arena by moving buffers and runs at once.
//!
//! State: a tape ([`crate::tape`]) and an offset for each buffer of it, or none: such a buffer waits. No two placed buffers
//! overlap, and all of them end below a height. The search begins with those above it waiting, and goes on until none waits.
//! The last one that came is placed:
//!
//! 1. in a hole if there is one;
//! 2. else where the buffers in its way have been refused least often; these wait in turn, and it counts as refused once more;
//! 3. then some random moves that keep every placed buffer where it is: a run moves between its operands and its uses, or
//!    a buffer into another hole. A move that would make two placed buffers meet is taken back.
//!
//! How often a buffer was refused is remembered from height to height: what was hard to place stays so. Heights fall in small
//! steps. Measured on random layered graphs: to forget, or to fall by a third of the way, ends 1 to 2 % of the height higher.
//!
//! Nothing is added to or taken from the runs, so time does not change; the peak stays within a limit. Buffers that are taken
//! over in place, and what takes them over, keep their lives. Everything is counted, the clock only stops.
//!
//! Source: insertion with ejection and random feasible moves in between, Nagata and Bräysy, "A powerful route minimization
//! heuristic", 2009, with address space in place of routes and moves of runs in place of theirs.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use rk_plan::arena::{self, Arena, Owner};
use rk_plan::{Bytes, Fate, Graph, NodeId, Sequence, judge};

use crate::clock::Clock;
use crate::model::{Model, NONE, from_sequence, to_sequence};
use crate::request::Plan;
use crate::shelf::{Item, Shelf};
use crate::tape::Tape;

/// Random moves after each placement.
const MOVES: u32 = 12;
/// Of these, moves of buffers.
const BUFFERS: f64 = 0.2;
/// The next height is lower by one in so many parts of what is left to the goal: small steps, each from the state before.
const STEP: u64 = 50;
/// Placements in an attempt at a height, and attempts that may fail.
const PLACEMENTS: u64 = 20_000;
const FAILURES: u32 = 40;
/// No move takes the peak more than one part in this many below the height: a lower one would say less about the arena.
const NEAR: u64 = 101;
/// Slots tried for a free one.
const LOOKS: usize = 4;

/// See the module.
pub(crate) struct Joint<'m> {
    tape: Tape<'m>,
    /// The first item of each value, and of each node's workspaces; and the state of each node.
    of_value: Vec<u32>,
    of_workspace: Vec<u32>,
    of_state: Vec<u32>,
    shelf: Shelf,
    /// Buffers that another takes over, in place and for good, and these: they have no size of their own.
    heirs: Vec<(usize, usize)>,
    waiting: Vec<u32>,
    alignment: u64,
    most: i64,
    /// The peak does not fall below this, unless it has.
    least: i64,
    random: ChaCha8Rng,
    /// What changes in a move, and what it was.
    changed: Vec<(u32, Item)>,
}

impl<'m> Joint<'m> {
    /// From a plan with its arena. The model has sizes rounded as the arena has; `most` is the largest peak allowed.
    pub(crate) fn new(
        graph: &Graph,
        model: &'m Model,
        plan: &Plan,
        arena: &Arena,
        most: i64,
        seed: u64,
    ) -> Self {
        let tape = Tape::new(model, &from_sequence(&plan.sequence));
        let mut joint = Self {
            tape,
            of_value: Vec::new(),
            of_workspace: Vec::new(),
            of_state: Vec::new(),
            shelf: Shelf::default(),
            heirs: Vec::new(),
            waiting: Vec::new(),
            alignment: arena.alignment.0.max(1),
            most,
            least: 0,
            random: ChaCha8Rng::seed_from_u64(seed),
            changed: Vec::new(),
        };
        let empty =
            |bytes: i64| Item { size: u64::try_from(bytes).unwrap_or(0), offset: 0, start: 0, end: 0 };
        for value in 0..model.values() as u32 {
            joint.of_value.push(joint.shelf.items.len() as u32);
            let runs = joint.tape.runs(model.producer[value as usize]).len();
            joint.shelf.items.resize(joint.shelf.items.len() + runs, empty(model.bytes[value as usize]));
        }
        for node in 0..model.len() as u32 {
            joint.of_workspace.push(joint.shelf.items.len() as u32);
            let runs = joint.tape.runs(node).len();
            joint.shelf.items.resize(joint.shelf.items.len() + runs, empty(model.workspace[node as usize]));
        }
        for node in 0..model.len() as u32 {
            joint.of_state.push(joint.shelf.items.len() as u32);
            let kept = joint.tape.runs(node).len() > 1;
            joint.shelf.items.push(empty(if kept { model.state[node as usize] } else { 0 }));
        }
        let runs = occurrences(&plan.sequence, model.len());
        let mut first_outputs = HashMap::new();
        for buffer in &arena.buffers {
            let item = joint.item_of(&plan.sequence, &runs, buffer.owner, buffer.start);
            joint.shelf.items[item].offset = buffer.offset.0;
            if let Owner::Instance(_, value) = buffer.owner
                && graph.node(graph.value(value).producer).writes.first() == Some(&value)
            {
                first_outputs.insert(buffer.start, item);
            }
        }
        for instance in plan.trace.instances.iter().filter(|instance| instance.fate == Fate::Overwritten) {
            let owner = Owner::Instance(0, instance.value);
            let item = joint.item_of(&plan.sequence, &runs, owner, instance.start);
            if let Some(&heir) = first_outputs.get(&(instance.end + 1)) {
                joint.shelf.items[heir].size = 0;
                joint.heirs.push((item, heir));
            }
        }
        joint.read_lives();
        joint
    }

    /// The lives of all items from the tape, and the placed ones in order.
    fn read_lives(&mut self) {
        let model = self.tape.model;
        for node in 0..model.len() as u32 {
            for run in 0..self.tape.runs(node).len() {
                for &value in model.writes.row(node) {
                    self.read_life(value, run);
                }
                let item = self.of_workspace[node as usize] as usize + run;
                let slot = self.tape.runs(node)[run];
                (self.shelf.items[item].start, self.shelf.items[item].end) = (slot, slot);
            }
            let state = self.of_state[node as usize] as usize;
            let runs = self.tape.runs(node);
            (self.shelf.items[state].start, self.shelf.items[state].end) = (runs[0], runs[runs.len() - 1]);
        }
        // An heir may be taken over in turn: from the last to the first.
        for &(item, heir) in self.heirs.iter().rev() {
            self.shelf.items[item].end = self.shelf.items[heir].end;
        }
        self.shelf.sort();
    }

    fn read_life(&mut self, value: u32, run: usize) {
        let item = self.of_value[value as usize] as usize + run;
        self.shelf.items[item].start = self.tape.runs(self.tape.model.producer[value as usize])[run];
        self.shelf.items[item].end = self.tape.end(value, run);
    }

    fn peak(&self) -> u64 {
        u64::try_from(self.tape.peak()).unwrap_or(0)
    }

    /// The end of the topmost buffer.
    fn height(&self) -> u64 {
        self.shelf.placed.iter().map(|placed| placed.high).max().unwrap_or(0)
    }

    /// Lowers the arena to `goal(peak)`, step by step, until that is reached or it failed too often. True if it is reached.
    pub(crate) fn lower(&mut self, goal: impl Fn(u64) -> u64, clock: &Clock) -> bool {
        let mut best = self.snapshot();
        let (mut least, mut failures) = (self.height(), 0);
        loop {
            let goal = goal(self.peak()) / self.alignment * self.alignment;
            if least <= goal {
                return true;
            }
            if failures == FAILURES || clock.expired() {
                return false;
            }
            let target = goal.max(least - 1 - (least - goal) / STEP) / self.alignment * self.alignment;
            if self.below(target, clock) {
                (least, best) = (self.height(), self.snapshot());
                tracing::trace!(
                    height = least,
                    goal,
                    milliseconds = clock.elapsed().as_millis() as u64,
                    "lower"
                );
            } else {
                failures += 1;
                self.restore(&best);
            }
        }
    }

    /// The runs and all offsets, to come back to.
    fn snapshot(&self) -> (Vec<u32>, Vec<u64>) {
        (self.tape.sequence(), self.shelf.items.iter().map(|item| item.offset).collect())
    }

    fn restore(&mut self, snapshot: &(Vec<u32>, Vec<u64>)) {
        self.tape.reset(&snapshot.0);
        self.waiting.clear();
        for (item, &offset) in self.shelf.items.iter_mut().zip(&snapshot.1) {
            item.offset = offset;
        }
        self.read_lives();
    }

    /// Looks for a state below `height`. True if there is one; otherwise some buffers may wait.
    fn below(&mut self, height: u64, clock: &Clock) -> bool {
        self.least = i64::try_from(height - height / NEAR).unwrap_or(i64::MAX);
        let high: Vec<u32> = self
            .shelf
            .placed
            .iter()
            .filter(|placed| placed.high > height)
            .map(|placed| placed.item)
            .collect();
        for item in high {
            self.shelf.lift(item);
            self.waiting.push(item);
        }
        for step in 0..PLACEMENTS {
            let Some(item) = self.waiting.pop() else { return true };
            if step % 16 == 15 && clock.expired() {
                return false;
            }
            self.insert(item, height);
            for _ in 0..MOVES {
                self.wander(height);
            }
        }
        self.waiting.is_empty()
    }

    fn insert(&mut self, item: u32, height: u64) {
        let size = self.shelf.items[item as usize].size;
        if size > height {
            return self.waiting.push(item);
        }
        let offset = self.shelf.hole(item, height, &mut self.random).unwrap_or_else(|| {
            self.shelf.refused[item as usize] += 1;
            self.shelf.cheapest(item, height, &mut self.random)
        });
        let Item { start, end, .. } = self.shelf.items[item as usize];
        let mut next = 0;
        while let Some(other) = self.shelf.placed.get(next).copied() {
            if other.low >= offset + size {
                break;
            }
            if other.high > offset && other.start <= end && start <= other.end {
                self.shelf.lift(other.item);
                self.waiting.push(other.item);
            } else {
                next += 1;
            }
        }
        self.shelf.put(item, offset);
    }

    /// One random move that ejects nothing.
    fn wander(&mut self, height: u64) {
        if self.random.random_bool(BUFFERS) {
            let at = self.random.random_range(0..self.shelf.placed.len().max(1));
            if let Some(other) = self.shelf.placed.get(at).copied() {
                let before = self.shelf.items[other.item as usize].offset;
                self.shelf.lift(other.item);
                let offset = self.shelf.hole(other.item, height, &mut self.random).unwrap_or(before);
                self.shelf.put(other.item, offset);
            }
            return;
        }
        let mut slot = self.random.random_range(1..=self.tape.last_slot());
        if self.tape.node_at(slot) == NONE {
            slot = self.tape.previous_used(slot);
        }
        if slot == 0 {
            return;
        }
        let node = self.tape.node_at(slot);
        let run = self.tape.runs(node).partition_point(|&other| other < slot);
        let (low, high) = self.tape.window(node, run);
        if high - low <= 1 {
            return;
        }
        for _ in 0..LOOKS {
            let target = self.random.random_range(low + 1..high);
            if self.tape.node_at(target) == NONE {
                self.shift(node, run, target, height);
                return;
            }
        }
    }

    /// Moves a run to a free slot, unless placed items would meet.
    fn shift(&mut self, node: u32, run: usize, target: u32, height: u64) {
        let model = self.tape.model;
        let from = self.tape.runs(node)[run];
        let handed = |value: u32| {
            model.overwritable[value as usize] || model.over[model.producer[value as usize] as usize] != NONE
        };
        let reads = model.reads.row(node);
        if model.over[node as usize] != NONE
            || reads.iter().chain(model.writes.row(node)).any(|&value| handed(value))
        {
            return;
        }
        let before = self.tape.peak();
        self.tape.shift(node, from, target);
        let limit = self.most.min(i64::try_from(height).unwrap_or(i64::MAX));
        let peak = self.tape.peak();
        if peak > limit || peak < self.least.min(before) {
            return self.tape.rollback_to(0);
        }
        self.changed.clear();
        for index in 0..self.tape.affected().len() {
            let (value, run) = self.tape.affected()[index];
            let item = self.of_value[value as usize] + run;
            self.note(item);
            self.read_life(value, run as usize);
        }
        let workspace = self.of_workspace[node as usize] + run as u32;
        self.note(workspace);
        let slot = self.tape.runs(node)[run];
        (self.shelf.items[workspace as usize].start, self.shelf.items[workspace as usize].end) = (slot, slot);
        let state = self.of_state[node as usize];
        self.note(state);
        let runs = self.tape.runs(node);
        (self.shelf.items[state as usize].start, self.shelf.items[state as usize].end) =
            (runs[0], runs[runs.len() - 1]);
        self.shelf.refresh(&self.changed);
        let meets = self.changed.iter().any(|(item, before)| {
            let now = self.shelf.items[*item as usize];
            (now.start < before.start || now.end > before.end) && self.shelf.meets(*item)
        });
        if meets {
            for &(item, before) in self.changed.iter().rev() {
                self.shelf.items[item as usize] = before;
            }
            self.shelf.refresh(&self.changed);
            self.tape.rollback_to(0);
        } else {
            self.tape.commit();
        }
    }

    fn note(&mut self, item: u32) {
        self.changed.push((item, self.shelf.items[item as usize]));
    }

    fn item_of(&self, sequence: &Sequence, runs: &[u32], owner: Owner, start: usize) -> usize {
        let item = match owner {
            Owner::Instance(_, value) => {
                self.of_value[self.tape.model.index[value.index()] as usize] + runs[start]
            }
            Owner::Workspace(step) => self.of_workspace[sequence.0[step].index()] + runs[step],
            Owner::State(node) => self.of_state[node.index()],
        };
        item as usize
    }

    /// The runs, as judged, and where their buffers lie. `None`, and a word about it, if judge or checker disagree.
    pub(crate) fn plan(&self, graph: &Graph, like: &Plan) -> Option<Plan> {
        let sequence = to_sequence(&self.tape.sequence());
        let trace = judge(graph, &sequence).ok().filter(|trace| trace.time == like.trace.time)?;
        let runs = occurrences(&sequence, self.tape.model.len());
        let mut offsets: Vec<u64> = self.shelf.items.iter().map(|item| item.offset).collect();
        for &(item, heir) in &self.heirs {
            offsets[heir] = offsets[item];
        }
        let arena = arena::laid_out(graph, &sequence, &trace, Bytes(self.alignment), |owner, start| {
            Bytes(offsets[self.item_of(&sequence, &runs, owner, start)])
        });
        if let Err(misplaced) = arena::check_no_overlap(&arena) {
            tracing::error!("an illegal layout was proposed: {misplaced}");
            return None;
        }
        Some(Plan { sequence, trace, solver: like.solver, arena: Some(arena) })
    }
}

/// How often the node of each step ran before.
fn occurrences(sequence: &Sequence, nodes: usize) -> Vec<u32> {
    let mut count = vec![0; nodes];
    let mut next = |node: NodeId| {
        count[node.index()] += 1;
        count[node.index()] - 1
    };
    sequence.0.iter().map(|&node| next(node)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Family, graph};
    use rk_plan::base_trace;

    /// Odd seeds have workspaces, kept states, second outputs, pinned values and operands that are overwritten.
    #[test]
    fn runs_and_buffers_move_and_stay_legal() {
        let (mut lowered, mut heirs) = (0, 0);
        for (family, seed) in [
            (Family::Layered, 0),
            (Family::Layered, 1),
            (Family::Residual, 1),
            (Family::Transformer, 3),
            (Family::DenseNet, 5),
        ] {
            let graph = graph(family, 60, seed);
            // Every third node runs twice, the second time right after the first.
            let twice = |node: NodeId| 1 + usize::from(node.0.is_multiple_of(3) && !graph.node(node).once);
            let sequence: Sequence = graph.node_ids().flat_map(|node| vec![node; twice(node)]).collect();
            let trace = judge(&graph, &sequence).expect("legal");
            let arena = arena::pack_with(&graph, &sequence, &trace, Bytes(64), 0);
            let most = Bytes(trace.peak.0.max(base_trace(&graph).peak.0) + 64 * 400);
            let plan = Plan { sequence, trace, solver: crate::Solver::Local, arena: Some(arena.clone()) };
            let model = Model::aligned(&graph, Bytes(64));
            let mut joint = Joint::new(&graph, &model, &plan, &arena, most.0 as i64, 7);
            heirs += joint.heirs.len();
            joint.lower(|peak| peak, &Clock::new(std::time::Duration::from_millis(300)));
            // Judged, and checked for overlaps, inside.
            let after = joint.plan(&graph, &plan).expect("legal");
            let lower = after.arena.as_ref().expect("has one");
            assert!(after.trace.peak <= most && lower.size <= arena.size && lower.size >= lower.lower_bound);
            lowered += usize::from(lower.size < arena.size);
            // What takes a buffer over lies in it.
            let places: HashMap<usize, Bytes> = lower
                .buffers
                .iter()
                .zip(&after.trace.instances)
                .filter(|(_, instance)| {
                    graph.node(graph.value(instance.value).producer).writes[0] == instance.value
                })
                .map(|(buffer, _)| (buffer.start, buffer.offset))
                .collect();
            for (buffer, instance) in lower.buffers.iter().zip(&after.trace.instances) {
                if instance.fate == Fate::Overwritten && buffer.bytes.0 > 0 {
                    assert_eq!(places[&(buffer.end + 1)], buffer.offset);
                }
            }
        }
        assert!(lowered >= 2 && heirs > 0, "{lowered} lowered, {heirs} heirs");
    }
}
