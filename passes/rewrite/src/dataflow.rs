//! `--rk-dataflow`: from `raw` to `dataflow`. Values only: what was written in place becomes a new value.
//!
//! # Before and after
//! ```mlir
//! %h = rk.aten "aten.mm.default"(%x, %w) : ...
//! %r = rk.aten "aten.relu_.default"(%h) writes(0) aliases(0) : ...     // %h and %r are one storage
//! %s = rk.aten "aten.sum.default"(%h, none) : ...                      // reads what relu_ wrote
//! ==>
//! %h = rk.aten "aten.mm.default"(%x, %w) : ...
//! %r = rk.write(%h) { ^bb0(%b: ...): rk.aten "aten.relu_.default"(%b) writes(0) ...; rk.yield %b } : ...
//! %s = rk.aten "aten.sum.default"(%r, none) : ...
//! ```
//!
//! # How
//! Every raw value has a *place*: a root (an argument, a constant, or fresh storage), a chain of views from it, and the version
//! of the root at which its SSA value was made. A write on fresh storage makes the next version of the root; a later
//! read of an older place builds its views again on the new version. A write on an argument is a side effect of the step
//! and stays; where the operator can be run without its state (batch norm without running statistics) it becomes `effects`.
//! Operators that read an operand for its shape only lose that operand (`shape_only.rs`).
//!
//! # Contract
//! Needs `raw`, establishes `dataflow`: no `writes` but on arguments and inside `rk.write`; no `detach`; nothing dead.
//!
//! # Not here
//! Whether the storage is really reused: that is the schedule's decision, later.

use std::collections::HashMap;

use rk_dialect::create::{self, AtenCall};
use rk_dialect::diagnostic::{Diagnostic, Failure};
use rk_dialect::ops::{AtenOp, ConstantOp, StepOp};
use rk_dialect::pass::{PassContext, PassSpec};
use rk_dialect::{Arg, At, Eraser, Location, Stage, Tensor, Value};

use crate::dead::erase_dead;
use crate::shape_only::without_shape_operands;

/// The pass.
pub static PASS: PassSpec = PassSpec {
    name: "Dataflow",
    argument: "rk-dataflow",
    description: "Turns in-place operators into new values, views into chains from their base; drops what is dead",
    options: &[],
    run: |cx| run(cx),
};

/// Operators whose written operands hold state of the model and may be absent, by schema position.
/// Source: `native_functions.yaml` of torch 2.11, `Tensor? running_mean, Tensor? running_var`.
const OPTIONAL_STATE: [(&str, [usize; 2]); 3] = [
    ("aten.native_batch_norm.default", [3, 4]),
    ("aten.cudnn_batch_norm.default", [3, 4]),
    ("aten.miopen_batch_norm.default", [3, 4]),
];

fn run<'c>(cx: &mut PassContext<'c>) -> Result<(), Failure<'c>> {
    let device = crate::device(cx.module());
    for step in cx.steps_at(Stage::Raw) {
        cx.at(step.op());
        Rewriter::new(step, &device).rewrite(cx.eraser())?;
        erase_dead(step.body(), cx.eraser());
        step.set_stage(Stage::Dataflow);
    }
    Ok(())
}

/// Storage: an argument, a constant, or what an operator allocated.
struct Root<'c> {
    /// The newest version.
    value: Value<'c>,
    version: u32,
    /// Exists before the step: a write on it is a side effect.
    resident: bool,
}

/// One view operator of a chain, to be built again on another version.
struct Link<'c> {
    call: AtenCall<'c>,
    /// Which operand is the base, and which result the view.
    base: usize,
    result: usize,
    location: Location<'c>,
}

/// Where a raw value lives.
#[derive(Clone)]
struct Place<'c> {
    root: usize,
    /// Indices into [`Rewriter::links`], from the root on.
    chain: Vec<usize>,
    /// `value` shows this version of the root.
    version: u32,
    value: Value<'c>,
}

struct Rewriter<'a, 'c> {
    step: StepOp<'c>,
    device: &'a str,
    roots: Vec<Root<'c>>,
    links: Vec<Link<'c>>,
    places: HashMap<Value<'c>, Place<'c>>,
}

impl<'a, 'c> Rewriter<'a, 'c> {
    fn new(step: StepOp<'c>, device: &'a str) -> Self {
        Self { step, device, roots: Vec::new(), links: Vec::new(), places: HashMap::new() }
    }

    fn rewrite(&mut self, eraser: &Eraser<'c>) -> Result<(), Failure<'c>> {
        for argument in self.step.arguments() {
            self.add_root(argument, argument, true);
        }
        let terminator = self.step.body().terminator();
        let mut replaced = Vec::new();
        for op in self.step.body().ops() {
            if Some(op) == terminator {
                let now: Vec<_> =
                    op.operands().into_iter().map(|value| self.current(value, At::Before(op))).collect();
                op.set_operands(&now);
            } else if let Some(constant) = ConstantOp::of(op) {
                constant.op().results().into_iter().for_each(|value| self.add_root(value, value, true));
            } else if let Some(call) = AtenOp::of(op) {
                self.call(call)?;
                replaced.push(op);
            } else {
                let message = format!("'{}' is not an op of stage raw", op.name());
                return Err(Diagnostic::error(op.location(), message).into());
            }
        }
        replaced.into_iter().rev().for_each(|op| eraser.erase(op));
        Ok(())
    }

    /// `raw` is storage of its own, shown by `value`.
    fn add_root(&mut self, raw: Value<'c>, value: Value<'c>, resident: bool) {
        let root = self.roots.len();
        self.roots.push(Root { value, version: 0, resident });
        self.places.insert(raw, Place { root, chain: Vec::new(), version: 0, value });
    }

    /// The value that shows what `raw` holds now; builds its views at `at` if its root was written since.
    fn current(&mut self, raw: Value<'c>, at: At<'c>) -> Value<'c> {
        let Some(place) = self.places.get(&raw).cloned() else { return raw };
        let root = &self.roots[place.root];
        if place.version == root.version {
            return place.value;
        }
        let (version, base) = (root.version, root.value);
        let value = self.build_views(&place.chain, base, at);
        self.places.insert(raw, Place { version, value, ..place });
        value
    }

    fn build_views(&mut self, chain: &[usize], base: Value<'c>, at: At<'c>) -> Value<'c> {
        let mut value = base;
        for &link in chain {
            let Link { call, base, result, location } = &self.links[link];
            let mut call = call.clone();
            replace_operand(&mut call.args, *base, value);
            let made = call.insert(at, *location);
            value = made.op().result(*result).unwrap_or(value);
        }
        value
    }

    fn call(&mut self, call: AtenOp<'c>) -> Result<(), Failure<'c>> {
        let at = At::Before(call.op());
        let writes = call.writes();
        let operands = call.op().operands();
        let fresh = |rewriter: &Self, index: usize| {
            let place = operands.get(index).and_then(|value| rewriter.places.get(value));
            place.map(|place| place.root).filter(|&root| !rewriter.roots[root].resident)
        };
        let mut targets: Vec<usize> = Vec::new();
        for root in writes.iter().filter_map(|&index| fresh(self, index)) {
            if !targets.contains(&root) {
                targets.push(root);
            }
        }
        for (result, base) in call.aliases().into_iter().enumerate() {
            // `t_`, `squeeze_` and the like change what their operand looks like, not what it holds.
            let Some(base) = base.filter(|base| writes.contains(base)) else { continue };
            if call.op().result(result).map(Value::ty) != operands.get(base).map(|value| value.ty()) {
                let message = format!("'{}' changes the shape of its operand in place", call.operator());
                return Err(Diagnostic::error(call.op().location(), message).into());
            }
        }
        if targets.is_empty() {
            self.keep(call, at);
        } else {
            self.write(call, &targets, at);
        }
        Ok(())
    }

    /// A call that overwrites no fresh storage: the same call on current values.
    fn keep(&mut self, call: AtenOp<'c>, at: At<'c>) {
        let mut new = AtenCall::of(call);
        map_values(&mut new.args, &mut |value| self.current(value, at));
        let identity = call.is_view() && call.operator() == "aten.detach.default";
        without_shape_operands(&mut new, self.device);
        if optional_state(&new) {
            new.effects = std::mem::take(&mut new.writes);
        }
        let made = if identity { None } else { Some(new.insert(at, call.op().location())) };
        for (result, base) in call.aliases().into_iter().enumerate() {
            let Some(raw) = call.op().result(result) else { continue };
            let value = made.and_then(|made| made.op().result(result));
            let base =
                base.and_then(|base| Some((base, self.places.get(&call.op().operand(base)?)?.clone())));
            let Some((base, mut place)) = base else {
                if let Some(value) = value {
                    self.add_root(raw, value, false);
                }
                continue;
            };
            // The result of a write on an argument is the argument; of `detach`, its operand.
            if !identity && !call.writes().contains(&base) {
                self.links.push(Link { call: new.clone(), base, result, location: call.op().location() });
                place.chain.push(self.links.len() - 1);
                place.value = value.unwrap_or(place.value);
            } else if let Some(operand) = call.op().operand(base) {
                place.value = self.current(operand, at);
            }
            place.version = self.roots[place.root].version;
            self.places.insert(raw, place);
        }
    }

    /// A call that overwrites fresh storage: the next version of its root. It works on the first of several targets in
    /// place, on the others through copies, which become their next versions.
    fn write(&mut self, call: AtenOp<'c>, targets: &[usize], at: At<'c>) {
        let location = call.op().location();
        let target = |rewriter: &Self, value: Value<'c>| {
            let root = rewriter.places.get(&value)?.root;
            targets.iter().position(|&target| target == root)
        };
        let mut inputs: Vec<Value<'c>> = targets.iter().map(|&root| self.roots[root].value).collect();
        for operand in call.op().operands() {
            if target(self, operand).is_none() {
                let value = self.current(operand, at);
                if !inputs.contains(&value) {
                    inputs.push(value);
                }
            }
        }
        let fresh: Vec<usize> = (0..call.op().result_count())
            .filter(|&index| call.base_of(index).is_none())
            .filter(|&index| call.op().result(index).is_some_and(|value| !value.is_unused()))
            .collect();
        let copied = inputs[1..targets.len()].iter().map(|value| value.ty());
        let made = fresh.iter().filter_map(|&index| call.op().result(index)).map(Value::ty);
        let more: Vec<_> = copied.chain(made).collect();
        let write = create::write(&inputs, &more, at, location);
        let body = write.body().expect("create::write makes a body");
        let arguments = body.arguments();
        let mut yielded = vec![arguments[0]];
        for argument in &arguments[1..targets.len()] {
            let copy = AtenCall {
                operator: "aten.clone.default".to_owned(),
                args: vec![Arg::Value(*argument), Arg::None],
                results: vec![argument.ty()],
                backward: call.is_backward(),
                ..AtenCall::default()
            };
            yielded.extend(copy.insert(At::End(body), location).op().results());
        }
        let mut new = AtenCall::of(call);
        map_values(&mut new.args, &mut |value| match target(self, value) {
            Some(index) => {
                let chain = self.places[&value].chain.clone();
                self.build_views(&chain, yielded[index], At::End(body))
            }
            None => {
                let now = self.current(value, at);
                inputs.iter().position(|&input| input == now).map_or(now, |index| arguments[index])
            }
        });
        let done = new.insert(At::End(body), location);
        yielded.extend(fresh.iter().filter_map(|&index| done.op().result(index)));
        create::yield_(&yielded, At::End(body), location);
        let results = write.op().results();
        for (&root, &value) in targets.iter().zip(&results) {
            self.roots[root].value = value;
            self.roots[root].version += 1;
        }
        for (&index, &value) in fresh.iter().zip(&results[targets.len()..]) {
            call.op().result(index).into_iter().for_each(|raw| self.add_root(raw, value, false));
        }
        // A result that is its operand under another name shows, from now on, the new version.
        for index in 0..call.op().result_count() {
            let place = call.base_of(index).and_then(|base| self.places.get(&base)).cloned();
            if let (Some(raw), Some(place)) = (call.op().result(index), place) {
                self.places.insert(raw, place);
            }
        }
    }
}

/// Whether all that the call writes is state that it can be run without.
fn optional_state(call: &AtenCall<'_>) -> bool {
    let Some((_, positions)) = OPTIONAL_STATE.iter().find(|(operator, _)| *operator == call.operator) else {
        return false;
    };
    // Without weights, only the state says that a norm of lower precision computes in that of the state.
    let element = |position: usize| match call.args.get(position) {
        Some(Arg::Value(value)) => Tensor::of(value.ty()).and_then(|tensor| tensor.element.element_type()),
        _ => None,
    };
    let has_weights = [1, 2].iter().any(|&position| element(position).is_some());
    if !has_weights && positions.iter().any(|&position| element(position) != element(0)) {
        return false;
    }
    let mut operand = 0;
    let mut optional = Vec::new();
    for (position, arg) in call.args.iter().enumerate() {
        let count = arg.values().len();
        if positions.contains(&position) {
            optional.extend(operand..operand + count);
        }
        operand += count;
    }
    !call.writes.is_empty() && call.writes.iter().all(|index| optional.contains(index))
}

/// Replaces every SSA value among the arguments.
pub fn map_values<'c>(args: &mut [Arg<'c>], map: &mut dyn FnMut(Value<'c>) -> Value<'c>) {
    for arg in args {
        match arg {
            Arg::Value(value) => *value = map(*value),
            Arg::List(elements) => map_values(elements, map),
            _ => {}
        }
    }
}

/// Replaces the SSA value that is operand number `operand`.
pub fn replace_operand<'c>(args: &mut [Arg<'c>], operand: usize, value: Value<'c>) {
    let mut number = 0;
    map_values(args, &mut |old| {
        number += 1;
        if number == operand + 1 { value } else { old }
    });
}
