//! Passes written in Rust: a description, a function, and what the function may ask.
//!
//! ```no_run
//! use rk_dialect::diagnostic::{Diagnostic, Failure};
//! use rk_dialect::pass::{OptionSpec, PassContext, PassSpec, register_pass};
//! use rk_dialect::{ops, Stage};
//!
//! static COUNT_RUNS: PassSpec = PassSpec {
//!     name: "CountRuns",
//!     argument: "rk-count-runs",
//!     description: "Reports how many runs a step has",
//!     options: &[OptionSpec { name: "at-most", default: "1000", help: "an error beyond this many runs" }],
//!     run: count_runs,
//! };
//!
//! fn count_runs<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
//!     let limit: usize = cx.parsed_option("at-most")?;
//!     for step in cx.steps_at(Stage::Scheduled) {
//!         let runs = step.body().ops().into_iter().filter_map(ops::RunOp::of).count();
//!         if runs > limit {
//!             return Err(Diagnostic::error(step.op().location(), format!("{runs} runs")).into());
//!         }
//!         Diagnostic::remark(step.op().location(), format!("{runs} runs")).report();
//!     }
//!     Ok(())
//! }
//!
//! pub fn register_all() {
//!     register_pass(&COUNT_RUNS);
//! }
//! ```
//!
//! A pass is anchored on `builtin.module`. Its options are real: `--rk-count-runs="at-most=5"`, in a pipeline
//! `builtin.module(rk-count-runs{at-most=5})`, listed by `--help`; a wrong name is refused by MLIR. A panic in `run` becomes an
//! error at the op, and the pass fails.

use std::str::FromStr;

use crate::attrs::Stage;
use crate::diagnostic::{Diagnostic, Failure};
use crate::ops::StepOp;
use crate::raw::{self, Ctx, Eraser, Op, RunningPass};

/// One option of a pass. All values are strings; [`PassContext::parsed_option`] reads them. One that is `false` by default may stand
/// alone, which is `true`.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// As it is written in a pipeline.
    pub name: &'static str,
    /// What it holds unless given.
    pub default: &'static str,
    /// One line for `--help`, with the unit.
    pub help: &'static str,
}

/// A pass: how it is called and what it does.
#[derive(Clone, Copy, Debug)]
pub struct PassSpec {
    /// Its name in timing reports, in upper camel case.
    pub name: &'static str,
    /// Its name on the command line and in pipelines, such as `rk-dataflow`.
    pub argument: &'static str,
    /// One line for `--help`.
    pub description: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// What it does.
    pub run: for<'c> fn(&mut PassContext<'c>) -> Result<(), Failure<'c>>,
}

/// Registers a pass for this process; call it once per pass, before tools parse their command line.
pub fn register_pass(spec: &'static PassSpec) {
    raw::register(spec);
}

/// What the option of this name holds in every rk pass made from now on, unless it is given there.
/// `rk-opt --budget=2GiB` is this for `budget`.
pub fn set_option_default(option: &str, value: &str) {
    raw::set_option_default(option, value);
}

/// A running pass.
pub struct PassContext<'c> {
    spec: &'static PassSpec,
    pass: RunningPass,
    module: Op<'c>,
    current: Op<'c>,
    eraser: Eraser<'c>,
}

impl<'c> PassContext<'c> {
    pub(crate) fn new(
        spec: &'static PassSpec,
        pass: RunningPass,
        module: Op<'c>,
        eraser: Eraser<'c>,
    ) -> Self {
        Self { spec, pass, module, current: module, eraser }
    }

    /// The module that the pass runs on.
    pub fn module(&self) -> Op<'c> {
        self.module
    }

    /// The context.
    pub fn context(&self) -> Ctx<'c> {
        self.module.context()
    }

    /// What erases ops.
    pub fn eraser(&self) -> &Eraser<'c> {
        &self.eraser
    }

    /// The description that this pass was registered with.
    pub fn spec(&self) -> &'static PassSpec {
        self.spec
    }

    /// Says which op is being worked on: where an error is shown if the pass panics.
    pub fn at(&mut self, op: Op<'c>) {
        self.current = op;
    }

    pub(crate) fn current(&self) -> Op<'c> {
        self.current
    }

    /// The value of an option.
    ///
    /// # Panics
    /// If the pass has no such option: a mistake in the pass, shown as an error at the op.
    pub fn option(&self, name: &str) -> String {
        let index = self.spec.options.iter().position(|option| option.name == name);
        let index = index.unwrap_or_else(|| panic!("'{}' has no option '{name}'", self.spec.argument));
        self.pass.option(index)
    }

    /// The value of an option, parsed.
    ///
    /// # Errors
    /// Names the option, its value, and what was wrong with it.
    pub fn parsed_option<T>(&self, name: &str) -> Result<T, Failure<'c>>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let value = self.option(name);
        value.parse().map_err(|error| {
            self.refused(format!("option '{name}' of {}: '{value}': {error}", self.spec.argument))
        })
    }

    /// The value of an option that is one of a few words, as its place among them.
    ///
    /// # Errors
    /// Names the option, its value, and what it can be.
    pub fn choice(&self, name: &str, words: [&str; 2]) -> Result<usize, Failure<'c>> {
        let value = self.option(name);
        let [one, other] = words;
        let refused = || self.refused(format!("{name} '{value}' is neither {one} nor {other}"));
        words.iter().position(|word| *word == value).ok_or_else(refused)
    }

    /// A refusal of what the pass was asked for, which no op is to blame for.
    pub fn refused(&self, message: impl Into<String>) -> Failure<'c> {
        Diagnostic::error(self.module.location(), message).into()
    }

    /// Every function of the module with a stage, in order.
    pub fn steps(&self) -> Vec<StepOp<'c>> {
        let ops = self.module.body().map(|block| block.ops()).unwrap_or_default();
        ops.into_iter().filter_map(StepOp::of).collect()
    }

    /// Every function of the module at this stage, in order.
    pub fn steps_at(&self, stage: Stage) -> Vec<StepOp<'c>> {
        self.steps().into_iter().filter(|step| step.stage() == stage).collect()
    }

    /// Runs other passes on the module, as a pipeline would: they are timed, printed and verified like any pass.
    /// `passes` is the inside of `builtin.module(...)`, such as `rk-dataflow,rk-simplify`.
    ///
    /// # Errors
    /// [`Failure::Reported`] when one of them failed and said why.
    pub fn run_passes(&mut self, passes: &str) -> Result<(), Failure<'c>> {
        let pipeline = format!("builtin.module({passes})");
        if self.pass.run_pipeline(self.module, &pipeline) { Ok(()) } else { Err(Failure::Reported) }
    }
}
