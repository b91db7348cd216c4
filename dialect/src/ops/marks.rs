//! What passes note on nodes: that one runs as a generated kernel, which block it belongs to, and which nodes cost the same.

use super::{NodeOp, flag};
use crate::raw::Attr;

/// Marks a node that runs as one generated kernel.
pub(crate) const KERNEL: &str = "rk.kernel";
/// The block that a node belongs to.
const BLOCK: &str = "rk.block";
/// Nodes of one class cost the same.
const NODE_CLASS: &str = "rk.node_class";

impl NodeOp<'_> {
    /// Whether it runs as one generated kernel.
    pub fn has_kernel(self) -> bool {
        flag(self.0, KERNEL)
    }

    /// Has it run as one generated kernel.
    pub fn set_kernel(self) {
        self.0.set_flag(KERNEL, true);
    }

    /// Its block, an index into [`blocks`](crate::blocks) of the step.
    pub fn block(self) -> Option<usize> {
        self.0.get(BLOCK).and_then(Attr::as_i64).and_then(|index| usize::try_from(index).ok())
    }

    /// The class of nodes that cost the same.
    pub fn node_class(self) -> Option<i64> {
        self.0.get(NODE_CLASS).and_then(Attr::as_i64)
    }

    /// Says which block and which class it belongs to.
    pub fn set_block(self, block: usize, node_class: usize) {
        for (name, number) in [(BLOCK, block), (NODE_CLASS, node_class)] {
            self.0.set(name, Attr::i64(self.0.context(), i64::try_from(number).unwrap_or(i64::MAX)));
        }
    }
}
