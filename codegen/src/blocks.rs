//! The blocks of a step and their classes, as `--rk-anonymize` writes them.

use rk_dialect::Attr;
use rk_dialect::ops::StepOp;

/// One entry of `rk.blocks`.
#[derive(Clone, Copy, Debug)]
pub struct Block<'c> {
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
pub fn of<'c>(step: StepOp<'c>) -> Option<Vec<Block<'c>>> {
    let entries = step.op().get("rk.blocks")?.as_array()?;
    let block = |entry: Attr<'c>| {
        let int = |name| entry.entry(name)?.as_i64();
        Some(Block {
            name: entry.entry("name")?.as_str()?,
            class: int("class")?,
            forward_class: int("forward_class")?,
            spelling: int("spelling")?,
            cost_class: int("cost_class")?,
        })
    };
    entries.into_iter().map(block).collect()
}
