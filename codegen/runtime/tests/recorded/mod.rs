//! A recorded step as one node: every operator as it ran, in place and through views, in one body. This checks the
//! executor on real archives without the passes in between.

use std::path::Path;

use rk_step::{
    Arg, ArgValue, Call, Constant, Data, Instr, Local, Node, NodeId, NodeOutput, Output, OutputRole, Plan,
    Program, Role, Run, Slot, Source, Step, TensorSpec,
};
use rk_torch::{
    Archive, Argument, ArgumentRole, Device, EagerStep, LossSpec, Recording, ResultRole, TensorType, Timing,
    ValueNumber,
};

fn spec(t: &TensorType) -> TensorSpec {
    let plain = TensorSpec { dtype: t.dtype, shape: t.sizes.clone(), strides: None, storage_bytes: None };
    let strides = (plain.full_strides() != t.strides).then(|| t.strides.clone());
    let with_strides = TensorSpec { strides, ..plain };
    let storage_bytes = (with_strides.bytes() != t.storage_bytes).then_some(t.storage_bytes);
    TensorSpec { storage_bytes, ..with_strides }
}

/// The step of an archive on its traced inputs.
pub fn step(path: &Path, seed: u64) -> Step {
    let archive = Archive::load(path, Device::Cpu).unwrap();
    let specs = archive.traced_inputs().to_vec();
    let inputs: Vec<_> = specs.iter().enumerate().map(|(i, s)| s.make(seed, i as u64).unwrap()).collect();
    let recording = EagerStep::new(archive, &inputs, LossSpec::Sum).unwrap().record(Timing::None).unwrap();
    let mut step = monolith(&recording);
    step.source = Some(Source {
        archive: path.display().to_string(),
        sha256: rk_runtime::archive::sha256(path).unwrap(),
        loss: "sum".into(),
        seed,
        inputs: specs.iter().map(ToString::to_string).collect(),
        inputs_file: None,
        inputs_sha256: None,
    });
    rk_step::validate::validate(&step).unwrap();
    step
}

fn monolith(recording: &Recording) -> Step {
    let mut args = vec![];
    let mut constants = vec![];
    let mut local = vec![None; recording.values.len()];
    let kind = |v: ValueNumber| spec(recording.type_of(v).unwrap());
    for (i, arg) in recording.arguments.iter().enumerate() {
        local[arg.value.0 as usize] = Some(i as u32);
        let role = match arg.role {
            ArgumentRole::Input => Role::Input,
            ArgumentRole::Parameter => Role::Parameter { trainable: arg.trainable },
            ArgumentRole::Buffer => Role::Buffer,
        };
        args.push(Arg { name: arg.name.clone(), aliases: arg.aliases.clone(), role, spec: kind(arg.value) });
    }
    for constant in &recording.constants {
        local[constant.value.0 as usize] = Some((args.len() + constants.len()) as u32);
        let hex = constant.bytes.iter().map(|b| format!("{b:02x}")).collect();
        let mut spec = kind(constant.value);
        (spec.strides, spec.storage_bytes) = (None, None);
        constants.push(Constant { name: String::new(), spec, data: Data::Hex(hex) });
    }
    let inputs = (args.len() + constants.len()) as u32;
    let mut next = inputs;
    let mut ops = vec![];
    for op in &recording.ops {
        let call_args = op.args.iter().map(|a| argument(a, &local)).collect();
        let results = op.results.iter().map(|r| {
            local[r.0 as usize].get_or_insert_with(|| {
                next += 1;
                next - 1
            });
            // In place on a value that has its number already: the result is that value.
            local[r.0 as usize].filter(|l| *l == next - 1)
        });
        let results = results.collect();
        ops.push(Call { op: op.name.clone(), args: call_args, results, effects: vec![] });
    }
    let outputs: Vec<NodeOutput> = recording
        .results
        .iter()
        .map(|r| NodeOutput {
            local: Local(local[r.value.0 as usize].unwrap()),
            bytes: kind(r.value).bytes(),
        })
        .collect();
    let slots: Vec<Slot> = (0..outputs.len() as u32).map(|i| Slot(inputs + i)).collect();
    let run = Run {
        node: NodeId(0),
        again: false,
        overwrite: false,
        inputs: (0..inputs).map(Slot).collect(),
        outputs: slots.clone(),
        state_out: None,
        state_in: None,
    };
    let result = |r: &rk_torch::StepResult| Output {
        role: match r.role {
            ResultRole::Loss => OutputRole::Loss,
            ResultRole::Output => OutputRole::Output,
            ResultRole::Gradient => OutputRole::Gradient,
        },
        name: r.name.clone(),
    };
    Step {
        name: "recorded".into(),
        source: None,
        layout: None,
        device: "cpu".into(),
        settings: None,
        alignment: 64,
        plan: Plan::default(),
        args,
        constants,
        nodes: vec![Node {
            name: "step".into(),
            inputs,
            ops,
            outputs,
            overwrites: None,
            random: true,
            once: true,
            backward: false,
            time_ns: 0,
            workspace_bytes: 0,
            kernel: None,
        }],
        program: Program {
            slots: inputs + slots.len() as u32,
            instrs: vec![Instr::Run(run)],
            epilogue: vec![],
            outputs: slots,
        },
        outputs: recording.results.iter().map(result).collect(),
        library: None,
    }
}

fn argument(a: &Argument, local: &[Option<u32>]) -> ArgValue {
    match a {
        Argument::None => ArgValue::None,
        // A value that nobody made is an undefined tensor.
        Argument::Value(v) => local[v.0 as usize].map_or(ArgValue::None, ArgValue::Value),
        Argument::Int(i) => ArgValue::Int(*i),
        Argument::Float(x) => ArgValue::Float(*x),
        Argument::Bool(b) => ArgValue::Bool(*b),
        Argument::Str(s) => ArgValue::Str(s.clone()),
        Argument::List(items) => ArgValue::List(items.iter().map(|i| argument(i, local)).collect()),
    }
}
