//! `--rk-verify-stage`: checks that a step satisfies the contract of its stage.
//!
//! # Before and after
//! The IR is not changed. What breaks the contract is an error at the op that breaks it.
//!
//! # Contract
//! Needs any stage; the table in docs/ir.md says what each promises. The laws of `scheduled` and `lowered` are MLIR
//! verifiers already, and `--rk-verify-schedule` judges S7.

use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::{
    self, AtenOp, BufferOp, ConstantOp, DropOp, LaunchOp, LoadStateOp, RunOp, SaveStateOp, StepOp, Transfer,
    WaitOp, WriteOp,
};
use rk_dialect::pass::{PassContext, PassSpec};
use rk_dialect::{Op, Stage, Value};

use crate::{simplify, views};

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "VerifyStage",
    argument: "rk-verify-stage",
    description: "Checks that every step satisfies the contract of its stage",
    options: &[],
    run: |cx| run(cx),
};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    for step in cx.steps() {
        cx.at(step.op());
        ops_belong(step)?;
        match step.stage() {
            Stage::Dataflow => values_only(step)?,
            Stage::Simplified | Stage::Blocks | Stage::Costed => one_run_each(step, cx.module())?,
            Stage::Raw | Stage::Scheduled | Stage::Lowered => {}
        }
        if step.stage() >= Stage::Costed {
            every_node_has_a_cost(cx.module())?;
        }
    }
    Ok(())
}

fn refuse<'c>(step: StepOp<'c>, op: Op<'c>, why: &str) -> Diagnostic<'c> {
    let name = op.results().first().map_or(op.name().to_owned(), |&value| rk_dialect::names::of(value));
    Diagnostic::error(op.location(), format!("stage {}: '{name}' {why}", step.stage()))
        .note(step.op().location(), format!("the stage of '{}' is declared here", step.symbol()))
}

/// Only the ops that the stage has.
fn ops_belong(step: StepOp<'_>) -> Result<(), Diagnostic<'_>> {
    let end = step.body().terminator();
    for op in step.body().ops().into_iter().filter(|&op| Some(op) != end) {
        let belongs = ConstantOp::of(op).is_some()
            || match step.stage() {
                Stage::Raw => AtenOp::of(op).is_some(),
                Stage::Dataflow => AtenOp::of(op).is_some() || WriteOp::of(op).is_some(),
                Stage::Simplified | Stage::Blocks | Stage::Costed => RunOp::of(op).is_some() || is_view(op),
                Stage::Scheduled => {
                    RunOp::of(op).is_some() || DropOp::of(op).is_some() || is_move(op) || is_view(op)
                }
                Stage::Lowered => is_lowered(op) || is_view(op),
            };
        if !belongs {
            return Err(refuse(step, op, &format!("is an {}, which this stage does not have", op.name())));
        }
    }
    Ok(())
}

fn is_lowered(op: Op<'_>) -> bool {
    let copies = SaveStateOp::of(op).is_some() || LoadStateOp::of(op).is_some();
    BufferOp::of(op).is_some() || LaunchOp::of(op).is_some() || copies
}

fn is_move(op: Op<'_>) -> bool {
    Transfer::of(op).is_some() || WaitOp::of(op).is_some()
}

fn is_view(op: Op<'_>) -> bool {
    AtenOp::of(op).is_some_and(AtenOp::is_view)
}

/// Nothing fresh is written in place, no `detach`, nothing dead.
fn values_only(step: StepOp<'_>) -> Result<(), Diagnostic<'_>> {
    let resident = simplify::resident(step);
    for call in step.body().ops().into_iter().filter_map(AtenOp::of) {
        let written = call.writes().into_iter().filter_map(|index| call.op().operand(index));
        if let Some(value) = written.map(views::base).find(|base| !resident.contains(base)) {
            let name = rk_dialect::names::of(value);
            return Err(refuse(
                step,
                call.op(),
                &format!("overwrites '{name}', which is not state of the model"),
            ));
        }
        if call.operator() == "aten.detach.default" {
            return Err(refuse(step, call.op(), "only renames a value"));
        }
        let effect = call.is_random() || !call.writes().is_empty() || !call.effects().is_empty();
        if !effect && call.op().results().into_iter().all(Value::is_unused) {
            return Err(refuse(step, call.op(), "is dead"));
        }
    }
    Ok(())
}

/// Every run is the first of its node, in the order of the nodes.
fn one_run_each<'c>(step: StepOp<'c>, module: Op<'c>) -> Result<(), Diagnostic<'c>> {
    let places = ops::nodes_by_symbol(module);
    let mut last = None;
    for run in step.body().ops().into_iter().filter_map(RunOp::of) {
        let place = places.get(run.symbol()).map(|(place, _)| *place);
        if run.is_again() || run.is_overwrite() {
            return Err(refuse(step, run.op(), "is a decision of a schedule"));
        }
        if place <= last {
            return Err(refuse(step, run.op(), "does not run in the original order"));
        }
        last = place;
    }
    Ok(())
}

fn every_node_has_a_cost(module: Op<'_>) -> Result<(), Diagnostic<'_>> {
    match ops::nodes(module).into_iter().find(|node| node.cost().is_none()) {
        Some(node) => {
            Err(Diagnostic::error(node.op().location(), format!("node '{}' has no cost", node.symbol())))
        }
        None => Ok(()),
    }
}
