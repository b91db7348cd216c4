//! Streams, emulated: whatever order the events allow, a step leaves the same bits, at the same addresses.

mod trained;

use rk_sample_steps::layout::on_streams;
use rk_sample_steps::{Fool, network, two_masks};
use rk_step::queue::{Emulated, Pace};
use rk_step::{LaunchSchedule, Step};
use rk_torch::memory;
use trained::{Left, assert_equal, executor, trained};

const ROOM: u64 = 1 << 16;

fn paces() -> impl Iterator<Item = Pace> {
    [Pace::Program, Pace::FirstStream, Pace::LastStream].into_iter().chain((0..4).map(Pace::Random))
}

/// Everything that a step leaves behind, whose streams run at this pace.
fn train(step: &Step, pace: Option<Pace>) -> Left {
    let mut executor = executor(step).unwrap();
    pace.map_or(Ok(()), |pace| executor.set_pace(pace)).unwrap();
    trained(executor, step, 3, |measured| {
        if let (Some(counts), Some(layout)) = (measured.counts, &step.layout) {
            assert_eq!(counts.outside, 0, "{measured:?}");
            assert!(measured.peak_bytes <= layout.arena_bytes, "{measured:?}");
        }
    })
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
                let queued = LaunchSchedule::of(&lowered, lowered.layout.as_ref().unwrap()).unwrap();
                queued.check().unwrap();
                accompanied += queued.accompanied().iter().filter(|one| **one).count();
                for pace in paces() {
                    let order = Emulated::of(&queued).order(pace);
                    reordered += usize::from(!order.is_sorted());
                    let what = format!("{} {seed}, {streams} streams, {pace:?}", step.name);
                    assert_equal(&expected, &train(&lowered, Some(pace)), &what);
                }
            }
        }
    }
    assert!(reordered > 20 && accompanied > 20, "{reordered} orders, {accompanied} launches");
    let error = executor(&network()).unwrap().set_pace(Pace::Program).unwrap_err();
    assert_eq!(error.to_string(), "the step is not lowered, so it has no streams");
}
