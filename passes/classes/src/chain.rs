//! Where the forward pass is cut into blocks.
//!
//! *Spine.* The values that depend on a parameter. Masks, positions and dropout draws do not; they are made where they
//! are first needed and handed on, and no cut waits for them. Without parameters every value is spine.
//!
//! *Separators.* After a node of the spine the chain can be cut when exactly one spine value made so far is still read
//! by later forward nodes: every path from past to future passes through it. It dominates what the past leads to, and yet a graph algorithm
//! does not find it: a later node that reads only parameters begins a path of its own. One walk along the order counts instead.
//!
//! *Glue.* A segment between two separators that reads no parameter (an activation, a residual sum, a pooling, the loss)
//! is an epilogue: it joins the segment before it, if that segment is followed by it wherever it occurs.
//!
//! *Repeats.* Where the same segments stand in a row more than once (`tandem::shortest`), a unit is a block: attention and
//! feed-forward of a transformer layer, a bottleneck of a ResNet. Between repeats, segments that read no matrix (rank 2 or
//! more) and single nodes join their neighbour.
//!
//! *No chain.* A segment that is long all the same (an unrolled LSTM, a decoder that reads its encoder everywhere) is cut
//! at repeats of its single nodes: rows first (`tandem::widest`), and where there are none, units that occur again anywhere
//! (`tandem::scattered`), as the second half of every layer of a dense block does.
//!
//! Blocks are intervals of the order of execution, so a block can run as a whole. Not here: the backward pass ([`crate::ties`]).
//!
//! Source: separators and chains after Zhao et al., "Rockmate", ICML 2023; the rest is ours.

use std::collections::HashMap;
use std::ops::Range;

use rk_plan::NodeId;

use crate::step::{Origin, Source, Step};
use crate::tandem::{self, Piece};

/// Forward nodes beyond which a segment is searched for repeats of single nodes: more than a transformer layer has (about
/// 40), so that layers which the chain has found stay whole.
pub const LONG_SEGMENT: usize = 64;

/// Least nodes of a unit of single nodes: the gates of an LSTM cell are more, a chance repeat is less.
pub const LEAST_UNIT: usize = 8;

/// Least nodes of a unit that occurs again, though not in a row: normalization, activation, convolution.
pub const LEAST_SCATTERED: usize = 3;

/// Most nodes of a unit of single nodes. Searching is linear in it.
pub const MOST_UNIT: usize = 512;

/// The forward nodes of a step, in order.
pub fn forward(step: &Step) -> Vec<NodeId> {
    step.nodes().filter(|(_, node)| !node.backward).map(|(id, _)| id).collect()
}

/// Cuts at every separator. The ranges count forward nodes and cover them all.
pub fn segments(step: &Step, forward: &[NodeId]) -> Vec<Range<usize>> {
    let spine = spine(step, forward);
    let mut last_read: Vec<Option<usize>> = vec![None; step.values.len()];
    for (at, &node) in forward.iter().enumerate() {
        step.node(node).inputs.iter().for_each(|value| last_read[value.index()] = Some(at));
    }
    let mut ends: Vec<usize> = vec![0; forward.len()];
    let mut alive = 0usize;
    let mut segments = Vec::new();
    let mut start = 0;
    for (at, &node) in forward.iter().enumerate() {
        if spine[at] {
            for value in &step.node(node).outputs {
                if let Some(end) = last_read[value.index()].filter(|&end| end > at) {
                    alive += 1;
                    ends[end] += 1;
                }
            }
        }
        alive -= ends[at];
        if spine[at] && alive == 1 {
            segments.push(start..at + 1);
            start = at + 1;
        }
    }
    if start < forward.len() {
        segments.push(start..forward.len());
    }
    segments
}

/// Per forward node, whether it is on the spine.
fn spine(step: &Step, forward: &[NodeId]) -> Vec<bool> {
    let is_parameter = |origin: Origin| matches!(origin, Origin::Resident(Source::Parameter { .. }));
    let any = forward
        .iter()
        .any(|&node| step.node(node).inputs.iter().any(|&value| is_parameter(step.value(value).origin)));
    let mut on_spine = vec![false; step.values.len()];
    let mut spine = Vec::with_capacity(forward.len());
    for &node in forward {
        let node = step.node(node);
        let on = !any
            || node
                .inputs
                .iter()
                .any(|value| on_spine[value.index()] || is_parameter(step.value(*value).origin));
        node.outputs.iter().for_each(|value| on_spine[value.index()] = on);
        spine.push(on);
    }
    spine
}

/// The highest rank of a parameter that the nodes read; `None` when they read none.
fn parameter_rank(step: &Step, nodes: &[NodeId]) -> Option<usize> {
    let inputs = nodes.iter().flat_map(|&node| &step.node(node).inputs);
    let values = inputs.map(|&value| step.value(value));
    let parameters =
        values.filter(|value| matches!(value.origin, Origin::Resident(Source::Parameter { .. })));
    parameters.map(|value| value.ty.rank()).max()
}

/// Joins segments into blocks. `letters` holds the class of each segment; equal letters mean equal segments.
pub fn join(
    step: &Step,
    forward: &[NodeId],
    segments: &[Range<usize>],
    letters: &[u32],
) -> Vec<Range<usize>> {
    let groups = glue(step, forward, segments, letters);
    let mut names: HashMap<&[u32], u32> = HashMap::new();
    let mut group_letters = Vec::new();
    for group in &groups {
        let next = names.len() as u32;
        group_letters.push(*names.entry(&letters[group.clone()]).or_insert(next));
    }
    let nodes = |groups_of: &Range<usize>| {
        segments[groups[groups_of.start].start].start..segments[groups[groups_of.end - 1].end - 1].end
    };
    let pieces = tandem::shortest(&group_letters);
    let mut blocks: Vec<Range<usize>> = Vec::new();
    let mut at = 0;
    while at < pieces.len() {
        if pieces[at].repeated {
            blocks.push(nodes(&pieces[at].range));
            at += 1;
            continue;
        }
        let gap = pieces[at..].iter().take_while(|piece| !piece.repeated).count();
        blocks.extend(join_gap(step, forward, &pieces[at..at + gap], &nodes));
        at += gap;
    }
    blocks
}

/// Groups of segments: one with its epilogues.
fn glue(step: &Step, forward: &[NodeId], segments: &[Range<usize>], letters: &[u32]) -> Vec<Range<usize>> {
    let mut single: HashMap<u32, usize> = HashMap::new();
    let mut pairs: HashMap<(u32, u32), usize> = HashMap::new();
    letters.iter().for_each(|&letter| *single.entry(letter).or_default() += 1);
    letters.windows(2).for_each(|pair| *pairs.entry((pair[0], pair[1])).or_default() += 1);
    let mut groups: Vec<Range<usize>> = Vec::new();
    for (at, segment) in segments.iter().enumerate() {
        let always = at > 0 && pairs.get(&(letters[at - 1], letters[at])) == single.get(&letters[at - 1]);
        match groups.last_mut() {
            Some(last) if always && parameter_rank(step, &forward[segment.clone()]).is_none() => {
                last.end = at + 1
            }
            _ => groups.push(at..at + 1),
        }
    }
    groups
}

/// Between repeats: what reads no matrix joins what stands before it in the gap, or after it when it comes first. So does a
/// single node with what follows: a block of one node has no inside, nothing to keep in it and nothing to drop.
fn join_gap(
    step: &Step,
    forward: &[NodeId],
    gap: &[Piece],
    nodes: &dyn Fn(&Range<usize>) -> Range<usize>,
) -> Vec<Range<usize>> {
    let heavy =
        |range: &Range<usize>| parameter_rank(step, &forward[range.clone()]).is_some_and(|rank| rank >= 2);
    let mut blocks: Vec<Range<usize>> = Vec::new();
    for range in gap.iter().map(|piece| nodes(&piece.range)) {
        match blocks.last_mut() {
            Some(last) if !heavy(&range) || !heavy(last) || last.len() == 1 => last.end = range.end,
            _ => blocks.push(range),
        }
    }
    blocks
}

/// Cuts a long segment at the rows of equal units that its nodes form; `letters` are classes of all forward nodes.
pub fn cut_long(block: Range<usize>, letters: &[u32]) -> Vec<Range<usize>> {
    if block.len() <= LONG_SEGMENT {
        return vec![block];
    }
    let inside = &letters[block.clone()];
    let mut units = tandem::widest(inside, LEAST_UNIT, MOST_UNIT);
    if units.is_empty() {
        units = tandem::scattered(inside, LEAST_SCATTERED, MOST_UNIT);
    }
    let mut blocks = Vec::new();
    let mut at = block.start;
    for unit in units {
        let unit = block.start + unit.start..block.start + unit.end;
        if at < unit.start {
            blocks.push(at..unit.start);
        }
        at = unit.end;
        blocks.push(unit);
    }
    if at < block.end {
        blocks.push(at..block.end);
    }
    blocks
}
