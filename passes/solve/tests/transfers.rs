//! Plans with transfers: legal within both budgets, never slower than recomputation or transfers alone, the plan of recomputation alone
//! where there is no link, and near what brute force finds on tiny graphs, whose optimum no bound exceeds.

#[allow(dead_code, reason = "shared with tests that need all of it")]
mod oracle;

use std::time::Duration;

use oracle::random_graph;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rk_plan::{
    Bytes, Direction, Engine, Graph, Host, NodeId, Sequence, Time, Transfer, ValueId, base_trace, judge,
    judge_transfers, text, working_set,
};
use rk_solve::synthetic::{self, Family};
use rk_solve::{Request, Solver, Status, Timekeeping, TransferOutcome, solve, solve_with_transfers};

fn link(bytes: u64, ticks: u64, budget: Option<u64>) -> Host {
    let engine = Engine { bytes, ticks, latency: Time(0) };
    Host { offload: engine, fetch: engine, budget: budget.map(Bytes) }
}

/// Work is counted, and `Greedy` runs no integer program, whose end depends on the machine: the same plan everywhere.
fn request(graph: &Graph, budget: Bytes, solver: Solver, limit: u64) -> Request<'_> {
    let time_limit = Duration::from_millis(limit);
    Request { solver, time_limit, timekeeping: Timekeeping::Work, ..Request::new(graph, budget) }
}

/// What every answer must hold.
fn checked(graph: &Graph, budget: Bytes, host: &Host, answer: &TransferOutcome, context: &str) {
    let Some(plan) = &answer.plan else {
        assert!(answer.recomputation_alone.plan.is_none() && answer.transfers_alone.is_none(), "{context}");
        return;
    };
    let trace = judge_transfers(graph, &plan.sequence, &plan.transfers, host).expect("legal");
    assert_eq!(trace, plan.trace, "{context}");
    assert!(trace.device.peak <= budget && answer.smallest_found <= trace.device.peak, "{context}");
    assert!(host.budget.is_none_or(|most| trace.host_peak <= most), "{context}");
    assert!(answer.lower_bound <= trace.makespan && answer.lower_bound >= graph.total_time(), "{context}");
    if let Some(alone) = &answer.recomputation_alone.plan {
        assert!(trace.makespan <= alone.trace.time, "slower than recomputation alone: {context}");
    }
    if let Some(alone) = &answer.transfers_alone {
        assert!(trace.makespan <= alone.trace.makespan, "slower than transfers alone: {context}");
        assert_eq!(alone.sequence.0.len(), graph.len(), "{context}");
    }
}

#[test]
fn without_a_link_or_host_memory_the_answer_is_that_of_recomputation_alone() {
    for seed in 0..40 {
        let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(31_000 + seed), 9);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        for (budget, host) in [(least, link(0, 1, None)), ((least + most) / 2, link(1, 1, Some(0)))] {
            let request = request(&graph, Bytes(budget), Solver::Greedy, 300);
            let (alone, both) = (solve(&request), solve_with_transfers(&request, &host));
            let plan = both.plan.as_ref();
            assert_eq!(
                plan.map(|plan| &plan.sequence),
                alone.plan.as_ref().map(|plan| &plan.sequence),
                "seed {seed}"
            );
            assert_eq!(plan.map(|plan| &plan.trace.device), alone.plan.as_ref().map(|plan| &plan.trace));
            assert!(plan.is_none_or(|plan| plan.transfers.is_empty() && plan.trace.stall() == Time(0)));
            assert_eq!((both.status, both.lower_bound), (alone.status, alone.lower_bound), "seed {seed}");
            assert_eq!(both.proven_infeasible_below, alone.proven_infeasible_below, "seed {seed}");
        }
    }
}

#[test]
fn no_answer_is_slower_than_recomputation_or_transfers_alone() {
    let (mut faster, mut only) = (0, 0);
    for (seed, family) in (0..).zip(Family::ALL) {
        let graph = synthetic::graph(family, 60, seed);
        let base = base_trace(&graph);
        for (percent, share) in [(70, Some(20)), (40, None)] {
            let budget = Bytes(base.peak.0 * percent / 100);
            // A third of the peak can leave and come back within the step.
            let host = link(
                base.peak.0.div_ceil(3),
                base.time.0.div_ceil(2).max(1),
                share.map(|share| base.peak.0 * share / 100),
            );
            let answer = solve_with_transfers(&request(&graph, budget, Solver::Local, 400), &host);
            let context = format!("{family:?} at {percent} %");
            checked(&graph, budget, &host, &answer, &context);
            let (plan, alone) = (answer.plan.as_ref(), answer.recomputation_alone.plan.as_ref());
            only += usize::from(plan.is_some() && alone.is_none());
            faster += usize::from(
                plan.zip(alone).is_some_and(|(plan, alone)| plan.trace.makespan < alone.trace.time),
            );
        }
    }
    assert!(faster >= 5, "{faster} faster, {only} feasible with transfers only");
}

#[test]
fn the_same_request_gives_the_same_plan() {
    let graph = synthetic::graph(Family::Residual, 60, 3);
    let base = base_trace(&graph);
    let host = link(base.peak.0.div_ceil(3), base.time.0.div_ceil(2).max(1), None);
    let plan = || {
        solve_with_transfers(&request(&graph, Bytes(base.peak.0 * 7 / 10), Solver::Greedy, 500), &host).plan
    };
    let first = plan();
    assert!(first.is_some());
    assert_eq!(plan(), first);
}

#[test]
fn tiny_graphs_are_planned_as_brute_force_would_and_no_bound_exceeds_it() {
    let (mut planned, mut optimal, mut proven, mut moved, mut missed) = (0, 0, 0, 0, 0);
    for seed in 0..80 {
        let mut random = ChaCha8Rng::seed_from_u64(32_000 + seed);
        let graph = if seed % 2 == 0 { random_graph(&mut random, 6) } else { chain(&mut random) };
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        let host = link(2 + seed % 3, 1 + seed % 2, (seed % 4 == 0).then_some(5));
        for budget in [least, (least + most) / 2].map(Bytes) {
            if budget.0 >= most {
                continue;
            }
            let answer = solve_with_transfers(&request(&graph, budget, Solver::Local, 400), &host);
            checked(&graph, budget, &host, &answer, &format!("seed {seed}, {budget}"));
            let known = answer.plan.as_ref().map(|plan| plan.trace.makespan.0);
            let Some(best) = brute_force(&graph, budget, &host, known) else {
                // Nothing is better: of what has a plan, it is the optimum.
                optimal += usize::from(known.is_some());
                planned += usize::from(known.is_some());
                moved += usize::from(answer.plan.is_some_and(|plan| !plan.transfers.is_empty()));
                proven += usize::from(answer.status == Status::Optimal);
                continue;
            };
            assert!(
                answer.lower_bound.0 <= best,
                "seed {seed}, {budget}: bound {:?}, {best}",
                answer.lower_bound
            );
            assert_ne!(answer.status, Status::Optimal, "seed {seed}, {budget}");
            assert_ne!(answer.status, Status::Infeasible, "seed {seed}, {budget}");
            planned += usize::from(known.is_some());
            missed += usize::from(known.is_none());
        }
    }
    eprintln!(
        "{planned} planned, {optimal} optimal, {proven} proven, {moved} with transfers, {missed} missed"
    );
    assert!(planned > 40 && moved > 8 && proven > 8, "{planned} {moved} {proven}");
    assert!(
        optimal * 100 >= planned * 90 && missed * 20 <= planned,
        "{optimal} of {planned}, {missed} missed"
    );
}

/// A chain of three layers with what they save, and its backward half: dear to run again, so that values wait.
fn chain(random: &mut ChaCha8Rng) -> Graph {
    let mut some = |least: u32, most: u32| random.random_range(least..=most);
    let forward = format!(
        "a {} {}; b(a) {} {}; c(b) {} {}",
        some(3, 9),
        some(2, 9),
        some(1, 6),
        some(2, 9),
        some(1, 6),
        some(2, 9)
    );
    let backward = format!("d(c, b) 2 {}; e(d, b) 2 {}; f(e, a) 1 {}", some(1, 9), some(1, 9), some(1, 9));
    text::read(&format!("{forward}; {backward}")).expect("a graph")
}

/// The least makespan below `known`, if there is one: every order, up to one run more than nodes, and every placement of transfers around
/// every idle time.
fn brute_force(graph: &Graph, budget: Bytes, host: &Host, known: Option<u64>) -> Option<u64> {
    let mut search = Brute { graph, budget, host, best: known.unwrap_or(u64::MAX), improved: false };
    search.extend(&mut Vec::new(), 0);
    search.improved.then_some(search.best)
}

struct Brute<'a> {
    graph: &'a Graph,
    budget: Bytes,
    host: &'a Host,
    best: u64,
    improved: bool,
}

impl Brute<'_> {
    fn extend(&mut self, runs: &mut Vec<NodeId>, time: u64) {
        if time >= self.best {
            return;
        }
        let ran = |node: NodeId| runs.contains(&node);
        let missing = self.graph.node_ids().filter(|&node| !ran(node)).count();
        if missing == 0 {
            self.transfers(&Sequence(runs.clone()));
        }
        if runs.len() + missing > self.graph.len() + 1 {
            return;
        }
        let ready = |node: &NodeId| {
            let about = self.graph.node(*node);
            about.reads.iter().all(|&value| runs.contains(&self.graph.value(value).producer))
                && (!ran(*node) || runs.len() + missing < self.graph.len() + 1)
        };
        let next: Vec<NodeId> = self.graph.node_ids().filter(ready).collect();
        for node in next {
            runs.push(node);
            self.extend(runs, time + self.graph.node(node).time.0);
            runs.pop();
        }
    }

    fn transfers(&mut self, runs: &Sequence) {
        let Ok(trace) = judge(self.graph, runs) else { return };
        if trace.peak <= self.budget {
            // Transfers only add waits.
            return self.improve(trace.time.0);
        }
        // Of each instance: nothing, or one stay in host memory that frees at least a run.
        let mut options: Vec<Vec<[Transfer; 2]>> = Vec::new();
        for (index, value) in self.graph.values().iter().enumerate().filter(|(_, value)| value.bytes.0 > 0) {
            let id = ValueId::from_index(index);
            for (born, _) in runs.0.iter().enumerate().filter(|(_, node)| **node == value.producer) {
                let mut mine = Vec::new();
                for start in born + 1..runs.0.len() {
                    for away in start + 1..runs.0.len() {
                        for back in away + 1..runs.0.len() {
                            for end in back + 1..=runs.0.len() {
                                let pair = [
                                    Transfer { value: id, direction: Direction::Offload, start, end: away },
                                    Transfer { value: id, direction: Direction::Fetch, start: back, end },
                                ];
                                // More transfers never make a makespan smaller.
                                let alone = judge_transfers(self.graph, runs, &pair, self.host);
                                if alone.is_ok_and(|trace| trace.makespan.0 < self.best) {
                                    mine.push(pair);
                                }
                            }
                        }
                    }
                }
                if !mine.is_empty() {
                    options.push(mine);
                }
            }
        }
        self.choose(runs, &options, &mut Vec::new());
    }

    fn choose(&mut self, runs: &Sequence, options: &[Vec<[Transfer; 2]>], chosen: &mut Vec<Transfer>) {
        let Some((mine, others)) = options.split_first() else {
            let mut transfers = chosen.clone();
            transfers.sort_by_key(|transfer| (transfer.start, transfer.end));
            if let Ok(trace) = judge_transfers(self.graph, runs, &transfers, self.host)
                && trace.device.peak <= self.budget
            {
                self.improve(trace.makespan.0);
            }
            return;
        };
        self.choose(runs, others, chosen);
        for pair in mine {
            chosen.extend(pair);
            let mut transfers = chosen.clone();
            transfers.sort_by_key(|transfer| (transfer.start, transfer.end));
            if judge_transfers(self.graph, runs, &transfers, self.host)
                .is_ok_and(|trace| trace.makespan.0 < self.best)
            {
                self.choose(runs, others, chosen);
            }
            chosen.truncate(chosen.len() - 2);
        }
    }

    fn improve(&mut self, makespan: u64) {
        if makespan < self.best {
            (self.best, self.improved) = (makespan, true);
        }
    }
}
