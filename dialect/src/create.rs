//! Functions that make the ops of the dialect. None of them checks: the verifier does, with better words.

use crate::attrs::{Arg, Cost, Stage};
use crate::ops::{
    AtenOp, BufferOp, ConstantOp, DropOp, FetchOp, LaunchOp, LoadStateOp, NodeOp, OffloadOp, RunOp,
    SaveStateOp, Space, StepOp, WaitOp, WriteOp, YieldOp,
};
use crate::raw::{At, Attr, Block, Ctx, Location, Module, NewOp, Op, Type, Value};

/// What an `rk.aten` is made of.
#[derive(Clone, Debug, Default)]
pub struct AtenCall<'c> {
    /// `namespace.name.overload`.
    pub operator: String,
    /// Arguments in schema order; the SSA values among them become the operands.
    pub args: Vec<Arg<'c>>,
    /// Types of the results.
    pub results: Vec<Type<'c>>,
    /// Operands whose storage it overwrites.
    pub writes: Vec<usize>,
    /// Operands with state of the model.
    pub effects: Vec<usize>,
    /// Per result, the operand whose storage it shares. Empty when all are fresh.
    pub aliases: Vec<Option<usize>>,
    /// Draws from the device's generator.
    pub random: bool,
    /// Belongs to the backward pass.
    pub backward: bool,
    /// What it takes, if known.
    pub cost: Option<Cost>,
}

impl<'c> AtenCall<'c> {
    /// The same call as an existing op, to be changed and inserted elsewhere.
    pub fn of(call: AtenOp<'c>) -> Self {
        Self {
            operator: call.operator().to_owned(),
            args: call.args(),
            results: call.op().results().into_iter().map(Value::ty).collect(),
            writes: call.writes(),
            effects: call.effects(),
            aliases: call.aliases(),
            random: call.is_random(),
            backward: call.is_backward(),
            cost: call.cost(),
        }
    }

    /// Makes the op.
    pub fn insert(&self, at: At<'c>, location: Location<'c>) -> AtenOp<'c> {
        let ctx = location.context();
        let mut operands = Vec::new();
        let args: Vec<_> = self.args.iter().map(|arg| arg.attr(ctx, &mut operands)).collect();
        let mut attributes =
            vec![("op_name", Attr::string(ctx, &self.operator)), ("args", Attr::array(ctx, &args))];
        for (name, list) in [("writes", &self.writes), ("effects", &self.effects)] {
            if !list.is_empty() {
                let list: Vec<i64> = list.iter().map(|&index| index as i64).collect();
                attributes.push((name, Attr::i64s(ctx, &list)));
            }
        }
        if self.aliases.iter().any(Option::is_some) {
            let list: Vec<i64> =
                self.aliases.iter().map(|base| base.map_or(-1, |index| index as i64)).collect();
            attributes.push(("aliases", Attr::i64s(ctx, &list)));
        }
        push_flags(&mut attributes, ctx, &[("random", self.random), ("backward", self.backward)]);
        attributes.extend(self.cost.map(|cost| ("cost", cost.attr(ctx))));
        let op = new_op(AtenOp::NAME, location, &operands, &self.results, &attributes, &[], at);
        typed(AtenOp::of(op))
    }
}

/// What an `rk.node` is made of, except its body: append to [`NodeOp::body`], and end it with [`yield_`].
#[derive(Clone, Debug, Default)]
pub struct NewNode<'c> {
    /// Its symbol, without the `@`. Unique in the module.
    pub symbol: String,
    /// Types of the arguments.
    pub inputs: Vec<Type<'c>>,
    /// The argument that the body mutates and yields first.
    pub overwrites: Option<usize>,
    /// Draws from the device's generator.
    pub random: bool,
    /// Has a side effect that cannot be left out.
    pub once: bool,
    /// Belongs to the backward pass.
    pub backward: bool,
    /// What one run takes, if known.
    pub cost: Option<Cost>,
}

impl<'c> NewNode<'c> {
    /// Makes the op, with an empty body.
    pub fn insert(&self, at: At<'c>, location: Location<'c>) -> NodeOp<'c> {
        let ctx = location.context();
        let mut attributes = vec![("sym_name", Attr::string(ctx, &self.symbol))];
        attributes.extend(self.overwrites.map(|index| ("overwrites", Attr::i64(ctx, index as i64))));
        let flags = [("random", self.random), ("once", self.once), ("backward", self.backward)];
        push_flags(&mut attributes, ctx, &flags);
        attributes.extend(self.cost.map(|cost| ("cost", cost.attr(ctx))));
        let op = new_op(NodeOp::NAME, location, &[], &[], &attributes, &[&self.inputs], at);
        typed(NodeOp::of(op))
    }
}

/// What an `rk.run` is made of.
#[derive(Clone, Debug, Default)]
pub struct NewRun<'c> {
    /// The node's symbol, without the `@`.
    pub symbol: String,
    /// Operands, the generator state last.
    pub operands: Vec<Value<'c>>,
    /// Types of the results, `!rk.generator` last.
    pub results: Vec<Type<'c>>,
    /// A second or later run.
    pub again: bool,
    /// Reuses the storage of the node's `overwrites` operand.
    pub overwrite: bool,
}

impl<'c> NewRun<'c> {
    /// Makes the op.
    pub fn insert(&self, at: At<'c>, location: Location<'c>) -> RunOp<'c> {
        let ctx = location.context();
        let mut attributes = vec![("node", Attr::symbol(ctx, &self.symbol))];
        push_flags(&mut attributes, ctx, &[("again", self.again), ("overwrite", self.overwrite)]);
        let op = new_op(RunOp::NAME, location, &self.operands, &self.results, &attributes, &[], at);
        typed(RunOp::of(op))
    }
}

/// What an `rk.launch` is made of.
#[derive(Clone, Debug, Default)]
pub struct NewLaunch<'c> {
    /// The kernel's symbol, without the `@`.
    pub symbol: String,
    /// What it reads.
    pub inputs: Vec<Value<'c>>,
    /// The buffers that it writes.
    pub outputs: Vec<Value<'c>>,
    /// A second or later launch.
    pub again: bool,
    /// Takes over the place of the operand that the kernel overwrites.
    pub overwrite: bool,
    /// Offset in the arena and bytes.
    pub workspace: Option<(u64, u64)>,
    /// The stream that it is queued on.
    pub stream: u32,
}

impl<'c> NewLaunch<'c> {
    /// Makes the op.
    pub fn insert(&self, at: At<'c>, location: Location<'c>) -> LaunchOp<'c> {
        let ctx = location.context();
        let writes = self.outputs.len() as i64;
        let mut attributes = vec![
            ("kernel", Attr::symbol(ctx, &self.symbol)),
            ("writes", Attr::i64(ctx, writes)),
            ("stream", Attr::i64(ctx, self.stream.into())),
        ];
        push_flags(&mut attributes, ctx, &[("again", self.again), ("overwrite", self.overwrite)]);
        let clamped = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let workspace = self.workspace.map(|(offset, bytes)| [clamped(offset), clamped(bytes)]);
        attributes.extend(workspace.map(|both| ("workspace", Attr::i64s(ctx, &both))));
        let operands: Vec<_> = self.inputs.iter().chain(&self.outputs).copied().collect();
        typed(LaunchOp::of(new_op(LaunchOp::NAME, location, &operands, &[], &attributes, &[], at)))
    }
}

/// Makes `rk.buffer`.
pub fn buffer<'c>(
    space: Space,
    offset: u64,
    ty: Type<'c>,
    at: At<'c>,
    location: Location<'c>,
) -> BufferOp<'c> {
    let ctx = location.context();
    let offset = i64::try_from(offset).unwrap_or(i64::MAX);
    let attributes = [("space", Attr::string(ctx, space.as_str())), ("offset", Attr::i64(ctx, offset))];
    typed(BufferOp::of(new_op(BufferOp::NAME, location, &[], &[ty], &attributes, &[], at)))
}

/// Makes `rk.save_state`.
pub fn save_state<'c>(state: Value<'c>, at: At<'c>, location: Location<'c>) -> SaveStateOp<'c> {
    typed(SaveStateOp::of(new_op(SaveStateOp::NAME, location, &[state], &[], &[], &[], at)))
}

/// Makes `rk.load_state`.
pub fn load_state<'c>(state: Value<'c>, at: At<'c>, location: Location<'c>) -> LoadStateOp<'c> {
    typed(LoadStateOp::of(new_op(LoadStateOp::NAME, location, &[state], &[], &[], &[], at)))
}

/// Makes `rk.constant` from `dense<...>`.
pub fn constant<'c>(value: Attr<'c>, at: At<'c>, location: Location<'c>) -> ConstantOp<'c> {
    let op = new_op(ConstantOp::NAME, location, &[], &[value.ty()], &[("value", value)], &[], at);
    typed(ConstantOp::of(op))
}

/// Makes `rk.write` with an empty body: append to [`WriteOp::body`], and end it with [`yield_`]. Operand 0 is the old version;
/// `more` are the types of what the body yields behind the new one.
pub fn write<'c>(
    operands: &[Value<'c>],
    more: &[Type<'c>],
    at: At<'c>,
    location: Location<'c>,
) -> WriteOp<'c> {
    let types: Vec<_> = operands.iter().map(|value| value.ty()).collect();
    let results: Vec<_> = types.first().into_iter().chain(more).copied().collect();
    typed(WriteOp::of(new_op(WriteOp::NAME, location, operands, &results, &[], &[&types], at)))
}

/// Makes `rk.drop`.
pub fn drop<'c>(value: Value<'c>, at: At<'c>, location: Location<'c>) -> DropOp<'c> {
    typed(DropOp::of(new_op(DropOp::NAME, location, &[value], &[], &[], &[], at)))
}

/// Makes `rk.offload` of a tensor.
pub fn offload<'c>(value: Value<'c>, at: At<'c>, location: Location<'c>) -> OffloadOp<'c> {
    let copy = Type::host(value.ty());
    typed(OffloadOp::of(new_op(OffloadOp::NAME, location, &[value], &[copy], &[], &[], at)))
}

/// Makes `rk.fetch` of a copy in host memory; `ty` is the type of what was offloaded.
pub fn fetch<'c>(copy: Value<'c>, ty: Type<'c>, at: At<'c>, location: Location<'c>) -> FetchOp<'c> {
    typed(FetchOp::of(new_op(FetchOp::NAME, location, &[copy], &[ty], &[], &[], at)))
}

/// Makes `rk.wait` for the transfer that makes a value.
pub fn wait<'c>(value: Value<'c>, at: At<'c>, location: Location<'c>) -> WaitOp<'c> {
    typed(WaitOp::of(new_op(WaitOp::NAME, location, &[value], &[], &[], &[], at)))
}

/// Makes `rk.yield`.
pub fn yield_<'c>(values: &[Value<'c>], at: At<'c>, location: Location<'c>) -> YieldOp<'c> {
    typed(YieldOp::of(new_op(YieldOp::NAME, location, values, &[], &[], &[], at)))
}

/// An argument or a result of a step: its type, and its attributes such as `rk.role`.
pub type Port<'a, 'c> = (Type<'c>, &'a [(&'a str, Attr<'c>)]);

/// Makes the `func.func` of a step at the end of the module, with an empty body: append to [`StepOp::body`], and end it with
/// [`return_`].
pub fn step<'c>(
    module: &Module<'c>,
    symbol: &str,
    stage: Stage,
    arguments: &[Port<'_, 'c>],
    results: &[Port<'_, 'c>],
    location: Location<'c>,
) -> StepOp<'c> {
    let ctx = location.context();
    let types = |ports: &[Port<'_, 'c>]| ports.iter().map(|(ty, _)| *ty).collect::<Vec<_>>();
    let dicts = |ports: &[Port<'_, 'c>]| {
        let dicts: Vec<_> = ports.iter().map(|(_, attributes)| Attr::dict(ctx, attributes)).collect();
        Attr::array(ctx, &dicts)
    };
    let inputs = types(arguments);
    let attributes = [
        ("sym_name", Attr::string(ctx, symbol)),
        ("function_type", Attr::of_type(Type::function(ctx, &inputs, &types(results)))),
        ("arg_attrs", dicts(arguments)),
        ("res_attrs", dicts(results)),
        ("rk.stage", stage.attr(ctx)),
    ];
    let op = new_op("func.func", location, &[], &[], &attributes, &[&inputs], At::End(module.body()));
    typed(StepOp::of(op))
}

/// Makes the `func.return` of a step.
pub fn return_<'c>(values: &[Value<'c>], at: At<'c>, location: Location<'c>) -> Op<'c> {
    new_op("func.return", location, values, &[], &[], &[], at)
}

/// Copies the ops of `from` except its terminator to `at`, with `from`'s arguments replaced by `values`. Returns what the
/// terminator's operands have become.
pub fn inline<'c>(from: Block<'c>, values: &[Value<'c>], at: At<'c>) -> Vec<Value<'c>> {
    let mut map: std::collections::HashMap<Value<'c>, Value<'c>> =
        from.arguments().into_iter().zip(values.iter().copied()).collect();
    let now = |map: &std::collections::HashMap<Value<'c>, Value<'c>>, value: Value<'c>| {
        map.get(&value).copied().unwrap_or(value)
    };
    let terminator = from.terminator();
    let mut place = at;
    for op in from.ops() {
        if Some(op) == terminator {
            break;
        }
        let copy = op.clone_to(place);
        place = At::After(copy);
        for (index, operand) in op.operands().into_iter().enumerate() {
            copy.set_operand(index, now(&map, operand));
        }
        map.extend(op.results().into_iter().zip(copy.results()));
    }
    let ends = terminator.map(Op::operands).unwrap_or_default();
    ends.into_iter().map(|value| now(&map, value)).collect()
}

fn push_flags<'a, 'c>(attributes: &mut Vec<(&'a str, Attr<'c>)>, ctx: Ctx<'c>, flags: &[(&'a str, bool)]) {
    attributes.extend(flags.iter().filter(|(_, on)| *on).map(|(name, _)| (*name, Attr::unit(ctx))));
}

fn new_op<'c>(
    name: &str,
    location: Location<'c>,
    operands: &[Value<'c>],
    results: &[Type<'c>],
    attributes: &[(&str, Attr<'c>)],
    bodies: &[&[Type<'c>]],
    at: At<'c>,
) -> Op<'c> {
    NewOp { name, location, operands, results, attributes, bodies }.insert(at)
}

/// A view of an op that this module has just made under that very name.
fn typed<T>(view: Option<T>) -> T {
    view.expect("the op was made under the name that the view asks for")
}
