//! What shares a class computes the same bits on libtorch: outputs and gradients, for the same arguments.
//!
//! `programs.py` traces thousands of small random programs as the submodules of one model. The recorder runs forward and
//! backward once, as `rk-import` does; the recorded calls of each program are one forward and one backward node of a
//! [`Step`], with in-place calls and views as they ran. Programs that `rk-classes` puts into one class are then executed
//! call by call by libtorch, each alone, with equal tensors for corresponding arguments and the same state of the
//! generator; corresponding results must have the same bits. Every mutated program must stand in another class.
//!
//! `RK_PROGRAMS=30000 RK_SEED=2 cargo test --release -p rk-import --test equal_programs` runs more, or others.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use rk_classes::{Arg, Call, Group, Node, Operator, Relation, Role, Scope, Source, Step, StepBuilder, Ty};
use rk_plan::{NodeId, ValueId};
use rk_torch::tch::{Kind, Tensor};
use rk_torch::{
    Archive, Argument, ArgumentRole, Device, EagerStep, LossSpec, Prepared, RecordedOp, Recording,
    ResultRole, Slots, TensorType, Timing, Value, ValueNumber, memory,
};

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

/// The recording of all programs, or `None`, said aloud, without a Python.
fn record() -> Option<Recording> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".venv/bin/python");
    if !python.exists() {
        eprintln!("skipped: no {}; `cargo xtask setup` makes it", python.display());
        return None;
    }
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("programs.pt");
    let (count, seed) = (number("RK_PROGRAMS", 4500), number("RK_SEED", 1));
    let made = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs.py"))
        .args([count.to_string(), seed.to_string()])
        .arg(&archive)
        .output()
        .expect("python starts");
    assert!(made.status.success(), "programs.py failed:\n{}", String::from_utf8_lossy(&made.stderr));
    memory::install().unwrap();
    let archive = Archive::load(&archive, Device::Cpu).unwrap();
    let inputs = [archive.traced_inputs()[0].make(1, 0).unwrap()];
    Some(EagerStep::new(archive, &inputs, LossSpec::Sum).unwrap().record(Timing::None).unwrap())
}

/// The step of a recording, and where everything of it is.
struct Programs<'r> {
    recording: &'r Recording,
    step: Step,
    /// Per program, its name, its forward and its backward calls.
    parts: Vec<(String, [Vec<&'r RecordedOp>; 2])>,
    /// Per program, its nodes; the backward one may be missing.
    nodes: Vec<Vec<NodeId>>,
    numbers: HashMap<ValueId, ValueNumber>,
}

impl<'r> Programs<'r> {
    fn of(recording: &'r Recording) -> Self {
        let mut places: HashMap<&str, usize> = HashMap::new();
        let mut parts: Vec<(String, [Vec<&RecordedOp>; 2])> = Vec::new();
        for op in &recording.ops {
            let name = op.path.split('.').next().unwrap_or_default();
            let place = *places.entry(name).or_insert(parts.len());
            if place == parts.len() {
                parts.push((name.to_owned(), Default::default()));
            }
            parts[place].1[usize::from(op.backward)].push(op);
        }
        let mut maker = Maker::new(recording);
        let mut nodes: Vec<Vec<NodeId>> = vec![Vec::new(); parts.len()];
        // The loss comes after all programs, and its backward before theirs.
        let (loss, programs): (Vec<usize>, Vec<usize>) =
            (0..parts.len()).partition(|&place| !parts[place].0.starts_with('p'));
        let forward = programs.iter().chain(&loss).map(|&place| (place, false));
        let backward = loss.iter().chain(&programs).map(|&place| (place, true));
        for (place, backward) in forward.chain(backward) {
            let (name, calls) = &parts[place];
            let calls = &calls[usize::from(backward)];
            if !calls.is_empty() {
                nodes[place].push(maker.node(name, calls, backward));
            }
        }
        let (step, numbers) = maker.finish();
        Self { recording, step, parts, nodes, numbers }
    }

    /// The programs, without the loss.
    fn places(&self) -> Vec<usize> {
        (0..self.parts.len()).filter(|&place| self.parts[place].0.starts_with('p')).collect()
    }

    /// Runs one program alone, on tensors that depend on its class only. Gives the bits of its results.
    fn run(&self, place: usize, group: &Group, scope: Scope, slots: &mut Slots) -> Vec<Vec<u8>> {
        let class = u64::from(group.class.0);
        for (k, value) in group.arguments.iter().enumerate() {
            let number = self.numbers[value];
            let ty = self.recording.type_of(number).expect("an argument is a tensor");
            let tensor = match self.recording.constants.iter().find(|constant| constant.value == number) {
                Some(constant) => Tensor::from_data_size(&constant.bytes, &ty.sizes, kind(ty)),
                None => random(ty, class * 1000 + k as u64),
            };
            slots.set(number.0 as usize, &tensor).unwrap();
        }
        Device::Cpu.manual_seed(class).unwrap();
        let halves = if scope == Scope::Forward { 1 } else { 2 };
        for op in self.parts[place].1.iter().take(halves).flatten() {
            let args: Vec<Value> = op.args.iter().map(slot).collect();
            let results: Vec<Option<usize>> =
                op.results.iter().map(|result| Some(result.0 as usize)).collect();
            let operator = rk_torch::Operator::find(&op.name).unwrap();
            let call = Prepared::with_grad_mode(operator, &args, &results, !op.backward).unwrap();
            call.run(slots).unwrap_or_else(|error| panic!("{}: {}: {error}", self.parts[place].0, op.name));
        }
        let bits = |value: &ValueId| bytes(&slots.get(self.numbers[value].0 as usize).unwrap().unwrap());
        group.results.iter().map(bits).collect()
    }
}

/// Makes a [`Step`] of recorded calls.
struct Maker<'r> {
    recording: &'r Recording,
    builder: StepBuilder,
    nodes: usize,
    values: HashMap<ValueNumber, ValueId>,
}

impl<'r> Maker<'r> {
    fn new(recording: &'r Recording) -> Self {
        let mut maker = Self { recording, builder: StepBuilder::default(), nodes: 0, values: HashMap::new() };
        for argument in &recording.arguments {
            let source = match argument.role {
                ArgumentRole::Input => Source::Input,
                ArgumentRole::Parameter => Source::Parameter { trainable: argument.trainable },
                ArgumentRole::Buffer => Source::Buffer,
            };
            let value = maker.builder.resident(maker.ty(argument.value), source);
            maker.values.insert(argument.value, value);
        }
        let mut known: HashMap<(Ty, &[u8]), u64> = HashMap::new();
        for constant in &recording.constants {
            let ty = maker.ty(constant.value);
            let next = known.len() as u64;
            let number = *known.entry((ty.clone(), &constant.bytes)).or_insert(next);
            let value = maker.builder.resident(ty, Source::Constant(number));
            maker.values.insert(constant.value, value);
        }
        maker
    }

    fn ty(&self, value: ValueNumber) -> Ty {
        match self.recording.type_of(value) {
            Some(ty) => Ty {
                element: ty.dtype.to_string(),
                shape: ty.sizes.clone(),
                strides: ty.strides.clone(),
                storage: ty.storage_bytes,
            },
            None => Ty { element: "none".to_owned(), shape: Vec::new(), strides: Vec::new(), storage: 0 },
        }
    }

    /// All calls in one body; everything that they make leaves it.
    fn node(&mut self, name: &str, calls: &[&RecordedOp], backward: bool) -> NodeId {
        let made: Vec<ValueNumber> = calls.iter().flat_map(|op| op.results.iter().copied()).collect();
        let mut locals: HashMap<ValueNumber, usize> = HashMap::new();
        for operand in calls.iter().flat_map(|op| &op.operands).filter(|operand| !made.contains(operand)) {
            let next = locals.len();
            locals.entry(*operand).or_insert(next);
        }
        let mut inputs = vec![ValueId::from_index(0); locals.len()];
        locals.iter().for_each(|(number, &at)| inputs[at] = self.values[number]);
        let body = calls.iter().map(|op| {
            let operands = op.operands.iter().map(|operand| locals[operand]).collect();
            for &result in &op.results {
                let next = locals.len();
                locals.insert(result, next);
            }
            Call { operator: self.operator(op), operands }
        });
        let calls = body.collect();
        let node = Node {
            name: name.to_owned(),
            path: name.to_owned(),
            backward,
            inputs,
            calls,
            yields: made.iter().map(|number| locals[number]).collect(),
            ..Node::default()
        };
        let outputs = self.builder.node(node).expect("a recording is well formed");
        self.values.extend(made.into_iter().zip(outputs));
        self.nodes += 1;
        NodeId::from_index(self.nodes - 1)
    }

    fn operator(&self, op: &RecordedOp) -> Operator {
        let places = |places: &[u32]| places.iter().map(|&place| place as usize).collect();
        Operator {
            name: op.name.clone(),
            args: op.args.iter().map(plain).collect(),
            results: op.results.iter().map(|&result| self.ty(result).into()).collect(),
            writes: places(&op.writes),
            effects: Vec::new(),
            aliases: op.aliases.iter().map(|alias| alias.map(|operand| operand as usize)).collect(),
            random: op.random,
        }
    }

    fn finish(mut self) -> (Step, HashMap<ValueId, ValueNumber>) {
        let named: HashMap<&str, ValueId> = self
            .recording
            .arguments
            .iter()
            .map(|argument| (argument.name.as_str(), self.values[&argument.value]))
            .collect();
        for result in &self.recording.results {
            let role = match result.role {
                ResultRole::Loss => Role::Loss,
                ResultRole::Output => Role::Output,
                ResultRole::Gradient => Role::Gradient(named.get(result.name.as_str()).copied()),
            };
            self.builder.returned(self.values[&result.value], role);
        }
        (self.builder.finish(), self.values.into_iter().map(|(number, value)| (value, number)).collect())
    }
}

fn plain(argument: &Argument) -> Arg {
    match argument {
        Argument::None => Arg::None,
        Argument::Value(_) => Arg::Value,
        Argument::Int(int) => Arg::Int(*int),
        Argument::Float(float) => Arg::Float(float.to_bits()),
        Argument::Bool(bool) => Arg::Bool(*bool),
        Argument::Str(text) => Arg::Str(text.clone()),
        Argument::List(items) => Arg::List(items.iter().map(plain).collect()),
    }
}

fn slot(argument: &Argument) -> Value {
    match argument {
        Argument::None => Value::None,
        Argument::Value(value) => Value::Slot(value.0 as usize),
        Argument::Int(int) => Value::Int(*int),
        Argument::Float(float) => Value::Float(*float),
        Argument::Bool(bool) => Value::Bool(*bool),
        Argument::Str(text) => Value::Str(text.clone()),
        Argument::List(items) => Value::List(items.iter().map(slot).collect()),
    }
}

fn kind(ty: &TensorType) -> Kind {
    rk_torch::kind(ty.dtype).expect("tch has a name for it")
}

/// A tensor of this type, the same for the same seed.
fn random(ty: &TensorType, seed: u64) -> Tensor {
    let elements = (ty.storage_bytes / ty.dtype.bytes()) as i64;
    Device::Cpu.manual_seed(seed).unwrap();
    let flat = Tensor::randn([elements], (Kind::Float, rk_torch::tch::Device::Cpu));
    let flat = if kind(ty) == Kind::Bool { flat.gt(0.0) } else { flat.to_kind(kind(ty)) };
    flat.as_strided(&ty.sizes, &ty.strides, 0)
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    let flat = tensor.detach().contiguous().reshape([-1]);
    Vec::try_from(flat.view_dtype(Kind::Uint8).reshape([-1])).unwrap()
}

#[test]
fn programs_of_a_class_have_equal_outputs_and_gradients() {
    let Some(recording) = record() else { return };
    let programs = Programs::of(&recording);
    let places = programs.places();
    let mut slots = Slots::new(recording.values.len()).unwrap();
    for scope in [Scope::Block, Scope::Forward] {
        let halves = |place: &usize| match scope {
            Scope::Forward => vec![programs.nodes[*place][0]],
            _ => programs.nodes[*place].clone(),
        };
        let groups: Vec<Vec<NodeId>> = places.iter().map(halves).collect();
        let found = rk_classes::compare(&programs.step, &groups, Relation::SameBits, scope);
        let mut first: HashMap<u32, (usize, Vec<Vec<u8>>)> = HashMap::new();
        let (mut pairs, mut spelled_otherwise) = (0, 0);
        for (at, group) in found.iter().enumerate() {
            let bits = programs.run(places[at], group, scope, &mut slots);
            let name = |at: usize| programs.parts[places[at]].0.as_str();
            let Some((other, wanted)) = first.get(&group.class.0) else {
                first.insert(group.class.0, (at, bits));
                continue;
            };
            assert!(!bits.is_empty());
            assert_eq!(&bits, wanted, "{scope:?}: {} and {} share a class", name(*other), name(at));
            pairs += 1;
            spelled_otherwise += usize::from(group.spelling != found[*other].spelling);
        }
        // Every third program, the mutated ones aside, has a respelled twin beside it.
        for (at, group) in found.iter().enumerate() {
            let name = programs.parts[places[at]].0.as_str();
            let Some((original, mutation)) = name.split_once('_').filter(|(_, end)| *end != "respelled")
            else {
                continue;
            };
            let original = places.iter().position(|&place| programs.parts[place].0 == original).unwrap();
            assert_ne!(group.class, found[original].class, "{scope:?}: {name}: {mutation} changes nothing");
        }
        eprintln!(
            "{scope:?}: {} programs, {pairs} pairs of equal ones, {spelled_otherwise} of them spelled differently",
            places.len()
        );
        assert!(
            pairs * 6 > places.len() && spelled_otherwise * 20 > places.len(),
            "too few pairs say anything"
        );
    }
}
