//! Branching on the order of two nodes, where a chain of cuts has nothing to add.
//!
//! A chain ([`crate::bound::multi_cut`]) speaks of nodes that run in one order in every schedule. Some budgets are exceeded whichever of
//! two nodes `u`, `v` first runs first, but at another node in either case, and no chain holds both: the two branches of the
//! derivative of an activation function, for instance. Every schedule is in one of two classes, `u` before `v` or `v` before
//! `u`, and within a class the assumed order is one more precedence: cuts know more nodes to be before or after, and both
//! nodes may join the chain. So
//!
//! ```text
//! bound = min( bound of the schedules with u before v, bound of those with v before u )
//! ```
//!
//! and each class may be divided further. Best first: always the class of the least bound, as no other can raise the minimum.
//!
//! Source: the disjunctive constraints of scheduling; Balas, "Machine sequencing via disjunctive graphs", 1969.

use rk_plan::{Bytes, Graph, NodeId, Sequence, Time};

use crate::bound::multi_cut::Chain;
use crate::milp::Options;
use crate::portfolio::clock::now;

/// Classes of schedules that cover all, each with its chain of cuts.
pub(crate) struct Branches<'a> {
    classes: Vec<Chain<'a>>,
    /// A class that stands in the way, with nothing left to add or divide below a plan of this time.
    stuck: Option<Option<Time>>,
}

impl<'a> Branches<'a> {
    /// All schedules, with a chain that begins at a node.
    pub(crate) fn new(graph: &'a Graph, budget: Bytes, first: NodeId) -> Self {
        Self { classes: vec![Chain::new(graph, budget, first)], stuck: None }
    }

    /// What all chains prove together, and of how many cuts the one of the least bound is.
    pub(crate) fn bound(&self) -> (Time, usize) {
        let least = &self.classes[self.least()];
        (least.best.time, least.best.cuts.len())
    }

    /// Sequences that play solutions out, as far as they were not asked for before.
    pub(crate) fn sequences(&mut self) -> impl Iterator<Item = Sequence> {
        self.classes.iter_mut().filter_map(|class| class.best.start.take())
    }

    /// Goes on until the time `known` of a plan, or without one that there is none, is proven, nothing is left to add or to divide, or the
    /// time is over.
    pub(crate) fn run(&mut self, known: Option<Time>, options: Options) {
        let start = now();
        let goal = known.unwrap_or(Time(u64::MAX));
        while self.stuck != Some(known) {
            let left = options.limit.saturating_sub(now().saturating_duration_since(start));
            let least = self.least();
            let class = &mut self.classes[least];
            if left.is_zero() || class.best.time >= goal {
                return;
            }
            class.run(known, Options { limit: left, ..options });
            if class.best.time >= goal {
                continue;
            }
            if !class.is_complete(known) {
                return;
            }
            let Some((one, other)) = class.open else {
                self.stuck = Some(known);
                return;
            };
            let swapped = class.assuming(other, one);
            self.classes[least] = class.assuming(one, other);
            self.classes.push(swapped);
            tracing::debug!(classes = self.classes.len(), ?one, ?other, "divided by the order of two nodes");
        }
    }

    /// The class of the least bound, the first of several.
    fn least(&self) -> usize {
        (0..self.classes.len()).min_by_key(|&class| self.classes[class].best.time).unwrap_or(0)
    }
}
