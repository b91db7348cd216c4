//! `--rk-lower`: from `scheduled` to `lowered`. Gives every value an address, and turns runs into kernel launches.
//!
//! # Before and after
//! ```mlir
//! %norm = rk.run @norm(%x) : (tensor<32x32xf32>) -> tensor<32x32xf32>
//! %up = rk.run @up(%norm) : (tensor<32x32xf32>) -> tensor<64x32xf32>
//! rk.drop %norm : tensor<32x32xf32>
//! ==>
//! %norm = rk.buffer arena[0] : tensor<32x32xf32>
//! rk.launch @norm(%x) into(%norm) stream(0) : (tensor<32x32xf32>) -> tensor<32x32xf32>
//! %up = rk.buffer arena[4096] : tensor<64x32xf32>
//! rk.launch @up(%norm) into(%up) stream(0) : (tensor<32x32xf32>) -> tensor<64x32xf32>
//! ```
//!
//! # How
//! Values, workspaces and kept generator states lie in one arena (`placing.rs`): where the plan put them (`rk.offsets`), or else where
//! `rk-plan` packs them, also if the plan's layout has gaps and packing finds a lower one. Arguments and constants stay where they are; gradients have a space of their own, because they outlive the step. Saving and replaying
//! random state becomes explicit copies. Drops vanish: a place is free after its last use. Stages that are missing are
//! run first: with a budget the step is planned for it, without one it keeps everything, in its original order.
//!
//! With several streams, second runs leave the first one. The layout is the same: a launch waits for whoever used its bytes before,
//! wherever that ran, so a second run overlaps as far as its place was free already.
//!
//! # Contract
//! Needs any stage, establishes `lowered`: S1 to S7 and S9 hold on addresses, so an arena larger than `rk.budget` is an error.
//! Leaves lowered steps alone, and refuses a scheduled one with transfers between device and host memory.
//!
//! # Not here
//! Which layout is good (`passes/plan`), code for kernels, execution (`codegen`).

use std::collections::HashMap;

use rk_dialect::create::{self, NewLaunch};
use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::{ConstantOp, DropOp, RunOp, Space, StepOp};
use rk_dialect::pass::{OptionSpec, PassContext, PassSpec};
use rk_dialect::{At, Eraser, Op, PlanSummary, Stage, Type, Value, transfers};
use rk_plan::{Bytes, Schedule, Sequence, base_trace, judge_schedule, readable};

use crate::carry_out::carry_out;
use crate::placing::{Judged, Placement};
use crate::planning::Problem;
use crate::{exit, resident, verify_schedule};

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "Lower",
    argument: "rk-lower",
    description: "Gives every value an address in one arena, and turns runs into kernel launches",
    options: &[
        OptionSpec { name: "target", default: "", help: "cpu or cuda; without it, the device of the module" },
        OptionSpec { name: "chip", default: "", help: "sm_80, sm_90, ...: the GPU, for target=cuda" },
        OptionSpec {
            name: "streams",
            default: "1",
            help: "more than 1: groups of second runs take turns on streams of their own, where they may overlap with what they need not wait for",
        },
        OptionSpec {
            name: "budget",
            default: "",
            help: "as for rematerialize, for a step that is not scheduled yet; without it, nothing runs twice",
        },
    ],
    run: |cx| run(cx),
};

/// What machines the launches are for.
struct Target {
    device: String,
    chip: Option<String>,
    streams: u32,
}

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let target = target(cx).inspect_err(|_| exit::set(exit::BAD_OPTION))?;
    let missing = |stage: Stage| cx.steps().iter().any(|step| step.stage() < stage);
    let budget = cx.option("budget");
    if missing(Stage::Scheduled) && !budget.is_empty() {
        cx.run_passes(&format!("rematerialize{{budget={budget}}}"))?;
    } else if missing(Stage::Costed) {
        cx.run_passes("rk-dataflow,rk-simplify,rk-anonymize,rk-annotate-cost")?;
    }
    for step in cx.steps() {
        cx.at(step.op());
        if step.stage() == Stage::Costed {
            keep_all(step, cx)?;
        }
        if step.stage() == Stage::Scheduled {
            lower(step, cx, &target)?;
        }
    }
    Ok(())
}

fn target<'c>(cx: &PassContext<'c>) -> Result<Target, Failure<'c>> {
    let module = cx.module();
    let refuse = |message: String| Err(cx.refused(message));
    let recorded = crate::device(module);
    let recorded = recorded.split(':').next().unwrap_or_default().to_owned();
    let (wanted, chip) = (cx.option("target"), cx.option("chip"));
    let device = if wanted.is_empty() { recorded.clone() } else { wanted };
    if !["cpu", "cuda"].contains(&device.as_str()) {
        return refuse(format!("target '{device}' is neither cpu nor cuda"));
    }
    if device != recorded {
        return refuse(format!(
            "the step was recorded on {recorded}, its kernels and workspaces are not those of {device}; import it again with --device {device}"
        ));
    }
    let streams: u32 = cx.parsed_option("streams")?;
    if !(1..=16).contains(&streams) {
        return refuse(format!("{streams} streams: there can be 1 to 16"));
    }
    let number = chip.strip_prefix("sm_").and_then(|number| number.parse::<u32>().ok());
    match (device.as_str(), chip.is_empty(), number) {
        ("cpu", false, _) => refuse(format!("chip '{chip}' is a GPU, the target is cpu")),
        (_, true, _) => Ok(Target { chip: (device == "cuda").then(|| "sm_90".to_owned()), device, streams }),
        (_, _, Some(70..)) => Ok(Target { chip: Some(chip), device, streams }),
        _ => refuse(format!("chip '{chip}' is no GPU that can be compiled for, such as sm_80 or sm_90")),
    }
}

/// The schedule without rematerialization: the original order, every value dropped at its last use.
fn keep_all<'c>(step: StepOp<'c>, cx: &PassContext<'c>) -> Result<(), Failure<'c>> {
    let problem = Problem::of(step, cx.module())?;
    let schedule = Schedule::from_sequence(&problem.graph, &Sequence::base(&problem.graph))
        .map_err(|illegal| bug(step, &illegal.describe(&problem.graph)))?;
    carry_out(step, &problem, &schedule, cx.eraser());
    step.set_stage(Stage::Scheduled);
    let trace = base_trace(&problem.graph);
    let summary = PlanSummary {
        peak: Some(trace.peak.0),
        base_peak: Some(trace.peak.0),
        time: Some(trace.time.0),
        base_time: Some(trace.time.0),
        resident: Some(resident::bytes(step, cx.module()).0),
        ..PlanSummary::of(step)
    };
    summary.write(step);
    Ok(())
}

fn bug<'c>(step: StepOp<'c>, what: &str) -> Diagnostic<'c> {
    Diagnostic::error(
        step.op().location(),
        format!("the schedule of '{}' breaks a law: {what}", step.symbol()),
    )
}

fn lower<'c>(step: StepOp<'c>, cx: &PassContext<'c>, target: &Target) -> Result<(), Failure<'c>> {
    let module = cx.module();
    if let Some(refused) = transfers::refused(step, "a lowered step") {
        exit::set(exit::WRONG_STAGE);
        return Err(refused.into());
    }
    let problem = Problem::of(step, module)?;
    let schedule = problem.schedule_of(step)?;
    let trace = judge_schedule(&problem.graph, &schedule, None)
        .map_err(|illegal| bug(step, &illegal.describe(&problem.graph)))?;
    let said = PlanSummary::of(step);
    let budget = said.budget;
    let judged = Judged { problem: &problem, step, module, schedule: &schedule, trace: &trace };
    let placement = Placement::of(judged, budget)?;
    if let Some(budget) = budget.filter(|&budget| placement.arena > budget) {
        exit::set(exit::NONE_FOUND);
        let message = format!(
            "S7: no layout of '{}' within its budget of {} was found: its values need {}, the smallest arena found takes {} ({} bytes)",
            step.symbol(),
            readable(Bytes(budget)),
            readable(trace.peak),
            readable(Bytes(placement.arena)),
            placement.arena,
        );
        return Err(Diagnostic::error(step.op().location(), message).into());
    }
    write(step, &problem, &placement, target.streams, cx.eraser());
    step.set_stage(Stage::Lowered);
    let said = PlanSummary {
        arena: Some(placement.arena),
        gradients: Some(placement.gradients),
        target: Some(target.device.clone()),
        chip: target.chip.clone(),
        // From here on addresses stand in the buffers.
        offsets: None,
        ..said
    };
    said.write(step);
    // What was written is read back and judged by other code.
    verify_schedule::judge(step, module)?;
    Ok(())
}

/// Replaces runs by launches, drops by nothing.
fn write<'c>(
    step: StepOp<'c>,
    problem: &Problem<'c>,
    placement: &Placement,
    streams: u32,
    eraser: &Eraser<'c>,
) {
    let Some(end) = step.body().terminator() else { return };
    let old: Vec<Op<'c>> = step.body().ops();
    let mut now: HashMap<Value<'c>, Value<'c>> = HashMap::new();
    let runs: Vec<RunOp<'c>> = old.iter().copied().filter_map(RunOp::of).collect();
    let queues = assigned(&runs, streams);
    for (at, (run, stream)) in runs.into_iter().zip(queues).enumerate() {
        launch(problem, placement, (at, stream), run, &mut now, end);
    }
    let is_gone = |op: &Op<'c>| RunOp::of(*op).is_some() || DropOp::of(*op).is_some();
    let (gone, kept): (Vec<Op<'c>>, Vec<Op<'c>>) = old.into_iter().partition(is_gone);
    for op in kept.into_iter().filter(|&op| ConstantOp::of(op).is_none()) {
        if op != end {
            op.move_to(At::Before(end));
        }
        let operands: Vec<_> = op.operands().iter().map(|value| *now.get(value).unwrap_or(value)).collect();
        op.set_operands(&operands);
    }
    gone.into_iter().rev().for_each(|op| eraser.erase(op));
}

/// The stream of every run: first runs on 0, groups of second runs that follow each other on the others in turn. What they must
/// wait for is found from their addresses when the step is executed (`rk_step::launch_schedule`).
fn assigned(runs: &[RunOp<'_>], streams: u32) -> Vec<u32> {
    let (mut groups, mut was_again) = (0, false);
    let mut of = |run: &RunOp<'_>| {
        groups += u32::from(run.is_again() && !was_again);
        was_again = run.is_again();
        if streams > 1 && run.is_again() { 1 + (groups - 1) % (streams - 1) } else { 0 }
    };
    runs.iter().map(&mut of).collect()
}

/// One run as buffers, copies of random state, and a launch.
fn launch<'c>(
    problem: &Problem<'c>,
    placement: &Placement,
    (at, stream): (usize, u32),
    run: RunOp<'c>,
    now: &mut HashMap<Value<'c>, Value<'c>>,
    end: Op<'c>,
) {
    let (place, location) = (At::Before(end), run.op().location());
    let buffer = |(space, offset): (Space, u64), ty: Type<'c>| {
        let made = create::buffer(space, offset, ty, place, location);
        made.value().expect("a buffer has one result")
    };
    let mut outputs = Vec::new();
    for output in run.outputs() {
        let made = buffer(placement.value(at, problem.value_of(output)), output.ty());
        now.insert(output, made);
        outputs.push(made);
    }
    let generator = Type::generator(end.context());
    if let Some(state) = run.generator_result() {
        let offset = problem.node_of(run.symbol()).map_or(0, |node| placement.state(node));
        let made = buffer((Space::Arena, offset), generator);
        now.insert(state, made);
        create::save_state(made, place, location);
    }
    let replayed = run.generator_operand().and_then(|state| now.get(&state).copied());
    let parked = replayed.map(|state| {
        let parked = buffer((Space::Parking, 0), generator);
        create::save_state(parked, place, location);
        create::load_state(state, place, location);
        parked
    });
    let new = NewLaunch {
        symbol: run.symbol().to_owned(),
        inputs: run.inputs().iter().map(|value| *now.get(value).unwrap_or(value)).collect(),
        outputs,
        again: run.is_again(),
        overwrite: run.is_overwrite(),
        workspace: placement.workspace(at),
        stream,
    };
    new.insert(place, location);
    if let Some(parked) = parked {
        create::load_state(parked, place, location);
    }
}
