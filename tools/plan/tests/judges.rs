//! Two judges that share no code: `rk_plan::judge` and `check_schedule.py`, on random graphs and on legal and illegal sequences.
//!
//! The checker knows one output per node and no optional fields; those are compared with a slow judge in `rk-solve`'s tests.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rk_plan::{Bytes, Graph, GraphBuilder, NodeId, NodeSpec, OutputSpec, Sequence, Time, json, judge};
use serde_json::{Value, json};

/// Answers one line of JSON with another: a graph and a schedule, and what the checker finds.
const DRIVER: &str = r#"
import json, sys
sys.path.insert(0, sys.argv[1])
import check_schedule as checker
for line in sys.stdin:
    case = json.loads(line)
    try:
        last, memory, time = checker.measure(checker.Graph(case["graph"]), case["schedule"])
        print(json.dumps({"peak": max(memory), "time": time, "memory": memory}))
    except checker.Rejected as rejected:
        print(json.dumps({"rejected": rejected.step}))
"#;

/// Where the checker lies: beside the checkout, or where RK_SHARED points.
fn tools() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared"));
    let named = std::env::var_os("RK_SHARED").map(PathBuf::from);
    let folders = named.into_iter().chain(beside).map(|folder| folder.join("tools"));
    folders.into_iter().find(|folder| folder.join("check_schedule.py").is_file())
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
}

fn graph(dice: &mut Dice) -> Graph {
    let mut builder = GraphBuilder::new("random");
    let mut made = Vec::new();
    for position in 0..1 + dice.below(14) {
        let count = dice.below(4).min(position);
        let reads: Vec<_> =
            (0..count).map(|_| made[made.len() - 1 - dice.below(made.len().min(5))]).collect();
        // From nothing to a petabyte.
        let bytes = [0, 1 + dice.below(9) as u64, 1_000_000_000_000_000][dice.below(3)];
        let node = builder.add(NodeSpec {
            time: Time([0, dice.below(50) as u64][dice.below(2)]),
            reads,
            outputs: vec![OutputSpec { bytes: Bytes(bytes), ..OutputSpec::default() }],
            ..NodeSpec::default()
        });
        made.extend(builder.output(node.expect("reads are earlier"), 0));
    }
    builder.finish().expect("not empty")
}

/// The given order, with random runs inserted, removed and exchanged: legal or not.
fn schedule(dice: &mut Dice, graph: &Graph) -> Sequence {
    let mut runs: Vec<NodeId> = graph.node_ids().collect();
    for _ in 0..dice.below(6) {
        runs.insert(dice.below(runs.len() + 1), NodeId(dice.below(graph.len()) as u32));
    }
    match dice.below(5) {
        0 => drop(runs.remove(dice.below(runs.len()))),
        1 => {
            let (one, other) = (dice.below(runs.len()), dice.below(runs.len()));
            runs.swap(one, other);
        }
        2 if dice.below(4) == 0 => runs.push(NodeId(graph.len() as u32)),
        _ => {}
    }
    Sequence(runs)
}

#[test]
fn the_judges_agree_on_random_schedules() {
    let Some(tools) = tools() else {
        eprintln!("skipped: no folder `shared` beside the checkout, and RK_SHARED is not set");
        return;
    };
    let mut driver = Command::new("python3");
    driver.args(["-c", DRIVER]).arg(&tools).stdin(Stdio::piped()).stdout(Stdio::piped());
    let Ok(mut python) = driver.spawn() else {
        eprintln!("skipped: there is no python3");
        return;
    };
    let mut dice = Dice(4);
    let cases: Vec<(Graph, Sequence)> = (0..1000)
        .map(|_| {
            let graph = graph(&mut dice);
            let schedule = schedule(&mut dice, &graph);
            (graph, schedule)
        })
        .collect();
    let mut lines = String::new();
    for (graph, schedule) in &cases {
        let graph: Value = serde_json::from_str(&json::write(graph)).expect("what is written is JSON");
        let ids: Vec<u32> = schedule.0.iter().map(|node| node.0).collect();
        lines += &format!("{}\n", json!({"graph": graph, "schedule": ids}));
    }
    let mut input = python.stdin.take().expect("piped");
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = python.wait_with_output().expect("python ends");
    writer.join().expect("no panic").expect("python reads everything");
    let answers: Vec<Value> = String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).expect("a line of JSON"))
        .collect();
    assert_eq!(answers.len(), cases.len());
    let mut legal = 0;
    for ((graph, schedule), theirs) in cases.iter().zip(&answers) {
        let context = || format!("{schedule:?} on\n{}", json::write(graph));
        match judge(graph, schedule) {
            Ok(trace) => {
                let memory: Vec<u64> = trace.memory.iter().map(|bytes| bytes.0).collect();
                let ours = json!({"peak": trace.peak.0, "time": trace.time.0, "memory": memory});
                assert_eq!(ours, *theirs, "{}", context());
                legal += 1;
            }
            Err(illegal) => assert!(theirs.get("rejected").is_some(), "{illegal}: {theirs}; {}", context()),
        }
    }
    assert!((200..800).contains(&legal), "{legal} of {} are legal", cases.len());
}
