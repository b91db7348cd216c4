//! A step as an executable kernel sequence: nodes as short lists of ATen calls, the schedule as instructions over slots.
//!
//! A slot is an SSA value of the function: arguments first, then constants, then what runs make. A step that is not
//! scheduled yet becomes the schedule without rematerialization ([`rk_step::original()`]); a lowered one has addresses, too
//! (`lowered.rs`).

mod lowered;

use std::collections::HashMap;

use rk_dialect::diagnostic::Diagnostic;
use rk_dialect::ops::{self, AtenOp, ConstantOp, DropOp, Execution, RunOp, StepOp};
use rk_dialect::{Attr, Op, PlanSummary, Recorded, Stage, Value, recorded, transfers};
use rk_step::{
    Arg, Call, Constant, Data, Instr, NodeId, Output, OutputRole, Plan, Program, Role, Run, Slot, Source,
    Step,
};

use crate::{body, kernels};

/// Translates one step of a module.
///
/// # Errors
/// A stage before `simplified`, or what a step file cannot hold, at the op.
pub fn to_step<'c>(step: StepOp<'c>, module: Op<'c>) -> Result<Step, Diagnostic<'c>> {
    if !(Stage::Simplified..=Stage::Lowered).contains(&step.stage()) {
        let message =
            format!("a step at stage {} cannot be executed; run --rematerialize first", step.stage());
        return Err(Diagnostic::error(step.op().location(), message));
    }
    if let Some(refused) = transfers::refused(step, "a step file") {
        return Err(refused);
    }
    let mut translation = Translation::default();
    let args = translation.arguments(step)?;
    let constants = translation.constants(step)?;
    let runs: Vec<Execution<'c>> = step.body().ops().into_iter().filter_map(Execution::of).collect();
    let used: std::collections::HashSet<&str> = runs.iter().map(|run| run.symbol()).collect();
    let mut nodes = Vec::new();
    for node in ops::nodes(module).into_iter().filter(|node| used.contains(node.symbol())) {
        translation.nodes.insert(node.symbol(), NodeId(nodes.len() as u32));
        nodes.push(body::node(node)?);
    }
    let (program, layout) = match step.stage() {
        Stage::Lowered => {
            let (program, layout) = lowered::program(step, &mut translation)?;
            (program, Some(layout))
        }
        _ => (translation.program(step, &nodes)?, None),
    };
    let outputs = (0..step.returned().len()).map(|index| Output {
        role: match step.result_role(index) {
            Some("loss") => OutputRole::Loss,
            Some("gradient") => OutputRole::Gradient,
            _ => OutputRole::Output,
        },
        name: step.result_name(index).map_or_else(|| index.to_string(), str::to_owned),
    });
    let mut made = Step {
        name: step.symbol().to_owned(),
        source: source(module),
        device: recorded::device(module),
        settings: Recorded::of(module).settings,
        alignment: recorded::alignment(module),
        plan: plan(step),
        args,
        constants,
        nodes,
        program,
        outputs: outputs.collect(),
        layout,
        library: None,
    };
    kernels::add(&mut made, module)?;
    let invalid = |error: rk_step::error::Invalid| Diagnostic::error(step.op().location(), error.to_string());
    if step.stage() < Stage::Scheduled {
        made.program = rk_step::original(&made).map_err(invalid)?;
        made.plan.planned_peak_bytes = rk_step::memory_account(&made).map_err(invalid)?.peak;
    }
    rk_step::validate::validate(&made).map_err(invalid)?;
    Ok(made)
}

/// Numbers that values and nodes have been given so far.
#[derive(Default)]
pub(crate) struct Translation<'c> {
    slots: HashMap<Value<'c>, u32>,
    nodes: HashMap<&'c str, NodeId>,
}

impl<'c> Translation<'c> {
    /// The number of a value; a new one gets the next.
    pub(crate) fn slot(&mut self, value: Value<'c>) -> Slot {
        let next = self.slots.len() as u32;
        Slot(*self.slots.entry(value).or_insert(next))
    }

    fn arguments(&mut self, step: StepOp<'c>) -> Result<Vec<Arg>, Diagnostic<'c>> {
        let mut args = Vec::new();
        for (index, value) in step.arguments().into_iter().enumerate() {
            self.slot(value);
            args.push(Arg {
                name: step.argument_name(index).map_or_else(|| format!("argument{index}"), str::to_owned),
                aliases: step.argument_aliases(index).into_iter().map(str::to_owned).collect(),
                role: match step.argument_role(index) {
                    Some("parameter") => Role::Parameter { trainable: step.is_trainable(index) },
                    Some("buffer") => Role::Buffer,
                    _ => Role::Input,
                },
                spec: body::spec(value.ty(), value.location())?,
            });
        }
        Ok(args)
    }

    fn constants(&mut self, step: StepOp<'c>) -> Result<Vec<Constant>, Diagnostic<'c>> {
        let mut constants = Vec::new();
        for constant in step.body().ops().into_iter().filter_map(ConstantOp::of) {
            let at = constant.op().location();
            let (Some(value), Some(result)) = (constant.value(), constant.op().result(0)) else { continue };
            self.slot(result);
            let Some(bytes) = value.dense_bytes() else {
                return Err(Diagnostic::error(at, "a constant must be written as dense<...>"));
            };
            let hex = hex::encode(&bytes.bytes);
            constants.push(Constant {
                name: at.name().unwrap_or_default().to_owned(),
                spec: body::spec(result.ty(), at)?,
                data: if bytes.splat { Data::Splat(hex) } else { Data::Hex(hex) },
            });
        }
        Ok(constants)
    }

    fn program(&mut self, step: StepOp<'c>, nodes: &[rk_step::Node]) -> Result<Program, Diagnostic<'c>> {
        let mut instrs = Vec::new();
        let mut epilogue = Vec::new();
        for op in step.body().ops() {
            if let Some(run) = RunOp::of(op) {
                instrs.push(Instr::Run(self.run(run, nodes)?));
            } else if let Some(value) = DropOp::of(op).and_then(DropOp::value) {
                instrs.push(Instr::Drop(self.slot(value)));
            } else if let Some(view) = AtenOp::of(op) {
                epilogue.push(self.view(view)?);
            }
        }
        Ok(self.finish(step, instrs, epilogue))
    }

    /// A view that feeds the return.
    pub(crate) fn view(&mut self, view: AtenOp<'c>) -> Result<Call, Diagnostic<'c>> {
        let call = body::call_over(view, &mut |value| self.slots.get(&value).copied())?;
        let results = view.op().results().into_iter().map(|value| Some(self.slot(value).0)).collect();
        Ok(Call { results, ..call })
    }

    /// The program of these instructions.
    pub(crate) fn finish(&mut self, step: StepOp<'c>, instrs: Vec<Instr>, epilogue: Vec<Call>) -> Program {
        let outputs = step.returned().into_iter().map(|value| self.slot(value)).collect();
        Program { slots: self.slots.len() as u32, instrs, epilogue, outputs }
    }

    /// The node that a run or a launch names.
    ///
    /// # Errors
    /// There is none.
    pub(crate) fn node(&self, run: Execution<'c>) -> Result<NodeId, Diagnostic<'c>> {
        self.nodes.get(run.symbol()).copied().ok_or_else(|| {
            Diagnostic::error(run.op().location(), format!("there is no rk.node '@{}'", run.symbol()))
        })
    }

    fn run(&mut self, run: RunOp<'c>, nodes: &[rk_step::Node]) -> Result<Run, Diagnostic<'c>> {
        let node = self.node(Execution::Run(run))?;
        let inputs = run.inputs().into_iter().map(|value| self.slot(value)).collect();
        let outputs = run.outputs().into_iter().map(|value| self.slot(value)).collect::<Vec<_>>();
        debug_assert_eq!(outputs.len(), nodes[node.index()].outputs.len());
        Ok(Run {
            node,
            again: run.is_again(),
            overwrite: run.is_overwrite(),
            inputs,
            outputs,
            state_out: run.generator_result().map(|value| self.slot(value)),
            state_in: run.generator_operand().map(|value| self.slot(value)),
        })
    }
}

fn plan(step: StepOp<'_>) -> Plan {
    let said = PlanSummary::of(step);
    Plan {
        budget_bytes: said.budget,
        planned_peak_bytes: said.peak.unwrap_or(0),
        arena_bytes: said.arena,
        base_peak_bytes: said.base_peak,
        time_ns: said.time,
        base_time_ns: said.base_time,
        lower_bound_ns: said.lower_bound,
        status: said.status,
        solver: said.solver,
    }
}

fn source(module: Op<'_>) -> Option<Source> {
    let source = module.get("rk.source")?;
    let text = |name: &str| source.entry(name).and_then(Attr::as_str).map(str::to_owned);
    let inputs = source.entry("inputs").and_then(Attr::as_array).unwrap_or_default();
    Some(Source {
        archive: text("archive")?,
        sha256: text("sha256")?,
        loss: text("loss").unwrap_or_else(|| "sum".to_owned()),
        seed: source
            .entry("seed")
            .and_then(Attr::as_i64)
            .and_then(|seed| u64::try_from(seed).ok())
            .unwrap_or(0),
        inputs: inputs.into_iter().filter_map(Attr::as_str).map(str::to_owned).collect(),
        inputs_file: text("inputs_file"),
        inputs_sha256: text("inputs_sha256"),
    })
}
