//! Persistent schedules of a chain by dynamic programming, for all budgets at once.
//!
//! The blocks of [`crate::chain_dp::blocks`], 1 to L; block `i` makes `x_i` from `x_{i-1}`, and in the backward part the gradient of
//! `x_{i-1}` from that of `x_i`. An *option* `k` of a block is what it keeps on its way forward: `s` bytes (with `x_i`), forward
//! and backward time `f`, `g` (with recomputation inside the block), peaks `P` and `Q` of the two ways, without `x_{i-1}`.
//! `F`, `R`: time and peak of running it for `x_i` alone. `w_i`, `d_i`: bytes of `x_i` and of the gradients behind block `i`.
//!
//! ```text
//! T(i,j,m) = least time to go forward and backward through blocks i..j with m bytes, x_{i-1} and nothing else being there,
//!            the gradients behind block j counted in m
//!   last     i = j:  min_k f + g                              m >= d_j + P,  m >= Q
//!   keep     min_k f + g + T(i+1, j, m - s)                   m >= d_j + P,  m >= Q
//!   return   min_{i < c <= j} F_i + ... + F_{c-1} + T(c, j, m - w_{c-1}) + T(i, c-1, m)
//!                                                             m >= d_j + max_r (w_{r-1} + R_r)
//! ```
//!
//! *Return* runs forward keeping only `x_{c-1}`, finishes the right part, and comes back for the left one. Persistent: what is
//! kept stays until its own backward has used it; optimal in that class, up to rounding bytes up to slots. One table holds
//! the whole budget curve. The sequences are judged exactly; since rounding is conservative, plans for somewhat larger
//! budgets are tried as well.
//!
//! With one option, keep everything, this is rotor; [`crate::chain_dp::rockmate`] has more. Baselines: periodic checkpoints, `revolve`.
//!
//! Source: Beaumont et al., "Optimal re-materialization strategies for heterogeneous chains", ACM TOMS 2024. Revolve:
//! Griewank and Walther, 2000. Not here: chains within a block, offloading.

use std::collections::{BTreeMap, HashSet};

use rk_plan::{Bytes, Graph, Sequence, Time, ValueId, judge};

use crate::chain_dp::blocks::{Block, chain, ids, merged, signature};
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;

mod player;

use player::Player;
pub(crate) use player::once_through;
pub use player::{periodic, revolve};

/// Slots of the budget.
const SLOTS: usize = 500;
/// Blocks in a chain; longer ones are merged pairwise. 150^2/2 * 500 entries of 16 bytes are 90 MB.
const MOST_BLOCKS: usize = 150;

/// A way through a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// What stays when the block has run forward, its output included.
    pub kept: Vec<ValueId>,
    /// `f + g`.
    pub time: u64,
    /// `s`.
    pub bytes: u64,
    /// `P`.
    pub forward_peak: u64,
    /// `Q`.
    pub backward_peak: u64,
}

/// A block with its options.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The nodes.
    pub block: Block,
    /// Its options.
    pub choices: Vec<Choice>,
    /// `F`.
    pub time: u64,
    /// `R`.
    pub peak: u64,
    /// `w`.
    pub output: u64,
    /// `d`.
    pub gradients: u64,
}

#[derive(Clone, Copy)]
enum Step {
    Impossible,
    Keep(u16),
    Return(u16),
}

/// The table.
pub struct Table<'a> {
    graph: &'a Graph,
    stages: Vec<Stage>,
    unit: u64,
    slots: usize,
    best: Vec<(u64, Step)>,
}

/// The chain, `merge` blocks in one, with the options that a function gives, once per class of equal blocks.
pub fn stages(
    graph: &Graph,
    merge: usize,
    options: impl FnMut(&Graph, &Block) -> Vec<Vec<ValueId>>,
) -> Vec<Stage> {
    let mut options = options;
    let mut blocks = merged(&chain(graph), merge.max(1));
    while blocks.len() > MOST_BLOCKS {
        blocks = merged(&blocks, 2);
    }
    let mut classes: BTreeMap<Vec<u64>, Stage> = BTreeMap::new();
    let stages = blocks.into_iter().map(|block| {
        let class = classes.entry(class(graph, &block));
        class.or_insert_with(|| stage(graph, options(graph, &block), block.clone())).of(graph, block)
    });
    stages.collect()
}

/// What blocks of one class agree in; it decides everything of a [`Stage`].
pub(crate) fn class(graph: &Graph, block: &Block) -> Vec<u64> {
    let mut class = signature(graph, block);
    class.push(gradients(graph, block));
    class
}

impl Stage {
    /// The same options in another block of the class.
    pub(crate) fn of(&self, graph: &Graph, block: Block) -> Self {
        // Values are numbered in the order of their producers, so those of equal blocks are at a distance.
        let first = |block: &Block| {
            ids(block.forward.clone())
                .find_map(|node| graph.node(node).writes.first())
                .map_or(0, |id| id.index())
        };
        let (from, to) = (first(&self.block), first(&block));
        let moved = |value: &ValueId| ValueId::from_index(value.index() - from + to);
        let choices = self
            .choices
            .iter()
            .map(|choice| Choice { kept: choice.kept.iter().map(moved).collect(), ..*choice });
        Self { choices: choices.collect(), block, ..*self }
    }
}

/// Everything that the backward part reads of a block, and its output.
pub fn keep_everything(graph: &Graph, block: &Block) -> Vec<ValueId> {
    let values = ids(block.forward.clone()).flat_map(|node| &graph.node(node).writes).copied();
    let read = |value: &ValueId| {
        let about = graph.value(*value);
        let late = graph.readers(*value).last().is_some_and(|reader| reader.index() >= block.forward.end);
        about.pinned || !graph.node(about.producer).is_repeatable() || late
    };
    values.filter(read).collect()
}

pub(crate) fn stage(graph: &Graph, options: Vec<Vec<ValueId>>, block: Block) -> Stage {
    let output: Vec<ValueId> = block.output.into_iter().collect();
    let plain = forward_peak(graph, &block, &output);
    let sum = |values: &[ValueId]| values.iter().map(|&value| graph.value(value).bytes.0).sum::<u64>();
    let time =
        |range: std::ops::Range<usize>| graph.nodes()[range].iter().map(|node| node.time.0).sum::<u64>();
    let gradients = gradients(graph, &block);
    let choices = options.into_iter().map(|kept| {
        let (again, backward_peak) = backward(graph, &block, &kept, gradients);
        let (bytes, forward_peak) = (sum(&kept), forward_peak(graph, &block, &kept));
        let time = time(block.forward.clone()) + time(block.backward.clone()) + again;
        Choice { kept, time, bytes, forward_peak, backward_peak }
    });
    let choices = choices.collect();
    Stage { choices, time: time(block.forward.clone()), peak: plain, output: sum(&output), gradients, block }
}

/// Bytes of gradients that are there when the backward part of a block begins.
fn gradients(graph: &Graph, block: &Block) -> u64 {
    let (after, begin) = (block.forward.end, block.backward.start);
    let made =
        graph.nodes()[after.min(begin)..begin].iter().filter(|node| node.kind == rk_plan::Kind::Backward);
    let alive = made
        .flat_map(|node| &node.writes)
        .filter(|&&value| graph.readers(value).last().is_some_and(|last| last.index() >= begin));
    alive.map(|&value| graph.value(value).bytes.0).sum()
}

/// The most bytes while a block runs forward and keeps some of its values, without what it reads from outside.
fn forward_peak(graph: &Graph, block: &Block, kept: &[ValueId]) -> u64 {
    let kept: HashSet<ValueId> = kept.iter().copied().collect();
    let begin = block.forward.start;
    // What is no longer needed after each node.
    let mut dies = vec![0u64; block.forward.len()];
    let (mut live, mut peak) = (0u64, 0u64);
    for position in block.forward.clone() {
        let node = &graph.nodes()[position];
        for &value in &node.writes {
            let bytes = graph.value(value).bytes.0;
            live += bytes;
            let readers = graph.readers(value).iter().map(|reader| reader.index());
            let last = readers.filter(|&reader| reader < block.forward.end).max().unwrap_or(position);
            if !kept.contains(&value) {
                dies[last - begin] += bytes;
            }
        }
        peak = peak.max(live + node.workspace.0);
        live -= dies[position - begin];
    }
    peak
}

/// Time run again and the most bytes on the way back, without what is read from outside the block.
fn backward(graph: &Graph, block: &Block, kept: &[ValueId], gradients: u64) -> (u64, u64) {
    let mut player = Player::new(graph);
    let kept: HashSet<ValueId> = kept.iter().copied().collect();
    player.here.iter_mut().for_each(|here| *here = true);
    for node in ids(block.forward.clone()) {
        for &value in &graph.node(node).writes {
            player.here[value.index()] = kept.contains(&value);
        }
    }
    ids(block.backward.clone()).for_each(|node| player.run(node));
    let runs = player.sequence;
    // Lifetimes within the block; gradients from outside are there throughout: a little too much.
    let inside = |value: ValueId| {
        let producer = graph.value(value).producer.index();
        block.forward.contains(&producer) || block.backward.contains(&producer)
    };
    let mut last = vec![0usize; graph.values().len()];
    for (step, &node) in runs.iter().enumerate() {
        let about = graph.node(node);
        about.reads.iter().chain(&about.writes).for_each(|value| last[value.index()] = step);
    }
    for node in ids(block.backward.clone()) {
        for &value in &graph.node(node).writes {
            let leaves =
                graph.readers(value).last().is_some_and(|reader| reader.index() >= block.backward.end);
            last[value.index()] = if leaves { usize::MAX } else { last[value.index()] };
        }
    }
    // Each value comes once and goes after its last use.
    let bytes = |value: ValueId| graph.value(value).bytes.0;
    let mut came = vec![false; last.len()];
    let mut dies = vec![0u64; runs.len().max(1)];
    let mut come = |value: ValueId, dies: &mut Vec<u64>| {
        let is_new = !std::mem::replace(&mut came[value.index()], true);
        if let Some(dying) = dies.get_mut(last[value.index()]).filter(|_| is_new) {
            *dying += bytes(value);
        }
        if is_new { bytes(value) } else { 0 }
    };
    let mut live: u64 = kept.iter().map(|&value| come(value, &mut dies)).sum();
    let (mut peak, mut time) = (live + gradients, 0);
    for (step, &node) in runs.iter().enumerate() {
        let about = graph.node(node);
        for &value in about.writes.iter().filter(|&&value| inside(value)) {
            live += come(value, &mut dies);
        }
        time += if block.backward.contains(&node.index()) { 0 } else { about.time.0 };
        peak = peak.max(live + gradients + about.workspace.0);
        live -= dies[step];
    }
    (time, peak)
}

impl<'a> Table<'a> {
    /// Fills the table for budgets up to `most`.
    pub fn new(graph: &'a Graph, stages: Vec<Stage>, most: Bytes, stop: &dyn Fn() -> bool) -> Option<Self> {
        let unit = most.0.div_ceil(SLOTS as u64).max(1);
        let (count, slots) = (stages.len(), SLOTS + 1);
        let mut table = Self {
            graph,
            stages,
            unit,
            slots,
            best: vec![(u64::MAX, Step::Impossible); count * count * slots],
        };
        for length in 0..count {
            for i in 0..count - length {
                if stop() {
                    return None;
                }
                table.fill(i, i + length);
            }
        }
        Some(table)
    }

    fn at(&self, i: usize, j: usize, m: usize) -> usize {
        (i * self.stages.len() + j) * self.slots + m
    }

    /// Bytes as slots, upwards.
    fn slots_of(&self, bytes: u64) -> usize {
        usize::try_from(bytes.div_ceil(self.unit)).unwrap_or(usize::MAX)
    }

    fn fill(&mut self, i: usize, j: usize) {
        let behind = self.stages[j].gradients;
        let input = |r: usize, stages: &[Stage]| if r > 0 && r > i { stages[r - 1].output } else { 0 };
        for (k, choice) in self.stages[i].choices.iter().enumerate() {
            let need = self.slots_of((behind + choice.forward_peak).max(choice.backward_peak));
            let (kept, time) = (self.slots_of(choice.bytes), choice.time);
            for m in need..self.slots {
                let rest = match (i == j, m.checked_sub(kept)) {
                    (true, _) => 0,
                    (false, Some(left)) => self.best[self.at(i + 1, j, left)].0,
                    (false, None) => u64::MAX,
                };
                let at = self.at(i, j, m);
                let total = rest.saturating_add(time);
                if total < self.best[at].0 {
                    self.best[at] = (total, Step::Keep(k as u16));
                }
            }
        }
        let (mut time, mut peak) = (0u64, 0u64);
        for c in i + 1..=j {
            let passed = &self.stages[c - 1];
            time += passed.time;
            peak = peak.max(input(c - 1, &self.stages) + passed.peak);
            let (kept, need) = (self.slots_of(passed.output), self.slots_of(behind + peak));
            for m in need.max(kept)..self.slots {
                let right = self.best[self.at(c, j, m - kept)].0;
                let left = self.best[self.at(i, c - 1, m)].0;
                let total = right.saturating_add(left).saturating_add(time);
                let at = self.at(i, j, m);
                if total < self.best[at].0 {
                    self.best[at] = (total, Step::Return(c as u16));
                }
            }
        }
    }

    /// The time that the table promises within a budget.
    pub fn time(&self, budget: Bytes) -> Option<Time> {
        let m = usize::try_from(budget.0 / self.unit).unwrap_or(usize::MAX).min(self.slots - 1);
        let (time, _) = self.best[self.at(0, self.stages.len() - 1, m)];
        (time < u64::MAX).then_some(Time(time))
    }

    /// The sequences of the whole curve, from the largest budget down, without repetition.
    pub fn sequences(&self) -> impl Iterator<Item = Sequence> + '_ {
        let last = self.stages.len() - 1;
        let mut before = None;
        let steps = (0..self.slots).rev().filter(move |&m| {
            let time = self.best[self.at(0, last, m)].0;
            time < u64::MAX && before.replace(time) != Some(time)
        });
        steps.map(move |m| {
            let mut player = Player::new(self.graph);
            self.play(&mut player, m);
            Sequence(player.sequence)
        })
    }

    fn play(&self, player: &mut Player, m: usize) {
        enum Job {
            Solve(usize, usize, usize),
            Back(usize),
        }
        let mut jobs = vec![Job::Solve(0, self.stages.len() - 1, m)];
        while let Some(job) = jobs.pop() {
            match job {
                Job::Solve(i, j, m) => match self.best[self.at(i, j, m)].1 {
                    Step::Impossible => return,
                    Step::Keep(k) => {
                        let (stage, choice) = (&self.stages[i], &self.stages[i].choices[usize::from(k)]);
                        player.forward(&stage.block, &choice.kept);
                        jobs.push(Job::Back(i));
                        if i < j {
                            jobs.push(Job::Solve(i + 1, j, m - self.slots_of(choice.bytes)));
                        }
                    }
                    Step::Return(c) => {
                        let c = usize::from(c);
                        for stage in &self.stages[i..c] {
                            player.forward(&stage.block, stage.block.output.as_slice());
                            if let Some(input) = stage.block.forward.start.checked_sub(1) {
                                // The separator before is dropped unless it is x_{i-1}.
                                if stage.block.forward.start > self.stages[i].block.forward.start {
                                    player.forget(input);
                                }
                            }
                        }
                        jobs.push(Job::Solve(i, c - 1, m));
                        jobs.push(Job::Solve(c, j, m - self.slots_of(self.stages[c - 1].output)));
                    }
                },
                Job::Back(i) => {
                    let block = &self.stages[i].block;
                    ids(block.backward.clone()).for_each(|node| player.run(node));
                    ids(block.forward.clone()).for_each(|node| player.forget(node.index()));
                }
            }
        }
    }
}

/// Plans by the chain, with options per block.
pub(crate) fn by_chain(task: &mut Incumbent, stages: Vec<Stage>, solver: Solver) {
    let graph = task.request.graph;
    // A plan that overshoots by rounding and caution may still fit.
    let most = Bytes(task.request.budget.0.saturating_add(task.request.budget.0 / 3));
    let clock = task.clock;
    if let Some(table) = Table::new(graph, stages, most, &|| clock.expired()) {
        for sequence in table.sequences() {
            if clock.expired() {
                return;
            }
            // From the largest budget down, times only grow: the first that fits is the best.
            let fits = judge(graph, &sequence).is_ok_and(|trace| trace.peak <= task.request.budget);
            task.offer_sequence(sequence, solver);
            if fits {
                return;
            }
        }
    }
}

/// Rotor and its baselines.
pub(crate) fn rotor(task: &mut Incumbent) {
    let graph = task.request.graph;
    let stages = stages(graph, 1, |graph, block| vec![keep_everything(graph, block)]);
    tracing::info!(blocks = stages.len(), "chain");
    let root = stages.len().isqrt().max(1);
    for period in [root, 2, 2 * root] {
        task.offer_sequence(periodic(graph, &stages, period), Solver::Rotor);
    }
    for checkpoints in 1..=stages.len().min(16) {
        task.offer_sequence(revolve(graph, &stages, checkpoints), Solver::Rotor);
    }
    by_chain(task, stages, Solver::Rotor);
}

/// The curve of a graph: peak, time and sequence, each better than all with a smaller peak; largest peak first.
pub fn curve(graph: &Graph, stages: Vec<Stage>) -> Vec<(Bytes, Time, Sequence)> {
    let most = rk_plan::base_trace(graph).peak;
    let Some(table) = Table::new(graph, stages, most, &|| false) else { return Vec::new() };
    let mut points: Vec<(Bytes, Time, Sequence)> = Vec::new();
    for sequence in table.sequences().chain([Sequence::base(graph)]) {
        if let Ok(trace) = judge(graph, &sequence) {
            points.push((trace.peak, trace.time, sequence));
        }
    }
    points.sort_by_key(|point| (point.1, point.0));
    let mut least = Bytes(u64::MAX);
    points.retain(|point| {
        let better = point.0 < least;
        least = least.min(point.0);
        better
    });
    points
}
