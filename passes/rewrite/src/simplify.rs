//! `--rk-simplify`: from `dataflow` to `simplified`. One real computation per node; views go where they are read.
//!
//! # Before and after
//! ```mlir
//! %t = rk.aten "aten.t.default"(%w) aliases(0) : ...
//! %h = rk.aten "aten.mm.default"(%x, %t) : ...
//! ==>
//! rk.node @fc { ^bb0(%x: ..., %w: ...): %t = rk.aten "aten.t.default"(%w) aliases(0); %h = rk.aten "aten.mm.default"(%x, %t); rk.yield %h }
//! %fc = rk.run @fc(%x, %w) : ...
//! ```
//!
//! # How
//! Every call that is not a view, and every `rk.write`, becomes a node that reads bases only: the views between a base and
//! the call are built again in its body, where they cost nothing. So what a schedule keeps or drops is storage, never a
//! second name for it. An `empty` that only one write reads moves into that write's node.
//!
//! # Contract
//! Needs `dataflow`, establishes `simplified`: the function holds constants, one `rk.run` per node in the original order, and
//! the views that feed the `return`.
//!
//! # Not here
//! Merging of nodes: a node is the smallest thing that can run again.

use std::collections::{HashMap, HashSet};

use rk_dialect::create::{self, NewNode, NewRun};
use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::{AtenOp, ConstantOp, StepOp, WriteOp};
use rk_dialect::pass::{PassContext, PassSpec};
use rk_dialect::{At, Block, Eraser, Op, Stage, Value};

use crate::names::Names;
use crate::views;

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "Simplify",
    argument: "rk-simplify",
    description: "Makes one node of every real computation, with the views that it reads in its body",
    options: &[],
    run: |cx| run(cx),
};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let mut names = Names::default();
    for op in cx.module().body().map(Block::ops).unwrap_or_default() {
        if let Some(symbol) = op.get("sym_name").and_then(|name| name.as_str()) {
            names.reserve(symbol);
        }
    }
    for step in cx.steps_at(Stage::Dataflow) {
        cx.at(step.op());
        simplify(step, &mut names, cx.eraser())?;
        step.set_stage(Stage::Simplified);
    }
    Ok(())
}

fn simplify<'c>(step: StepOp<'c>, names: &mut Names, eraser: &Eraser<'c>) -> Result<(), Failure<'c>> {
    let ops = step.body().ops();
    let resident: HashSet<Value<'c>> = resident(step).into_iter().collect();
    let folded: HashSet<Op<'c>> = ops.iter().filter_map(|&op| allocation_of(op)).map(AtenOp::op).collect();
    let computations: Vec<Op<'c>> =
        ops.iter().copied().filter(|&op| is_computation(op) && !folded.contains(&op)).collect();
    for &op in &computations {
        let call = main_call(op).ok_or_else(|| {
            Diagnostic::error(op.location(), format!("'{}' is not an op of stage dataflow", op.name()))
        })?;
        names.announce(call.module_path(), call.is_backward());
    }
    let mut now: HashMap<Value<'c>, Value<'c>> = HashMap::new();
    for &op in &computations {
        node(step, op, names, &resident, &mut now)?;
    }
    if let Some(end) = step.body().terminator() {
        // The views that feed the return are built right before it, on the results of the runs.
        let mut returned = Vec::new();
        for value in end.operands() {
            returned.push(rebuild_before(value, &mut now, end));
        }
        end.set_operands(&returned);
    }
    let dead = ops.into_iter().filter(|&op| is_computation(op) || views_only(op));
    dead.collect::<Vec<_>>().into_iter().rev().for_each(|op| eraser.erase(op));
    Ok(())
}

/// Arguments and constants: what exists before the step.
pub fn resident(step: StepOp<'_>) -> Vec<Value<'_>> {
    let constants = step.body().ops().into_iter().filter_map(ConstantOp::of);
    step.arguments().into_iter().chain(constants.flat_map(|constant| constant.op().results())).collect()
}

fn views_only(op: Op<'_>) -> bool {
    AtenOp::of(op).is_some_and(AtenOp::is_view)
}

fn is_computation(op: Op<'_>) -> bool {
    AtenOp::of(op).is_some_and(|call| !call.is_view()) || WriteOp::of(op).is_some()
}

/// The call that gives a computation its name: itself, or the last one in the body of a write.
fn main_call(op: Op<'_>) -> Option<AtenOp<'_>> {
    let body = WriteOp::of(op).and_then(WriteOp::body).map(Block::ops).unwrap_or_default();
    AtenOp::of(op).or_else(|| body.into_iter().rev().find_map(AtenOp::of))
}

/// The `empty` whose result only this write reads: nothing of it survives the write, so they are one computation.
fn allocation_of(op: Op<'_>) -> Option<AtenOp<'_>> {
    let old = WriteOp::of(op)?.old()?;
    let call = AtenOp::of(old.producer()?.0)?;
    let empty = call.operator().starts_with("aten.empty") && call.op().operand_count() == 0;
    (empty && old.uses().len() == 1).then_some(call)
}

fn node<'c>(
    step: StepOp<'c>,
    op: Op<'c>,
    names: &mut Names,
    resident: &HashSet<Value<'c>>,
    now: &mut HashMap<Value<'c>, Value<'c>>,
) -> Result<(), Failure<'c>> {
    let call = main_call(op).expect("announced by the caller");
    let write = WriteOp::of(op);
    let allocation = allocation_of(op);
    let mut inputs = Vec::new();
    for (index, operand) in op.operands().into_iter().enumerate() {
        if !(index == 0 && allocation.is_some()) {
            views::roots(operand, &mut inputs);
        }
    }
    let body_calls = write.and_then(WriteOp::body).map(Block::ops).unwrap_or_default();
    let random = body_calls.iter().copied().chain([op]).filter_map(AtenOp::of).any(AtenOp::is_random);
    let writes_state = AtenOp::of(op).is_some_and(|call| !call.writes().is_empty());
    if let Some(operand) = call.writes().first().and_then(|&index| op.operand(index)).filter(|_| writes_state)
        && !resident.contains(&views::base(operand))
    {
        let message = format!("'{}' writes to a value outside of rk.write", call.operator());
        return Err(Diagnostic::error(op.location(), message).into());
    }
    let new = NewNode {
        symbol: names.name(call.module_path(), call.operator(), call.is_backward()),
        inputs: inputs.iter().map(|value| value.ty()).collect(),
        overwrites: (write.is_some() && allocation.is_none()).then_some(0),
        random,
        once: writes_state,
        backward: call.is_backward(),
        cost: None,
    };
    let node = new.insert(At::Before(step.op()), op.location());
    let body = node.body().expect("NewNode makes a body");
    let mut known: HashMap<Value<'c>, Value<'c>> = inputs.iter().copied().zip(body.arguments()).collect();
    let yielded = match write {
        Some(write) => {
            if let Some(allocation) = allocation {
                let made = allocation.op().clone_to(At::End(body));
                known.extend(allocation.op().results().into_iter().zip(made.results()));
            }
            let operands: Vec<_> =
                op.operands().into_iter().map(|value| views::rebuild(value, &mut known, body)).collect();
            let from = write.body().expect("verified");
            create::inline(from, &operands, At::End(body))
        }
        None => {
            let operands: Vec<_> =
                op.operands().into_iter().map(|value| views::rebuild(value, &mut known, body)).collect();
            let made = op.clone_to(At::End(body));
            made.set_operands(&operands);
            made.results()
        }
    };
    // A view and what nobody reads need no name outside.
    let read = |&index: &usize| op.result(index).is_some_and(|value| !value.is_unused());
    let kept: Vec<usize> = (0..op.result_count()).filter(read).collect();
    if let Some(&undefined) =
        kept.iter().find(|&&index| op.result(index).is_some_and(|value| value.ty().is_none()))
    {
        let message = format!(
            "result {undefined} of '{}' is an undefined tensor (its type is none), and nothing can read one: write none \
             as the argument that it is, and leave it out of what the step returns",
            call.operator()
        );
        return Err(Diagnostic::error(op.location(), message).into());
    }
    if let Some(&view) =
        kept.iter().find(|&&index| AtenOp::of(op).is_some_and(|call| call.base_of(index).is_some()))
    {
        let message =
            format!("result {view} of '{}' shares storage with an operand, others do not", call.operator());
        return Err(Diagnostic::error(op.location(), message).into());
    }
    let outputs: Vec<_> = kept.iter().map(|&index| yielded[index]).collect();
    create::yield_(&outputs, At::End(body), op.location());
    let operands: Vec<_> = inputs.iter().map(|value| now.get(value).copied().unwrap_or(*value)).collect();
    let run = NewRun {
        symbol: node.symbol().to_owned(),
        operands,
        results: outputs.iter().map(|value| value.ty()).collect(),
        ..NewRun::default()
    };
    let made = run.insert(At::Before(op), op.location());
    for (number, index) in kept.into_iter().enumerate() {
        if let (Some(old), Some(new)) = (op.result(index), made.op().result(number)) {
            now.insert(old, new);
        }
    }
    Ok(())
}

fn rebuild_before<'c>(value: Value<'c>, now: &mut HashMap<Value<'c>, Value<'c>>, end: Op<'c>) -> Value<'c> {
    if let Some(&known) = now.get(&value) {
        return known;
    }
    let Some(call) = views::view_of(value) else { return value };
    let operands: Vec<_> =
        call.op().operands().into_iter().map(|operand| rebuild_before(operand, now, end)).collect();
    let made = call.op().clone_to(At::Before(end));
    made.set_operands(&operands);
    now.extend(call.op().results().into_iter().zip(made.results()));
    now.get(&value).copied().unwrap_or(value)
}
