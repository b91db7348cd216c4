//! Steps in somebody else's program on the emulated GPU, called as the Python extension calls them.

mod emulated;

use emulated::{Controls, on_gpu};
use rk_runtime::compare::bytes;
use rk_runtime::{RuntimeError, SplitStep};
use rk_sample_steps::interrupted::{N, arguments, dropped, scaled, with_specs};
use rk_sample_steps::layout::on_streams;
use rk_sample_steps::{call, i, v};
use rk_step::{ArgValue, Step};
use rk_torch::{Device, Streams, memory};
use tch::{Kind, Tensor};

const ROOM: u64 = 1 << 13;
const GPU: Device = Device::Cuda(0);

fn for_gpu(mut step: Step) -> Step {
    step.device = "cuda:0".into();
    step.layout.iter_mut().for_each(|layout| layout.target = "cuda".into());
    step
}

fn open() {
    memory::install().unwrap();
    rk_torch::set_threads(1).unwrap();
    GPU.open().unwrap();
}

fn split_step(step: Step) -> SplitStep {
    SplitStep::new(for_gpu(step), 1, GPU).unwrap()
}

fn on_device() -> Vec<Tensor> {
    arguments(GPU.to_tch())
}

fn ones() -> Tensor {
    Tensor::ones([N], (Kind::Float, GPU.to_tch()))
}

fn one(results: Result<Vec<Option<Tensor>>, RuntimeError>) -> Tensor {
    let mut results = results.unwrap();
    assert_eq!(results.len(), 1);
    results.remove(0).unwrap()
}

fn equal(a: &Tensor, b: &Tensor) -> bool {
    bytes(a).unwrap() == bytes(b).unwrap()
}

#[test]
fn both_halves_compute_what_torch_computes() {
    on_gpu("both_halves_compute_what_torch_computes", || {
        open();
        let (mut split_step, args) = (split_step(scaled(ROOM)), on_device());
        let arena = split_step.step().layout.as_ref().unwrap().arena_bytes;
        for step in 1..=3 {
            let y = one(split_step.forward(&args));
            let dy = ones() * f64::from(step);
            let dw = one(split_step.backward(&[dy.shallow_clone()]));
            assert!(equal(&y, &(args[0].exp() * &args[1]).view([8, 8])));
            assert!(equal(&dw, &(dy * args[0].exp())));
            assert_eq!(args[2].int64_value(&[]), i64::from(step), "rehearsals must not count");
            let measured = split_step.measured();
            let counts = measured.counts.unwrap();
            assert_eq!((counts.outside, counts.moved, counts.left), (0, 0, 2), "{counts:?}");
            assert_eq!(measured.peak_bytes, arena, "the arena counts as a whole");
        }
    });
}

/// What leaves is torch's: it counts where torch counts, and stays when the step goes.
#[test]
fn what_left_the_step_is_the_callers() {
    on_gpu("what_left_the_step_is_the_callers", || {
        open();
        let args = on_device();
        let used = || memory::read(GPU).unwrap().current;
        let before = used();
        let mut split_step = split_step(scaled(ROOM));
        let arena = split_step.step().layout.as_ref().unwrap().arena_bytes;
        let first = (one(split_step.forward(&args)), one(split_step.backward(&[ones()])));
        let kept = (bytes(&first.0).unwrap(), bytes(&first.1).unwrap());
        assert_eq!(used() - before, arena + 2 * 256);
        let other: Vec<Tensor> =
            args.iter().map(|one| if one.size() == [N] { one + 1.0 } else { one.copy() }).collect();
        drop((one(split_step.forward(&other)), one(split_step.backward(&[ones() + 1.0]))));
        drop(one(split_step.forward(&args)));
        split_step.abandon().unwrap();
        drop((split_step, other));
        assert_eq!(used() - before, 2 * 256);
        assert!((bytes(&first.0).unwrap(), bytes(&first.1).unwrap()) == kept);
    });
}

/// An output that a kernel left in the arena, as a view of another value, is taken out of it, behind the launch.
#[test]
fn what_leaves_is_taken_out_of_the_arena() {
    on_gpu("what_leaves_is_taken_out_of_the_arena", || {
        open();
        let mut step = scaled(ROOM);
        let mul = step.nodes.iter_mut().find(|node| node.name == "mul").unwrap();
        mul.ops = vec![call("view.default", vec![v(0), ArgValue::List(vec![i(N)])], &[2])];
        let (mut split_step, mut args) = (split_step(step), on_device());
        let mut kept = vec![];
        for k in 1..4 {
            args[0] = &args[0] + f64::from(k);
            kept.push((args[0].exp(), one(split_step.forward(&args))));
            drop(one(split_step.backward(&[ones()])));
            let counts = split_step.measured().counts.unwrap();
            assert_eq!((counts.outside, counts.moved, counts.left), (0, 1, 2), "{counts:?}");
        }
        assert!(kept.iter().all(|(e, y)| equal(y, &e.view([8, 8]))));
    });
}

#[test]
fn several_forwards_before_a_backward() {
    on_gpu("several_forwards_before_a_backward", || {
        open();
        let inputs: Vec<Vec<Tensor>> = (0..3)
            .map(|k| {
                on_device()
                    .iter()
                    .map(|one| if one.size() == [N] { one + f64::from(k) } else { one.copy() })
                    .collect()
            })
            .collect();
        let mut split_steps: Vec<SplitStep> = (0..3).map(|_| split_step(scaled(ROOM))).collect();
        for _ in 0..2 {
            let outputs: Vec<Tensor> = split_steps
                .iter_mut()
                .zip(&inputs)
                .map(|(split_step, args)| one(split_step.forward(args)))
                .collect();
            for ((split_step, args), y) in split_steps.iter_mut().zip(&inputs).zip(&outputs).rev() {
                let dw = one(split_step.backward(&[y.view([N])]));
                assert!(equal(y, &(args[0].exp() * &args[1]).view([8, 8])));
                assert!(equal(&dw, &(y.view([N]) * args[0].exp())));
            }
        }
    });
}

/// A mask that is drawn again is the same mask, and the generator is where eager PyTorch leaves it.
#[test]
fn a_draw_is_repeated_and_the_generator_goes_on_as_in_eager_pytorch() {
    on_gpu("a_draw_is_repeated_and_the_generator_goes_on_as_in_eager_pytorch", || {
        open();
        let controls = Controls::new();
        let all = on_device();
        let args = [0, 1, 3].map(|at| all[at].shallow_clone());
        for (streams, order) in [(1, 0), (2, 1), (2, 2), (3, 5)] {
            controls.order(order);
            let mut split_step = split_step(with_specs(on_streams(&dropped(), ROOM, streams)));
            GPU.manual_seed(5).unwrap();
            let mut ours = vec![];
            for _ in 0..3 {
                ours.push(one(split_step.forward(&args)));
                ours.push(one(split_step.backward(&[ones()])));
                assert_eq!(split_step.measured().counts.unwrap().outside, 0);
            }
            let after = bytes(&GPU.generator_state().unwrap()).unwrap();
            GPU.manual_seed(5).unwrap();
            for step in 0..3 {
                let e = args[0].exp();
                let half = &e * e.empty_like().bernoulli_float_(0.5);
                assert!(equal(&ours[2 * step], &(&half * &args[1])), "{streams} streams, step {step}");
                assert!(equal(&ours[2 * step + 1], &half), "{streams} streams, step {step}");
            }
            assert!(bytes(&GPU.generator_state().unwrap()).unwrap() == after);
        }
    });
}

/// The caller works on two streams in turn, waits for none, and looks at the gradient alone. Steps whose results are not right.
fn wrong_on_two_streams(controls: &Controls, dropped_wait: Option<u64>) -> Vec<usize> {
    let (mut split_step, mut args) = (split_step(scaled(ROOM)), on_device());
    let (base, w) = (args[0].copy(), args[1].copy());
    drop((one(split_step.forward(&args)), one(split_step.backward(&[ones()]))));
    GPU.synchronize().unwrap();
    dropped_wait.iter().for_each(|wait| controls.fault(1, *wait));
    let mut streams = Streams::new(GPU, 4).unwrap();
    let mut made = vec![];
    for (k, (ahead, back)) in [(2, 3), (3, 2), (2, 3)].into_iter().enumerate() {
        streams.make_current(Some(ahead)).unwrap();
        args[0] = &base + (k + 1) as f64;
        let y = one(split_step.forward(&args));
        streams.make_current(Some(back)).unwrap();
        let dw = one(split_step.backward(&[ones() * 3.0]));
        made.push((y, bytes(&dw).unwrap()));
    }
    streams.make_current(None).unwrap();
    controls.fault(0, 0);
    GPU.synchronize().unwrap();
    let right = |k: usize, (y, dw): &(Tensor, Vec<u8>)| {
        let e = (&base + (k + 1) as f64).exp();
        equal(y, &(&e * &w).view([8, 8])) && *dw == bytes(&(ones() * 3.0 * &e)).unwrap()
    };
    (0..made.len()).filter(|&k| !right(k, &made[k])).collect()
}

/// Halves follow each other whatever stream they come on; each waits once, and the wait of a second half is needed.
#[test]
fn a_step_goes_where_its_caller_is() {
    on_gpu("a_step_goes_where_its_caller_is", || {
        open();
        let controls = Controls::new();
        for order in 0..6 {
            controls.order(order);
            assert_eq!(wrong_on_two_streams(&controls, None), [0usize; 0], "order {order}");
        }
        controls.order(0);
        for step in 0..3 {
            let wrong = wrong_on_two_streams(&controls, Some(2 * step + 1));
            assert!(wrong.contains(&(step as usize)), "without the wait of step {step}: {wrong:?}");
        }
    });
}

#[test]
fn mistakes_are_refused_before_anything_is_queued() {
    on_gpu("mistakes_are_refused_before_anything_is_queued", || {
        open();
        let controls = Controls::new();
        let here = arguments(tch::Device::Cpu);
        let there = on_device();
        let wrong = |device| SplitStep::new(for_gpu(scaled(ROOM)), 1, device).err().unwrap().to_string();
        let mut messages = vec![wrong(Device::Cpu), wrong(Device::Cuda(7))];
        messages.push(SplitStep::new(scaled(ROOM), 1, GPU).err().unwrap().to_string());
        let mut split_step = split_step(scaled(ROOM));
        GPU.synchronize().unwrap();
        controls.counts();
        messages.push(split_step.forward(&here).unwrap_err().to_string());
        let mut mixed: Vec<Tensor> = there.iter().map(Tensor::shallow_clone).collect();
        mixed[1] = here[1].shallow_clone();
        messages.push(split_step.forward(&mixed).unwrap_err().to_string());
        GPU.synchronize().unwrap();
        let counts = controls.counts();
        assert_eq!((counts.operators, counts.kernels, counts.done), (0, 0, 0), "{counts:?}");
        drop(one(split_step.forward(&there)));
        messages.push(split_step.backward(&[here[0].copy()]).unwrap_err().to_string());
        // It goes on from there.
        drop((one(split_step.forward(&there)), one(split_step.backward(&[ones()]))));
        let expected = "the step is for cuda:0, and was asked to run on cpu
device cuda:7 is not there: this machine has 2 GPU(s)
the step is for cpu, and was asked to run on cuda:0
argument 0, \"x\", is on Cpu, the step runs on cuda:0
argument 1, \"w\", is on Cpu, the step runs on cuda:0
tangent 0 is on Cpu, the step runs on cuda:0";
        assert_eq!(messages.join("\n"), expected);
    });
}
