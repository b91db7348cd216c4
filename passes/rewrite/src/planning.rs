//! Between IR and plans: a step as a graph of numbers, and a scheduled or lowered step as a list of runs and drops.
//!
//! A value of the graph is one result of one node, with its bytes rounded up to the module's alignment. Arguments and
//! constants are resident and are not values. Order that data does not show is put into zero-byte tokens:
//! side effects keep their original order (S5), and whoever reads an argument that the step updates does so on the right
//! side of the update (S6), or of the hand-over if it is lent until then (S9). Gradients count no bytes, see "What counts as memory" in docs/ir.md. What a step hands out in its
//! middle (`rk.tangents`) is in the caller's hands from then on: whoever made it does not run twice.

use std::collections::{BTreeMap, HashMap, HashSet};

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::loans::{Loans, TANGENTS};
use rk_dialect::ops::{self, AtenOp, BufferOp, DropOp, Execution, FetchOp, NodeOp, RunOp, StepOp};
use rk_dialect::{Op, Value, transfers, types};
use rk_plan::{
    Bytes, Graph, GraphBuilder, Kind, NodeId, NodeSpec, OutputSpec, Schedule, Step, Time, ValueId,
};

use crate::views;

/// A step as a graph, with the way back.
pub struct Problem<'c> {
    /// The graph that solvers and the judge see.
    pub graph: Graph,
    /// Per node of the graph, the op.
    pub nodes: Vec<NodeOp<'c>>,
    /// Per node of the graph, its first run.
    pub runs: Vec<Execution<'c>>,
    /// The bytes of the gradients that nodes make, where the graph counts none of them.
    pub gradients: Vec<(NodeId, Bytes)>,
    /// What each value is: the result, by number, of a node.
    made: HashMap<Value<'c>, (&'c str, usize)>,
    /// Per node and result, the value.
    values: HashMap<Origin, ValueId>,
    places: BTreeMap<&'c str, (usize, NodeOp<'c>)>,
}

/// A value as the result, by number, of a node, by its place in the original order.
type Origin = (usize, usize);

/// What the IR says of one node's place in the order.
struct Access<'c> {
    reads: Vec<Value<'c>>,
    writes: Vec<Value<'c>>,
}

impl<'c> Problem<'c> {
    /// Reads a step at stage `costed`, `scheduled` or `lowered`. Nodes stand in the module in their original order.
    ///
    /// # Errors
    /// What the verifier of the stage would refuse, and sums beyond 64 bits, at the op.
    pub fn of(step: StepOp<'c>, module: Op<'c>) -> Result<Self, Diagnostic<'c>> {
        let places = ops::nodes_by_symbol(module);
        let mut first: Vec<Option<Execution<'c>>> = vec![None; places.len()];
        let mut made = HashMap::new();
        for run in step.body().ops().into_iter().filter_map(Execution::of) {
            let Some(&(place, _)) = places.get(run.symbol()) else { return Err(no_such_node(run)) };
            if !run.is_again() {
                first[place] = Some(run);
            }
            made.extend(run.outputs().into_iter().zip((0..).map(|number| (run.symbol(), number))));
        }
        // Nodes of other steps in the same module do not belong to this problem.
        let runs: Vec<Execution<'c>> = first.into_iter().flatten().collect();
        let order: HashMap<&str, usize> =
            runs.iter().enumerate().map(|(at, run)| (run.symbol(), at)).collect();
        let places: BTreeMap<&'c str, (usize, NodeOp<'c>)> = places
            .into_iter()
            .filter_map(|(symbol, (_, node))| Some((symbol, (*order.get(symbol)?, node))))
            .collect();
        let nodes: Vec<NodeOp<'c>> = runs.iter().map(|run| places[run.symbol()].1).collect();
        let mut problem = Problem {
            graph: placeholder(),
            nodes,
            runs,
            gradients: Vec::new(),
            made,
            values: HashMap::new(),
            places,
        };
        problem.graph = problem.build(step, module)?;
        Ok(problem)
    }

    fn build(&mut self, step: StepOp<'c>, module: Op<'c>) -> Result<Graph, Diagnostic<'c>> {
        let alignment = crate::alignment(module);
        let (pinned, gradients) = self.outputs(step);
        let handed_out = self.handed_out();
        let accesses: Vec<Access<'c>> = (0..self.runs.len()).map(|at| self.access(at)).collect();
        let mut order = Order::of(&self.nodes, &accesses);
        let hand_over = self.around_hand_over(step, &mut order);
        let order = order.with_tokens();
        let mut builder = GraphBuilder::new(step.symbol()).time_unit("ns", 1);
        let mut tokens: Vec<Option<ValueId>> = vec![None; self.runs.len()];
        for at in 0..self.runs.len() {
            let (run, node) = (self.runs[at], self.nodes[at]);
            let cost = node.cost().ok_or_else(|| {
                Diagnostic::error(node.op().location(), format!("node '{}' has no cost", node.symbol()))
            })?;
            let mut reads = Vec::new();
            let mut over = None;
            for (index, operand) in run.inputs().into_iter().enumerate() {
                let value = self.value_of(operand);
                reads.extend(value);
                if node.overwrites() == Some(index) {
                    over = value;
                }
            }
            reads.extend(order.after[at].iter().filter_map(|&before| tokens[before]));
            let mut outputs: Vec<OutputSpec> = Vec::new();
            for (index, output) in run.outputs().into_iter().enumerate() {
                let mut bytes = Bytes(output.ty().bytes().unwrap_or(0).next_multiple_of(alignment));
                if gradients.contains(&(at, index)) {
                    self.gradients.push((NodeId::from_index(at), std::mem::take(&mut bytes)));
                }
                outputs.push(OutputSpec {
                    name: rk_dialect::names::of(output),
                    bytes,
                    pinned: pinned.contains(&(at, index)),
                });
            }
            let results = outputs.len();
            if order.needs_token[at] {
                outputs.push(OutputSpec { name: format!("{} done", node.symbol()), ..OutputSpec::default() });
            }
            let spec = NodeSpec {
                name: node.symbol().to_owned(),
                module: node.calls().last().map_or_else(String::new, |call| call.module_path().to_owned()),
                kind: if node.is_backward() { Kind::Backward } else { Kind::Forward },
                time: Time(cost.time),
                workspace: Bytes(cost.workspace),
                reads,
                outputs,
                overwrites: over,
                state: Bytes(if node.is_random() {
                    types::GENERATOR_BYTES.next_multiple_of(alignment)
                } else {
                    0
                }),
                once: node.is_once() || order.stale[at] || handed_out.contains(&at),
                lent: order.lent[at],
                hands_over: hand_over == Some(at),
            };
            let refuse =
                |error: rk_plan::GraphError| Diagnostic::error(run.op().location(), error.to_string());
            let id = builder.add(spec).map_err(refuse)?;
            for index in 0..results {
                self.values.extend(builder.output(id, index).map(|value| ((at, index), value)));
            }
            if order.needs_token[at] {
                tokens[at] = builder.output(id, results);
            }
        }
        builder.finish().map_err(|error| Diagnostic::error(step.op().location(), error.to_string()))
    }

    /// Which results the step returns, and which of those are gradients and nothing else.
    fn outputs(&self, step: StepOp<'c>) -> (HashSet<Origin>, HashSet<Origin>) {
        let mut pinned = HashSet::new();
        let mut activations = HashSet::new();
        for (index, returned) in step.returned().into_iter().enumerate() {
            let mut roots = Vec::new();
            views::roots(returned, &mut roots);
            for root in roots.into_iter().filter_map(|root| self.origin(root)) {
                pinned.insert(root);
                if step.result_role(index) != Some("gradient") {
                    activations.insert(root);
                }
            }
        }
        let gradients = pinned.difference(&activations).copied().collect();
        (pinned, gradients)
    }

    /// The nodes that made what `rk.tangents` hands out.
    fn handed_out(&self) -> HashSet<usize> {
        let tangents = |node: &NodeOp<'c>| node.calls().into_iter().any(|call| call.operator() == TANGENTS);
        let runs = self.nodes.iter().zip(&self.runs).filter(|(node, _)| tangents(node));
        runs.flat_map(|(_, run)| run.inputs())
            .filter_map(|value| self.origin(value))
            .map(|(node, _)| node)
            .collect()
    }

    /// Puts what reads something on loan on its side of the hand-over, whose place is returned.
    fn around_hand_over(&self, step: StepOp<'c>, order: &mut Order) -> Option<usize> {
        let loans = Loans::of(step, &self.places);
        let hand_over = loans.hand_over?;
        let sources = |at: usize, order: &Order| -> Vec<usize> {
            let made = self.runs[at].inputs().into_iter().filter_map(|value| Some(self.origin(value)?.0));
            made.chain(order.after[at].iter().copied()).collect()
        };
        // What the hand-over waits for anyway, and what waits for it, needs no token.
        let mut known = vec![false; self.runs.len()];
        known[hand_over] = true;
        for at in (0..=hand_over).rev() {
            if known[at] {
                sources(at, order).into_iter().for_each(|before| known[before] = true);
            }
        }
        for at in 0..self.runs.len() {
            if at > hand_over {
                known[at] = sources(at, order).into_iter().any(|before| before >= hand_over && known[before]);
            }
            if at == hand_over || loans.read_by(self.runs[at], self.nodes[at]).is_none() {
                continue;
            }
            order.lent[at] = at < hand_over;
            if !known[at] {
                let (first, second) = (at.min(hand_over), at.max(hand_over));
                order.after[second].push(first);
                known[at] = true;
            }
        }
        Some(hand_over)
    }

    /// What a node reads and updates of the arguments.
    fn access(&self, at: usize) -> Access<'c> {
        let run = self.runs[at];
        let inputs = run.inputs();
        let body = self.nodes[at].body().map(|body| body.arguments()).unwrap_or_default();
        let outside: HashMap<Value<'c>, Value<'c>> = body.into_iter().zip(inputs.iter().copied()).collect();
        let arguments =
            |value: Value<'c>| outside.get(&views::base(value)).copied().filter(|v| is_resident(*v));
        let mut access = Access { reads: Vec::new(), writes: Vec::new() };
        for call in self.nodes[at].calls() {
            let written: Vec<usize> = call.writes().into_iter().chain(call.effects()).collect();
            for (index, operand) in call.op().operands().into_iter().enumerate() {
                let Some(argument) = arguments(operand) else { continue };
                if written.contains(&index) {
                    access.writes.push(argument);
                } else if !call.is_view() {
                    access.reads.push(argument);
                }
            }
        }
        access
    }

    /// The node and result number that a value, or what it is a copy of, is an instance of; `None` for what is resident.
    fn origin(&self, value: Value<'c>) -> Option<Origin> {
        let &(symbol, number) = self.made.get(&transfers::origin(value))?;
        Some((self.places.get(symbol)?.0, number))
    }

    /// The graph as `rk-plan` reads it, times in nanoseconds.
    pub fn to_json(&self) -> String {
        rk_plan::json::write(&self.graph)
    }

    /// The value of the graph that an SSA value is an instance of.
    pub fn value_of(&self, value: Value<'c>) -> Option<ValueId> {
        self.values.get(&self.origin(value)?).copied()
    }

    /// The node of the graph that has this symbol.
    pub fn node_of(&self, symbol: &str) -> Option<NodeId> {
        self.places.get(symbol).map(|&(place, _)| NodeId::from_index(place))
    }

    /// The value of the graph that is result `index` of a node.
    pub fn result(&self, node: NodeId, index: usize) -> Option<ValueId> {
        self.values.get(&(node.index(), index)).copied()
    }

    /// Reads the runs and drops of a scheduled step; in a lowered one, a buffer is dropped after its last use.
    ///
    /// # Errors
    /// A run of a node that the problem does not have, and transfers, which a list of runs and drops cannot hold.
    pub fn schedule_of(&self, step: StepOp<'c>) -> Result<Schedule, Diagnostic<'c>> {
        transfers::refused(step, "a list of runs and drops").map_or_else(|| self.runs_of(step), Err)
    }

    /// Like [`Problem::schedule_of`], and what moves between device and host memory is dropped once: when the last of it is.
    ///
    /// # Errors
    /// A run of a node that the problem does not have.
    pub(crate) fn runs_of(&self, step: StepOp<'c>) -> Result<Schedule, Diagnostic<'c>> {
        let mut steps = Vec::new();
        let ops = step.body().ops();
        let mut last_uses = last_uses(&ops);
        let last_stays = self.last_stays(&ops);
        let is_last = |value: Value<'c>, op: Op<'c>| {
            last_stays.get(&transfers::origin(value)).is_none_or(|&last| last == op)
        };
        for (at, op) in ops.into_iter().enumerate() {
            if let Some(run) = Execution::of(op) {
                let Some(&(place, node)) = self.places.get(run.symbol()) else {
                    return Err(no_such_node(run));
                };
                let handed = node.overwrites().filter(|_| run.is_overwrite());
                let handed = handed.and_then(|index| run.inputs().get(index).copied());
                let node = NodeId::from_index(place);
                let overwrite = run.is_overwrite() && handed.is_none_or(|value| is_last(value, op));
                steps.push(Step::Run { node, again: run.is_again(), overwrite });
                let dead = last_uses.remove(&at).unwrap_or_default().into_iter();
                let dead = dead.filter(|value| Some(*value) != handed);
                steps.extend(dead.filter_map(|value| self.value_of(value)).map(Step::Drop));
            } else if let Some(value) = DropOp::of(op).and_then(DropOp::value) {
                // Saved generator states are accounted for by the judge itself.
                let value = Some(value).filter(|&value| !value.ty().is_host() && is_last(value, op));
                steps.extend(value.and_then(|value| self.value_of(value)).map(Step::Drop));
            }
        }
        // What the graph has and the IR has not: tokens are given back as soon as that is legal.
        Ok(Schedule(self.with_token_drops(steps)))
    }

    /// For each result of a run that is moved, the op that ends the last of its stays on the device: a drop, or a run that takes the
    /// buffer over.
    fn last_stays(&self, ops: &[Op<'c>]) -> HashMap<Value<'c>, Op<'c>> {
        let moved = ops.iter().filter_map(|&op| transfers::origin(FetchOp::of(op)?.value()?).into());
        let moved: HashSet<Value<'c>> = moved.collect();
        let mut last = HashMap::new();
        for &op in ops.iter().filter(|_| !moved.is_empty()) {
            let ended = match DropOp::of(op) {
                Some(drop) => drop.value().filter(|value| !value.ty().is_host()),
                None => RunOp::of(op).filter(|run| run.is_overwrite()).and_then(|run| {
                    let (_, node) = self.places.get(run.symbol())?;
                    run.inputs().get(node.overwrites()?).copied()
                }),
            };
            let ended = ended.map(transfers::origin).filter(|value| moved.contains(value));
            last.extend(ended.map(|value| (value, op)));
        }
        last
    }

    /// Adds the drop of each token instance, right after its last reader.
    fn with_token_drops(&self, steps: Vec<Step>) -> Vec<Step> {
        let named: HashSet<ValueId> = self.values.values().copied().collect();
        let is_token = |value: &ValueId| !named.contains(value);
        let mut last: HashMap<ValueId, usize> = HashMap::new();
        let mut ends: Vec<Vec<ValueId>> = vec![Vec::new(); steps.len()];
        for (at, step) in steps.iter().enumerate() {
            let Step::Run { node, .. } = step else { continue };
            let about = self.graph.node(*node);
            for value in about.reads.iter().filter(|value| is_token(value)) {
                last.insert(*value, at);
            }
            for value in about.writes.iter().filter(|value| is_token(value)) {
                if let Some(end) = last.insert(*value, at) {
                    ends[end].push(*value);
                }
            }
        }
        let mut rest: Vec<_> = last.into_iter().collect();
        rest.sort_unstable();
        rest.into_iter().for_each(|(value, at)| ends[at].push(value));
        let drops = ends.into_iter().map(|values| values.into_iter().map(Step::Drop));
        steps.into_iter().zip(drops).flat_map(|(step, drops)| std::iter::once(step).chain(drops)).collect()
    }
}

/// Order that data does not show.
struct Order {
    /// Per node, earlier nodes that must have run.
    after: Vec<Vec<usize>>,
    /// Some later node waits for it.
    needs_token: Vec<bool>,
    /// Reads an argument that a later node updates: a second run would read the new state (S6).
    stale: Vec<bool>,
    /// Reads what the caller may change after the hand-over, and stands before it: a second run could read something else (S9).
    lent: Vec<bool>,
}

impl Order {
    fn of(nodes: &[NodeOp<'_>], accesses: &[Access<'_>]) -> Self {
        let count = nodes.len();
        let mut order = Order {
            after: vec![Vec::new(); count],
            needs_token: vec![false; count],
            stale: vec![false; count],
            lent: vec![false; count],
        };
        let mut last_effect = None;
        let mut readers: HashMap<Value<'_>, Vec<usize>> = HashMap::new();
        let mut writer: HashMap<Value<'_>, usize> = HashMap::new();
        for at in 0..count {
            if nodes[at].has_side_effect() {
                order.after[at].extend(last_effect.replace(at));
            }
            for argument in &accesses[at].reads {
                order.after[at].extend(writer.get(argument));
                readers.entry(*argument).or_default().push(at);
            }
            for argument in &accesses[at].writes {
                order.after[at].extend(writer.insert(*argument, at));
                for reader in readers.remove(argument).unwrap_or_default() {
                    if reader != at {
                        order.stale[reader] = true;
                        order.after[at].push(reader);
                    }
                }
            }
            order.after[at].sort_unstable();
            order.after[at].dedup();
            order.after[at].retain(|&before| before != at);
        }
        order
    }

    /// Says who is waited for.
    fn with_tokens(mut self) -> Self {
        for before in self.after.iter().flatten() {
            self.needs_token[*before] = true;
        }
        self
    }
}

/// By place, the buffers of a lowered step that this op is the last to use, in order of the ops that make them. What is
/// returned, also through views, has no last use.
fn last_uses<'c>(ops: &[Op<'c>]) -> HashMap<usize, Vec<Value<'c>>> {
    let mut last: HashMap<Value<'c>, usize> = HashMap::new();
    for (at, op) in ops.iter().enumerate() {
        last.extend(op.operands().into_iter().map(|operand| (views::base(operand), at)));
    }
    let mut ends: HashMap<usize, Vec<Value<'c>>> = HashMap::new();
    for value in ops.iter().filter_map(|&op| BufferOp::of(op)?.value()) {
        if let Some(&at) = last.get(&value).filter(|&&at| Execution::of(ops[at]).is_some()) {
            ends.entry(at).or_default().push(value);
        }
    }
    ends
}

/// An argument or a constant of the step.
fn is_resident(value: Value<'_>) -> bool {
    let made = |op: Op<'_>| RunOp::of(op).is_some() || AtenOp::of(op).is_some() || BufferOp::of(op).is_some();
    transfers::origin(value).producer().is_none_or(|(op, _)| !made(op))
}

fn no_such_node(run: Execution<'_>) -> Diagnostic<'_> {
    Diagnostic::error(run.op().location(), format!("there is no rk.node '@{}'", run.symbol()))
}

/// Stands in until the real graph is built.
fn placeholder() -> Graph {
    let mut builder = GraphBuilder::new("");
    let added = builder.add(NodeSpec::default());
    debug_assert!(added.is_ok());
    builder.finish().expect("a graph with one node")
}
