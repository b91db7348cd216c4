//! Gap eviction: bring a legal sequence under the budget by letting values die and running their producers again.
//!
//! While some step is over the budget: take the worst step p. Every value that is alive at p but not touched there sits in
//! a *gap* (a, b) between two touches. Evicting it means: die at a, run the producer again just before b.
//!
//! - *closure*: operands that are not alive at b are stretched to b if that keeps every step between within the budget,
//!   else run again too, recursively; at most [`CLOSURE`] nodes, as a rule
//! - *holding*: an operand that died before p is kept over p instead, if that costs less than to make it again, by the price of a byte
//!   that the next candidate asks; all that is held takes less than the value. So a large value changes places with the small one that
//!   it is made of, where an eviction by itself would call for a long way back
//! - *bringing forward*: what runs again later anyway costs nothing in a closure if it can be kept till then, since that later run goes.
//!   Without that a value is never let go for which a long way back must run again that runs again soon after
//! - *gain*: sum over sampled over-budget steps in the gap of min(bytes, excess) ([`hot`])
//! - *score*: time of the closure, less the run that dies unread, over the gain, times exp(σ·N(0,1)) to diversify ([`noise`])
//!
//! Candidates are tried in the order of their scores; closures are computed lazily, since the producer's own time is a
//! lower bound for them (unless it comes anyway: then it is found later than its score would have it). A trial is made on the timeline and taken back if it raises the peak or creates more excess than it
//! removes. The search for a plan fails when no candidate is left, or past a limit on time or rounds.
//!
//! Source: docs/design/planner.md, 4.3. Trials are exact, on the incremental timeline.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use rand_chacha::ChaCha8Rng;

use crate::construct::prune_redundant::{can_go, try_delete};
use crate::portfolio::clock::Clock;
use crate::state::slotted_timeline::SlottedTimeline;

mod hot_steps;
mod noise;

use hot_steps::Hot;
use noise::Noise;

/// Longer chains of recomputation are never worth one eviction, unless any plan is better than none.
const CLOSURE: usize = 32;
/// Failed trials at one step before giving up.
const TRIALS: usize = 24;

/// How to choose, and when to give up.
#[derive(Clone, Copy)]
pub(crate) struct EvictionParams {
    /// Spread of the random factor on scores; 0 is greedy.
    pub(crate) sigma: f64,
    /// Give up when the runs take more ticks than this.
    pub(crate) cost_limit: u64,
    /// Whether to bring runs forward, and to hold operands.
    pub(crate) forward: bool,
    pub(crate) hold: bool,
}

impl EvictionParams {
    pub(crate) fn new(sigma: f64, cost_limit: u64) -> Self {
        Self { sigma, cost_limit, forward: true, hold: true }
    }
}

/// Scratch of [`repair`], kept between calls.
pub(crate) struct Repair {
    budget: i64,
    candidates: Vec<Candidate>,
    heap: BinaryHeap<Scored>,
    hot: Hot,
    closure: Vec<u32>,
    /// Per node, the number of the last closure it was in.
    seen: Vec<u32>,
    closures: u32,
    /// The most nodes of a closure.
    longest: usize,
    /// That of the last call.
    params: EvictionParams,
    /// Nodes inserted by the last call.
    pub(crate) inserted: Vec<u32>,
}

#[derive(Clone, Copy)]
struct Candidate {
    value: u32,
    gain: f64,
    refund: u64,
    noise: f64,
    /// What a byte may cost that is held, by the next candidate at the time.
    price: f64,
    /// The score is that of the closure, not of the producer alone.
    exact: bool,
}

/// Where a value rests: between two touches, with a slot in between that is over the budget.
#[derive(Clone, Copy)]
struct Gap {
    value: u32,
    after: u32,
    before: u32,
    over: u32,
}

/// A candidate by its index.
#[derive(PartialEq)]
struct Scored {
    score: f64,
    index: u32,
}

enum Evicted {
    One,
    Nothing,
    /// All slots have moved: what the caller remembers is wrong.
    Moved,
}

impl Eq for Scored {}
impl PartialOrd for Scored {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scored {
    /// The least score is the greatest; ties go to the smaller value.
    fn cmp(&self, other: &Self) -> Ordering {
        other.score.total_cmp(&self.score).then(other.index.cmp(&self.index))
    }
}

impl Repair {
    pub(crate) fn new(nodes: usize, budget: i64) -> Self {
        Self {
            budget,
            candidates: Vec::new(),
            heap: BinaryHeap::new(),
            hot: Hot::new(),
            closure: Vec::new(),
            seen: vec![0; nodes],
            closures: 0,
            longest: CLOSURE,
            params: EvictionParams::new(0.0, u64::MAX),
            inserted: Vec::new(),
        }
    }

    /// The same with closures of so many nodes at most.
    pub(crate) fn with_closures(self, longest: usize) -> Self {
        Self { longest, ..self }
    }

    pub(crate) fn set_budget(&mut self, budget: i64) {
        self.budget = budget;
    }

    /// Evicts until the timeline fits. False: given up, the timeline is legal but over the budget.
    pub(crate) fn repair(
        &mut self,
        timeline: &mut SlottedTimeline,
        params: &EvictionParams,
        random: &mut ChaCha8Rng,
        clock: &Clock,
    ) -> bool {
        self.inserted.clear();
        self.params = *params;
        let noise = Noise::new(params.sigma);
        let mut trials = 0u32;
        // Every round evicts one instance; a sequence that needs more rounds than this is going in circles.
        for _ in 0..6 * timeline.model.len() + 200 {
            if timeline.peak() <= self.budget {
                return true;
            }
            if timeline.cost() > params.cost_limit {
                return false;
            }
            let worst = timeline.tree().first_most();
            self.hot.sample(timeline, self.budget, worst, random);
            self.collect(timeline, worst, &noise, random);
            // The same candidates serve until half of the excess is gone; then gains have changed too much.
            let (node, enough) = (timeline.node_at(worst), (timeline.peak() + self.budget) / 2);
            loop {
                trials += 1;
                if trials.is_multiple_of(16) && clock.expired() {
                    return false;
                }
                match self.evict_one(timeline, worst) {
                    Evicted::One => {}
                    Evicted::Moved => break,
                    Evicted::Nothing
                        if timeline.node_at(worst) == node && timeline.tree().at(worst) < timeline.peak() =>
                    {
                        break;
                    }
                    Evicted::Nothing => return false,
                }
                if timeline.node_at(worst) != node || timeline.tree().at(worst) <= enough {
                    break;
                }
            }
        }
        false
    }

    /// Fills the heap with the values that could be evicted around `worst`.
    fn collect(&mut self, timeline: &SlottedTimeline, worst: u32, noise: &Noise, random: &mut ChaCha8Rng) {
        self.candidates.clear();
        let model = timeline.model;
        let mut scores = std::mem::take(&mut self.heap).into_vec();
        scores.clear();
        for value in timeline.evictable(worst) {
            let (bytes, producer) = (model.bytes[value as usize], model.producer[value as usize]);
            let Some(run) = timeline.newest(producer, worst).filter(|&run| timeline.end(value, run) >= worst)
            else {
                continue;
            };
            let Some((after, before)) = timeline.gap_around(value, run, worst) else { continue };
            let gain = self.hot.gain(bytes, after, before);
            if gain <= 0.0 {
                continue;
            }
            // If nothing reads the run before the gap, it dies, and its time comes back.
            let unread = after == timeline.runs(producer)[run] && model.writes.row(producer).len() == 1;
            let refund = if unread { model.time[producer as usize] } else { 0 };
            let (noise, price) = (noise.factor(random), f64::INFINITY);
            let least = model.time[producer as usize] - refund;
            let score = (least as f64 + 1.0) / gain * noise;
            scores.push(Scored { score, index: self.candidates.len() as u32 });
            self.candidates.push(Candidate { value, gain, refund, noise, price, exact: false });
        }
        self.heap = BinaryHeap::from(scores);
    }

    /// Applies the best candidate that works.
    fn evict_one(&mut self, timeline: &mut SlottedTimeline, worst: u32) -> Evicted {
        let mut trials = 0;
        while let Some(Scored { index, .. }) = self.heap.pop() {
            let Candidate { value, gain, refund, noise, price, exact } = self.candidates[index as usize];
            let producer = timeline.model.producer[value as usize];
            // Earlier evictions from this heap may have moved the gap.
            let newest = timeline.newest(producer, worst).filter(|&run| timeline.end(value, run) >= worst);
            let gap = newest.and_then(|run| timeline.gap_around(value, run, worst));
            let Some((after, before)) = gap else { continue };
            let gap = Gap { value, after, before, over: worst };
            if !exact {
                // Beyond this many ticks another one comes first; twice that, so that two do not take turns in small steps.
                let next = self.heap.peek().map_or(f64::INFINITY, |next| next.score);
                let limit = (2.0 * next * gain / noise + refund as f64) as u64;
                let price = if self.params.hold { next } else { f64::INFINITY };
                let Some(cost) = self.closure(timeline, gap, price, limit) else { continue };
                let net = cost.saturating_sub(refund);
                self.candidates[index as usize] =
                    Candidate { value, gain, refund, noise, price, exact: cost <= limit };
                self.heap.push(Scored { score: (net as f64 + 1.0) / gain * noise, index });
                continue;
            }
            if self.closure(timeline, gap, price, u64::MAX).is_none() {
                continue;
            }
            if timeline.reserve(before, self.closure.len()) {
                return Evicted::Moved;
            }
            if self.try_evict(timeline, before) {
                return Evicted::One;
            }
            trials += 1;
            if trials >= TRIALS {
                return Evicted::Nothing;
            }
        }
        Evicted::Nothing
    }

    /// Inserts the closure before a slot and deletes the runs that it makes superfluous; returns its first slot.
    fn insert_closure(&mut self, timeline: &mut SlottedTimeline, before: u32) -> u32 {
        let mut next = before;
        for &node in self.closure.iter().rev() {
            next = timeline.room_before(next);
            timeline.insert(node, next);
        }
        for &node in &self.closure {
            let newest = timeline.newest(node, before).map(|run| timeline.runs(node)[run]);
            if let Some(slot) = newest {
                timeline.delete_if_superseded(node, slot);
            }
        }
        next
    }

    fn try_evict(&mut self, timeline: &mut SlottedTimeline, before: u32) -> bool {
        let (mark, peak) = (timeline.mark(), timeline.peak());
        let next = self.insert_closure(timeline, before);
        // What the recomputation itself puts over the budget must be less than what it removes from the peak.
        let inside = timeline.tree().most_in(next, before - 1);
        if timeline.peak() > peak || inside >= peak {
            timeline.rollback_to(mark);
            return false;
        }
        self.inserted.extend_from_slice(&self.closure);
        if self.params.forward {
            self.bring_forward(timeline, before);
        }
        true
    }

    /// Takes later runs of the closure before a slot away, as far as what they make can be kept till then.
    fn bring_forward(&self, timeline: &mut SlottedTimeline, before: u32) {
        for &node in self.closure.iter().rev() {
            let Some(later) = timeline.newest(node, before).map(|run| run + 1) else { continue };
            if later > 1 && later < timeline.runs(node).len() && can_go(timeline, self.budget, node, later) {
                // Other steps may be over the budget still.
                try_delete(timeline, timeline.peak(), node, later);
            }
        }
    }

    /// Whether a node runs again after a slot, and what it makes would be kept from there to then within the budget.
    fn comes_anyway(&self, timeline: &SlottedTimeline, node: u32, slot: u32) -> bool {
        let later = timeline.runs(node).iter().find(|&&run| run > slot);
        later.is_some_and(|&later| {
            let most = timeline.tree().most_in(slot, later - 1);
            let outputs = timeline.model.writes.row(node).iter();
            outputs
                .map(|&value| timeline.model.bytes[value as usize])
                .all(|bytes| most + bytes <= self.budget)
        })
    }

    /// The runs that bring a value back just before the end of its gap, in order, and their time with the price of what is held for them;
    /// above `limit` ticks only some of them. No operand is stretched over the slot that is over the budget, but at that price.
    fn closure(&mut self, timeline: &SlottedTimeline, gap: Gap, price: f64, limit: u64) -> Option<u64> {
        let (model, Gap { value: evicted, before, .. }) = (timeline.model, gap);
        let root = model.producer[evicted as usize];
        self.closures += 1;
        self.closure.clear();
        self.closure.push(root);
        self.seen[root as usize] = self.closures;
        let last = timeline.previous_used(before);
        let mut room = model.bytes[evicted as usize];
        let (mut cost, mut stretched, mut next) = (0, 0, 0);
        while let Some(&node) = self.closure.get(next) {
            next += 1;
            if model.once[node as usize] || self.closure.len() > self.longest {
                return None;
            }
            if !self.params.forward || !self.comes_anyway(timeline, node, before) {
                cost += model.time[node as usize];
            }
            if cost > limit {
                return Some(cost);
            }
            for &value in model.reads.row(node) {
                let producer = model.producer[value as usize];
                if self.seen[producer as usize] == self.closures {
                    continue;
                }
                let end = timeline.end(value, timeline.newest(producer, before)?);
                if end > last {
                    continue;
                }
                let bytes = model.bytes[value as usize];
                let crosses = end < gap.over;
                if bytes == 0
                    || end == last
                    || (!crosses && timeline.tree().most_in(end + 1, last) + bytes + stretched <= self.budget)
                {
                    stretched += bytes;
                    continue;
                }
                if crosses && bytes < room && price.is_finite() {
                    let worth = price * self.hot.gain(bytes, end, before);
                    let others = model.bytes[evicted as usize] - room + stretched;
                    if worth < model.time[producer as usize] as f64
                        && timeline.tree().most_in(end + 1, gap.after) + bytes + others <= self.budget
                    {
                        room -= bytes;
                        cost += worth as u64;
                        continue;
                    }
                }
                self.seen[producer as usize] = self.closures;
                self.closure.push(producer);
            }
        }
        self.closure.sort_unstable();
        Some(cost)
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rk_plan::judge;

    use super::*;
    use crate::state::flat_graph::{FlatGraph, to_sequence};

    /// Time and runs after the repair of a sequence of names.
    fn repaired(text: &str, sequence: &str, budget: i64, params: &EvictionParams) -> (u64, String) {
        let graph = rk_plan::text::read(text).unwrap();
        let model = FlatGraph::new(&graph);
        let names: Vec<&str> =
            text.split(';').map(|node| node.trim().split(['(', ' ']).next().unwrap_or_default()).collect();
        let number = |name| names.iter().position(|&other| other == name).expect("a node") as u32;
        let nodes: Vec<u32> = sequence.split(' ').map(number).collect();
        let mut timeline = SlottedTimeline::new(&model, &nodes);
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let clock = Clock::new(std::time::Duration::MAX);
        assert!(Repair::new(model.len(), budget).repair(&mut timeline, params, &mut random, &clock));
        assert!(judge(&graph, &to_sequence(&timeline.sequence())).is_ok() && timeline.peak() <= budget);
        let runs: Vec<&str> = timeline.sequence().iter().map(|&node| names[node as usize]).collect();
        (timeline.cost(), runs.join(" "))
    }

    /// `wide` is made in a moment from `narrow`, which takes long; `other` is as large as `wide`.
    #[test]
    fn a_narrow_operand_is_held_in_place_of_what_is_made_of_it() {
        let text = "x 1 1 once pin; narrow(x) 2 100; wide(narrow) 10 1; early(wide) 1 1; other(x) 10 300; soon(other) 1 1; big(x) 20 1; small(big) 1 1; \
            end(wide, small) 1 1; last(other, end) 1 1";
        let given = "x narrow wide early other soon big small end last";
        let with = EvictionParams::new(0.0, u64::MAX);
        let without = EvictionParams { hold: false, ..with };
        let base = 1 + 100 + 1 + 300 + 6;
        // There are 42 bytes at `small`; without `wide` there is room for `narrow`.
        let (cost, runs) = repaired(text, given, 34, &with);
        assert_eq!(
            (cost, runs.as_str()),
            (base + 1, "x narrow wide early other soon big small wide end last")
        );
        let (cost, runs) = repaired(text, given, 34, &without);
        assert_eq!(
            (cost, runs.as_str()),
            (base + 101, "x narrow wide early other soon big small narrow wide end last")
        );
    }

    /// `far` runs again for `last` already; `near` is made from it in a moment.
    #[test]
    fn what_runs_again_anyway_is_brought_forward() {
        let text = "x 1 1 once pin; far(x) 5 100; near(far) 10 1; early(near) 1 1; other(x) 10 50; soon(other) 1 1; big(x) 20 1; small(big) 1 1; \
            one(near, small) 1 1; two(other, one) 1 1; last(far, two) 1 1";
        let sequence = "x far near early other soon big small one two far last";
        let with = EvictionParams { hold: false, ..EvictionParams::new(0.0, u64::MAX) };
        let without = EvictionParams { forward: false, ..with };
        let before = 1 + 100 + 1 + 50 + 7 + 100;
        let (cost, runs) = repaired(text, sequence, 34, &with);
        assert_eq!(
            (cost, runs.as_str()),
            (before + 1, "x far near early other soon big small far near one two last")
        );
        let (cost, runs) = repaired(text, sequence, 34, &without);
        assert_eq!(
            (cost, runs.as_str()),
            (before + 50, "x far near early other soon big small one other two far last")
        );
    }
}
