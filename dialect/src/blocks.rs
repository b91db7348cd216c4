//! The blocks of a step and their classes, as `--rk-anonymize` writes them: `rk.blocks` of the function. Which of them a node belongs to
//! is `rk.block` of the node ([`NodeOp::block`](crate::ops::NodeOp::block)).

use crate::raw::Attr;
use crate::step::StepOp;

const BLOCKS: &str = "rk.blocks";

/// One entry of `rk.blocks`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassedBlock<'c> {
    /// The module that it is, or the modules that it spans.
    pub name: &'c str,
    /// Forward and backward compute the same bits.
    pub class: i64,
    /// Forward alone computes the same bits.
    pub forward_class: i64,
    /// The same text after renaming.
    pub spelling: i64,
    /// The same cost, not the same bits.
    pub cost_class: i64,
}

/// The blocks in order; `None` when the step has none, or entries that are no blocks.
pub fn of<'c>(step: StepOp<'c>) -> Option<Vec<ClassedBlock<'c>>> {
    let entries = step.op().get(BLOCKS)?.as_array()?;
    let block = |entry: Attr<'c>| {
        let int = |name| entry.entry(name)?.as_i64();
        Some(ClassedBlock {
            name: entry.entry("name")?.as_str()?,
            class: int("class")?,
            forward_class: int("forward_class")?,
            spelling: int("spelling")?,
            cost_class: int("cost_class")?,
        })
    };
    entries.into_iter().map(block).collect()
}

/// Writes the blocks of a step.
pub fn write(step: StepOp<'_>, blocks: &[ClassedBlock<'_>]) {
    let ctx = step.op().context();
    let entry = |block: &ClassedBlock<'_>| {
        let entries = [
            ("name", Attr::string(ctx, block.name)),
            ("class", Attr::i64(ctx, block.class)),
            ("forward_class", Attr::i64(ctx, block.forward_class)),
            ("spelling", Attr::i64(ctx, block.spelling)),
            ("cost_class", Attr::i64(ctx, block.cost_class)),
        ];
        Attr::dict(ctx, &entries)
    };
    let entries: Vec<Attr<'_>> = blocks.iter().map(entry).collect();
    step.op().set(BLOCKS, Attr::array(ctx, &entries));
}
