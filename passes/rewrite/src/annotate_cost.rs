//! `--rk-annotate-cost`: from `simplified` to `costed`. Every node says what one run takes.
//!
//! # Before and after
//! ```mlir
//! rk.node @fc { ... rk.aten "aten.mm.default"(...) cost <900 ns, workspace 64 B> ... }
//! ==>
//! rk.node @fc cost <900 ns, workspace 64 B> { ... }
//! ```
//!
//! # How
//! Time is the sum over the calls in the body. Workspace is the most bytes that the body needs beyond what it yields:
//! what calls were measured to need, and results that stay inside. Calls that the importer did not measure are given
//! the time of a roofline model ([`rk_vocabulary::roofline`]) of the device in `rk.device`, as the importer gives it without `--measure`,
//! and the module then says so in `rk.cost_model`. A node that runs as one generated kernel
//! (`rk.kernel`, from `--rk-fuse`) has no intermediates: their traffic and their launches are taken off, and it has no workspace.
//!
//! Nodes that `--rk-anonymize` found to cost the same get one cost: the mean of their times, so that the step's total stays what it
//! is, and the largest of their workspaces, so that a budget is kept wherever a plan is broadcast. A remark says how far
//! they were apart: not at all when `rk-import` measured one call per class, and by noise when it measured every call.
//!
//! A costed step is what the planner needs. To have its graph alone, in the schema of the planner's instances, with times in nanoseconds:
//!
//! ```text
//! rk-opt raw.mlir --rk-dataflow --rk-simplify --rk-annotate-cost -o costed.mlir
//! rk-translate costed.mlir --to graph -o graph.json
//! rk-plan graph.json --budget 60%
//! ```
//!
//! With `times=FILE` the times of nodes are those of the file, which `rk-run --times` measured inside whole steps: with their caches, their
//! dispatch, their generated kernels and the libraries' threads as they are when the plan is carried out. A call that is timed alone,
//! over and over, has none of these. A node that is not in the file keeps the sum of its calls. Of a step that was planned the file has
//! the times of second runs where there are any: between other neighbours, and in less memory, they take another time than the first.
//!
//! # Contract
//! Needs `simplified` or `blocks`, establishes `costed`: every node has a `cost`.
//!
//! # Not here
//! Measuring: that needs a device (`rk-import --measure`).

use std::collections::{BTreeMap, HashSet};

use crate::times::Times;
use rk_dialect::diagnostic::{Failure, Remark, RemarkKind};
use rk_dialect::ops::{self, AtenOp, NodeOp, RunOp, StepOp};
use rk_dialect::pass::{OptionSpec, PassContext, PassSpec};
use rk_dialect::{Arg, Cost, Op, Recorded, Stage, Tensor, Value};
use rk_vocabulary::roofline::{self, Roofline, Truth};

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "AnnotateCost",
    argument: "rk-annotate-cost",
    description: "Gives every node its time and workspace, from the calls in its body",
    options: &[OptionSpec {
        name: "times",
        default: "",
        help: "file of `rk-run --times`: nanoseconds of every node, measured in whole steps",
    }],
    run: |cx| run(cx),
};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let module = cx.module();
    let mut steps = cx.steps_at(Stage::Simplified);
    steps.extend(cx.steps_at(Stage::Blocks));
    if steps.is_empty() {
        return Ok(());
    }
    let alignment = crate::alignment(module);
    let machine = Roofline::of_device(&crate::device(module));
    let times = Times::of_option(cx)?;
    let mut estimated = false;
    let mut given: HashSet<&str> = HashSet::new();
    for node in ops::nodes(module) {
        if node.cost().is_none() {
            let fused = node.has_kernel();
            let (mut cost, guessed) =
                if fused { kernel_cost(node, machine) } else { node_cost(node, alignment, machine) };
            match times.of(node) {
                Some(time) => cost.time = time,
                None => estimated |= guessed,
            }
            node.op().set("cost", cost.attr(cx.context()));
            given.insert(node.symbol());
        }
    }
    for step in &steps {
        even_out(*step, module, &given);
    }
    let mut recorded = Recorded::of(module);
    if estimated || recorded.cost_model.is_none() {
        recorded.cost_model = Some(if estimated { "roofline" } else { "measured" }.to_owned());
        recorded.write(module);
    }
    steps.into_iter().for_each(|step| step.set_stage(Stage::Costed));
    Ok(())
}

/// One cost for the nodes of a class, among those that were `given` theirs here.
fn even_out<'c>(step: StepOp<'c>, module: Op<'c>, given: &HashSet<&str>) {
    let nodes = ops::nodes_by_symbol(module);
    let runs = step.body().ops().into_iter().filter_map(RunOp::of).filter(|run| given.contains(run.symbol()));
    let mut classes: BTreeMap<i64, Vec<NodeOp<'c>>> = BTreeMap::new();
    for (_, node) in runs.filter_map(|run| nodes.get(run.symbol())) {
        if let Some(class) = node.node_class() {
            classes.entry(class).or_default().push(*node);
        }
    }
    let (mut moved, mut total) = (0u64, 0u64);
    for members in classes.values() {
        let costs: Vec<Cost> = members.iter().filter_map(|node| node.cost()).collect();
        let sum: u64 = costs.iter().map(|cost| cost.time).sum();
        let mean = Cost {
            time: sum / (costs.len() as u64).max(1),
            workspace: costs.iter().map(|cost| cost.workspace).max().unwrap_or(0),
        };
        moved += costs.iter().map(|cost| cost.time.abs_diff(mean.time)).sum::<u64>();
        total += sum;
        members.iter().for_each(|node| node.op().set("cost", mean.attr(step.op().context())));
    }
    if classes.is_empty() {
        return;
    }
    let percent = 100.0 * moved as f64 / total.max(1) as f64;
    Remark {
        kind: RemarkKind::Analysis,
        category: "annotate-cost",
        name: "classes",
        message: &format!(
            "one cost for each of {} classes of nodes, {percent:.1}% of the time from the costs of single nodes",
            classes.len()
        ),
        metrics: &[("node_classes", classes.len().to_string()), ("moved_percent", format!("{percent:.3}"))],
    }
    .report(step.op().location());
}

/// The cost of a node from the calls in its body, and whether any of it is an estimate.
fn node_cost(node: NodeOp<'_>, alignment: u64, machine: Roofline) -> (Cost, bool) {
    let yielded: HashSet<Value<'_>> = node.yielded().into_iter().collect();
    let mut cost = Cost::default();
    let mut estimated = false;
    let mut inside = 0u64;
    for call in node.calls() {
        if call.is_view() {
            continue;
        }
        let known = call.cost();
        estimated |= known.is_none();
        let own = known.unwrap_or_else(|| estimate(call, machine));
        let fresh = call.op().results().into_iter().zip(call.aliases()).filter(|(_, base)| base.is_none());
        let stays = fresh.filter(|(value, _)| !yielded.contains(value));
        inside += stays
            .filter_map(|(value, _)| value.ty().bytes())
            .map(|b| b.next_multiple_of(alignment))
            .sum::<u64>();
        cost.time = cost.time.saturating_add(own.time);
        cost.workspace = cost.workspace.max(inside.saturating_add(own.workspace));
    }
    (cost, estimated)
}

/// The cost of a node that runs as one kernel, and whether any of it is an estimate: the sum of its calls, without the time that all
/// but the last spend on a launch and on a result that is written and read again. Not less than its dearest call.
fn kernel_cost(node: NodeOp<'_>, machine: Roofline) -> (Cost, bool) {
    let calls: Vec<AtenOp<'_>> = node.calls().into_iter().filter(|call| !call.is_view()).collect();
    let estimated = calls.iter().any(|call| call.cost().is_none());
    let times = || calls.iter().map(|&call| call.cost().unwrap_or_else(|| estimate(call, machine)).time);
    let between = calls.iter().rev().skip(1).flat_map(|call| call.op().results());
    let saved = |value: Value<'_>| machine.nanos_saved(value.ty().bytes().unwrap_or(0) as f64);
    let time = times().sum::<u64>().saturating_sub(between.map(saved).sum());
    (Cost { time: time.max(times().max().unwrap_or(0)), workspace: 0 }, estimated)
}

/// A time from sizes alone, where nobody timed the call. No workspace.
fn estimate(call: AtenOp<'_>, machine: Roofline) -> Cost {
    let (operands, results) = (tensors(call.op().operands()), tensors(call.op().results()));
    let moved = operands.iter().chain(&results).flatten().map(bytes).sum();
    let sizes = |tensors: Vec<Option<Tensor<'_>>>| {
        tensors.into_iter().map(|tensor| tensor.map(|tensor| tensor.shape)).collect()
    };
    let args = call.args();
    let seen = roofline::Call {
        operator: call.operator_parts().map_or("", |(_, name, _)| name),
        operands: sizes(operands),
        results: sizes(results),
        args: args.iter().map(truth).collect(),
    };
    Cost { time: machine.nanos(moved, seen.operations()), workspace: 0 }
}

fn tensors<'c>(values: Vec<Value<'c>>) -> Vec<Option<Tensor<'c>>> {
    values.into_iter().map(|value| Tensor::of(value.ty())).collect()
}

/// Bytes of the elements, which are what a call moves: a view of a large storage is read no further than it reaches.
fn bytes(tensor: &Tensor<'_>) -> f64 {
    tensor.elements() as f64 * tensor.element.element_bytes().unwrap_or(0) as f64
}

fn truth(arg: &Arg<'_>) -> Truth {
    match arg {
        Arg::Bool(value) => Truth::One(*value),
        Arg::List(elements) => {
            Truth::List(elements.iter().map(|element| matches!(element, Arg::Bool(true))).collect())
        }
        _ => Truth::Other,
    }
}
