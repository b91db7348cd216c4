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
//! a roofline time ([`roofline`]), and the module then says so in `rk.cost_model`. A node that runs as one generated kernel
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
use rk_dialect::{Attr, Cost, Op, Stage, Tensor, Value};

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
    let times = Times::of_option(cx)?;
    let mut estimated = false;
    let mut given: HashSet<&str> = HashSet::new();
    for node in ops::nodes(module) {
        if node.cost().is_none() {
            let fused = node.op().get("rk.kernel").is_some();
            let (mut cost, guessed) = if fused { kernel_cost(node) } else { node_cost(node, alignment) };
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
    if estimated || module.get("rk.cost_model").is_none() {
        module.set(
            "rk.cost_model",
            Attr::string(cx.context(), if estimated { "roofline" } else { "measured" }),
        );
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
        if let Some(class) = node.op().get("rk.node_class").and_then(Attr::as_i64) {
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
fn node_cost(node: NodeOp<'_>, alignment: u64) -> (Cost, bool) {
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
        let own = known.unwrap_or_else(|| roofline(call));
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
fn kernel_cost(node: NodeOp<'_>) -> (Cost, bool) {
    let calls: Vec<AtenOp<'_>> = node.calls().into_iter().filter(|call| !call.is_view()).collect();
    let estimated = calls.iter().any(|call| call.cost().is_none());
    let times = || calls.iter().map(|&call| call.cost().unwrap_or_else(|| roofline(call)).time);
    let between = calls.iter().rev().skip(1).flat_map(|call| call.op().results());
    let saved =
        |value: Value<'_>| 2 * value.ty().bytes().unwrap_or(0) / BYTES_PER_NANOSECOND + LAUNCH_NANOSECONDS;
    let time = times().sum::<u64>().saturating_sub(between.map(saved).sum());
    (Cost { time: time.max(times().max().unwrap_or(0)), workspace: 0 }, estimated)
}

/// One CPU core with vector units: 8 GB/s from memory, 30 GFLOP/s. Only ratios matter to a plan.
const BYTES_PER_NANOSECOND: u64 = 8;
const FLOPS_PER_NANOSECOND: u64 = 30;
/// What any call costs, however small: dispatch and allocation.
const LAUNCH_NANOSECONDS: u64 = 1000;

/// A time from sizes alone: the larger of memory traffic and arithmetic, plus a launch. No workspace.
///
/// Source: Williams, Waterman, Patterson, "Roofline", CACM 2009, with two fixed ceilings.
pub fn roofline(call: AtenOp<'_>) -> Cost {
    let tensors = |values: Vec<Value<'_>>| -> Vec<(u64, Vec<i64>)> {
        let known = values.into_iter().filter_map(|value| Tensor::of(value.ty()));
        known.map(|tensor| (tensor.storage, tensor.shape)).collect()
    };
    let operands = tensors(call.op().operands());
    let results = tensors(call.op().results());
    let bytes: u64 = operands.iter().chain(&results).map(|(bytes, _)| bytes).sum();
    let elements = |shape: &[i64]| shape.iter().map(|&size| size.unsigned_abs()).product::<u64>();
    let largest = operands.iter().chain(&results).map(|(_, shape)| elements(shape)).max().unwrap_or(0);
    let flops = match call.operator_parts().map(|(_, name, _)| name) {
        Some("mm" | "bmm" | "addmm" | "baddbmm") => {
            let inner =
                operands.iter().rev().nth(1).and_then(|(_, shape)| shape.last()).copied().unwrap_or(1);
            2 * results.first().map_or(0, |(_, shape)| elements(shape)).saturating_mul(inner.unsigned_abs())
        }
        Some("convolution" | "_convolution" | "convolution_backward") => {
            let weight = operands.iter().map(|(_, shape)| shape).rfind(|shape| shape.len() > 2);
            let per_output = weight.map_or(1, |shape| elements(&shape[1..]));
            let times = if call.is_backward() { 4 } else { 2 };
            largest.saturating_mul(per_output).saturating_mul(times)
        }
        _ => largest,
    };
    let time = (bytes / BYTES_PER_NANOSECOND).max(flops / FLOPS_PER_NANOSECOND);
    Cost { time: time.saturating_add(LAUNCH_NANOSECONDS), workspace: 0 }
}
