//! The classes as text, for remarks and snapshots.

use std::fmt::Write as _;

use crate::blocks::Blocks;

/// One line per class, with its members, and one for blocks that cost the same without being equal:
///
/// ```text
/// 10 blocks in 3 classes (3 by text), forward 3 (3 by text), 3 of equal cost; 339 nodes in 98 cost classes
/// class 0: model.wte..drop
/// class 1 x8: model.h.0, model.h.1, ...
/// equal cost x2: features.1.1, features.1.2
/// ```
pub fn text(found: &Blocks) -> String {
    let count = |class: fn(&crate::Block) -> crate::ClassId| found.members(class).len();
    let mut text = format!(
        "{} blocks in {} classes ({} by text), forward {} ({} by text), {} of equal cost; {} nodes in {} cost classes\n",
        found.blocks.len(),
        count(|block| block.class),
        count(|block| block.spelling),
        count(|block| block.forward_class),
        count(|block| block.forward_spelling),
        count(|block| block.cost_class),
        found.node_classes.len(),
        found.node_class_count(),
    );
    let names = |members: &[usize]| {
        let names: Vec<&str> = members.iter().map(|&block| found.blocks[block].name.as_str()).collect();
        let times = if names.len() > 1 { format!(" x{}", names.len()) } else { String::new() };
        format!("{times}: {}", names.join(", "))
    };
    for (class, members) in found.members(|block| block.class).into_iter().enumerate() {
        let _ = writeln!(text, "class {class}{}", names(&members));
    }
    for members in found.members(|block| block.cost_class) {
        if members.iter().any(|&block| found.blocks[block].class != found.blocks[members[0]].class) {
            let _ = writeln!(text, "equal cost{}", names(&members));
        }
    }
    if !(found.bits.saturated && found.cost.saturated) {
        text.push_str("a limit stopped the rules: some equal blocks may stand in different classes\n");
    }
    text
}
