//! Random programs and broken logs: nothing panics, searches agree, the books balance.
//!
//! `RK_FUZZ_CASES` sets the number of cases per property (default 300, seconds). Failing seeds are kept in
//! `tests/fuzz-seeds.txt` and run first from then on.

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use rk_dtr::{
    Baseline, Bytes, Heuristic, LogError, LogReader, Nanos, Online, Options, Output, Policy, Program,
    Runtime, Scan, Status, Step, Stop, TensorId, simulate,
};
use serde_json::{Value, json};

/// One instruction; numbers are reduced to what is in range when the log is written.
#[derive(Clone, Debug)]
enum Event {
    Constant(u64),
    Call { args: Vec<usize>, results: Vec<(u64, Option<usize>)>, time: u64 },
    Mutate { args: Vec<usize>, written: Vec<usize>, time: u64 },
    Copy(usize),
    CopyFrom(usize, usize),
    Release(usize),
}

fn sizes() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0u64..6, 4 => 1u64..200, 1 => 0u64..(1 << 42)]
}

fn times() -> impl Strategy<Value = u64> {
    prop_oneof![1 => Just(0u64), 4 => 1u64..20, 2 => 1u64..(1 << 33)]
}

fn names(most: usize) -> impl Strategy<Value = Vec<usize>> {
    // Mostly recent names, so that programs get deep.
    prop::collection::vec(prop_oneof![3 => 0usize..4, 1 => 0usize..1000], 0..most)
}

/// Marks a name that is counted from the first instead of from the latest.
const ABSOLUTE: usize = 1 << 20;

/// Layers forward, then backward in reverse with the activations as further arguments: recomputation goes deep.
fn training() -> impl Strategy<Value = Vec<Event>> {
    let layer = (0u8..8, 1u64..60, times(), any::<bool>());
    (1u64..40, prop::collection::vec(layer, 3..24), events()).prop_map(|(weight, layers, noise)| {
        let mut events = vec![Event::Constant(weight)];
        let mut outputs = vec![0];
        let mut noise = noise.into_iter();
        let mut count = 1;
        for &(kind, size, time, disturbed) in &layers {
            let input = ABSOLUTE + outputs[outputs.len() - 1];
            let mut results = vec![(size, (kind == 0).then_some(0))];
            results.extend((kind % 3 == 1).then_some((size / 2, (kind == 4).then_some(0))));
            let args = if kind < 6 { vec![input] } else { vec![input, ABSOLUTE] };
            outputs.push(count);
            count += results.len();
            events.push(Event::Call { args, results, time });
            if kind == 5 {
                events.push(Event::Mutate { args: vec![ABSOLUTE + count - 1], written: vec![0], time });
            }
            // Names made by the noise shift nothing: only events that make none are taken.
            let silent =
                |e: &Event| matches!(e, Event::Release(_) | Event::CopyFrom(..) | Event::Mutate { .. });
            events.extend(noise.next().filter(|e| disturbed && silent(e)));
        }
        for (&(kind, size, time, released), pair) in layers.iter().zip(outputs.windows(2)).rev() {
            let args = vec![ABSOLUTE + pair[1], ABSOLUTE + count - 1, ABSOLUTE + pair[0]];
            events.push(Event::Call { args, results: vec![(size, (kind == 7).then_some(2))], time });
            events.extend(released.then_some(Event::Release(ABSOLUTE + pair[1])));
            events.extend(
                (kind % 2 == 0 && count > pair[1] + 1).then_some(Event::Release(ABSOLUTE + count - 1)),
            );
            count += 1;
        }
        events
    })
}

fn programs() -> impl Strategy<Value = Vec<Event>> {
    prop_oneof![events(), training(), training()]
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let result = (sizes(), prop_oneof![3 => Just(None), 1 => (0usize..8).prop_map(Some)]);
    let call = (names(4), prop::collection::vec(result, 1..4), times());
    let event = prop_oneof![
        1 => sizes().prop_map(Event::Constant),
        8 => call.prop_map(|(args, results, time)| Event::Call { args, results, time }),
        1 => (names(4), prop::collection::vec(0usize..8, 1..3), times())
            .prop_map(|(args, written, time)| Event::Mutate { args, written, time }),
        1 => (0usize..1000).prop_map(Event::Copy),
        1 => (0usize..1000, 0usize..1000).prop_map(|(a, b)| Event::CopyFrom(a, b)),
        4 => prop_oneof![1 => 0usize..6, 1 => 0usize..1000].prop_map(Event::Release),
    ];
    prop::collection::vec(event, 1..70)
}

/// Writes a valid log. Names are counted from the latest backwards. Some programs use what they have released.
fn write(events: &[Event]) -> Vec<Value> {
    let mut lines = vec![json!({"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"})];
    let mut count = 0usize;
    for event in events {
        let name = |back: usize| match back.checked_sub(ABSOLUTE) {
            Some(from_the_first) => format!("x{}", from_the_first % count),
            None => format!("x{}", count - 1 - back % count),
        };
        let memory = |name: &str, size: u64| json!({"INSTRUCTION": "MEMORY", "NAME": name, "MEMORY": size.to_string()});
        match event {
            Event::Constant(size) => {
                let new = format!("x{count}");
                lines.push(json!({"INSTRUCTION": "CONSTANT", "NAME": new}));
                lines.push(memory(&new, *size));
                count += 1;
            }
            Event::Call { args, results, time } => {
                let args: Vec<_> = if count == 0 { vec![] } else { args.iter().map(|&a| name(a)).collect() };
                let new: Vec<_> = (0..results.len()).map(|i| format!("x{}", count + i)).collect();
                lines.push(json!({"INSTRUCTION": "CALL", "NAME": "f", "ARGS": args, "RESULT": new, "TIME": time.to_string()}));
                for (new, (size, alias)) in new.iter().zip(results) {
                    let alias = alias.filter(|_| !args.is_empty()).map_or(-1, |a| (a % args.len()) as i64);
                    lines.push(memory(new, *size));
                    lines.push(json!({"INSTRUCTION": "ALIAS", "NAME": new, "ALIAS": alias.to_string()}));
                }
                count += results.len();
            }
            Event::Mutate { args, written, time } if count > 0 && !args.is_empty() => {
                let written: Vec<_> = written.iter().map(|w| w % args.len()).collect();
                let args: Vec<_> = args.iter().map(|&a| name(a)).collect();
                lines.push(json!({"INSTRUCTION": "MUTATE", "NAME": "f_", "ARGS": args, "MUTATE": written, "TIME": time.to_string()}));
            }
            Event::Copy(src) if count > 0 => {
                lines.push(json!({"INSTRUCTION": "COPY", "DST": format!("x{count}"), "SRC": name(*src)}));
                count += 1;
            }
            Event::CopyFrom(dst, src) if count > 0 => {
                lines.push(json!({"INSTRUCTION": "COPY_FROM", "DST": name(*dst), "SRC": name(*src)}));
            }
            Event::Release(back) if count > 0 => {
                lines.push(json!({"INSTRUCTION": "RELEASE", "NAME": name(*back)}));
            }
            _ => (),
        }
    }
    lines
}

fn read<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Result<Program, LogError> {
    let mut reader = LogReader::new();
    for line in lines {
        reader.line(line)?;
    }
    reader.finish()
}

fn program(events: &[Event]) -> Program {
    let lines: Vec<String> = write(events).iter().map(Value::to_string).collect();
    read(lines.iter().map(String::as_bytes)).expect("the log is valid")
}

fn config() -> ProptestConfig {
    let cases = std::env::var("RK_FUZZ_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300);
    let seeds = FileFailurePersistence::Direct("tests/fuzz-seeds.txt");
    ProptestConfig {
        cases,
        failure_persistence: Some(Box::new(seeds)),
        max_shrink_iters: 20_000,
        ..Default::default()
    }
}

/// Tensors that are referenced at the end, and how often.
type Held = Vec<(TensorId, i64)>;

/// Walks a program through the entries of an online world. Ids differ from the program's once some are given again.
/// Where tensors are forgotten, a release of what has no reference left is ignored, and so is one that would forget
/// what is used later: no online world can do either.
fn replay_online(program: &Program, runtime: &mut Runtime<()>) -> Result<Held, Stop> {
    let forgets = runtime.options().online.forget;
    let mut last_use = vec![0; program.tensors()];
    for (at, &step) in program.steps().iter().enumerate() {
        match step {
            Step::Compute(id) => program.call(id).args.iter().for_each(|a| last_use[a.index()] = at),
            Step::Get(t) | Step::Pin(t) | Step::Release(t) => last_use[t.index()] = at,
        }
    }
    let mut held: Held = Vec::new();
    for (at, &step) in program.steps().iter().enumerate() {
        match step {
            Step::Compute(id) => {
                let call = program.call(id);
                let total = call.outputs.iter().map(|o| if let Output::Fresh(b) = o { b.0 } else { 0 }).sum();
                let args: Vec<_> = call.args.iter().map(|a| held[a.index()].0).collect();
                runtime.hold(&args)?;
                runtime.make_room(Bytes(total))?;
                let linked = runtime.record(call.cost, &args, call.outputs);
                let first = runtime.first_output(linked).index() as u32;
                held.extend((0..call.outputs.len() as u32).map(|o| (TensorId::new(first + o), 1)));
                runtime.let_go(&args);
                runtime.trim()?;
            }
            Step::Get(tensor) => {
                runtime.get(held[tensor.index()].0);
                held[tensor.index()].1 += 1;
            }
            Step::Pin(tensor) => runtime.pin(held[tensor.index()].0)?,
            Step::Release(tensor) => {
                let at_index = tensor.index();
                let (tensor, references) = &mut held[at_index];
                let needed = *references == 1 && last_use[at_index] > at;
                if !forgets || *references > 0 && !needed {
                    *references -= 1;
                    runtime.release(*tensor)?;
                }
            }
        }
    }
    Ok(if forgets { held } else { Vec::new() })
}

fn status(end: &Result<Held, Stop>) -> Status {
    match end {
        Ok(_) => Status::Ok,
        Err(Stop::OutOfMemory { .. }) => Status::OutOfMemory,
        Err(Stop::Thrashed { .. }) => Status::Thrashed,
        Err(Stop::World(never)) => match *never {},
    }
}

proptest! {
    #![proptest_config(config())]

    /// A pruned search with late walks and a full one with eager walks are two implementations of one rule.
    #[test]
    fn pruned_and_full_scans_agree(events in programs(), ratio in 0.05f64..1.05) {
        let program = program(&events);
        let baseline = Baseline::of(&program);
        for policy in Policy::ALL {
            for heuristic in Heuristic::ALL.into_iter().filter(|&h| policy.supports(h)) {
                let pruned = baseline.options(heuristic, policy, ratio);
                // Calls that cost nothing can be run again for ever; a small limit in time cannot stop those.
                let limit = Nanos(pruned.remat_limit.0.min(1 << 40));
                let pruned = Options { remat_limit: limit, ..pruned };
                let (a, b) = (simulate(&program, &pruned), simulate(&program, &Options { scan: Scan::Full, ..pruned }));
                prop_assert_eq!((a.status, a.counters), (b.status, b.counters), "{} {}", policy, heuristic);
            }
        }
    }

    /// What must hold of every run, whatever was evicted.
    #[test]
    fn the_books_balance(events in programs(), ratio in 0.05f64..1.05, which in 0usize..23, seed: u64) {
        let program = program(&events);
        let baseline = Baseline::of(&program);
        let total: u64 = program.calls().map(|c| c.cost.0).sum();
        prop_assert_eq!(baseline.compute, Nanos(total));
        for policy in Policy::ALL {
            let heuristic = Heuristic::ALL[which];
            if !policy.supports(heuristic) {
                continue;
            }
            let options = Options { seed, ..baseline.options(heuristic, policy, ratio) };
            let outcome = simulate(&program, &options);
            let counters = outcome.counters;
            prop_assert_eq!(counters.clock, Nanos(1 + counters.model.0 + counters.remat.0));
            prop_assert!(counters.max_memory <= options.budget && counters.memory <= counters.max_memory);
            prop_assert!(counters.model <= baseline.compute);
            if outcome.status == Status::Ok {
                prop_assert_eq!(counters.model, baseline.compute);
                prop_assert!(counters.remat <= options.remat_limit);
            }
            prop_assert_eq!(outcome, simulate(&program, &options), "the same seed gives the same run");
        }
        // The same with segments, on the program over and over, so that there are some.
        let heuristic = Heuristic::ALL[which];
        if heuristic.weighs_segments() {
            let program = self::program(&[&events[..]; 4].concat());
            let baseline = Baseline::of(&program);
            let options = baseline.options(heuristic, Policy::Eager, ratio);
            let limit = Nanos(options.remat_limit.0.min(1 << 40));
            let online = Online { segments: true, ..Online::default() };
            let options = Options { remat_limit: limit, online, ..options };
            let outcome = simulate(&program, &options);
            let counters = outcome.counters;
            prop_assert_eq!(counters.clock, Nanos(1 + counters.model.0 + counters.remat.0));
            prop_assert!(counters.max_memory <= options.budget);
            prop_assert!(outcome.status != Status::Ok || counters.model == baseline.compute);
            let found = outcome.segments.unwrap_or_default();
            prop_assert!(found.covered <= found.calls && found.classes <= found.instances);
            prop_assert_eq!(outcome, simulate(&program, &options));
        }
    }

    /// Calls that are linked after their first run, as an online world does it, are the same to every heuristic that
    /// does not look at neighbours: those see the outputs of the present call while its arguments are recomputed.
    #[test]
    fn online_entries_keep_the_same_books(events in programs(), ratio in 0.05f64..1.05, which in 0usize..23) {
        let program = program(&events);
        let heuristic = Heuristic::ALL[which];
        let baseline = Baseline::of(&program);
        let options = baseline.options(heuristic, Policy::Eager, ratio);
        let limit = Nanos(options.remat_limit.0.min(1 << 40));
        let options = Options { remat_limit: limit, ..options };
        if Policy::Banish.supports(heuristic) && heuristic != Heuristic::DTR && !heuristic.is_random() {
            let mut online = Runtime::new(options, ());
            let status = status(&replay_online(&program, &mut online));
            let expected = simulate(&program, &options);
            prop_assert_eq!((status, online.counters()), (expected.status, expected.counters), "{}", heuristic);
        }
        // Forgetting changes who is in the pool, hence who is evicted; it must change nothing else, and leave nothing.
        let online = Online { forget: true, ..Online::default() };
        let mut forgetful = Runtime::new(Options { online, ..options }, ());
        let end = replay_online(&program, &mut forgetful);
        let counters = forgetful.counters();
        prop_assert!(counters.max_memory <= options.budget);
        prop_assert_eq!(counters.clock, Nanos(1 + counters.model.0 + counters.remat.0));
        if let Ok(tensors) = end {
            prop_assert_eq!(counters.model, baseline.compute);
            for (tensor, references) in tensors {
                (0..references).try_for_each(|_| forgetful.release(tensor)).expect("releasing computes nothing");
            }
            prop_assert_eq!((forgetful.in_use(), forgetful.counters().memory), ([0; 3], Bytes(0)));
        }
    }

    /// Without a limit nobody is evicted by a heuristic, so all heuristics agree.
    #[test]
    fn without_a_limit_heuristics_do_not_matter(events in programs(), which in 0usize..23) {
        let program = program(&events);
        let options = |heuristic| Options {
            heuristic,
            policy: Policy::Eager,
            budget: Bytes::UNLIMITED,
            remat_limit: Nanos::UNLIMITED,
            scan: Scan::Pruned,
            seed: 0,
            online: Online::default(),
        };
        let (a, b) = (simulate(&program, &options(Heuristic::LRU)), simulate(&program, &options(Heuristic::ALL[which])));
        prop_assert_eq!(a.counters, b.counters);
        prop_assert_eq!(a.counters.evals, 0);
    }

    /// A damaged log is read or refused at one of its lines.
    #[test]
    fn a_damaged_log_is_refused_at_a_line(
        events in programs(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, any::<u8>()), 1..6),
    ) {
        let text: Vec<String> = write(&events).iter().map(Value::to_string).collect();
        let mut bytes = text.join("\n").into_bytes();
        for (at, kind, byte) in damage {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match kind {
                0 => bytes[at] = byte,
                1 => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                3 => bytes.truncate(at),
                // A digit changed keeps the line valid and its meaning broken.
                _ => if let Some(digit) = bytes.iter().skip(at).position(u8::is_ascii_digit) {
                    bytes[at + digit] = b'0' + byte % 10;
                },
            }
        }
        let lines = bytes.split(|&b| b == b'\n');
        let count = lines.clone().count() as u64;
        match read(lines) {
            Ok(program) => {
                let baseline = Baseline::of(&program);
                simulate(&program, &baseline.options(Heuristic::DTR, Policy::Eager, 0.5));
            }
            Err(error) => {
                prop_assert!((1..=count).contains(&error.line), "{}", error);
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    /// Arbitrary bytes are refused.
    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(read(bytes.split(|&b| b == b'\n')).is_err());
    }
}
