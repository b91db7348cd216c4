//! Two forms of a plan: the order of the runs, and the same with every drop written out.
//!
//! Solvers propose a [`Sequence`]; its drops follow from it, each at the last use. The rewriter and the reading back of
//! IR use a [`Schedule`], where runs and drops are explicit. Whether either is legal is decided in [`mod@crate::judge`] alone.

use crate::graph::Graph;
use crate::units::{NodeId, ValueId};

/// Nodes in execution order; a node that runs again occurs again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(pub Vec<NodeId>);

impl Sequence {
    /// Every node once, in the given order: the step without rematerialization.
    pub fn base(graph: &Graph) -> Self {
        Self(graph.node_ids().collect())
    }

    /// How many runs are not the first of their node.
    pub fn recomputations(&self, graph: &Graph) -> usize {
        self.0.len().saturating_sub(graph.len())
    }
}

impl FromIterator<NodeId> for Sequence {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        Self(nodes.into_iter().collect())
    }
}

/// One line of a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Execute a node, which makes new instances of all its outputs.
    Run {
        /// The node.
        node: NodeId,
        /// Not the first run: the generator state of the first run is restored for it (S4).
        again: bool,
        /// The first output takes over the buffer of [`Node::overwrites`](crate::Node::overwrites), whose value ends here.
        overwrite: bool,
    },
    /// Give the storage of a value back.
    Drop(ValueId),
}

/// Runs and drops in execution order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Schedule(pub Vec<Step>);

impl Schedule {
    /// The runs alone.
    pub fn sequence(&self) -> Sequence {
        let runs = self.0.iter().filter_map(|step| match step {
            Step::Run { node, .. } => Some(*node),
            Step::Drop(_) => None,
        });
        runs.collect()
    }
}
