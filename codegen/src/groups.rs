//! Which nodes of a step are drawn together: those of one block, or of one module, forward and backward apart.
//!
//! A step that is scheduled has no blocks any more. There, the module decides: its path up to the first number in it (`h.3`,
//! `layer1.0`), from which on modules repeat. Groups with the same operators are drawn as one class.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use rk_dialect::blocks;
use rk_dialect::ops::{AtenOp, NodeOp, StepOp};

/// Boxes that Graphviz lays out in a second or two.
const MOST_BOXES: usize = 150;

/// Nodes that are drawn together.
pub(crate) struct Group<'c> {
    /// The module or block.
    pub(crate) name: String,
    pub(crate) backward: bool,
    /// In the order of the step.
    pub(crate) nodes: Vec<NodeOp<'c>>,
    /// The first group of its class.
    pub(crate) like: usize,
    /// Drawn as one box.
    pub(crate) folded: bool,
}

/// The groups of a step, in the order in which it comes to them.
///
/// `chosen` groups are drawn in full, and the others folded. Without any, all are in full if they are few; else the first of
/// each class, as long as there is room.
///
/// # Errors
/// A chosen name that no group has, with those that there are.
pub(crate) fn groups<'c>(
    step: StepOp<'c>,
    nodes: &[NodeOp<'c>],
    chosen: &[String],
) -> Result<Vec<Group<'c>>, String> {
    let blocks = blocks::of(step).unwrap_or_default();
    let name_of = |node: NodeOp<'c>, depth: usize| {
        let block = node.block().and_then(|block| blocks.get(block));
        match (block, node.calls().last()) {
            (Some(block), _) => block.name.to_owned(),
            (None, Some(call)) => module(call.module_path(), depth).to_owned(),
            (None, None) => String::new(),
        }
    };
    // A network without numbers may have as many modules as nodes: then only the outer ones are told apart.
    let mut all = Vec::new();
    for depth in [usize::MAX, 2, 1, 0] {
        all = gathered(nodes, |node| name_of(node, depth));
        if all.len() <= MOST_BOXES {
            break;
        }
    }
    let names: BTreeSet<&str> = all.iter().map(|group| group.name.as_str()).collect();
    if let Some(absent) = chosen.iter().find(|name| !names.contains(name.as_str())) {
        let there = names.into_iter().filter(|name| !name.is_empty()).collect::<Vec<_>>().join(", ");
        return Err(format!("no block or module '{absent}' is drawn; there are {there}"));
    }
    fold(&mut all, chosen, nodes.len());
    Ok(all)
}

/// A path up to its first number, at most so many words.
fn module(path: &str, depth: usize) -> &str {
    let mut end = 0;
    for (place, word) in path.split('.').take(depth).enumerate() {
        end += word.len() + usize::from(place > 0);
        if word.bytes().all(|byte| byte.is_ascii_digit()) {
            break;
        }
    }
    &path[..end]
}

fn gathered<'c>(nodes: &[NodeOp<'c>], name_of: impl Fn(NodeOp<'c>) -> String) -> Vec<Group<'c>> {
    let mut places: HashMap<(String, bool), usize> = HashMap::new();
    let mut all: Vec<Group<'c>> = Vec::new();
    for &node in nodes {
        let (name, backward) = (name_of(node), node.is_backward());
        let place = *places.entry((name.clone(), backward)).or_insert(all.len());
        if place == all.len() {
            all.push(Group { name, backward, nodes: Vec::new(), like: place, folded: false });
        }
        all[place].nodes.push(node);
    }
    let mut first: BTreeMap<Vec<&str>, usize> = BTreeMap::new();
    for (place, group) in all.iter_mut().enumerate() {
        // A schedule may have moved them.
        let mut calls: Vec<&str> =
            group.nodes.iter().flat_map(|node| node.calls()).map(AtenOp::operator).collect();
        calls.sort_unstable();
        group.like = *first.entry(calls).or_insert(place);
    }
    all
}

/// Decides which groups are one box.
fn fold(all: &mut [Group<'_>], chosen: &[String], nodes: usize) {
    if chosen.is_empty() && nodes <= MOST_BOXES {
        return;
    }
    let mut room = MOST_BOXES.saturating_sub(all.len());
    for (place, group) in all.iter_mut().enumerate() {
        group.folded = if chosen.is_empty() {
            group.like != place || group.nodes.len() > room
        } else {
            !chosen.contains(&group.name)
        };
        // What is no module, and a single node, is no more as a box of its own.
        group.folded &= group.nodes.len() > 1;
        if chosen.is_empty() && !group.folded {
            room = room.saturating_sub(group.nodes.len());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_told_apart_from_their_first_number_on() {
        assert_eq!(module("transformer.h.11.attn.c_attn", usize::MAX), "transformer.h.11");
        assert_eq!(module("layer1.0.bn1", usize::MAX), "layer1.0");
        assert_eq!(module("encoder.norm", usize::MAX), "encoder.norm");
        assert_eq!(module("encoder.norm", 1), "encoder");
        assert_eq!(module("0.1.2", usize::MAX), "0");
        assert_eq!(module("conv", 0), "");
    }
}
