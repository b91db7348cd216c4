//! Steps written by hand on the emulated GPU: the path of rk for CUDA from the step to the bits.

#[path = "../../../codegen/runtime/tests/steps/mod.rs"]
#[allow(dead_code)]
mod steps;

mod emulated;

use emulated::{Controls, on_gpu, on_gpu_with};
use rk_runtime::compare::bytes;
use rk_runtime::{Machine, Measured, RuntimeError, tensors};
use rk_step::{DType, OutputRole, Role, Sequence, Step};
use rk_torch::{Device, memory};
use steps::layout::{lowered, on_streams};
use steps::{Builder, Fool, call, network, two_masks, v};

const ROOM: u64 = 1 << 17;
const GPU: Device = Device::Cuda(0);

/// Tensors with their names.
type Left = Vec<(String, Vec<u8>)>;

fn for_gpu(mut step: Step) -> Step {
    step.device = "cuda:0".into();
    step
}

/// The layout, too, is one of the GPU.
fn placed(step: &Step, streams: u32) -> Step {
    let mut step = if streams == 1 { lowered(step, ROOM) } else { on_streams(step, ROOM, streams) };
    if let Some(layout) = &mut step.layout {
        layout.target = "cuda".into();
    }
    for_gpu(step)
}

fn open(device: Device) {
    memory::install().unwrap();
    rk_torch::set_threads(1).unwrap();
    device.open().unwrap();
}

fn machine(step: &Step, device: Device) -> Result<Machine, RuntimeError> {
    let args = tensors::synthesize(step, 7, device.to_tch())?;
    device.manual_seed(11)?;
    Machine::new(step.clone(), &args, device)
}

/// All that four steps with updates leave behind.
fn trained(mut machine: Machine, device: Device, mut look: impl FnMut(usize, &Measured)) -> Left {
    let step = machine.step().clone();
    let mut all = vec![];
    for k in 0..4 {
        look(k, &machine.run().unwrap());
        for (i, output) in step.outputs.iter().enumerate() {
            let tensor = machine.output(i).unwrap().unwrap();
            all.push((format!("{k} {:?} {}", output.role, output.name), bytes(&tensor).unwrap()));
        }
        machine.update(0.1).unwrap();
    }
    for (i, arg) in step.args.iter().enumerate() {
        all.push((arg.name.clone(), bytes(&machine.arg(i).unwrap().unwrap()).unwrap()));
    }
    all.push(("generator".into(), bytes(&device.generator_state().unwrap()).unwrap()));
    all
}

fn train(step: &Step) -> Left {
    trained(machine(step, GPU).unwrap(), GPU, |_, measured| {
        if let (Some(counts), Some(layout)) = (measured.counts, &step.layout) {
            assert_eq!(counts.outside, 0, "{measured:?}");
            assert!(counts.placed > 0, "{counts:?}");
            assert!(measured.peak_bytes <= layout.arena_bytes, "{measured:?}");
        }
    })
}

/// The first difference, if there is one.
fn difference<'a>(expected: &'a Left, found: &Left) -> Option<&'a str> {
    assert_eq!(expected.len(), found.len());
    expected.iter().zip(found).find(|(a, b)| a.1 != b.1).map(|(a, _)| a.0.as_str())
}

#[test]
fn the_same_bits_at_fixed_addresses() {
    on_gpu("the_same_bits_at_fixed_addresses", || {
        open(GPU);
        for step in [network(), two_masks()] {
            for seed in 0..4 {
                let schedule = Fool::schedule(&step, seed);
                let expected = train(&for_gpu(schedule.clone()));
                let found = train(&placed(&schedule, 1));
                assert_eq!(difference(&expected, &found), None, "{} {seed}", step.name);
            }
        }
    });
}

/// The same network without random numbers, which can be captured.
fn certain() -> Step {
    let mut step = network();
    step.nodes.iter_mut().for_each(|node| node.random = false);
    step.nodes.iter_mut().flat_map(|node| &mut node.ops).for_each(|call| {
        if call.op == "aten.bernoulli_.float" {
            call.op = "aten.fill_.Scalar".into();
            call.args.truncate(2);
        }
    });
    step
}

#[test]
fn a_captured_step_is_replayed_with_the_parameters_as_they_are() {
    on_gpu("a_captured_step_is_replayed_with_the_parameters_as_they_are", || {
        open(GPU);
        let controls = Controls::new();
        for seed in 0..3 {
            let schedule = Fool::schedule(&certain(), seed);
            let expected = train(&for_gpu(schedule.clone()));
            for streams in 1..4 {
                let step = placed(&schedule, streams);
                for order in 0..6 {
                    controls.order(order);
                    controls.counts();
                    let mut seen = vec![];
                    let found =
                        trained(machine(&step, GPU).unwrap(), GPU, |_, _| seen.push(controls.counts()));
                    let what = format!("{seed}, {streams} streams, order {order}");
                    assert_eq!(difference(&expected, &found), None, "{what}");
                    // Launch by launch; captured and launched as a graph; launched as a graph.
                    let graphs: Vec<u64> = seen.iter().map(|counts| counts.graphs).collect();
                    assert_eq!(graphs, [0, 1, 1, 1], "{what}");
                    let captured: Vec<bool> = seen.iter().map(|counts| counts.captured > 0).collect();
                    assert_eq!(captured, [false, true, false, false], "{what}");
                }
            }
        }
    });
}

/// Random numbers are never captured: torch lets nobody read or set the state of a generator meanwhile.
#[test]
fn a_step_that_draws_is_queued_launch_by_launch() {
    on_gpu("a_step_that_draws_is_queued_launch_by_launch", || {
        open(GPU);
        let controls = Controls::new();
        let schedule = Fool::schedule(&two_masks(), 1);
        let expected = train(&for_gpu(schedule.clone()));
        for streams in 1..3 {
            for order in 0..6 {
                controls.order(order);
                controls.counts();
                assert_eq!(difference(&expected, &train(&placed(&schedule, streams))), None, "order {order}");
                let counts = controls.counts();
                assert_eq!((counts.graphs, counts.captured), (0, 0));
            }
        }
    });
}

/// A wait that is missing is seen in some order, by bits or by the refusal of a stream that nobody joined; unless it does no harm, because
/// a second run makes the same bytes at the same place again, which in a network this small is the rule.
#[test]
fn a_missing_wait_is_seen() {
    on_gpu("a_missing_wait_is_seen", || {
        open(GPU);
        let controls = Controls::new();
        for seed in 0..3 {
            let schedule = Fool::schedule(&certain(), seed);
            let step = placed(&schedule, 2);
            let sequence = Sequence::of(&step, step.layout.as_ref().unwrap()).unwrap();
            let waits = sequence.launches.iter().map(|launch| launch.waits.len()).sum::<usize>() as u64;
            let expected = train(&for_gpu(schedule));
            let second = &expected[step.outputs.len()..];
            let seen = |wait: Option<u64>| {
                (0..4).any(|order| {
                    controls.order(order);
                    let mut machine = machine(&step, GPU).unwrap();
                    machine.run().unwrap();
                    machine.update(0.1).unwrap();
                    // The second run is captured. Its first wait is for the beginning.
                    wait.iter().for_each(|wait| controls.fault(1, 1 + wait));
                    let failed = machine.run().is_err();
                    controls.fault(0, 0);
                    let output = |i: usize| bytes(&machine.output(i).unwrap().unwrap()).unwrap();
                    failed || (0..step.outputs.len()).any(|i| output(i) != second[i].1)
                })
            };
            assert!(!seen(None), "{seed}");
            let found = (0..waits).filter(|&wait| seen(Some(wait))).count() as u64;
            assert!(found * 6 >= waits, "{seed}: {found} of {waits}");
        }
    });
}

#[test]
fn gradients_are_added_up() {
    on_gpu("gradients_are_added_up", || {
        open(GPU);
        let schedule = Fool::schedule(&certain(), 2);
        let run = |step: &Step| -> Left {
            let mut machine = machine(step, GPU).unwrap();
            let mut all = vec![];
            for k in 0..3 {
                machine.run().unwrap();
                machine.accumulate().unwrap();
                machine.accumulate().unwrap();
                for (i, output) in step.outputs.iter().enumerate() {
                    let tensor = machine.output(i).unwrap().unwrap();
                    all.push((format!("{k} {}", output.name), bytes(&tensor).unwrap()));
                }
                machine.update(0.1).unwrap();
            }
            all
        };
        let expected = run(&for_gpu(schedule.clone()));
        assert_eq!(difference(&expected, &run(&placed(&schedule, 2))), None);
    });
}

#[test]
fn too_little_memory_is_refused_before_anything_runs() {
    let bytes = (ROOM / 2).to_string();
    on_gpu_with(
        "too_little_memory_is_refused_before_anything_runs",
        &[("RK_EMULATED_MEMORY", &bytes)],
        || {
            open(GPU);
            let step = placed(&Fool::schedule(&certain(), 0), 1);
            let args = tensors::synthesize(&step, 7, GPU.to_tch()).unwrap();
            GPU.synchronize().unwrap();
            let controls = Controls::new();
            controls.counts();
            let error = Machine::new(step.clone(), &args, GPU).err().unwrap().to_string();
            assert!(error.starts_with("too little memory: the step needs "), "{error}");
            assert!(error.contains("cuda:0 has "), "{error}");
            GPU.synchronize().unwrap();
            assert_eq!(controls.counts().done, step.constants.len() as u64);
        },
    );
}

/// `nonzero` waits for the stream to learn how many there are, which no capture survives.
fn waits_for_the_host() -> Step {
    let mut b = Builder::new("waits");
    let x = b.arg("x", Role::Input, DType::F32, &[64]);
    let exp = b.node("exp", &[x], vec![call("exp.default", vec![v(0)], &[1])], &[(1, 256)])[0];
    let places = b.node("places", &[exp], vec![call("nonzero.default", vec![v(0)], &[1])], &[(1, 512)])[0];
    b.output(OutputRole::Output, "0", places);
    b.finish()
}

#[test]
fn a_step_that_cannot_be_captured_is_queued_launch_by_launch() {
    on_gpu("a_step_that_cannot_be_captured_is_queued_launch_by_launch", || {
        open(GPU);
        let controls = Controls::new();
        let mut stubborn = machine(&placed(&waits_for_the_host(), 1), GPU).unwrap();
        let places: Vec<Vec<u8>> = (0..3)
            .map(|_| {
                let measured = stubborn.run().unwrap();
                assert_eq!(measured.counts.unwrap().outside, 0);
                bytes(&stubborn.output(0).unwrap().unwrap()).unwrap()
            })
            .collect();
        assert!(places[0].len() == 512 && places.iter().all(|one| *one == places[0]));
        let counts = controls.counts();
        assert!(counts.captured > 0 && counts.graphs == 0, "{counts:?}");
        // The failed capture has left nothing behind.
        let schedule = Fool::schedule(&certain(), 0);
        let expected = train(&for_gpu(schedule.clone()));
        assert_eq!(difference(&expected, &train(&placed(&schedule, 2))), None);
    });
}

#[test]
fn another_gpu_and_another_thread() {
    on_gpu("another_gpu_and_another_thread", || {
        let second = Device::Cuda(1);
        open(second);
        let schedule = Fool::schedule(&certain(), 0);
        let mut step = placed(&schedule, 2);
        step.device = "cuda:1".into();
        let expected = train(&for_gpu(schedule));
        let found = std::thread::spawn(move || trained(machine(&step, second).unwrap(), second, |_, _| {}));
        assert_eq!(difference(&expected, &found.join().unwrap()), None);
    });
}

/// What the tests above rely on.
#[test]
fn the_host_cannot_look_into_the_gpu() {
    let seen = std::panic::catch_unwind(|| {
        on_gpu("the_host_cannot_look_into_the_gpu", || {
            open(GPU);
            let tensor = tch::Tensor::zeros([4], (tch::Kind::Float, GPU.to_tch()));
            GPU.synchronize().unwrap();
            // SAFETY: none: this is the fault that is looked for.
            let number = unsafe { tensor.data_ptr().cast::<f32>().read_volatile() };
            println!("{number}");
        });
    });
    let why = seen.expect_err("the host has read memory of the GPU");
    let why = why.downcast_ref::<String>().unwrap();
    assert!(why.starts_with("signal: 11"), "{why}");
}
