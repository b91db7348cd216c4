//! The oracle of the recorder: replaying a recording call by call gives the bits of the eager step: loss,
//! outputs, gradients, and buffers after several steps.

mod common;

use rk_torch::tch::{Kind, Tensor};
use rk_torch::{
    Archive, Argument, Device, EagerStep, LossSpec, Operator, Prepared, RecordedOp, Recording, ResultRole,
    Slots, Timing, Value, memory,
};
use std::path::Path;

/// Generator seed of the first step.
const SEED: u64 = 3;

fn step(path: &Path, loss: LossSpec) -> EagerStep {
    let archive = Archive::load(path, Device::Cpu).unwrap();
    let inputs: Vec<Tensor> =
        (0..).zip(archive.traced_inputs()).map(|(i, spec)| spec.make(SEED, i).unwrap()).collect();
    EagerStep::new(archive, &inputs, loss).unwrap()
}

fn value(argument: &Argument) -> Value {
    match argument {
        Argument::None => Value::None,
        Argument::Value(value) => Value::Slot(value.0 as usize),
        Argument::Int(int) => Value::Int(*int),
        Argument::Float(float) => Value::Float(*float),
        Argument::Bool(bool) => Value::Bool(*bool),
        Argument::Str(text) => Value::Str(text.clone()),
        Argument::List(items) => Value::List(items.iter().map(value).collect()),
    }
}

/// The recorded calls, ready to run on the tensors of `archive`.
struct Replay {
    slots: Slots,
    calls: Vec<Prepared>,
}

impl Replay {
    fn new(recording: &Recording, archive: &Archive, loss: LossSpec) -> Self {
        let mut slots = Slots::new(recording.values.len()).unwrap();
        let inputs = archive.traced_inputs().len();
        let specs = archive.traced_inputs();
        for (i, argument) in recording.arguments.iter().enumerate() {
            let tensor = match i.checked_sub(inputs) {
                None => specs[i].make(SEED, i as u64).unwrap(),
                Some(attribute) => archive.tensor(attribute).unwrap(),
            };
            slots.set(argument.value.0 as usize, &tensor).unwrap();
        }
        for constant in &recording.constants {
            let of = recording.type_of(constant.value).unwrap();
            let tensor =
                Tensor::from_data_size(&constant.bytes, &of.sizes, rk_torch::kind(of.dtype).unwrap());
            slots.set(constant.value.0 as usize, &tensor).unwrap();
        }
        let calls = recording.ops.iter().map(|op| {
            let args: Vec<Value> = op.args.iter().map(value).collect();
            let results: Vec<Option<usize>> = op.results.iter().map(|r| Some(r.0 as usize)).collect();
            Prepared::with_grad_mode(
                Operator::find(&op.name).unwrap(),
                &args,
                &results,
                loss != LossSpec::None && !op.backward,
            )
            .unwrap()
        });
        let calls = calls.collect();
        Self { slots, calls }
    }

    fn run(&mut self) {
        self.calls.iter().for_each(|call| call.run(&mut self.slots).unwrap());
    }
}

fn bytes(tensor: &Tensor) -> Vec<u8> {
    let flat = tensor.detach().contiguous().reshape([-1]);
    if flat.numel() == 0 {
        return Vec::new();
    }
    Vec::try_from(flat.view_dtype(Kind::Uint8).reshape([-1])).unwrap()
}

/// Steps of `name` eagerly and by replay; says what differs first.
fn compare(name: &str, path: &Path, loss: LossSpec, steps: usize) -> Result<(), String> {
    let mut recorded = step(path, loss);
    Device::Cpu.manual_seed(SEED).unwrap();
    let recording = recorded.record(Timing::None).map_err(|error| format!("{name}: {error}"))?;
    let mut eager = step(path, loss);
    let model = Archive::load(path, Device::Cpu).unwrap();
    let mut replay = Replay::new(&recording, &model, loss);
    for round in 0..steps {
        Device::Cpu.manual_seed(SEED + round as u64).unwrap();
        let wanted = eager.run().unwrap();
        Device::Cpu.manual_seed(SEED + round as u64).unwrap();
        replay.run();
        let wanted_list = wanted.loss.iter().map(|t| (ResultRole::Loss, "loss", t));
        let wanted_list =
            wanted_list.chain(wanted.outputs.iter().map(|(n, t)| (ResultRole::Output, n.as_str(), t)));
        let wanted_list =
            wanted_list.chain(wanted.gradients.iter().map(|(n, t)| (ResultRole::Gradient, n.as_str(), t)));
        let wanted_list: Vec<_> = wanted_list.collect();
        assert_eq!(wanted_list.len(), recording.results.len(), "{name}");
        for ((role, n, tensor), result) in wanted_list.into_iter().zip(&recording.results) {
            assert_eq!((role, n), (result.role, result.name.as_str()), "{name}");
            let got = replay.slots.get(result.value.0 as usize).unwrap().unwrap();
            if bytes(&got) != bytes(tensor) {
                return Err(format!("{name}: step {round}: {role:?} '{n}' differs"));
            }
        }
        for (i, attribute) in model.attributes().iter().enumerate() {
            if bytes(&model.tensor(i).unwrap()) != bytes(&eager.archive().tensor(i).unwrap()) {
                return Err(format!("{name}: step {round}: '{}' differs", attribute.name));
            }
        }
    }
    Ok(())
}

#[test]
fn a_replay_has_the_bits_of_the_eager_step() {
    let Some(folder) = common::archives(&[]) else { return };
    let _turn = common::turn();
    memory::install().unwrap();
    let failures: Vec<String> = common::good(folder)
        .iter()
        .filter_map(|(name, path)| compare(name, path, LossSpec::Sum, 3).err())
        .collect();
    assert!(failures.is_empty(), "{failures:#?}");
}

/// Bytes of the storage behind each operand: what an operator may have changed.
fn operands(replay: &Replay, recording: &Recording, op: usize) -> Vec<Option<Vec<u8>>> {
    let slots = recording.ops[op].operands.iter().map(|v| replay.slots.get(v.0 as usize).unwrap());
    slots.map(|tensor| tensor.as_ref().map(bytes)).collect()
}

fn results(replay: &Replay, op: &RecordedOp) -> Vec<Option<Vec<u8>>> {
    op.results.iter().map(|v| replay.slots.get(v.0 as usize).unwrap().as_ref().map(bytes)).collect()
}

/// Operators that use an operand as scratch without saying so: oneDNN's LSTM overwrites parts of its workspace in
/// backward, but does not read them first, so a second run gives the same bits (asserted below).
const SCRATCH: [&str; 1] = ["aten.mkldnn_rnn_layer_backward.default"];

/// Which operands of each call change, against what the recording declares.
fn undeclared_writes(name: &str, path: &Path) -> Vec<String> {
    let mut recorded = step(path, LossSpec::Sum);
    Device::Cpu.manual_seed(SEED).unwrap();
    let recording = recorded.record(Timing::None).unwrap();
    let model = Archive::load(path, Device::Cpu).unwrap();
    let mut replay = Replay::new(&recording, &model, LossSpec::Sum);
    Device::Cpu.manual_seed(SEED).unwrap();
    let mut found = Vec::new();
    for (i, op) in recording.ops.iter().enumerate() {
        let before = operands(&replay, &recording, i);
        replay.calls[i].run(&mut replay.slots).unwrap();
        let after = operands(&replay, &recording, i);
        let pointers: Vec<_> = op
            .operands
            .iter()
            .map(|v| replay.slots.get(v.0 as usize).unwrap().map(|t| t.data_ptr()))
            .collect();
        let storage = |k: usize| pointers[k];
        let mut changed = Vec::new();
        for k in 0..before.len() {
            // An operand that is also given as another, written one changes with it.
            let declared = op.writes.iter().any(|&w| w as usize == k || storage(w as usize) == storage(k));
            if before[k] != after[k] && !declared {
                changed.push(k);
            }
        }
        if !changed.is_empty() && !SCRATCH.contains(&op.name.as_str()) {
            found.push(format!("{name}: {} changes operands {changed:?}", op.name));
        }
        if SCRATCH.contains(&op.name.as_str()) {
            let first = results(&replay, op);
            replay.calls[i].run(&mut replay.slots).unwrap();
            assert!(first == results(&replay, op), "{name}: {} reads its scratch", op.name);
        }
        for (result, alias) in op.results.iter().zip(&op.aliases) {
            let Some(tensor) = replay.slots.get(result.0 as usize).unwrap() else { continue };
            let same = |k: u32| storage(k as usize) == Some(tensor.data_ptr());
            if alias.is_none() && tensor.numel() > 0 && (0..op.operands.len() as u32).any(same) {
                found.push(format!("{name}: {} returns its operand without saying so", op.name));
            }
        }
    }
    found
}

#[test]
fn no_operator_writes_what_it_does_not_declare() {
    let Some(folder) = common::archives(&[]) else { return };
    let _turn = common::turn();
    memory::install().unwrap();
    // Comparing all operands of ResNet-18 at every call takes minutes, and batch_norms has the same operators.
    let models = common::good(folder).into_iter().filter(|(name, _)| name != "resnet18");
    let found: Vec<String> = models.flat_map(|(name, path)| undeclared_writes(&name, &path)).collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn recording_twice_gives_the_same() {
    let Some(folder) = common::archives(&[]) else { return };
    let _turn = common::turn();
    memory::install().unwrap();
    for (name, path) in common::good(folder) {
        let mut recorded = step(&path, LossSpec::Sum);
        let mut record = || {
            Device::Cpu.manual_seed(SEED).unwrap();
            recorded.record(Timing::None).unwrap()
        };
        let (first, second) = (record(), record());
        // Workspaces too: the first run is as good as any.
        for (a, b) in first.ops.iter().zip(&second.ops) {
            assert_eq!(a, b, "{name}");
        }
        assert_eq!(first, second, "{name}");
    }
}

#[test]
fn every_kind_of_loss_is_replayed() {
    let Some(folder) = common::archives(&[]) else { return };
    let _turn = common::turn();
    memory::install().unwrap();
    for loss in [LossSpec::Mean, LossSpec::None, LossSpec::Output(0)] {
        compare("lstm", &folder.join("lstm.pt"), loss, 2).unwrap();
    }
    let mut missing = step(&folder.join("mlp.pt"), LossSpec::Output(4));
    assert!(
        missing.run().unwrap_err().message().contains("output:4 does not exist: the model has 1 outputs")
    );
}

#[test]
fn the_recording_says_what_each_operator_does() {
    let Some(folder) = common::archives(&[]) else { return };
    let _turn = common::turn();
    memory::install().unwrap();
    let record =
        |name: &str| step(&folder.join(format!("{name}.pt")), LossSpec::Sum).record(Timing::None).unwrap();

    let norms = record("batch_norms");
    let norm = norms.ops.iter().find(|op| op.name == "aten.native_batch_norm.default").unwrap();
    assert_eq!((norm.writes.as_slice(), norm.path.as_str()), ([3, 4].as_slice(), "1"));
    let backward = norms.ops.iter().find(|op| op.name == "aten.native_batch_norm_backward.default").unwrap();
    assert!(backward.backward && !backward.path.is_empty());
    let eval = record("batch_norm_eval");
    assert!(eval.ops.iter().all(|op| op.writes.is_empty()), "evaluation changes no running statistics");

    let dropout = record("dropout_difference");
    assert_eq!(dropout.ops.iter().filter(|op| op.random).count(), 2, "two masks");
    assert!(dropout.ops.iter().filter(|op| op.random).all(|op| op.path == "drop"));
    assert!(record("dropout_zero").ops.iter().all(|op| !op.random), "p = 0 draws nothing");
    assert!(record("mlp").ops.iter().all(|op| !op.random));

    let tied = record("tied");
    let named = |name: &str| tied.arguments.iter().find(|argument| argument.name == name);
    assert_eq!(named("embed.weight").unwrap().aliases, ["head.weight"]);
    assert_eq!(named("whole").unwrap().aliases, ["part"]);
    assert!(!named("frozen").unwrap().trainable && named("head.weight").is_none());
    let outputs: Vec<&str> =
        tied.results.iter().filter(|r| r.role == ResultRole::Output).map(|r| r.name.as_str()).collect();
    assert_eq!(outputs, ["0.logits", "0.part", "1.0", "1.1.0", "1.1.1"]);
}
