//! A schedule written down as ops: runs, re-runs, drops and transfers, in the place of what stood there.
//!
//! Not here: which schedule ([`crate::rematerialize`], [`crate::lower`]).

use std::collections::HashMap;

use rk_dialect::create::{self, NewRun};
use rk_dialect::ops::{self, DropOp, RunOp, StepOp, Transfer, WaitOp};
use rk_dialect::{At, Eraser, Op, Type, Value};
use rk_plan::{NodeId, Schedule, Step, ValueId};

use crate::offload::{Line, Moving};
use crate::planning::Problem;

/// Writes the schedule down: runs, re-runs and drops, then the views that feed the return.
pub fn carry_out<'c>(step: StepOp<'c>, problem: &Problem<'c>, schedule: &Schedule, eraser: &Eraser<'c>) {
    write(step, problem, &schedule.0.iter().copied().map(Line::Step).collect::<Vec<_>>(), eraser);
}

/// Like [`carry_out`], with transfers among the runs and drops.
pub fn write<'c>(step: StepOp<'c>, problem: &Problem<'c>, lines: &[Line], eraser: &Eraser<'c>) {
    let Some(end) = step.body().terminator() else { return };
    let old: Vec<Op<'c>> = step.body().ops();
    let mut runs_left = vec![0usize; problem.nodes.len()];
    for line in lines {
        if let Line::Step(Step::Run { node, .. }) = line {
            runs_left[node.index()] += 1;
        }
    }
    let mut now: HashMap<ValueId, Value<'c>> = HashMap::new();
    let mut states: HashMap<NodeId, Value<'c>> = HashMap::new();
    let mut moving = Moving::default();
    for line in lines {
        match *line {
            Line::Step(Step::Run { node, again, overwrite }) => {
                runs_left[node.index()] -= 1;
                let last = runs_left[node.index()] == 0;
                let first = problem.runs[node.index()];
                let made =
                    place_run(problem, node, again, overwrite, last, &now, states.get(&node).copied(), end);
                for (index, value) in made.outputs().into_iter().enumerate() {
                    now.extend(problem.result(node, index).map(|id| (id, value)));
                }
                if let Some(state) = made.generator_result() {
                    states.insert(node, state);
                }
                if let Some(state) = states.get(&node).filter(|_| last) {
                    create::drop(*state, At::Before(end), first.op().location());
                }
            }
            Line::Step(Step::Drop(value)) => {
                if let Some(&live) = now.get(&value) {
                    create::drop(live, At::Before(end), live.location());
                }
            }
            Line::Move(step) => moving.write(step, &mut now, end),
        }
    }
    let renew =
        |value: Value<'c>| problem.value_of(value).and_then(|id| now.get(&id).copied()).unwrap_or(value);
    let (views, gone): (Vec<Op<'c>>, Vec<Op<'c>>) = old
        .into_iter()
        .filter(|op| ops::ConstantOp::of(*op).is_none() && *op != end)
        .partition(|&op| !is_of_a_schedule(op));
    for op in views.into_iter().chain([end]) {
        if op != end {
            op.move_to(At::Before(end));
        }
        let operands: Vec<_> = op.operands().into_iter().map(renew).collect();
        op.set_operands(&operands);
    }
    gone.into_iter().rev().for_each(|op| eraser.erase(op));
}

#[expect(clippy::too_many_arguments, reason = "the state of one walk; a struct would only rename it")]
fn place_run<'c>(
    problem: &Problem<'c>,
    node: NodeId,
    again: bool,
    overwrite: bool,
    last: bool,
    now: &HashMap<ValueId, Value<'c>>,
    state: Option<Value<'c>>,
    end: Op<'c>,
) -> RunOp<'c> {
    let (first, about) = (problem.runs[node.index()], problem.nodes[node.index()]);
    let renew =
        |value: Value<'c>| problem.value_of(value).and_then(|id| now.get(&id).copied()).unwrap_or(value);
    let mut operands: Vec<_> = first.inputs().into_iter().map(renew).collect();
    let mut results: Vec<Type<'c>> = first.outputs().into_iter().map(Value::ty).collect();
    if about.is_random() {
        operands.extend(state.filter(|_| again));
        if !again && !last {
            results.push(Type::generator(end.context()));
        }
    }
    let run = NewRun { symbol: about.symbol().to_owned(), operands, results, again, overwrite };
    run.insert(At::Before(end), first.op().location())
}

/// Runs, drops and transfers: what is written anew.
fn is_of_a_schedule(op: Op<'_>) -> bool {
    let moves = Transfer::of(op).is_some() || WaitOp::of(op).is_some();
    RunOp::of(op).is_some() || DropOp::of(op).is_some() || moves
}
