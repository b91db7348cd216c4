//! Random nodes for kernels, as IR and as what Python calls: operators, chains, sums, calls on rows, layer norms.

use std::fmt::Write as _;

use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value as Json, json};

/// Operators with their tensor operands (`x` of the case's type, `m` a boolean mask) and what follows them, the types on which they
/// are pointwise, and the type of the result.
const OPERATORS: [(&str, &str, &str, &str, &str); 32] = [
    ("add.Tensor", "xx", "1", ALL, "x"),
    ("add.Tensor", "xx", "0.3", WIDE, "x"),
    ("add.Tensor", "xx", "-2", WIDE, "x"),
    ("add.Scalar", "x", "2.5, 1", ALL, "x"),
    ("sub.Tensor", "xx", "1", ALL, "x"),
    ("sub.Tensor", "xx", "0.7", WIDE, "x"),
    ("rsub.Scalar", "x", "1.1, 1", WIDE, "x"),
    ("mul.Tensor", "xx", "", ALL, "x"),
    ("mul.Scalar", "x", "0.1", ALL, "x"),
    ("mul.Tensor", "xm", "", WIDE, "x"),
    ("div.Tensor", "xx", "", ALL, "x"),
    ("div.Scalar", "x", "0.9", ALL, "x"),
    ("neg.default", "x", "", ALL, "x"),
    ("abs.default", "x", "", ALL, "x"),
    ("reciprocal.default", "x", "", WIDE, "x"),
    ("rsqrt.default", "x", "", WIDE, "x"),
    ("pow.Tensor_Scalar", "x", "2", WIDE, "x"),
    ("pow.Tensor_Scalar", "x", "3.0", WIDE, "x"),
    ("relu.default", "x", "", ALL, "x"),
    ("threshold_backward.default", "xx", "0", ALL, "x"),
    ("where.self", "mxx", "", ALL, "x"),
    ("masked_fill.Scalar", "xm", "-3.5", ALL, "x"),
    ("lt.Tensor", "xx", "", ALL, "m"),
    ("ne.Scalar", "x", "0", WIDE, "m"),
    ("ge.Scalar", "x", "0.5", WIDE, "m"),
    ("logical_not.default", "m", "", "f32", "m"),
    ("bitwise_and.Tensor", "mm", "", "f32", "m"),
    ("sigmoid_backward.default", "xx", "", WIDE, "x"),
    ("sqrt.default", "x", "", WIDE, "x"),
    ("exp.default", "x", "", WIDE, "x"),
    ("tanh.default", "x", "", WIDE, "x"),
    ("sigmoid.default", "x", "", WIDE, "x"),
];
/// Calls on one dimension, with their tensor operands.
const ROWS: [(&str, usize); 4] =
    [("_softmax", 1), ("_log_softmax", 1), ("_softmax_backward_data", 2), ("_log_softmax_backward_data", 2)];
const ALL: &str = "f32 f64 bf16 f16";
const WIDE: &str = "f32 f64";

/// Zero-size, one element, and enough for several vectors and a tail.
const SHAPES: [&[i64]; 9] =
    [&[], &[1], &[0], &[7], &[5, 3], &[2, 3, 37], &[3, 0, 2], &[64, 65], &[4, 1, 9, 16]];

/// A tensor type with its layout, as the IR and as Python needs it.
pub struct Tensor {
    pub element: &'static str,
    pub shape: Vec<i64>,
    pub strides: Vec<i64>,
}

impl Tensor {
    fn dense(element: &'static str, shape: &[i64]) -> Self {
        Self { element, shape: shape.to_vec(), strides: rk_dialect::types::row_major(shape) }
    }

    /// Of a shape that broadcasts to `shape`, in some order of dimensions, perhaps with gaps.
    fn random(rng: &mut ChaCha8Rng, element: &'static str, shape: &[i64]) -> Self {
        let cut = if rng.random_bool(0.2) { rng.random_range(0..=shape.len()) } else { 0 };
        let mut shape = shape[cut..].to_vec();
        shape.iter_mut().for_each(|size| {
            if rng.random_bool(0.15) {
                *size = 1.min(*size);
            }
        });
        let mut order: Vec<usize> = (0..shape.len()).collect();
        if rng.random_bool(0.3) {
            order.reverse();
        }
        let mut next = if rng.random_bool(0.2) { 2 } else { 1 };
        let mut strides = vec![0; shape.len()];
        for &dim in order.iter().rev() {
            strides[dim] = next;
            next *= shape[dim].max(1);
        }
        Self { element, shape, strides }
    }

    /// From its first element to its last.
    pub fn bytes(&self) -> usize {
        if self.shape.contains(&0) {
            return 0;
        }
        let last: i64 = self.shape.iter().zip(&self.strides).map(|(size, stride)| (size - 1) * stride).sum();
        (last as usize + 1) * self.element_bytes()
    }

    pub fn element_bytes(&self) -> usize {
        match self.element {
            "f64" => 8,
            "f32" => 4,
            "i1" => 1,
            _ => 2,
        }
    }

    fn ty(&self) -> String {
        let sizes: String = self.shape.iter().map(|size| format!("{size}x")).collect();
        if self.strides == rk_dialect::types::row_major(&self.shape) {
            return format!("tensor<{sizes}{}>", self.element);
        }
        format!("tensor<{sizes}{}, #rk.strided<{:?}>>", self.element, self.strides)
    }

    pub fn json(&self) -> Json {
        json!({"element": self.element, "shape": self.shape, "strides": self.strides})
    }
}

/// A node under construction, and the same for Python.
pub struct Case {
    pub inputs: Vec<Tensor>,
    body: String,
    pub calls: Vec<Json>,
    result: Tensor,
    /// Further results of the last call.
    more: Vec<Tensor>,
    /// Its inputs hold no infinities, NaN and numbers whose squares overflow.
    pub plain: bool,
}

impl Case {
    fn new(rng: &mut ChaCha8Rng, element: &'static str, shape: &[i64], operators: &[usize]) -> Self {
        let mut case = Self {
            inputs: vec![],
            body: String::new(),
            calls: vec![],
            result: Tensor::dense(element, shape),
            more: vec![],
            plain: false,
        };
        for (number, &operator) in operators.iter().enumerate() {
            let (name, operands, tail, _, kind) = OPERATORS[operator];
            let (mut names, mut types, mut values) = (vec![], vec![], vec![]);
            for (position, kind) in operands.chars().enumerate() {
                // The chain goes on through the first operand of the case's type.
                if number > 0 && kind == 'x' && operands.find('x') == Some(position) {
                    names.push(format!("%r{}", number - 1));
                    types.push(case.result.ty());
                    values.push(json!({"r": number - 1}));
                    continue;
                }
                let of = if kind == 'm' { "i1" } else { element };
                // One operand at least has the full shape, else the result would be smaller.
                let tensor =
                    if position == 0 { Tensor::dense(of, shape) } else { Tensor::random(rng, of, shape) };
                let tensor = match position {
                    0 if rng.random_bool(0.3) => {
                        Tensor { shape: shape.to_vec(), strides: transposed(shape), ..tensor }
                    }
                    _ => tensor,
                };
                names.push(format!("%x{}", case.inputs.len()));
                types.push(tensor.ty());
                values.push(json!({"x": case.inputs.len()}));
                case.inputs.push(tensor);
            }
            let numbers: Vec<&str> = tail.split(", ").filter(|number| !number.is_empty()).collect();
            names.extend(numbers.iter().map(|number| (*number).to_owned()));
            let result = Tensor::dense(if kind == "m" { "i1" } else { element }, shape);
            let _ = writeln!(
                case.body,
                "%r{number} = rk.aten \"aten.{name}\"({}) : ({}) -> {}",
                names.join(", "),
                types.join(", "),
                result.ty()
            );
            case.calls.push(json!({"operator": name, "values": values, "numbers": numbers}));
            case.result = result;
        }
        case
    }

    /// The same with a sum, a mean or a maximum over some dimensions behind it; without calls, over an input in some order of
    /// dimensions.
    fn summed(
        rng: &mut ChaCha8Rng,
        element: &'static str,
        shape: &[i64],
        operators: &[usize],
        name: &str,
    ) -> Self {
        let mut case = Self::new(rng, element, shape, operators);
        if operators.is_empty() {
            let mut tensor = Tensor::dense(element, shape);
            if rng.random_bool(0.5) {
                tensor.strides = transposed(shape);
            }
            case.inputs.push(tensor);
        }
        let (value, operand, ty) = match operators.len() {
            0 => (json!({"x": 0}), "%x0".to_owned(), case.inputs[0].ty()),
            calls => (json!({"r": calls - 1}), format!("%r{}", calls - 1), case.result.ty()),
        };
        let rank = shape.len();
        let cut = rng.random_range(0..rank);
        // Trailing ones, leading ones (those of the gradient of a bias), or any.
        let summed: Vec<usize> = match rng.random_range(0..3) {
            0 => (cut..rank).collect(),
            1 => (0..=cut).collect(),
            _ => (0..rank).filter(|&dim| dim == cut || rng.random_bool(0.5)).collect(),
        };
        // From the back they may be counted, too.
        let dims: Vec<i64> = summed.iter().map(|&dim| dim as i64 - rank as i64).collect();
        let keep = rng.random_bool(0.5);
        let size = |dim: usize| if summed.contains(&dim) { 1 } else { shape[dim] };
        let left: Vec<i64> = (0..rank).filter(|dim| keep || !summed.contains(dim)).map(size).collect();
        let (number, tail) = (operators.len(), if name == "amax.default" { "" } else { ", none" });
        case.result = Tensor::dense(element, &left);
        let _ = writeln!(
            case.body,
            "%r{number} = rk.aten \"aten.{name}\"({operand}, {dims:?}, {keep}{tail}) : ({ty}) -> {}",
            case.result.ty()
        );
        case.calls
            .push(json!({"operator": name, "values": [value], "numbers": [], "dims": dims, "keep": keep}));
        case
    }

    /// The same with a rounding behind it.
    fn rounded(mut self, element: &'static str) -> Self {
        let (last, ty) = (self.calls.len() - 1, self.result.ty());
        self.result = Tensor::dense(element, &self.result.shape);
        let _ = writeln!(
            self.body,
            "%r{} = rk.aten \"aten._to_copy.default\"(%r{last}, {}) : ({ty}) -> {}",
            last + 1,
            code(element),
            self.result.ty()
        );
        let call =
            json!({"operator": "_to_copy.default", "values": [{"r": last}], "numbers": [], "to": element});
        self.calls.push(call);
        self
    }

    /// The same with a call on rows behind it; its backward forms read a second tensor.
    fn rows(
        rng: &mut ChaCha8Rng,
        element: &'static str,
        shape: &[i64],
        operators: &[usize],
        (name, operands): (&str, usize),
    ) -> Self {
        let mut case = Self::new(rng, element, shape, operators);
        let (mut names, mut types, mut values) = (vec![], vec![], vec![]);
        for index in 0..operands {
            if index == 0 && !operators.is_empty() {
                names.push(format!("%r{}", operators.len() - 1));
                types.push(case.result.ty());
                values.push(json!({"r": operators.len() - 1}));
                continue;
            }
            let mut tensor = Tensor::dense(element, shape);
            if rng.random_bool(0.3) {
                tensor.strides = transposed(shape);
            }
            names.push(format!("%x{}", case.inputs.len()));
            types.push(tensor.ty());
            values.push(json!({"x": case.inputs.len()}));
            case.inputs.push(tensor);
        }
        let dim = if rng.random_bool(0.5) { -1 } else { rng.random_range(0..shape.len() as i64) };
        case.result = Tensor::dense(element, shape);
        let _ = writeln!(
            case.body,
            "%r{} = rk.aten \"aten.{name}.default\"({}, {dim}, {}) : ({}) -> {}",
            operators.len(),
            names.join(", "),
            if operands == 1 { "false" } else { code(element) },
            types.join(", "),
            case.result.ty()
        );
        case.calls.push(
            json!({"operator": format!("{name}.default"), "values": values, "numbers": [], "row": dim}),
        );
        case
    }

    /// The same with a layer norm over the last dimensions behind it, or with its gradient by the input.
    fn norm(
        rng: &mut ChaCha8Rng,
        element: &'static str,
        shape: &[i64],
        operators: &[usize],
        backward: bool,
    ) -> Self {
        let mut case = Self::new(rng, element, shape, operators);
        case.plain = rng.random_bool(0.6);
        // Rows of several dimensions that are not one in memory are no kernel, and operands of a chain may be so.
        let inner = if operators.is_empty() { rng.random_range(1..=shape.len()) } else { 1 };
        let (outer, row) = shape.split_at(shape.len() - inner);
        let weight = rng.random_bool(0.7);
        // Only the forward form reads a bias.
        let bias = !backward && rng.random_bool(0.7);
        // What is f16 or bf16 may have weights in f32, and then its means are f32, too.
        let mixed = !WIDE.contains(element) && (weight || bias) && rng.random_bool(0.5);
        let given_in = if mixed { "f32" } else { element };
        let per_row = Tensor::dense(given_in, &[outer, &vec![1; inner]].concat());
        let mut whole = || {
            let mut tensor = Tensor::dense(element, shape);
            if inner == 1 && rng.random_bool(0.3) {
                tensor.strides = transposed(shape);
            }
            tensor
        };
        let mut inputs = vec![];
        let calls = operators.len();
        if calls == 0 {
            inputs.push(whole());
        }
        if backward {
            let (shape, strides) = (&per_row.shape, &per_row.strides);
            let one = || Tensor { element: given_in, shape: shape.clone(), strides: strides.clone() };
            inputs.extend([whole(), one(), one()]);
        }
        for _ in 0..usize::from(weight) + usize::from(bias) {
            inputs.push(Tensor::dense(given_in, row));
        }
        let mut given = vec![];
        if calls > 0 {
            given.push((format!("%r{}", calls - 1), case.result.ty(), json!({"r": calls - 1})));
        }
        for tensor in inputs {
            let index = case.inputs.len();
            given.push((format!("%x{index}"), tensor.ty(), json!({"x": index})));
            case.inputs.push(tensor);
        }
        let mut names = given.iter().map(|(name, ..)| name.clone());
        let mut next = |is: bool| if is { names.next().expect("given") } else { "none".into() };
        case.result = Tensor::dense(element, shape);
        let types: Vec<&str> = given.iter().map(|(_, ty, _)| ty.as_str()).collect();
        let (name, args) = if backward {
            let (gradient, x, mean, rstd) = (next(true), next(true), next(true), next(true));
            let args = format!(
                "{gradient}, {x}, {row:?}, {mean}, {rstd}, {}, none, [true, false, false]",
                next(weight)
            );
            ("native_layer_norm_backward", args)
        } else {
            case.more.extend([0, 1].map(|_| Tensor::dense(given_in, &per_row.shape)));
            (
                "native_layer_norm",
                format!("{}, {row:?}, {}, {}, 1.0e-5", next(true), next(weight), next(bias)),
            )
        };
        let results: Vec<String> = std::iter::once(&case.result).chain(&case.more).map(Tensor::ty).collect();
        // The gradients that are not asked for have a type, too.
        let unused =
            if backward { format!(", tensor<1x{element}>, tensor<1x{element}>") } else { String::new() };
        let _ = writeln!(
            case.body,
            "%r{calls}:3 = rk.aten \"aten.{name}.default\"({args}) : ({}) -> ({}{unused})",
            types.join(", "),
            results.join(", ")
        );
        let values: Vec<Json> = given.iter().map(|(.., value)| value.clone()).collect();
        case.calls.push(json!({"operator": format!("{name}.default"), "values": values, "numbers": [],
            "norm": row, "weight": weight, "bias": bias}));
        case
    }

    /// What the node yields.
    pub fn results(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.result).chain(&self.more)
    }

    pub fn node(&self, number: usize) -> String {
        let inputs: Vec<String> =
            self.inputs.iter().enumerate().map(|(index, one)| format!("%x{index}: {}", one.ty())).collect();
        let last = self.calls.len() - 1;
        let several = self.calls[last].get("norm").is_some();
        let name = |index: usize| if several { format!("%r{last}#{index}") } else { format!("%r{last}") };
        let names: Vec<String> = (0..=self.more.len()).map(name).collect();
        let types: Vec<String> = self.results().map(Tensor::ty).collect();
        format!(
            "rk.node @n{number} {{ ^bb0({}): {} rk.yield {} : {} }}\n",
            inputs.join(", "),
            self.body,
            names.join(", "),
            types.join(", ")
        )
    }
}

/// An element type as ATen numbers it.
fn code(element: &str) -> &'static str {
    match element {
        "f16" => "5",
        "bf16" => "15",
        "f64" => "7",
        _ => "6",
    }
}

/// Strides of the reversed order of dimensions.
fn transposed(shape: &[i64]) -> Vec<i64> {
    let reversed: Vec<i64> = shape.iter().rev().copied().collect();
    rk_dialect::types::row_major(&reversed).into_iter().rev().collect()
}

/// Every operator on every type, chains of them, sums, rows and norms, on random shapes and layouts; the seed is fixed.
pub fn cases() -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let mut cases = Vec::new();
    for (operator, (_, _, _, elements, _)) in OPERATORS.iter().enumerate() {
        for element in elements.split(' ') {
            let shape = SHAPES.choose(&mut rng).expect("not empty");
            cases.push(Case::new(&mut rng, element, shape, &[operator]));
            cases.push(Case::new(&mut rng, element, &[64, 65], &[operator]));
        }
    }
    // Chains of exact operators that yield the case's type.
    let links = |element: &str| -> Vec<usize> {
        (0..OPERATORS.len() - 4)
            .filter(|&index| {
                OPERATORS[index].3.contains(element)
                    && OPERATORS[index].4 == "x"
                    && OPERATORS[index].1.contains('x')
            })
            .collect()
    };
    for element in ["f32", "f64", "bf16", "f16"] {
        for _ in 0..12 {
            let shape = SHAPES.choose(&mut rng).expect("not empty");
            let length = rng.random_range(2..=4);
            let chain: Vec<usize> =
                (0..length).map(|_| *links(element).choose(&mut rng).expect("not empty")).collect();
            cases.push(Case::new(&mut rng, element, shape, &chain));
        }
    }
    for element in ALL.split(' ') {
        let long: [&[i64]; 4] = [&[3, 1031], &[20_000], &[1031, 3], &[2, 300, 513]];
        for shape in SHAPES.into_iter().filter(|shape| !shape.is_empty()).chain(long) {
            for length in [0, 0, 1, 1, 2] {
                let chain: Vec<usize> =
                    (0..length).map(|_| *links(element).choose(&mut rng).expect("not empty")).collect();
                let name = match rng.random_range(0..4) {
                    0 if WIDE.contains(element) => "mean.dim",
                    1 if !shape.contains(&0) => "amax.default",
                    _ => "sum.dim_IntList",
                };
                let mut case = Case::summed(&mut rng, element, shape, &chain, name);
                if element == "f32" && name != "amax.default" && rng.random_bool(0.3) {
                    case = case.rounded(if rng.random_bool(0.5) { "f16" } else { "bf16" });
                }
                cases.push(case);
            }
            for call in ROWS {
                let chain: Vec<usize> = (0..rng.random_range(0..=2))
                    .map(|_| *links(element).choose(&mut rng).expect("not empty"))
                    .collect();
                cases.push(Case::rows(&mut rng, element, shape, &chain, call));
            }
            // A norm of empty rows is no kernel.
            let normed = shape.iter().skip(1).all(|&size| size > 0);
            for length in [0, 0, 1].into_iter().filter(|_| normed) {
                let chain: Vec<usize> =
                    (0..length).map(|_| *links(element).choose(&mut rng).expect("not empty")).collect();
                let empty = shape[0] == 0;
                if !(empty && shape.len() == 1) {
                    cases.push(Case::norm(&mut rng, element, shape, &chain, false));
                    cases.push(Case::norm(&mut rng, element, shape, &chain, true));
                }
            }
        }
    }
    cases
}
