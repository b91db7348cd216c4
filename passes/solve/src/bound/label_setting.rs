//! The cut problem solved exactly by a dynamic program, for graphs that are narrow: most training steps.
//!
//! Decide the producers of [`crate::bound::cut`] from the last to the first. What matters of the decisions so far is their time,
//! their bytes, and which outputs of undecided producers they read: the *frontier*, a handful of values in a network of
//! blocks, however many blocks there are. So a label is `(time, bytes)` at a frontier, and among labels at one frontier only
//! the Pareto-optimal ones are kept. Equal blocks make equal labels, which is what branch and bound cannot see.
//!
//! At the best price of the relaxation, a first pass without labels gives for every frontier the least priced cost of what
//! remains; a label whose priced total reaches a guess `G` cannot be part of a solution below `G` and is dropped. The guess
//! starts just above the relaxation and its distance grows fourfold: a pass that ends without a solution proves `G`, one
//! that finds a solution has found the optimum. Few labels survive, because guesses are close to the optimum.
//!
//! Where a solution near the optimum will do, times are rounded down to *quanta* of several ticks: far fewer labels differ, what
//! the program proves stays true, and what it finds is off by less than a quantum for each node that runs again.
//!
//! All in integers. Source: dynamic programming with completion bounds (A*-like), classical. Not here: wide graphs, for
//! which [`crate::bound::branch_and_bound`] branches.

use std::collections::BTreeMap;

use crate::bound::cut::{Choice, Cut};
use crate::bound::lagrangian::Price;
use crate::bound::limits::Limits;

/// Frontiers per layer, at most; wider graphs are left to branch and bound.
const FRONTIERS: usize = 512;
/// Labels per layer, at most.
const LABELS: usize = 400_000;
/// Remembered decisions of one pass, at most: 8 bytes each.
pub(crate) const DECISIONS: usize = 12_000_000;

/// What the dynamic program proved.
pub(crate) enum Found {
    /// The optimum, or proof that nothing is below the cutoff (`None`).
    Solved(Option<Choice>),
    /// A solution near the optimum, and the ticks that nothing is below.
    Near(Choice, u64),
    /// It grew too large or too slow: nothing is below this many ticks.
    Bounded(u64),
    /// Too wide to begin with.
    Wide,
}

/// How exact, and how large.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    /// Ticks of a quantum. Times are rounded down to quanta, which makes solutions cheaper, never dearer.
    pub(crate) quantum: u64,
    /// Remembered decisions of one pass, at most.
    pub(crate) decisions: usize,
}

/// One layer: a producer to decide, and the frontiers that can stand in front of it.
struct Layer {
    node: usize,
    /// Bits of wanted values, ascending.
    frontiers: Vec<u64>,
    /// Per frontier: bytes held if it does not run again, where that leads, and the same (where to) if it does.
    moves: Vec<Move>,
    /// The least priced cost from here on, per frontier.
    rest: Vec<i128>,
}

#[derive(Clone, Copy)]
struct Move {
    held: i128,
    stay: u32,
    again: Option<u32>,
}

#[derive(Clone, Copy)]
struct Label {
    /// In quanta.
    time: u64,
    bytes: i128,
    /// The last decision to run again, in [`Pass::decisions`]; 0 is none.
    last: u32,
}

/// Looks for the best solution below `goal`, everything below `proven` being excluded already; times are counted in quanta.
pub(crate) fn solve(cut: &Cut, price: Price, size: Size, proven: u64, goal: u64, limits: &Limits) -> Found {
    let Some(mut layers) = layers(cut) else { return Found::Wide };
    if price.denominator == 0 {
        return Found::Wide;
    }
    let quantum = size.quantum;
    let mut pass = Pass { cut, price, size, guess: proven / quantum, limits, decisions: Vec::new() };
    pass.price_the_rest(&mut layers);
    let mut proven = proven;
    let mut step = (goal.saturating_sub(proven) / 64).clamp(1, 1 + proven / 2000).div_ceil(quantum);
    let last = goal.div_ceil(quantum);
    while pass.guess < last {
        pass.guess = pass.guess.saturating_add(step).min(last);
        match pass.run(&layers) {
            Ok(Some((choice, _))) if quantum == 1 => return Found::Solved(Some(choice)),
            Ok(Some((choice, quanta))) => {
                return Found::Near(choice, proven.max(quanta.saturating_mul(quantum)));
            }
            Ok(None) => proven = proven.max(pass.guess.saturating_mul(quantum).min(goal)),
            Err(TooMuch) => return Found::Bounded(proven),
        }
        step = step.saturating_mul(4);
    }
    Found::Solved(None)
}

/// All frontiers that can occur, or `None` if there are too many.
fn layers(cut: &Cut) -> Option<Vec<Layer>> {
    let n = cut.nodes.len();
    let (mut reads, mut writes) = (vec![Vec::new(); n], vec![Vec::new(); n]);
    for (index, value) in cut.values.iter().enumerate() {
        writes[value.producer].push(index);
        value.readers.iter().for_each(|&reader| reads[reader].push(index));
    }
    // A bit from the first reader decided to the producer; bits are used again.
    let mut bit = vec![0u64; cut.values.len()];
    let mut free = u64::MAX;
    let mut layers: Vec<Layer> = Vec::with_capacity(n);
    let mut frontiers = vec![0u64];
    for node in (0..n).rev() {
        let mut wants = 0u64;
        for &value in reads[node].iter().filter(|&&value| !cut.values[value].needed) {
            if bit[value] == 0 {
                bit[value] = free & free.wrapping_neg();
                free &= !bit[value];
                if bit[value] == 0 {
                    return None;
                }
            }
            wants |= bit[value];
        }
        let mine = writes[node].iter().fold(0u64, |mine, &value| mine | bit[value]);
        let mut next: BTreeMap<u64, u32> = BTreeMap::new();
        let mut targets = Vec::with_capacity(frontiers.len());
        for &frontier in &frontiers {
            let wanted = |value: &&usize| cut.values[**value].needed || frontier & bit[**value] != 0;
            let held: i128 =
                writes[node].iter().filter(wanted).map(|&v| i128::from(cut.values[v].bytes)).sum();
            let stay = frontier & !mine;
            let again = (held > 0 && !cut.nodes[node].barred).then_some(stay | wants);
            next.insert(stay, 0);
            again.map(|again| next.insert(again, 0));
            targets.push((held, stay, again));
        }
        if next.len() > FRONTIERS {
            return None;
        }
        next.values_mut().enumerate().for_each(|(position, index)| *index = position as u32);
        let moves = targets.into_iter().map(|(held, stay, again)| Move {
            held,
            stay: next[&stay],
            again: again.map(|again| next[&again]),
        });
        layers.push(Layer { node, moves: moves.collect(), rest: vec![0; frontiers.len()], frontiers });
        frontiers = next.into_keys().collect();
        for &value in &writes[node] {
            free |= bit[value];
        }
    }
    Some(layers)
}

struct TooMuch;

struct Pass<'a> {
    cut: &'a Cut,
    price: Price,
    size: Size,
    /// In quanta.
    guess: u64,
    limits: &'a Limits,
    /// Node that runs again, and the decision before.
    decisions: Vec<(u32, u32)>,
}

impl Pass<'_> {
    fn price_the_rest(&self, layers: &mut [Layer]) {
        let (per_byte, per_quantum) = self.prices();
        let mut later: Vec<i128> = vec![0];
        for layer in layers.iter_mut().rev() {
            let node = &self.cut.nodes[layer.node];
            let run =
                per_quantum * i128::from(node.time / self.size.quantum) + per_byte * i128::from(node.state);
            for (rest, step) in layer.rest.iter_mut().zip(&layer.moves) {
                let stay = per_byte * step.held + later[step.stay as usize];
                let again = step.again.map(|again| run + later[again as usize]);
                *rest = again.map_or(stay, |again| again.min(stay));
            }
            later.clone_from(&layer.rest);
        }
    }

    /// Of a byte and of a quantum.
    fn prices(&self) -> (i128, i128) {
        (i128::from(self.price.numerator), i128::from(self.price.denominator) * i128::from(self.size.quantum))
    }

    /// The best solution below the guess, and its quanta.
    fn run(&mut self, layers: &[Layer]) -> Result<Option<(Choice, u64)>, TooMuch> {
        self.decisions.clear();
        self.decisions.push((0, 0));
        let mut labels: Vec<Vec<Label>> = vec![vec![Label { time: 0, bytes: 0, last: 0 }]];
        for (depth, layer) in layers.iter().enumerate() {
            if self.limits.passed(0) {
                return Err(TooMuch);
            }
            let (next, rest): (usize, &[i128]) = match layers.get(depth + 1) {
                Some(next) => (next.frontiers.len(), &next.rest),
                None => (1, &[0]),
            };
            let mut incoming: Vec<Vec<Vec<Label>>> = vec![Vec::new(); next];
            for (step, labels) in layer.moves.iter().zip(labels).filter(|(_, labels)| !labels.is_empty()) {
                if let Some(target) = step.again {
                    let again = self.again(layer.node, &labels, rest[target as usize]);
                    incoming[target as usize].push(again);
                }
                let stay = labels.into_iter().map(|label| Label { bytes: label.bytes + step.held, ..label });
                let stay = stay.filter(|label| self.is_open(label, rest[step.stay as usize])).collect();
                incoming[step.stay as usize].push(stay);
            }
            labels = incoming.into_iter().map(pareto).collect();
            if labels.iter().map(Vec::len).sum::<usize>() > LABELS
                || self.decisions.len() > self.size.decisions
            {
                return Err(TooMuch);
            }
        }
        let best = labels.iter().flatten().find(|label| label.bytes <= self.cut.room);
        Ok(best.and_then(|label| Some((self.choice(label)?, label.time))))
    }

    fn again(&mut self, node: usize, labels: &[Label], rest: i128) -> Vec<Label> {
        let about = &self.cut.nodes[node];
        let mut again = Vec::with_capacity(labels.len());
        for label in labels {
            let (time, bytes) =
                (label.time + about.time / self.size.quantum, label.bytes + i128::from(about.state));
            if self.is_open(&Label { time, bytes, last: 0 }, rest) {
                again.push(Label { time, bytes, last: self.decisions.len() as u32 });
                self.decisions.push((node as u32, label.last));
            }
        }
        again
    }

    /// Whether a label may lead to a solution below the guess.
    fn is_open(&self, label: &Label, rest: i128) -> bool {
        let (per_byte, per_quantum) = self.prices();
        let priced = per_quantum * i128::from(label.time) + per_byte * (label.bytes - self.cut.room) + rest;
        label.bytes <= self.cut.room
            && label.time < self.guess
            && priced <= per_quantum * i128::from(self.guess - 1)
    }

    fn choice(&self, label: &Label) -> Option<Choice> {
        let mut again = vec![false; self.cut.nodes.len()];
        let mut last = label.last;
        while let Some(&(node, before)) = self.decisions.get(last as usize).filter(|_| last != 0) {
            again[node as usize] = true;
            last = before;
        }
        self.cut.choose(again)
    }
}

/// Merges lists that ascend in time and keeps what no other label beats in both.
fn pareto(mut lists: Vec<Vec<Label>>) -> Vec<Label> {
    if lists.len() == 1 {
        return lists.pop().unwrap_or_default();
    }
    let mut all: Vec<Label> = lists.concat();
    // Stable, and fast on sorted runs.
    all.sort_by_key(|label| (label.time, label.bytes));
    let mut least = i128::MAX;
    all.retain(|label| {
        let better = label.bytes < least;
        least = least.min(label.bytes);
        better
    });
    all
}

#[cfg(test)]
mod tests {
    use rk_plan::{Bytes, base_trace};

    use super::*;
    use crate::bound::cut::Cutter;
    use crate::bound::lagrangian::{Fixed, Network, relax};
    use crate::synthetic::{Family, graph};

    #[test]
    fn quanta_lose_less_than_one_for_each_run() {
        let mut found = 0;
        for seed in 1..=3 {
            let graph = graph(Family::DenseNet, 150, seed);
            let peak = base_trace(&graph);
            let node = graph.node_ids().nth(peak.peak_step).expect("the node of the peak");
            for share in [45, 60, 75] {
                let cut = Cutter::new(&graph).cut(node, Bytes(peak.peak.0 / 100 * share));
                let free = vec![Fixed::Free; cut.nodes.len()];
                let root = relax(&cut, &mut Network::new(&cut), &free, None, u64::MAX);
                let proven = root.bound.expect("it fits");
                let solve = |quantum| {
                    let size = Size { quantum, decisions: DECISIONS };
                    solve(&cut, root.price, size, proven, u64::MAX, &Limits::NONE)
                };
                let Found::Solved(Some(best)) = solve(1) else { panic!("narrow") };
                for quantum in [2, 30, 500] {
                    let Found::Near(near, bound) = solve(quantum) else { panic!("narrow") };
                    let runs = near.again.iter().filter(|&&again| again).count() as u64;
                    assert!(near.bytes <= cut.room && proven <= bound && bound <= best.time);
                    assert!(best.time <= near.time && near.time < bound + quantum * runs.max(1));
                    found += u32::from(near.time > best.time);
                }
            }
        }
        assert!(found > 0, "quanta make a difference");
    }
}
