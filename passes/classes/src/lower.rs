//! From nodes to terms: a block is lowered to the terms of what leaves it, over anonymized arguments.
//!
//! An argument is known by its kind, its type and its place among those of the same kind and type in order of first use;
//! names and module paths are not looked at. In-place calls are followed by versions: storage has a version, a write
//! makes the next, and a name that is older than its storage reads as [`Head::Stale`], which no rule touches.
//!
//! Beside the terms stands the *text*: operators and renamed operands, node by node in order of execution. Comparing it is what
//! rk-GB does, and equal texts also mean that node k of one block is node k of the other.

use std::collections::HashMap;
use std::sync::Arc;

use egg::Id;
use rk_plan::{NodeId, ValueId};

use crate::step::{Arg, Node, Operator, Origin, Role, Source, Step, Ty};
use crate::term::{Graph, Head, Kind, add, add_interned, is_tuple};

/// What "equal" means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The same bits for the same arguments: code may be shared.
    SameBits,
    /// The same time and memory: factors and the like, the bits of baked tensors and the place of a draw are not
    /// looked at. Never a reason to share code.
    SameCost,
}

/// What is lowered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A block with its backward nodes.
    Block,
    /// Its forward nodes: what only backward nodes read does not count as leaving.
    Forward,
    /// A single node, to be measured: where its arguments come from and who reads its results is not looked at.
    Node,
}

/// An argument of a block, as terms know it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Slot {
    /// Where it comes from.
    pub kind: Kind,
    /// Its type.
    pub ty: Arc<Ty>,
    /// Its place among those of this kind and type.
    pub number: usize,
}

/// What a value that leaves a block is there for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Leaves {
    /// Later forward blocks read it.
    Forward,
    /// Only backward nodes of other blocks read it.
    Saved,
    /// A backward value that other blocks read.
    Backward,
    /// The step returns it as the loss.
    Loss,
    /// The step returns it as an output of the model.
    Output,
    /// The step returns it as the gradient of this argument, or of something that is no argument of the block.
    Gradient(Option<Slot>),
    /// The new state of this argument.
    Effect(Slot),
    /// The state of the generator.
    Generator,
}

/// A block as terms.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// What leaves the block, sorted by purpose, type and order of production.
    pub outputs: Vec<(Leaves, Id)>,
    /// The values of the step that these outputs are; of an effect, the argument that it updates. The generator's states,
    /// which are last, have none.
    pub results: Vec<ValueId>,
    /// The arguments, sorted by slot: position k of one block corresponds to position k of an equal one.
    pub arguments: Vec<(Slot, ValueId)>,
    /// Renamed text; see the module's header.
    pub text: Text,
    /// For [`Relation::SameCost`], what is executed, sorted: a term stands for a value however often it is computed, and time does not.
    pub work: Vec<u32>,
}

/// A block as text.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Text {
    words: Vec<u32>,
    outputs: Vec<(Leaves, u32)>,
}

impl Text {
    /// Operators and renamed operands, in order.
    pub fn words(&self) -> &[u32] {
        &self.words
    }
}

/// What the words after it are. Heads are numbered from 0 and never come near.
const ARGUMENT: u32 = u32::MAX;
const NODE: u32 = u32::MAX - 1;
const YIELDS: u32 = u32::MAX - 2;

/// A call: its interned head, its operator, and the number of what it executes, if that counts and it is no view.
type NumberedCall = ((u32, u32), Arc<Operator>, Option<u32>);

/// Lowers nodes of one step into one e-graph.
pub struct Lowering<'s> {
    step: &'s Step,
    relation: Relation,
    /// Per node and call, the interned head and the operator that it holds.
    calls: Vec<Vec<NumberedCall>>,
    users: Vec<Vec<NodeId>>,
    returned: HashMap<ValueId, Vec<Role>>,
    /// Per node, the last lowering that it was part of.
    inside: Vec<u32>,
    round: u32,
}

/// One value of a block while it is lowered: its term, and its number in the text.
#[derive(Clone, Copy)]
struct Known {
    id: Id,
    word: u32,
}

/// A value inside of a body.
struct Local {
    id: Id,
    word: u32,
    root: usize,
    version: u32,
}

/// Storage inside of a body.
struct Root {
    version: u32,
    /// What the last write left, if there was one.
    written: Option<Id>,
}

impl<'s> Lowering<'s> {
    /// Interns every call of the step.
    pub fn new(step: &'s Step, relation: Relation, graph: &mut Graph) -> Self {
        let mut executed: HashMap<(&str, &[Arc<Ty>]), u32> = HashMap::new();
        let mut work = |operator: &'s Operator| {
            let next = executed.len() as u32;
            (!operator.is_view())
                .then(|| *executed.entry((&operator.name, &operator.results)).or_insert(next))
        };
        let calls = step.nodes.iter().map(|node| {
            let of_node = node.calls.iter().map(|call| {
                let (operator, work) = match relation {
                    Relation::SameBits => (call.operator.clone(), None),
                    Relation::SameCost => (without_floats(call.operator.clone()), work(&call.operator)),
                };
                let operator = Arc::new(operator);
                (graph.analysis.intern(Head::Call(operator.clone())), operator, work)
            });
            of_node.collect()
        });
        let mut users: Vec<Vec<NodeId>> = vec![Vec::new(); step.values.len()];
        for (id, node) in step.nodes() {
            node.inputs.iter().for_each(|value| users[value.index()].push(id));
        }
        let mut returned: HashMap<ValueId, Vec<Role>> = HashMap::new();
        step.returned.iter().for_each(|&(value, role)| returned.entry(value).or_default().push(role));
        let inside = vec![0; step.nodes.len()];
        Self { step, relation, calls: calls.collect(), users, returned, inside, round: 0 }
    }

    /// Lowers some nodes, in order of execution.
    pub fn lower(&mut self, graph: &mut Graph, nodes: &[NodeId], scope: Scope) -> Lowered {
        self.round += 1;
        nodes.iter().for_each(|node| self.inside[node.index()] = self.round);
        let start = [false, true].map(|backward| add(graph, Head::Start(backward), Vec::new()));
        let mut block = Block {
            values: HashMap::new(),
            arguments: Vec::new(),
            numbers: HashMap::new(),
            scope,
            states: start,
            effects: Vec::new(),
            text: Text::default(),
            work: Vec::new(),
            next_word: 0,
        };
        for &node in nodes {
            self.node(graph, &mut block, node);
        }
        let mut outputs: Vec<(Leaves, Arc<Ty>, Known, ValueId)> = Vec::new();
        for &node in nodes {
            for &value in &self.step.node(node).outputs {
                let known = block.values[&value];
                for leaves in self.leaves(&block, node, value) {
                    outputs.push((leaves, self.step.value(value).ty.clone(), known, value));
                }
            }
        }
        for value in std::mem::take(&mut block.effects) {
            if let Some(slot) = block.slot(value) {
                let ty = self.step.value(value).ty.clone();
                outputs.push((Leaves::Effect(slot), ty, block.values[&value], value));
            }
        }
        // Stable: values of the same purpose and type stay in the order in which they are made.
        outputs.sort_by(|a, b| (&a.0, &a.1).cmp(&(&b.0, &b.1)));
        block.text.outputs =
            outputs.iter().map(|(leaves, _, known, _)| (leaves.clone(), known.word)).collect();
        let results = outputs.iter().map(|(.., value)| *value).collect();
        let mut outputs: Vec<(Leaves, Id)> =
            outputs.into_iter().map(|(leaves, _, known, _)| (leaves, known.id)).collect();
        let advanced = block.states.into_iter().zip(start).filter(|(state, start)| state != start);
        outputs.extend(advanced.map(|(state, _)| (Leaves::Generator, state)));
        block.arguments.sort();
        block.work.sort_unstable();
        Lowered { outputs, results, arguments: block.arguments, text: block.text, work: block.work }
    }

    fn leaves(&self, block: &Block, node: NodeId, value: ValueId) -> Vec<Leaves> {
        if block.scope == Scope::Node {
            return vec![Leaves::Output];
        }
        let mut leaves = Vec::new();
        let outside = |user: &&NodeId| self.inside[user.index()] != self.round;
        let backward = |user: NodeId| self.step.node(user).backward;
        let users: Vec<NodeId> = self.users[value.index()].iter().filter(outside).copied().collect();
        if self.step.node(node).backward {
            leaves.extend((!users.is_empty()).then_some(Leaves::Backward));
        } else if users.iter().any(|&user| !backward(user)) {
            leaves.push(Leaves::Forward);
        } else if block.scope == Scope::Block && !users.is_empty() {
            leaves.push(Leaves::Saved);
        }
        for role in self.returned.get(&value).into_iter().flatten() {
            leaves.push(match role {
                Role::Loss => Leaves::Loss,
                Role::Output => Leaves::Output,
                Role::Gradient(of) => Leaves::Gradient(of.and_then(|value| block.slot(value))),
            });
        }
        leaves
    }

    /// Makes an argument of the block, or finds it.
    fn read(&self, graph: &mut Graph, block: &mut Block, value: ValueId) -> Known {
        if let Some(&known) = block.values.get(&value) {
            return known;
        }
        let about = self.step.value(value);
        let kind = match about.origin {
            _ if block.scope == Scope::Node => Kind::Forward,
            Origin::Resident(source) => Kind::Resident(self.blurred(source)),
            Origin::Node(node) if self.step.node(node).backward => Kind::Backward,
            Origin::Node(_) => Kind::Forward,
        };
        let number = match kind {
            Kind::Resident(Source::Constant(_)) if self.relation == Relation::SameBits => 0,
            _ => {
                let next = block.numbers.entry((kind, about.ty.clone())).or_default();
                *next += 1;
                *next - 1
            }
        };
        let slot = Slot { kind, ty: about.ty.clone(), number };
        let head = Head::Argument { kind, ty: about.ty.clone(), number };
        let interned = graph.analysis.intern(head);
        let id = add_interned(graph, interned, Vec::new());
        let known = Known { id, word: block.word() };
        // A new argument is announced by its head, so that texts with equal words have equal arguments.
        block.text.words.extend([ARGUMENT, interned.0]);
        block.arguments.push((slot, value));
        block.values.insert(value, known);
        known
    }

    fn blurred(&self, source: Source) -> Source {
        match (self.relation, source) {
            (Relation::SameBits, source) => source,
            (Relation::SameCost, Source::Parameter { .. }) => Source::Parameter { trainable: true },
            (Relation::SameCost, Source::Constant(_)) => Source::Constant(0),
            (Relation::SameCost, source) => source,
        }
    }

    /// Lowers the body of a node.
    fn node(&self, graph: &mut Graph, block: &mut Block, id: NodeId) {
        let node = self.step.node(id);
        let mut roots: Vec<Root> = Vec::new();
        let mut locals: Vec<Local> = Vec::new();
        for &input in &node.inputs {
            let known = self.read(graph, block, input);
            locals.push(Local { id: known.id, word: known.word, root: roots.len(), version: 0 });
            roots.push(Root { version: 0, written: None });
        }
        let mut types: Vec<Arc<Ty>> =
            node.inputs.iter().map(|&value| self.step.value(value).ty.clone()).collect();
        let overwrites = node.overwrites.map_or(0, |input| 1 + input as u32);
        block.text.words.extend([NODE, overwrites, u32::from(node.backward)]);
        for (call, (interned, operator, work)) in node.calls.iter().zip(&self.calls[id.index()]) {
            block.work.extend(work);
            let mut children = Vec::with_capacity(call.operands.len() + 1);
            if operator.random {
                // Two draws cost the same wherever they stand; only their bits depend on the state.
                let state = match self.relation {
                    Relation::SameBits => block.states[usize::from(node.backward)],
                    Relation::SameCost => add(graph, Head::Start(false), Vec::new()),
                };
                children.push(state);
            }
            block.text.words.push(interned.0);
            for &operand in &call.operands {
                block.text.words.push(locals[operand].word);
                children.push(current(graph, &roots, &locals[operand], &types[operand]));
            }
            let made = add_interned(graph, *interned, children);
            if operator.random {
                block.states[usize::from(node.backward)] = add(graph, Head::State, vec![made]);
            }
            for &index in operator.writes.iter().chain(&operator.effects) {
                let operand = call.operands[index];
                let ty = types[operand].clone();
                let written = add(graph, Head::Wrote(index, ty), vec![made]);
                let local = &mut locals[operand];
                let root = &mut roots[local.root];
                root.version += 1;
                root.written = Some(written);
                (local.id, local.version) = (written, root.version);
            }
            for (index, ty) in operator.results.iter().enumerate() {
                let shared = operator.alias(index).map(|operand| call.operands[operand]);
                let root = match shared {
                    Some(operand) => locals[operand].root,
                    None => {
                        roots.push(Root { version: 0, written: None });
                        roots.len() - 1
                    }
                };
                let id = match shared {
                    _ if !is_tuple(operator) => made,
                    // `relu_` returns its operand, and that is what it wrote.
                    Some(operand) if !operator.writes.is_empty() && types[operand] == *ty => {
                        current(graph, &roots, &locals[operand], ty)
                    }
                    _ => add(graph, Head::Result(index, ty.clone()), vec![made]),
                };
                locals.push(Local { id, word: block.word(), root, version: roots[root].version });
                types.push(ty.clone());
            }
        }
        self.end(graph, block, node, &roots, &locals, &types);
    }

    /// What a body leaves: its outputs, and new versions of the residents that it wrote.
    fn end(
        &self,
        graph: &mut Graph,
        block: &mut Block,
        node: &Node,
        roots: &[Root],
        locals: &[Local],
        types: &[Arc<Ty>],
    ) {
        block.text.words.extend([YIELDS, node.outputs.len() as u32]);
        for (&output, &local) in node.outputs.iter().zip(&node.yields) {
            let id = current(graph, roots, &locals[local], &types[local]);
            block.text.words.push(locals[local].word);
            let word = block.word();
            block.values.insert(output, Known { id, word });
        }
        for (index, &input) in node.inputs.iter().enumerate() {
            // What it overwrites is a copy, and leaves as its first output; other values are never written.
            let resident = matches!(self.step.value(input).origin, Origin::Resident(_));
            if roots[locals[index].root].version == 0 || node.overwrites == Some(index) || !resident {
                continue;
            }
            let id = current(graph, roots, &locals[index], &types[index]);
            let word = block.word();
            block.values.insert(input, Known { id, word });
            if !block.effects.contains(&input) {
                block.effects.push(input);
            }
        }
    }
}

/// What a name reads now: its own term, or that its storage was written under another name.
fn current(graph: &mut Graph, roots: &[Root], local: &Local, ty: &Arc<Ty>) -> Id {
    let root = &roots[local.root];
    match root.written {
        Some(written) if local.version < root.version => {
            add(graph, Head::Stale(ty.clone()), vec![local.id, written])
        }
        _ => local.id,
    }
}

struct Block {
    scope: Scope,
    values: HashMap<ValueId, Known>,
    arguments: Vec<(Slot, ValueId)>,
    numbers: HashMap<(Kind, Arc<Ty>), usize>,
    /// Of the generator, for forward and for backward nodes.
    states: [Id; 2],
    /// Arguments that the block leaves in a new state.
    effects: Vec<ValueId>,
    text: Text,
    work: Vec<u32>,
    next_word: u32,
}

impl Block {
    fn slot(&self, value: ValueId) -> Option<Slot> {
        self.arguments.iter().find(|(_, known)| *known == value).map(|(slot, _)| slot.clone())
    }

    fn word(&mut self) -> u32 {
        self.next_word += 1;
        self.next_word - 1
    }
}

/// Operators whose floating-point constants only scale, shift, bound or draw: the kernel does the same work with any of them.
/// All others keep theirs, as exponents and the order of a norm pick another loop, and a factor of 0 in `addmm` skips one.
const FLOATS_ONLY_SCALE: [&str; 22] = [
    "add",
    "add_",
    "bernoulli",
    "bernoulli_",
    "clamp",
    "cudnn_batch_norm",
    "div",
    "div_",
    "fill",
    "fill_",
    "full",
    "full_like",
    "hardtanh",
    "leaky_relu",
    "masked_fill",
    "mul",
    "mul_",
    "native_batch_norm",
    "native_group_norm",
    "native_layer_norm",
    "rsub",
    "sub",
];

/// The same operator, with floating-point constants forgotten where [`FLOATS_ONLY_SCALE`].
fn without_floats(mut operator: Operator) -> Operator {
    let base = operator.name.split('.').nth(1).unwrap_or_default();
    if FLOATS_ONLY_SCALE.binary_search(&base).is_err() {
        return operator;
    }
    fn forget(args: &mut [Arg]) {
        for arg in args {
            match arg {
                Arg::Float(bits) => *bits = 0,
                Arg::List(inner) => forget(inner),
                _ => {}
            }
        }
    }
    forget(&mut operator.args);
    operator
}
