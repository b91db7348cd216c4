//! Bounds and plans over a folder of graphs with a `best_known.csv`, one line per cell.
//!
//! ```text
//! bound_table DIR [--solver NAME | --bound | --chain] [--seconds S] [--save DIR] [CELL PREFIX]...
//! ```
//!
//! `--bound` (the default) prints the order-free cut bound, `--chain` raises it below the best known plan, `--solver` solves,
//! and with `--save` writes each plan as `{"schedule": [...]}`.

use std::error::Error;
use std::time::{Duration, Instant};

use rk_plan::{Budget, Graph, Time, base_trace, json};
use rk_solve::bound::{order_free, raise_by_chain};
use rk_solve::milp::Options;
use rk_solve::{Request, Solver, solve};

enum Mode {
    Bound,
    Chain,
    Solve(Solver),
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let dir = args
        .next()
        .ok_or("usage: bound_table DIR [--solver NAME | --bound | --chain] [--seconds S] [CELL]...")?;
    let (mut mode, mut seconds, mut save, mut wanted) = (Mode::Bound, 10.0, None, Vec::new());
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--bound" => mode = Mode::Bound,
            "--chain" => mode = Mode::Chain,
            "--solver" => mode = Mode::Solve(args.next().ok_or("--solver needs a name")?.parse()?),
            "--seconds" => seconds = args.next().ok_or("--seconds needs a number")?.parse()?,
            "--save" => save = Some(args.next().ok_or("--save needs a folder")?),
            _ => wanted.push(arg),
        }
    }
    let limit = Duration::try_from_secs_f64(seconds)?;
    let csv = std::fs::read_to_string(format!("{dir}/best_known.csv"))?;
    let mut seen = Vec::new();
    for line in csv.lines().skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [name, _, fraction, _, _, _, best, ..] = fields[..] else { continue };
        let cell = format!("{name}@{fraction}");
        if seen.contains(&cell)
            || !(wanted.is_empty() || wanted.iter().any(|prefix| cell.starts_with(prefix)))
        {
            continue;
        }
        let graph = json::read(&std::fs::read_to_string(format!("{dir}/{name}.json"))?)?;
        let (text, schedule) = row(&graph, fraction, best, &mode, limit)?;
        println!("{cell:17} {text} | known {best}");
        if let (Some(save), Some(schedule)) = (&save, schedule) {
            std::fs::write(format!("{save}/{cell}.json"), schedule)?;
        }
        seen.push(cell);
    }
    Ok(())
}

fn row(
    graph: &Graph,
    fraction: &str,
    best: &str,
    mode: &Mode,
    limit: Duration,
) -> Result<(String, Option<String>), Box<dyn Error>> {
    let budget = Budget::parse_with_fractions(fraction)?.resolve(base_trace(graph).peak);
    let base = graph.total_time().0 as f64;
    let percent = |time: Time| 100.0 * (time.0 as f64 / base - 1.0);
    let start = Instant::now();
    if let Mode::Solve(solver) = *mode {
        let outcome = solve(&Request { solver, time_limit: limit, ..Request::new(graph, budget) });
        let schedule = outcome.plan.as_ref().map(|plan| {
            let ids: Vec<String> = plan.sequence.0.iter().map(|node| node.0.to_string()).collect();
            format!("{{\"schedule\": [{}]}}\n", ids.join(","))
        });
        let plan = outcome.plan.map(|plan| format!("{:.4} by {}", percent(plan.trace.time), plan.solver));
        let (bound, kind) = (percent(outcome.lower_bound), outcome.bound_kind);
        let (plan, seconds) = (plan.unwrap_or_else(|| "none".into()), start.elapsed().as_secs_f64());
        let text = format!("{:?}, plan {plan}, bound {bound:.4} {kind:?}, {seconds:.2} s", outcome.status);
        return Ok((text, schedule));
    }
    let mut bound = order_free(graph, budget, limit);
    // The file rounds up in the fourth digit.
    let known = best.parse::<f64>().map(|percent| Time((base * (1.0 + percent / 100.0)).ceil() as u64 + 1));
    if let (Mode::Chain, Ok(known)) = (mode, known) {
        raise_by_chain(graph, budget, Some(known), &mut bound, Options::exact(limit));
    }
    let (time, at, seconds) =
        (percent(bound.time), &graph.node(bound.node).name, start.elapsed().as_secs_f64());
    Ok((format!("bound {time:.4} by {:?} at {at}, {seconds:.3} s", bound.proof), None))
}
