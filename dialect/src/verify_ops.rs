//! What an op shows by itself, or together with the node that it names. One function per kind of op.

use crate::diagnostic::Diagnostic;
use crate::names;
use crate::ops::{AtenOp, BufferOp, Execution, LaunchOp, NodeOp, RunOp, WriteOp, YieldOp};
use crate::raw::{Attr, Block, Op, Type, Value};
use crate::schedule::is_ordered;
use crate::verify_lowered;

type Verdict<'c> = Result<(), Diagnostic<'c>>;

/// Verifies one op; false after an error was reported. Bodies are verified when this is called.
pub(crate) fn op(op: Op<'_>) -> bool {
    let verdict = match op.name() {
        AtenOp::NAME => AtenOp::of(op).map_or(Ok(()), aten),
        WriteOp::NAME => WriteOp::of(op).map_or(Ok(()), write),
        NodeOp::NAME => NodeOp::of(op).map_or(Ok(()), node),
        BufferOp::NAME => BufferOp::of(op).map_or(Ok(()), verify_lowered::buffer),
        LaunchOp::NAME => LaunchOp::of(op).map_or(Ok(()), verify_lowered::launch),
        _ => Ok(()),
    };
    accepted(verdict)
}

/// Verifies a run against the node that it names; false after an error was reported.
pub(crate) fn callee<'c>(run: Op<'c>, node: Option<Op<'c>>) -> bool {
    let node = node.and_then(NodeOp::of);
    match Execution::of(run) {
        Some(Execution::Run(run)) => accepted(run_of_node(run, node)),
        Some(Execution::Launch(_)) => accepted(signature_of_node(run, node)),
        None => true,
    }
}

fn accepted(verdict: Verdict<'_>) -> bool {
    verdict.map_err(Diagnostic::report).is_ok()
}

fn refuse<T>(op: Op<'_>, message: String) -> Result<T, Diagnostic<'_>> {
    Err(Diagnostic::error(op.location(), message))
}

/// rk.aten: a well-formed name, arguments that match the operands, clauses within range.
fn aten(call: AtenOp<'_>) -> Verdict<'_> {
    let op = call.op();
    let operator = call.operator();
    let parts = operator.split('.').collect::<Vec<_>>();
    if parts.len() != 3 || parts.iter().any(|part| part.is_empty()) {
        return refuse(
            op,
            format!("'{operator}' is not an operator's name; that is namespace.name.overload"),
        );
    }
    let mut values = 0;
    for arg in op.get("args").and_then(Attr::as_array).unwrap_or_default() {
        if let Some(stranger) = not_an_argument(arg, &mut values) {
            return refuse(
                op,
                format!(
                    "'{operator}': {stranger} is no argument; that is a value, none, an i64, an f64, a boolean, a string, or a list of these"
                ),
            );
        }
    }
    let operands = op.operand_count();
    if values != operands {
        return refuse(
            op,
            format!("'{operator}': {values} arguments are values, but there are {operands} operands"),
        );
    }
    let mut seen: Vec<i64> = Vec::new();
    for clause in ["writes", "effects"] {
        for index in op.get(clause).and_then(Attr::as_i64s).unwrap_or_default() {
            if usize::try_from(index).map_or(true, |index| index >= operands) {
                return refuse(
                    op,
                    format!("'{operator}': {clause}({index}), but there are {operands} operands"),
                );
            }
            if seen.contains(&index) {
                return refuse(
                    op,
                    format!("'{operator}': operand {index} is named twice in writes and effects"),
                );
            }
            seen.push(index);
        }
    }
    let Some(aliases) = op.get("aliases").and_then(Attr::as_i64s) else { return Ok(()) };
    if aliases.len() != op.result_count() {
        return refuse(
            op,
            format!("'{operator}': aliases has {} entries for {} results", aliases.len(), op.result_count()),
        );
    }
    for index in aliases {
        if index < -1 || usize::try_from(index).is_ok_and(|index| index >= operands) {
            return refuse(
                op,
                format!(
                    "'{operator}': aliases({index}), but there are {operands} operands (-1 is fresh storage)"
                ),
            );
        }
    }
    Ok(())
}

/// The first attribute in an argument that is none, counting the values on the way.
fn not_an_argument<'c>(arg: Attr<'c>, values: &mut usize) -> Option<Attr<'c>> {
    if arg.is_unit() {
        *values += 1;
        return None;
    }
    if let Some(elements) = arg.as_array() {
        return elements.into_iter().find_map(|element| not_an_argument(element, values));
    }
    let i64_or_f64 = || {
        let ty = arg.ty();
        (arg.as_i64().is_some() && ty.integer_width() == Some(64))
            || (arg.as_f64().is_some() && ty.float_width() == Some(64))
    };
    let known = arg.is_none_argument() || arg.as_bool().is_some() || arg.as_str().is_some() || i64_or_f64();
    (!known).then_some(arg)
}

/// The argument of the body whose storage this value shares, if it is one.
fn argument_behind(value: Value<'_>) -> Option<usize> {
    let mut value = value;
    loop {
        if let Some((_, number)) = value.argument() {
            return Some(number);
        }
        let (op, number) = value.producer()?;
        value = AtenOp::of(op)?.base_of(number)?;
    }
}

/// The first call in a body that writes to an argument other than `allowed`, with that argument.
fn undeclared_write<'c>(body: Block<'c>, allowed: Option<usize>) -> Option<(AtenOp<'c>, usize)> {
    if !is_ordered(body) {
        return None;
    }
    body.ops().into_iter().filter_map(AtenOp::of).find_map(|call| {
        let written = call.writes().into_iter().filter_map(|index| call.op().operand(index));
        let argument = written.filter_map(argument_behind).find(|&argument| Some(argument) != allowed)?;
        Some((call, argument))
    })
}

fn yielded<'c>(op: Op<'c>, body: Block<'c>) -> Result<Vec<Value<'c>>, Diagnostic<'c>> {
    match body.terminator().and_then(YieldOp::of) {
        Some(end) => Ok(end.op().operands()),
        None => refuse(op, format!("the body of '{}' does not end with rk.yield", op.name())),
    }
}

/// rk.write: the body takes the operands, mutates the first and yields it, perhaps with what else it made.
fn write(write: WriteOp<'_>) -> Verdict<'_> {
    let op = write.op();
    let Some(old) = write.old() else {
        return refuse(op, "'rk.write' needs the old version as operand 0".to_owned());
    };
    let Some(body) = write.body() else { return refuse(op, "'rk.write' needs a body".to_owned()) };
    let takes: Vec<_> = body.arguments().into_iter().map(Value::ty).collect();
    let given: Vec<_> = op.operands().into_iter().map(Value::ty).collect();
    if takes != given {
        return refuse(
            op,
            format!("the body of 'rk.write' takes {}, its operands are {}", list(&takes), list(&given)),
        );
    }
    if write.new().map(Value::ty) != Some(old.ty()) {
        return refuse(op, format!("the new version has another type than the old one, {}", old.ty()));
    }
    let ends = yielded(op, body)?;
    if ends.first() != body.arguments().first() {
        return refuse(
            op,
            "the body of 'rk.write' yields its first argument, which it mutates in place".to_owned(),
        );
    }
    let (yields, results): (Vec<_>, Vec<_>) =
        (ends.iter().map(|value| value.ty()).collect(), op.results().into_iter().map(Value::ty).collect());
    if yields != results {
        return refuse(
            op,
            format!("the body of 'rk.write' yields {}, its results are {}", list(&yields), list(&results)),
        );
    }
    if let Some((call, argument)) = undeclared_write(body, Some(0)) {
        return refuse(op, format!("the body of 'rk.write' mutates argument {argument}, not only its first"))
            .map_err(|error: Diagnostic<'_>| error.note(call.op().location(), "here"));
    }
    Ok(())
}

/// rk.node: `overwrites`, `random` and `once` say what the body does.
fn node(node: NodeOp<'_>) -> Verdict<'_> {
    let op = node.op();
    let name = node.symbol();
    let Some(body) = node.body() else { return refuse(op, format!("'{name}' has no body")) };
    let ends = yielded(op, body)?;
    if let Some(index) = op.get("overwrites").and_then(Attr::as_i64) {
        let argument = usize::try_from(index).ok().and_then(|index| body.arguments().get(index).copied());
        match argument {
            None => {
                return refuse(
                    op,
                    format!(
                        "'{name}': overwrites({index}), but the body takes {} arguments",
                        body.arguments().len()
                    ),
                );
            }
            Some(argument) if ends.first() != Some(&argument) => {
                return refuse(
                    op,
                    format!(
                        "'{name}': overwrites({index}), but the body does not yield that argument as its first result"
                    ),
                );
            }
            Some(_) => {}
        }
    }
    if !node.is_once()
        && let Some((call, argument)) = undeclared_write(body, node.overwrites())
    {
        let message = format!(
            "'{name}' mutates argument {argument} of its body, so it needs overwrites({argument}), or once if that is state of the model"
        );
        return Err(Diagnostic::error(op.location(), message).note(call.op().location(), "mutated here"));
    }
    if !node.is_random()
        && let Some(call) = node.calls().into_iter().find(|call| call.is_random())
    {
        let message = format!("'{name}' draws random numbers, so it needs random");
        return Err(Diagnostic::error(op.location(), message).note(call.op().location(), "drawn here"));
    }
    Ok(())
}

/// rk.run and rk.launch: the node exists and its signature fits.
fn signature_of_node<'c>(op: Op<'c>, node: Option<NodeOp<'c>>) -> Verdict<'c> {
    let Some(run) = Execution::of(op) else { return Ok(()) };
    let name = run.symbol();
    let Some(node) = node else { return refuse(op, format!("there is no rk.node '{name}' in this module")) };
    let here = |message: String| {
        Err(Diagnostic::error(op.location(), message).note(node.op().location(), "the node is defined here"))
    };
    let signature = |what: &str, takes: Vec<Type<'c>>, given: Vec<Value<'c>>| {
        if takes.len() != given.len() {
            return here(format!("'{name}' has {} {what}s, this run {}", takes.len(), given.len()));
        }
        for (index, (takes, given)) in takes.into_iter().zip(given).enumerate() {
            if takes != given.ty() {
                return here(format!(
                    "{what} {index} of '{name}' is {takes}, here '{}' is {}",
                    names::of(given),
                    given.ty()
                ));
            }
        }
        Ok(())
    };
    signature("operand", node.inputs(), run.inputs())?;
    signature("result", node.outputs(), run.outputs())?;
    if run.is_overwrite() && node.overwrites().is_none() {
        return here(format!("'{name}' does not overwrite an operand"));
    }
    Ok(())
}

/// rk.run: the signature fits, and generator states stand where they must.
fn run_of_node<'c>(run: RunOp<'c>, node: Option<NodeOp<'c>>) -> Verdict<'c> {
    let (op, name) = (run.op(), run.symbol());
    signature_of_node(op, node)?;
    let Some(node) = node else { return Ok(()) };
    let here = |message: String| {
        Err(Diagnostic::error(op.location(), message).note(node.op().location(), "the node is defined here"))
    };
    let generators = |values: Vec<Value<'c>>| values.iter().filter(|value| value.ty().is_generator()).count();
    let (taken, saved) = (generators(op.operands()), generators(op.results()));
    let last = |values: Vec<Value<'c>>| values.last().is_some_and(|value| value.ty().is_generator());
    let (takes, saves) = (node.is_random() && run.is_again(), node.is_random() && !run.is_again());
    if takes && (taken != 1 || !last(op.operands())) {
        return here(format!(
            "S4: '{name}' is random: 'again' takes the generator state of its first run as its last operand"
        ));
    }
    if !takes && taken > 0 {
        return here(format!("'{name}' takes no generator state here: only 'again' of a random node does"));
    }
    if saved > usize::from(saves) || (saved == 1 && !last(op.results())) {
        return here(format!(
            "'{name}' saves no generator state here: only the first run of a random node does, as its last result"
        ));
    }
    Ok(())
}

fn list(types: &[Type<'_>]) -> String {
    let types: Vec<_> = types.iter().map(Type::to_string).collect();
    format!("({})", types.join(", "))
}
