//! Mixed integer linear programs in whole numbers, solved by CBC (or HiGHS, an option) where it can be stopped.
//!
//! CBC 2.10 ignores its own time limit on large models, and when it stops it may return a point that is not feasible. So
//! a solve is a child process, killed at the limit to the millisecond, and what comes back is believed only after a check
//! in exact integers. A solver that dies, hangs or lies costs its share of the time and nothing else.
//!
//! **Why `fork` and not a helper program or a thread.** rk also runs inside programs that it did not start (`mlir-opt`,
//! Python): there is no executable of ours to find, and re-running the current one would re-run a training script. A
//! thread cannot be killed, and an abandoned one would hold CBC's global lock for ever. A forked child has the model
//! already. Its caveat: other threads do not exist in the child, so a lock that one of them held stays locked. The child
//! takes none of ours; it allocates (glibc and the usual replacements make the allocator consistent across `fork`), calls
//! the solver, which no other thread of this crate ever runs in the parent, writes a pipe and leaves by `_exit`, without
//! destructors, buffered output or exit handlers. Should a foreign lock bite all the same, the child hangs, and a hang is
//! what the parent is prepared for. Standard output of the child goes to `/dev/null`; its processor time and memory are
//! limited, and it dies with its parent. Elsewhere than on Unix there is no MILP, and the bounds of [`crate::bound::branch_and_bound`],
//! which need none, remain.
//!
//! **Scaling.** Each row, and the objective, is divided by the greatest common divisor and then by a power of two, so that
//! its largest coefficient is at most 2^13. A reported bound is the solver's dual bound less its tolerances, rounded up to
//! a whole tick only after that.

pub mod checkmate;
pub(crate) mod stages;

use std::time::Duration;

use crate::portfolio::clock::counted;
pub use which::{MilpSolver, UnknownMilpSolver};

/// A variable of a [`Milp`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Var(u32);

impl Var {
    /// The position in a solution.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Clone, Copy, Debug)]
struct Column {
    cost: u64,
    lower: i64,
    upper: i64,
    integer: bool,
}

/// `sum of coefficient * variable <= most`.
#[derive(Clone, Debug)]
struct Row {
    terms: Vec<(Var, i64)>,
    most: i64,
}

/// Minimise the cost of the variables under rows.
#[derive(Clone, Debug, Default)]
pub struct Milp {
    columns: Vec<Column>,
    rows: Vec<Row>,
}

/// How a solve ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Solved.
    Optimal,
    /// The time was over; a bound and a point may be there.
    Stopped,
    /// The nodes were; likewise.
    NodeLimit,
    /// Proven to have no solution, or none that costs little enough (in the solver's floating point).
    Infeasible,
    /// Killed, crashed, or refused to work.
    Failed,
}

/// What is known after a solve.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    /// How it ended.
    pub end: End,
    /// No solution costs less.
    pub bound: u64,
    /// A solution, checked exactly; continuous variables as the solver gave them.
    pub point: Option<Vec<f64>>,
    /// Its cost (of the integer variables).
    pub cost: u64,
}

impl Answer {
    fn nothing(end: End) -> Self {
        Self { end, bound: 0, point: None, cost: 0 }
    }

    /// The value of a variable that is zero or one.
    pub fn is_one(&self, var: Var) -> bool {
        self.point.as_ref().is_some_and(|point| point[var.index()] > 0.5)
    }
}

/// How CBC goes about a program. None is best: what takes one of them a moment may take another minutes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// As it does by itself.
    Usual,
    /// Without Gomory cuts, which make some relaxations dense and slow.
    WithoutGomory,
    /// Without preprocessing.
    AsItIs,
}

impl Way {
    /// All, for large programs.
    pub const USUAL_FIRST: [Self; 3] = [Self::Usual, Self::WithoutGomory, Self::AsItIs];
    /// All, for small ones.
    pub const SIMPLE_FIRST: [Self; 3] = [Self::AsItIs, Self::WithoutGomory, Self::Usual];
}

/// What to ask of the solver.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Killed after this.
    pub limit: Duration,
    /// Integrality is dropped: the linear relaxation, with a bound and no point.
    pub relaxed: bool,
    /// Ends when bound and point are this close, relatively.
    pub gap: f64,
    /// Who solves.
    pub solver: MilpSolver,
    /// Only solutions that cost less are asked for: without one the program counts as infeasible. CBC then spends no time on
    /// finding solutions, only on the proof; HiGHS is not told.
    pub below: Option<u64>,
    /// CBC ends after so many nodes of its tree.
    pub most_nodes: Option<u64>,
    /// How CBC goes about it.
    pub way: Way,
}

impl Options {
    /// To the end, within a time, by CBC.
    pub fn exact(limit: Duration) -> Self {
        Self {
            limit,
            relaxed: false,
            gap: 0.0,
            solver: MilpSolver::Cbc,
            below: None,
            most_nodes: None,
            way: Way::Usual,
        }
    }

    /// By another solver.
    pub fn by(self, solver: MilpSolver) -> Self {
        Self { solver, ..self }
    }
}

/// How much longer than its limit a solver may take by the system's clock where the limit counts work: it is stopped by its processor
/// time, of which it gets little on a machine with other work.
const PATIENCE: u32 = 20;
/// Longer limits are cut to this one, 34 years, which can be added to any time.
const FOREVER: Duration = Duration::from_secs(1 << 30);
/// The part of its limit that a solve counts as, where work is counted, if it ended by itself: one in so many.
const FINISHED: u32 = 8;
/// The share of a limit that a solver is told, so that a model which does obey can hand in its bound before it is killed.
const OBEYED: f64 = 0.9;
/// The largest scaled coefficient.
const LARGEST: u64 = 1 << 13;
/// Twice CBC's cutoff increment, and twenty times HiGHS' tolerances, in scaled units.
const CUTOFF_SLACK: f64 = 2e-5;
/// Their dual tolerance: reduced costs of each column, between 0 and 1, may be off by this much; the objective relatively.
const DUAL_SLACK: f64 = 1e-7;

impl Milp {
    /// A new variable that is zero or one.
    pub fn binary(&mut self, cost: u64) -> Var {
        self.column(cost, 1, true)
    }

    /// A new variable between zero and `upper`.
    pub fn continuous(&mut self, upper: i64) -> Var {
        self.column(0, upper, false)
    }

    fn column(&mut self, cost: u64, upper: i64, integer: bool) -> Var {
        self.columns.push(Column { cost, lower: 0, upper, integer });
        Var(self.columns.len() as u32 - 1)
    }

    /// Sets a variable for good.
    pub fn fix(&mut self, var: Var, value: i64) {
        let column = &mut self.columns[var.index()];
        (column.lower, column.upper) = (value, value);
    }

    /// Adds `sum of terms <= most`.
    pub fn at_most(&mut self, terms: Vec<(Var, i64)>, most: i64) {
        self.rows.push(Row { terms, most });
    }

    /// Adds `sum of terms >= least`.
    pub fn at_least(&mut self, mut terms: Vec<(Var, i64)>, least: i64) {
        terms.iter_mut().for_each(|(_, coefficient)| *coefficient = -*coefficient);
        self.at_most(terms, -least);
    }

    /// Variables and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.columns.len(), self.rows.len())
    }

    /// Solves in a child process; see the module for what that guards against.
    pub fn solve(&self, options: Options) -> Answer {
        if options.limit.is_zero() || self.columns.is_empty() {
            return Answer::nothing(End::Failed);
        }
        let job = || self.solve_here(options);
        #[cfg(test)]
        let fault = faults::current();
        #[cfg(test)]
        let job = || fault.map_or_else(job, |fault| fault.commit(self.columns.len()));
        let options = Options { limit: options.limit.min(FOREVER), ..options };
        let wall = if counted::is_on() { options.limit * PATIENCE } else { options.limit };
        let answer = child::run(wall, job).map_or_else(
            || {
                tracing::debug!(limit = ?wall, "the solver came too late or died");
                Answer::nothing(End::Failed)
            },
            |bytes| self.check(&bytes, options.relaxed),
        );
        // How long a solver took is no count; that it needed all of its time is.
        let stopped = matches!(answer.end, End::Stopped | End::Failed);
        counted::pass(if stopped { options.limit } else { options.limit / FINISHED });
        answer
    }

    /// In the child: builds, solves, and packs the answer.
    fn solve_here(&self, options: Options) -> Vec<u8> {
        let program = self.scaled(options.relaxed);
        let raw = match options.solver {
            MilpSolver::Cbc => cbc::solve(&program, options, options.below.map(|below| self.cutoff(below))),
            #[cfg(feature = "highs")]
            MilpSolver::Highs => highs::solve(&program, options),
        };
        raw.to_bytes()
    }

    /// What a solver may cut off so that nothing below `below` is lost: just above the greatest cost that is less, scaled.
    fn cutoff(&self, below: u64) -> f64 {
        let unit = self.columns.iter().fold(0, |unit, column| scaled::gcd(unit, column.cost)).max(1);
        let cost = (below.saturating_sub(1) / unit * unit) as f64 / self.cost_scale();
        cost + self.slack(cost)
    }

    /// How far a bound may be off, scaled.
    fn slack(&self, bound: f64) -> f64 {
        CUTOFF_SLACK + DUAL_SLACK * (self.columns.len() as f64 + bound.abs())
    }

    /// In the parent: nothing is taken on trust.
    fn check(&self, bytes: &[u8], relaxed: bool) -> Answer {
        let numbers: Vec<f64> = bytes
            .chunks_exact(8)
            .map(|chunk| f64::from_le_bytes(chunk.try_into().unwrap_or([0; 8])))
            .collect();
        let end = match numbers.first() {
            Some(0.0) => End::Optimal,
            Some(1.0) => End::Stopped,
            Some(2.0) => return Answer::nothing(End::Infeasible),
            Some(4.0) => End::NodeLimit,
            _ => return Answer::nothing(End::Failed),
        };
        let (Some(&bound), Some(values)) = (numbers.get(1), numbers.get(2..)) else {
            return Answer::nothing(End::Failed);
        };
        let bound = (bound - self.slack(bound)) * self.cost_scale();
        // Casting saturates, and turns what is not a number into zero.
        let bound = if bound.abs() < 1e18 { bound.ceil().max(0.0) as u64 } else { 0 };
        let point = (!relaxed && values.len() == self.columns.len()).then(|| self.exact(values)).flatten();
        let cost = point.as_ref().map_or(0, |point| {
            let integers = self.columns.iter().zip(point).filter(|(column, _)| column.integer);
            integers.map(|(column, &value)| column.cost.saturating_mul(value as u64)).sum()
        });
        // An optimum that is no solution proves nothing about the rest either.
        match (end, &point) {
            (End::Optimal, None) if !relaxed => Answer::nothing(End::Failed),
            _ => Answer { end, bound: if point.is_some() { bound.min(cost) } else { bound }, point, cost },
        }
    }

    /// Rounds integer variables and checks every row: exactly, or to a millionth where continuous variables take part.
    fn exact(&self, values: &[f64]) -> Option<Vec<f64>> {
        let mut point = Vec::with_capacity(values.len());
        for (column, &value) in self.columns.iter().zip(values) {
            let rounded = if column.integer { value.round() } else { value };
            let near = (rounded - value).abs() < 1e-4;
            let inside =
                rounded >= column.lower as f64 - 1e-6 && rounded <= column.upper as f64 * (1.0 + 1e-9) + 1e-6;
            if !(near && inside) {
                return None;
            }
            point.push(rounded);
        }
        let fits = self.rows.iter().all(|row| {
            if row.terms.iter().all(|(var, _)| self.columns[var.index()].integer) {
                let sum: i128 =
                    row.terms.iter().map(|&(var, by)| i128::from(by) * point[var.index()] as i128).sum();
                return sum <= i128::from(row.most);
            }
            let sum: f64 = row.terms.iter().map(|&(var, by)| by as f64 * point[var.index()]).sum();
            let size = row.terms.iter().map(|&(_, by)| by.unsigned_abs()).max().unwrap_or(1);
            sum - row.most as f64 <= 1e-5 * (size as f64 + (row.most as f64).abs())
        });
        fits.then_some(point)
    }
}

mod cbc;
#[cfg(unix)]
mod child;
#[cfg(test)]
mod faults;
#[cfg(feature = "highs")]
mod highs;
mod scaled;
mod which;

pub(crate) use child::Spent;

#[cfg(not(unix))]
mod child {
    /// Time of the system's clock: nothing is started here that could spend any other.
    pub(crate) struct Spent(std::time::Instant);

    impl Spent {
        pub(crate) fn now() -> Self {
            Self(std::time::Instant::now())
        }

        pub(crate) fn elapsed(&self) -> super::Duration {
            self.0.elapsed()
        }
    }

    /// Nothing can be stopped here, so nothing is started.
    pub fn run(_: super::Duration, _: impl FnOnce() -> Vec<u8>) -> Option<Vec<u8>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const TEN_SECONDS: Duration = Duration::from_secs(10);

    /// Sizes and prices of a knapsack, deterministic and uneven.
    fn knapsack(items: i64, room: i64) -> Milp {
        let mut milp = Milp::default();
        let vars: Vec<Var> = (0..items).map(|item| milp.binary((item as u64 * 37 + 11) % 89 + 1)).collect();
        // Cover: leave out as little value as possible while the rest fits.
        let sizes = vars.iter().enumerate().map(|(item, &var)| (var, (item as i64 * 53 + 7) % 97 + 1));
        let sizes: Vec<(Var, i64)> = sizes.collect();
        let total: i64 = sizes.iter().map(|size| size.1).sum();
        milp.at_least(sizes, total - room);
        milp
    }

    #[test]
    fn a_small_knapsack_is_solved_and_bounded() {
        let milp = knapsack(30, 700);
        for &solver in MilpSolver::ALL {
            let options = Options::exact(TEN_SECONDS).by(solver);
            let answer = milp.solve(options);
            assert_eq!(answer.end, End::Optimal, "{solver}");
            assert!(answer.point.is_some());
            assert_eq!(answer.bound, answer.cost, "{solver}");
            let relaxed = milp.solve(Options { relaxed: true, ..options });
            assert!(
                relaxed.bound <= answer.cost && relaxed.bound + 90 > answer.cost,
                "{solver}: {relaxed:?}"
            );
            assert!(relaxed.point.is_none());
        }
    }

    #[test]
    fn a_limit_never_makes_a_model_infeasible() {
        // Choose some of 600 so that each of 2000 triples is met: all of them are a solution.
        let mut milp = Milp::default();
        let vars: Vec<Var> = (0..600u64).map(|item| milp.binary((item * 37 + 11) % 89 + 1)).collect();
        for row in 0..2000usize {
            let triple = [row * 7 % 600, row * 131 % 600, (row * row + 5) % 600];
            milp.at_least(triple.iter().map(|&item| (vars[item], 1)).collect(), 1);
        }
        for &solver in MilpSolver::ALL {
            for milliseconds in [1, 10, 30, 100, 300] {
                let answer = milp.solve(Options::exact(Duration::from_millis(milliseconds)).by(solver));
                assert_ne!(answer.end, End::Infeasible, "{solver} within {milliseconds} ms");
            }
        }
    }

    #[test]
    fn only_what_costs_less_is_looked_for() {
        for items in [10, 20, 30] {
            let milp = knapsack(items, 20 * items);
            let options = Options::exact(TEN_SECONDS);
            let least = milp.solve(options).cost;
            for way in Way::USUAL_FIRST {
                let options = Options { way, ..options };
                let found = milp.solve(Options { below: Some(least + 1), ..options });
                assert_eq!((found.end, found.cost), (End::Optimal, least), "{way:?}");
                let none = milp.solve(Options { below: Some(least), ..options });
                assert_eq!(none.end, End::Infeasible, "{way:?}");
            }
        }
    }

    /// Covers each of 150 triples of 60 items: CBC needs some hundred nodes.
    fn triples() -> Milp {
        let mut milp = Milp::default();
        let vars: Vec<Var> = (0..60u64).map(|item| milp.binary((item * 37 + 11) % 89 + 40)).collect();
        for row in 0..150usize {
            let triple = [row * 7 % 60, row * 13 % 59, (row * row + 5) % 58];
            milp.at_least(triple.iter().map(|&item| (vars[item], 1)).collect(), 1);
        }
        milp
    }

    #[test]
    fn a_bound_of_few_nodes_is_a_bound() {
        let (milp, options) = (triples(), Options::exact(TEN_SECONDS));
        let least = milp.solve(options).cost;
        let mut ended = 0;
        for (way, nodes) in
            Way::USUAL_FIRST.into_iter().flat_map(|way| [0, 1, 3, 10].map(|nodes| (way, nodes)))
        {
            for below in [None, Some(least + 1), Some(least + 50)] {
                let answer = milp.solve(Options { way, below, most_nodes: Some(nodes), ..options });
                ended += usize::from(answer.end == End::NodeLimit);
                assert!(answer.bound <= least, "{way:?}, {nodes} nodes, {below:?}: {answer:?}");
                assert_ne!(answer.end, End::Infeasible, "{way:?}, {nodes} nodes, {below:?}");
            }
        }
        assert!(ended > 9, "{ended} of 36 ran out of nodes");
    }

    #[test]
    fn contradictions_are_infeasible() {
        let mut milp = Milp::default();
        let var = milp.binary(1);
        milp.at_least(vec![(var, 2)], 3);
        for &solver in MilpSolver::ALL {
            assert_eq!(milp.solve(Options::exact(TEN_SECONDS).by(solver)).end, End::Infeasible, "{solver}");
        }
    }

    #[test]
    fn a_child_that_hangs_is_killed_in_time() {
        let start = Instant::now();
        let answer = child::run(Duration::from_millis(200), || {
            std::thread::sleep(Duration::from_secs(60));
            Vec::new()
        });
        let elapsed = start.elapsed();
        assert_eq!(answer, None);
        assert!(
            // Far less than it hangs for, however busy the machine is.
            elapsed >= Duration::from_millis(200) && elapsed < Duration::from_secs(30),
            "{elapsed:?}"
        );
    }

    #[test]
    fn a_child_that_dies_costs_nothing() {
        let start = Instant::now();
        assert_eq!(child::run(Duration::from_secs(60), || std::process::abort()), None);
        assert!(start.elapsed() < Duration::from_secs(30));
    }

    #[test]
    fn infeasible_points_are_refused() {
        let milp = knapsack(3, 10);
        let numbers =
            |numbers: &[f64]| numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>();
        assert_eq!(milp.check(&numbers(&[0.0, 0.0, 0.0, 0.0, 0.0]), false), Answer::nothing(End::Failed));
        assert!(milp.check(&numbers(&[0.0, 500.0, 1.0, 1.0, 1.0]), false).point.is_some());
        assert_eq!(milp.check(&numbers(&[0.0, 0.0, 0.5, 1.0, 1.0]), false).end, End::Failed);
        assert_eq!(milp.check(&numbers(&[0.0, f64::NAN]), false).end, End::Failed);
        assert_eq!(milp.check(&[], false).end, End::Failed);
    }
}
