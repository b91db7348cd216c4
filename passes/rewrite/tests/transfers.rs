//! Steps with transfers that were changed at random: what the laws of the IR accept, the judge of plans accepts, with the same numbers.
//!
//! The pass plans random steps, and each is checked as it was written. Then one line of it is moved, left out, written twice, or given
//! the operand of another.
//! The changed text is parsed, verified and judged as IR; and a reader of this file, which knows lines alone, makes runs and transfers
//! of it for `rk_plan::judge_transfers`. The two share no code.

use std::collections::{BTreeMap, HashMap};
use std::sync::Once;

use rk_dialect::{Context, ops::StepOp};
use rk_plan::transfer::{Latency, Rate};
use rk_plan::{Bytes, Direction, Graph, Host, Sequence, Transfer, TransferTrace, judge_transfers};
use rk_rewrite::planning::Problem;

/// The same numbers for the same seed (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % limit as u64).expect("below a usize")
    }
}

fn tensor(kilobytes: usize) -> String {
    format!("tensor<{}x32xf32>", 8 * kilobytes)
}

/// A chain whose nodes read older values, too. Some overwrite their operand, some draw random numbers.
fn costed(random: &mut Random) -> String {
    let count = 10 + random.below(12);
    let sizes: Vec<usize> = (0..count).map(|_| 1 + random.below(4)).collect();
    let (mut nodes, mut runs) = (String::new(), String::new());
    for at in 0..count {
        let mut reads: Vec<usize> = at.checked_sub(1).into_iter().collect();
        if at > 3 && random.below(2) == 0 {
            reads.push(random.below(at - 2));
        }
        let ty = |read: &usize| tensor(sizes[*read]);
        let takes: Vec<String> = if at == 0 { vec![tensor(1)] } else { reads.iter().map(ty).collect() };
        let names = (0..takes.len()).map(|number| format!("%x{number}"));
        let (names, typed): (Vec<String>, Vec<String>) =
            names.zip(&takes).map(|(name, ty)| (name.clone(), format!("{name}: {ty}"))).unzip();
        let makes = tensor(sizes[at]);
        let over = at > 0 && sizes[at] == sizes[at - 1] && random.below(2) == 0;
        let draws = !over && at > 0 && random.below(4) == 0;
        let (flags, clauses) = match (over, draws) {
            (true, _) => ("overwrites(0) ", " writes(0) aliases(0)"),
            (_, true) => ("random ", " random"),
            _ => ("", ""),
        };
        let (time, workspace) = (200 + 100 * random.below(20), 1024 * random.below(3));
        let (names, typed, takes) = (names.join(", "), typed.join(", "), takes.join(", "));
        let ends = if over { "%x0" } else { "%y" };
        nodes += &format!(
            "rk.node @n{at} {flags}cost <{time} ns, workspace {workspace} B> {{\n^bb0({typed}):\n  \
             %y = rk.aten \"aten.f.default\"({names}){clauses} : ({takes}) -> {makes}\n  rk.yield {ends} : {makes}\n}}\n"
        );
        let given: Vec<String> = reads.iter().map(|read| format!("%n{read}")).collect();
        let given = if at == 0 { "%x".to_owned() } else { given.join(", ") };
        runs += &format!("  %n{at} = rk.run @n{at}({given}) : ({takes}) -> {makes}\n");
    }
    let (takes, makes) = (tensor(1), tensor(sizes[count - 1]));
    format!(
        "{nodes}func.func @step(%x: {takes}) -> {makes} attributes {{rk.stage = #rk.stage<costed>}} {{\n{runs}  return %n{} : {makes}\n}}\n",
        count - 1
    )
}

fn registered() {
    static ONCE: Once = Once::new();
    ONCE.call_once(rk_rewrite::register_all);
}

/// The text that a pipeline makes of a step, and what it says.
fn run(text: &str, pipeline: &str) -> Result<(String, String), String> {
    registered();
    let context = Context::new();
    let lines = |said: Vec<_>| said.iter().map(ToString::to_string).collect::<Vec<String>>().join("\n");
    let module = context.parse(text, "step.mlir").map_err(lines)?;
    let said = module.run(&format!("builtin.module({pipeline})")).map_err(lines)?;
    Ok((module.op().to_string(), lines(said)))
}

/// The graph of a costed step, and its nodes by symbol.
fn graph(text: &str) -> Graph {
    registered();
    let context = Context::new();
    let module = context.parse(text, "step.mlir").expect("well-formed");
    let ops = module.body().ops();
    let step = ops.into_iter().find_map(StepOp::of).expect("a step");
    Problem::of(step, module.op()).expect("a problem").graph
}

/// Runs and transfers as the lines of a step name them. Every node `@n3` is node 3, and its value the one that it makes.
fn read(graph: &Graph, text: &str) -> (Sequence, Vec<Transfer>) {
    let (mut runs, mut transfers): (Vec<_>, Vec<Transfer>) = (Vec::new(), Vec::new());
    let mut node_of: HashMap<&str, usize> = HashMap::new();
    let mut transfer_of: HashMap<&str, usize> = HashMap::new();
    let lines = text.lines().skip_while(|line| !line.contains("func.func"));
    for line in lines.map(str::trim) {
        let word = |text: &str| text.split([' ', ',', '(']).next().map(str::len).unwrap_or(0);
        let (made, rest) = line.split_once(" = ").unwrap_or(("", line));
        let made = &made[..word(made)];
        if let Some(rest) = rest.strip_prefix("rk.run ") {
            let symbol = &rest[rest.find("@n").expect("a symbol") + 2..];
            let node: usize = symbol[..word(symbol)].parse().expect("a number");
            node_of.insert(made, node);
            runs.push(rk_plan::NodeId::from_index(node));
        } else if let Some((what, rest)) = rest.strip_prefix("rk.").and_then(|rest| rest.split_once(' ')) {
            let operand = &rest[..word(rest)];
            let direction = match what {
                "offload" => Direction::Offload,
                "fetch" => Direction::Fetch,
                "wait" => {
                    if let Some(&transfer) = transfer_of.get(operand) {
                        transfers[transfer].end = runs.len();
                    }
                    continue;
                }
                _ => continue,
            };
            let Some(&node) = node_of.get(operand) else { continue };
            node_of.insert(made, node);
            transfer_of.insert(made, transfers.len());
            let value = graph.node(rk_plan::NodeId::from_index(node)).writes[0];
            transfers.push(Transfer { value, direction, start: runs.len(), end: usize::MAX });
        }
    }
    (runs.into_iter().collect(), transfers)
}

/// Slow links have queues, fast ones many transfers.
const RATES: [u64; 3] = [2_000_000_000, 5_000_000_000, 16_000_000_000];
const LATENCY: u64 = 70;

fn judged(graph: &Graph, text: &str, rate: u64, host_budget: u64) -> Result<TransferTrace, String> {
    let (sequence, transfers) = read(graph, text);
    let host = Host::behind(Rate(rate), Latency(LATENCY), 1_000_000_000, Some(Bytes(host_budget)));
    judge_transfers(graph, &sequence, &transfers, &host).map_err(|error| error.to_string())
}

/// One line of the schedule moved, left out, written twice, or with another operand.
fn changed(text: &str, random: &mut Random) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let first = lines.iter().position(|line| line.contains("func.func")).expect("a step") + 1;
    let last = lines.iter().position(|line| line.trim_start().starts_with("return")).expect("its end");
    let moves =
        |line: &str| ["rk.offload", "rk.fetch", "rk.wait", "rk.drop"].iter().any(|op| line.contains(op));
    let places: Vec<usize> = (first..last).filter(|&at| moves(&lines[at]) || at % 7 == 0).collect();
    let at = places[random.below(places.len())];
    match random.below(8) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        // The operand of another wait or drop. Another one of a run or a transfer would be another step.
        2 if lines[at].contains("rk.wait") || lines[at].contains("rk.drop") => {
            let kind = |line: &str| {
                line.split("rk.").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned)
            };
            let others = (first..last).filter(|&other| kind(&lines[other]) == kind(&lines[at]));
            let others: Vec<usize> = others.collect();
            let other = lines[others[random.below(others.len())]].clone();
            lines[at] = other;
        }
        _ => {
            let line = lines.remove(at);
            let to =
                if random.below(2) == 0 { first + random.below(last - first) } else { at + random.below(5) };
            lines.insert(to.saturating_sub(2).clamp(first, last - 1), line);
        }
    }
    lines.join("\n") + "\n"
}

/// What an error of the IR is about.
fn law(said: &str) -> Option<&str> {
    let start = said.match_indices('S').map(|(at, _)| at).find(|&at| {
        said[at + 1..].starts_with(|digit: char| digit.is_ascii_digit())
            && !said[..at].ends_with(|letter: char| letter.is_alphanumeric())
    })?;
    let length = said[start + 1..].find(|digit: char| !digit.is_ascii_digit())?;
    Some(&said[start..start + 1 + length])
}

#[test]
fn what_the_ir_accepts_the_judge_accepts_with_the_same_numbers() {
    let mut random = Random(42);
    let (mut moved, mut accepted) = (0, 0);
    let mut refused: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..100 {
        let step = costed(&mut random);
        let graph = graph(&step);
        let (budget, rate) = (55 + random.below(35), RATES[random.below(RATES.len())]);
        let host_budget = 1024 * (4 + random.below(9)) as u64;
        let pass = format!(
            "rematerialize{{budget={budget}% offload bandwidth={rate}B/s latency={LATENCY}ns host-budget={host_budget} \
             timekeeping=work time-limit=200ms}}"
        );
        let planned = match run(&step, &pass) {
            Ok((planned, _)) => planned,
            Err(said) => {
                assert!(said.contains("no schedule of 'step'"), "{said}\n{step}");
                continue;
            }
        };
        let whole =
            judged(&graph, &planned, rate, host_budget).unwrap_or_else(|law| panic!("{law}\n{planned}"));
        let (_, said) = run(&planned, "rk-verify-schedule,rk-verify-stage")
            .unwrap_or_else(|said| panic!("{said}\n{planned}"));
        if whole.spans.is_empty() {
            continue;
        }
        assert!(said.contains(&format!("makespan {} ns", whole.makespan.0)), "{said}");
        moved += 1;
        for _ in 0..100 {
            let text = changed(&planned, &mut random);
            let by_judge = judged(&graph, &text, rate, host_budget);
            match (run(&text, "rk-verify-schedule"), by_judge) {
                (Ok((_, said)), Ok(trace)) => {
                    accepted += 1;
                    // Without transfers, there is nothing to say about them.
                    let (makespan, stall) = (trace.makespan.0, trace.stall().0);
                    let time = format!("makespan {makespan} ns, {stall} ns of it waits");
                    assert!(trace.spans.is_empty() || said.contains(&time), "{said}, not {time}\n{text}");
                }
                (Ok((_, said)), Err(law)) => panic!("accepted with {said}, but {law}\n{text}"),
                (Err(said), _) => *refused.entry(law(&said).unwrap_or("SSA").to_owned()).or_default() += 1,
            }
        }
    }
    println!("{moved} steps, {accepted} changed ones accepted, refused: {refused:?}");
    assert!(moved >= 20 && accepted >= 500, "{moved} steps, {accepted} changed ones accepted");
    for law in ["S1", "S2", "S3", "S7", "S10", "S11"] {
        assert!(refused.contains_key(law), "{law} refused none of them: {refused:?}");
    }
}

#[test]
fn s12_every_byte_less_in_host_memory_is_refused() {
    let mut random = Random(7);
    let mut tried = 0;
    for _ in 0..60 {
        let step = costed(&mut random);
        let pass = "rematerialize{budget=70% offload bandwidth=25GB/s timekeeping=work time-limit=200ms}";
        let Ok((planned, _)) = run(&step, pass) else { continue };
        let Some((_, rest)) = planned.split_once("rk.host_peak = ") else { panic!("no peak\n{planned}") };
        let peak: u64 = rest.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
        if peak == 0 {
            continue;
        }
        tried += 1;
        let with = |budget: u64| {
            planned.replace("rk.host_peak", &format!("rk.host_budget = {budget} : i64, rk.host_peak"))
        };
        assert!(run(&with(peak), "rk-verify-schedule").is_ok());
        let said = run(&with(peak - 1), "rk-verify-schedule").expect_err("a byte too many");
        assert!(said.contains("S12: ") && said.contains("in host memory while"), "{said}");
        let graph = graph(&step);
        assert!(judged(&graph, &with(peak), RATES[2], peak).is_ok());
        let law = judged(&graph, &with(peak), RATES[2], peak - 1).expect_err("a byte too many");
        assert!(law.starts_with("S12"), "{law}");
    }
    assert!(tried >= 5, "{tried} plans with transfers");
}
