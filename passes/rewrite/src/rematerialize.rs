//! `--rematerialize`: from `costed` to `scheduled`. Frees values early and runs their nodes again, so that the step fits.
//!
//! # Before and after
//! ```mlir
//! %norm = rk.run @norm(%x) : ...
//! %up = rk.run @up(%norm) : ...
//! %down = rk.run @down(%up) : ...
//! %add = rk.run @add(%norm, %down) : ...
//! ==> budget=12KiB
//! %norm = rk.run @norm(%x) : ...
//! %up = rk.run @up(%norm) : ...
//! rk.drop %norm : ...
//! %down = rk.run @down(%up) : ...
//! rk.drop %up : ...
//! %norm_0 = rk.run again @norm(%x) : ...
//! %add = rk.run @add(%norm_0, %down) : ...
//! ```
//!
//! # How
//! Read the step as a graph ([`crate::planning`]), ask `rk-solve` for a sequence of runs whose arena fits, write it down with a drop at
//! each last use, note where its values lie unless packing tells (`rk.offsets`), and let the judge read the result back. Nothing is decided here,
//! not even how long a search lasts with `time-limit=auto` ([`rk_solve::Patience`]). Stages that are missing are run first; a
//! step that is scheduled already is planned anew.
//!
//! With `offload bandwidth=25GB/s`, values may wait in host memory, too, at most `host-budget` of it at a time:
//! ```mlir
//! %norm = rk.run @norm(%x) : ...
//! %norm.host = rk.offload %norm : ...
//! %up = rk.run @up(%norm) : ...
//! rk.wait %norm.host : ...
//! rk.drop %norm : ...
//! ...
//! %norm_0 = rk.fetch %norm.host : ...
//! %act = rk.run @act(%down) : ...
//! rk.wait %norm_0 : ...
//! rk.drop %norm.host : ...
//! %add = rk.run @add(%norm_0, %act) : ...
//! ```
//! Recomputation and transfers are planned together (docs/design/offload.md). Addresses are not looked for: the values fit into the
//! budget, and `--rk-lower` and step files refuse a step with transfers.
//!
//! # Contract
//! Needs any stage up to `scheduled`, establishes `scheduled`: S1 to S7 and S9 to S12 hold for the budgets in `rk.budget` and
//! `rk.host_budget`. A budget that cannot be met is an error at the node that holds the peak, and the step is left as it was.
//!
//! # Not here
//! Solvers (`passes/solve`), addresses (`--rk-lower`), execution of transfers.

use rk_dialect::diagnostic::{Diagnostic, Failure, Remark, RemarkKind};
use rk_dialect::ops::{self, AtenOp, RunOp, StepOp};
use rk_dialect::pass::{OptionSpec, PassContext, PassSpec};
use rk_dialect::{Op, PlanSummary, Stage};
use rk_plan::{Budget, Bytes, Schedule, Time, arena::is_plain, base_trace, readable};
use rk_solve::{Addresses, Goal, MilpSolver, Outcome, Patience, Plan, Request, Solver, Status, Timekeeping};
use rk_vocabulary::parse_span;

use crate::carry_out::{carry_out, write};
use crate::offload::{Link, Offloading};
use crate::planning::Problem;
use crate::unmet::{at_smallest, no_plan};
use crate::{exit, resident, verify_schedule};

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "Rematerialize",
    argument: "rematerialize",
    description: "Makes a step fit into a budget by freeing values early and computing them again",
    options: &[
        OptionSpec {
            name: "budget",
            default: "",
            help: "2GiB, 500MB, plain bytes, or 60% of the peak without",
        },
        OptionSpec {
            name: "scope",
            default: "activations",
            help: "what the budget counts: activations, or total (with parameters, buffers, inputs, gradients)",
        },
        OptionSpec { name: "solver", default: "auto", help: "who plans; rk-plan --list-solvers names them" },
        OptionSpec {
            name: "time-limit",
            default: "10s",
            help: "planning time after which the best plan counts: 10s, 500ms, 2m; auto is a fraction of a second, and more only where that finds no plan",
        },
        OptionSpec {
            name: "search-again",
            default: "",
            help: "what the second search of time-limit=auto may be for: plan, where one may still be found; smallest, also the smallest feasible budget where none can; none. Without it smallest, if on-infeasible says so, else plan",
        },
        OptionSpec {
            name: "again-at-most",
            default: "10s",
            help: "how long that second search lasts at most",
        },
        OptionSpec {
            name: "timekeeping",
            default: "wall",
            help: "what time-limit counts: wall, or work, with which the plan does not depend on the machine and its load",
        },
        OptionSpec { name: "seed", default: "0", help: "the same seed gives the same plan" },
        OptionSpec { name: "threads", default: "1", help: "threads that the solver may use" },
        OptionSpec {
            name: "milp",
            default: "cbc",
            help: "who solves mixed integer programs: cbc, or highs where it was built in",
        },
        OptionSpec {
            name: "fuse",
            default: "false",
            help: "whether --rk-fuse runs before the nodes get their costs",
        },
        OptionSpec {
            name: "anonymize",
            default: "true",
            help: "whether --rk-anonymize runs before the nodes get their costs, so that equal blocks share a symbol",
        },
        OptionSpec {
            name: "times",
            default: "",
            help: "file of `rk-run --times` for --rk-fuse, where that runs, and --rk-annotate-cost",
        },
        OptionSpec {
            name: "addresses",
            default: "true",
            help: "whether the values must fit into one arena of the budget; false for those who leave addresses to an allocator",
        },
        OptionSpec {
            name: "reserve",
            default: "0",
            help: "bytes of the budget that are somebody else's for the whole step; the peak that 60% is of has them, too",
        },
        OptionSpec {
            name: "on-infeasible",
            default: "error",
            help: "error, or smallest: a warning, and the plan for the smallest budget found to be feasible",
        },
        OptionSpec {
            name: "offload",
            default: "false",
            help: "whether values may wait in host memory, planned together with recomputation; without addresses",
        },
        OptionSpec {
            name: "bandwidth",
            default: "",
            help: "of the link between device and host, in each direction, for offload: 25GB/s",
        },
        OptionSpec {
            name: "latency",
            default: "",
            help: "of each transfer, for offload: 10us; without it, none",
        },
        OptionSpec {
            name: "host-budget",
            default: "",
            help: "bytes of host memory in which values may wait, for offload; without it, any number",
        },
    ],
    run: |cx| run(cx),
};

/// The options, read.
struct Options {
    budget: Budget,
    total: bool,
    solver: Solver,
    patience: Patience,
    timekeeping: Timekeeping,
    seed: u64,
    threads: usize,
    milp: MilpSolver,
    fuse: bool,
    anonymize: bool,
    addresses: bool,
    reserve: u64,
    /// A budget that cannot be met is replaced by the smallest one found.
    smallest: bool,
    /// Values may wait in host memory behind this link.
    link: Option<Link>,
}

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let options = options(cx).inspect_err(|_| exit::set(exit::BAD_OPTION))?;
    // Of the step as it is given: the passes leave out calls that nothing needs, and fold others into several nodes.
    let calls: Vec<usize> = cx.steps().into_iter().map(|step| calls(step, cx.module())).collect();
    if cx.steps().iter().any(|step| step.stage() < Stage::Costed) {
        let passes = until_costed(options.fuse, options.anonymize, &cx.option("times"));
        cx.run_passes(&passes.join(","))?;
    }
    for (step, calls) in cx.steps().into_iter().zip(calls) {
        cx.at(step.op());
        if !matches!(step.stage(), Stage::Costed | Stage::Scheduled) {
            exit::set(exit::WRONG_STAGE);
            let message = format!("cannot plan a step at stage {}", step.stage());
            return Err(Diagnostic::error(step.op().location(), message).into());
        }
        rematerialize(step, cx, calls, &options)?;
    }
    Ok(())
}

/// The passes that lead to stage `costed`, each as a pipeline spells it. Fused nodes are what is planned, so they are made before
/// classes and costs.
pub fn until_costed(fuse: bool, anonymize: bool, times: &str) -> Vec<String> {
    let times = if times.is_empty() { String::new() } else { format!("{{times={times}}}") };
    let passes = [
        Some("rk-dataflow".to_owned()),
        Some("rk-simplify".to_owned()),
        fuse.then(|| format!("rk-fuse{times}")),
        anonymize.then(|| "rk-anonymize".to_owned()),
        Some(format!("rk-annotate-cost{times}")),
    ];
    passes.into_iter().flatten().collect()
}

/// How many calls of operators a step has, at any stage: its own, and those in the nodes that it runs.
fn calls<'c>(step: StepOp<'c>, module: Op<'c>) -> usize {
    let nodes = ops::nodes_by_symbol(module);
    let within = |run: RunOp<'c>| nodes.get(run.symbol()).map_or(0, |(_, node)| node.calls().len());
    let ops = step.body().ops().into_iter();
    ops.map(|op| match RunOp::of(op) {
        Some(run) if run.is_again() => 0,
        Some(run) => within(run),
        None => usize::from(AtenOp::of(op).is_some()),
    })
    .sum()
}

fn options<'c>(cx: &PassContext<'c>) -> Result<Options, Failure<'c>> {
    if cx.option("budget").is_empty() {
        return Err(cx.refused("rematerialize needs a budget, such as --budget=2GiB or budget=60%"));
    }
    let total = cx.choice("scope", ["activations", "total"])? == 1;
    let smallest = cx.choice("on-infeasible", ["error", "smallest"])? == 1;
    let link = Link::of_options(cx)?;
    let limit = cx.option("time-limit");
    let limit = limit.parse().map_err(|error| cx.refused(format!("time-limit {error}")))?;
    let at_most = cx.option("again-at-most");
    let at_most = parse_span(&at_most).map_err(|error| cx.refused(format!("again-at-most {error}")))?;
    let goal = match cx.option("search-again").as_str() {
        "" if smallest => Goal::Smallest,
        "" => Goal::Plan,
        _ => cx.parsed_option("search-again")?,
    };
    Ok(Options {
        budget: cx.parsed_option("budget")?,
        total,
        solver: cx.parsed_option("solver")?,
        patience: Patience { limit, goal, at_most },
        timekeeping: cx.parsed_option("timekeeping")?,
        seed: cx.parsed_option("seed")?,
        threads: cx.parsed_option("threads")?,
        milp: cx.parsed_option("milp")?,
        fuse: cx.parsed_option("fuse")?,
        anonymize: cx.parsed_option("anonymize")?,
        addresses: cx.parsed_option("addresses")?,
        reserve: cx.parsed_option("reserve")?,
        smallest,
        link,
    })
}

fn rematerialize<'c>(
    step: StepOp<'c>,
    cx: &PassContext<'c>,
    calls: usize,
    options: &Options,
) -> Result<(), Failure<'c>> {
    let module = cx.module();
    let problem = Problem::of(step, module)?;
    let base = base_trace(&problem.graph);
    let standing = resident::bytes(step, module);
    let scope = if options.total { standing } else { Bytes(0) };
    let scope = Bytes(scope.0.saturating_add(options.reserve));
    let asked = options.budget.resolve(Bytes(base.peak.0.saturating_add(scope.0)));
    let budget = Bytes(asked.0.saturating_sub(scope.0));
    let request = |time_limit| Request {
        solver: options.solver,
        time_limit,
        timekeeping: options.timekeeping,
        seed: options.seed,
        threads: options.threads,
        milp: options.milp,
        addresses: options.addresses.then(|| Addresses::within(Bytes(alignment(step)), time_limit)),
        ..Request::new(&problem.graph, budget)
    };
    let search = |request: &Request<'_>| -> Result<_, Failure<'c>> {
        let plan = |link| Offloading::plan(step, &problem, request, link);
        let offloading = options.link.as_ref().map(plan).transpose()?;
        let outcome = offloading.as_ref().map_or_else(|| rk_solve::solve(request), Offloading::outcome);
        Ok((offloading, outcome))
    };
    let mut asked_for = request(options.patience.first(calls));
    let (mut offloading, mut outcome) = search(&asked_for)?;
    if let Some(longer) = options.patience.again(budget, &outcome) {
        asked_for = request(longer);
        (offloading, outcome) = search(&asked_for)?;
    }
    let mut met = budget;
    if outcome.plan.is_none() {
        let (code, told) = no_plan(step, &problem, &outcome, asked, scope);
        let instead = match (options.smallest, options.link.is_some(), outcome.smallest_found) {
            (true, false, _) => at_smallest(&asked_for, &outcome).map(|(met, found)| (met, None, found)),
            (true, true, Some(budget)) => {
                let (offloading, found) = search(&Request { budget, ..asked_for.clone() })?;
                found.plan.is_some().then_some((budget, offloading, found))
            }
            _ => None,
        };
        match instead {
            Some(instead) => {
                told.into_warning().report();
                (met, offloading, outcome) = instead;
            }
            None => {
                exit::set(code);
                return Err(told.into());
            }
        }
    }
    let Some(plan) = &outcome.plan else { return Err(bug(step, "there is none").into()) };
    match &offloading {
        Some(offloading) => write(step, &problem, &offloading.lines(), cx.eraser()),
        None => {
            let schedule = Schedule::from_sequence(&problem.graph, &plan.sequence)
                .map_err(|illegal| bug(step, &illegal.describe(&problem.graph)))?;
            carry_out(step, &problem, &schedule, cx.eraser());
        }
    }
    step.set_stage(Stage::Scheduled);
    let bound = outcome.lower_bound;
    let status = if outcome.status == Status::Optimal { "optimal" } else { "feasible" };
    let solver = offloading.as_ref().map_or(plan.solver.name(), Offloading::solver);
    let mut summary = PlanSummary {
        budget: Some(met.0),
        peak: Some(plan.trace.peak.0),
        base_peak: Some(base.peak.0),
        resident: Some(standing.0),
        time: Some(plan.trace.time.0),
        base_time: Some(base.time.0),
        lower_bound: Some(bound.0),
        bound_kind: Some(bound_kind(&outcome).to_owned()),
        status: Some(status.to_owned()),
        solver: Some(solver.to_owned()),
        ..PlanSummary::default()
    };
    if let Some(offloading) = &offloading {
        offloading.describe(&mut summary);
    } else if options.addresses {
        let arena = plan.arena.as_ref().ok_or_else(|| bug(step, "it has no addresses"))?;
        summary.arena = Some(arena.size.0);
        if !is_plain(&problem.graph, &plan.sequence, &plan.trace, arena) {
            let offsets = arena.offsets().into_iter();
            summary.offsets =
                Some(offsets.map(|offset| i64::try_from(offset.0).unwrap_or(i64::MAX)).collect());
        }
    }
    summary.write(step);
    // Nothing that a solver said is believed: the judge reads the step that was written, and where its values lie.
    let verdict = verify_schedule::judge(step, module).map_err(|told| bug(step, told.message()))?;
    if let Some(offloading) = &offloading {
        offloading.agrees(&verdict).map_err(|what| bug(step, &what))?;
    }
    report(step, plan, base.peak, base.time, bound, standing, offloading.as_ref());
    Ok(())
}

fn alignment(step: StepOp<'_>) -> u64 {
    step.op().parent().map_or(1, crate::alignment)
}

fn bound_kind(outcome: &Outcome) -> &'static str {
    match outcome.bound_kind {
        rk_solve::BoundKind::OrderFree => "order_free",
        rk_solve::BoundKind::FixedOrder => "fixed_order",
        rk_solve::BoundKind::Optimal => "optimal",
    }
}

/// A plan that the judge refuses is our mistake, and says so.
fn bug<'c>(step: StepOp<'c>, what: &str) -> Diagnostic<'c> {
    let message = format!("the schedule of '{}' breaks a law: {what}", step.symbol());
    Diagnostic::error(step.op().location(), message)
        .note(step.op().location(), "this is a bug in rk, not in the model")
}

fn report(
    step: StepOp<'_>,
    plan: &Plan,
    base_peak: Bytes,
    base_time: Time,
    bound: Time,
    resident: Bytes,
    offloading: Option<&Offloading>,
) {
    let percent = |part: u64| 100.0 * part as f64 / base_time.0.max(1) as f64;
    let overhead = percent(plan.trace.time.0.saturating_sub(base_time.0));
    let gap = percent(plan.trace.time.0.saturating_sub(bound.0.max(base_time.0)));
    let moved = offloading.map_or(String::new(), |offloading| offloading.text(base_time));
    let message = format!(
        "peak {} instead of {} (with everything resident {}), {overhead:.2} % more time, at most {gap:.2} points above the optimum{moved}",
        readable(plan.trace.peak),
        readable(base_peak),
        readable(Bytes(plan.trace.peak.0.saturating_add(resident.0))),
    );
    let mut metrics = vec![
        ("peak_bytes", plan.trace.peak.0.to_string()),
        ("base_peak_bytes", base_peak.0.to_string()),
        ("resident_bytes", resident.0.to_string()),
        ("overhead_pct", format!("{overhead:.4}")),
        ("gap_pp", format!("{gap:.4}")),
    ];
    metrics.extend(offloading.map(Offloading::metrics).unwrap_or_default());
    let remark = Remark {
        kind: RemarkKind::Passed,
        category: "rematerialize",
        name: "schedule",
        message: &message,
        metrics: &metrics,
    };
    remark.report(step.op().location());
}
