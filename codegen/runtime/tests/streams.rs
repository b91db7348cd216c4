//! Streams, emulated: whatever order the events allow, a step leaves the same bits, at the same addresses.

#[allow(dead_code)]
mod steps;

use rk_runtime::compare::bytes;
use rk_runtime::{Machine, tensors};
use rk_step::queue::{Emulated, Pace};
use rk_step::{Sequence, Step};
use rk_torch::{Device, memory};
use steps::layout::on_streams;
use steps::{Fool, network, two_masks};

const ROOM: u64 = 1 << 16;

fn paces() -> impl Iterator<Item = Pace> {
    [Pace::Program, Pace::FirstStream, Pace::LastStream].into_iter().chain((0..4).map(Pace::Random))
}

/// Everything that a step leaves behind after three steps with updates.
fn train(step: &Step, pace: Option<Pace>) -> Vec<(String, Vec<u8>)> {
    let args = tensors::synthesize(step, 7, tch::Device::Cpu).unwrap();
    Device::Cpu.manual_seed(11).unwrap();
    let mut machine = Machine::new(step.clone(), &args, Device::Cpu).unwrap();
    pace.map_or(Ok(()), |pace| machine.set_pace(pace)).unwrap();
    let mut all = vec![];
    for k in 0..3 {
        let measured = machine.run().unwrap();
        if let (Some(counts), Some(layout)) = (measured.counts, &step.layout) {
            assert_eq!(counts.outside, 0, "step {k}");
            assert!(measured.peak_bytes <= layout.arena_bytes, "{measured:?}");
        }
        for (i, output) in step.outputs.iter().enumerate() {
            let tensor = machine.output(i).unwrap().unwrap();
            all.push((format!("{k} {:?} {}", output.role, output.name), bytes(&tensor).unwrap()));
        }
        machine.update(0.1).unwrap();
    }
    for (i, arg) in step.args.iter().enumerate() {
        all.push((arg.name.clone(), bytes(&machine.arg(i).unwrap().unwrap()).unwrap()));
    }
    all.push(("generator".into(), bytes(&Device::Cpu.generator_state().unwrap()).unwrap()));
    all
}

/// One test, because the allocator's counter and the generator belong to the process.
#[test]
fn every_allowed_order_gives_the_same_bits() {
    memory::install().unwrap();
    rk_torch::set_threads(1).unwrap();
    let (mut reordered, mut accompanied) = (0, 0);
    for step in [network(), two_masks()] {
        for seed in 0..4 {
            let schedule = Fool::schedule(&step, seed);
            let expected = train(&schedule, None);
            for streams in [2, 3] {
                let lowered = on_streams(&schedule, ROOM, streams);
                let sequence = Sequence::of(&lowered, lowered.layout.as_ref().unwrap()).unwrap();
                sequence.check().unwrap();
                accompanied += sequence.accompanied().iter().filter(|one| **one).count();
                for pace in paces() {
                    let order = Emulated::of(&sequence).order(pace);
                    reordered += usize::from(!order.is_sorted());
                    for ((name, a), (_, b)) in expected.iter().zip(&train(&lowered, Some(pace))) {
                        assert!(a == b, "{} {seed}, {streams} streams, {pace:?}: {name} differs", step.name);
                    }
                }
            }
        }
    }
    assert!(reordered > 20 && accompanied > 20, "{reordered} orders, {accompanied} launches");
    let error =
        Machine::new(network(), &tensors::synthesize(&network(), 7, tch::Device::Cpu).unwrap(), Device::Cpu)
            .unwrap()
            .set_pace(Pace::Program)
            .unwrap_err();
    assert_eq!(error.to_string(), "the step is not lowered, so it has no streams");
}
