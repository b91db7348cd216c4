//! The MILP of Checkmate: an oracle for small graphs.
//!
//! Stage `t` runs some of the nodes `0..=t` in the given order and ends with the first run of `t`.
//!
//! ```text
//! Variables   R[t][i]     node i runs in stage t              S[t][v]   value v is kept from stage t-1 into t
//!             F[t][v][k]  v is freed after k runs in stage t  U[t][k]   bytes in stage t once k has run
//! Objective   minimise  sum time[i] R[t][i]
//! M1 frontier R[t][t] = 1; R[t][i] = 0 for i > t, and for once nodes for i < t; S[t][v] = 0 if its producer is >= t
//! M2 inputs   R[t][k] <= R[t][producer u] + S[t][u]                       u read by k
//! M3 kept     S[t+1][v] <= R[t][producer v] + S[t][v]                     S[n][v] = 1 for pinned v
//! M4 start    U[t][0] = sum_v bytes[v] S[t][v] + outputs[0] R[t][0]
//! M5 step     U[t][k+1] = U[t][k] + outputs[k+1] R[t][k+1] - sum_{v read or made by k} bytes[v] F[t][v][k]
//!             U[t][k] + workspace[k] R[t][k] - (bytes[u] F[t][u][k] if k may overwrite u) <= M
//! M6 free     hazards = (1 - R[t][k]) + S[t+1][v] + sum_{readers j of v, k < j <= t} R[t][j]
//!             1 - F[t][v][k] <= hazards <= count (1 - F[t][v][k])
//! ```
//!
//! Exact for schedules whose stages run in the given order and every node at most once per stage. That is narrower than
//! "the given order of first runs", so no bound is reported from here; a plan is. Generator states are left to the judge.
//!
//! Source: Jain et al., "Checkmate", MLSys 2020, with `F[t][k][k]`. About 2.7 n^2 variables.

use std::collections::BTreeMap;

use rk_plan::{Graph, NodeId, Sequence, ValueId, may_overwrite};

use crate::milp::{Answer, End, Milp, Var};
use crate::portfolio::incumbent::Incumbent;
use crate::portfolio::solver::Solver;

/// Larger programs do not end in useful time.
pub const MOST_NODES: usize = 80;

/// Plans by Checkmate's MILP, if the graph is small enough.
pub(crate) fn checkmate(task: &mut Incumbent) {
    let graph = task.request.graph;
    if graph.len() > MOST_NODES {
        tracing::warn!(nodes = graph.len(), most = MOST_NODES, "too large for checkmate");
        return;
    }
    let Some(program) = Checkmate::new(graph, task.request.budget.0) else { return };
    let answer = program.milp.solve(task.programs(task.clock.left()));
    tracing::info!(end = ?answer.end, size = ?program.milp.size(), "checkmate");
    task.exhausted = answer.end == End::Optimal;
    if answer.point.is_some() {
        task.offer_sequence(program.sequence(&answer), Solver::Checkmate);
    }
}

/// The program and its variables.
pub struct Checkmate<'a> {
    graph: &'a Graph,
    budget: i64,
    /// The program.
    pub milp: Milp,
    /// `r[t][i]`, for `i <= t`.
    r: Vec<Vec<Var>>,
    /// `s[t]`, for values made before `t`; one stage more than nodes.
    s: Vec<BTreeMap<ValueId, Var>>,
}

impl<'a> Checkmate<'a> {
    /// All rows. `None` if sizes leave 63 bits.
    pub fn new(graph: &'a Graph, budget: u64) -> Option<Self> {
        let n = graph.len();
        let mut milp = Milp::default();
        let r: Vec<Vec<Var>> =
            (0..n).map(|t| (0..=t).map(|i| milp.binary(graph.nodes()[i].time.0)).collect()).collect();
        let mut s = Vec::with_capacity(n + 1);
        for t in 0..=n {
            let made = (0..graph.values().len()).map(ValueId::from_index);
            let made = made.filter(|&value| graph.value(value).producer.index() < t);
            s.push(made.map(|value| (value, milp.binary(0))).collect::<BTreeMap<_, _>>());
        }
        let budget = i64::try_from(budget.min(1 << 62)).ok()?;
        let mut program = Self { graph, budget, milp, r, s };
        program.m1_frontier();
        for t in 0..n {
            program.m2_inputs(t);
            program.m3_kept(t);
            program.m456_memory(t)?;
        }
        Some(program)
    }

    fn m1_frontier(&mut self) {
        for t in 0..self.graph.len() {
            self.milp.fix(self.r[t][t], 1);
            for i in (0..t).filter(|&i| !self.graph.nodes()[i].is_repeatable()) {
                self.milp.fix(self.r[t][i], 0);
            }
        }
        // After the last stage only outputs of the step matter.
        for (&value, &var) in &self.s[self.graph.len()] {
            self.milp.fix(var, i64::from(self.graph.value(value).pinned));
        }
    }

    fn m2_inputs(&mut self, t: usize) {
        for k in 0..=t {
            for u in &self.graph.nodes()[k].reads {
                let mut terms =
                    vec![(self.r[t][k], 1), (self.r[t][self.graph.value(*u).producer.index()], -1)];
                terms.extend(self.s[t].get(u).map(|&kept| (kept, -1)));
                self.milp.at_most(terms, 0);
            }
        }
    }

    fn m3_kept(&mut self, t: usize) {
        let next: Vec<(ValueId, Var)> = self.s[t + 1].iter().map(|(&value, &var)| (value, var)).collect();
        for (value, kept) in next {
            let mut terms = vec![(kept, 1), (self.r[t][self.graph.value(value).producer.index()], -1)];
            terms.extend(self.s[t].get(&value).map(|&kept| (kept, -1)));
            self.milp.at_most(terms, 0);
        }
    }

    /// M4 to M6 for one stage. `U` is bounded from below only: more than the truth is never needed.
    fn m456_memory(&mut self, t: usize) -> Option<()> {
        let graph = self.graph;
        let bytes = |value: ValueId| i64::try_from(graph.value(value).bytes.0).ok();
        // A few thousand units to the budget: coefficients of one size.
        let unit = (self.budget >> 12).max(1);
        let most = self.budget / unit + 1;
        // What `U[t][k]` must reach: M4, then M5 step by step.
        let mut sum: Vec<(Var, i64)> = Vec::new();
        for (&value, &kept) in &self.s[t] {
            sum.push((kept, bytes(value)?));
        }
        for k in 0..=t {
            let node = &graph.nodes()[k];
            let mut made = 0i64;
            for &value in &node.writes {
                made = made.checked_add(bytes(value)?)?;
                // An instance kept from before is replaced: it does not count beside the new one.
                if let Some(&kept) = self.s[t].get(&value) {
                    self.not_both(kept, self.r[t][k]);
                }
            }
            sum.push((self.r[t][k], made));
            let over = may_overwrite(graph, NodeId::from_index(k));
            let overwritten = over.map_or(Some(0), bytes)?;
            // With an operand overwritten, `U` counts more than there is.
            let u = self.milp.continuous(most + overwritten / unit + 1);
            sum.push((u, -unit));
            self.milp.at_most(std::mem::take(&mut sum), 0);
            sum.push((u, unit));
            let mut here = vec![(u, unit), (self.r[t][k], i64::try_from(node.workspace.0).ok()?)];
            for &value in
                node.reads.iter().chain(&node.writes).filter(|value| graph.value(**value).bytes.0 > 0)
            {
                let free = self.m6_free(t, k, value);
                sum.push((free, -bytes(value)?));
                if Some(value) == over {
                    here.push((free, -bytes(value)?));
                }
            }
            self.milp.at_most(here, self.budget);
        }
        Some(())
    }

    fn not_both(&mut self, a: Var, b: Var) {
        self.milp.at_most(vec![(a, 1), (b, 1)], 1);
    }

    fn m6_free(&mut self, t: usize, k: usize, value: ValueId) -> Var {
        let free = self.milp.binary(0);
        let mut hazards = vec![(self.r[t][k], -1)];
        hazards.extend(self.s[t + 1].get(&value).map(|&kept| (kept, 1)));
        let later = self.graph.readers(value).iter().filter(|j| j.index() > k && j.index() <= t);
        hazards.extend(later.map(|j| (self.r[t][j.index()], 1)));
        let count = hazards.len() as i64;
        // 1 + hazards >= 1 - free, and 1 + hazards <= count (1 - free), where the 1 comes from 1 - R.
        let mut low = hazards.clone();
        low.push((free, 1));
        self.milp.at_least(low, 0);
        hazards.push((free, count));
        self.milp.at_most(hazards, count - 1);
        free
    }

    /// The runs of a solution in order.
    pub fn sequence(&self, answer: &Answer) -> Sequence {
        let mut runs = Vec::new();
        for stage in &self.r {
            let here = stage.iter().enumerate().filter(|(_, var)| answer.is_one(**var));
            runs.extend(here.map(|(node, _)| NodeId::from_index(node)));
        }
        Sequence(runs)
    }
}
