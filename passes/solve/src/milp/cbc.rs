//! CBC 2.10 through good_lp.

use ::coin_cbc::raw::{SecondaryStatus, Status};
use good_lp::solvers::coin_cbc::coin_cbc;
use good_lp::{Expression, ProblemVariables, SolverModel, constraint, variable};

use super::child::Spent;
use super::scaled::{Raw, Scaled};
use super::{OBEYED, Options, Way};
use crate::portfolio::clock::counted;

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
    model.set_parameter("timeMode", if counted::is_on() { "cpu" } else { "elapsed" });
    model.set_parameter("ratioGap", &options.gap.to_string());
    match options.way {
        Way::Usual => {}
        Way::WithoutGomory => model.set_parameter("gomoryCuts", "off"),
        Way::AsItIs => model.set_parameter("preprocess", "off"),
    }
    if let Some(nodes) = options.most_nodes {
        model.set_parameter("maxNodes", &nodes.to_string());
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
    let start = Spent::now();
    // Not good_lp's own `solve`, which tells nothing of a search that ran out of nodes.
    let answer = model.as_inner().solve();
    let (raw, in_time) = (answer.raw(), start.elapsed() < options.limit.mul_f64(OBEYED - 0.1));
    // Columns stand in the order in which they were added.
    let values = raw.col_solution().to_vec();
    match (raw.status(), raw.secondary_status()) {
        (Status::Abandoned | Status::UserEvent, _) => Raw::Failed,
        (_, SecondaryStatus::StoppedOnTime | SecondaryStatus::StoppedOnGap) => {
            Raw::Stopped { bound: raw.best_possible_value(), values }
        }
        (_, SecondaryStatus::StoppedOnNodes) => Raw::NodeLimit { bound: raw.best_possible_value(), values },
        _ if !in_time || raw.is_continuous_unbounded() => Raw::Failed,
        _ if raw.is_proven_infeasible() => Raw::Infeasible,
        (Status::Stopped, _) => Raw::Failed,
        _ => Raw::Optimal { bound: raw.obj_value(), values },
    }
}
