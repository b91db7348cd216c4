//! Many cuts in the given order: a bound for schedules that keep it, and for no others.
//!
//! Valid **only** for schedules that keep the given order of first runs and run no node of the backward part twice. What is
//! alive of the backward part is then known at every position. `F`: nodes in front of the split (the last forward node; the
//! base peak where nothing is marked forward). Cut `k` lies in front of position `p_k` behind the split; segment `k` is
//! `p_k .. p_{k+1} - 1`. `need_k`: values of `F` read in segment `k`. `BL`: bytes of other values alive across a position.
//!
//! ```text
//! Variables   h[k][v]  value v of F is alive across p_k;   y[k][p]  node p of F runs in segment k;   Y[k][p]  in k or later
//! Objective   minimise  sum over k, p of time[p] y[k][p]
//! K1 keeping  h[k+1][v] <= h[k][v] + y[k][producer v]
//! K2 inputs   y[k][p] <= y[k][producer u] + h[k][u]                      u read by p
//! K3 served   y[k][producer u] + h[k][u] >= 1                            u in need_k (last k: or pinned)
//! K4 budget   sum_v bytes[v] h[k][v] <= M - BL(p_k)
//! K5 inside   sum_{v not read by j} bytes[v] c[k][v] <= M - BL(j) - workspace[j] - sum_{u in F read by j} bytes[u]
//!             c[k][v] >= h[k+1][v] - y[k][producer v]                    for the heaviest positions j of segment k
//! K6 first    Y[k][p] <= sum_{q >= k} y[q][p];  Y[k][producer v] + h[k][v] >= 1 for v in need of k or later;
//!             Y[k][p] <= Y[k][producer u] + h[k][u]
//! ```
//!
//! Without K6 a fractional plan spreads one recomputation over many cuts, and the relaxation is weaker than that of one cut.
//! Cuts stand only where the profile without recomputation exceeds M. Memory during the recomputations is not modelled, nor
//! are generator states and operands that may be overwritten: that only weakens the bound.
//!
//! Source: docs/design/planner.md, section 3.4. The exact form with a cut at every position is `stage_ilp`.

use std::collections::BTreeMap;

use rk_plan::{Bytes, Graph, Kind, NodeId, Time, ValueId, base_trace, may_overwrite};

use crate::milp::{Answer, End, Milp, Options, Var};

/// A bound for the given order only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedOrderBound {
    /// No schedule of the class takes less.
    pub time: Time,
    /// The program has no solution: no schedule of the class fits.
    pub infeasible: bool,
}

/// Cuts of the relaxation, at most; sampling more changes little.
const CUTS: usize = 50;
/// Rows K5 per segment.
const INSIDE: usize = 2;

/// The relaxation with sampled cuts.
pub fn fixed_order(graph: &Graph, budget: Bytes, options: Options) -> FixedOrderBound {
    let positions = sampled(positions(graph, budget), CUTS);
    let none = FixedOrderBound { time: graph.total_time(), infeasible: false };
    let Some(program) = Program::new(graph, budget, &positions, INSIDE) else { return none };
    let answer = program.milp.solve(Options { relaxed: true, ..options });
    match answer.end {
        // A relaxation that is stopped has no bound.
        End::Optimal => FixedOrderBound { time: graph.total_time() + Time(answer.bound), infeasible: false },
        End::Infeasible => FixedOrderBound { infeasible: true, ..none },
        End::Stopped | End::NodeLimit | End::Failed => none,
    }
}

/// The first position behind the forward part.
pub(crate) fn split(graph: &Graph) -> usize {
    let last = graph.nodes().iter().rposition(|node| node.kind == Kind::Forward);
    last.unwrap_or_else(|| base_trace(graph).peak_step) + 1
}

/// Positions behind the split at which the given order exceeds the budget.
pub(crate) fn positions(graph: &Graph, budget: Bytes) -> Vec<usize> {
    let memory = base_trace(graph).memory;
    (split(graph)..graph.len()).filter(|&position| memory[position] > budget).collect()
}

fn sampled(positions: Vec<usize>, most: usize) -> Vec<usize> {
    let count = positions.len();
    if count <= most {
        return positions;
    }
    (0..most).map(|index| positions[index * (count - 1) / (most - 1)]).collect()
}

/// The rows and the variables.
pub(crate) struct Program<'a> {
    graph: &'a Graph,
    budget: Bytes,
    split: usize,
    positions: Vec<usize>,
    pub(crate) milp: Milp,
    h: Vec<BTreeMap<ValueId, Var>>,
    y: Vec<BTreeMap<NodeId, Var>>,
    later: Vec<BTreeMap<NodeId, Var>>,
}

impl<'a> Program<'a> {
    /// Cuts in front of `positions`, and `inside` rows K5 per segment. `None` without positions, or if sizes leave 63 bits.
    pub(crate) fn new(graph: &'a Graph, budget: Bytes, positions: &[usize], inside: usize) -> Option<Self> {
        if positions.is_empty() {
            return None;
        }
        let mut program = Self {
            graph,
            budget,
            split: split(graph),
            positions: positions.to_vec(),
            milp: Milp::default(),
            h: Vec::new(),
            y: Vec::new(),
            later: Vec::new(),
        };
        for k in 0..positions.len() {
            program.variables(k);
        }
        for k in 0..positions.len() {
            program.k1_keeping(k);
            program.k2_inputs(k);
            program.k3_served(k);
            program.k4_budget(k)?;
            program.k5_inside(k, inside)?;
            program.k6_first(k);
        }
        Some(program)
    }

    fn is_forward(&self, value: ValueId) -> bool {
        self.graph.value(value).producer.index() < self.split
    }

    /// The end of segment `k`, exclusive.
    fn end(&self, k: usize) -> usize {
        self.positions.get(k + 1).copied().unwrap_or(self.graph.len())
    }

    /// Values of `F` with bytes that are read at a position in a range.
    fn read_in(&self, from: usize, to: usize, or_pinned: bool) -> Vec<ValueId> {
        let values = (0..self.graph.values().len()).map(ValueId::from_index);
        let values = values.filter(|&v| self.is_forward(v) && self.graph.value(v).bytes.0 > 0);
        values
            .filter(|&v| {
                let readers = self.graph.readers(v);
                let next = readers.partition_point(|reader| reader.index() < from);
                (or_pinned && self.graph.value(v).pinned)
                    || readers.get(next).is_some_and(|reader| reader.index() < to)
            })
            .collect()
    }

    /// What segment `k` and later ones read, and what that is made from.
    fn variables(&mut self, k: usize) {
        let mut queue = self.read_in(self.positions[k], self.graph.len(), true);
        let (mut h, mut y, mut later) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        while let Some(value) = queue.pop() {
            if self.graph.value(value).bytes.0 == 0 || h.contains_key(&value) {
                continue;
            }
            h.insert(value, self.milp.binary(0));
            let producer = self.graph.value(value).producer;
            let node = self.graph.node(producer);
            if node.is_repeatable() && !y.contains_key(&producer) {
                y.insert(producer, self.milp.binary(node.time.0));
                later.insert(producer, self.milp.binary(0));
                queue.extend(&node.reads);
            }
        }
        self.h.push(h);
        self.y.push(y);
        self.later.push(later);
    }

    /// `cause <= h[k][u] + other[producer u]`; without a cause, `1 <=`.
    fn available(&mut self, k: usize, cause: Option<Var>, u: ValueId, later: bool) {
        if self.graph.value(u).bytes.0 == 0 {
            return;
        }
        let runs = if later { &self.later[k] } else { &self.y[k] };
        let mut terms: Vec<(Var, i64)> =
            runs.get(&self.graph.value(u).producer).map(|&y| (y, 1)).into_iter().collect();
        terms.extend(self.h[k].get(&u).map(|&h| (h, 1)));
        terms.extend(cause.map(|cause| (cause, -1)));
        self.milp.at_least(terms, i64::from(cause.is_none()));
    }

    fn k1_keeping(&mut self, k: usize) {
        let Some(next) = self.h.get(k + 1) else { return };
        let next: Vec<(ValueId, Var)> = next.iter().map(|(&value, &h)| (value, h)).collect();
        next.into_iter().for_each(|(value, h)| self.available(k, Some(h), value, false));
    }

    fn k2_inputs(&mut self, k: usize) {
        let graph = self.graph;
        let runs: Vec<(NodeId, Var)> = self.y[k].iter().map(|(&node, &y)| (node, y)).collect();
        for (node, y) in runs {
            graph.node(node).reads.iter().for_each(|&u| self.available(k, Some(y), u, false));
        }
    }

    fn k3_served(&mut self, k: usize) {
        let last = k + 1 == self.positions.len();
        for u in self.read_in(self.positions[k], self.end(k), last) {
            self.available(k, None, u, false);
        }
    }

    /// Bytes behind the split that are alive across the front of a position.
    fn backward_live(&self, position: usize) -> u64 {
        let values = (0..self.graph.values().len()).map(ValueId::from_index).filter(|&v| !self.is_forward(v));
        let across = values.filter(|&v| {
            let value = self.graph.value(v);
            let read_later = self.graph.readers(v).last().is_some_and(|reader| reader.index() >= position);
            value.producer.index() < position && (value.pinned || read_later)
        });
        across.map(|v| self.graph.value(v).bytes.0).sum()
    }

    fn sized(&self, values: &BTreeMap<ValueId, Var>) -> Option<Vec<(Var, i64)>> {
        values
            .iter()
            .map(|(&v, &var)| Some((var, i64::try_from(self.graph.value(v).bytes.0).ok()?)))
            .collect()
    }

    fn k4_budget(&mut self, k: usize) -> Option<()> {
        let room =
            i64::try_from(self.budget.0).ok()? - i64::try_from(self.backward_live(self.positions[k])).ok()?;
        let terms = self.sized(&self.h[k])?;
        self.milp.at_most(terms, room);
        Some(())
    }

    /// What a position needs besides what is held through: its workspace, its operands of `F`, other live values.
    fn load(&self, position: usize) -> u64 {
        let node = &self.graph.nodes()[position];
        let over = may_overwrite(self.graph, NodeId::from_index(position));
        let read: u64 = node
            .reads
            .iter()
            .filter(|&&u| self.is_forward(u) && Some(u) != over)
            .map(|&u| self.graph.value(u).bytes.0)
            .sum();
        let made: u64 = node.writes.iter().map(|&v| self.graph.value(v).bytes.0).sum();
        let taken = over.filter(|&u| !self.is_forward(u)).map_or(0, |u| self.graph.value(u).bytes.0);
        (self.backward_live(position) + read + made + node.workspace.0).saturating_sub(taken)
    }

    fn k5_inside(&mut self, k: usize, most: usize) -> Option<()> {
        let mut heavy: Vec<(u64, usize)> =
            (self.positions[k]..self.end(k)).map(|position| (self.load(position), position)).collect();
        heavy.sort_unstable_by_key(|&(load, position)| (std::cmp::Reverse(load), position));
        heavy.truncate(most);
        let mut through: BTreeMap<ValueId, Var> = BTreeMap::new();
        if let Some(next) = self.h.get(k + 1) {
            for (&value, &h) in next.iter().filter(|(value, _)| self.h[k].contains_key(value)) {
                match self.y[k].get(&self.graph.value(value).producer) {
                    None => through.insert(value, h),
                    Some(&y) => {
                        let c = self.milp.binary(0);
                        self.milp.at_least(vec![(c, 1), (y, 1), (h, -1)], 0);
                        through.insert(value, c)
                    }
                };
            }
        }
        for (load, position) in heavy {
            let reads = &self.graph.nodes()[position].reads;
            let others = through.iter().filter(|(value, _)| !reads.contains(value));
            let terms = self.sized(&others.map(|(&value, &var)| (value, var)).collect())?;
            let room = i64::try_from(self.budget.0).ok()? - i64::try_from(load).ok()?;
            self.milp.at_most(terms, room);
        }
        Some(())
    }

    fn k6_first(&mut self, k: usize) {
        let graph = self.graph;
        let runs: Vec<(NodeId, Var)> = self.later[k].iter().map(|(&node, &var)| (node, var)).collect();
        for (node, later) in runs {
            let mut terms = vec![(later, 1)];
            terms.extend(self.y[k..].iter().filter_map(|y| y.get(&node)).map(|&y| (y, -1)));
            self.milp.at_most(terms, 0);
            graph.node(node).reads.iter().for_each(|&u| self.available(k, Some(later), u, true));
        }
        for u in self.read_in(self.positions[k], graph.len(), true) {
            self.available(k, None, u, true);
        }
    }

    /// Per cut, the node after which it stands, and what a solution does not hold there.
    pub(crate) fn absent(&self, answer: &Answer) -> (Vec<NodeId>, Vec<Vec<ValueId>>) {
        let cuts = self.positions.iter().map(|&position| NodeId::from_index(position - 1)).collect();
        let absent = |h: &BTreeMap<ValueId, Var>| {
            h.iter().filter(|(_, h)| !answer.is_one(**h)).map(|(&value, _)| value).collect()
        };
        (cuts, self.h.iter().map(absent).collect())
    }
}
