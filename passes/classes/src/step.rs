//! A step as data: what stands before it, its nodes with their bodies, what it returns.
//!
//! This is the IR of stage `simplified` without MLIR: a node is one real computation with the views that it reads and the
//! in-place calls that it makes, all of it in its body. Values are made by residents (arguments, constants) or by nodes.
//! Everything that the classes look at is here, and names are here only to be shown.

use std::sync::Arc;

use rk_plan::{NodeId, ValueId};

/// A tensor's type, by which values are anonymized. Sizes and strides count elements.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ty {
    /// Element type as the IR writes it (`f32`), or the whole type when it is no tensor (`none`).
    pub element: String,
    /// Sizes.
    pub shape: Vec<i64>,
    /// Element strides.
    pub strides: Vec<i64>,
    /// Bytes of the storage that it lies in.
    pub storage: u64,
}

impl Ty {
    /// A row-major tensor whose storage holds nothing else; `bytes` is the size of one element.
    pub fn dense(element: &str, bytes: u64, shape: &[i64]) -> Self {
        let mut strides = vec![1i64; shape.len()];
        for dim in (1..shape.len()).rev() {
            strides[dim - 1] = strides[dim].saturating_mul(shape[dim].max(1));
        }
        let elements: u64 = shape.iter().map(|size| size.unsigned_abs()).product();
        Self { element: element.to_owned(), shape: shape.to_vec(), strides, storage: elements * bytes }
    }

    /// Number of dimensions.
    pub fn rank(&self) -> usize {
        self.shape.len()
    }
}

/// What a resident is. Names are no part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Source {
    /// An input of the model.
    Input,
    /// A parameter.
    Parameter {
        /// It gets a gradient.
        trainable: bool,
    },
    /// State of the model that is no parameter.
    Buffer,
    /// A tensor baked into the trace; two have the same number exactly when their types and all their bits are equal.
    Constant(u64),
}

/// An argument of a call, in schema order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Arg {
    /// The next operand, see [`Call::operands`].
    Value,
    /// Not given.
    None,
    /// An integer; also enumerations such as dtypes.
    Int(i64),
    /// A float by its bits: 0.0 and -0.0 differ, and every NaN equals itself only.
    Float(u64),
    /// A boolean.
    Bool(bool),
    /// A string.
    Str(String),
    /// A list of arguments.
    List(Vec<Arg>),
}

/// What a call does, apart from the values that it reads. Indices in `writes`, `effects` and `aliases` are into its operands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Operator {
    /// `namespace.name.overload`.
    pub name: String,
    /// Arguments in schema order.
    pub args: Vec<Arg>,
    /// Types of the results.
    pub results: Vec<Arc<Ty>>,
    /// Operands whose storage it overwrites.
    pub writes: Vec<usize>,
    /// Operands with state of the model, updated once.
    pub effects: Vec<usize>,
    /// Per result, the operand whose storage it shares; empty when all are fresh.
    pub aliases: Vec<Option<usize>>,
    /// Draws from the generator.
    pub random: bool,
}

impl Operator {
    /// The operand whose storage a result shares.
    pub fn alias(&self, result: usize) -> Option<usize> {
        self.aliases.get(result).copied().flatten()
    }

    /// Whether all it does is to make views.
    pub fn is_view(&self) -> bool {
        let views = !self.results.is_empty() && (0..self.results.len()).all(|at| self.alias(at).is_some());
        views && self.writes.is_empty() && self.effects.is_empty() && !self.random
    }
}

/// One call in the body of a node.
#[derive(Clone, Debug)]
pub struct Call {
    /// What it does.
    pub operator: Operator,
    /// What it reads: numbers of the body's values, the node's inputs first, then the results of its calls in order.
    pub operands: Vec<usize>,
}

/// One real computation.
#[derive(Clone, Debug, Default)]
pub struct Node {
    /// As the user sees it.
    pub name: String,
    /// Module path, or empty.
    pub path: String,
    /// Belongs to the backward pass.
    pub backward: bool,
    /// What it reads.
    pub inputs: Vec<ValueId>,
    /// The input that the body mutates a copy of, and yields.
    pub overwrites: Option<usize>,
    /// The body.
    pub calls: Vec<Call>,
    /// Numbers of the body's values that leave it, one per output.
    pub yields: Vec<usize>,
    /// What it makes. Filled by [`StepBuilder::node`].
    pub outputs: Vec<ValueId>,
}

/// What a returned value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Role {
    /// The loss.
    Loss,
    /// An output of the model.
    Output,
    /// The gradient of a resident.
    Gradient(Option<ValueId>),
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// It stands before the step.
    Resident(Source),
    /// A node makes it.
    Node(NodeId),
}

/// A value of the step.
#[derive(Clone, Debug)]
pub struct Value {
    /// Its type.
    pub ty: Arc<Ty>,
    /// Who makes it.
    pub origin: Origin,
}

/// A whole step.
#[derive(Clone, Debug, Default)]
pub struct Step {
    pub(crate) values: Vec<Value>,
    pub(crate) nodes: Vec<Node>,
    pub(crate) returned: Vec<(ValueId, Role)>,
}

impl Step {
    /// A value of this step.
    ///
    /// # Panics
    /// If the value is of another step.
    pub fn value(&self, value: ValueId) -> &Value {
        &self.values[value.index()]
    }

    /// A node of this step.
    ///
    /// # Panics
    /// If the node is of another step.
    pub fn node(&self, node: NodeId) -> &Node {
        &self.nodes[node.index()]
    }

    /// Every node, in the original order of execution.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.nodes.iter().enumerate().map(|(at, node)| (NodeId::from_index(at), node))
    }

    /// What the step returns.
    pub fn returned(&self) -> &[(ValueId, Role)] {
        &self.returned
    }

    /// The node that makes a value, if one does.
    pub fn producer(&self, value: ValueId) -> Option<NodeId> {
        match self.value(value).origin {
            Origin::Node(node) => Some(node),
            Origin::Resident(_) => None,
        }
    }
}

/// Makes a step, value by value.
#[derive(Debug, Default)]
pub struct StepBuilder {
    step: Step,
}

/// Why a node cannot be added.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed {
    /// The node's name.
    pub node: String,
    /// What is wrong with it.
    pub why: &'static str,
}

impl std::fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "node '{}' {}", self.node, self.why)
    }
}

impl std::error::Error for Malformed {}

impl StepBuilder {
    /// Adds what stands before the step.
    pub fn resident(&mut self, ty: Ty, source: Source) -> ValueId {
        self.value(Arc::new(ty), Origin::Resident(source))
    }

    fn value(&mut self, ty: Arc<Ty>, origin: Origin) -> ValueId {
        self.step.values.push(Value { ty, origin });
        ValueId::from_index(self.step.values.len() - 1)
    }

    /// Adds the next node in order of execution; its outputs are made here and returned.
    ///
    /// # Errors
    /// [`Malformed`] when an index points at nothing.
    pub fn node(&mut self, mut node: Node) -> Result<Vec<ValueId>, Malformed> {
        let refuse = |node: &Node, why| Err(Malformed { node: node.name.clone(), why });
        if node.inputs.iter().any(|value| value.index() >= self.step.values.len()) {
            return refuse(&node, "reads a value that is not made yet");
        }
        let mut types: Vec<Arc<Ty>> =
            node.inputs.iter().map(|&value| self.step.value(value).ty.clone()).collect();
        for call in &node.calls {
            let operands = call.operands.len();
            if call.operands.iter().any(|&operand| operand >= types.len()) {
                return refuse(&node, "has a call that reads what is not made yet");
            }
            let operator = &call.operator;
            let indices =
                operator.writes.iter().chain(&operator.effects).chain(operator.aliases.iter().flatten());
            if { indices }.any(|&index| index >= operands) || count_values(&operator.args) != operands {
                return refuse(&node, "has a call whose indices do not fit its operands");
            }
            types.extend(operator.results.iter().cloned());
        }
        if node.yields.iter().any(|&value| value >= types.len())
            || node.overwrites.is_some_and(|input| input >= node.inputs.len())
        {
            return refuse(&node, "yields or overwrites what it does not have");
        }
        for call in &mut node.calls {
            // One way to say it: rules make operators too, and heads are compared whole.
            if call.operator.aliases.iter().all(Option::is_none) {
                call.operator.aliases.clear();
            }
        }
        let id = NodeId::from_index(self.step.nodes.len());
        node.outputs =
            node.yields.iter().map(|&local| self.value(types[local].clone(), Origin::Node(id))).collect();
        let outputs = node.outputs.clone();
        self.step.nodes.push(node);
        Ok(outputs)
    }

    /// Says that the step returns a value, or a view of it.
    pub fn returned(&mut self, value: ValueId, role: Role) {
        self.step.returned.push((value, role));
    }

    /// The step.
    pub fn finish(self) -> Step {
        self.step
    }
}

/// How many operands the arguments ask for.
fn count_values(args: &[Arg]) -> usize {
    let count = |arg: &Arg| match arg {
        Arg::Value => 1,
        Arg::List(inner) => count_values(inner),
        _ => 0,
    };
    args.iter().map(count).sum()
}
