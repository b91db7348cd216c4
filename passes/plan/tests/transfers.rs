//! Transfers: one hand-made schedule per law that breaks it, the accounting by hand, and a simulator that shares no code with the judge.

mod simulator;

use rk_plan::transfer::Fault;
use rk_plan::{
    Bytes, Direction, Engine, Graph, GraphBuilder, Host, NodeId, NodeSpec, OutputSpec, Sequence, Time,
    Transfer, TransferTrace, Unlawful, ValueId, arena, judge, judge_transfers, text,
};

/// `a` is large, and idle while `b` and `c` run.
const IDLE: &str = "a 8 1; b(a) 4 1; c(b) 4 1; d(c) 4 1; e(d) 4 1; f(e, a) 1 1";

fn graph(text: &str) -> Graph {
    text::read(text).unwrap_or_else(|error| panic!("{error}"))
}

/// A byte per tick in both directions.
fn link() -> Host {
    let engine = Engine { bytes: 1, ticks: 1, latency: Time(0) };
    Host { offload: engine, fetch: engine, budget: None }
}

fn offload(value: u32, start: usize, end: usize) -> Transfer {
    Transfer { value: ValueId(value), direction: Direction::Offload, start, end }
}

fn fetch(value: u32, start: usize, end: usize) -> Transfer {
    Transfer { value: ValueId(value), direction: Direction::Fetch, start, end }
}

fn judged(text: &str, transfers: &[Transfer], host: &Host) -> Result<TransferTrace, Unlawful> {
    let graph = graph(text);
    judge_transfers(&graph, &Sequence::base(&graph), transfers, host)
}

fn fault(text: &str, transfers: &[Transfer]) -> (usize, Fault) {
    match judged(text, transfers, &link()) {
        Err(Unlawful::S10NotThere { transfer, fault, .. }) => (transfer, fault),
        other => panic!("S10 should be broken: {other:?}"),
    }
}

#[test]
fn a_value_that_waits_in_host_memory_frees_the_device_between_two_waits() {
    let trace = judged(IDLE, &[offload(0, 1, 2), fetch(0, 4, 5)], &link()).expect("legal");
    let bytes: Vec<u64> = trace.device.memory.iter().map(|bytes| bytes.0).collect();
    assert_eq!(
        bytes,
        [8, 12, 8, 8, 16, 13],
        "`a` counts to the end of its offload and from the start of its fetch"
    );
    let host: Vec<u64> = trace.host_memory.iter().map(|bytes| bytes.0).collect();
    assert_eq!((host, trace.host_peak), (vec![0, 8, 8, 8, 8, 0], Bytes(8)));
    // Run 1 ends at 2 and waits for the copy of 8 ticks that began at 1; run 4 ends at 12, the fetch at 11 + 8.
    let passed: Vec<u64> = trace.passed.iter().map(|time| time.0).collect();
    assert_eq!(passed, [0, 1, 9, 10, 11, 19, 20]);
    assert_eq!(trace.spans, [(Time(1), Time(9)), (Time(11), Time(19))]);
    assert_eq!((trace.device.time, trace.makespan, trace.stall()), (Time(6), Time(20), Time(14)));
    let fast = Engine { bytes: 4, ticks: 1, latency: Time(1) };
    let host = Host { offload: fast, fetch: fast, budget: Some(Bytes(8)) };
    let trace = judged(IDLE, &[offload(0, 1, 2), fetch(0, 3, 5)], &host).expect("legal");
    assert_eq!((trace.makespan, trace.stall()), (Time(9), Time(3)), "a latency and two ticks each way");
}

#[test]
fn engines_serve_in_order_and_each_direction_by_itself() {
    let text = "a 4 1; b 4 1; c(a, b) 1 1; d(c) 1 9; e(d) 1 9; f(a, b, e) 1 1";
    let transfers = [offload(0, 3, 4), offload(1, 3, 4), fetch(0, 4, 5), fetch(1, 4, 5)];
    let trace = judged(text, &transfers, &link()).expect("legal");
    let spans: Vec<(u64, u64)> = trace.spans.iter().map(|span| (span.0.0, span.1.0)).collect();
    assert_eq!(spans, [(3, 7), (7, 11), (12, 16), (16, 20)]);
    assert_eq!(trace.makespan, Time(22), "both copies are hidden behind runs");
}

#[test]
fn one_offload_serves_several_fetches() {
    let text = "a 8 1; b(a) 1 1; c(b) 1 1; d(c, a) 1 1; e(d) 1 1; f(e) 1 1; g(f, a) 1 1";
    let transfers = [offload(0, 1, 2), fetch(0, 2, 3), fetch(0, 5, 6)];
    let trace = judged(text, &transfers, &link()).expect("legal");
    let bytes: Vec<u64> = trace.device.memory.iter().map(|bytes| bytes.0).collect();
    assert_eq!(bytes, [8, 9, 10, 10, 2, 10, 10], "gone behind its use at d, without a second offload");
    assert_eq!(trace.host_memory.iter().map(|bytes| bytes.0).collect::<Vec<_>>(), [0, 8, 8, 8, 8, 8, 0]);
}

#[test]
fn s10_a_transfer_moves_what_is_there() {
    assert_eq!(fault(IDLE, &[offload(9, 1, 2)]), (0, Fault::NoSuchValue));
    assert_eq!(fault(IDLE, &[offload(0, 0, 2)]), (0, Fault::NotOnTheDevice), "not made yet");
    assert_eq!(fault(IDLE, &[offload(0, 1, 3), offload(0, 2, 4)]), (1, Fault::NotOnTheDevice), "on its way");
    assert_eq!(fault(IDLE, &[fetch(0, 1, 2)]), (0, Fault::NotInTheHost), "never offloaded");
    assert_eq!(fault(IDLE, &[offload(0, 1, 3), fetch(0, 2, 4)]), (1, Fault::NotInTheHost), "not whole yet");
    assert_eq!(fault(IDLE, &[offload(0, 2, 2)]), (0, Fault::Ends));
    assert_eq!(fault(IDLE, &[offload(0, 1, 7)]), (0, Fault::Ends));
    assert_eq!(fault("a 8 1 pin; b(a) 8 1; c(b) 8 1", &[offload(0, 1, 2)]), (0, Fault::Pinned));
    let no_engine = Host { fetch: Engine { bytes: 0, ..link().fetch }, ..link() };
    let refused = judged(IDLE, &[offload(0, 1, 2), fetch(0, 4, 5)], &no_engine).expect_err("no engine");
    insta::assert_snapshot!(refused, @"S10 broken by transfer 1, fetch of value 0: there is no engine in this direction");
    // A copy of an earlier run is of no use once the value is made again.
    let graph = graph("a 8 1; b(a) 4 1; c(b) 4 1; d(c, a) 4 1");
    let again: Sequence = [0, 1, 2, 0, 3].map(NodeId).into_iter().collect();
    let stale = judge_transfers(&graph, &again, &[offload(0, 1, 2), fetch(0, 4, 5)], &link());
    assert!(
        matches!(stale, Err(Unlawful::S10NotThere { transfer: 1, fault: Fault::NotInTheHost, .. })),
        "{stale:?}"
    );
}

#[test]
fn s11_nobody_reads_what_is_away_or_makes_what_is_on_its_way() {
    let away = judged(IDLE, &[offload(0, 1, 2)], &link()).expect_err("f reads it");
    assert_eq!(away, Unlawful::S11Away { step: 5, node: NodeId(5), value: ValueId(0), reads: true });
    insta::assert_snapshot!(away, @"S11 broken at step 5: node 5 reads value 0, which is away");
    let early =
        judged(IDLE, &[offload(0, 1, 2), fetch(0, 4, 6)], &link()).expect_err("the fetch ends behind f");
    assert!(matches!(early, Unlawful::S11Away { step: 5, reads: true, .. }));
    let graph = graph("a 8 1; b(a) 4 1; c(b) 4 1; d(c, a) 4 1");
    let again: Sequence = [0, 1, 2, 0, 3].map(NodeId).into_iter().collect();
    let made =
        judge_transfers(&graph, &again, &[offload(0, 2, 4)], &link()).expect_err("a runs again meanwhile");
    assert_eq!(made, Unlawful::S11Away { step: 3, node: NodeId(0), value: ValueId(0), reads: false });
    assert!(judge_transfers(&graph, &again, &[offload(0, 2, 3)], &link()).is_ok());
}

#[test]
fn s12_what_waits_fits_in_the_hosts_budget() {
    let host = Host { budget: Some(Bytes(7)), ..link() };
    let over = judged(IDLE, &[offload(0, 1, 2), fetch(0, 4, 5)], &host).expect_err("8 bytes");
    assert_eq!(over, Unlawful::S12OverHostBudget { step: 1, memory: Bytes(8), budget: Bytes(7) });
    insta::assert_snapshot!(over, @"S12 broken at step 1: 8 bytes are in host memory, its budget is 7");
}

#[test]
fn the_laws_of_runs_hold_beside_transfers() {
    let early = graph(IDLE);
    let wrong = judge_transfers(&early, &[1, 0, 2, 3, 4, 5].map(NodeId).into_iter().collect(), &[], &link());
    assert!(wrong.is_err_and(|error| error.to_string().starts_with("S1 ")));
    // S6: what an offload still reads is not taken over, and what was fetched can be.
    let text = "a 8 1; b(a) 8 1 over=a; c(b) 8 1; d(c) 8 1; e(d, a) 8 1 over=a";
    let read = judged(text, &[offload(0, 1, 2), fetch(0, 3, 4)], &link()).expect("legal");
    assert_eq!(read.device.overwrites, [false, false, false, false, true]);
    let graph = graph(IDLE);
    let base = Sequence::base(&graph);
    let trace = judge_transfers(&graph, &base, &[offload(0, 1, 2), fetch(0, 4, 5)], &link()).expect("legal");
    assert!(trace.device.within(&graph, &base, Bytes(16)).is_ok());
    assert!(
        trace
            .device
            .within(&graph, &base, Bytes(15))
            .is_err_and(|error| error.to_string().starts_with("S7 "))
    );
}

/// SplitMix64.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) % limit.max(1) as u64) as usize
    }

    fn between(&mut self, low: usize, high: usize) -> usize {
        low + self.below(high.saturating_sub(low) + 1)
    }
}

fn random_graph(dice: &mut Dice) -> Graph {
    let mut builder = GraphBuilder::new("random");
    let mut made: Vec<(ValueId, u64)> = Vec::new();
    for _ in 0..dice.between(3, 9) {
        let count = if made.is_empty() { 0 } else { dice.below(4) };
        let mut reads: Vec<(ValueId, u64)> = (0..count).map(|_| made[dice.below(made.len())]).collect();
        reads.extend(made.last().filter(|_| dice.below(4) > 0));
        let over = reads.first().copied().filter(|_| dice.below(3) == 0);
        let outputs = (0..dice.between(1, 2)).map(|_| OutputSpec {
            bytes: Bytes(dice.below(9) as u64),
            pinned: dice.below(9) == 0,
            ..OutputSpec::default()
        });
        let mut outputs: Vec<OutputSpec> = outputs.collect();
        if let Some((_, bytes)) = over {
            outputs[0].bytes = Bytes(bytes);
        }
        let sizes: Vec<u64> = outputs.iter().map(|output| output.bytes.0).collect();
        let spec = NodeSpec {
            time: Time(dice.below(9) as u64),
            workspace: Bytes(dice.below(3) as u64),
            state: Bytes(dice.below(2) as u64),
            reads: reads.iter().map(|read| read.0).collect(),
            overwrites: over.map(|over| over.0),
            outputs,
            ..NodeSpec::default()
        };
        let node = builder.add(spec).expect("reads are earlier");
        made.extend(
            sizes
                .iter()
                .enumerate()
                .filter_map(|(index, &bytes)| Some((builder.output(node, index)?, bytes))),
        );
    }
    builder.finish().expect("not empty")
}

/// The given order with a few more runs, all legal.
fn random_runs(dice: &mut Dice, graph: &Graph) -> Sequence {
    let mut runs: Vec<NodeId> = graph.node_ids().collect();
    for _ in 0..dice.below(4) {
        let at = dice.between(1, runs.len());
        runs.insert(at, runs[dice.below(at)]);
    }
    Sequence(runs)
}

/// Transfers around idle times, most of them legal, and some that are anything.
fn random_transfers(dice: &mut Dice, graph: &Graph, runs: &Sequence) -> Vec<Transfer> {
    let (n, mut transfers) = (runs.0.len(), Vec::new());
    for index in 0..graph.values().len() {
        let value = ValueId::from_index(index);
        let about = graph.value(value);
        if dice.below(2) == 0 || (about.pinned && dice.below(20) > 0) {
            continue;
        }
        let touches =
            |run: &usize| runs.0[*run] == about.producer || graph.node(runs.0[*run]).reads.contains(&value);
        let mut touched: Vec<usize> = (0..n).filter(touches).collect();
        touched.push(n);
        let mut copied = false;
        for pair in touched.windows(2) {
            copied &= runs.0[pair[0]] != about.producer;
            let (from, to) = (pair[0] + 1, pair[1]);
            if to < from + 2 || dice.below(3) == 0 {
                continue;
            }
            let middle = dice.between(from + 1, to - 1);
            let offload = Transfer {
                value,
                direction: Direction::Offload,
                start: dice.between(from, middle - 1),
                end: middle,
            };
            let start = dice.between(middle, to - 1);
            let fetch =
                Transfer { value, direction: Direction::Fetch, start, end: dice.between(start + 1, to) };
            if !copied || dice.below(2) == 0 {
                transfers.push(offload);
            }
            if to < n || dice.below(2) == 0 {
                transfers.push(fetch);
                copied = true;
            }
        }
    }
    if !transfers.is_empty() && dice.below(6) == 0 {
        let at = dice.below(transfers.len());
        match dice.below(3) {
            0 => drop(transfers.remove(at)),
            1 => transfers[at].start = dice.below(n + 1),
            _ => transfers[at].end = dice.below(n + 2),
        }
    }
    for at in (1..transfers.len()).rev() {
        transfers.swap(at, dice.below(at + 1));
    }
    transfers
}

#[test]
fn the_judge_and_the_simulator_agree_on_random_schedules() {
    let mut dice = Dice(7);
    let (mut legal, mut moved, mut twice, mut stalled, mut refused) = (0, 0, 0, 0, [0; 2]);
    for case in 0..6000 {
        let graph = random_graph(&mut dice);
        let runs = random_runs(&mut dice, &graph);
        let transfers = random_transfers(&mut dice, &graph, &runs);
        let engine = |dice: &mut Dice| Engine {
            bytes: dice.between(1, 4) as u64,
            ticks: dice.between(1, 3) as u64,
            latency: Time(dice.below(3) as u64),
        };
        let host = Host { offload: engine(&mut dice), fetch: engine(&mut dice), budget: None };
        let context = || format!("case {case}: {runs:?} {transfers:?}\n{}", rk_plan::json::write(&graph));
        let ours = judge_transfers(&graph, &runs, &transfers, &host);
        let trace = match (ours, simulator::lives(&graph, &runs, &transfers)) {
            (Ok(trace), Ok(lives)) => (trace, lives),
            (Err(error), Err(_)) => {
                refused[usize::from(error.to_string().starts_with("S11"))] += 1;
                continue;
            }
            (ours, theirs) => panic!("{ours:?} {theirs:?} {}", context()),
        };
        let (trace, (device, kept)) = trace;
        let run_time: Vec<u64> = runs.0.iter().map(|&node| graph.node(node).time.0).collect();
        let copy_time = |one: &Transfer| {
            let engine = host.engine(one.direction);
            engine.latency.0 + (graph.value(one.value).bytes.0 * engine.ticks).div_ceil(engine.bytes)
        };
        let copy_time: Vec<u64> = transfers.iter().map(copy_time).collect();
        let peaks = (simulator::peak(&device, runs.0.len()), simulator::peak(&kept, runs.0.len()));
        assert_eq!((trace.device.peak.0, trace.host_peak.0), peaks, "{}", context());
        let (makespan, most, most_host) = simulator::play(&transfers, &run_time, &copy_time, &device, &kept);
        assert_eq!(trace.makespan.0, makespan, "{}", context());
        assert_eq!((most, most_host), peaks, "{}", context());
        // Any other timing: the makespan is another one, and neither peak is.
        let other_runs: Vec<u64> = run_time.iter().map(|_| dice.below(20) as u64).collect();
        let other_copies: Vec<u64> = copy_time.iter().map(|_| dice.below(40) as u64).collect();
        let (_, most, most_host) = simulator::play(&transfers, &other_runs, &other_copies, &device, &kept);
        assert_eq!((most, most_host), peaks, "{}", context());
        // Addresses follow from the same lives.
        let packed = arena::pack_with(&graph, &runs, &trace.device, Bytes(1), 10_000);
        assert_eq!(arena::check_no_overlap(&packed), Ok(()), "{}", context());
        assert!(packed.lower_bound == trace.device.peak, "{}", context());
        if transfers.is_empty() {
            assert_eq!(Ok(&trace.device), judge(&graph, &runs).as_ref(), "nothing changes without transfers");
            assert_eq!((trace.makespan, trace.host_peak), (trace.device.time, Bytes(0)));
        }
        legal += 1;
        moved += usize::from(transfers.len() > 1);
        stalled += usize::from(trace.stall() > Time(0));
        twice += usize::from(runs.0.len() > graph.len());
    }
    assert!(
        legal > 3000 && moved > 1500 && stalled > 1000 && twice > 1500,
        "{legal} {moved} {stalled} {twice}"
    );
    assert!(refused.iter().all(|&count| count > 30), "{refused:?}");
}
