//! Text in, passes run, a schedule or text out.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use pyo3::prelude::*;
use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{self, NodeOp, RunOp, StepOp, Transfer, WaitOp};
use rk_dialect::{Context, Module, PlanSummary, Value, transfers};
use rk_plan::{Halves, Sequence, Trace, judge};
use rk_rewrite::moves;
use rk_rewrite::planning::Problem;
use rk_vocabulary::roofline::Roofline;
use serde_json::{Map, Value as Json, json};

use crate::detached;
use crate::errors::Refusal;

/// The passes up to what a planner needs. Equal blocks are not looked for: nothing that follows here uses them.
fn until_costed() -> Vec<String> {
    rk_rewrite::rematerialize::until_costed(false, false, "")
}

/// MLIR's pass registry and the reason that a failing pass leaves behind exist once per process.
pub(crate) fn passes() -> MutexGuard<'static, ()> {
    static REGISTERED: Once = Once::new();
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    REGISTERED.call_once(rk_rewrite::register_all);
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    rk_rewrite::exit::take();
    guard
}

/// Plans a step. `text` is one step in the dialect rk at any stage up to costed; `budget` is bytes, 2GiB or 60%.
///
/// A budget that cannot be met is replaced by the smallest one found, if one was; then the answer has `unmet`: what a
/// BudgetError would say (`message`, `budget`, `smallest`, `impossible_below`, `holder`). Without `addresses`, the live bytes
/// alone must be within the budget, wherever an allocator puts them. `reserve` bytes of the budget are somebody else's. With
/// `lower`, the step gets its addresses and is translated to a step file, too. With a `bandwidth` such as 25GB/s, values may wait in host
/// memory behind a link of that bandwidth and `latency`, in at most `host_budget` bytes of it where that is given.
///
/// `time_limit` is a span of time such as 500ms, or auto. With auto, a first search that finds no plan is followed by a longer one, of
/// `again_at_most`: unless the caller is not `patient`, or no plan can exist and `on_infeasible` is error. It is best where the plan for
/// the smallest budget is wanted instead, and error where it is only told.
///
/// Returns JSON: `runs`, a list of [call, again] in order of execution, where a call is the line number in the location of
/// its `rk.aten`; `moves`, a list of [position in runs, "offload", "fetch", "wait" or "host_wait", call, result]; `budget`, `peak`, `base_peak`, `resident` in bytes; `time`, `base_time`, `lower_bound` in ns; `status`,
/// `solver`; of a step that hands over, `forward`, `held`, `handed`, `backward`, `accumulating`: the bytes of its halves. With
/// `stages`, also `stages`: the text of every stage that it went through. With `lower`, also `step`: the text of the step file,
/// and `arena`: the bytes that it runs in.
///
/// Raises OptionError, BudgetError (with numbers), CompileError.
#[pyfunction]
#[pyo3(signature = (text, *, budget, scope="activations", solver="auto", time_limit="auto", timekeeping="wall", on_infeasible="error", patient=true, again_at_most="10s", seed=0, threads=1, addresses=false, reserve=0, lower=false, stages=false, bandwidth="", latency="", host_budget=""))]
#[expect(clippy::too_many_arguments, reason = "they are keywords in Python")]
pub fn rematerialize(
    py: Python<'_>,
    text: &str,
    budget: &str,
    scope: &str,
    solver: &str,
    time_limit: &str,
    timekeeping: &str,
    on_infeasible: &str,
    patient: bool,
    again_at_most: &str,
    seed: u64,
    threads: usize,
    addresses: bool,
    reserve: u64,
    lower: bool,
    stages: bool,
    bandwidth: &str,
    latency: &str,
    host_budget: &str,
) -> PyResult<String> {
    let options = [budget, scope, solver, time_limit, timekeeping, again_at_most];
    let link = [bandwidth, latency, host_budget];
    let ends = ['{', '}', ' ', '\'', '"'];
    let bad = options.into_iter().find(|value| value.is_empty() || value.contains(ends));
    if let Some(bad) = bad.or_else(|| link.into_iter().find(|value| value.contains(ends))) {
        return Err(crate::errors::OptionError::new_err(format!("'{bad}' is no value of an option")));
    }
    let moves: String = [("bandwidth", bandwidth), ("latency", latency), ("host-budget", host_budget)]
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| format!(" {name}={value}"))
        .collect();
    let moves = if moves.is_empty() { moves } else { format!(" offload{moves}") };
    let again = match on_infeasible {
        _ if !patient => "none",
        "error" => "plan",
        "best" => "smallest",
        other => {
            let message = format!("on_infeasible '{other}' is neither error nor best");
            return Err(crate::errors::OptionError::new_err(message));
        }
    };
    // The smallest budget that can be met is told in either case, with its plan.
    let plan = format!(
        "rematerialize{{budget={budget} scope={scope} solver={solver} time-limit={time_limit} search-again={again} \
         again-at-most={again_at_most} timekeeping={timekeeping} seed={seed} threads={threads} addresses={addresses} \
         reserve={reserve} on-infeasible=smallest anonymize=false{moves}}}"
    );
    detached(py, || {
        let _passes = passes();
        let context = Context::new();
        let module = parsed(&context, text)?;
        let mut seen = if stages { on_the_way(&parsed(&context, text)?)? } else { Vec::new() };
        run_on(&module, &plan)?;
        if stages {
            seen.push(with_stage(&module));
        }
        let step = only_step(&module)?;
        let mut answer = schedule(step, &module)?;
        if let (_, Some(unmet)) = rk_rewrite::exit::take() {
            answer.insert("unmet".into(), told(&unmet));
        }
        if lower {
            run_on(&module, "rk-lower")?;
            if stages {
                seen.push(with_stage(&module));
            }
            answer.insert("step".into(), step_file(&module)?.into());
        }
        if stages {
            answer.insert("stages".into(), Json::Object(seen.into_iter().collect()));
        }
        Ok(Json::Object(answer).to_string())
    })
}

/// The plan that holds nothing across the hand-over that can be run again ([`rk_solve::checkpoint`]), for a step at any stage up
/// to costed.
///
/// Returns JSON: `runs`, `time`, `forward`, `held`, `handed`, `backward`, `accumulating` as from [`rematerialize`].
///
/// Raises CompileError, also for a step that hands nothing over.
#[pyfunction]
pub fn checkpoint(py: Python<'_>, text: &str) -> PyResult<String> {
    detached(py, || {
        let _passes = passes();
        let context = Context::new();
        let module = parsed(&context, text)?;
        run_on(&module, &until_costed().join(","))?;
        let step = only_step(&module)?;
        let problem = Problem::of(step, module.op()).map_err(about)?;
        let sequence = rk_solve::checkpoint(&problem.graph)
            .ok_or_else(|| Refusal::Other("the step hands nothing over".to_owned()))?;
        let mut ran = vec![false; problem.graph.len()];
        let runs = sequence.0.iter().flat_map(|node| {
            let again = std::mem::replace(&mut ran[node.index()], true);
            computations(problem.nodes[node.index()]).into_iter().map(move |call| json!([call, again]))
        });
        let mut answer = Map::new();
        answer.insert("runs".into(), runs.collect());
        let trace = judge(&problem.graph, &sequence)
            .map_err(|illegal| Refusal::Other(illegal.describe(&problem.graph)))?;
        answer.extend(halves(&problem, &sequence, &trace));
        Ok(Json::Object(answer).to_string())
    })
}

/// Runs passes on a module and returns its text; `passes` is the inside of `builtin.module(...)`.
#[pyfunction]
pub fn run_passes(py: Python<'_>, text: &str, passes: &str) -> PyResult<String> {
    detached(py, || {
        let _passes = self::passes();
        let context = Context::new();
        let module = parsed(&context, text)?;
        run_on(&module, passes)?;
        Ok(module.op().print(true))
    })
}

/// The only step of a module as `json` (data) or `dot` (a drawing for Graphviz, with these blocks or modules in full).
#[pyfunction]
#[pyo3(signature = (text, to, blocks=Vec::new()))]
pub fn translate(py: Python<'_>, text: &str, to: &str, blocks: Vec<String>) -> PyResult<String> {
    detached(py, || {
        let _passes = passes();
        let context = Context::new();
        let module = parsed(&context, text)?;
        let step = only_step(&module)?;
        match to {
            "json" => Ok(format!("{:#}", rk_codegen::to_json(step, module.op()))),
            "dot" => rk_codegen::to_dot(step, module.op(), &blocks).map_err(Refusal::Option),
            _ => Err(Refusal::Option(format!("'{to}' is neither json nor dot"))),
        }
    })
}

/// The names of the solvers.
#[pyfunction]
pub fn solvers() -> Vec<&'static str> {
    rk_solve::Solver::ALL.iter().map(|solver| solver.name()).collect()
}

/// What a kind of device can do, `cpu` or `cuda`, in the roofline model: bytes a second, operations a second, seconds of a launch.
#[pyfunction]
pub fn roofline(device: &str) -> (f64, f64, f64) {
    let Roofline { bandwidth, throughput, launch } = Roofline::of_device(device);
    (bandwidth, throughput, launch)
}

/// The version of the extension.
#[pyfunction]
pub fn version() -> &'static str {
    env!("CARGO_PKG_VERSION")
}

pub(crate) fn parsed<'c>(context: &'c Context, text: &str) -> Result<Module<'c>, Refusal> {
    context.parse(text, "step.mlir").map_err(|reported| {
        let lines: Vec<String> = reported.iter().map(ToString::to_string).collect();
        Refusal::Other(lines.join("\n"))
    })
}

pub(crate) fn only_step<'c>(module: &Module<'c>) -> Result<StepOp<'c>, Refusal> {
    let steps: Vec<StepOp<'c>> = module.body().ops().into_iter().filter_map(StepOp::of).collect();
    match steps.as_slice() {
        [step] => Ok(*step),
        _ => Err(Refusal::Other(format!("the module has {} steps instead of one", steps.len()))),
    }
}

fn run_on(module: &Module<'_>, passes: &str) -> Result<(), Refusal> {
    module.run(&format!("builtin.module({passes})")).map(drop).map_err(|reported| Refusal::of(&reported))
}

/// The text of every stage up to costed. The module is a copy: what is planned goes through them in one piece.
fn on_the_way(module: &Module<'_>) -> Result<Vec<(String, Json)>, Refusal> {
    let mut seen = vec![with_stage(module)];
    for pass in until_costed() {
        run_on(module, &pass)?;
        seen.push(with_stage(module));
    }
    Ok(seen)
}

/// The text of a lowered step's file.
fn step_file(module: &Module<'_>) -> Result<String, Refusal> {
    let step = rk_codegen::to_step(only_step(module)?, module.op())
        .map_err(|diagnostic| Refusal::Other(diagnostic.message().to_owned()))?;
    rk_step::file::print(&step).map_err(|error| Refusal::Other(error.to_string()))
}

/// A module's text under the name of its stage.
fn with_stage(module: &Module<'_>) -> (String, Json) {
    let stage = only_step(module).map_or("unknown", |step| step.stage().as_str());
    (stage.to_owned(), module.op().print(true).into())
}

/// A budget that was not met, as data.
fn told(unmet: &rk_rewrite::exit::Unmet) -> Json {
    json!({
        "message": unmet.message,
        "budget": unmet.budget.0,
        "smallest": unmet.smallest.map(|bytes| bytes.0),
        "impossible_below": unmet.impossible_below.0,
        "holder": unmet.holder,
    })
}

/// A scheduled step as data.
fn schedule<'c>(step: StepOp<'c>, module: &Module<'c>) -> Result<Map<String, Json>, Refusal> {
    let problem = Problem::of(step, module.op()).map_err(about)?;
    let mut answer = lines(step, module);
    let said = PlanSummary::of(step);
    let said = [
        ("budget", json!(said.budget)),
        ("peak", json!(said.peak)),
        ("arena", json!(said.arena)),
        ("base_peak", json!(said.base_peak)),
        ("resident", json!(said.resident)),
        ("time", json!(said.time)),
        ("base_time", json!(said.base_time)),
        ("lower_bound", json!(said.lower_bound)),
        ("bound_kind", json!(said.bound_kind)),
        ("status", json!(said.status)),
        ("solver", json!(said.solver)),
        ("host_peak", json!(said.host_peak)),
        ("stall", json!(said.stall)),
    ];
    answer.extend(said.map(|(name, value)| (name.to_owned(), value)));
    let (sequence, trace) = moves::trace(step, &problem).map_err(about)?;
    answer.extend(halves(&problem, &sequence, &trace));
    Ok(answer)
}

/// The runs of a scheduled step, and the transfers between them.
fn lines<'c>(step: StepOp<'c>, module: &Module<'c>) -> Map<String, Json> {
    let places = ops::nodes_by_symbol(module.op());
    let calls: Vec<Vec<u32>> = ops::nodes(module.op()).into_iter().map(computations).collect();
    let (mut runs, mut moves): (Vec<Json>, Vec<Json>) = (Vec::new(), Vec::new());
    for op in step.body().ops() {
        if let Some(run) = RunOp::of(op) {
            let node = places.get(run.symbol()).map_or(&[][..], |&(place, _)| &calls[place]);
            runs.extend(node.iter().map(|&call| json!([call, run.is_again()])));
            continue;
        }
        let moved = match (Transfer::of(op), WaitOp::of(op).and_then(WaitOp::value)) {
            (Some(Transfer::Offload(offload)), _) => ("offload", offload.value()),
            (Some(Transfer::Fetch(fetch)), _) => ("fetch", fetch.copy()),
            (None, Some(value)) => (if value.ty().is_host() { "host_wait" } else { "wait" }, Some(value)),
            (None, None) => continue,
        };
        let (what, Some(value)) = moved else { continue };
        moves.extend(made_by(value, &places).map(|(call, result)| json!([runs.len(), what, call, result])));
    }
    [("runs", runs), ("moves", moves)].into_iter().map(|(name, all)| (name.to_owned(), all.into())).collect()
}

/// The line number of the call that makes a result of a run, or what is a copy of it, and the number of the call's result.
fn made_by<'c>(value: Value<'c>, places: &BTreeMap<&str, (usize, NodeOp<'c>)>) -> Option<(u32, usize)> {
    let (op, number) = transfers::origin(value).producer()?;
    let (_, node) = places.get(RunOp::of(op)?.symbol())?;
    let (call, result) = rk_rewrite::views::base(*node.yielded().get(number)?).producer()?;
    Some((call.location().line()?, result))
}

/// What the halves of a step take; nothing, if it hands nothing over.
fn halves(problem: &Problem<'_>, sequence: &Sequence, trace: &Trace) -> Map<String, Json> {
    let Some(halves) = Halves::of(&problem.graph, sequence, trace, &problem.gradients) else {
        return Map::new();
    };
    let parts = [
        ("forward", halves.forward.0),
        ("held", halves.held.0),
        ("handed", halves.handed.0),
        ("backward", halves.backward.0),
        ("accumulating", halves.accumulating.0),
        ("time", trace.time.0),
    ];
    parts.into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect()
}

fn about(diagnostic: Diagnostic<'_>) -> Refusal {
    Refusal::Other(diagnostic.message().to_owned())
}

/// The line numbers of what a node computes; views are left out, as they cost nothing wherever they are built.
fn computations(node: NodeOp<'_>) -> Vec<u32> {
    let calls = node.calls().into_iter().filter(|call| !call.is_view());
    calls.filter_map(|call| call.op().location().line()).collect()
}
