//! What blocks are called: the module that a block is, as the user wrote it.
//!
//! A block that holds all forward nodes below a module path, and nothing else, has that path as its name. Any other is named
//! after the first and the last path in it: `conv1..maxpool`, `model.wte..drop`.

use std::collections::BTreeSet;
use std::ops::Range;

use rk_plan::NodeId;

use crate::step::Step;

/// One name per block, all different.
pub fn of_blocks(step: &Step, forward: &[NodeId], blocks: &[Range<usize>]) -> Vec<String> {
    let paths: Vec<&str> = forward.iter().map(|&node| step.node(node).path.as_str()).collect();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    let mut names = Vec::new();
    for (at, range) in blocks.iter().enumerate() {
        let wanted = wanted(&paths, range).unwrap_or_else(|| format!("block{at}"));
        let mut name = wanted.clone();
        let mut number = 1;
        while !taken.insert(name.clone()) {
            name = format!("{wanted}_{number}");
            number += 1;
        }
        names.push(name);
    }
    names
}

fn wanted(paths: &[&str], range: &Range<usize>) -> Option<String> {
    let mut inside: Vec<&str> =
        paths[range.clone()].iter().copied().filter(|path| !path.is_empty()).collect();
    let common = inside.iter().fold(*inside.first()?, |common, path| common_module(common, path));
    let mut outside = paths[..range.start].iter().chain(&paths[range.end..]);
    let outside = outside.any(|path| *path == common || is_below(path, common));
    if !common.is_empty() && !outside {
        return Some(common.to_owned());
    }
    // A path that others are below says less than they do.
    let distinct: BTreeSet<&str> = inside.iter().copied().collect();
    inside.retain(|path| !distinct.iter().any(|other| is_below(other, path)));
    let (first, last) = (*inside.first()?, *inside.last()?);
    if first == last {
        return Some(first.to_owned());
    }
    let shared = common_module(first, last);
    let rest = last.strip_prefix(shared).map_or(last, |rest| rest.trim_start_matches('.'));
    Some(if rest.is_empty() { format!("{first}..{last}") } else { format!("{first}..{rest}") })
}

/// Whether a path is inside of a module, and not the module itself.
fn is_below(path: &str, module: &str) -> bool {
    path.strip_prefix(module).is_some_and(|rest| rest.starts_with('.'))
}

/// The module that both paths are below.
fn common_module<'a>(a: &'a str, b: &str) -> &'a str {
    let mut length = 0;
    for (part, other) in a.split('.').zip(b.split('.')) {
        if part != other {
            break;
        }
        length += part.len() + 1;
    }
    a.get(..length.saturating_sub(1)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_its_module_or_spans_some() {
        let paths = ["conv1", "bn1", "layer1.0.conv1", "layer1.0", "layer1.1.conv1", "layer1.1", "fc", ""];
        let name = |range| wanted(&paths, &range);
        assert_eq!(name(0..2).as_deref(), Some("conv1..bn1"));
        assert_eq!(name(2..4).as_deref(), Some("layer1.0"));
        assert_eq!(name(2..6).as_deref(), Some("layer1"));
        assert_eq!(name(3..6).as_deref(), Some("layer1.0..1.conv1"));
        assert_eq!(name(6..8).as_deref(), Some("fc"));
        assert_eq!(name(7..8), None);
        let paths = ["m.wte", "m", "m.wpe", "m", "m.drop", "m.h.0"];
        assert_eq!(wanted(&paths, &(1..5)).as_deref(), Some("m.wpe..drop"));
    }
}
