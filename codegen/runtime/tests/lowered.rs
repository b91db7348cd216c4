//! Lowered steps: the same bits as with an allocator, in one arena and nowhere else.

mod alone;
mod trained;

use std::sync::atomic::{AtomicBool, Ordering};

use alone::alone;
use rk_runtime::compare::bytes;
use rk_runtime::{Executor, RuntimeError, tensors};
use rk_sample_steps::layout::lowered;
use rk_sample_steps::{Builder, Fool, call, i, network, two_masks, v};
use rk_step::{ElementType, OutputRole, Role, Step};
use rk_torch::{Counts, Device, memory};
use trained::{Left, assert_equal, executor, trained};

/// Everything that a step leaves behind after three steps with updates.
fn train(step: &Step) -> Left {
    trained(executor(step).unwrap(), step, 3, |measured| {
        if let (Some(counts), Some(layout)) = (measured.counts, &step.layout) {
            assert_eq!(counts.outside, 0, "{measured:?}");
            assert!(counts.placed > 0, "{counts:?}");
            assert!(measured.peak_bytes <= layout.arena_bytes, "{measured:?}");
        }
    })
}

const ROOM: u64 = 1 << 16;

#[test]
fn the_same_bits_at_fixed_addresses() {
    let _alone = alone();
    for step in [network(), two_masks()] {
        let schedules = (0..6).map(|seed| Fool::schedule(&step, seed)).chain([step.clone()]);
        for (seed, schedule) in schedules.enumerate() {
            let expected = train(&schedule);
            let what = format!("{} {seed}", step.name);
            assert_equal(&expected, &train(&lowered(&schedule, ROOM)), &what);
        }
    }
}

#[test]
fn the_step_before_the_rewrite_has_addresses_that_nothing_shares() {
    let _alone = alone();
    for step in [network(), two_masks()] {
        for seed in 0..3 {
            let planned = lowered(&Fool::schedule(&step, seed), ROOM);
            let spread = rk_step::disjoint_layout(&planned).unwrap();
            rk_step::validate::validate(&spread).unwrap();
            let program = rk_step::original(&planned).unwrap();
            assert_eq!(spread.program, program);
            assert_equal(&train(&step), &train(&spread), &format!("{} {seed}", step.name));
        }
    }
}

/// `sum(exp(x))`, whose exponentials are a temporary of 4 KiB.
fn squash() -> Step {
    let mut b = Builder::new("squash");
    let x = b.arg("x", Role::Input, ElementType::F32, &[1024]);
    let calls = vec![call("exp.default", vec![v(0)], &[1]), call("sum.default", vec![v(1)], &[2])];
    let sum = b.node("squash", &[x], calls, &[(2, 4)])[0];
    b.output(OutputRole::Loss, "loss", sum);
    b.finish()
}

#[test]
fn a_launch_that_does_not_fit_is_named_before_anything_runs() {
    let _alone = alone();
    let mut fits = executor(&lowered(&squash(), 4096)).unwrap();
    let measured = fits.run().unwrap();
    assert_eq!((measured.peak_bytes, measured.counts.unwrap().placed), (4100, 2));
    let error = executor(&lowered(&squash(), 4032)).err().unwrap().to_string();
    insta::assert_snapshot!(error, @r#"program[0] "squash": its 1 temporaries, up to 4096 bytes each, do not fit into the 4032 bytes that the plan has for them. It was planned for other kernels or another number of threads: import the step again on this machine"#);
}

#[test]
fn a_result_of_another_size_is_named_before_anything_runs() {
    let _alone = alone();
    let mut step = lowered(&squash(), 4096);
    step.nodes[0].outputs[0].bytes = 8;
    step.layout.as_mut().unwrap().places[0].bytes = 8;
    let error = executor(&step).err().unwrap().to_string();
    insta::assert_snapshot!(error, @r#"program[0] "squash": its 2 temporaries, up to 4096 bytes each, do not fit into the 4096 bytes that the plan has for them. It was planned for other kernels or another number of threads: import the step again on this machine"#);
}

/// What is free until the result is asked for may hold a temporary that is gone by then.
#[test]
fn temporaries_use_the_places_of_results_to_come() {
    let _alone = alone();
    let mut b = Builder::new("late");
    let x = b.arg("x", Role::Input, ElementType::F32, &[1024]);
    let calls = vec![
        call("exp.default", vec![v(0)], &[1]),
        call("sum.default", vec![v(1)], &[2]),
        call("mul.Tensor", vec![v(0), v(2)], &[3]),
    ];
    let y = b.node("late", &[x], calls, &[(3, 4096)])[0];
    b.output(OutputRole::Output, "0", y);
    let step = b.finish();
    // 64 bytes for the sum; the exponentials lie where the product will be.
    let mut executor = executor(&lowered(&step, 64)).unwrap();
    assert_eq!(executor.run().unwrap().counts, Some(Counts { placed: 3, ..Counts::default() }));
}

/// Two results in one storage: the second cannot be made at its own place, so it is moved there.
#[test]
fn results_that_share_storage_are_moved_apart() {
    let _alone = alone();
    let mut b = Builder::new("halves");
    let x = b.arg("x", Role::Input, ElementType::F32, &[64]);
    let calls = vec![
        call("exp.default", vec![v(0)], &[1]),
        call("slice.Tensor", vec![v(1), i(0), i(32), i(64), i(1)], &[2]),
    ];
    let both = b.node("halves", &[x], calls, &[(1, 256), (2, 256)]);
    b.output(OutputRole::Output, "whole", both[0]);
    b.output(OutputRole::Output, "half", both[1]);
    let step = b.finish();
    let (mut plain, mut placed) = (executor(&step).unwrap(), executor(&lowered(&step, 0)).unwrap());
    for _ in 0..2 {
        plain.run().unwrap();
        assert_eq!(placed.run().unwrap().counts.unwrap().moved, 1);
        for output in 0..2 {
            let [ours, theirs] =
                [&placed, &plain].map(|m| bytes(&m.output(output).unwrap().unwrap()).unwrap());
            assert!(ours == theirs, "output {output}");
        }
    }
}

#[test]
fn more_memory_than_there_is() {
    let _alone = alone();
    let mut step = lowered(&network(), ROOM);
    step.layout.as_mut().unwrap().arena_bytes = 1 << 60;
    let error = executor(&step).err().unwrap();
    assert!(matches!(error, RuntimeError::Device(_)), "{error}");
    assert!(error.to_string().starts_with("too little memory: the step needs 11529215046068"), "{error}");
}

#[test]
fn a_rehearsal_leaves_no_trace() {
    let _alone = alone();
    let step = lowered(&network(), ROOM);
    let args = tensors::synthesize(&step, 7, tch::Device::Cpu).unwrap();
    let before: Vec<_> = args.iter().map(|arg| bytes(arg).unwrap()).collect();
    Device::Cpu.manual_seed(11).unwrap();
    let generator = bytes(&Device::Cpu.generator_state().unwrap()).unwrap();
    let _machine = Executor::new(step.clone(), &args, Device::Cpu).unwrap();
    for (arg, (tensor, before)) in step.args.iter().zip(args.iter().zip(before)) {
        assert!(bytes(tensor).unwrap() == before, "{}", arg.name);
    }
    assert!(bytes(&Device::Cpu.generator_state().unwrap()).unwrap() == generator);
}

#[test]
fn results_outlive_the_machine() {
    let _alone = alone();
    let mut executor = executor(&lowered(&network(), ROOM)).unwrap();
    executor.run().unwrap();
    let loss = executor.output(0).unwrap().unwrap();
    let before = bytes(&loss).unwrap();
    let level = memory::read(Device::Cpu).unwrap().current;
    drop(executor);
    assert!(bytes(&loss).unwrap() == before);
    drop(loss);
    assert!(memory::read(Device::Cpu).unwrap().current < level);
}

#[test]
fn two_threads_take_turns() {
    let _alone = alone();
    let mut step = network();
    // No random numbers: there is one generator for both.
    step.nodes.iter_mut().flat_map(|node| &mut node.ops).for_each(|call| {
        if call.op == "aten.bernoulli_.float" {
            call.op = "aten.fill_.Scalar".into();
            call.args.truncate(2);
        }
    });
    let step = lowered(&step, ROOM);
    let loss = |step: &Step| {
        let mut executor = executor(step).unwrap();
        let mut all = vec![];
        for _ in 0..20 {
            assert_eq!(executor.run().unwrap().counts.unwrap().moved, 0);
            all.push(bytes(&executor.output(0).unwrap().unwrap()).unwrap());
            executor.update(0.01).unwrap();
        }
        all
    };
    let expected = loss(&step);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Tensors of the step's sizes that are none of its business, whatever it does.
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for arg in &step.args {
                    let _ = tch::Tensor::zeros(&arg.spec.shape, (tch::Kind::Float, tch::Device::Cpu));
                }
            }
        });
        // Each rehearses its step anew many times over; one rehearsal is too short to be disturbed for sure.
        let many = || (0..25).map(|_| loss(&step)).collect::<Vec<_>>();
        let runs: Vec<_> = (0..2).map(|_| scope.spawn(many)).collect();
        let found: Vec<_> = runs.into_iter().map(|run| run.join()).collect();
        done.store(true, Ordering::Relaxed);
        for losses in found {
            assert!(losses.unwrap().iter().all(|one| *one == expected));
        }
    });
}
