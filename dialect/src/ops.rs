//! Typed, borrowed views of the ops: what each holds, read without edits. [`crate::create`] makes them.
//!
//! A view is made with `of`, which answers `None` for any other op. Readers never panic on an op that the verifier would
//! refuse: what is missing reads as absent.

mod lowered;
mod marks;
mod transfers;

pub use crate::step::StepOp;
pub use lowered::{BufferOp, Execution, LaunchOp, LoadStateOp, SaveStateOp, Space};
pub(crate) use marks::KERNEL;
pub use transfers::{FetchOp, OffloadOp, Transfer, WaitOp};

use crate::attrs::{Arg, Cost};
use crate::raw::{Attr, Block, Op, Type, Value};
use crate::view::view;

view! {
    /// `rk.aten`: one ATen operator call.
    AtenOp = "rk.aten"
}
view! {
    /// `rk.constant`: a tensor baked into the trace.
    ConstantOp = "rk.constant"
}
view! {
    /// `rk.write`: a new version of a value.
    WriteOp = "rk.write"
}
view! {
    /// `rk.node`: one real computation, run by name.
    NodeOp = "rk.node"
}
view! {
    /// `rk.run`: one execution of a node.
    RunOp = "rk.run"
}
view! {
    /// `rk.drop`: frees a value.
    DropOp = "rk.drop"
}
view! {
    /// `rk.yield`: ends a body.
    YieldOp = "rk.yield"
}

/// Indices of an `array<i64>` attribute; what is negative or absent is left out.
fn indices(op: Op<'_>, name: &str) -> Vec<usize> {
    let raw = op.get(name).and_then(Attr::as_i64s).unwrap_or_default();
    raw.into_iter().filter_map(|index| usize::try_from(index).ok()).collect()
}

fn cost(op: Op<'_>) -> Option<Cost> {
    op.get("cost").and_then(Cost::of)
}

fn flag(op: Op<'_>, name: &str) -> bool {
    op.get(name).is_some()
}

impl<'c> AtenOp<'c> {
    /// `namespace.name.overload`, such as `aten.add_.Tensor`.
    pub fn operator(self) -> &'c str {
        self.0.get("op_name").and_then(Attr::as_str).unwrap_or_default()
    }

    /// Namespace, name and overload of the operator.
    pub fn operator_parts(self) -> Option<(&'c str, &'c str, &'c str)> {
        let (space, rest) = self.operator().split_once('.')?;
        let (name, overload) = rest.rsplit_once('.')?;
        Some((space, name, overload))
    }

    /// The arguments in schema order.
    pub fn args(self) -> Vec<Arg<'c>> {
        let mut operands = self.0.operands().into_iter();
        let args = self.0.get("args").and_then(Attr::as_array).unwrap_or_default();
        args.into_iter().filter_map(|arg| Arg::of(arg, &mut operands)).collect()
    }

    /// Operands whose storage it overwrites.
    pub fn writes(self) -> Vec<usize> {
        indices(self.0, "writes")
    }

    /// Operands with state of the model, which the first run updates and a second is not given.
    pub fn effects(self) -> Vec<usize> {
        indices(self.0, "effects")
    }

    /// Per result, the operand whose storage it shares.
    pub fn aliases(self) -> Vec<Option<usize>> {
        let raw = self.0.get("aliases").and_then(Attr::as_i64s).unwrap_or_default();
        (0..self.0.result_count())
            .map(|index| raw.get(index).and_then(|&operand| usize::try_from(operand).ok()))
            .collect()
    }

    /// The value whose storage a result shares, one step up the chain.
    pub fn base_of(self, result: usize) -> Option<Value<'c>> {
        self.aliases().get(result).copied().flatten().and_then(|operand| self.0.operand(operand))
    }

    /// Whether it only makes views: every result shares storage, nothing is written or drawn.
    pub fn is_view(self) -> bool {
        self.0.result_count() > 0
            && self.aliases().iter().all(Option::is_some)
            && self.writes().is_empty()
            && self.effects().is_empty()
            && !self.is_random()
    }

    /// Whether it draws from the device's generator.
    pub fn is_random(self) -> bool {
        flag(self.0, "random")
    }

    /// Whether it belongs to the backward pass.
    pub fn is_backward(self) -> bool {
        flag(self.0, "backward")
    }

    /// What the call takes, if known.
    pub fn cost(self) -> Option<Cost> {
        cost(self.0)
    }

    /// The module path of its NameLoc; empty at the root or without one.
    pub fn module_path(self) -> &'c str {
        self.0.location().name().filter(|name| *name != "<root>").unwrap_or_default()
    }
}

impl<'c> ConstantOp<'c> {
    /// The elements, as an attribute.
    pub fn value(self) -> Option<Attr<'c>> {
        self.0.get("value")
    }
}

impl<'c> WriteOp<'c> {
    /// The old version.
    pub fn old(self) -> Option<Value<'c>> {
        self.0.operand(0)
    }

    /// The new version.
    #[allow(clippy::new_ret_no_self, reason = "the opposite of `old`, not a constructor")]
    pub fn new(self) -> Option<Value<'c>> {
        self.0.result(0)
    }

    /// The body.
    pub fn body(self) -> Option<Block<'c>> {
        self.0.body()
    }
}

impl<'c> NodeOp<'c> {
    /// Its symbol, without the `@`.
    pub fn symbol(self) -> &'c str {
        self.0.get("sym_name").and_then(Attr::as_str).unwrap_or_default()
    }

    /// The body.
    pub fn body(self) -> Option<Block<'c>> {
        self.0.body()
    }

    /// Types of the arguments.
    pub fn inputs(self) -> Vec<Type<'c>> {
        self.body().map(|body| body.arguments().into_iter().map(Value::ty).collect()).unwrap_or_default()
    }

    /// What the body yields.
    pub fn yielded(self) -> Vec<Value<'c>> {
        self.body().and_then(Block::terminator).map(Op::operands).unwrap_or_default()
    }

    /// Types of the results.
    pub fn outputs(self) -> Vec<Type<'c>> {
        self.yielded().into_iter().map(Value::ty).collect()
    }

    /// The argument that the body mutates and yields as its first result.
    pub fn overwrites(self) -> Option<usize> {
        self.0.get("overwrites").and_then(Attr::as_i64).and_then(|index| usize::try_from(index).ok())
    }

    /// Whether it draws from the device's generator.
    pub fn is_random(self) -> bool {
        flag(self.0, "random")
    }

    /// Whether it has a side effect that cannot be left out on a second run.
    pub fn is_once(self) -> bool {
        flag(self.0, "once")
    }

    /// Whether it belongs to the backward pass.
    pub fn is_backward(self) -> bool {
        flag(self.0, "backward")
    }

    /// What one run takes, if known.
    pub fn cost(self) -> Option<Cost> {
        cost(self.0)
    }

    /// The calls in the body, in order.
    pub fn calls(self) -> Vec<AtenOp<'c>> {
        let ops = self.body().map(Block::ops).unwrap_or_default();
        ops.into_iter().filter_map(AtenOp::of).collect()
    }

    /// Whether a first run does something that the step must do exactly once: a draw, an update of the model's state.
    pub fn has_side_effect(self) -> bool {
        self.is_once() || self.is_random() || self.calls().into_iter().any(|call| !call.effects().is_empty())
    }
}

impl<'c> RunOp<'c> {
    /// The symbol of the node, without the `@`.
    pub fn symbol(self) -> &'c str {
        self.0.get("node").and_then(Attr::as_symbol).unwrap_or_default()
    }

    /// The node that it runs. Linear in the number of nodes: for many look-ups use [`crate::ops::nodes_by_symbol`].
    pub fn node(self) -> Option<NodeOp<'c>> {
        self.0.lookup(self.symbol()).and_then(NodeOp::of)
    }

    /// Whether it is a second or later run.
    pub fn is_again(self) -> bool {
        flag(self.0, "again")
    }

    /// Whether it hands the storage of the node's `overwrites` operand over to the first result.
    pub fn is_overwrite(self) -> bool {
        flag(self.0, "overwrite")
    }

    /// Operands of the node, without a generator state.
    pub fn inputs(self) -> Vec<Value<'c>> {
        self.0.operands().into_iter().filter(|value| !value.ty().is_generator()).collect()
    }

    /// Results of the node, without a generator state.
    pub fn outputs(self) -> Vec<Value<'c>> {
        self.0.results().into_iter().filter(|value| !value.ty().is_generator()).collect()
    }

    /// The generator state that this run starts from (`again` of a random node).
    pub fn generator_operand(self) -> Option<Value<'c>> {
        self.0.operands().into_iter().find(|value| value.ty().is_generator())
    }

    /// The generator state that this first run saved.
    pub fn generator_result(self) -> Option<Value<'c>> {
        self.0.results().into_iter().find(|value| value.ty().is_generator())
    }
}

impl<'c> DropOp<'c> {
    /// What it frees.
    pub fn value(self) -> Option<Value<'c>> {
        self.0.operand(0)
    }
}

/// The nodes of a module, in the original order of execution.
pub fn nodes(module: Op<'_>) -> Vec<NodeOp<'_>> {
    let ops = module.body().map(Block::ops).unwrap_or_default();
    ops.into_iter().filter_map(NodeOp::of).collect()
}

/// The nodes of a module by symbol, each with its place in the original order.
pub fn nodes_by_symbol(module: Op<'_>) -> std::collections::BTreeMap<&str, (usize, NodeOp<'_>)> {
    nodes(module).into_iter().enumerate().map(|(place, node)| (node.symbol(), (place, node))).collect()
}
