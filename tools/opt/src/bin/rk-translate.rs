//! `rk-translate`: a module of the dialect rk as a step file, as JSON, as a graph for `rk-plan`, as a drawing, or its plan as a page.
//!
//! Exit codes: 0 done, 2 wrong command line, 3 the input cannot be read or is no valid module, 4 it is valid but cannot be
//! translated (wrong stage, no step), 6 the output cannot be written. A file is written whole or not at all.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Parser, ValueEnum};
use rk_dialect::Context;
use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::StepOp;
use rk_rewrite::planning::Problem;
use rk_vocabulary::write_output;

/// Translates a step out of MLIR.
#[derive(Parser)]
#[command(
    name = "rk-translate",
    version = concat!(env!("CARGO_PKG_VERSION"), " (LLVM ", env!("LLVM_VERSION"), ")"),
    after_help = "Examples:\n  rk-translate scheduled.mlir --to step -o step.rkx\n  rk-translate scheduled.mlir --to dot | dot -Tsvg -o step.svg\n  rk-translate scheduled.mlir --to json | jq .nodes[0]\n  rk-translate scheduled.mlir --to html -o plan.html\n  rk-translate costed.mlir --to graph -o graph.json && rk-plan graph.json --budget 60%"
)]
struct Cli {
    /// Module at stage simplified or later (json: any stage, graph: costed or later, html: scheduled or later); `-` reads standard input.
    input: PathBuf,
    /// What to make of it.
    #[arg(long)]
    to: Target,
    /// Where to write; `-` is standard output.
    #[arg(short, long, default_value = "-")]
    output: PathBuf,
    /// Draw this block or module in full and fold all others; may be given several times (dot).
    #[arg(long = "block", value_name = "NAME")]
    blocks: Vec<String>,
    /// How many budgets are planned for the curve of time against budget, each within half a second of work (html).
    #[arg(long, value_name = "COUNT", default_value_t = 7, value_parser = clap::value_parser!(u16).range(0..=1000))]
    points: u16,
    /// Which step, when the module has several.
    #[arg(long)]
    step: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// The executable kernel sequence for rk-run.
    Step,
    /// The module as data.
    Json,
    /// What the planner sees of it: a graph for rk-plan, times in ns.
    Graph,
    /// A drawing for Graphviz.
    Dot,
    /// The plan as one page for a browser, without network: memory over the step, what holds the peak, time against budget, modules.
    Html,
}

/// A one-line reason and its exit code.
struct Refusal(u8, String);

fn main() -> ExitCode {
    match translate(&rk_cli::parse::<Cli>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Refusal(code, reason)) => {
            eprintln!("{reason}");
            ExitCode::from(code)
        }
    }
}

fn translate(cli: &Cli) -> Result<(), Refusal> {
    let context = Context::new();
    let shown = cli.input.display();
    let parsed = if cli.input.as_os_str() == "-" {
        let text = std::io::read_to_string(std::io::stdin())
            .map_err(|error| Refusal(3, format!("error: standard input: {error}")))?;
        context.parse(&text, "<stdin>")
    } else {
        context.parse_file(&cli.input)
    };
    let module = parsed.map_err(|reported| {
        let lines: Vec<String> = reported.iter().map(ToString::to_string).collect();
        Refusal(3, lines.join("\n"))
    })?;
    let steps: Vec<StepOp<'_>> = module.body().ops().into_iter().filter_map(StepOp::of).collect();
    let wanted = |step: &&StepOp<'_>| cli.step.as_deref().is_none_or(|name| step.symbol() == name);
    let step = *steps.iter().find(wanted).ok_or_else(|| {
        let names: Vec<_> = steps.iter().map(|step| step.symbol()).collect();
        let found = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        Refusal(4, format!("error: {shown}: no such step (a function with rk.stage); found: {found}"))
    })?;
    let text = match cli.to {
        Target::Json => format!("{:#}\n", rk_codegen::to_json(step, module.op())),
        Target::Dot => rk_codegen::to_dot(step, module.op(), &cli.blocks)
            .map_err(|reason| Refusal(4, format!("error: {shown}: {reason}")))?,
        Target::Graph => report(&context, || Ok(Problem::of(step, module.op())?.to_json()))?,
        Target::Html => {
            report(&context, || rk_rewrite::report::page(step, module.op(), usize::from(cli.points)))?
        }
        Target::Step => {
            let made = report(&context, || rk_codegen::to_step(step, module.op()))?;
            rk_step::file::print(&made).map_err(|error| Refusal(4, format!("error: {shown}: {error}")))?
        }
    };
    write(&cli.output, &text)
}

/// What is made, or the diagnostics of why not, a line each.
fn report<'c, T>(context: &Context, make: impl FnOnce() -> Result<T, Diagnostic<'c>>) -> Result<T, Refusal> {
    let (made, reported) = context.reporting(|| make().map_err(|diagnostic| diagnostic.report()));
    made.map_err(|()| {
        let lines: Vec<String> = reported.iter().map(ToString::to_string).collect();
        Refusal(4, lines.join("\n"))
    })
}

/// Writes the text whole or not at all: a new file beside the old one takes its place.
fn write(path: &Path, text: &str) -> Result<(), Refusal> {
    let shown = if path == Path::new("-") { "standard output".into() } else { path.display().to_string() };
    write_output(path, text.as_bytes())
        .map_err(|error| Refusal(6, format!("error: {shown}: cannot write: {error}")))
}
