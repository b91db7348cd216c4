//! Order and addresses in one state: lowers an arena by moving buffers and runs at once.
//!
//! State: a timeline ([`crate::state::slotted_timeline`]) and the arena ([`crate::layout::free_space`]) with an offset for each buffer
//! of it, or none: such a buffer waits. No two placed buffers overlap, and all of them end below a height. The search begins with those
//! above it waiting, and
//! goes on until none waits. One of them is placed:
//!
//! 1. in a hole if there is one;
//! 2. else where the buffers in its way weigh least; these wait in turn, and all of them grow heavier;
//! 3. then some random moves that keep every placed buffer where it is: a run moves between its operands and its uses, or
//!    a buffer into another hole. A move that would make two placed buffers meet is taken back;
//! 4. now and then all placed buffers sink to the floor, or rise to the height, as far as they go in their order: small holes
//!    come together, which moves of single buffers seldom bring about.
//!
//! The last one that came is placed first, or any. Neither is best everywhere, so attempts take turns. Weights are remembered
//! from attempt to attempt and from height to height.
//!
//! A run does not move either where memory gets fuller ([`crate::state::memory_pressure`]); by how much it may is decided as in annealing. Left
//! to chance, runs drift to where a layout has no room. For the same reason [`EjectionChain::calm`] anneals the order first, without a
//! look at addresses.
//!
//! Nothing is added to or taken from the runs, so time does not change; the peak stays between two limits. Buffers that are taken
//! over in place, and what takes them over, keep their lives. Everything is counted, the clock only stops.
//!
//! Source: insertion with ejection and random feasible moves in between, Nagata and Bräysy, "A powerful route minimization
//! heuristic", 2009, with address space in place of routes and moves of runs in place of theirs.

use std::collections::HashMap;

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use rk_plan::arena::{self, Owner};
use rk_plan::{Bytes, Fate, Graph, NodeId, Sequence, judge};

use crate::layout::free_space::{FreeSpace, Item};
use crate::portfolio::clock::Clock;
use crate::portfolio::request::Plan;
use crate::state::flat_graph::{FlatGraph, from_sequence, to_sequence};
use crate::state::memory_pressure::Pressure;
use crate::state::slotted_timeline::SlottedTimeline;

mod moves;

/// Random moves after each placement.
const MOVES: u32 = 2;
/// Of these, moves of buffers.
const BUFFERS: f64 = 0.2;
/// So many placements from one gathering of what is free to the next.
const GATHER: u64 = 50;
/// The next height is lower by one in so many parts of what is left to the goal: each from the state before.
const STEP: u64 = 12;
/// Placements in the first attempts at a height; each round of attempts has twice as many.
const PLACEMENTS: u64 = 4_000;
/// Rounds of attempts at a height that may fail.
const ROUNDS: u32 = 3;
/// How often any waiting buffer is placed and not the last one, in the attempts of a round.
const HABITS: [f64; 3] = [0.0, 0.5, 0.1];
/// See the module.
pub(crate) struct EjectionChain<'m> {
    timeline: SlottedTimeline<'m>,
    /// The first item of each value, and of each node's workspaces; and the state of each node.
    of_value: Vec<u32>,
    of_workspace: Vec<u32>,
    of_state: Vec<u32>,
    space: FreeSpace,
    /// Buffers that another takes over, in place and for good, and these: they have no size of their own.
    heirs: Vec<(usize, usize)>,
    pressure: Pressure,
    temperature: f64,
    /// Addresses do not matter now.
    calming: bool,
    /// Sizes and heights are multiples of it.
    grain: u64,
    alignment: u64,
    most: i64,
    /// The peak does not fall below this, unless it has.
    least: i64,
    random: ChaCha8Rng,
    /// What changes in a move, before and after it.
    changed: Vec<(u32, Item, Item)>,
}

impl<'m> EjectionChain<'m> {
    /// From a plan and its arena, packed at once if it has none. The model has sizes rounded as the arena has, or to multiples of a
    /// larger grain; peaks stay between the limits, unless the plan's is outside in these sizes.
    pub(crate) fn new(
        graph: &Graph,
        (model, grain): (&'m FlatGraph, Bytes),
        plan: &Plan,
        (least, most): (Bytes, Bytes),
        seed: u64,
    ) -> Self {
        let signed = |bytes: Bytes| i64::try_from(bytes.0).unwrap_or(i64::MAX);
        let arena = plan.arena.clone().unwrap_or_else(|| arena::pack(graph, &plan.sequence, &plan.trace));
        let timeline = SlottedTimeline::new(model, &from_sequence(&plan.sequence));
        // In grains the plan's own peak may be outside.
        let (least, most) = match grain > arena.alignment {
            true => (signed(least).min(timeline.peak()), signed(most).max(timeline.peak())),
            false => (signed(least), signed(most)),
        };
        let pressure = Pressure::new(most, &timeline, &[]);
        let mut chain = Self {
            timeline,
            of_value: Vec::new(),
            of_workspace: Vec::new(),
            of_state: Vec::new(),
            space: FreeSpace::default(),
            heirs: Vec::new(),
            pressure,
            temperature: moves::WARM,
            calming: false,
            grain: grain.0.max(1),
            alignment: arena.alignment.0.max(1),
            most,
            least,
            random: ChaCha8Rng::seed_from_u64(seed),
            changed: Vec::new(),
        };
        let empty =
            |bytes: i64| Item { size: u64::try_from(bytes).unwrap_or(0), offset: 0, start: 0, end: 0 };
        for value in 0..model.values() as u32 {
            chain.of_value.push(chain.space.items.len() as u32);
            let runs = chain.timeline.runs(model.producer[value as usize]).len();
            chain.space.items.resize(chain.space.items.len() + runs, empty(model.bytes[value as usize]));
        }
        for node in 0..model.len() as u32 {
            chain.of_workspace.push(chain.space.items.len() as u32);
            let runs = chain.timeline.runs(node).len();
            chain.space.items.resize(chain.space.items.len() + runs, empty(model.workspace[node as usize]));
        }
        for node in 0..model.len() as u32 {
            chain.of_state.push(chain.space.items.len() as u32);
            let kept = chain.timeline.runs(node).len() > 1;
            chain.space.items.push(empty(if kept { model.state[node as usize] } else { 0 }));
        }
        let runs = occurrences(&plan.sequence, model.len());
        let mut first_outputs = HashMap::new();
        for buffer in &arena.buffers {
            let item = chain.item_of(&plan.sequence, &runs, buffer.owner, buffer.start);
            chain.space.items[item].offset = buffer.offset.0;
            if let Owner::Instance(_, value) = buffer.owner
                && graph.node(graph.value(value).producer).writes.first() == Some(&value)
            {
                first_outputs.insert(buffer.start, item);
            }
        }
        for instance in plan.trace.instances.iter().filter(|instance| instance.fate == Fate::Overwritten) {
            let owner = Owner::Instance(0, instance.value);
            let item = chain.item_of(&plan.sequence, &runs, owner, instance.start);
            if let Some(&heir) = first_outputs.get(&(instance.end + 1)) {
                chain.space.items[heir].size = 0;
                chain.heirs.push((item, heir));
            }
        }
        chain.read_lives();
        if chain.grain > chain.alignment {
            chain.space.restack();
        }
        chain
    }

    /// The lives of all items from the timeline, and the placed ones in order.
    fn read_lives(&mut self) {
        let model = self.timeline.model;
        for node in 0..model.len() as u32 {
            for run in 0..self.timeline.runs(node).len() {
                for &value in model.writes.row(node) {
                    self.read_life(value, run);
                }
                let item = self.of_workspace[node as usize] as usize + run;
                let slot = self.timeline.runs(node)[run];
                (self.space.items[item].start, self.space.items[item].end) = (slot, slot);
            }
            let state = self.of_state[node as usize] as usize;
            let runs = self.timeline.runs(node);
            (self.space.items[state].start, self.space.items[state].end) = (runs[0], runs[runs.len() - 1]);
        }
        // An heir may be taken over in turn: from the last to the first.
        for &(item, heir) in self.heirs.iter().rev() {
            self.space.items[item].end = self.space.items[heir].end;
        }
        self.space.settle();
        self.pressure = Pressure::new(self.most, &self.timeline, &self.space.items);
    }

    fn read_life(&mut self, value: u32, run: usize) {
        let item = self.of_value[value as usize] as usize + run;
        self.space.items[item].start = self.timeline.runs(self.timeline.model.producer[value as usize])[run];
        self.space.items[item].end = self.timeline.end(value, run);
    }

    fn peak(&self) -> u64 {
        u64::try_from(self.timeline.peak()).unwrap_or(0)
    }

    /// Lowers the arena to `goal(peak)`, step by step, until that is reached or it failed too often. True if it is reached.
    pub(crate) fn lower(&mut self, goal: impl Fn(u64) -> u64, clock: &Clock) -> bool {
        let mut best = self.snapshot();
        let (mut least, mut failed) = (self.space.height(), 0);
        loop {
            let goal = goal(self.peak()) / self.grain * self.grain;
            if least <= goal {
                return true;
            }
            let round = failed / HABITS.len() as u32;
            if round == ROUNDS || clock.expired() {
                return false;
            }
            let target = goal.max(least - 1 - (least - goal) / STEP) / self.grain * self.grain;
            let any = HABITS[failed as usize % HABITS.len()];
            if self.below(target, any, PLACEMENTS << round, clock) {
                self.space.shake();
                (least, best) = (self.space.height(), self.snapshot());
                let milliseconds = clock.elapsed().as_millis() as u64;
                tracing::trace!(height = least, goal, any, round, milliseconds, "lower");
            } else {
                failed += 1;
                self.restore(&best);
            }
        }
    }

    /// The runs and all offsets, to come back to.
    fn snapshot(&self) -> (Vec<u32>, Vec<u64>) {
        (self.timeline.sequence(), self.space.items.iter().map(|item| item.offset).collect())
    }

    fn restore(&mut self, snapshot: &(Vec<u32>, Vec<u64>)) {
        self.timeline.reset(&snapshot.0);
        for (item, &offset) in self.space.items.iter_mut().zip(&snapshot.1) {
            item.offset = offset;
        }
        self.read_lives();
    }

    /// Looks for a state below `height`. True if there is one; otherwise some buffers may wait.
    fn below(&mut self, height: u64, any: f64, placements: u64, clock: &Clock) -> bool {
        self.space.cut(height);
        for step in 0..placements {
            if self.space.is_complete() {
                return true;
            }
            if (step % 16 == 15 && clock.expired()) || !self.space.insert(height, any, &mut self.random) {
                return false;
            }
            if step % GATHER == GATHER - 1 {
                self.space.gather(height, self.random.random_bool(0.5));
            }
            for _ in 0..MOVES {
                if self.random.random_bool(BUFFERS) {
                    self.space.stir(height, &mut self.random);
                } else {
                    self.wander();
                }
            }
        }
        self.space.is_complete()
    }

    fn item_of(&self, sequence: &Sequence, runs: &[u32], owner: Owner, start: usize) -> usize {
        let item = match owner {
            Owner::Instance(_, value) => {
                self.of_value[self.timeline.model.index[value.index()] as usize] + runs[start]
            }
            Owner::Workspace(step) => self.of_workspace[sequence.0[step].index()] + runs[step],
            Owner::State(node) => self.of_state[node.index()],
        };
        item as usize
    }

    /// The runs, as judged, and where their buffers lie. `None`, and a word about it, if judge or checker disagree.
    pub(crate) fn plan(&self, graph: &Graph, like: &Plan) -> Option<Plan> {
        let sequence = to_sequence(&self.timeline.sequence());
        let trace = judge(graph, &sequence).ok().filter(|trace| trace.time == like.trace.time)?;
        let runs = occurrences(&sequence, self.timeline.model.len());
        // What has no size here, in grains or because it is an heir, has no place of its own.
        let offset = |owner, start| {
            let item = &self.space.items[self.item_of(&sequence, &runs, owner, start)];
            Bytes(if item.size > 0 { item.offset } else { u64::MAX })
        };
        match arena::settled(graph, &sequence, &trace, Bytes(self.alignment), offset) {
            Ok(arena) => Some(Plan { sequence, trace, solver: like.solver, arena: Some(arena) }),
            Err(misplaced) => {
                tracing::error!("an illegal layout was proposed: {}", misplaced.describe(graph, &sequence));
                None
            }
        }
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
    use std::time::Duration;

    use super::*;
    use crate::portfolio::clock::counted;
    use crate::synthetic::{Family, graph};
    use rk_plan::base_trace;

    /// A step of which every third node runs twice, the second time right after the first, and its limits.
    fn crowded(family: Family, seed: u64) -> (Graph, Plan, (Bytes, Bytes)) {
        let graph = graph(family, 60, seed);
        let twice =
            |node: NodeId| 1 + usize::from(node.0.is_multiple_of(3) && graph.node(node).is_repeatable());
        let sequence: Sequence = graph.node_ids().flat_map(|node| vec![node; twice(node)]).collect();
        let trace = judge(&graph, &sequence).expect("legal");
        let arena = arena::pack_with(&graph, &sequence, &trace, Bytes(64), 0);
        let most = Bytes(trace.peak.0.max(base_trace(&graph).peak.0) + 64 * 400);
        let plan = Plan { sequence, trace, solver: crate::Solver::Local, arena: Some(arena) };
        (graph, plan, (Bytes(0), most))
    }

    const STEPS: [(Family, u64); 5] = [
        (Family::Layered, 0),
        (Family::Layered, 1),
        (Family::Residual, 1),
        (Family::Transformer, 3),
        (Family::DenseNet, 5),
    ];

    #[test]
    fn calm_orders_are_legal_and_pressure_is_counted_along() {
        let mut calmer = 0;
        for (family, seed) in STEPS {
            let (graph, plan, (_, most)) = crowded(family, seed);
            let model = FlatGraph::aligned(&graph, Bytes(64));
            let limits = (Bytes(0), Bytes(most.0.min(plan.trace.peak.0 / 100 * 101)));
            let clock = Clock::new(Duration::MAX);
            let all = |chain: &EjectionChain| {
                chain.pressure.between(&chain.timeline, 1, chain.timeline.last_slot())
            };
            let mut chain = EjectionChain::new(&graph, (&model, Bytes(64)), &plan, limits, 7);
            let before = all(&chain);
            let sequence = chain.calm(3000, &clock);
            let counted = chain.pressure.clone();
            chain.read_lives();
            assert_eq!(counted, chain.pressure, "{family}");
            let trace = judge(&graph, &sequence).expect("legal");
            assert_eq!(trace.time, plan.trace.time);
            let calm = Plan { sequence, trace, arena: None, ..plan };
            let after = all(&EjectionChain::new(&graph, (&model, Bytes(64)), &calm, limits, 7));
            assert!(after <= before, "{family}: {before} {after}");
            calmer += usize::from(after < before);
        }
        assert!(calmer >= 3, "{calmer}");
    }

    /// Odd seeds have workspaces, kept states, second outputs, pinned values and operands that are overwritten.
    #[test]
    fn runs_and_buffers_move_and_stay_legal() {
        let (mut lowered, mut heirs) = (0, 0);
        for (family, seed) in STEPS {
            let (graph, plan, limits) = crowded(family, seed);
            let (arena, most) = (plan.arena.clone().expect("has one"), limits.1);
            let model = FlatGraph::aligned(&graph, Bytes(64));
            let mut chain = EjectionChain::new(&graph, (&model, Bytes(64)), &plan, limits, 7);
            heirs += chain.heirs.len();
            counted::time(Duration::from_micros(20), || {
                chain.lower(|peak| peak, &Clock::new(Duration::from_millis(300)));
            });
            // Judged, and checked for overlaps, inside.
            let after = chain.plan(&graph, &plan).expect("legal");
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
