//! Steps that their caller interrupts: two halves in one arena, results that belong to the caller, and every call out of turn.

mod alone;

use alone::alone;
use rk_runtime::compare::bytes;
use rk_runtime::{RuntimeError, SplitStep};
use rk_sample_steps::interrupted::N;
use rk_sample_steps::layout::lowered;
use rk_step::Step;
use rk_torch::{Device, memory};
use tch::{Kind, Tensor};

fn scaled() -> Step {
    rk_sample_steps::interrupted::scaled(1 << 12)
}

fn arguments() -> Vec<Tensor> {
    rk_sample_steps::interrupted::arguments(tch::Device::Cpu)
}

fn split_step() -> SplitStep {
    SplitStep::new(scaled(), 1, Device::Cpu).unwrap()
}

fn one(results: Result<Vec<Option<Tensor>>, RuntimeError>) -> Tensor {
    let mut results = results.unwrap();
    assert_eq!(results.len(), 1);
    results.remove(0).unwrap()
}

#[test]
fn both_halves_compute_what_torch_computes() {
    let _alone = alone();
    let (mut split_step, args) = (split_step(), arguments());
    // Its second half is ordered by the world outside, and reads nothing of the caller's.
    assert!(split_step.read_late().is_empty());
    for step in 1..=3 {
        let y = one(split_step.forward(&args));
        assert!(split_step.is_interrupted());
        assert_eq!(y.size(), [8, 8]);
        assert!(bytes(&y).unwrap() == bytes(&(args[0].exp() * &args[1]).view([8, 8])).unwrap());
        let dy = Tensor::full([N], f64::from(step), (Kind::Float, tch::Device::Cpu));
        let dw = one(split_step.backward(&[dy.shallow_clone()]));
        assert!(bytes(&dw).unwrap() == bytes(&(dy * args[0].exp())).unwrap());
        assert_eq!(args[2].int64_value(&[]), i64::from(step), "rehearsals must not count");
        let counts = split_step.measured().counts.unwrap();
        assert_eq!((counts.outside, counts.moved, counts.left), (0, 0, 2), "{counts:?}");
    }
}

#[test]
fn what_left_the_step_is_not_overwritten() {
    let _alone = alone();
    let (mut split_step, args) = (split_step(), arguments());
    let y = one(split_step.forward(&args));
    let dw = one(split_step.backward(&[args[1].copy()]));
    let before = [&y, &dw].map(|one| bytes(one).unwrap());
    let other: Vec<Tensor> =
        args.iter().enumerate().map(|(at, t)| if at == 0 { t + 1.0 } else { t.shallow_clone() }).collect();
    drop(one(split_step.forward(&other)));
    drop(one(split_step.backward(&[args[1].copy() + 5.0])));
    drop(split_step);
    assert!([&y, &dw].map(|one| bytes(one).unwrap()) == before);
}

#[test]
fn nothing_is_kept_after_a_step() {
    let _alone = alone();
    let (mut split_step, args) = (split_step(), arguments());
    drop(one(split_step.forward(&args)));
    drop(one(split_step.backward(&[args[1].copy()])));
    let before = memory::read(Device::Cpu).unwrap().current;
    let (y, dy) = (one(split_step.forward(&args)), args[1].copy());
    let dw = one(split_step.backward(&[dy.shallow_clone()]));
    drop((y, dy, dw));
    assert_eq!(memory::read(Device::Cpu).unwrap().current, before);
    drop(one(split_step.forward(&args)));
    split_step.abandon().unwrap();
    assert_eq!(memory::read(Device::Cpu).unwrap().current, before);
    drop(one(split_step.forward(&args)));
}

#[test]
fn calls_out_of_turn_and_what_does_not_fit() {
    let _alone = alone();
    let (mut split_step, args) = (split_step(), arguments());
    let with = |at: usize, tensor: Tensor| -> Vec<Tensor> {
        args.iter()
            .enumerate()
            .map(|(k, t)| if k == at { tensor.shallow_clone() } else { t.shallow_clone() })
            .collect()
    };
    let mut messages = vec![split_step.backward(&[args[1].copy()]).unwrap_err().to_string()];
    let mut refuse = |args: &[Tensor]| messages.push(split_step.forward(args).unwrap_err().to_string());
    refuse(&args[..3]);
    refuse(&with(0, args[0].slice(0, 0, 32, 1)));
    refuse(&with(0, args[0].to_kind(Kind::Double)));
    refuse(&with(1, Tensor::zeros([2 * N], (Kind::Float, tch::Device::Cpu)).slice(0, 0, 2 * N, 2)));
    refuse(&with(2, Tensor::zeros([1], (Kind::Int64, tch::Device::Cpu))));
    drop(one(split_step.forward(&args)));
    messages.push(split_step.forward(&args).unwrap_err().to_string());
    messages.push(split_step.backward(&[]).unwrap_err().to_string());
    drop(one(split_step.forward(&args)));
    messages.push(split_step.backward(&[args[1].slice(0, 0, 32, 1)]).unwrap_err().to_string());
    // Strides of a tangent are nobody's promise.
    drop(one(split_step.forward(&args)));
    let spread = Tensor::ones([], (Kind::Float, tch::Device::Cpu)).expand([N], false);
    assert!(bytes(&one(split_step.backward(&[spread]))).unwrap() == bytes(&args[0].exp()).unwrap());
    insta::assert_snapshot!(messages.join("\n"));
}

#[test]
fn a_failure_names_the_operator_and_leaves_the_step_usable() {
    let _alone = alone();
    let mut step = scaled();
    let back = step.nodes.iter_mut().find(|node| node.name == "back").unwrap();
    back.ops[0].op = "aten.mm.default".into();
    let error = SplitStep::new(step, 1, Device::Cpu).unwrap().forward(&arguments()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("\"back\": aten.mm.default"), "{text}");
    let mut split_step = split_step();
    let args = arguments();
    drop(one(split_step.forward(&args)));
    assert!(split_step.backward(&[]).is_err());
    drop(one(split_step.forward(&args)));
    drop(one(split_step.backward(&[args[1].copy()])));
}

#[test]
fn steps_that_cannot_be_split() {
    let _alone = alone();
    let refused = |step: Step| SplitStep::new(step, 1, Device::Cpu).err().unwrap().to_string();
    let plain = Step { layout: None, ..scaled() };
    let messages = [
        refused(lowered(&rk_sample_steps::network(), 1 << 12)),
        refused(plain),
        refused(Step { device: "cuda".into(), ..scaled() }),
        rk_runtime::Executor::new(scaled(), &arguments(), Device::Cpu).err().unwrap().to_string(),
    ];
    insta::assert_snapshot!(messages.join("\n"));
}
