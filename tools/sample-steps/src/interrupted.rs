//! Steps that their caller interrupts, with what they are called with.

use rk_step::{ArgValue, Call, ElementType, Instr, OutputRole, Role, Slot, Step};
use tch::{Device, Kind, Tensor};

use crate::layout::lowered;
use crate::{Builder, NONE, call, f, i, spec, v};

/// Elements of every tensor.
pub const N: i64 = 64;

/// The caller's part: the gradient of `y`.
fn tangent(b: &mut Builder, outside: u32, y: u32) -> u32 {
    let tangents = Call {
        op: "rk.tangents.default".into(),
        args: vec![v(0), v(1)],
        results: vec![Some(2)],
        effects: vec![],
    };
    let dy = b.node("tangents", &[outside, y], vec![tangents], &[(2, 256)])[0];
    b.last().once = true;
    dy
}

/// Tangents are checked against the types of their places.
pub fn with_specs(mut step: Step) -> Step {
    for place in &mut step.layout.as_mut().unwrap().places {
        place.spec = (place.bytes == 256).then(|| spec(ElementType::F32, &[N]));
    }
    step
}

/// `y = exp(x) * w` with a counter, a view among the outputs, and the gradient of `w` from the caller's gradient of `y`.
pub fn scaled(room: u64) -> Step {
    let mut b = Builder::new("scaled");
    let x = b.arg("x", Role::Input, ElementType::F32, &[N]);
    let w = b.arg("w", Role::Parameter { trainable: true }, ElementType::F32, &[N]);
    let count = b.arg("count", Role::Buffer, ElementType::I64, &[]);
    let outside = b.arg("outside", Role::Buffer, ElementType::I8, &[0]);
    // An operator that runs once is ordered by the world outside, which it does not take.
    let add = vec![call("add_.Tensor", vec![v(0), i(1), i(1), v(1)], &[-1])];
    b.node("count", &[count, outside], add, &[]);
    b.last().once = true;
    let e = b.node("exp", &[x], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 256)])[0];
    let y = b.node("mul", &[e, w], vec![call("mul.Tensor", vec![v(0), v(1)], &[2])], &[(2, 256)])[0];
    let dy = tangent(&mut b, outside, y);
    let dw = b.node("back", &[dy, e], vec![call("mul.Tensor", vec![v(0), v(1)], &[2])], &[(2, 256)])[0];
    b.last().backward = true;
    let rows = b.step.program.slots;
    b.step.program.slots += 1;
    let view = call("view.default", vec![v(y), ArgValue::List(vec![i(8), i(8)])], &[i64::from(rows)]);
    b.step.program.epilogue.push(view);
    b.output(OutputRole::Gradient, "0", rows);
    b.output(OutputRole::Gradient, "tangents_1", dy);
    b.output(OutputRole::Gradient, "w", dw);
    with_specs(lowered(&b.finish(), room))
}

/// `y = dropout(exp(x)) * w`, whose mask is drawn again for the gradient of `w`. It has no addresses yet.
pub fn dropped() -> Step {
    let mut b = Builder::new("dropped");
    let x = b.arg("x", Role::Input, ElementType::F32, &[N]);
    let w = b.arg("w", Role::Parameter { trainable: true }, ElementType::F32, &[N]);
    let outside = b.arg("outside", Role::Buffer, ElementType::I8, &[0]);
    let mul = || vec![call("mul.Tensor", vec![v(0), v(1)], &[2])];
    let e = b.node("exp", &[x], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 256)])[0];
    let empty = call("empty_like.default", vec![v(0)], &[1]);
    let draw = call("bernoulli_.float", vec![v(1), f(0.5), NONE], &[2]);
    let mask = b.node("mask", &[e], vec![empty, draw], &[(2, 256)])[0];
    b.last().random = true;
    let half = b.node("half", &[e, mask], mul(), &[(2, 256)])[0];
    let y = b.node("mul", &[half, w], mul(), &[(2, 256)])[0];
    let dy = tangent(&mut b, outside, y);
    let dw = b.node("back", &[dy, half], mul(), &[(2, 256)])[0];
    b.last().backward = true;
    b.output(OutputRole::Gradient, "0", y);
    b.output(OutputRole::Gradient, "tangents_1", dy);
    b.output(OutputRole::Gradient, "w", dw);
    again(b.finish())
}

/// Everything of the first half but its output is dropped in the middle, and made again behind it.
fn again(mut step: Step) -> Step {
    let middle = step.interruption().unwrap();
    let program = &mut step.program;
    let mut late = program.instrs.split_off(middle);
    program.instrs.retain(|instr| matches!(instr, Instr::Run(_)));
    late.retain(|instr| matches!(instr, Instr::Run(_)));
    let mut fresh = || {
        program.slots += 1;
        Slot(program.slots - 1)
    };
    let state = fresh();
    let mut runs: Vec<_> = program
        .instrs
        .iter_mut()
        .map(|instr| match instr {
            Instr::Run(run) => run,
            Instr::Drop(_) => unreachable!("runs alone were kept"),
        })
        .collect();
    runs[1].state_out = Some(state);
    // exp, mask, half.
    let mut second: Vec<_> = runs[..3].iter().map(|run| (*run).clone()).collect();
    let first: Vec<Slot> = second.iter().map(|run| run.outputs[0]).collect();
    let made: Vec<Slot> = first.iter().map(|_| fresh()).collect();
    let moved = |slot: Slot| first.iter().position(|one| *one == slot).map_or(slot, |at| made[at]);
    for run in &mut second {
        run.again = true;
        run.inputs.iter_mut().chain(&mut run.outputs).for_each(|slot| *slot = moved(*slot));
        run.state_in = run.state_out.take();
    }
    if let Some(Instr::Run(back)) = late.last_mut() {
        back.inputs.iter_mut().for_each(|slot| *slot = moved(*slot));
    }
    let drops = |slots: &[Slot]| slots.iter().map(|slot| Instr::Drop(*slot)).collect::<Vec<_>>();
    program.instrs.extend(drops(&first));
    let back = late.split_off(1);
    program.instrs.extend(late);
    program.instrs.extend(second.into_iter().map(Instr::Run));
    program.instrs.extend(back);
    program.instrs.extend(drops(&made));
    program.instrs.push(Instr::Drop(state));
    rk_step::validate::validate(&step).unwrap();
    step
}

/// Arguments of `scaled`.
pub fn arguments(device: Device) -> Vec<Tensor> {
    let ramp = Tensor::arange(N, (Kind::Float, device)) / N as f64;
    let count = Tensor::zeros([], (Kind::Int64, device));
    vec![ramp.shallow_clone(), ramp.cos(), count, Tensor::zeros([0], (Kind::Int8, device))]
}
