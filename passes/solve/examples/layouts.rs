//! Layouts of given plans: how low the arena of a schedule gets in a time, by seed. What packing is worth, apart from the search
//! that found the plan.
//!
//! ```text
//! rk-plan GRAPH.json --budget 80% --schedule PLAN.json
//! layouts GRAPH.json PLAN.json [--seconds S] [--seeds FROM-TO] [--alignment BYTES] [--budget BYTES] [--same-time]
//! ```
//!
//! One line per seed: arena, peak, their ratio, and seconds. Runs may move, so the peak may become another one, up to `--budget BYTES`
//! (by default the plan's own). With `--same-time` none is added, as where a plan is proven to be the fastest.

use std::error::Error;
use std::time::{Duration, Instant};

use rk_plan::arena::check_no_overlap;
use rk_plan::{Bytes, NodeId, Sequence, base_trace, json, judge, working_set};
use rk_solve::{Addresses, Record, Request, Solver, with_addresses};

fn main() -> Result<(), Box<dyn Error>> {
    let (mut paths, mut seconds, mut seeds, mut alignment, mut budget) = (Vec::new(), 2.0, 0..1, None, None);
    let mut same_time = false;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "--seconds" => seconds = value()?.parse()?,
            "--alignment" => alignment = Some(value()?.parse()?),
            "--budget" => budget = Some(value()?.parse()?),
            "--same-time" => same_time = true,
            "--seeds" => {
                let text = value()?;
                let (from, to) = text.split_once('-').ok_or("seeds are FROM-TO")?;
                seeds = from.parse()?..to.parse::<u64>()? + 1;
            }
            _ => paths.push(arg),
        }
    }
    let [graph, plan] = paths.as_slice() else { return Err("a graph and a plan are needed".into()) };
    let graph = json::read(&std::fs::read_to_string(graph)?)?;
    let text = std::fs::read_to_string(plan)?;
    let (_, list) = text.split_once('[').ok_or("no schedule")?;
    let (list, _) = list.split_once(']').ok_or("no schedule")?;
    let ids = list.split(',').map(|id| id.trim().trim_matches('"').parse::<u32>().map(NodeId));
    let sequence: Sequence = ids.collect::<Result<_, _>>()?;
    let trace = judge(&graph, &sequence).map_err(|illegal| illegal.describe(&graph))?;
    let abstract_sizes = base_trace(&graph).peak < Bytes(1 << 20);
    let alignment = Bytes(alignment.unwrap_or(if abstract_sizes { 1 } else { 512 }));
    let (least, peak_holder) = working_set(&graph);
    let record = Record {
        plan: Some((Solver::Local, sequence)),
        offsets: None,
        lower_bound: if same_time { trace.time } else { graph.total_time() },
        fixed_order: false,
        infeasible_below: least,
        peak_holder,
        smallest: None,
    };
    for seed in seeds {
        let limit = Duration::try_from_secs_f64(seconds)?;
        let budget = Bytes(budget.unwrap_or(trace.peak.0));
        let request = Request { seed, ..Request::new(&graph, budget) };
        let outcome = record.recall(&request)?;
        let addresses = Addresses::within(alignment, Duration::from_secs(10));
        let start = Instant::now();
        let outcome = with_addresses(&request, outcome, addresses, limit);
        let plan = outcome.plan.ok_or("no plan")?;
        let arena = plan.arena.ok_or("no arena")?;
        check_no_overlap(&arena).map_err(|misplaced| misplaced.to_string())?;
        let ratio = arena.size.0 as f64 / arena.lower_bound.0 as f64;
        println!(
            "{} seed {seed}: {} / {} = {ratio:.4} in {:.2} s, time {}",
            graph.name(),
            arena.size.0,
            arena.lower_bound.0,
            start.elapsed().as_secs_f64(),
            plan.trace.time.0
        );
    }
    Ok(())
}
