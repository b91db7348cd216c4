//! Steps written by hand: a small network with everything that is hard (dropout, batch norm with effects, a counter,
//! an in-place node, a constant, an output that is a view), and a scheduler that makes foolish but legal schedules.

pub mod interrupted;
pub mod layout;

use std::collections::BTreeMap;

use rk_step::{
    Arg, ArgValue, Call, Constant, Data, ElementType, Instr, Local, Node, NodeId, NodeOutput, Output,
    OutputRole, Plan, Program, Role, Run, Slot, Step, TensorSpec, original,
};

/// Shorthand for arguments of calls: `v(0)` is a local.
pub fn v(local: u32) -> ArgValue {
    ArgValue::Value(local)
}
pub fn i(x: i64) -> ArgValue {
    ArgValue::Int(x)
}
pub fn f(x: f64) -> ArgValue {
    ArgValue::Float(x)
}
pub const NONE: ArgValue = ArgValue::None;

pub fn call(op: &str, args: Vec<ArgValue>, results: &[i64]) -> Call {
    let results = results.iter().map(|&r| u32::try_from(r).ok()).collect();
    Call { op: format!("aten.{op}"), args, results, effects: vec![] }
}

pub fn spec(dtype: ElementType, shape: &[i64]) -> TensorSpec {
    TensorSpec { dtype, shape: shape.to_vec(), strides: None, storage_bytes: None }
}

/// Builds a step node by node, in the original order.
pub struct Builder {
    pub step: Step,
}

impl Builder {
    pub fn new(name: &str) -> Self {
        let program = Program { slots: 0, instrs: vec![], epilogue: vec![], outputs: vec![] };
        let step = Step {
            name: name.into(),
            source: None,
            device: "cpu".into(),
            settings: None,
            alignment: 64,
            plan: Plan::default(),
            args: vec![],
            constants: vec![],
            nodes: vec![],
            program,
            outputs: vec![],
            layout: None,
            library: None,
        };
        Self { step }
    }

    pub fn arg(&mut self, name: &str, role: Role, dtype: ElementType, shape: &[i64]) -> u32 {
        let spec = spec(dtype, shape);
        self.step.args.push(Arg { name: name.into(), aliases: vec![], role, spec });
        self.slot()
    }

    pub fn constant(&mut self, dtype: ElementType, shape: &[i64], data: Data) -> u32 {
        self.step.constants.push(Constant { name: String::new(), spec: spec(dtype, shape), data });
        self.slot()
    }

    fn slot(&mut self) -> u32 {
        self.step.program.slots += 1;
        self.step.program.slots - 1
    }

    /// A node and its first run; `outs` are the locals it yields with their bytes.
    pub fn node(&mut self, name: &str, inputs: &[u32], ops: Vec<Call>, outs: &[(u32, u64)]) -> Vec<u32> {
        let outputs = outs.iter().map(|&(local, bytes)| NodeOutput { local: Local(local), bytes }).collect();
        self.step.nodes.push(Node {
            name: name.into(),
            inputs: inputs.len() as u32,
            ops,
            outputs,
            overwrites: None,
            random: false,
            once: false,
            backward: false,
            time_ns: 0,
            workspace_bytes: 0,
            kernel: None,
        });
        let slots: Vec<u32> = outs.iter().map(|_| self.slot()).collect();
        self.step.program.instrs.push(Instr::Run(Run {
            node: NodeId(self.step.nodes.len() as u32 - 1),
            again: false,
            overwrite: false,
            inputs: inputs.iter().map(|&s| Slot(s)).collect(),
            outputs: slots.iter().map(|&s| Slot(s)).collect(),
            state_out: None,
            state_in: None,
        }));
        slots
    }

    pub fn last(&mut self) -> &mut Node {
        self.step.nodes.last_mut().unwrap()
    }

    pub fn output(&mut self, role: OutputRole, name: &str, slot: u32) {
        self.step.outputs.push(Output { role, name: name.into() });
        self.step.program.outputs.push(Slot(slot));
    }

    /// With the original schedule, valid.
    pub fn finish(mut self) -> Step {
        self.step.program = original(&self.step).unwrap();
        rk_step::validate::validate(&self.step).unwrap();
        self.step
    }
}

/// Linear, batch norm, relu_, dropout, linear, a scaled sum as the loss; forward and backward.
pub fn network() -> Step {
    let mut b = Builder::new("network");
    let (n, d, h) = (16i64, 32i64, 64i64);
    let bytes = |k: i64| (k * 4) as u64;
    let x = b.arg("x", Role::Input, ElementType::F32, &[n, d]);
    let trainable = Role::Parameter { trainable: true };
    let w1 = b.arg("fc1.weight", trainable, ElementType::F32, &[h, d]);
    let g = b.arg("bn.weight", trainable, ElementType::F32, &[h]);
    let beta = b.arg("bn.bias", trainable, ElementType::F32, &[h]);
    let w2 = b.arg("fc2.weight", trainable, ElementType::F32, &[d, h]);
    let mean = b.arg("bn.running_mean", Role::Buffer, ElementType::F32, &[h]);
    let var = b.arg("bn.running_var", Role::Buffer, ElementType::F32, &[h]);
    let count = b.arg("bn.num_batches_tracked", Role::Buffer, ElementType::I64, &[]);
    let scale = b.constant(ElementType::F32, &[n, d], Data::Splat("0000003f".into()));

    let linear = |t: u32, y: u32| {
        vec![call("t.default", vec![v(1)], &[t as i64]), call("mm.default", vec![v(0), v(t)], &[y as i64])]
    };
    let a = b.node("fc1", &[x, w1], linear(2, 3), &[(3, bytes(n * h))])[0];
    b.node("bn.count", &[count], vec![call("add_.Tensor", vec![v(0), i(1), i(1)], &[-1])], &[]);
    b.last().once = true;
    let bn_args = vec![v(0), v(1), v(2), v(3), v(4), ArgValue::Bool(true), f(0.1), f(1e-5)];
    let mut bn = call("native_batch_norm.default", bn_args, &[5, 6, 7]);
    bn.effects = vec![3, 4];
    let stats = (bytes(h), bytes(h));
    let bn_inputs = [a, g, beta, mean, var];
    let outs = b.node("bn", &bn_inputs, vec![bn], &[(5, bytes(n * h)), (6, stats.0), (7, stats.1)]);
    b.last().workspace_bytes = 3 * bytes(h);
    let (z, save_mean, save_invstd) = (outs[0], outs[1], outs[2]);
    let relu = vec![call("relu_.default", vec![v(0)], &[-1])];
    let r = b.node("relu", &[z], relu, &[(0, bytes(n * h))])[0];
    b.last().overwrites = Some(0);
    let mask = b.node(
        "dropout.mask",
        &[r],
        vec![
            call("empty_like.default", vec![v(0)], &[1]),
            call("bernoulli_.float", vec![v(1), f(0.7), NONE], &[2]),
            call("div_.Scalar", vec![v(2), f(0.7)], &[3]),
        ],
        &[(3, bytes(n * h))],
    )[0];
    b.last().random = true;
    b.last().workspace_bytes = 12; // the numbers 0.7, as tensors
    let dropped =
        b.node("dropout", &[r, mask], vec![call("mul.Tensor", vec![v(0), v(1)], &[2])], &[(2, bytes(n * h))])
            [0];
    let y = b.node("fc2", &[dropped, w2], linear(2, 3), &[(3, bytes(n * d))])[0];
    let loss = b.node(
        "loss",
        &[y, scale],
        vec![call("mul.Tensor", vec![v(0), v(1)], &[2]), call("sum.default", vec![v(2)], &[3])],
        &[(3, 4)],
    )[0];
    b.last().workspace_bytes = bytes(n * d);

    let gy = scale;
    let t_mm = || vec![call("t.default", vec![v(0)], &[2]), call("mm.default", vec![v(2), v(1)], &[3])];
    let gw2 = b.node("fc2.weight.backward", &[gy, dropped], t_mm(), &[(3, bytes(d * h))])[0];
    let gd = b.node(
        "fc2.backward",
        &[gy, w2],
        vec![call("mm.default", vec![v(0), v(1)], &[2])],
        &[(2, bytes(n * h))],
    )[0];
    let gr = b.node(
        "dropout.backward",
        &[gd, mask],
        vec![call("mul.Tensor", vec![v(0), v(1)], &[2])],
        &[(2, bytes(n * h))],
    )[0];
    let threshold = vec![call("threshold_backward.default", vec![v(0), v(1), i(0)], &[2])];
    let gz = b.node("relu.backward", &[gr, r], threshold, &[(2, bytes(n * h))])[0];
    let back = vec![
        v(0),
        v(1),
        v(2),
        NONE,
        NONE,
        v(3),
        v(4),
        ArgValue::Bool(true),
        f(1e-5),
        ArgValue::List(vec![ArgValue::Bool(true); 3]),
    ];
    let outs = b.node(
        "bn.backward",
        &[gz, a, g, save_mean, save_invstd],
        vec![call("native_batch_norm_backward.default", back, &[5, 6, 7])],
        &[(5, bytes(n * h)), (6, bytes(h)), (7, bytes(h))],
    );
    b.last().workspace_bytes = bytes(n * h);
    let (ga, gg, gbeta) = (outs[0], outs[1], outs[2]);
    let t_mm = vec![call("t.default", vec![v(1)], &[2]), call("mm.default", vec![v(2), v(0)], &[3])];
    let gw1_t = b.node("fc1.weight.backward", &[ga, x], t_mm, &[(3, bytes(d * h))])[0];
    let gw1 = b.slot();
    b.step.program.epilogue.push(call("t.default", vec![v(gw1_t)], &[gw1 as i64]));

    b.output(OutputRole::Loss, "loss", loss);
    b.output(OutputRole::Output, "0", y);
    b.output(OutputRole::Gradient, "fc1.weight", gw1);
    b.output(OutputRole::Gradient, "bn.weight", gg);
    b.output(OutputRole::Gradient, "bn.bias", gbeta);
    b.output(OutputRole::Gradient, "fc2.weight", gw2);
    b.finish()
}

/// `dropout(x) - dropout(x)`: two masks, which must stay different, and are read again in backward.
pub fn two_masks() -> Step {
    let mut b = Builder::new("two_masks");
    let x = b.arg("x", Role::Parameter { trainable: true }, ElementType::F32, &[64]);
    let mut masks = vec![];
    let mut halves = vec![];
    for name in ["a", "b"] {
        let draw = vec![
            call("empty_like.default", vec![v(0)], &[1]),
            call("bernoulli_.float", vec![v(1), f(0.5), NONE], &[2]),
        ];
        let mask = b.node(&format!("{name}.mask"), &[x], draw, &[(2, 256)])[0];
        b.last().random = true;
        masks.push(mask);
        let mul = vec![call("mul.Tensor", vec![v(0), v(1)], &[2])];
        halves.push(b.node(&format!("{name}.mul"), &[x, mask], mul, &[(2, 256)])[0]);
    }
    let sub = |a: u32, c: u32| vec![call("sub.Tensor", vec![v(a), v(c), i(1)], &[2])];
    let y = b.node("sub", &[halves[0], halves[1]], sub(0, 1), &[(2, 256)])[0];
    let g = b.node("sub.backward", &[masks[0], masks[1]], sub(0, 1), &[(2, 256)])[0];
    b.output(OutputRole::Output, "0", y);
    b.output(OutputRole::Gradient, "x", g);
    b.finish()
}

/// Makes legal schedules at random: drops what it likes and runs again what is missing.
pub struct Fool<'a> {
    step: &'a Step,
    first: Vec<Run>,
    rng: u64,
    program: Program,
    live: BTreeMap<(u32, u32), Slot>,
    states: BTreeMap<u32, Slot>,
    of: BTreeMap<Slot, (u32, u32)>,
}

impl<'a> Fool<'a> {
    /// Another program for `step`, whose program is the original one, with random drops and second runs.
    pub fn schedule(step: &'a Step, seed: u64) -> Step {
        let mut first = vec![];
        let mut of = BTreeMap::new();
        for instr in &step.program.instrs {
            let Instr::Run(run) = instr else { continue };
            run.outputs.iter().enumerate().for_each(|(k, &s)| {
                of.insert(s, (run.node.0, k as u32));
            });
            first.push(run.clone());
        }
        let slots = step.resident();
        let program = Program { slots, instrs: vec![], epilogue: vec![], outputs: vec![] };
        let (live, states) = (BTreeMap::new(), BTreeMap::new());
        let mut fool = Fool { step, first, rng: seed, program, live, states, of };
        for node in 0..step.nodes.len() as u32 {
            fool.run(node, false, &mut vec![]);
            let drops: Vec<(u32, u32)> = fool.live.keys().copied().collect();
            for key in drops {
                if !step.nodes[key.0 as usize].once && fool.coin(40) {
                    let slot = fool.live.remove(&key).unwrap();
                    fool.program.instrs.push(Instr::Drop(slot));
                }
            }
        }
        let program = fool.finish();
        let step = Step { program, ..step.clone() };
        rk_step::validate::validate(&step).unwrap();
        step
    }

    fn coin(&mut self, percent: u64) -> bool {
        self.rng = self.rng.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.rng >> 33) % 100 < percent
    }

    fn slot(&mut self) -> Slot {
        self.program.slots += 1;
        Slot(self.program.slots - 1)
    }

    /// Sees to it that a value is there. In which slot, is clear once all are that are needed together.
    fn bring(&mut self, old: Slot, pinned: &mut Vec<(u32, u32)>) {
        if old.0 < self.step.resident() {
            return;
        }
        let key = self.of[&old];
        if !self.live.contains_key(&key) {
            self.run(key.0, true, pinned);
        }
        pinned.push(key);
    }

    fn there(&self, old: Slot) -> Slot {
        self.of.get(&old).map_or(old, |key| self.live[key])
    }

    fn run(&mut self, node: u32, again: bool, pinned: &mut Vec<(u32, u32)>) {
        let depth = pinned.len();
        let run = self.first[node as usize].clone();
        run.inputs.iter().for_each(|&s| self.bring(s, pinned));
        let inputs: Vec<Slot> = run.inputs.iter().map(|&s| self.there(s)).collect();
        pinned.truncate(depth);
        let body = &self.step.nodes[node as usize];
        let mut overwrite = false;
        if let Some(k) = body.overwrites {
            let old = run.inputs[k as usize];
            if let Some(key) = self.of.get(&old).copied() {
                overwrite = !pinned.contains(&key) && self.coin(50);
                if overwrite {
                    self.live.remove(&key);
                }
            }
        }
        let mut outputs = vec![];
        for k in 0..body.outputs.len() as u32 {
            let slot = self.slot();
            outputs.push(slot);
            // A second run makes all outputs again; those that are still live are dropped before (S3).
            let old = self.live.insert((node, k), slot);
            self.program.instrs.extend(old.map(Instr::Drop));
        }
        let (mut state_out, mut state_in) = (None, None);
        if body.random && again {
            state_in = Some(self.states[&node]);
        } else if body.random {
            let slot = self.slot();
            self.states.insert(node, slot);
            state_out = Some(slot);
        }
        let node = NodeId(node);
        self.program.instrs.push(Instr::Run(Run {
            node,
            again,
            overwrite,
            inputs,
            outputs,
            state_out,
            state_in,
        }));
    }

    fn finish(mut self) -> Program {
        let old = &self.step.program;
        let mut pinned = vec![];
        let mut needed = vec![];
        let mut map = BTreeMap::new();
        let views: Vec<Slot> =
            old.epilogue.iter().flat_map(|c| c.results.iter().flatten().map(|&r| Slot(r))).collect();
        for call in &old.epilogue {
            call.args.iter().for_each(|a| a.for_each_value(&mut |s| needed.push(Slot(s))));
        }
        needed.extend(old.outputs.iter().copied().filter(|s| !views.contains(s)));
        needed.iter().for_each(|&s| self.bring(s, &mut pinned));
        map.extend(needed.into_iter().map(|s| (s, self.there(s))));
        let keep: Vec<Slot> = map.values().copied().collect();
        let drops: Vec<Slot> =
            self.live.values().chain(self.states.values()).copied().filter(|s| !keep.contains(s)).collect();
        self.program.instrs.extend(drops.into_iter().map(Instr::Drop));
        for s in views {
            let new = self.slot();
            map.insert(s, new);
        }
        self.program.epilogue = old
            .epilogue
            .iter()
            .map(|c| Call {
                args: c.args.iter().map(|a| a.map_values(&mut |s| map[&Slot(s)].0)).collect(),
                results: c.results.iter().map(|r| r.map(|r| map[&Slot(r)].0)).collect(),
                ..c.clone()
            })
            .collect();
        self.program.outputs = old.outputs.iter().map(|s| map[s]).collect();
        self.program
    }
}
