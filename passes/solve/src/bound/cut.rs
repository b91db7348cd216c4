//! The cut problem at one node: what must run again because it cannot be in memory while `c` runs first.
//!
//! Let `c` be any node, and look at the step where it runs for the first time. Write *before* for `c` and the nodes that
//! have certainly run by then (the producers of what `c` reads, transitively; for a `once` node also the `once` node in
//! front of it, S5), *after* for the nodes that certainly have not (those that have `c` before them). `S` is what is in
//! memory for certain: the operands of `c`, except one whose buffer may be taken over, and its outputs. `need` = values
//! made by *before* nodes that are read by an *after* node or pinned; `E` = the values of `need` outside `S`, and whatever
//! is read, outside `S`, to make one of `E` again.
//!
//! ```text
//! Variables   h[u] in {0,1}   value u of E is alive at that step
//!             y[p] in {0,1}   node p, a producer of E, runs at least once later
//! Objective   minimise  sum_p time[p] y[p]
//! D1 served   h[u] + y[producer u] >= 1              u in E, u in need
//! D2 inputs   y[p] <= h[u] + y[producer u]           p a producer of E, u in E read by p
//! D3 budget   sum_u bytes[u] h[u] + sum_p state[p] y[p]  <=  M - workspace[c] - sum_{u in S} bytes[u]
//! D4 present  u in S is there: it has no variable, and its bytes are subtracted in D3
//! D5 effects  y[p] = 0                               p a `once` node
//! ```
//!
//! **Why it bounds every schedule**, whatever its order and however often it recomputes. Each needed value is read later
//! (or returned), from an instance alive now or from one made later: D1. A later run of `p` reads each operand from an
//! instance alive now or made later: D2. What is alive now fits, together with `S`, the workspace of `c`, and the
//! generator states of nodes that ran before and run again: D3. A `once` node never runs again: D5. Every node in the
//! objective has already run once, so each later run is overhead. An operand whose buffer `c` may take over ends before
//! `c` if that happens, so it need not coexist with the output; leaving it out of `S` only weakens the bound.
//!
//! The cut at the loss is the case `c` = loss, and the bound of a graph is the maximum over `c`. If D1 to D5 have no
//! solution, no schedule fits.
//!
//! Source: docs/design/planner.md, section 3.2; the precedence-constrained knapsack is classical. Not here: how it is solved
//! ([`crate::bound::lagrangian`], [`crate::bound::branch_and_bound`]) and which nodes are worth looking at ([`crate::bound::cut_selection`]).

use rk_plan::{Bytes, Graph, NodeId, ValueId, may_overwrite};

use crate::milp::{Milp, Var};

/// A producer of a value that is not certainly in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutNode {
    /// The node.
    pub id: NodeId,
    /// Ticks of one run.
    pub time: u64,
    /// Bytes of generator state that a later run keeps alive now.
    pub state: u64,
    /// A `once` node: never runs again.
    pub barred: bool,
}

/// A value that is held or made again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutValue {
    /// The value.
    pub id: ValueId,
    /// Its size, not zero.
    pub bytes: u64,
    /// Position of its producer in [`Cut::nodes`].
    pub producer: usize,
    /// Read after the cut, or pinned.
    pub needed: bool,
    /// Positions in [`Cut::nodes`] of the producers that read it.
    pub readers: Vec<usize>,
}

/// The cut problem of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Where.
    pub at: NodeId,
    /// Candidates for running again, in the given order.
    pub nodes: Vec<CutNode>,
    /// Candidates for being held, in order of their ids.
    pub values: Vec<CutValue>,
    /// The right-hand side of D3. Negative: even `c` alone does not fit.
    pub room: i128,
}

/// What comes before and after what in every schedule, for one graph.
///
/// Keeps its tables between calls: a scan asks for thousands of cuts.
#[derive(Clone, Debug)]
pub struct Cutter<'a> {
    graph: &'a Graph,
    /// For a `once` node, the one in front of it.
    effect_before: Vec<Option<NodeId>>,
    /// Pairs of which the former is assumed to run first.
    assumed: Vec<(NodeId, NodeId)>,
    /// All nodes, what precedes a node before it.
    order: Vec<NodeId>,
    before: Vec<bool>,
    after: Vec<bool>,
    node_at: Vec<usize>,
    value_at: Vec<usize>,
}

/// No position yet.
const NONE: usize = usize::MAX;
/// Has no variable: in memory for certain, or free to hold.
const PRESENT: usize = usize::MAX - 1;

impl<'a> Cutter<'a> {
    /// Prepares a graph.
    pub fn new(graph: &'a Graph) -> Self {
        let mut last = None;
        let mut effect_before = vec![None; graph.len()];
        for (id, node) in graph.node_ids().zip(graph.nodes()) {
            if node.once {
                effect_before[id.index()] = last.replace(id);
            }
        }
        Self {
            graph,
            effect_before,
            assumed: Vec::new(),
            order: graph.node_ids().collect(),
            before: vec![false; graph.len()],
            after: vec![false; graph.len()],
            node_at: vec![NONE; graph.len()],
            value_at: vec![NONE; graph.values().len()],
        }
    }

    /// The nodes that must have run when this one does.
    pub(crate) fn precede(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let reads = self.graph.node(node).reads.iter().map(|&value| self.graph.value(value).producer);
        let assumed = self.assumed.iter().filter(move |(_, later)| *later == node);
        reads.chain(self.effect_before[node.index()]).chain(assumed.map(|(earlier, _)| *earlier))
    }

    /// Speaks from now on of those schedules only in which `earlier` first runs before `later` does.
    ///
    /// Neither may be *before* the other.
    pub(crate) fn assume(&mut self, earlier: NodeId, later: NodeId) {
        self.split(later);
        debug_assert!(!self.is_before(earlier) && !self.is_after(earlier), "they are ordered already");
        let (from, to) = (self.position(later), self.position(earlier));
        if from < to {
            let after = &self.after;
            self.order[from..=to].sort_by_key(|node| *node == later || after[node.index()]);
        }
        self.assumed.push((earlier, later));
    }

    /// All nodes, each behind what is *before* it; as given where nothing is assumed.
    pub(crate) fn order(&self) -> &[NodeId] {
        &self.order
    }

    fn position(&self, node: NodeId) -> usize {
        self.order.iter().position(|&other| other == node).expect("every node has a place")
    }

    /// Marks what runs before and after the first run of `at` in every schedule.
    fn split(&mut self, at: NodeId) {
        self.before.fill(false);
        self.after.fill(false);
        self.before[at.index()] = true;
        let (position, order) = (self.position(at), std::mem::take(&mut self.order));
        for &id in order[..=position].iter().rev() {
            if self.before[id.index()] {
                let earlier: Vec<NodeId> = self.precede(id).collect();
                earlier.into_iter().for_each(|node| self.before[node.index()] = true);
            }
        }
        for &id in &order[position + 1..] {
            let after = self.precede(id).any(|node| node == at || self.after[node.index()]);
            self.after[id.index()] = after;
        }
        self.order = order;
    }

    /// Asks for *before* and *after* of a node, without its cut problem.
    pub fn look_at(&mut self, at: NodeId) {
        self.split(at);
    }

    /// Whether a node is *before* the cut last asked for.
    pub fn is_before(&self, node: NodeId) -> bool {
        self.before[node.index()]
    }

    /// Whether a node is *after* the cut last asked for.
    pub fn is_after(&self, node: NodeId) -> bool {
        self.after[node.index()]
    }

    /// The cut problem at a node.
    pub fn cut(&mut self, at: NodeId, budget: Bytes) -> Cut {
        let graph = self.graph;
        self.split(at);
        self.node_at.fill(NONE);
        self.value_at.fill(NONE);
        let room = self.d4_present(at, budget);
        // D1 asks for these; D2 adds what they are made from.
        let mut values: Vec<CutValue> = Vec::new();
        let mut queue = Vec::new();
        for (index, value) in graph.values().iter().enumerate() {
            let id = ValueId::from_index(index);
            let read_after = graph.readers(id).iter().any(|reader| self.after[reader.index()]);
            if self.before[value.producer.index()] && (value.pinned || read_after) {
                self.enter(id, true, &mut values, &mut queue);
            }
        }
        let mut nodes: Vec<NodeId> = Vec::new();
        while let Some(node) = queue.pop() {
            nodes.push(node);
            for &read in graph.node(node).reads.iter().filter(|_| graph.node(node).is_repeatable()) {
                self.enter(read, false, &mut values, &mut queue);
            }
        }
        nodes.sort_unstable();
        values.sort_unstable_by_key(|value| value.id);
        for (position, node) in nodes.iter().enumerate() {
            self.node_at[node.index()] = position;
        }
        for (position, value) in values.iter_mut().enumerate() {
            self.value_at[value.id.index()] = position;
            value.producer = self.node_at[graph.value(value.id).producer.index()];
        }
        for (position, &node) in
            nodes.iter().enumerate().filter(|(_, node)| graph.node(**node).is_repeatable())
        {
            for read in &graph.node(node).reads {
                if let Some(value) = values.get_mut(self.value_at[read.index()]) {
                    value.readers.push(position);
                }
            }
        }
        let nodes = nodes.into_iter().map(|id| {
            let node = graph.node(id);
            CutNode { id, time: node.time.0, state: node.state.0, barred: !node.is_repeatable() }
        });
        Cut { at, nodes: nodes.collect(), values, room }
    }

    /// D4: marks the values of `S` and gives what remains of the budget.
    fn d4_present(&mut self, at: NodeId, budget: Bytes) -> i128 {
        let node = self.graph.node(at);
        let over = may_overwrite(self.graph, at);
        let mut room = i128::from(budget.0) - i128::from(node.workspace.0);
        for &value in node.reads.iter().filter(|&&value| Some(value) != over).chain(&node.writes) {
            self.value_at[value.index()] = PRESENT;
            room -= i128::from(self.graph.value(value).bytes.0);
        }
        room
    }

    fn enter(&mut self, id: ValueId, needed: bool, values: &mut Vec<CutValue>, queue: &mut Vec<NodeId>) {
        let about = self.graph.value(id);
        if self.value_at[id.index()] != NONE || about.bytes.0 == 0 {
            return;
        }
        self.value_at[id.index()] = values.len();
        values.push(CutValue { id, bytes: about.bytes.0, producer: 0, needed, readers: Vec::new() });
        if std::mem::replace(&mut self.node_at[about.producer.index()], 0) == NONE {
            queue.push(about.producer);
        }
    }
}

/// One solution of a cut problem: what runs again; the rest follows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Per node of the cut: `y`.
    pub again: Vec<bool>,
    /// Per value of the cut: `h`, as small as D1 and D2 allow.
    pub held: Vec<bool>,
    /// The objective, in ticks.
    pub time: u64,
    /// The left-hand side of D3.
    pub bytes: i128,
}

impl Cut {
    /// Everything that may have to be held fits: the bound is zero, whatever the rest says.
    pub fn is_trivial(&self) -> bool {
        self.values.iter().map(|value| i128::from(value.bytes)).sum::<i128>() <= self.room
    }

    /// The exact check of a set of runs: completes it with the least `h` (D1, D2) and adds up; D3 is
    /// [`Choice::bytes`] against [`Cut::room`]. `None` if it breaks D5.
    pub fn choose(&self, again: Vec<bool>) -> Option<Choice> {
        if self.nodes.iter().zip(&again).any(|(node, &again)| node.barred && again) {
            return None;
        }
        let held: Vec<bool> = self
            .values
            .iter()
            .map(|value| !again[value.producer] && (value.needed || value.readers.iter().any(|&p| again[p])))
            .collect();
        let mut bytes: i128 = 0;
        for (value, _) in self.values.iter().zip(&held).filter(|(_, held)| **held) {
            bytes += i128::from(value.bytes);
        }
        let mut time = 0u64;
        for (node, _) in self.nodes.iter().zip(&again).filter(|(_, again)| **again) {
            time = time.saturating_add(node.time);
            bytes += i128::from(node.state);
        }
        Some(Choice { again, held, time, bytes })
    }
}

/// The cut problem as a MILP, for solvers that know nothing of networks.
pub struct CutMilp {
    /// The program.
    pub milp: Milp,
    /// Per value of the cut.
    pub h: Vec<Var>,
    /// Per node of the cut.
    pub y: Vec<Var>,
}

impl Cut {
    /// D1 to D5 as rows. `None` if sizes leave 63 bits.
    pub fn to_milp(&self) -> Option<CutMilp> {
        let mut milp = Milp::default();
        let y: Vec<Var> = self.nodes.iter().map(|node| milp.binary(node.time)).collect();
        let h: Vec<Var> = self.values.iter().map(|_| milp.binary(0)).collect();
        let mut problem = CutMilp { milp, h, y };
        problem.d1_served(self);
        problem.d2_inputs(self);
        problem.d3_budget(self)?;
        problem.d5_effects(self);
        Some(problem)
    }
}

impl CutMilp {
    fn d1_served(&mut self, cut: &Cut) {
        for (value, &h) in cut.values.iter().zip(&self.h).filter(|(value, _)| value.needed) {
            self.milp.at_least(vec![(h, 1), (self.y[value.producer], 1)], 1);
        }
    }

    fn d2_inputs(&mut self, cut: &Cut) {
        for (value, &h) in cut.values.iter().zip(&self.h) {
            for &reader in &value.readers {
                self.milp.at_most(vec![(self.y[reader], 1), (h, -1), (self.y[value.producer], -1)], 0);
            }
        }
    }

    fn d3_budget(&mut self, cut: &Cut) -> Option<()> {
        let mut terms = Vec::new();
        for (value, &h) in cut.values.iter().zip(&self.h) {
            terms.push((h, i64::try_from(value.bytes).ok()?));
        }
        for (node, &y) in cut.nodes.iter().zip(&self.y).filter(|(node, _)| node.state > 0) {
            terms.push((y, i64::try_from(node.state).ok()?));
        }
        self.milp.at_most(terms, i64::try_from(cut.room).ok()?);
        Some(())
    }

    fn d5_effects(&mut self, cut: &Cut) {
        for (_, &y) in cut.nodes.iter().zip(&self.y).filter(|(node, _)| node.barred) {
            self.milp.fix(y, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::{Family, graph};

    #[test]
    fn what_is_assumed_is_before_and_after_and_keeps_an_order() {
        let graph = graph(Family::Layered, 40, 1);
        let mut cutter = Cutter::new(&graph);
        let mut assumed = 0;
        // From the back: each pair is against the given order.
        for (later, earlier) in graph.node_ids().zip(graph.node_ids().skip(7)) {
            cutter.look_at(later);
            if cutter.is_before(earlier) || cutter.is_after(earlier) {
                continue;
            }
            cutter.assume(earlier, later);
            assumed += 1;
            cutter.look_at(later);
            assert!(cutter.is_before(earlier) && !cutter.is_after(earlier));
            cutter.look_at(earlier);
            assert!(cutter.is_after(later) && !cutter.is_before(later));
            let place =
                |node: NodeId| cutter.order().iter().position(|&other| other == node).expect("listed");
            for node in graph.node_ids() {
                assert!(cutter.precede(node).all(|before| place(before) < place(node)));
            }
        }
        assert!(assumed > 5, "{assumed}");
        assert_eq!(cutter.order().len(), graph.len());
    }
}
