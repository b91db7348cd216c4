//! The residual block of the style guide as a step: `norm -> up -> down -> add`, where `add` also reads `norm`.
//! Kept whole it peaks at 16 KiB; with a budget of 12 KiB `norm` is dropped early and run again.

use rk_step::{
    Arg, ArgValue, Call, ElementType, Instr, Launch, Layout, Local, Node, NodeId, NodeOutput, Output,
    OutputRole, Place, Plan, Program, Role, Run, Slot, Space, Step, TensorSpec,
};

pub fn spec(shape: &[i64]) -> TensorSpec {
    TensorSpec { dtype: ElementType::F32, shape: shape.to_vec(), strides: None, storage_bytes: None }
}

/// A node with one call, whose inputs are the call's first arguments.
pub fn node(name: &str, op: &str, inputs: u32, more: Vec<ArgValue>, bytes: u64) -> Node {
    let args = (0..inputs).map(ArgValue::Value).chain(more).collect();
    Node {
        name: name.into(),
        inputs,
        ops: vec![Call { op: op.into(), args, results: vec![Some(inputs)], effects: vec![] }],
        outputs: vec![NodeOutput { local: Local(inputs), bytes }],
        overwrites: None,
        random: false,
        once: false,
        backward: false,
        time_ns: 1000,
        workspace_bytes: 0,
        kernel: None,
    }
}

pub fn run(node: u32, inputs: &[u32], outputs: &[u32]) -> Run {
    Run {
        node: NodeId(node),
        again: false,
        overwrite: false,
        inputs: inputs.iter().map(|&s| Slot(s)).collect(),
        outputs: outputs.iter().map(|&s| Slot(s)).collect(),
        state_out: None,
        state_in: None,
    }
}

pub fn drop(slot: u32) -> Instr {
    Instr::Drop(Slot(slot))
}

/// The block within 12 KiB.
pub fn block() -> Step {
    let cat = |name: &str| {
        let mut n = node(name, "aten.cat.default", 1, vec![], 8192);
        n.ops[0].args = vec![ArgValue::List(vec![ArgValue::Value(0), ArgValue::Value(0)]), ArgValue::Int(0)];
        n
    };
    let slice = vec![ArgValue::Int(0), ArgValue::Int(0), ArgValue::Int(1024), ArgValue::Int(1)];
    let mut down = node("down", "aten.slice.Tensor", 1, slice, 4096);
    down.ops.push(Call {
        op: "aten.exp.default".into(),
        args: vec![ArgValue::Value(1)],
        results: vec![Some(2)],
        effects: vec![],
    });
    down.outputs[0].local = Local(2);
    Step {
        name: "block".into(),
        source: None,
        device: "cpu".into(),
        settings: None,
        alignment: 64,
        plan: Plan {
            budget_bytes: Some(12 << 10),
            planned_peak_bytes: 12 << 10,
            base_peak_bytes: Some(16 << 10),
            ..Plan::default()
        },
        args: vec![Arg { name: "x".into(), aliases: vec![], role: Role::Input, spec: spec(&[1024]) }],
        constants: vec![],
        nodes: vec![
            node("norm", "aten.mul.Scalar", 1, vec![ArgValue::Float(0.1)], 4096),
            cat("up"),
            down,
            node("add", "aten.add.Tensor", 2, vec![ArgValue::Int(1)], 4096),
        ],
        program: Program {
            slots: 6,
            instrs: vec![
                Instr::Run(run(0, &[0], &[1])),
                Instr::Run(run(1, &[1], &[2])),
                drop(1),
                Instr::Run(run(2, &[2], &[3])),
                drop(2),
                Instr::Run(Run { again: true, ..run(0, &[0], &[4]) }),
                Instr::Run(run(3, &[4, 3], &[5])),
                drop(4),
                drop(3),
            ],
            epilogue: vec![],
            outputs: vec![Slot(5)],
        },
        outputs: vec![Output { role: OutputRole::Output, name: "0".into() }],
        layout: None,
        library: None,
    }
}

/// The block at addresses: `up` at 0, `norm` and what follows it behind.
#[allow(dead_code)]
pub fn lowered() -> Step {
    let offsets = [(1, 8192, 4096), (2, 0, 8192), (3, 8192, 4096), (4, 0, 4096), (5, 4096, 4096)];
    let places = offsets.map(|(slot, offset, bytes)| Place {
        slot: Slot(slot),
        space: Space::Arena,
        offset,
        bytes,
        spec: Some(spec(&[bytes as i64 / 4])),
    });
    let launch = |instr| Launch { instr, workspace_offset: 0, workspace_bytes: 0, stream: 0 };
    let mut step = block();
    step.layout = Some(Layout {
        target: "cpu".into(),
        chip: None,
        arena_bytes: 12 << 10,
        gradient_bytes: 0,
        places: places.to_vec(),
        launches: [0, 1, 3, 5, 6].map(launch).to_vec(),
    });
    step.plan.arena_bytes = Some(12 << 10);
    step
}

/// The block whose `norm` draws random numbers: its first run saves the state that its second run takes.
#[allow(dead_code)]
pub fn noisy() -> Step {
    let mut step = block();
    step.nodes[0].random = true;
    step.program.slots = 7;
    let instrs = &mut step.program.instrs;
    instrs[0] = Instr::Run(Run { state_out: Some(Slot(6)), ..run(0, &[0], &[1]) });
    instrs[5] = Instr::Run(Run { again: true, state_in: Some(Slot(6)), ..run(0, &[0], &[4]) });
    instrs.insert(6, drop(6));
    step
}

/// The block whose `add` takes the storage of the second `norm` over.
#[allow(dead_code)]
pub fn in_place() -> Step {
    let mut step = block();
    step.nodes[3].overwrites = Some(0);
    step.program.instrs[6] = Instr::Run(Run { overwrite: true, ..run(3, &[4, 3], &[5]) });
    step.program.instrs.remove(7);
    step
}
