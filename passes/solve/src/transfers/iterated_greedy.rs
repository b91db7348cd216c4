//! Iterated greedy: take some transfers back, choose again greedily, keep what is no slower.
//!
//! The state is a sequence and the gaps in it that wait in host memory. *Construction* takes the gap that relieves the runs
//! above the budget most, for the time that its copies take, until everything fits; then it gives back what is not needed.
//! *Destruction* is one of
//!
//! - some gaps are given up
//! - a recomputation is left out, whose instance before is then used: a transfer in its place
//! - a gap is closed by running its producer again: a recomputation in the place of a transfer
//!
//! Counts of work drive all of it; the clock only stops.
//!
//! Source: Ruiz and Stützle, "A simple and effective iterated greedy algorithm for the permutation flowshop scheduling problem"
//! (EJOR, 2007).

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, Host, NodeId, Sequence, judge};

use super::TransferPlan;
use super::gaps::{Gap, Runs, signed};
use super::list_scheduling::{Chosen, is_first};
use crate::portfolio::clock::Clock;

/// What a search may change.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Moves {
    /// The transfers.
    Transfers,
    /// The runs, too.
    Both,
}

/// Iterations without a better plan per gap, after which more of them are not worth the time.
const REST_PER_GAP: u64 = 40;
/// Iterations without a better plan after which more are not worth the time, at least and at most.
const REST: (u64, u64) = (400, 20_000);
/// Gaps given up at a time, at most, in parts of all chosen.
const DESTROYED: usize = 6;
/// Spread of the weights in a greedy choice.
const SPREAD: f64 = 0.6;

struct State {
    runs: Runs,
    gaps: Vec<Gap>,
    /// Makespan, then bytes over the budget where it does not fit.
    rank: (u64, i64),
}

/// A search from one start.
pub(super) struct Search<'a> {
    graph: &'a Graph,
    host: &'a Host,
    budget: i64,
    random: ChaCha8Rng,
    start: Sequence,
    state: Option<State>,
    best: Option<TransferPlan>,
    smallest: Bytes,
}

impl<'a> Search<'a> {
    pub(super) fn new(graph: &'a Graph, budget: Bytes, host: &'a Host, start: Sequence, seed: u64) -> Self {
        let random = ChaCha8Rng::seed_from_u64(seed);
        let budget = signed(budget.0);
        Self { graph, host, budget, random, start, state: None, best: None, smallest: Bytes(u64::MAX) }
    }

    pub(super) fn best(&self) -> Option<&TransferPlan> {
        self.best.as_ref()
    }

    /// The least peak of the device that was seen.
    pub(super) fn smallest(&self) -> Bytes {
        self.smallest
    }

    /// Less is better.
    pub(super) fn rank(&self) -> (u64, i64) {
        self.state.as_ref().map_or((u64::MAX, i64::MAX), |state| state.rank)
    }

    /// Until the clock stops it, or it is at rest.
    pub(super) fn run(&mut self, moves: Moves, clock: &Clock) {
        if self.state.is_none() {
            let Some(runs) = self.runs(self.start.clone()) else { return };
            let all = runs.gaps.clone();
            self.state = Some(self.built(runs, Vec::new(), 0.0));
            // Everything away at once: the least peak that transfers alone reach from here, about.
            if let Some(runs) = self.runs(self.start.clone()) {
                self.evaluated(runs, all);
            }
        }
        let mut waited = 0;
        while !clock.expired() {
            let Some(state) = self.state.take() else { return };
            let rest = (state.gaps.len() as u64 * REST_PER_GAP).clamp(REST.0, REST.1);
            // Nothing to gain: it fits, and waits for nothing and repeats nothing.
            let perfect = state.rank == (self.graph.total_time().0, 0);
            if waited >= rest || perfect {
                self.state = Some(state);
                return;
            }
            let next = self.neighbour(&state, moves);
            waited += 1;
            self.state = Some(match next {
                Some(next) if next.rank <= state.rank => {
                    waited = if next.rank < state.rank { 0 } else { waited };
                    next
                }
                _ => state,
            });
        }
    }

    fn runs(&self, sequence: Sequence) -> Option<Runs> {
        let trace = judge(self.graph, &sequence).ok()?;
        Some(Runs::new(self.graph, sequence, &trace))
    }

    fn neighbour(&mut self, state: &State, moves: Moves) -> Option<State> {
        let dice = if moves == Moves::Both { self.random.random_range(0..10) } else { 9 };
        let runs = &state.runs.sequence.0;
        let (sequence, shifted): (Vec<NodeId>, Vec<Gap>) = match dice {
            0..2 => {
                let at = self.a_second_run(runs)?;
                let without = runs[..at].iter().chain(&runs[at + 1..]).copied().collect();
                // Gaps of what ran again belong to the instance before: they are looked for anew.
                let moved = |run: usize| if run > at { run - 1 } else { run };
                let others = state.gaps.iter().filter(|gap| ![gap.born, gap.from, gap.to].contains(&at));
                (without, others.map(|gap| gap.shifted(moved)).collect())
            }
            2..4 if !state.gaps.is_empty() => {
                let gap = state.gaps[self.random.random_range(0..state.gaps.len())];
                let producer = self.graph.value(gap.value).producer;
                if !self.graph.node(producer).is_repeatable() {
                    return None;
                }
                let mut with = runs.clone();
                with.insert(gap.to, producer);
                let moved = |run: usize| if run >= gap.to { run + 1 } else { run };
                let others = state.gaps.iter().filter(|other| **other != gap);
                (with, others.map(|gap| gap.shifted(moved)).collect())
            }
            _ => (runs.clone(), state.gaps.clone()),
        };
        let mut gaps = shifted;
        let most = gaps.len().div_ceil(DESTROYED);
        let fewer = self.random.random_range(0..=most);
        for _ in 0..fewer.min(gaps.len()) {
            gaps.remove(self.random.random_range(0..gaps.len()));
        }
        let runs = self.runs(Sequence(sequence))?;
        gaps.retain(|gap| runs.gaps.binary_search(gap).is_ok());
        let spread = if self.random.random_bool(0.5) { SPREAD } else { 0.1 };
        Some(self.built(runs, gaps, spread))
    }

    /// A run that is not the first of its node.
    fn a_second_run(&mut self, runs: &[NodeId]) -> Option<usize> {
        let mut ran = vec![false; self.graph.len()];
        let again =
            runs.iter().enumerate().filter(|(_, node)| std::mem::replace(&mut ran[node.index()], true));
        let again: Vec<usize> = again.map(|(at, _)| at).collect();
        (!again.is_empty()).then(|| again[self.random.random_range(0..again.len())])
    }

    /// Chooses gaps until everything fits, gives back those that are not needed, and schedules the transfers.
    fn built(&mut self, runs: Runs, gaps: Vec<Gap>, spread: f64) -> State {
        let mut choice = Choice::new(self, &runs, gaps);
        choice.add_until_it_fits(&mut self.random, spread);
        choice.give_back(&mut self.random);
        let gaps = choice.gaps();
        self.evaluated(runs, gaps)
    }

    fn evaluated(&mut self, runs: Runs, gaps: Vec<Gap>) -> State {
        let memory = memory(&runs, &gaps);
        let over = memory.iter().max().map_or(0, |&most| (most - self.budget).max(0));
        let (graph, host, budget) = (self.graph, self.host, self.budget);
        let chosen = Chosen { graph, host, budget, runs: &runs, gaps: &gaps, memory: &memory };
        let Some((transfers, trace)) = chosen.schedule() else {
            return State { runs, gaps, rank: (u64::MAX, i64::MAX) };
        };
        self.smallest = self.smallest.min(trace.device.peak);
        let makespan = trace.makespan;
        let better = self.best.as_ref().is_none_or(|best| makespan < best.trace.makespan);
        if over == 0 && better && signed(trace.device.peak.0) <= self.budget {
            let sequence = runs.sequence.clone();
            self.best = Some(TransferPlan { sequence, transfers, trace, solver: "iterated-greedy" });
        }
        let rank = if over > 0 { (u64::MAX, over) } else { (makespan.0, 0) };
        State { runs, gaps, rank }
    }
}

/// Bytes at each run with transfers as short as can be.
fn memory(runs: &Runs, gaps: &[Gap]) -> Vec<i64> {
    let mut memory = runs.memory.clone();
    for (index, gap) in gaps.iter().enumerate() {
        memory[gap.freed(is_first(gaps, index))].iter_mut().for_each(|bytes| *bytes -= gap.bytes);
    }
    memory
}

/// Gaps while they are chosen.
struct Choice<'a> {
    all: &'a [Gap],
    chosen: Vec<bool>,
    /// What a byte less at a run above the budget is divided by: the time of both copies.
    price: Vec<f64>,
    memory: Vec<i64>,
    budget: i64,
    /// Bytes in host memory at each run, and how many may be.
    away: Vec<i64>,
    host: i64,
}

impl<'a> Choice<'a> {
    fn new(search: &Search, runs: &'a Runs, gaps: Vec<Gap>) -> Self {
        let all = &runs.gaps;
        let price = |gap: &Gap| {
            let bytes = search.graph.value(gap.value).bytes;
            (search.host.offload.time(bytes).0 + search.host.fetch.time(bytes).0).max(1) as f64
        };
        let mut choice = Self {
            all,
            chosen: vec![false; all.len()],
            price: all.iter().map(price).collect(),
            memory: runs.memory.clone(),
            budget: search.budget,
            away: vec![0; runs.memory.len()],
            host: search.host.budget.map_or(i64::MAX, |bytes| signed(bytes.0)),
        };
        for gap in gaps {
            if let Ok(index) = all.binary_search(&gap)
                && choice.host_has_room(index)
            {
                choice.set(index, true);
            }
        }
        choice
    }

    /// Host memory keeps a value through all gaps of an instance, so each gap counts from its making to the use behind.
    fn host_has_room(&self, index: usize) -> bool {
        let gap = &self.all[index];
        let room = self.host.saturating_sub(gap.bytes);
        self.away[gap.born + 1..gap.to].iter().all(|&bytes| bytes <= room)
    }

    fn set(&mut self, index: usize, chosen: bool) {
        let gap = &self.all[index];
        let sign = if chosen { 1 } else { -1 };
        self.chosen[index] = chosen;
        self.memory[gap.freed(true)].iter_mut().for_each(|bytes| *bytes -= sign * gap.bytes);
        self.away[gap.born + 1..gap.to].iter_mut().for_each(|bytes| *bytes += sign * gap.bytes);
    }

    fn add_until_it_fits(&mut self, random: &mut impl Rng, spread: f64) {
        let weight: Vec<f64> = self
            .price
            .iter()
            .map(|price| (1.0 + spread * (random.random::<f64>() - 0.5) * 2.0) / price)
            .collect();
        loop {
            // How many runs are above the budget up to each point, and the most that is too much.
            let (mut above, mut excess) = (vec![0u32], 0);
            for &bytes in &self.memory {
                above.push(above[above.len() - 1] + u32::from(bytes > self.budget));
                excess = excess.max(bytes - self.budget);
            }
            if excess <= 0 {
                return;
            }
            let mut best: Option<(f64, usize)> = None;
            for (index, gap) in self.all.iter().enumerate().filter(|(index, _)| !self.chosen[*index]) {
                let span = gap.freed(true);
                let relieved = above[span.end] - above[span.start];
                let worth = f64::from(relieved) * gap.bytes.min(excess) as f64 * weight[index];
                if relieved > 0
                    && best.is_none_or(|(most, _)| worth > most)
                    && (self.host == i64::MAX || self.host_has_room(index))
                {
                    best = Some((worth, index));
                }
            }
            let Some((_, index)) = best else { return };
            self.set(index, true);
        }
    }

    /// Gives up what is not needed, in random order.
    fn give_back(&mut self, random: &mut impl Rng) {
        let mut chosen: Vec<usize> = (0..self.all.len()).filter(|&index| self.chosen[index]).collect();
        for last in (1..chosen.len()).rev() {
            chosen.swap(last, random.random_range(0..=last));
        }
        for index in chosen {
            let gap = &self.all[index];
            if self.memory[gap.freed(true)].iter().all(|&bytes| bytes + gap.bytes <= self.budget) {
                self.set(index, false);
            }
        }
    }

    fn gaps(&self) -> Vec<Gap> {
        self.all.iter().zip(&self.chosen).filter(|(_, chosen)| **chosen).map(|(gap, _)| *gap).collect()
    }
}
