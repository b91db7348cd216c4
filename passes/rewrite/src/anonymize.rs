//! `--rk-anonymize`: from `simplified` to `blocks`. Says which blocks and which nodes of a step are equal.
//!
//! # Before and after
//! ```mlir
//! rk.node @h.0.up { ... }
//! rk.node @h.1.up { ... }
//! func.func @step(...) attributes {rk.stage = #rk.stage<simplified>} { ... }
//! ==>
//! rk.node @h.0.up attributes {rk.block = 0 : i64, rk.node_class = 0 : i64} { ... }
//! rk.node @h.1.up attributes {rk.block = 1 : i64, rk.node_class = 0 : i64} { ... }
//! func.func @step(...) attributes {rk.blocks = [{class = 0 : i64, ..., name = "h.0"}, {class = 0 : i64, ..., name = "h.1"}],
//!                                  rk.stage = #rk.stage<blocks>} { ... }
//! ```
//!
//! # How
//! The step is read into the terms of `rk-classes`, which cuts the forward pass into a chain of blocks, ties backward nodes to
//! them and proves blocks equal in one e-graph. This file only translates: types, arguments and constants by value,
//! module paths for names. A step that is `costed` already keeps its costs and its stage.
//!
//! # Contract
//! Needs `simplified` or `costed`, establishes `blocks` (or keeps `costed`): every node of a step has `rk.block`, an index into the
//! function's `rk.blocks`, and `rk.node_class`. The attributes say what is equal and change nothing else.
//!
//! # Not here
//! The use of classes: `rk-import --measure` times one call per class of equal calls, `--rk-annotate-cost` gives the nodes of a
//! class one cost, and the solver `classes` plans a block once per class.

use std::collections::HashMap;
use std::sync::Arc;

use rk_classes::{
    Arg as PlainArg, Block, Blocks, Call, ClassId, Node, Operator, Role, Source, Step, StepBuilder, Ty,
};
use rk_dialect::blocks::{self, ClassedBlock};
use rk_dialect::diagnostic::{Diagnostic, Failure, Remark, RemarkKind};
use rk_dialect::ops::{self, AtenOp, ConstantOp, NodeOp, RunOp, StepOp};
use rk_dialect::pass::{PassContext, PassSpec};
use rk_dialect::{Arg, Attr, Op, Stage, Tensor, Type, Value};
use rk_plan::ValueId;

use crate::views;

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "Anonymize",
    argument: "rk-anonymize",
    description: "Finds the blocks of a step and says which of them, and which nodes, are equal",
    options: &[],
    run: |cx| run(cx),
};

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    for step in cx.steps() {
        cx.at(step.op());
        if !matches!(step.stage(), Stage::Simplified | Stage::Blocks | Stage::Costed) {
            continue;
        }
        let (plain, nodes) = Reader::read(step, cx.module())?;
        let found = rk_classes::find(&plain);
        write(step, &nodes, &found);
        report(step, &found);
        if step.stage() == Stage::Simplified {
            step.set_stage(Stage::Blocks);
        }
    }
    Ok(())
}

/// Puts the classes into the IR.
fn write<'c>(step: StepOp<'c>, nodes: &[NodeOp<'c>], found: &Blocks) {
    for (at, node) in nodes.iter().enumerate() {
        node.set_block(found.block_of[at], found.node_classes[at].index());
    }
    let int = |class: ClassId| i64::try_from(class.index()).unwrap_or(i64::MAX);
    let blocks = found.blocks.iter().map(|block| ClassedBlock {
        name: &block.name,
        class: int(block.class),
        forward_class: int(block.forward_class),
        spelling: int(block.spelling),
        cost_class: int(block.cost_class),
    });
    blocks::write(step, &blocks.collect::<Vec<_>>());
}

fn report(step: StepOp<'_>, found: &Blocks) {
    let count = |class: fn(&Block) -> ClassId| found.members(class).len().to_string();
    Remark {
        kind: RemarkKind::Analysis,
        category: "anonymize",
        name: "classes",
        message: rk_classes::report::text(found).trim_end(),
        metrics: &[
            ("blocks", found.blocks.len().to_string()),
            ("classes", count(|block| block.class)),
            ("classes_by_text", count(|block| block.spelling)),
            ("forward_classes", count(|block| block.forward_class)),
            ("forward_classes_by_text", count(|block| block.forward_spelling)),
            ("cost_classes", count(|block| block.cost_class)),
            ("nodes", found.node_classes.len().to_string()),
            ("node_classes", found.node_class_count().to_string()),
            ("saturated", (found.bits.saturated && found.cost.saturated).to_string()),
            ("terms", found.bits.terms.to_string()),
        ],
    }
    .report(step.op().location());
}

/// Reads one step.
struct Reader<'c> {
    builder: StepBuilder,
    values: HashMap<Value<'c>, ValueId>,
    types: HashMap<Type<'c>, Arc<Ty>>,
}

impl<'c> Reader<'c> {
    /// The step as data, and its nodes in the same order.
    fn read(step: StepOp<'c>, module: Op<'c>) -> Result<(Step, Vec<NodeOp<'c>>), Diagnostic<'c>> {
        let mut reader =
            Self { builder: StepBuilder::default(), values: HashMap::new(), types: HashMap::new() };
        reader.residents(step);
        let places = ops::nodes_by_symbol(module);
        let mut nodes = Vec::new();
        for run in step.body().ops().into_iter().filter_map(RunOp::of) {
            let Some(&(_, node)) = places.get(run.symbol()) else {
                let message = format!("there is no rk.node '@{}'", run.symbol());
                return Err(Diagnostic::error(run.op().location(), message));
            };
            reader.node(run, node)?;
            nodes.push(node);
        }
        let parameters: HashMap<&str, Value<'c>> = step
            .arguments()
            .into_iter()
            .enumerate()
            .filter_map(|(index, value)| Some((step.argument_name(index)?, value)))
            .collect();
        for (index, value) in step.returned().into_iter().enumerate() {
            let role = match step.result_role(index) {
                Some("loss") => Role::Loss,
                Some("gradient") => {
                    let of = step.result_name(index).and_then(|name| parameters.get(name));
                    Role::Gradient(of.and_then(|value| reader.values.get(value)).copied())
                }
                _ => Role::Output,
            };
            if let Some(&value) = reader.values.get(&views::base(value)) {
                reader.builder.returned(value, role);
            }
        }
        Ok((reader.builder.finish(), nodes))
    }

    fn residents(&mut self, step: StepOp<'c>) {
        for (index, value) in step.arguments().into_iter().enumerate() {
            let source = match step.argument_role(index) {
                Some("parameter") => Source::Parameter { trainable: step.is_trainable(index) },
                Some("buffer") => Source::Buffer,
                _ => Source::Input,
            };
            self.resident(value, source);
        }
        // MLIR makes every attribute once, so equal constants are one attribute.
        let mut known: HashMap<Attr<'c>, u64> = HashMap::new();
        for constant in step.body().ops().into_iter().filter_map(ConstantOp::of) {
            let (Some(bits), Some(value)) = (constant.value(), constant.op().result(0)) else { continue };
            let next = known.len() as u64;
            let number = *known.entry(bits).or_insert(next);
            self.resident(value, Source::Constant(number));
        }
    }

    fn resident(&mut self, value: Value<'c>, source: Source) {
        let ty = self.ty(value.ty());
        let id = self.builder.resident((*ty).clone(), source);
        self.values.insert(value, id);
    }

    fn ty(&mut self, ty: Type<'c>) -> Arc<Ty> {
        let made = self.types.entry(ty).or_insert_with(|| {
            Arc::new(match Tensor::of(ty) {
                Some(tensor) => Ty {
                    element: tensor.element.to_string(),
                    shape: tensor.shape,
                    strides: tensor.strides,
                    storage: tensor.storage,
                },
                None => Ty { element: ty.to_string(), shape: Vec::new(), strides: Vec::new(), storage: 0 },
            })
        });
        made.clone()
    }

    fn node(&mut self, run: RunOp<'c>, node: NodeOp<'c>) -> Result<(), Diagnostic<'c>> {
        let refuse = |why: &str| {
            let message = format!("node '{}' {why}", node.symbol());
            Diagnostic::error(node.op().location(), message)
        };
        let inputs: Option<Vec<ValueId>> =
            run.inputs().iter().map(|value| self.values.get(value).copied()).collect();
        let inputs = inputs.ok_or_else(|| refuse("reads a value that no run makes"))?;
        let body = node.body().ok_or_else(|| refuse("has no body"))?;
        let mut locals: HashMap<Value<'c>, usize> = HashMap::new();
        for argument in body.arguments() {
            locals.insert(argument, locals.len());
        }
        let mut calls = Vec::new();
        for call in node.calls() {
            let operands: Option<Vec<usize>> =
                call.op().operands().iter().map(|operand| locals.get(operand).copied()).collect();
            let operands = operands.ok_or_else(|| refuse("has a call that reads what is not in its body"))?;
            calls.push(Call { operator: self.operator(call), operands });
            for result in call.op().results() {
                locals.insert(result, locals.len());
            }
        }
        let yields: Option<Vec<usize>> =
            node.yielded().iter().map(|value| locals.get(value).copied()).collect();
        let plain = Node {
            name: node.symbol().to_owned(),
            path: node.calls().last().map_or("", |call| call.module_path()).to_owned(),
            backward: node.is_backward(),
            inputs,
            overwrites: node.overwrites(),
            calls,
            yields: yields.ok_or_else(|| refuse("yields what is not in its body"))?,
            outputs: Vec::new(),
        };
        let outputs = self.builder.node(plain).map_err(|error| refuse(error.why))?;
        self.values.extend(run.outputs().into_iter().zip(outputs));
        Ok(())
    }

    fn operator(&mut self, call: AtenOp<'c>) -> Operator {
        Operator {
            name: call.operator().to_owned(),
            args: call.args().iter().map(plain).collect(),
            results: call.op().results().into_iter().map(|value| self.ty(value.ty())).collect(),
            writes: call.writes(),
            effects: call.effects(),
            aliases: call.aliases(),
            random: call.is_random(),
        }
    }
}

fn plain(arg: &Arg<'_>) -> PlainArg {
    match arg {
        Arg::Value(_) => PlainArg::Value,
        Arg::None => PlainArg::None,
        Arg::Int(value) => PlainArg::Int(*value),
        Arg::Float(value) => PlainArg::Float(value.to_bits()),
        Arg::Bool(value) => PlainArg::Bool(*value),
        Arg::Str(value) => PlainArg::Str(value.clone()),
        Arg::List(inner) => PlainArg::List(inner.iter().map(plain).collect()),
    }
}
