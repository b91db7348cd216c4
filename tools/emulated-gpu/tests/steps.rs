//! Steps written by hand on the emulated GPU: the path of rk for CUDA from the step to the bits.

mod emulated;

use emulated::{Controls, on_gpu, on_gpu_with};
use rk_runtime::compare::bytes;
use rk_runtime::{Executor, Measured, RuntimeError, tensors};
use rk_sample_steps::layout::{lowered, on_streams};
use rk_sample_steps::{Builder, Fool, NONE, call, f, i, network, two_masks, v};
use rk_step::graph_segments::graph_segments;
use rk_step::{ElementType, Instr, LaunchSchedule, OutputRole, Role, Step};
use rk_torch::{Device, memory};

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

fn executor(step: &Step, device: Device) -> Result<Executor, RuntimeError> {
    let args = tensors::synthesize(step, 7, device.to_tch())?;
    device.manual_seed(11)?;
    Executor::new(step.clone(), &args, device)
}

/// All that four steps with updates leave behind.
fn trained(mut executor: Executor, device: Device, mut look: impl FnMut(usize, &Measured)) -> Left {
    let step = executor.step().clone();
    let mut all = vec![];
    for k in 0..4 {
        look(k, &executor.run().unwrap());
        for (i, output) in step.outputs.iter().enumerate() {
            let tensor = executor.output(i).unwrap().unwrap();
            all.push((format!("{k} {:?} {}", output.role, output.name), bytes(&tensor).unwrap()));
        }
        executor.update(0.1).unwrap();
    }
    for (i, arg) in step.args.iter().enumerate() {
        all.push((arg.name.clone(), bytes(&executor.arg(i).unwrap().unwrap()).unwrap()));
    }
    all.push(("generator".into(), bytes(&device.generator_state().unwrap()).unwrap()));
    all
}

fn train(step: &Step) -> Left {
    trained(executor(step, GPU).unwrap(), GPU, |_, measured| {
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
                        trained(executor(&step, GPU).unwrap(), GPU, |_, _| seen.push(controls.counts()));
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

/// What lies between two draws is captured, and repeated as a graph; the draws are queued every time.
#[test]
fn a_step_that_draws_is_captured_between_its_draws() {
    on_gpu("a_step_that_draws_is_captured_between_its_draws", || {
        open(GPU);
        let controls = Controls::new();
        let (mut most, mut drawn_twice) = (0, 0);
        for seed in 0..8 {
            let step = if seed % 4 == 0 { two_masks() } else { network() };
            let schedule = Fool::schedule(&step, seed);
            let expected = train(&for_gpu(schedule.clone()));
            for streams in 1..4 {
                let step = placed(&schedule, streams);
                let launches = LaunchSchedule::of(&step, step.layout.as_ref().unwrap()).unwrap();
                let pieces = graph_segments(&launches);
                let graphs = pieces.iter().filter(|piece| piece.captured).count() as u64;
                let by_hand = pieces.iter().filter(|piece| !piece.captured);
                let by_hand: usize = by_hand.map(|piece| piece.launches.len()).sum();
                most = most.max(graphs);
                drawn_twice += step
                    .program
                    .instrs
                    .iter()
                    .filter(|i| matches!(i, Instr::Run(run) if run.state_in.is_some()))
                    .count();
                for order in 0..6 {
                    controls.order(order);
                    controls.counts();
                    let what = format!("{} {seed}, {streams} streams, order {order}", step.name);
                    let mut seen = vec![];
                    let found = trained(executor(&step, GPU).unwrap(), GPU, |k, measured| {
                        let counts = controls.counts();
                        let queued = measured.queued.unwrap();
                        assert_eq!(queued.captured + queued.launches, launches.launches.len(), "{what}");
                        assert_eq!(queued.graphs as u64, counts.graphs, "{what}");
                        assert!(k == 0 || graphs == 0 || queued.launches == by_hand, "{what}: {queued:?}");
                        assert_eq!(measured.counts.unwrap().outside, 0, "{what}");
                        seen.push(counts);
                    });
                    assert_eq!(difference(&expected, &found), None, "{what}");
                    let launched: Vec<u64> = seen.iter().map(|counts| counts.graphs).collect();
                    assert_eq!(launched, [0, graphs, graphs, graphs], "{what}");
                    let captured: Vec<bool> = seen.iter().map(|counts| counts.captured > 0).collect();
                    assert_eq!(captured, [false, graphs > 0, false, false], "{what}");
                }
            }
        }
        assert!(most >= 2 && drawn_twice > 0, "{most} graphs at most, {drawn_twice} draws again");
    });
}

/// Graphs of a replay do what nobody else does, unless all that is in one are second runs that nobody needs.
#[test]
fn a_lost_graph_is_seen() {
    on_gpu("a_lost_graph_is_seen", || {
        open(GPU);
        let controls = Controls::new();
        let schedule = Fool::schedule(&network(), 1);
        let expected = train(&for_gpu(schedule.clone()));
        let step = placed(&schedule, 2);
        assert_eq!(difference(&expected, &train(&step)), None);
        let graphs = controls.counts().graphs / 3;
        assert!(graphs >= 2, "{graphs}");
        let seen = |&lost: &u64| {
            controls.fault(4, lost);
            let differs = difference(&expected, &train(&step)).is_some();
            controls.fault(0, 0);
            differs
        };
        let found = (0..3 * graphs).filter(seen).count() as u64;
        assert!(found >= 2 * graphs, "{found} of {}", 3 * graphs);
    });
}

/// Results of a replay are the caller's to keep, also when the step is gone, and when a draw has used their place in between.
#[test]
fn results_of_a_replay_outlive_the_step() {
    on_gpu("results_of_a_replay_outlive_the_step", || {
        open(GPU);
        let step = placed(&Fool::schedule(&network(), 1), 1);
        let mut executor = executor(&step, GPU).unwrap();
        let mut kept = vec![];
        for _ in 0..5 {
            assert!(executor.run().is_ok());
            kept.push(executor.output(1).unwrap().unwrap());
        }
        let last = bytes(&kept[4]).unwrap();
        drop(executor);
        kept.drain(..4);
        assert!(bytes(&kept[0]).unwrap() == last);
        let before = memory::read(GPU).unwrap().current;
        drop(kept);
        let arena = step.layout.as_ref().unwrap().arena_bytes;
        let given_back = before - memory::read(GPU).unwrap().current;
        assert!(given_back >= arena, "the arena goes with the last of them: {given_back} of {arena}");
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
            let queued = LaunchSchedule::of(&step, step.layout.as_ref().unwrap()).unwrap();
            let waits = queued.launches.iter().map(|launch| launch.waits.len()).sum::<usize>() as u64;
            let expected = train(&for_gpu(schedule));
            let second = &expected[step.outputs.len()..];
            let seen = |wait: Option<u64>| {
                (0..4).any(|order| {
                    controls.order(order);
                    let mut executor = executor(&step, GPU).unwrap();
                    executor.run().unwrap();
                    executor.update(0.1).unwrap();
                    // The second run is captured. Its first wait is for the beginning.
                    wait.iter().for_each(|wait| controls.fault(1, 1 + wait));
                    let failed = executor.run().is_err();
                    controls.fault(0, 0);
                    let output = |i: usize| bytes(&executor.output(i).unwrap().unwrap()).unwrap();
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
            let mut executor = executor(step, GPU).unwrap();
            let mut all = vec![];
            for k in 0..3 {
                executor.run().unwrap();
                executor.accumulate().unwrap();
                executor.accumulate().unwrap();
                for (i, output) in step.outputs.iter().enumerate() {
                    let tensor = executor.output(i).unwrap().unwrap();
                    all.push((format!("{k} {}", output.name), bytes(&tensor).unwrap()));
                }
                executor.update(0.1).unwrap();
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
            let error = Executor::new(step.clone(), &args, GPU).err().unwrap().to_string();
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
    let x = b.arg("x", Role::Input, ElementType::F32, &[64]);
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
        let mut stubborn = executor(&placed(&waits_for_the_host(), 1), GPU).unwrap();
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

/// A counter, a draw, an operator that waits for the host, another draw, and enough around them for a graph each.
fn stubborn_between_draws() -> Step {
    let mut b = Builder::new("stubborn");
    let x = b.arg("x", Role::Input, ElementType::F32, &[64]);
    let count = b.arg("count", Role::Buffer, ElementType::I64, &[]);
    let unary = |b: &mut Builder, op: &str, of: u32| {
        b.node(op, &[of], vec![call(&format!("{op}.default"), vec![v(0)], &[1])], &[(1, 256)])[0]
    };
    let dropped = |b: &mut Builder, of: u32| {
        let empty = call("empty_like.default", vec![v(0)], &[1]);
        let draw = call("bernoulli_.float", vec![v(1), f(0.5), NONE], &[2]);
        let mask = b.node("mask", &[of], vec![empty, draw], &[(2, 256)])[0];
        b.last().random = true;
        let mul = vec![call("mul.Tensor", vec![v(0), v(1)], &[2])];
        b.node("mul", &[of, mask], mul, &[(2, 256)])[0]
    };
    b.node("count", &[count], vec![call("add_.Tensor", vec![v(0), i(1), i(1)], &[-1])], &[]);
    b.last().once = true;
    let positive = unary(&mut b, "exp", x);
    let wave = unary(&mut b, "sin", positive);
    let half = dropped(&mut b, wave);
    let nonzero = vec![call("nonzero.default", vec![v(0)], &[1])];
    let places = b.node("places", &[positive], nonzero, &[(1, 512)])[0];
    let again = unary(&mut b, "cos", half);
    let quarter = dropped(&mut b, again);
    let end = unary(&mut b, "exp", quarter);
    let end = unary(&mut b, "sin", end);
    b.output(OutputRole::Output, "0", end);
    b.output(OutputRole::Output, "1", places);
    b.finish()
}

/// What has run before the piece that no graph can hold does not run twice, and the pieces around it are graphs.
#[test]
fn a_piece_that_cannot_be_captured_is_queued_alone() {
    on_gpu("a_piece_that_cannot_be_captured_is_queued_alone", || {
        open(GPU);
        let step = stubborn_between_draws();
        let expected = train(&for_gpu(step.clone()));
        let mut queued = vec![];
        let found = trained(executor(&placed(&step, 1), GPU).unwrap(), GPU, |_, measured| {
            assert_eq!(measured.counts.unwrap().outside, 0);
            let now = measured.queued.unwrap();
            queued.push((now.graphs, now.captured, now.launches));
        });
        assert_eq!(difference(&expected, &found), None);
        assert_eq!(queued, [(0, 0, 11), (2, 6, 5), (2, 6, 5), (2, 6, 5)]);
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
        let found = std::thread::spawn(move || trained(executor(&step, second).unwrap(), second, |_, _| {}));
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
