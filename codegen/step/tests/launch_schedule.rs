//! Launch sequences: what waits for what, that every order which the events allow computes the same, and that a missing wait
//! is seen.

mod sample;

use rk_step::graph_segments::{GraphSegment, graph_segments};
use rk_step::launch_schedule::{Access, LaunchSchedule, Queued, Region, Work};
use rk_step::queue::{Emulated, Pace};
use rk_step::{Instr, Slot, Step};

const PACES: [Pace; 8] = [
    Pace::Program,
    Pace::FirstStream,
    Pace::LastStream,
    Pace::Random(1),
    Pace::Random(2),
    Pace::Random(3),
    Pace::Random(4),
    Pace::Random(5),
];

fn schedule(step: &Step) -> LaunchSchedule {
    LaunchSchedule::of(step, step.layout.as_ref().unwrap()).unwrap()
}

/// The block with its second run on a stream of its own.
fn overlapping() -> Step {
    let mut step = sample::lowered();
    step.layout.as_mut().unwrap().launches[3].stream = 1;
    step
}

#[test]
fn one_stream_needs_no_events() {
    let schedule = schedule(&sample::lowered());
    assert!(schedule.launches.iter().all(|one| one.waits.is_empty() && !one.records));
    schedule.check().unwrap();
    assert!(schedule.accompanied().iter().all(|one| !one));
    for pace in PACES {
        assert_eq!(Emulated::of(&schedule).order(pace), [0, 1, 2, 3, 4]);
    }
}

/// `norm` runs again at 0, where `up` was: behind `down`, its last reader. `add` reads what it makes.
#[test]
fn a_second_run_waits_for_its_place_and_its_reader_for_it() {
    let schedule = schedule(&overlapping());
    let waits: Vec<_> = schedule.launches.iter().map(|one| one.waits.clone()).collect();
    assert_eq!(waits, [vec![], vec![], vec![], vec![2], vec![3]]);
    let records: Vec<_> = schedule.launches.iter().map(|one| one.records).collect();
    assert_eq!(records, [false, false, true, true, false]);
    schedule.check().unwrap();
}

/// In a place of its own it can run whenever its operand, an argument, is there: from the beginning.
#[test]
fn a_second_run_in_its_own_place_overlaps() {
    let mut step = overlapping();
    let layout = step.layout.as_mut().unwrap();
    layout.places[3].offset = 12 << 10;
    layout.arena_bytes = 16 << 10;
    let schedule = schedule(&step);
    assert!(schedule.launches[3].waits.is_empty());
    assert_eq!(schedule.accompanied(), [true, true, true, true, false]);
    assert_eq!(Emulated::of(&schedule).order(Pace::LastStream), [3, 0, 1, 2, 4]);
    assert_eq!(Emulated::of(&schedule).order(Pace::FirstStream), [0, 1, 2, 3, 4]);
}

#[test]
fn a_race_is_named() {
    let mut without = schedule(&overlapping());
    without.launches[3].waits.clear();
    let early = without.check().unwrap_err().to_string();
    let mut unrecorded = schedule(&overlapping());
    unrecorded.launches[2].records = false;
    let never = unrecorded.check().unwrap_err().to_string();
    // Nobody records the event, so whoever waits for it never runs.
    assert_eq!(Emulated::of(&unrecorded).order(Pace::Program), [0, 1, 2]);
    let mut step = overlapping();
    step.layout.as_mut().unwrap().launches[0].stream = 9;
    let many = LaunchSchedule::of(&step, step.layout.as_ref().unwrap()).unwrap_err().to_string();
    insta::assert_snapshot!([early, never, many].join("\n"), @r"
    program[5]: S7: races with program[1] on another stream for bytes 0..4096 of Arena
    program[5]: waits for an event that nobody has recorded
    layout.launches: 10 streams for 5 launches
    ");
}

/// State of the model is written by the first run only, random runs keep their order, and an overwritten operand is written.
#[test]
fn effects_are_accesses() {
    let mut step = overlapping();
    step.nodes[0].ops[0].effects = vec![0];
    step.nodes[3].random = true;
    let schedule = schedule(&step);
    let writes = |at: usize, region: Region| {
        schedule.launches[at].accesses.iter().any(|one| one.region == region && one.writes)
    };
    let x = Region::Resident(Slot(0));
    assert!(writes(0, x) && !writes(3, x), "{:?}", schedule.launches);
    assert!(writes(4, Region::Generator) && !writes(0, Region::Generator));
    step.nodes[0].ops[0].effects.clear();
    step.nodes[2].overwrites = Some(0);
    let Instr::Run(run) = &mut step.program.instrs[3] else { panic!() };
    run.overwrite = true;
    let places = &step.layout.as_ref().unwrap().places;
    let up =
        Access { region: Region::Arena, from: places[1].offset, to: places[1].offset + 8192, writes: true };
    assert!(
        LaunchSchedule::of(&step, step.layout.as_ref().unwrap()).unwrap().launches[2].accesses.contains(&up)
    );
}

/// Launches over a few bytes, each writing a number made of what it reads, on streams of their own: every order that the events
/// allow must leave the same memory, and without the events some order must not (else the test would see nothing).
#[test]
fn every_allowed_order_computes_the_same() {
    let mut state = 7u64;
    let mut draw = |n: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % n
    };
    let mut broken = 0;
    for case in 0..60 {
        let streams = 1 + case % 4;
        let launches: Vec<Queued> = (0..40)
            .map(|_| {
                let accesses = (0..3).map(|index| {
                    let from = draw(24);
                    Access { region: Region::Arena, from, to: from + 1 + draw(4), writes: index == 0 }
                });
                let accesses = accesses.collect();
                let stream = draw(streams) as u32;
                Queued { instr: 0, stream, waits: vec![], records: false, work: Work::Library, accesses }
            })
            .collect();
        let schedule = LaunchSchedule::ordered(launches.clone());
        schedule.check().unwrap();
        let expected = memory(&launches, &(0..40).collect::<Vec<_>>());
        for pace in PACES {
            let order = Emulated::of(&schedule).order(pace);
            assert_eq!(order.len(), 40, "{pace:?}");
            assert_eq!(memory(&launches, &order), expected, "{pace:?}");
        }
        // In pieces, whose borders take the place of waits across them.
        let cuts = [0, 3 + draw(9) as usize, 12 + draw(9) as usize, 21 + draw(19) as usize, 40];
        for pace in PACES {
            let mut queue = Emulated::default();
            for cut in cuts.windows(2) {
                let Ok(()) = schedule.enqueue(cut[0]..cut[1], &mut queue);
            }
            let order = queue.order(pace);
            assert_eq!(order.len(), 40, "{pace:?}");
            assert_eq!(memory(&launches, &order), expected, "{pace:?} in pieces {cuts:?}");
        }
        let bare = LaunchSchedule { streams: schedule.streams, launches: launches.clone() };
        let differs = |pace: &Pace| memory(&launches, &Emulated::of(&bare).order(*pace)) != expected;
        broken += usize::from(PACES.iter().any(differs));
        assert_eq!(bare.check().is_err(), schedule.launches.iter().any(|one| !one.waits.is_empty()));
    }
    assert!(broken > 30, "only {broken} cases depend on their events");
}

/// `d` draws, `.` does not. What is captured is shown in brackets, pieces are apart.
#[test]
fn a_sequence_is_cut_at_its_draws() {
    let cut = |text: &str| {
        let launch = |one: char| {
            let region = if one == 'd' { Region::Generator } else { Region::Arena };
            let accesses = vec![Access { region, from: 0, to: 1, writes: true }];
            Queued { instr: 0, stream: 0, waits: vec![], records: false, work: Work::Library, accesses }
        };
        let schedule = LaunchSchedule::ordered(text.chars().map(launch).collect());
        let shown = |GraphSegment { launches, captured }: GraphSegment| {
            let part = &text[launches];
            if captured { format!("[{part}]") } else { part.to_owned() }
        };
        graph_segments(&schedule).into_iter().map(shown).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(cut("...d...dd....."), "[...] d [...] dd [.....]");
    assert_eq!(cut("..d.d...d.."), "..d.d [...] d..");
    assert_eq!(cut("d"), "d");
    assert_eq!(cut(".."), "[..]", "without draws it is one graph");
    assert_eq!(cut(""), "");
}

fn memory(launches: &[Queued], order: &[usize]) -> Vec<u64> {
    let mut bytes = vec![0u64; 32];
    for &at in order {
        let mut sum = at as u64 + 1;
        for access in &launches[at].accesses {
            for &byte in &bytes[access.from as usize..access.to as usize] {
                sum = sum.wrapping_mul(31).wrapping_add(byte);
            }
        }
        for access in launches[at].accesses.iter().filter(|one| one.writes) {
            bytes[access.from as usize..access.to as usize].fill(sum);
        }
    }
    bytes
}
