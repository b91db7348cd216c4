//! No schedule beats a bound: hundreds of tiny graphs against exhaustive search.

#[allow(dead_code, reason = "shared with tests that need all of it")]
mod oracle;

use std::time::Duration;

use oracle::{optimum, optimum_in, random_graph};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use rk_plan::{Bytes, Graph, Kind, Time, base_trace, judge, working_set};
use rk_solve::bound::branch_and_bound;
use rk_solve::bound::cut::Cutter;
use rk_solve::bound::cut_selection::scan;
use rk_solve::bound::fixed_order::fixed_order;
use rk_solve::bound::lagrangian::{Fixed, Network, relax};
use rk_solve::bound::limits::Limits;
use rk_solve::bound::multi_cut::chain;
use rk_solve::bound::{Proof, order_free, raise_by_chain};
use rk_solve::milp::{End, Options};
use rk_solve::synthetic::{self, Family};
use rk_solve::{BoundKind, Outcome, Request, Solver, Status, pareto, solve};

/// The budgets between what is surely impossible and what is surely enough.
fn budgets(graph: &Graph) -> impl Iterator<Item = Bytes> {
    let (least, most) = (working_set(graph).0.0, base_trace(graph).peak.0);
    (least.saturating_sub(1)..=most).map(Bytes)
}

#[test]
fn no_schedule_beats_the_cut_bound() {
    let (mut cells, mut tight, mut recomputed, mut refuted) = (0, 0, 0, 0);
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 7);
        for budget in budgets(&graph) {
            let bound = order_free(&graph, budget, Duration::from_secs(3600));
            let Some(best) = optimum(&graph, budget) else {
                refuted += usize::from(bound.is_infeasible());
                continue;
            };
            assert!(!bound.is_infeasible(), "seed {seed}, {budget}: a schedule exists, {:?}", bound.proof);
            assert!(bound.time.0 <= best, "seed {seed}, {budget}: bound {} > optimum {best}", bound.time.0);
            assert_ne!(bound.proof, Proof::WorkingSet);
            cells += 1;
            if best > graph.total_time().0 {
                recomputed += 1;
                tight += usize::from(bound.time.0 == best);
            }
        }
    }
    eprintln!(
        "{cells} cells with a schedule, {recomputed} need recomputation, bound tight in {tight}; {refuted} refuted"
    );
    // The bound must also be worth something.
    assert!(recomputed > 100 && tight * 3 > recomputed, "{tight} of {recomputed}");
}

/// Every bound that the search for the best one passes on its way must hold too: relaxations at any node, at any price.
#[test]
fn no_schedule_beats_any_relaxation() {
    let (mut compared, mut tight, mut refuted) = (0, 0, 0);
    for seed in 5000..5300 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 7);
        let total = graph.total_time().0;
        for budget in budgets(&graph) {
            let best = optimum(&graph, budget);
            for promise in scan(&graph, budget, None) {
                assert!(
                    best.is_none() || promise.bound.is_some_and(|bound| total + bound <= best.unwrap_or(0))
                );
            }
            let mut cutter = Cutter::new(&graph);
            for at in graph.node_ids() {
                let cut = cutter.cut(at, budget);
                let mut network = Network::new(&cut);
                let free = vec![Fixed::Free; cut.nodes.len()];
                let relaxation = relax(&cut, &mut network, &free, None, u64::MAX);
                let Some(best) = best else {
                    refuted += usize::from(relaxation.bound.is_none());
                    continue;
                };
                let context = format!("seed {seed}, {budget}, cut at {}", at.0);
                let bound = relaxation.bound.unwrap_or_else(|| panic!("{context}: a schedule exists"));
                assert!(total + bound <= best, "{context}: {bound} over {total}, optimum {best}");
                for (ticks, bytes) in [(1, 5), (1, 1), (3, 2), (7, 1)] {
                    let price = network.price(ticks, bytes);
                    let priced = network.evaluate(&cut, &free, price).map_or(0, |(bound, _)| bound);
                    assert!(
                        priced <= bound,
                        "{context}: price {ticks}/{bytes} gives {priced}, the best {bound}"
                    );
                }
                compared += 1;
                tight += usize::from(best > total && total + bound == best);
            }
        }
    }
    assert!(compared > 3_000 && tight > 100 && refuted > 20, "{compared} {tight} {refuted}");
}

/// Larger steps with everything that imported graphs have: no solver's plan is below a bound.
#[test]
fn no_plan_of_a_synthetic_step_beats_a_bound() {
    let mut open = 0;
    for family in Family::ALL {
        for (seed, percent) in [(0, 60), (1, 45), (2, 70), (3, 55)] {
            let graph = synthetic::graph(family, 120, seed);
            let budget = Bytes(base_trace(&graph).peak.0 * percent / 100).max(working_set(&graph).0);
            let bound = order_free(&graph, budget, Duration::from_secs(60));
            for solver in [Solver::Greedy, Solver::Dtr, Solver::Rockmate, Solver::Cut] {
                let time_limit = Duration::from_millis(200);
                let outcome = solve(&Request { solver, time_limit, ..Request::new(&graph, budget) });
                let Some(plan) = outcome.plan else { continue };
                let trace = judge(&graph, &plan.sequence).expect("legal");
                let context = format!("{family}, seed {seed}, {percent} %, {solver}");
                assert!(trace == plan.trace && trace.peak <= budget, "{context}");
                assert!(!bound.is_infeasible() && bound.time <= trace.time, "{context}: {bound:?}");
                assert!(outcome.lower_bound <= trace.time, "{context}");
                open += usize::from(bound.time < trace.time);
            }
        }
    }
    assert!(open > 0, "some plan is not optimal");
}

#[test]
fn three_exact_solvers_of_the_cut_problem_agree() {
    let (mut compared, mut coarse) = (0, 0);
    for seed in 1000..1150 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 10);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        let budget = Bytes((least + most) / 2);
        let mut cutter = Cutter::new(&graph);
        for at in graph.node_ids() {
            let cut = cutter.cut(at, budget);
            if cut.is_trivial() {
                continue;
            }
            let by_frontiers = branch_and_bound::solve(&cut, Limits::NONE);
            let by_branching = branch_and_bound::branch_and_bound(&cut, Limits::NONE);
            assert!(by_frontiers.exact && by_branching.exact);
            assert_eq!(by_frontiers.bound, by_branching.bound, "seed {seed}, cut at {}", at.0);
            assert_eq!(by_frontiers.best.as_ref().map(|best| best.time), by_frontiers.bound);
            // Near is as good as optimal, and never claims more than is true.
            for near in [5, 40] {
                let nearly = branch_and_bound::solve(&cut, Limits { near, ..Limits::NONE });
                assert!(nearly.bound <= by_frontiers.bound, "seed {seed}, cut at {}, near {near}", at.0);
                let (time, bound) = (nearly.best.map(|best| best.time), nearly.bound);
                assert!(time.is_some() == bound.is_some() && time <= bound.map(|bound| bound + near));
                coarse += u32::from(nearly.bound < by_frontiers.bound);
            }
            // A child process per solve: a few suffice.
            if seed % 25 == 0 {
                let milp = cut.to_milp().expect("small numbers").milp;
                let answer = milp.solve(Options::exact(Duration::from_secs(20)));
                match by_branching.bound {
                    Some(bound) => assert_eq!((answer.end, answer.cost), (End::Optimal, bound)),
                    None => assert_eq!(answer.end, End::Infeasible),
                }
                compared += 1;
            }
        }
    }
    assert!(compared > 5 && coarse > 50, "{compared} {coarse}");
}

#[test]
fn no_schedule_beats_a_chain_of_cuts() {
    let (mut cells, mut raised, mut tight, mut divided) = (0, 0, 0, 0);
    for seed in 2000..2500 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 7);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        let budget = Bytes((2 * least + most) / 3);
        let Some(best) = optimum(&graph, budget).filter(|&best| best > graph.total_time().0) else {
            continue;
        };
        let time = Duration::from_secs(30);
        let mut bound = order_free(&graph, budget, time);
        let single = bound.time;
        // A plan that is not the best leaves the solver something to do; the best one must still be proven.
        for known in [Time(best + 3), Time(best)] {
            raise_by_chain(&graph, budget, Some(known), &mut bound, Options::exact(time));
            assert!(bound.time.0 <= best, "seed {seed}: {} > {best} by {:?}", bound.time.0, bound.proof);
            bound.sequences.iter().for_each(|sequence| assert!(judge(&graph, sequence).is_ok()));
        }
        let mut refuted = bound.clone();
        raise_by_chain(&graph, budget, None, &mut refuted, Options::exact(time));
        assert!(!refuted.is_infeasible(), "seed {seed}: a schedule exists, {:?}", refuted.proof);
        let without_plan = chain(&graph, budget, bound.node, None, Options::exact(time));
        assert!(without_plan.time.0 <= best, "seed {seed}: {} > {best}", without_plan.time.0);
        let undivided = chain(&graph, budget, bound.node, Some(Time(best)), Options::exact(time));
        assert!(undivided.time.0 <= best, "seed {seed}: {} > {best}", undivided.time.0);
        cells += 1;
        divided += usize::from(bound.time > undivided.time);
        raised += usize::from(bound.time > single);
        tight += usize::from(bound.time.0 == best);
    }
    eprintln!(
        "{cells} cells, raised by chains in {raised}, by dividing in {divided} of these, tight in {tight}"
    );
    assert!(divided > 0, "dividing by the order of two nodes raised no bound");
    assert!(raised > 0 && tight * 20 > cells * 19, "{raised} raised, {tight} tight of {cells}");
}

/// Budgets that no schedule meets, though every single cut has a solution. What is in the way is seldom a second run alone, so they are few.
#[test]
fn chains_refute_budgets_that_single_cuts_do_not() {
    let time = Duration::from_secs(30);
    for (seed, budget) in [(6349, 8), (6586, 8), (6586, 9)] {
        let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(seed), 8);
        let budget = Bytes(budget);
        assert!(optimum(&graph, budget).is_none(), "seed {seed}, {budget}");
        let mut bound = order_free(&graph, budget, time);
        assert!(!bound.is_infeasible(), "seed {seed}, {budget}: {:?}", bound.proof);
        raise_by_chain(&graph, budget, None, &mut bound, Options::exact(time));
        assert!(bound.is_infeasible(), "seed {seed}, {budget}: {:?}", bound.proof);
    }
}

/// The first node that the fixed-order class may not run twice, as `kcut` sees it.
fn split(graph: &Graph) -> usize {
    1 + graph.nodes().iter().rposition(|node| node.kind == Kind::Forward).expect("a forward node")
}

#[test]
fn no_schedule_in_the_given_order_beats_its_bound() {
    let (mut cells, mut raised) = (0, 0);
    for seed in 3000..3400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 7);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        for budget in [(3 * least + most) / 4, (least + most) / 2, (least + 3 * most) / 4].map(Bytes) {
            let Some(best) = optimum_in(&graph, budget, Some(split(&graph))) else { continue };
            if best == graph.total_time().0 {
                continue;
            }
            let bound = fixed_order(&graph, budget, Options::exact(Duration::from_secs(20)));
            assert!(!bound.infeasible && bound.time.0 <= best, "seed {seed}: {bound:?} against {best}");
            cells += 1;
            raised += usize::from(bound.time > graph.total_time());
        }
    }
    eprintln!("{cells} cells, the bound says something in {raised}");
    assert!(raised > 10, "{raised} of {cells}");
}

#[test]
fn every_solver_is_between_the_optimum_and_the_judge() {
    let mut found = [0; Solver::ALL.len()];
    let mut matched = found;
    let (mut cells, mut reported) = (0, 0);
    for seed in 4000..4040 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 7);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        let budget = Bytes((least + 2 * most) / 3);
        let best = optimum(&graph, budget);
        let in_order = optimum_in(&graph, budget, Some(split(&graph)));
        cells += usize::from(best.is_some());
        for (index, solver) in Solver::ALL.into_iter().enumerate() {
            // These two go on until the clock stops them; the others end by themselves.
            let endless = matches!(solver, Solver::Auto | Solver::Local);
            let time_limit = Duration::from_millis(if endless { 250 } else { 20_000 });
            let outcome = solve(&Request { solver, time_limit, ..Request::new(&graph, budget) });
            let context = format!("seed {seed}, {solver}: {:?}", outcome.status);
            match outcome.bound_kind {
                BoundKind::FixedOrder => {
                    assert!(in_order.is_none_or(|best| outcome.lower_bound.0 <= best), "{context}")
                }
                _ => assert!(best.is_none_or(|best| outcome.lower_bound.0 <= best), "{context}"),
            }
            if let Some(bound) = outcome.in_given_order {
                assert!(
                    in_order.is_none_or(|best| bound.0 <= best) && bound > outcome.lower_bound,
                    "{context}"
                );
                reported += 1;
            }
            let Some(plan) = outcome.plan else { continue };
            let trace = judge(&graph, &plan.sequence).expect("legal");
            assert!(trace.peak <= budget && trace == plan.trace, "{context}");
            let best = best.unwrap_or_else(|| panic!("{context}: a plan where none exists"));
            assert!(trace.time.0 >= best, "{context}: {} beats the optimum {best}", trace.time.0);
            found[index] += 1;
            matched[index] += usize::from(trace.time.0 == best);
        }
    }
    eprintln!("bounds in the given order beside others: {reported}");
    for (index, solver) in Solver::ALL.into_iter().enumerate() {
        eprintln!("{solver:10} found {} and matched {} of {cells}", found[index], matched[index]);
    }
    assert_eq!(found[0], cells, "auto finds a plan where one exists");
    assert!(matched[0] + 2 >= cells, "auto finds the optimum of tiny graphs: {} of {cells}", matched[0]);
}

/// The search over states ends on tiny graphs, with the optimum of brute force or with the proof that there is no schedule.
#[test]
fn the_search_over_states_is_exact() {
    let (mut optimal, mut better, mut infeasible) = (0, 0, 0);
    for seed in 7000..7400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let graph = random_graph(&mut rng, 8);
        for budget in budgets(&graph) {
            let time_limit = Duration::from_secs(20);
            let outcome =
                solve(&Request { solver: Solver::States, time_limit, ..Request::new(&graph, budget) });
            let greedy = solve(&Request { solver: Solver::Greedy, ..Request::new(&graph, budget) });
            let time = |outcome: &Outcome| outcome.plan.as_ref().map(|plan| plan.trace.time.0);
            let best = optimum(&graph, budget);
            assert_eq!(time(&outcome), best, "seed {seed}, {budget}: {:?}", outcome.status);
            let expected = if best.is_some() { Status::Optimal } else { Status::Infeasible };
            assert_eq!(outcome.status, expected, "seed {seed}, {budget}");
            optimal += usize::from(best.is_some());
            infeasible += usize::from(best.is_none());
            better += usize::from(best.is_some() && time(&greedy) != best);
        }
    }
    eprintln!("{optimal} optimal, {better} of them better than greedy, {infeasible} infeasible");
    assert!(optimal > 100 && better > 10, "{optimal}, {better}");
}

#[test]
fn a_curve_in_the_given_order_calls_only_optima_optimal() {
    let (mut optima, mut others) = (0, 0);
    for seed in 5000..5060 {
        let graph = random_graph(&mut ChaCha8Rng::seed_from_u64(seed), 7);
        let (least, most) = (working_set(&graph).0.0, base_trace(&graph).peak.0);
        let budgets = [(3 * least + most) / 4, (least + most) / 2].map(Bytes);
        let request = Request { solver: Solver::Ilp, ..Request::new(&graph, budgets[0]) };
        for (budget, outcome) in budgets.into_iter().zip(pareto(&request, &budgets)) {
            match (outcome.status, outcome.plan) {
                (Status::Optimal, plan) => {
                    assert_eq!(plan.map(|plan| plan.trace.time.0), optimum(&graph, budget), "seed {seed}");
                    optima += 1;
                }
                (_, Some(_)) => others += 1,
                _ => {}
            }
        }
    }
    assert!(optima > 20 && others > 2, "{optima} optima, {others} others");
}
