//! CBC 2.10 through good_lp.

use std::time::Instant;

use good_lp::solvers::SolutionStatus;
use good_lp::solvers::coin_cbc::coin_cbc;
use good_lp::{Expression, ProblemVariables, Solution, SolverModel, constraint, variable};

use super::scaled::{Raw, Scaled};
use super::{OBEYED, Options};

/// Solves a program, looking only for solutions below `cutoff`; to be called in the child only.
pub(super) fn solve(program: &Scaled, options: Options, cutoff: Option<f64>) -> Raw {
    let mut problem = ProblemVariables::new();
    let add = |column: &super::scaled::Column| {
        let var = variable().min(column.lower).max(column.upper);
        problem.add(if column.integer { var.integer() } else { var })
    };
    let vars: Vec<_> = program.columns.iter().map(add).collect();
    let mut objective = Expression::with_capacity(vars.len());
    for (column, &var) in program.columns.iter().zip(&vars).filter(|(column, _)| column.cost > 0.0) {
        objective.add_mul(column.cost, var);
    }
    let mut model = problem.minimise(objective).using(coin_cbc);
    model.set_parameter("seconds", &format!("{:.3}", options.limit.as_secs_f64() * OBEYED));
    model.set_parameter("timeMode", "elapsed");
    model.set_parameter("ratioGap", &options.gap.to_string());
    if options.as_it_is {
        model.set_parameter("preprocess", "off");
    }
    if let Some(cutoff) = cutoff {
        model.set_parameter("cutoff", &format!("{cutoff:.9}"));
        model.set_parameter("heuristicsOnOff", "off");
    }
    for row in &program.rows {
        let mut sum = Expression::with_capacity(row.terms.len());
        for &(index, coefficient) in &row.terms {
            sum.add_mul(coefficient, vars[index]);
        }
        model.add_constraint(constraint!(sum <= row.most));
    }
    // CBC that runs into its limit while it prepares a model may call it infeasible, or solved: not believed.
    let start = Instant::now();
    let answer = model.solve();
    let in_time = start.elapsed() < options.limit.mul_f64(OBEYED - 0.1);
    match answer {
        Ok(solution) if in_time || !matches!(solution.status(), SolutionStatus::Optimal) => {
            let raw = solution.model();
            let values = vars.iter().map(|&var| solution.value(var)).collect();
            match solution.status() {
                SolutionStatus::Optimal => Raw::Optimal { bound: raw.obj_value(), values },
                _ => Raw::Stopped { bound: raw.best_possible_value(), values },
            }
        }
        Err(good_lp::ResolutionError::Infeasible) if in_time => Raw::Infeasible,
        _ => Raw::Failed,
    }
}
