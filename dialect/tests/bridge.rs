//! The pass bridge, end to end and in-process: options, other passes, failures and panics.

use rk_dialect::diagnostic::{Diagnostic, Failure, Remark, RemarkKind, Reported, Severity};
use rk_dialect::pass::{OptionSpec, PassContext, PassSpec, register_pass, set_option_default};
use rk_dialect::{Attr, Context, Stage, ops};
use std::sync::Once;

static COUNT_RUNS: PassSpec = PassSpec {
    name: "CountRuns",
    argument: "test-count-runs",
    description: "Reports how many runs a step has",
    options: &[OptionSpec { name: "at-most", default: "1000", help: "an error beyond this many runs" }],
    run: count_runs,
};

fn count_runs<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let limit: usize = cx.parsed_option("at-most")?;
    for step in cx.steps_at(Stage::Scheduled) {
        let runs = step.body().ops().into_iter().filter_map(ops::RunOp::of).count();
        if runs > limit {
            return Err(Diagnostic::error(step.op().location(), format!("{runs} runs")).into());
        }
        Diagnostic::remark(step.op().location(), format!("{runs} runs")).report();
        let metrics = [("runs", runs.to_string())];
        Remark {
            kind: RemarkKind::Analysis,
            category: "test",
            name: "runs",
            message: "counted",
            metrics: &metrics,
        }
        .report(step.op().location());
    }
    Ok(())
}

static PANICS: PassSpec = PassSpec {
    name: "Panics",
    argument: "test-panics",
    description: "Panics at the first function",
    options: &[],
    run: panics,
};

fn panics<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    if let Some(step) = cx.steps().first() {
        cx.at(step.op());
    }
    panic!("out of {}", "luck")
}
const PANIC_LINE: u32 = line!() - 2;

static MARK_THEN_COUNT: PassSpec = PassSpec {
    name: "MarkThenCount",
    argument: "test-mark-then-count",
    description: "Marks the module, then runs another pass on it",
    options: &[OptionSpec { name: "test-mark", default: "", help: "any text" }],
    run: mark_then_count,
};

fn mark_then_count<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    cx.module().set("rk.mark", Attr::string(cx.context(), &cx.option("test-mark")));
    cx.run_passes("test-count-runs{at-most=0}")
}

const STEP: &str = r#"
rk.node @fc {
^bb0(%x: tensor<8xf32>):
  %y = rk.aten "aten.exp.default"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  rk.yield %y : tensor<8xf32>
}
func.func @step(%x: tensor<8xf32>) -> tensor<8xf32> attributes {rk.stage = #rk.stage<scheduled>} {
  %a = rk.run @fc(%x) : (tensor<8xf32>) -> tensor<8xf32>
  return %a : tensor<8xf32>
}
"#;

/// Passes are registered once per process, tests run in one.
fn registered() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| [&COUNT_RUNS, &PANICS, &MARK_THEN_COUNT].into_iter().for_each(register_pass));
}

/// Runs a pipeline on the step; what was reported, one per line, after `ok` or `failed`.
fn check(pipeline: &str, expected: &str) {
    registered();
    let context = Context::new();
    let module = context.parse(STEP, "step.mlir").expect("the step is well-formed");
    let lines = |verdict: &str, reported: Vec<Reported>| {
        let lines: Vec<_> = reported.iter().map(Reported::to_string).collect();
        [vec![verdict.to_owned()], lines].concat().join("\n")
    };
    let found = match module.run(pipeline) {
        Ok(reported) => lines("ok", reported),
        Err(reported) => lines("failed", reported),
    };
    assert_eq!(found, expected);
}

#[test]
fn a_pass_runs_and_reports() {
    check("builtin.module(test-count-runs)", "ok\nstep.mlir:7:1: remark: 1 runs");
}

#[test]
fn an_option_arrives() {
    check("builtin.module(test-count-runs{at-most=0})", "failed\nstep.mlir:7:1: error: 1 runs");
}

#[test]
fn an_option_that_cannot_be_read_is_named() {
    check(
        "builtin.module(test-count-runs{at-most=many})",
        "failed\nstep.mlir:0:0: error: option 'at-most' of test-count-runs: 'many': invalid digit found in string",
    );
}

#[test]
fn a_wrong_option_is_refused() {
    check(
        "builtin.module(test-count-runs{at-mots=1})",
        "failed\nbuiltin.module(test-count-runs{at-mots=1}): error: <Pass-Options-Parser>: no such option at-mots\n\nfailed to add `test-count-runs` with options `at-mots=1`",
    );
}

#[test]
fn a_panic_is_an_error_at_the_op() {
    check(
        "builtin.module(test-panics)",
        &format!(
            "failed\nstep.mlir:7:1: error: the pass 'test-panics' panicked, a bug in rk: \
             dialect/tests/bridge.rs:{PANIC_LINE}: out of luck"
        ),
    );
}

#[test]
fn a_pass_runs_another() {
    check("builtin.module(test-mark-then-count)", "failed\nstep.mlir:7:1: error: 1 runs");
}

#[test]
fn a_process_wide_default_reaches_passes_made_later() {
    set_option_default("test-mark", "from the tool");
    registered();
    let context = Context::new();
    let module = context.parse(STEP, "step.mlir").expect("the step is well-formed");
    assert!(module.run("builtin.module(test-mark-then-count)").is_err());
    assert_eq!(module.op().get("rk.mark").and_then(Attr::as_str), Some("from the tool"));
}

#[test]
fn a_parse_error_comes_back_with_its_place() {
    let context = Context::new();
    let reported = context.parse("func.func @step() {", "broken.mlir").expect_err("it is cut off");
    assert_eq!(reported[0].severity, Severity::Error);
    assert!(reported[0].location.starts_with("broken.mlir:1:"), "{reported:?}");
    assert_eq!(
        context.parse_file("/nowhere/x.mlir".as_ref()).map(|_| ()).map_err(|reported| reported.len()),
        Err(1)
    );
}

#[test]
fn a_file_of_no_text_is_refused() {
    let context = Context::new();
    let reported = context.parse("\u{0}\u{1}ML\u{ef}R", "x.mlir").expect_err("not MLIR");
    assert!(reported.iter().any(|one| one.severity == Severity::Error));
}
