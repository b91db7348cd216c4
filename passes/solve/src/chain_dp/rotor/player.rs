//! From decisions on a chain to a sequence, and the baselines that need no table: periodic checkpoints and revolve.

use rk_plan::{Graph, NodeId, Sequence, ValueId};

use super::Stage;
use crate::chain_dp::blocks::{Block, ids};

/// Writes a sequence down while it follows what is there.
pub(super) struct Player<'a> {
    graph: &'a Graph,
    pub(super) here: Vec<bool>,
    ran: Vec<bool>,
    pub(super) sequence: Vec<NodeId>,
}

impl<'a> Player<'a> {
    pub(super) fn new(graph: &'a Graph) -> Self {
        Self {
            graph,
            here: vec![false; graph.values().len()],
            ran: vec![false; graph.len()],
            sequence: Vec::new(),
        }
    }

    /// Runs a node, after what it needs.
    pub(super) fn run(&mut self, node: NodeId) {
        let mut stack = vec![(node, false)];
        while let Some((next, ready)) = stack.pop() {
            let about = self.graph.node(next);
            let missing = about.reads.iter().filter(|value| !self.here[value.index()]);
            let missing: Vec<NodeId> = missing.map(|&value| self.graph.value(value).producer).collect();
            if next != node && about.writes.iter().all(|value| self.here[value.index()]) {
                continue;
            }
            if !ready && !missing.is_empty() {
                stack.push((next, true));
                stack.extend(missing.into_iter().rev().map(|producer| (producer, false)));
                continue;
            }
            self.sequence.push(next);
            self.ran[next.index()] = true;
            about.writes.iter().for_each(|value| self.here[value.index()] = true);
        }
    }

    /// Runs a block forward: everything the first time, later only what leads to what is kept; then forgets the rest.
    pub(super) fn forward(&mut self, block: &Block, kept: &[ValueId]) {
        for node in ids(block.forward.clone()) {
            if !self.ran[node.index()] {
                self.run(node);
            }
        }
        for &value in kept {
            if !self.here[value.index()] {
                self.run(self.graph.value(value).producer);
            }
        }
        for node in ids(block.forward.clone()) {
            let about = self.graph.node(node);
            for value in about.writes.iter().filter(|value| !kept.contains(value)) {
                self.here[value.index()] = !about.is_repeatable() || self.graph.value(*value).pinned;
            }
        }
    }

    pub(super) fn forget(&mut self, node: usize) {
        let about = &self.graph.nodes()[node];
        for &value in &about.writes {
            self.here[value.index()] = !about.is_repeatable() || self.graph.value(value).pinned;
        }
    }
}

/// Once forward and once back; of each block what it says is kept.
pub(crate) fn once_through(graph: &Graph, blocks: &[(&Block, &[ValueId])]) -> Sequence {
    let mut player = Player::new(graph);
    for (block, kept) in blocks {
        player.forward(block, kept);
    }
    for (block, _) in blocks.iter().rev() {
        ids(block.backward.clone()).for_each(|node| player.run(node));
        ids(block.forward.clone()).for_each(|node| player.forget(node.index()));
    }
    Sequence(player.sequence)
}

/// Checkpoints every `period` blocks; the blocks between run again on the way back.
pub fn periodic(graph: &Graph, stages: &[Stage], period: usize) -> Sequence {
    let mut player = Player::new(graph);
    let segments: Vec<&[Stage]> = stages.chunks(period.max(1)).collect();
    for segment in &segments {
        segment_forward(&mut player, segment);
    }
    for segment in segments.iter().rev() {
        come_back(&mut player, segment);
    }
    Sequence(player.sequence)
}

/// Forward through a segment; only its last output stays.
fn segment_forward(player: &mut Player, segment: &[Stage]) {
    for (index, stage) in segment.iter().enumerate() {
        player.forward(&stage.block, stage.block.output.as_slice());
        if index > 0 {
            player.forget(stage.block.forward.start - 1);
        }
    }
}

/// Forward through a segment keeping everything, and back.
fn come_back(player: &mut Player, segment: &[Stage]) {
    for stage in segment {
        player.forward(&stage.block, &stage.choices[0].kept);
    }
    for stage in segment.iter().rev() {
        ids(stage.block.backward.clone()).for_each(|node| player.run(node));
        ids(stage.block.forward.clone()).for_each(|node| player.forget(node.index()));
    }
}

/// Binomial checkpointing with a number of checkpoints, as if all blocks were equal.
pub fn revolve(graph: &Graph, stages: &[Stage], checkpoints: usize) -> Sequence {
    let mut player = Player::new(graph);
    let mut jobs = vec![(0, stages.len(), checkpoints)];
    while let Some((from, to, free)) = jobs.pop() {
        if to - from <= 1 || free == 0 {
            come_back(&mut player, &stages[from..to]);
            continue;
        }
        let middle = from + revolve_step(to - from, free);
        segment_forward(&mut player, &stages[from..middle]);
        jobs.push((from, middle, free));
        jobs.push((middle, to, free - 1));
    }
    Sequence(player.sequence)
}

/// Where to put the next checkpoint, from the left. With `r` the least number of repetitions that suffices, the left part may
/// have up to `C(c+r-1, c)` blocks, and the right one needs `C(c+r-2, c-1)` if none of its repetitions is to be wasted.
fn revolve_step(length: usize, checkpoints: usize) -> usize {
    let binomial = |n: usize, k: usize| (0..k).fold(1usize, |b, i| b.saturating_mul(n - i) / (i + 1));
    let mut repetitions = 1;
    while binomial(checkpoints + repetitions, checkpoints) < length {
        repetitions += 1;
    }
    let left = binomial(checkpoints + repetitions - 1, checkpoints);
    let right = binomial(checkpoints + repetitions - 2, checkpoints - 1);
    left.min(length.saturating_sub(right)).clamp(1, length - 1)
}
