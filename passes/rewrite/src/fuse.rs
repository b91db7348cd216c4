//! `--rk-fuse`: merges pointwise nodes of a `simplified` step. What is fused runs as one generated kernel.
//!
//! # Before and after
//! ```mlir
//! %add = rk.run @add(%x, %y) : ...
//! %relu = rk.run @relu(%add) : ...
//! ==>
//! rk.node @relu attributes {rk.kernel} { ^bb0(%x: ..., %y: ...): %add = rk.aten "aten.add.Tensor"(%x, %y, 1); %relu = rk.aten "aten.relu.default"(%add); rk.yield %relu }
//! %relu = rk.run @relu(%x, %y) : ...
//! ```
//!
//! # How
//! From the last node to the first: a node whose only result is read by pointwise nodes alone is put in front of their calls, if
//! every merged body is one loop over one space ([`rk_dialect::pointwise`]) and holding the node's operands until then takes no
//! more memory than holding its result did (next neighbours hold both anyway). A node with several readers is merged into each, where holding its operands is free
//! because they live that long anyway: it is computed again there, which costs no memory traffic.
//!
//! A sum or mean takes in the nodes that it reads, too, and ends its kernel; its order of additions is not ATen's, so only without `exact`.
//! So do softmax and log-softmax over one dimension and their backward forms, which also go in front of others; one such call in a
//! kernel, and not computed twice for several readers. A layer norm over trailing dimensions takes in what it reads; so does its gradient where
//! weight and bias have none. With `norms` the backward call of one that has both becomes three nodes, each a kernel: its gradient by the input, and
//! two sums for those of weight and bias, which read the same tensors again.
//!
//! With `times=FILE`, of a fused step in which every kernel was timed beside the calls that it stands for (`rk-run --times`), a kernel that
//! was slower is not made: its nodes stay apart, but for merges that spare memory, because the result would have been kept for longer than
//! until the next run, where the kernel is slower by no more than a second run of the node that is merged, which is the other way
//! to spare it. The three nodes of a layer norm's backward call are compared with the call as a whole, once both were timed.
//! The choice is made once for the whole step, on a copy of it, so the same file gives the same nodes.
//!
//! With `alone` a node that nothing can be merged with runs as a kernel, too: the sum of a bias gradient, a softmax. With `times` again only
//! where that was not slower.
//!
//! A call that writes in place becomes the one that does not, unless the whole chain overwrites the same storage.
//!
//! # Contract
//! Needs `simplified` and keeps it. The merged body still holds the ATen calls, in an order that gives the same bits (S8); with
//! `exact` (the default) so does the kernel. Random nodes, side effects, and readers of what the step itself changes stay alone.
//!
//! # Not here
//! Costs (`--rk-annotate-cost` takes the traffic off that a fused node saves), code (`rk-kernels`), other reductions,
//! measuring.

mod choice;
mod norms;

use std::collections::{HashMap, HashSet};

use rk_dialect::create::{self, AtenCall, NewNode, NewRun};
use rk_dialect::diagnostic::{Diagnostic, Failure, Remark, RemarkKind};
use rk_dialect::ops::{self, NodeOp, RunOp, StepOp};
use rk_dialect::pass::{OptionSpec, PassContext, PassSpec};
use rk_dialect::pointwise::{Elementwise, storage};
use rk_dialect::{At, Attr, Eraser, Op, Stage, Value};

use self::choice::Apart;
use crate::dataflow::map_values;
use crate::times::{Times, operators};

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "Fuse",
    argument: "rk-fuse",
    description: "Merges pointwise nodes that can run as one generated kernel",
    options: &[
        OptionSpec {
            name: "exact",
            default: "true",
            help: "only operators whose kernel gives ATen's bits; false: also those within a stated error",
        },
        OptionSpec {
            name: "alone",
            default: "false",
            help: "whether nodes that are not merged with others run as kernels, too",
        },
        OptionSpec {
            name: "norms",
            default: "false",
            help: "whether backward calls of layer norms become three nodes with kernels (not with exact)",
        },
        OptionSpec {
            name: "times",
            default: "",
            help: "file of `rk-run --times` of a fused step: kernels that are slower there than their calls are not made",
        },
    ],
    run: |cx| run(cx),
};

/// Tensors that one kernel reads and writes at most: beyond, LLVM's test that they do not overlap is too dear to vectorize.
const MOST_TENSORS: usize = 8;

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let exact: bool = cx.parsed_option("exact")?;
    let alone: bool = cx.parsed_option("alone")?;
    let times = Times::of_option(cx)?;
    let norms = !exact && cx.parsed_option("norms")?;
    let apart = choice::apart(cx, exact, norms, &times)?;
    for step in cx.steps().into_iter().filter(|step| norms && step.stage() == Stage::Simplified) {
        cx.at(step.op());
        norms::split(step, cx.module(), &apart.norms, cx.eraser());
    }
    for step in cx.steps() {
        cx.at(step.op());
        if step.stage() == Stage::Simplified {
            let mut fusion = Fusion::of(step, cx.module(), cx.eraser(), exact, &apart);
            fusion.run();
            if alone {
                fusion.mark_alone(&times);
            }
            let fused = fusion.merges.iter().map(|merge| &merge.first).collect::<HashSet<_>>().len();
            Remark {
                kind: RemarkKind::Passed,
                category: "fuse",
                name: "fused",
                message: "pointwise nodes were merged into their readers",
                metrics: &[("nodes", fused.to_string()), ("kept_apart", apart.len().to_string())],
            }
            .report(step.op().location());
        } else if step.stage() < Stage::Simplified {
            let message = format!("cannot fuse nodes at stage {}; run --rk-simplify first", step.stage());
            return Err(Diagnostic::error(step.op().location(), message).into());
        }
    }
    Ok(())
}

/// A node that was put in front of the calls of another one.
struct Merge {
    first: String,
    second: String,
    /// Its result would have been kept longer than until the next run.
    saves: bool,
}

struct Fusion<'a, 'c> {
    /// Runs with their nodes, by place in the order of execution; `None` where one was merged away.
    runs: Vec<Option<(RunOp<'c>, NodeOp<'c>)>>,
    places: HashMap<Op<'c>, usize>,
    /// Arguments and constants, which live as long as the step.
    resident: HashSet<Value<'c>>,
    /// Arguments that the step itself changes: reading them later is reading something else.
    changed: HashSet<Value<'c>>,
    exact: bool,
    /// What must not be merged.
    apart: &'a Apart,
    merges: Vec<Merge>,
    eraser: &'a Eraser<'c>,
}

impl<'a, 'c> Fusion<'a, 'c> {
    fn of(step: StepOp<'c>, module: Op<'c>, eraser: &'a Eraser<'c>, exact: bool, apart: &'a Apart) -> Self {
        let nodes = ops::nodes_by_symbol(module);
        let ops = step.body().ops().into_iter().filter_map(RunOp::of);
        let runs: Vec<_> =
            ops.filter_map(|run| nodes.get(run.symbol()).map(|&(_, node)| (run, node))).collect();
        let places = runs.iter().enumerate().map(|(place, (run, _))| (run.op(), place)).collect();
        let touches = |node: &NodeOp<'c>| {
            node.is_once() || node.calls().into_iter().any(|call| !call.effects().is_empty())
        };
        let resident: HashSet<Value<'c>> = crate::simplify::resident(step).into_iter().collect();
        let changed = runs.iter().filter(|(_, node)| touches(node)).flat_map(|(run, _)| run.inputs());
        Self {
            changed: changed.filter(|value| resident.contains(value)).collect(),
            resident,
            runs: runs.into_iter().map(Some).collect(),
            places,
            exact,
            apart,
            merges: Vec::new(),
            eraser,
        }
    }

    /// Merges what can be merged.
    fn run(&mut self) {
        for place in (0..self.runs.len()).rev() {
            self.merge(place);
        }
    }

    /// Makes kernels of the nodes that are not merged, but for those that were measured to be slower.
    fn mark_alone(&self, times: &Times) {
        for (_, node) in self.runs.iter().flatten() {
            let body =
                self.pointwise(*node).filter(|body| !body.steps.is_empty() || body.reduction.is_some());
            if body.is_some() && times.slower_by(node.symbol(), &operators(*node)).is_none() {
                node.set_kernel();
            }
        }
    }

    /// Merges the node at this place into all of its readers, or leaves it.
    fn merge(&mut self, place: usize) -> Option<()> {
        let (run, node) = self.runs[place]?;
        let [result] = run.outputs().try_into().ok()?;
        let rows = self.pointwise(node)?.row.is_some();
        if run.inputs().iter().any(|input| self.changed.contains(input)) {
            return None;
        }
        let mut readers: Vec<usize> =
            result.uses().into_iter().map(|one| self.places.get(&one.op).copied()).collect::<Option<_>>()?;
        readers.sort_unstable();
        readers.dedup();
        let last = *readers.last()?;
        let held = self.held_longer(run, last);
        let saved = result.ty().bytes().unwrap_or(0);
        let same_pass = readers.iter().all(|&reader| {
            self.runs[reader].is_some_and(|(_, other)| other.is_backward() == node.is_backward())
        });
        // With nothing in between, operands and result meet in memory anyway.
        let adjacent = self.runs[place + 1..last].iter().all(Option::is_none);
        let fits = (held == 0 && !(rows && readers.len() > 1))
            || (readers.len() == 1 && (adjacent || (same_pass && held <= saved)));
        if !fits {
            return None;
        }
        let symbol = |reader: usize| self.runs[reader].map_or("", |(_, node)| node.symbol()).to_owned();
        let first = node.symbol().to_owned();
        if readers.iter().any(|&reader| self.apart.merges.contains(&(first.clone(), symbol(reader)))) {
            return None;
        }
        let saves = !adjacent && held < saved;
        let merges =
            readers.iter().map(|&reader| Merge { first: first.clone(), second: symbol(reader), saves });
        let merges: Vec<Merge> = merges.collect();
        // All or none: a node that stays for one reader is computed once more for nothing.
        let mut made: Vec<(usize, NodeOp<'c>, Vec<Value<'c>>)> = Vec::new();
        for &reader in &readers {
            let merged = self.runs[reader].and_then(|reader| self.merged((run, node), reader, result));
            match merged {
                Some((node, inputs)) => made.push((reader, node, inputs)),
                None => {
                    made.iter().for_each(|(_, node, _)| self.eraser.erase(node.op()));
                    return None;
                }
            }
        }
        for (reader, node, inputs) in made {
            self.replace(reader, node, &inputs);
        }
        self.eraser.erase(run.op());
        self.eraser.erase(node.op());
        self.runs[place] = None;
        self.merges.extend(merges);
        Some(())
    }

    /// The node as one loop, if it is one within the accuracy that was asked for.
    fn pointwise(&self, node: NodeOp<'c>) -> Option<Elementwise> {
        Elementwise::of(node).ok().filter(|body| !self.exact || body.is_exact())
    }

    /// Bytes of operands of `run` that nobody reads as late as place `until`.
    fn held_longer(&self, run: RunOp<'c>, until: usize) -> u64 {
        let mut seen = HashSet::new();
        let mut inputs = run.inputs();
        inputs.retain(|input| !self.resident.contains(input) && seen.insert(*input));
        let lives = |input: &Value<'c>| {
            // What is no run is a view that feeds the return.
            input.uses().into_iter().any(|one| self.places.get(&one.op).is_none_or(|&place| place >= until))
        };
        inputs.iter().filter(|input| !lives(input)).filter_map(|input| input.ty().bytes()).sum()
    }

    /// The calls of `first` in front of those of `second`, as a new node, with its operands.
    fn merged(
        &self,
        (first_run, first): (RunOp<'c>, NodeOp<'c>),
        (second_run, second): (RunOp<'c>, NodeOp<'c>),
        result: Value<'c>,
    ) -> Option<(NodeOp<'c>, Vec<Value<'c>>)> {
        self.pointwise(second)?;
        let second_inputs = second_run.inputs();
        let taken = second.overwrites().and_then(|index| second_inputs.get(index).copied());
        // The storage that the new node may overwrite, and whether the first node's part goes on writing in place.
        let (overwritten, in_place) = match taken {
            Some(value) if value == result => {
                let storage = first.overwrites().and_then(|index| first_run.inputs().get(index).copied());
                // Unless the second node reads the old version, too.
                let storage = storage.filter(|value| !second_inputs.contains(value));
                (storage, storage.is_some())
            }
            other => (other, false),
        };
        let mut inputs: Vec<Value<'c>> = overwritten.into_iter().collect();
        for value in first_run.inputs().into_iter().chain(second_inputs.iter().copied()) {
            if value != result && !inputs.contains(&value) {
                inputs.push(value);
            }
        }
        let tensors = inputs.iter().filter(|value| value.ty().shape().is_some_and(|shape| !shape.is_empty()));
        if tensors.count() + second.outputs().len() > MOST_TENSORS {
            return None;
        }
        let new = NewNode {
            symbol: format!("{}.rk-fuse", second.symbol()),
            inputs: inputs.iter().map(|value| value.ty()).collect(),
            overwrites: overwritten.is_some().then_some(0),
            backward: second.is_backward(),
            ..NewNode::default()
        };
        let node = new.insert(At::Before(second.op()), second.op().location());
        let body = node.body()?;
        let known: HashMap<Value<'c>, Value<'c>> = inputs.iter().copied().zip(body.arguments()).collect();
        let arguments = |run: RunOp<'c>, known: &HashMap<Value<'c>, Value<'c>>| {
            run.inputs().iter().map(|value| known.get(value).copied()).collect::<Option<Vec<_>>>()
        };
        let copied = || -> Option<()> {
            let from = arguments(first_run, &known)?;
            let value = match first.overwrites() {
                Some(_) if !in_place => inline_out_of_place(first, &from, body)?,
                _ => create::inline(first.body()?, &from, At::End(body)),
            };
            let mut known = known.clone();
            known.insert(result, *value.first()?);
            let from = arguments(second_run, &known)?;
            let yielded = create::inline(second.body()?, &from, At::End(body));
            create::yield_(&yielded, At::End(body), second.op().location());
            Some(())
        };
        if copied().is_none() || self.pointwise(node).is_none() {
            self.eraser.erase(node.op());
            return None;
        }
        node.set_kernel();
        Some((node, inputs))
    }

    /// Puts a merged node in the place of the node and the run that it came from.
    fn replace(&mut self, place: usize, node: NodeOp<'c>, inputs: &[Value<'c>]) {
        let Some((run, old)) = self.runs[place] else { return };
        let symbol = old.symbol().to_owned();
        self.eraser.erase(old.op());
        node.op().set("sym_name", Attr::string(node.op().context(), &symbol));
        let new = NewRun {
            symbol,
            operands: inputs.to_vec(),
            results: run.outputs().into_iter().map(Value::ty).collect(),
            ..NewRun::default()
        }
        .insert(At::Before(run.op()), run.op().location());
        for (old, new) in run.outputs().into_iter().zip(new.outputs()) {
            old.replace_all_uses(new);
        }
        self.places.remove(&run.op());
        self.eraser.erase(run.op());
        self.places.insert(new.op(), place);
        self.runs[place] = Some((new, node));
    }
}

/// Copies a body that overwrites an argument as one that makes fresh results instead: `add_` becomes `add`. Returns what it
/// yields; `None` when an operator has no such form. (The caller's reading of the result as a loop then proves the rest.)
fn inline_out_of_place<'c>(
    node: NodeOp<'c>,
    arguments: &[Value<'c>],
    into: rk_dialect::Block<'c>,
) -> Option<Vec<Value<'c>>> {
    let from = node.body()?;
    let mut now: HashMap<Value<'c>, Value<'c>> =
        from.arguments().into_iter().zip(arguments.iter().copied()).collect();
    let renamed = |now: &HashMap<Value<'c>, Value<'c>>, value: Value<'c>| {
        // Every name of a storage stands for its latest version.
        now.get(&storage(value)).copied().unwrap_or(value)
    };
    for call in node.calls() {
        let mut new = AtenCall::of(call);
        map_values(&mut new.args, &mut |value| renamed(&now, value));
        let written = call.writes().first().and_then(|&index| call.op().operand(index));
        if written.is_some() {
            let (space, name, overload) = call.operator_parts()?;
            let name = name.strip_suffix('_').filter(|name| *name != "copy")?;
            new.operator = format!("{space}.{name}.{overload}");
            new.writes.clear();
            new.aliases.clear();
        }
        let made = new.insert(At::End(into), call.op().location());
        match written {
            Some(written) => drop(now.insert(storage(written), made.op().result(0)?)),
            None => now.extend(call.op().results().into_iter().zip(made.op().results())),
        }
    }
    Some(node.yielded().into_iter().map(|value| renamed(&now, value)).collect())
}
