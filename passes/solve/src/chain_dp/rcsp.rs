//! Once forward and once back along a chain: which way to go through each block, when no block runs forward without its
//! backward part soon to come. Longer than [`crate::chain_dp::rotor`] by one simplification, and linear in the chain for it.
//!
//! A *way* is an option of [`crate::chain_dp::rockmate`] for a run of 1, 2, 4, ... neighbours taken as one block; of a long run, a way may
//! keep nothing but the end. Ways are found once per class of equal runs. Sequences of ways that cover the chain are compared by
//! labels `(bytes kept, time)` after each block, with the constraints of the program, all in front of a block being kept:
//!
//! ```text
//! A1  kept + forward peak of the way  <= budget
//! A2  kept + backward peak of the way <= budget
//! A3  of labels whose bytes lie in one of CELLS cells, the fastest stays; slower ones with more bytes go
//! ```
//!
//! Bytes of labels are exact, so what is lost is lost in A3. Source: the resource-constrained shortest path, classical; blocks and
//! options after Zhao et al., "Rockmate", ICML 2023. Not here: coming back to a block twice, which tight budgets need.

use std::collections::BTreeMap;

use rk_plan::{Bytes, Graph, Sequence, ValueId};

use crate::chain_dp::blocks::{Block, joined};
use crate::chain_dp::rockmate::options;
use crate::chain_dp::rotor::{Stage, class, once_through, stage};
use crate::chain_dp::save_budgets::SaveBudgets;
use crate::portfolio::clock::Clock;

/// Neighbours that are taken as one block.
const RUNS: [usize; 5] = [1, 2, 4, 8, 16];
/// Forward nodes of a run of two or more, at most: options take a time that grows with the square.
const LARGEST_RUN: usize = 128;
/// Labels per place.
const CELLS: usize = 1024;

/// All ways through all runs of a chain.
pub(crate) struct BlockOptions<'a> {
    graph: &'a Graph,
    chain: &'a [Block],
    classes: Vec<Stage>,
    /// Per place in the chain: how many blocks, and the class of the run.
    runs: Vec<Vec<(usize, usize)>>,
}

#[derive(Clone, Copy)]
struct Label {
    bytes: u64,
    time: u64,
    from: From,
}

/// How a label came about.
#[derive(Clone, Copy)]
struct From {
    place: usize,
    /// The cell of the label there.
    cell: usize,
    class: usize,
    choice: usize,
}

impl<'a> BlockOptions<'a> {
    /// Finds the ways, once per class. Runs of two or more need an equal one elsewhere to be worth the while.
    pub(crate) fn new(graph: &'a Graph, chain: &'a [Block], budgets: SaveBudgets, clock: &Clock) -> Self {
        let mut known: BTreeMap<Vec<u64>, usize> = BTreeMap::new();
        let mut members: Vec<(Block, usize)> = Vec::new();
        let mut runs: Vec<Vec<(usize, usize)>> = Vec::new();
        for place in 0..chain.len() {
            let mut here = Vec::new();
            for count in RUNS.into_iter().filter(|count| place + count <= chain.len()) {
                let run = joined(&chain[place..place + count]);
                if count > 1 && run.forward.len() > LARGEST_RUN {
                    break;
                }
                let next = members.len();
                let class = *known.entry(class(graph, &run)).or_insert(next);
                if class == next {
                    members.push((run, 0));
                }
                members[class].1 += 1;
                here.push((count, class));
            }
            runs.push(here);
        }
        for here in &mut runs {
            here.retain(|&(count, class)| count == 1 || members[class].1 > 1);
        }
        let mut used = vec![false; members.len()];
        runs.iter().flatten().for_each(|&(_, class)| used[class] = true);
        let classes = members.into_iter().zip(used).map(|((run, _), used)| {
            let options = if used { options(graph, &run, budgets, clock.deadline()) } else { Vec::new() };
            stage(graph, options, run)
        });
        Self { graph, chain, classes: classes.collect(), runs }
    }

    /// How many different runs have ways.
    pub(crate) fn classes(&self) -> usize {
        self.classes.iter().filter(|stage| !stage.choices.is_empty()).count()
    }

    /// The fastest sequence of ways within a budget, as the program counts it.
    pub(crate) fn fastest(&self, budget: Bytes) -> Option<Sequence> {
        let end = self.chain.len();
        let width = (budget.0 / CELLS as u64).max(1);
        let mut labels: Vec<Vec<Option<Label>>> = vec![vec![None; CELLS + 1]; end + 1];
        let start = From { place: 0, cell: 0, class: 0, choice: 0 };
        labels[0][0] = Some(Label { bytes: 0, time: 0, from: start });
        for place in 0..end {
            let (before, after) = labels.split_at_mut(place + 1);
            let mut fastest = u64::MAX;
            for (cell, label) in before[place].iter().enumerate() {
                let Some(label) = label.filter(|label| label.time < fastest) else { continue };
                fastest = label.time;
                for &(count, class) in &self.runs[place] {
                    for (choice, way) in self.classes[class].choices.iter().enumerate() {
                        if label.bytes + way.forward_peak.max(way.backward_peak) > budget.0 {
                            continue;
                        }
                        let (bytes, time) = (label.bytes + way.bytes, label.time + way.time);
                        let slot = &mut after[count - 1][((bytes / width) as usize).min(CELLS)];
                        if slot.is_none_or(|other| (time, bytes) < (other.time, other.bytes)) {
                            let from = From { place, cell, class, choice };
                            *slot = Some(Label { bytes, time, from });
                        }
                    }
                }
            }
        }
        let last = labels[end].iter().flatten().min_by_key(|label| (label.time, label.bytes))?;
        Some(self.played(&labels, *last))
    }

    /// The sequence that leads to a label at the end.
    fn played(&self, labels: &[Vec<Option<Label>>], last: Label) -> Sequence {
        let mut ways = Vec::new();
        let (mut end, mut label) = (self.chain.len(), last);
        while end > 0 {
            let From { place, cell, class, choice } = label.from;
            let stage = self.classes[class].of(self.graph, joined(&self.chain[place..end]));
            ways.push((stage, choice));
            end = place;
            label = labels[place][cell].unwrap_or(last);
        }
        ways.reverse();
        let ways: Vec<(&Block, &[ValueId])> =
            ways.iter().map(|(stage, choice)| (&stage.block, &stage.choices[*choice].kept[..])).collect();
        once_through(self.graph, &ways)
    }
}
