//! HiGHS, through its own crate: good_lp does not hand on the dual bound, which is what an unfinished solve is worth.

use highs::{Col, HighsModelStatus, RowProblem, Sense};

use super::scaled::{Raw, Scaled};
use super::{OBEYED, Options};

/// Solves a program; to be called in the child only.
pub(super) fn solve(program: &Scaled, options: Options) -> Raw {
    let mut problem = RowProblem::new();
    let add = |column: &super::scaled::Column| {
        let bounds = column.lower..=column.upper;
        problem.add_column_with_integrality(column.cost, bounds, column.integer)
    };
    let columns: Vec<Col> = program.columns.iter().map(add).collect();
    for row in &program.rows {
        problem.add_row(
            ..=row.most,
            row.terms.iter().map(|&(index, coefficient)| (columns[index], coefficient)),
        );
    }
    let Ok(mut model) = problem.try_optimise(Sense::Minimise) else { return Raw::Failed };
    model.make_quiet();
    model.set_option("threads", 1);
    model.set_option("time_limit", options.limit.as_secs_f64() * OBEYED);
    model.set_option("mip_rel_gap", options.gap);
    let Ok(solved) = model.try_solve() else { return Raw::Failed };
    let whole = program.columns.iter().any(|column| column.integer);
    let values = || solved.get_solution().columns().to_vec();
    match solved.status() {
        // With a gap that was allowed, the point may cost more than what is proven.
        HighsModelStatus::Optimal => Raw::Optimal {
            bound: if whole { dual_bound(&solved) } else { solved.objective_value() },
            values: values(),
        },
        // A linear program that is stopped has no bound.
        HighsModelStatus::ReachedTimeLimit | HighsModelStatus::ReachedMemoryLimit if whole => {
            Raw::Stopped { bound: dual_bound(&solved), values: values() }
        }
        HighsModelStatus::Infeasible => Raw::Infeasible,
        _ => Raw::Failed,
    }
}

/// What branch and bound has proven; minus infinity, or not a number, if nothing.
fn dual_bound(solved: &highs::SolvedModel) -> f64 {
    solved.double_info_value(c"mip_dual_bound").unwrap_or(f64::NEG_INFINITY)
}
