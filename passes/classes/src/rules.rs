//! What is equal to what, and why. Every rule of [`SAME_BITS`] says why not a single bit changes.
//!
//! A rule looks at one term and returns what that term is also equal to. Rules never look at names, and they fire only
//! when the type of both sides (sizes, strides, dtype, storage) is the same, which [`apply`] checks once for all.
//!
//! Bits are those of numbers: when both operands of a commuted operator are NaN, which payload survives is up to the
//! processor, and no framework promises it.
//!
//! Not here, because recorded calls leave nothing to do: the order of keyword arguments (every call has its arguments in the
//! order of its schema), tuples and lists (their elements are operands), `native_dropout` at p = 0 (eager PyTorch does not call it).
//! `detach` and `alias` are views with their operand's type, so *view-of-view* removes them; what they mean to autograd is
//! in the backward calls.
//!
//! Not here, because they change bits: associativity and distributivity of floating point; `addmm` against `mm` and `add` (a
//! blocked product adds the bias to a partial sum, not to the whole one); `maximum(a, b)` commuted (+0 against -0);
//! complex multiplication commuted (with fused multiply-add the two halves of a product round differently).

use std::sync::Arc;

use egg::{Id, Language};

use crate::step::{Arg, Operator, Ty};
use crate::term::{Graph, Head, Term, add};
use crate::views;

/// Which terms a rule is asked about.
#[derive(Clone, Copy, Debug)]
pub enum About {
    /// Calls of these operators.
    Calls(&'static [&'static str]),
    /// Calls of any view operator that [`views`] knows, and results of those with several.
    Views,
    /// Views in normal form.
    Strided,
}

/// One rule.
pub struct Rule {
    /// As reports and tests call it.
    pub name: &'static str,
    /// Why both sides are equal.
    pub reason: &'static str,
    /// Which terms it is asked about.
    pub about: About,
    /// Pairs of terms that are equal because of this term (given with its id).
    pub equal: fn(&mut Graph, Id, &Term) -> Vec<(Id, Id)>,
}

/// Rules after which the same kernels, or kernels that compute the same bits, run on the same operands.
pub static SAME_BITS: [Rule; 9] = [
    Rule {
        name: "commute",
        reason: "IEEE 754 addition and multiplication, integer arithmetic, equality and bitwise logic are commutative bit for bit; \
                 for add only with alpha = 1, for operands of one dtype that is not complex, and of one shape in half precision \
                 (ATen has a wider path for a scalar on one side)",
        about: About::Calls(&COMMUTATIVE),
        equal: commute,
    },
    Rule {
        name: "view-normal-form",
        reason: "a view computes an address: offset, sizes and strides say all of it, however it is spelled",
        about: About::Views,
        equal: view_normal_form,
    },
    Rule {
        name: "view-of-view",
        reason: "offsets add up, and sizes and strides are those of the outer view; a view with offset 0 and its \
                 operand's type is its operand",
        about: About::Strided,
        equal: view_of_view,
    },
    Rule {
        name: "copy-of-fresh",
        reason: "a copy with the same sizes, strides and storage holds the same bits; only of fresh values, since a copy of an \
                 argument is new storage where the argument is not",
        about: About::Calls(&["aten.clone.default", "aten.contiguous.default"]),
        equal: copy_of_fresh,
    },
    Rule {
        name: "reshape-is-view-of-copy",
        reason: "contiguous and reshape of what cannot be viewed are composite: ATen calls clone(contiguous) and, for reshape, \
                 views the copy",
        about: About::Calls(&["aten.contiguous.default", "aten.reshape.default"]),
        equal: reshape_is_view_of_copy,
    },
    Rule {
        name: "dropout-off",
        reason: "at::dropout returns its input before it draws when p = 0 or train is false",
        about: About::Calls(&["aten.dropout.default"]),
        equal: dropout_off,
    },
    Rule {
        name: "linear",
        reason: "composite: at::linear of a matrix calls mm(x, t(w)) without a bias and addmm(b, x, t(w)) with one; \
                 at::matmul of two matrices calls mm",
        about: About::Calls(&["aten.linear.default", "aten.matmul.default"]),
        equal: linear,
    },
    Rule {
        name: "wrap-dim",
        reason: "ATen counts a negative dimension from the end before it does anything else",
        about: About::Calls(&[
            "aten._softmax.default",
            "aten._log_softmax.default",
            "aten.cat.default",
            "aten.sum.dim_IntList",
            "aten.mean.dim",
            "aten._softmax_backward_data.default",
            "aten._log_softmax_backward_data.default",
            "aten.stack.default",
        ]),
        equal: wrap_dim,
    },
    Rule {
        name: "pack",
        reason: "cat of one tensor is its copy and stack is cat of unsqueezed tensors: elements are moved, nothing is computed",
        about: About::Calls(&["aten.cat.default", "aten.stack.default"]),
        equal: pack,
    },
];

/// Rules after which time and memory stay the same, though bits need not. They never decide what code is shared.
pub static SAME_COST: [Rule; 5] = [
    Rule {
        name: "associate",
        reason: "additions (or products) of equal types cost the same in any order; their rounding differs",
        about: About::Calls(&["aten.add.Tensor", "aten.mul.Tensor"]),
        equal: associate,
    },
    Rule {
        name: "commute",
        reason: "the same kernel with its operands exchanged",
        about: About::Calls(&COMMUTATIVE),
        equal: commute,
    },
    Rule {
        name: "view-normal-form",
        reason: "views launch nothing",
        about: About::Views,
        equal: view_normal_form,
    },
    Rule { name: "view-of-view", reason: "views launch nothing", about: About::Strided, equal: view_of_view },
    Rule {
        name: "wrap-dim",
        reason: "the same kernel",
        about: About::Calls(&[
            "aten._softmax.default",
            "aten._log_softmax.default",
            "aten.cat.default",
            "aten.sum.dim_IntList",
            "aten.mean.dim",
            "aten._softmax_backward_data.default",
            "aten._log_softmax_backward_data.default",
            "aten.stack.default",
        ]),
        equal: wrap_dim,
    },
];

const COMMUTATIVE: [&str; 10] = [
    "aten.add.Tensor",
    "aten.mul.Tensor",
    "aten.eq.Tensor",
    "aten.ne.Tensor",
    "aten.bitwise_and.Tensor",
    "aten.bitwise_or.Tensor",
    "aten.bitwise_xor.Tensor",
    "aten.logical_and.default",
    "aten.logical_or.default",
    "aten.logical_xor.default",
];

/// Makes the pairs that a rule finds equal, where both sides have one type. Returns the ids that changed.
pub fn apply(rule: &Rule, graph: &mut Graph, class: Id) -> Vec<Id> {
    let terms = graph[class].nodes.clone();
    let mut changed = Vec::new();
    for term in terms {
        for (one, other) in (rule.equal)(graph, class, &term) {
            if graph[one].data.ty == graph[other].data.ty && graph.union(one, other) {
                changed.push(graph.find(one));
            }
        }
    }
    changed
}

/// The operator of a call term with these names, if it is one.
fn call_of(graph: &Graph, term: &Term, about: &[&str]) -> Option<Arc<Operator>> {
    match &**graph.analysis.head(term) {
        Head::Call(operator) if about.contains(&operator.name.as_str()) => Some(operator.clone()),
        _ => None,
    }
}

fn ty_of(graph: &Graph, id: Id) -> Option<Arc<Ty>> {
    graph[id].data.ty.clone()
}

/// A pure call of a standard operator: fresh results, nothing written, nothing drawn.
fn is_pure(operator: &Operator) -> bool {
    operator.writes.is_empty()
        && operator.effects.is_empty()
        && operator.aliases.iter().all(Option::is_none)
        && !operator.random
}

fn is_one(arg: Option<&Arg>) -> bool {
    match arg {
        None | Some(Arg::Int(1)) => true,
        Some(Arg::Float(bits)) => *bits == 1f64.to_bits(),
        _ => false,
    }
}

fn commute(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &COMMUTATIVE) else { return Vec::new() };
    let [a, b] = term.children() else { return Vec::new() };
    let (Some(ty_a), Some(ty_b)) = (ty_of(graph, *a), ty_of(graph, *b)) else { return Vec::new() };
    let half = matches!(ty_a.element.as_str(), "f16" | "bf16");
    let plain = operator.args.starts_with(&[Arg::Value, Arg::Value]) && operator.args.len() <= 3;
    if !is_pure(&operator)
        || !plain
        || !is_one(operator.args.get(2))
        || ty_a.element != ty_b.element
        || ty_a.element.starts_with("complex")
        || (half && ty_a.shape != ty_b.shape)
    {
        return Vec::new();
    }
    let swapped = add(graph, Head::Call(operator), vec![*b, *a]);
    vec![(class, swapped)]
}

fn view_normal_form(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let head = graph.analysis.head(term).clone();
    let mut found = Vec::new();
    match &*head {
        Head::Call(operator) if operator.results.len() == 1 => {
            found.push((operator.clone(), 0, term.clone()))
        }
        Head::Result(result, _) => {
            // A class of tuples has one term unless a rule found two calls equal; each of them says the same.
            for call in graph[term.children()[0]].nodes.clone() {
                if let Head::Call(operator) = &**graph.analysis.head(&call) {
                    found.push((operator.clone(), *result, call));
                }
            }
        }
        _ => {}
    }
    let mut equal = Vec::new();
    for (operator, result, call) in found {
        let Some(&base) = call.children().first() else { continue };
        let Some(ty) = ty_of(graph, base) else { continue };
        if let Some(offset) = views::offset(&operator, result, &ty) {
            let strided = Head::Strided(offset, operator.results[result].clone());
            equal.push((class, add(graph, strided, vec![base])));
        }
    }
    equal
}

fn view_of_view(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let (outer, ty) = match &**graph.analysis.head(term) {
        Head::Strided(offset, ty) => (*offset, ty.clone()),
        _ => return Vec::new(),
    };
    let base = term.children()[0];
    let mut equal = Vec::new();
    if outer == 0 && ty_of(graph, base).as_ref() == Some(&ty) {
        equal.push((class, base));
    }
    for inner in graph[base].nodes.clone() {
        let head = graph.analysis.head(&inner).clone();
        if let Head::Strided(offset, _) = &*head
            && let Some(sum) = outer.checked_add(*offset)
        {
            equal.push((class, add(graph, Head::Strided(sum, ty.clone()), vec![inner.children()[0]])));
        }
    }
    equal
}

fn copy_of_fresh(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &["aten.clone.default", "aten.contiguous.default"]) else {
        return Vec::new();
    };
    match term.children() {
        [of] if is_pure(&operator) && !graph[*of].data.argument => vec![(class, *of)],
        _ => Vec::new(),
    }
}

/// `torch.contiguous_format` as an argument.
const CONTIGUOUS: i64 = 0;

fn reshape_is_view_of_copy(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &["aten.contiguous.default", "aten.reshape.default"]) else {
        return Vec::new();
    };
    let ([of], Some(result)) = (term.children(), operator.results.first()) else { return Vec::new() };
    let Some(ty) = ty_of(graph, *of) else { return Vec::new() };
    let contiguous = matches!(operator.args.get(1), None | Some(Arg::Int(CONTIGUOUS)));
    let elements: i64 = ty.shape.iter().product();
    if !is_pure(&operator) || elements == 0 || result.storage % elements.unsigned_abs() != 0 {
        return Vec::new();
    }
    let copied = Arc::new(Ty::dense(&ty.element, result.storage / elements.unsigned_abs(), &ty.shape));
    let copy = Operator {
        name: "aten.clone.default".to_owned(),
        args: vec![Arg::Value, Arg::Int(CONTIGUOUS)],
        results: vec![copied.clone()],
        ..Operator::default()
    };
    let is_reshape = operator.name == "aten.reshape.default";
    if !is_reshape && (!contiguous || copied != *result) {
        return Vec::new();
    }
    let copy = add(graph, Head::Call(Arc::new(copy)), vec![*of]);
    if is_reshape {
        let view = add(graph, Head::Strided(0, result.clone()), vec![copy]);
        return vec![(class, view)];
    }
    vec![(class, copy)]
}

fn dropout_off(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &["aten.dropout.default"]) else { return Vec::new() };
    let zero = match operator.args.get(1) {
        Some(Arg::Float(bits)) => f64::from_bits(*bits) == 0.0,
        Some(Arg::Int(p)) => *p == 0,
        _ => false,
    };
    let off = zero || operator.args.get(2) == Some(&Arg::Bool(false));
    match term.children() {
        [of] if off && !operator.random && operator.writes.is_empty() => vec![(class, *of)],
        _ => Vec::new(),
    }
}

fn linear(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &["aten.linear.default", "aten.matmul.default"]) else {
        return Vec::new();
    };
    let types: Option<Vec<Arc<Ty>>> = term.children().iter().map(|&child| ty_of(graph, child)).collect();
    let Some(types) = types.filter(|types| types.len() >= 2 && is_pure(&operator)) else { return Vec::new() };
    if types[0].rank() != 2 || types[1].rank() != 2 || operator.results.len() != 1 {
        return Vec::new();
    }
    let (x, mut w) = (term.children()[0], term.children()[1]);
    let bias = term.children().get(2).copied();
    if operator.name == "aten.linear.default" {
        let mut transposed = (*types[1]).clone();
        transposed.shape.reverse();
        transposed.strides.reverse();
        w = add(graph, Head::Strided(0, Arc::new(transposed)), vec![w]);
    }
    let (name, args, children) = match bias {
        None => ("aten.mm.default", vec![Arg::Value, Arg::Value], vec![x, w]),
        Some(bias) => {
            let args = vec![Arg::Value, Arg::Value, Arg::Value, Arg::Int(1), Arg::Int(1)];
            ("aten.addmm.default", args, vec![bias, x, w])
        }
    };
    let results = operator.results.clone();
    let product = Operator { name: name.to_owned(), args, results, ..Operator::default() };
    vec![(class, add(graph, Head::Call(Arc::new(product)), children))]
}

/// Per operator, where in its schema the dimension stands.
fn dim_argument(name: &str) -> Option<usize> {
    Some(match name {
        "aten._softmax_backward_data.default" | "aten._log_softmax_backward_data.default" => 2,
        "aten._softmax.default" | "aten._log_softmax.default" | "aten.cat.default" | "aten.stack.default" => {
            1
        }
        "aten.sum.dim_IntList" | "aten.mean.dim" => 1,
        _ => return None,
    })
}

fn wrap_dim(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Head::Call(operator) = &**graph.analysis.head(term) else { return Vec::new() };
    let operator = operator.clone();
    let (Some(place), Some(&first)) = (dim_argument(&operator.name), term.children().first()) else {
        return Vec::new();
    };
    let Some(ty) = ty_of(graph, first).filter(|_| is_pure(&operator)) else { return Vec::new() };
    // cat passes over empty vectors when it counts dimensions.
    let ranks = |&child: &Id| ty_of(graph, child).is_some_and(|other| other.rank() == ty.rank());
    if operator.name == "aten.cat.default" && !term.children().iter().all(ranks) {
        return Vec::new();
    }
    // stack counts the dimension that it makes.
    let rank = ty.rank() as i64 + i64::from(operator.name == "aten.stack.default");
    let wrap = |dim: &mut Arg| match dim {
        Arg::Int(dim) if *dim < 0 && *dim + rank >= 0 => *dim += rank,
        _ => {}
    };
    let mut wrapped = (*operator).clone();
    match wrapped.args.get_mut(place) {
        Some(Arg::List(dims)) => dims.iter_mut().for_each(wrap),
        Some(dim) => wrap(dim),
        None => {}
    }
    if wrapped == *operator {
        return Vec::new();
    }
    vec![(class, add(graph, Head::Call(Arc::new(wrapped)), term.children().to_vec()))]
}

fn pack(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &["aten.cat.default", "aten.stack.default"]) else {
        return Vec::new();
    };
    let (Some(Arg::Int(dim)), Some(result)) = (operator.args.get(1), operator.results.first()) else {
        return Vec::new();
    };
    if !is_pure(&operator) {
        return Vec::new();
    }
    if operator.name == "aten.cat.default" {
        let [of] = term.children() else { return Vec::new() };
        // Of a row-major tensor the copy is row-major too, whichever memory format clone was asked for.
        if ty_of(graph, *of).as_ref() != Some(result) {
            return Vec::new();
        }
        let args = vec![Arg::Value, Arg::Int(CONTIGUOUS)];
        let copy = Operator {
            name: "aten.clone.default".to_owned(),
            args,
            results: vec![result.clone()],
            ..Operator::default()
        };
        return vec![(class, add(graph, Head::Call(Arc::new(copy)), vec![*of]))];
    }
    let Ok(at) = usize::try_from(*dim) else { return Vec::new() };
    let mut children = Vec::new();
    for &child in term.children() {
        let Some(ty) = ty_of(graph, child).filter(|ty| at <= ty.rank()) else { return Vec::new() };
        let mut unsqueezed = (*ty).clone();
        // As at::unsqueeze has it: the stride of the new dimension is that of stepping over the rest.
        let stride = if at < ty.rank() { ty.shape[at] * ty.strides[at] } else { 1 };
        unsqueezed.shape.insert(at, 1);
        unsqueezed.strides.insert(at, stride);
        children.push(add(graph, Head::Strided(0, Arc::new(unsqueezed)), vec![child]));
    }
    let mut cat = (*operator).clone();
    cat.name = "aten.cat.default".to_owned();
    vec![(class, add(graph, Head::Call(Arc::new(cat)), children))]
}

/// Terms of a sum in normal form, at most. A sum of itself has twice the terms, and doubling has to end somewhere.
const MOST_TERMS: usize = 256;

/// (a + b) + c = a + (b + c), when all values have one type: a sum is what it adds up, sorted. A sum of n terms has exponentially many
/// orders and one normal form; every partial sum has one, so n terms cost n^2 / 2 children. How many additions are made is
/// no part of the term, and is compared beside it (`Lowered::work`).
fn associate(graph: &mut Graph, class: Id, term: &Term) -> Vec<(Id, Id)> {
    let Some(operator) = call_of(graph, term, &["aten.add.Tensor", "aten.mul.Tensor"]) else {
        return Vec::new();
    };
    let (&[a, b], [ty]) = (term.children(), &operator.results[..]) else { return Vec::new() };
    let one_type = [a, b].iter().all(|&child| ty_of(graph, child).as_ref() == Some(ty));
    if !is_pure(&operator) || !is_one(operator.args.get(2)) || !one_type {
        return Vec::new();
    }
    let head = Head::Folded(operator.name.clone(), ty.clone());
    let mut terms = [terms_of(graph, a, &head), terms_of(graph, b, &head)].concat();
    if terms.len() > MOST_TERMS {
        terms = vec![graph.find(a), graph.find(b)];
    }
    terms.sort_unstable();
    vec![(class, add(graph, head, terms))]
}

/// What a value adds up, as far as is known: the longest sum that it is, or itself.
fn terms_of(graph: &Graph, value: Id, head: &Head) -> Vec<Id> {
    let sums = graph[value].nodes.iter().filter(|term| **graph.analysis.head(term) == *head);
    let known = sums.map(|sum| {
        let mut terms: Vec<Id> = sum.children().iter().map(|&child| graph.find(child)).collect();
        terms.sort_unstable();
        terms
    });
    let longest = known.max_by(|one, other| (one.len(), other).cmp(&(other.len(), one)));
    longest.unwrap_or_else(|| vec![graph.find(value)])
}
