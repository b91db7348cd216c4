//! Searches over states that begin where a node first runs: what must run again *after* that.
//!
//! A schedule reaches the first run of `c` with some set of nodes behind it, among them all that come before `c` and none that come after
//! it ([`crate::cut`]), and with some of what they made in memory. The search starts from all such states that fit, at no cost. What it finds
//! is a bound on the second runs after the first run of `c`, in every schedule, and it does not see what happens before: where the
//! difficulty lies late in the step, most states go.
//!
//! - **L1** a state in which `c` did not run yet costs at least what it has paid and the bound of `c`, as that counts only what comes later
//!
//! So the nodes are looked at from the last one to the first, each search with the bounds of those before it, and again with more and more
//! time. Any of the bounds is one for the graph.
//!
//! Source: pattern databases after Culberson and Schaeffer, 1998, with first runs in the place of patterns.

use std::cmp::Reverse;

use rk_plan::{Bytes, Graph, NodeId};

use super::{Ahead, Bits, Found, State, States, bit, members};
use crate::clock::Clock;
use crate::cut::Cutter;
use crate::model::Model;

/// Sets of nodes that may have run when the node runs at which a search begins, at most.
const BEGINNINGS: usize = 1000;
/// Looks of a search in the first round, and what the next round has more.
const LOOKS: u64 = 5_000;
const MORE: u64 = 4;

/// For each node, the least time of second runs after its first run, as far as is known.
pub(crate) struct Later {
    least: Vec<u64>,
    /// More is not to be found.
    ended: Vec<bool>,
    looks: u64,
    ahead: Vec<Ahead>,
}

impl Later {
    /// Nothing is known yet. Nothing if the graph is too large.
    pub(crate) fn new(graph: &Graph, model: &Model, budget: Bytes) -> Option<Self> {
        let states = States::new(graph, model, budget)?;
        let (least, ended) = (vec![0; model.len()], vec![false; model.len()]);
        Some(Self { least, ended, looks: LOOKS, ahead: states.ahead })
    }

    /// Looks at every node once more, longer than before. No plan below the limit has less overhead than what is given.
    pub(crate) fn round(
        &mut self,
        graph: &Graph,
        model: &Model,
        budget: Bytes,
        limit: u64,
        clock: &Clock,
    ) -> u64 {
        for node in graph.node_ids().rev() {
            if self.ended[node.index()] {
                continue;
            }
            if clock.expired() || self.bound() >= limit {
                break;
            }
            let ahead = std::mem::take(&mut self.ahead);
            let Some(states) = States::with_cuts(model, budget, || ahead) else { break };
            let mut states = states.from_first_run(graph, node);
            states.know(self);
            let found = states.run(limit, self.looks, clock);
            let at = node.index();
            self.least[at] = states.bound().max(self.least[at]);
            self.ended[at] = found == Found::Proved;
            self.ahead = states.ahead;
        }
        self.looks = self.looks.saturating_mul(MORE);
        self.bound()
    }

    /// The best bound.
    fn bound(&self) -> u64 {
        self.least.iter().copied().max().unwrap_or(0)
    }
}

impl States {
    /// Makes use of what must run again after first runs (L1).
    pub(crate) fn know(&mut self, later: &Later) {
        self.later = later.least.iter().copied().zip(0..).filter(|&(time, _)| time > 0).collect();
        self.later.sort_unstable_by_key(|&(time, node)| (Reverse(time), node));
    }

    /// Begins where a node first runs. If there are too many sets of nodes that may have run by then, it has nothing to begin with, and says
    /// that nothing is proven.
    fn from_first_run(mut self, graph: &Graph, node: NodeId) -> Self {
        let mut cutter = Cutter::new(graph);
        cutter.look_at(node);
        let certain = graph.node_ids().filter(|&other| other != node && cutter.is_before(other));
        let mut begun: Vec<Bits> = vec![certain.fold(0, |set, other| set | bit(other.0))];
        let open = graph.node_ids().filter(|&other| !cutter.is_before(other) && !cutter.is_after(other));
        for other in open {
            for at in 0..begun.len() {
                if cutter.precede(other).all(|earlier| begun[at] & bit(earlier.0) != 0) {
                    begun.push(begun[at] | bit(other.0));
                }
            }
            if begun.len() > BEGINNINGS {
                begun.clear();
                self.stuck = Some(0);
                break;
            }
        }
        self.first = Some(node.0);
        self.states.clear();
        self.queue.clear();
        for done in begun {
            let made = |node: u32| self.writes[node as usize] | self.generator[node as usize];
            let live = members(done).fold(0, |set, node| set | made(node));
            self.queue.push((Reverse(0), 0, Reverse(self.states.len() as u32)));
            let state =
                State { done, live, paid: 0, sure: 0, f: 0, before: 0, ran: 0, next: None, beaten: false };
            self.states.push(state);
        }
        self
    }
}
