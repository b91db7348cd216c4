//! Programs as text, for tests: every program becomes one node whose body is its lines.
//!
//! ```text
//! x, y: f32[4,8]                       arguments (`parameter`, `buffer`, `constant N` before the type say what they are)
//! t = t.default(x) view f32[8,4]{1,8}  a view: its storage is its operand's
//! m = mm.default(x, t) f32[4,4]        `aten.` is understood
//! r = relu_.default(m) writes 0 view f32[4,4]
//! b = bernoulli.p(m, 0.5) random f32[4,4]
//! return r, b
//! ```

use std::collections::HashMap;
use std::sync::Arc;

use rk_classes::{Arg, Call, Node, Operator, Role, Source, StepBuilder, Ty};
use rk_plan::{NodeId, ValueId};

/// Adds a program to a step.
pub fn add(builder: &mut StepBuilder, number: usize, text: &str) -> NodeId {
    let mut values: HashMap<String, usize> = HashMap::new();
    let mut types: Vec<Arc<Ty>> = Vec::new();
    let mut node = Node { name: format!("p{number}"), ..Node::default() };
    let mut returned: Vec<String> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(names) = line.strip_prefix("return ") {
            returned = names.split(',').map(|name| name.trim().to_owned()).collect();
        } else if let Some((names, rest)) = line.split_once(" = ") {
            let call = call(rest, &values, &types);
            for (name, ty) in names.split(',').zip(&call.operator.results) {
                values.insert(name.trim().to_owned(), types.len());
                types.push(ty.clone());
            }
            node.calls.push(call);
        } else {
            let (names, what) = line.split_once(": ").expect("an argument");
            for name in names.split(',') {
                let (source, ty) = argument(what);
                node.inputs.push(builder.resident(ty.clone(), source));
                values.insert(name.trim().to_owned(), types.len());
                types.push(Arc::new(ty));
            }
        }
    }
    node.yields = returned.iter().map(|name| values[name]).collect();
    let outputs: Vec<ValueId> = builder.node(node).expect("a program");
    outputs.iter().for_each(|&value| builder.returned(value, Role::Output));
    NodeId::from_index(number)
}

fn argument(text: &str) -> (Source, Ty) {
    let words: Vec<&str> = text.split_whitespace().collect();
    match words[..] {
        ["parameter", ty] => (Source::Parameter { trainable: true }, parse_ty(ty)),
        ["frozen", ty] => (Source::Parameter { trainable: false }, parse_ty(ty)),
        ["buffer", ty] => (Source::Buffer, parse_ty(ty)),
        ["constant", number, ty] => (Source::Constant(number.parse().expect("a number")), parse_ty(ty)),
        [ty] => (Source::Input, parse_ty(ty)),
        _ => panic!("{text}"),
    }
}

/// `f32[4,8]`, `f32[4,8]{1,4}`.
fn parse_ty(text: &str) -> Ty {
    let (element, rest) = text.split_once('[').expect("a type");
    let (shape, strides) = rest.split_once(']').expect("a shape");
    let list = |text: &str| -> Vec<i64> {
        text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().expect("a size")).collect()
    };
    let bytes = match element {
        "f64" | "i64" | "complex<f32>" => 8,
        "f16" | "bf16" => 2,
        "i1" => 1,
        _ => 4,
    };
    let mut ty = Ty::dense(element, bytes, &list(shape));
    if !strides.is_empty() {
        ty.strides = list(strides.trim_matches(['{', '}']));
    }
    ty
}

fn call(text: &str, values: &HashMap<String, usize>, types: &[Arc<Ty>]) -> Call {
    let (name, rest) = text.split_once('(').expect("a call");
    let (args, tail) = rest.rsplit_once(')').expect("a call");
    let mut operands = Vec::new();
    let mut words = tokens(args).into_iter().peekable();
    let args = arguments(&mut words, values, &mut operands);
    let mut operator = Operator { name: format!("aten.{name}"), args, ..Operator::default() };
    let mut words = tail.split_whitespace();
    let mut view = false;
    while let Some(word) = words.next() {
        match word {
            "view" => view = true,
            "random" => operator.random = true,
            "writes" => operator.writes.push(words.next().expect("an index").parse().expect("an index")),
            "effects" => operator.effects.push(words.next().expect("an index").parse().expect("an index")),
            ty => {
                let mut ty = parse_ty(ty);
                if view {
                    ty.storage = types[operands[0]].storage;
                    operator.aliases.push(Some(0));
                }
                operator.results.push(Arc::new(ty));
            }
        }
    }
    if operator.aliases.is_empty() {
        // As the IR reads: an entry per result. It must not matter.
        operator.aliases = vec![None; operator.results.len()];
    }
    Call { operator, operands }
}

fn tokens(text: &str) -> Vec<String> {
    let spaced = text.replace('[', " [ ").replace(']', " ] ").replace(',', " ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

fn arguments(
    words: &mut dyn Iterator<Item = String>,
    values: &HashMap<String, usize>,
    operands: &mut Vec<usize>,
) -> Vec<Arg> {
    let mut args = Vec::new();
    while let Some(word) = words.next() {
        args.push(match word.as_str() {
            "[" => Arg::List(arguments(words, values, operands)),
            "]" => return args,
            "none" => Arg::None,
            "true" | "false" => Arg::Bool(word == "true"),
            name if values.contains_key(name) => {
                operands.push(values[name]);
                Arg::Value
            }
            number => number.parse().map(Arg::Int).unwrap_or_else(|_| {
                Arg::Float(number.parse::<f64>().unwrap_or_else(|_| panic!("'{number}'")).to_bits())
            }),
        });
    }
    args
}
